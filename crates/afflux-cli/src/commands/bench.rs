//! `afflux bench`: benchmarks, each under the same timing rule.

mod comm;
mod results;
mod sampling;
mod spawn;
mod storage;
mod worker;

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
    Comm(Box<comm::Comm>),
    Sampling(sampling::Sampling),
    Spawn(Box<spawn::Spawn>),
    Storage(storage::Storage),
    #[command(hide = true)]
    Worker(worker::Worker),
}

impl Bench {
    /// Runs the benchmark.
    pub fn run(&self) -> Result<(), Failure> {
        match &self.benchmark {
            Benchmark::Comm(comm) => comm.run(),
            Benchmark::Sampling(sampling) => sampling.run(),
            Benchmark::Spawn(spawn) => spawn.run(),
            Benchmark::Storage(storage) => storage.run(),
            Benchmark::Worker(worker) => worker.run(),
        }
    }
}
