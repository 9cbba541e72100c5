//! One result: what was measured, how, where. Each is one line of JSON.

use super::phases::Phases;
use super::{Method, Owners};
use crate::host::{FileSystem, Host};
use crate::timing::Summary;
use serde::Serialize;

/// The time of one method in one configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// Always `sampling`.
    pub benchmark: &'static str,
    /// The method.
    pub method: Method,
    /// Points in all.
    pub points: u64,
    /// Ranks that sampled.
    pub ranks: usize,
    /// What carried messages between ranks: `threads`, `mpi`, `self`.
    pub backend: &'static str,
    /// Which MPI, where there was one.
    pub mpi_version: Option<String>,
    /// Who owned which point.
    pub owners: Owners,
    /// Steps, every one sampled.
    pub steps: u64,
    /// Steps between flushes, for methods with a window.
    pub window: u64,
    /// Bytes of the samples.
    pub bytes: u64,
    /// Median, minimum, percentile and samples: times of the slowest rank from before creation until after closing.
    #[serde(flatten)]
    pub time: Summary,
    /// Runs before those, not counted.
    pub warmups: usize,
    /// `bytes` over the median.
    pub bytes_per_second: f64,
    /// Where the time of the run nearest the median went; each phase on the rank that spent most in it.
    pub phases: Phases,
    /// Whether the files were read back and found right.
    pub verified: bool,
    /// Whether the time includes reaching the medium: never here.
    pub fsync: bool,
    /// Where the files were.
    pub file_system: FileSystem,
    /// The machine of rank 0.
    pub host: Host,
    /// The command line.
    pub command: String,
}
