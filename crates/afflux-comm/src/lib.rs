//! Ranks and messages.
//!
//! One trait, [`Communicator`], and two adapters: [`threads`] (ranks in one process) and `mpi` (Open MPI, MPICH; feature
//! `mpi`). This crate is the only one that names MPI. It knows nothing of files, plans or samples.
//!
//! A communicator handle belongs to one thread: the trait asks for no `Send`, and under MPI `MPI_THREAD_FUNNELED` is
//! enough. Every method marked *collective* must be called by all ranks of the communicator in the same order.
//!
//! [`SelfCommunicator`] is a rank alone, [`agree`] gives all ranks one verdict, [`launch`] refuses a start under the
//! wrong launcher, and [`conformance`] is the suite that every adapter passes.
//!
//! # When a rank dies
//!
//! | what happens to one rank | threads | Open MPI 4.1.4 | MPICH 4.0.2 |
//! |---|---|---|---|
//! | it panics | the others get [`CommError::PeerLeft`]; `run` passes the panic on after all have ended | our handles call `MPI_Abort`: the job ends with code 101 | the same |
//! | it is killed or aborts | the process ends | `mpirun` ends the others by SIGTERM and SIGKILL, exit code 128 + signal | `mpirun` ends the others, exit code is the signal |
//! | it returns while others wait for it | the others get [`CommError::PeerLeft`] | it waits in `MPI_Finalize`, the others in their call: a stall | the same |
//!
//! Deaths were measured by `afflux-comm-conformance` (`die`, `panic`, `leave`), which `tests/mpi.rs` repeats: under neither MPI
//! did a survivor return from the call in which it waited. So no code above may count on running after the death of
//! another rank: what must survive is on disk before. A host program that gave us its own communicator keeps its
//! handling of panics; we abort only an MPI that we started.
//!
//! A rank that leaves early is a mistake of the program; [`agree`] exists so that all ranks leave a failing call
//! together. Whoever waits longer than `AFFLUX_STALL_WARNING_SECONDS` (default 60, 0 for never) says so on standard
//! error. Thread ranks, and MPI ranks in a small collective within one node, name the ranks they wait for; other waits of MPI
//! ranks name only the call, for MPI does not tell who is missing.
//!
//! # Ranks that disagree
//!
//! Thread ranks compare call, call number, root, element count and operations in every collective, and all get
//! [`CommError::Mismatch`]. Under MPI only the operations of a reduction and the lengths of an exchange are compared (and
//! within one node the calls of those ranks whose messages this one reads); other disagreements stall, or are errors of MPI.

pub mod agree;
mod alone;
mod bytes;
mod check;
mod communicator;
pub mod conformance;
mod error;
mod gate;
pub mod launch;
#[cfg(feature = "mpi")]
pub mod mpi;
mod node_memory;
mod stall;
pub mod threads;

pub use alone::SelfCommunicator;
pub use communicator::{Communicator, NodeMap, PendingReduce, Received, Reduce, ReduceOp};
pub use error::CommError;
pub use gate::Gate;
pub use node_memory::NodeMemory;
