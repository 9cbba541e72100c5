//! What is measured, and how often.

use super::mechanism::Mechanism;
use super::mpi::{MissingMpi, Mpi};
use super::placement::{Host, Placement};
use super::station::Begin;
use crate::helper::{Launcher, Program};
use crate::timing::Rule;
use std::fmt;
use std::time::Duration;

/// The two sides of a job that a launcher started, in whose rank 0 the benchmark runs.
#[derive(Clone)]
pub struct JobAgents {
    /// Its MPI, in short.
    pub mpi: String,
    /// The driving side of channels.
    pub driver: Begin,
    /// Their serving side.
    pub server: Begin,
    /// Both ranks, for MPI itself by the transport that the launcher has chosen.
    pub ranks: Begin,
}

impl fmt::Debug for JobAgents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("JobAgents").field("mpi", &self.mpi).finish_non_exhaustive()
    }
}

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// This program, for helpers on this machine.
    pub program: Program,
    /// The program on other machines.
    pub remote_program: Program,
    /// Starts it there.
    pub launcher: Launcher,
    /// Other machines.
    pub hosts: Vec<Host>,
    /// The job whose ranks are the two sides; helpers are, without.
    pub job: Option<JobAgents>,
    /// Mechanisms, in the order of the tables.
    pub mechanisms: Vec<Mechanism>,
    /// Placements, in order.
    pub placements: Vec<Placement>,
    /// The MPIs that can be measured.
    pub mpis: Vec<Mpi>,
    /// Those that cannot, for the record.
    pub missing_mpis: Vec<MissingMpi>,
    /// Bytes of the messages, each at least 1.
    pub sizes: Vec<usize>,
    /// Round trips of 1 byte in a sample.
    pub round_trips: u64,
    /// Warm-ups, repetitions, and how much time a mechanism may take for one figure.
    pub rule: Rule,
    /// How long a sample of a stream or of round trips of a size lasts, about.
    pub sample_seconds: f64,
    /// How long anything may take before it counts as hanging.
    pub patience: Duration,
    /// Rate of the link between the hosts, where the user knows it.
    pub link_bits_per_second: Option<f64>,
    /// The command line, for the record.
    pub command: String,
}

/// 1 B to 64 MiB in powers of four.
#[must_use]
pub fn sizes_of_the_source() -> Vec<usize> {
    (0..=13).map(|power| 4_usize.pow(power)).collect()
}

/// Round trips in which the source times one byte.
pub const ROUND_TRIPS_OF_THE_SOURCE: u64 = 10_000;
