//! One result: a test in a directory, by one tool.

use super::Options;
use super::place::Place;
use super::sample::Sample;
use super::test::Test;
use crate::host::{FileSystem, Host};
use crate::timing::Summary;
use serde::Serialize;

/// What was measured. The keys are a contract with scripts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// `storage`.
    pub benchmark: &'static str,
    /// Which test.
    pub test: Test,
    /// `afflux` or `fio`.
    pub tool: &'static str,
    /// Where.
    pub directory: String,
    /// What that is called.
    pub label: String,
    /// Its file system, device and mount options.
    pub file_system: FileSystem,
    /// Room that was left.
    pub free_bytes: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Length of a transfer; 0 where there are none.
    pub block_bytes: u64,
    /// Transfers, or files.
    pub operations: u64,
    /// Whether the page cache was passed by.
    pub direct: bool,
    /// Whether data were made durable inside the time.
    pub fsync: bool,
    /// Times the files were read, in the scratch load.
    pub passes: Option<u32>,
    /// Computing between reads, in the scratch load.
    pub compute_ms_per_mib: Option<f64>,
    /// Elapsed time.
    #[serde(flatten)]
    pub time: Summary,
    /// Runs before those.
    pub warmups: usize,
    /// Of the run nearest the median: time in user mode.
    pub user_seconds: f64,
    /// In the kernel.
    pub system_seconds: f64,
    /// Elapsed less both.
    pub idle_seconds: f64,
    /// Bytes that came from the device.
    pub device_read_bytes: u64,
    /// Bytes that were, or are to be, written to it.
    pub device_written_bytes: u64,
    /// `bytes` over the median.
    pub bytes_per_second: f64,
    /// `operations` over the median.
    pub operations_per_second: f64,
    /// Where.
    pub host: Host,
    /// How.
    pub command: String,
}

impl Measurement {
    /// Puts the counted samples of a test together; there is one at least.
    pub(super) fn new(
        test: Test,
        tool: &'static str,
        (place, label): (&Place, &str),
        samples: &[Sample],
        options: &Options,
        host: &Host,
    ) -> Option<Self> {
        let seconds: Vec<f64> = samples.iter().map(|sample| sample.elapsed_seconds).collect();
        let time = Summary::new(&seconds)?;
        let typical = samples[time.typical_index()];
        let is_scratch = matches!(test, Test::Scratch(_));
        let block_bytes = match test {
            Test::Create | Test::Stat | Test::Unlink => 0,
            _ if test.counts_operations() => super::work::SMALL_BYTES as u64,
            _ => options.block_bytes as u64,
        };
        Some(Self {
            benchmark: "storage",
            test,
            tool,
            directory: place.directory.display().to_string(),
            label: label.to_owned(),
            file_system: place.file_system.clone(),
            free_bytes: place.free_bytes(),
            bytes: typical.bytes,
            block_bytes,
            operations: typical.operations,
            direct: test.is_direct(),
            fsync: test.has_fsync(),
            passes: is_scratch.then_some(options.passes),
            compute_ms_per_mib: is_scratch.then_some(options.compute_ms_per_mib),
            bytes_per_second: typical.bytes as f64 / time.seconds_median,
            operations_per_second: typical.operations as f64 / time.seconds_median,
            time,
            warmups: options.rule.warmups,
            user_seconds: typical.user_seconds,
            system_seconds: typical.system_seconds,
            idle_seconds: typical.elapsed_seconds - typical.user_seconds - typical.system_seconds,
            device_read_bytes: typical.device_read_bytes,
            device_written_bytes: typical.device_written_bytes,
            host: host.clone(),
            command: options.command.clone(),
        })
    }
}

/// A test that a file system refused: a row as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// `storage`.
    pub benchmark: &'static str,
    /// Which test.
    pub test: Test,
    /// `afflux` or `fio`.
    pub tool: &'static str,
    /// Where.
    pub directory: String,
    /// What that is called.
    pub label: String,
    /// On which file system.
    pub file_system: FileSystem,
    /// Why there is no figure.
    pub missing: String,
}

/// A row of the results.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// There is a figure.
    Measured(Box<Measurement>),
    /// There is none.
    Missing(Missing),
}

impl Outcome {
    /// The test.
    #[must_use]
    pub fn test(&self) -> Test {
        match self {
            Self::Measured(measurement) => measurement.test,
            Self::Missing(missing) => missing.test,
        }
    }
}
