//! `bench spawn`: what it takes to start a process, from the call to its first byte.
//!
//! After the method of Johnston et al. (2006), which the source repeats: `fork`, RPC to a waiting server, rsh, ssh, MPI-2's spawn. A
//! [`spawner`] process calls and times, one child or several [at once](spawner::Request::at_once); [`server`] is what the RPC reaches;
//! [`mpi`] what is asked of a job. Children that fail or say nothing in time are counted, and nothing waits for ever.

pub mod method;
pub mod mpi;
pub mod page;
pub mod record;
mod run;
pub mod server;
pub mod source_tables;
pub mod spawner;
pub mod tables;

pub use method::Method;
pub use record::{Measured, Record};
pub use run::{Options, Progress, run};
