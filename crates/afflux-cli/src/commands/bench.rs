//! `afflux bench`: benchmarks, each under the same timing rule.

mod sampling;
mod storage;

use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Measure Afflux and what else there is on this machine.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  afflux bench sampling --points 1024 --dir /scratch")]
pub struct Bench {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    Sampling(sampling::Sampling),
    Storage(storage::Storage),
}

impl Bench {
    /// Runs the benchmark.
    pub fn run(&self) -> Result<(), Failure> {
        match &self.benchmark {
            Benchmark::Sampling(sampling) => sampling.run(),
            Benchmark::Storage(storage) => storage.run(),
        }
    }
}
