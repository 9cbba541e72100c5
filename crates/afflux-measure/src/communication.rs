//! `bench comm`: what it costs to carry bytes from one process to another.
//!
//! After the method of Johnston, Fleury, Lincoln and Downton (Cluster Computing 9, 2006), which the source repeats: two processes, three
//! placements, one byte back and forth 10,000 times, and bandwidth over the size of the messages, for every mechanism that the machine
//! has. [`run`](run()) measures; [`agent`]s are the two processes, [`channel`] the mechanisms between them, [`burst`] what is timed, [`sampler`] the
//! timing rule, [`record`] a result. [`loggp`] fits a model, [`ranking`] gives the source's index, [`tables`] and [`page`] show
//! results to people, and [`source_tables`] puts them into the form of the source's tables.

pub mod agent;
pub mod burst;
pub mod channel;
mod in_process;
mod lane;
#[cfg(feature = "mpi")]
pub mod launched;
pub mod loggp;
pub mod mechanism;
pub mod mpi;
#[cfg(feature = "mpi")]
pub mod mpi_agent;
mod options;
pub mod page;
pub mod placement;
pub mod ranking;
pub mod record;
pub mod rpc;
mod run;
pub mod sampler;
pub mod source_tables;
pub mod station;
pub mod tables;

pub use lane::{AGENT_ROLE, MPI_ROLE};
pub use mechanism::Mechanism;
pub use options::{JobAgents, Options, ROUND_TRIPS_OF_THE_SOURCE, sizes_of_the_source};
pub use placement::{Host, Placement};
pub use record::{Measured, Record};
pub use run::{Progress, run};
