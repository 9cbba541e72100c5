//! Ranks and messages.
//!
//! One trait, [`Communicator`], and two adapters: [`threads`] (ranks in one process) and `mpi` (Open MPI, MPICH; feature
//! `mpi`). This crate is the only one that names MPI. It knows nothing of files, plans or samples.
//!
//! A communicator handle belongs to one thread: the trait asks for no `Send`, and under MPI `MPI_THREAD_FUNNELED` is
//! enough. Every method marked *collective* must be called by all ranks of the communicator in the same order.
//!
//! [`SelfCommunicator`] is a rank alone, [`agree`] gives all ranks one verdict, [`launch`] refuses a start under the
//! wrong launcher, [`CountingCommunicator`] and [`FaultyCommunicator`] stand around another one in tests, and
//! [`conformance`] is the suite that every adapter passes.
//!
//! # When a rank dies
//!
//! | what happens to one rank | threads | Open MPI 4.1.4 | MPICH 4.0.2 |
//! |---|---|---|---|
//! | it panics | the others get [`CommError::PeerLeft`]; `run` passes the panic on after all have ended | our handles call `MPI_Abort`: the job ends with code 101 | the same |
//! | it is killed or aborts | the process ends | `mpirun` ends the others by SIGTERM and SIGKILL, exit code 128 + signal | `mpirun` ends the others, exit code is the signal |
//! | it returns while others wait for it | the others get [`CommError::PeerLeft`] | the same, on several nodes after half of `AFFLUX_STALL_WARNING_SECONDS` | the same |
//!
//! Deaths were measured by `afflux-comm-conformance` (`die`, `panic`, `leave`), which `tests/mpi.rs` repeats: under neither MPI
//! did a survivor return from the call in which it waited. So no code above may count on running after the death of
//! another rank: what must survive is on disk before. A host program that gave us its own communicator keeps its
//! handling of panics; we abort only an MPI that we started.
//!
//! A rank that leaves early is a mistake of the program; [`agree`] exists so that all ranks leave a failing call
//! together. Whoever waits longer than `AFFLUX_STALL_WARNING_SECONDS` (default 60, 0 for never) says on standard error for
//! whom. Thread ranks, and MPI ranks on one node, know; on several nodes they ask each other when half that time is over:
//! rank 0 names those who are not in the call, the others rank 0 or those whose messages they miss.
//!
//! # When a call fails
//!
//! An error on one rank spends the communicator for all (communicators made from it before are not touched). A rank that
//! will not make the calls that others wait for, for a cause of its own, says so with [`Communicator::fail`]. Every rank
//! gets [`CommError::Mismatch`] where the failure is a disagreement, [`CommError::PeerLeft`] where a rank dropped its handle,
//! else [`CommError::PeerFailed`] with the message, in the call that it is in or in its next.
//!
//! - *Threads*: at once. What others have lent to an exchange is taken back first.
//! - *MPI, all ranks on one node*: within some milliseconds.
//! - *MPI on several nodes*: as soon as the message of the failure has come; that a rank has left or is in another call is
//!   found out when others have waited for half of `AFFLUX_STALL_WARNING_SECONDS` (never, where that is 0) and the rank waits in
//!   a call, drops the communicator or ends.
//!
//! Under MPI a message that a rank waits for is taken back, and collective calls of MPI are left under way, with copies of
//! what is the caller's. A message that a rank sends and nobody takes cannot be taken back in either library: unless it
//! goes within a second the job ends with a message on standard error and exit code 70.
//!
//! [`FaultyCommunicator`] makes any call or message fail, so that the layers above can be tried for every one of them.
//!
//! # Ranks that disagree
//!
//! Call, root and element count are compared in every collective call, by its number, and so are the operations of
//! reductions and the lengths of exchanges; all ranks get [`CommError::Mismatch`], which names two that differ. Thread ranks
//! are compared as they enter, MPI ranks on one node as they enter or when one has waited for a millisecond. On several
//! nodes what ranks send each other in a collective call says which call it is of; a rank that finds another there asks where
//! the others are, and says only that much where nobody answers within a second.

pub mod agree;
mod alone;
mod bytes;
mod check;
mod communicator;
pub mod conformance;
mod counting;
mod delegate;
mod error;
mod faulty;
mod futex;
mod gate;
mod intercept;
pub mod launch;
#[cfg(feature = "mpi")]
pub mod mpi;
mod node_memory;
mod stall;
pub mod threads;

pub use alone::SelfCommunicator;
pub use communicator::{Communicator, NodeMap, PendingReduce, Received, Reduce, ReduceOp};
pub use counting::{CommCounter, CommCounts, CountingCommunicator};
pub use error::CommError;
pub use faulty::{CommFault, CommFaults, CommTarget, FaultyCommunicator};
pub use gate::Gate;
pub use intercept::{CommOperation, Intercepted, InterceptedCommunicator, Interceptor};
pub use node_memory::NodeMemory;
