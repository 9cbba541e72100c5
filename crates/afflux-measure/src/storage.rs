//! `afflux bench storage`: what a directory's file system and device do for scratch files.
//!
//! Sequential and random transfers with and without the page cache, metadata, fsync, and the load of source 003's quantum
//! chemistry jobs: scratch files written once and read some fifteen times with computing between. Every figure comes with user, system
//! and idle time, since that is how file systems differ there, and with the bytes that reached the device, since a figure
//! without device is one of the page cache.
//!
//! [`run`] measures, [`source`] holds the source's own table and the model fitted to it. Directories take turns within every
//! test, by the timing rule.

mod fio;
mod measurement;
mod place;
mod run;
mod sample;
pub mod source;
mod summary;
mod test;
mod work;

pub use measurement::{Measurement, Missing, Outcome};
pub use run::{Progress, run};
pub use summary::{page, table};
pub use test::{ScratchJob, Test};

use crate::helper::Program;
use crate::janitor::JanitorError;
use crate::timing::Rule;
use std::path::PathBuf;

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Existing directories, one on each file system to compare.
    pub directories: Vec<PathBuf>,
    /// What they are called; empty for the device's name, else as many as directories.
    pub labels: Vec<String>,
    /// Tests, in this order.
    pub tests: Vec<Test>,
    /// Length of the files of the sequential and random tests, a multiple of the block.
    pub size_bytes: u64,
    /// Scratch of the large job; the small ones keep the source's proportions to it.
    pub scratch_bytes: u64,
    /// Length of sequential transfers, a multiple of 4 KiB.
    pub block_bytes: usize,
    /// Times the scratch load reads its files.
    pub passes: u32,
    /// Computing between two reads of the scratch load, in milliseconds of processor time per MiB read.
    pub compute_ms_per_mib: f64,
    /// Random transfers and files of the metadata tests.
    pub operations: u64,
    /// Appends with fsync.
    pub fsync_operations: u64,
    /// Also run fio, where it can do the same.
    pub fio: bool,
    /// This program, for a [janitor](crate::janitor) that removes the files when the benchmark is killed; without, they stay then.
    pub program: Option<Program>,
    /// How often.
    pub rule: Rule,
    /// The command line, for the results.
    pub command: String,
}

impl Options {
    /// The usual tests on files of 256 MiB.
    #[must_use]
    pub fn new(directories: Vec<PathBuf>) -> Self {
        Self {
            directories,
            labels: Vec::new(),
            tests: Test::usual(),
            size_bytes: 256 << 20,
            scratch_bytes: 256 << 20,
            block_bytes: 1 << 20,
            passes: 15,
            compute_ms_per_mib: 1.0,
            operations: 1000,
            fsync_operations: 50,
            fio: false,
            program: None,
            rule: Rule::default(),
            command: String::new(),
        }
    }

    fn check(&self) -> Result<(), StorageError> {
        let refuse = |what: String| Err(StorageError::Options(what));
        if self.directories.is_empty() {
            return refuse("no directory is given".to_owned());
        }
        if !self.labels.is_empty() && self.labels.len() != self.directories.len() {
            return refuse(format!("{} labels for {} directories", self.labels.len(), self.directories.len()));
        }
        let block = self.block_bytes;
        if block == 0 || !block.is_multiple_of(place::DIRECT_ALIGNMENT_BYTES) {
            return refuse(format!("the block of {block} bytes is no multiple of 4,096"));
        }
        for (what, bytes) in [("file", self.size_bytes), ("scratch", self.scratch_bytes)] {
            if bytes == 0 || !bytes.is_multiple_of(block as u64) {
                return refuse(format!("the {what} size of {bytes} bytes is no multiple of the block's {block}"));
            }
        }
        if self.operations == 0 || self.fsync_operations == 0 {
            return refuse("no operations are asked for".to_owned());
        }
        Ok(())
    }
}

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The options do not fit together.
    #[error("{0}")]
    Options(String),
    /// There is not enough room.
    #[error("{directory}: {free_bytes} bytes are free, {needed_bytes} are needed; take a smaller --size or --scratch-size", directory = directory.display())]
    Space {
        /// Where.
        directory: PathBuf,
        /// What there is.
        free_bytes: u64,
        /// What it would take.
        needed_bytes: u64,
    },
    /// The file system refused something.
    #[error("{directory}: cannot {what}: {source}", directory = directory.display())]
    Io {
        /// What was to be done.
        what: &'static str,
        /// Where.
        directory: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Data came back different from how they were written.
    #[error("{directory}: what was read at offset {offset} is not what was written there", directory = directory.display())]
    Wrong {
        /// Where.
        directory: PathBuf,
        /// In the file, in bytes.
        offset: u64,
    },
    /// The process that is to remove the files cannot be had.
    #[error(transparent)]
    Janitor(#[from] JanitorError),
    /// fio failed.
    #[error("fio: {0}")]
    Fio(String),
}

impl StorageError {
    /// Whether the file system does not know the way of access, which is a result rather than a fault.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        use std::io::ErrorKind::{InvalidInput, Unsupported};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), InvalidInput | Unsupported))
    }
}
