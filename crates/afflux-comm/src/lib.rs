//! Ranks and messages.
//!
//! One trait, [`Communicator`], and two adapters: [`threads`] (ranks in one process) and `mpi` (Open MPI, MPICH; feature
//! `mpi`). This crate is the only one that names MPI. It knows nothing of files, plans or samples.
//!
//! A communicator handle belongs to one thread: the trait asks for no `Send`, and under MPI `MPI_THREAD_FUNNELED` is
//! enough. Every method marked *collective* must be called by all ranks of the communicator in the same order.

pub mod agree;
mod alone;
mod bytes;
mod check;
mod communicator;
pub mod conformance;
mod error;
pub mod launch;
#[cfg(feature = "mpi")]
pub mod mpi;
mod stall;
pub mod threads;

pub use alone::SelfCommunicator;
pub use communicator::{Communicator, NodeMap, Received, Reduce, ReduceOp};
pub use error::CommError;
