//! The FDTD solver with its samples going into an Afflux file: what `demo` and `fdtd` share.

use crate::failure::Failure;
use crate::report::{Run, RunReport};
use afflux::Existing;
use afflux::comm::Communicator;
use afflux::storage::PosixStorage;
use afflux_fdtd::{
    CheckpointError, Model, Progress, RecordError, RecordOptions, RunError, RunOptions, SampleError, Sampler,
    Simulation, record,
};
use std::path::Path;
use std::time::Instant;

/// What is to be solved, and where the results go.
#[derive(Debug, Clone)]
pub enum Output {
    /// Into a file.
    File(RecordOptions),
    /// Nowhere: nothing is sampled.
    Nowhere(RunOptions),
}

/// A run that is over, as rank 0 saw it.
#[derive(Debug)]
pub struct Solved {
    /// What was written; `None` where nothing was sampled.
    pub report: Option<RunReport>,
    /// The step at which the run began.
    pub step_first: u64,
    /// Time steps made.
    pub steps: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// The step at which a signal ended it.
    pub ended_at: Option<u64>,
    /// Moves of the borders between ranks.
    pub moves: u64,
    /// Ranks.
    pub ranks: usize,
    /// Wall time, seconds.
    pub seconds: f64,
}

/// Collective: runs a model, from a checkpoint where one is given. What it did on rank 0, else `None`. `progress` is told the
/// steps done, on every rank.
pub fn run(
    model: &Model,
    comm: &dyn Communicator,
    checkpoint: Option<&Path>,
    output: &Output,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<Solved>, Failure> {
    let start = Instant::now();
    let mut simulation = match checkpoint {
        None => Simulation::new(model, comm).map_err(Failure::failed)?,
        Some(path) => Simulation::restart(model, comm, &PosixStorage::new(), path).map_err(|error| at_fault(&error))?,
    };
    let step_first = simulation.step_index();
    let mut tell = |now: Progress| progress(now.step);
    let (run, report) = match output {
        Output::Nowhere(options) => {
            let options = RunOptions { sampling: false, ..options.clone() };
            let run = afflux_fdtd::run(&mut simulation, &mut Nowhere, &options, &mut tell).map_err(Failure::failed)?;
            (run, None)
        }
        Output::File(options) => {
            let recorded = record(&mut simulation, options, &mut tell).map_err(|error| match error {
                RecordError::Open(error) => Failure::open(&options.path, &error),
                RecordError::Run(RunError::Checkpoint(error)) => at_fault(&error),
                RecordError::Run(RunError::Sampler { source: SampleError::Append(error), .. }) => {
                    Failure::append(&options.path, &error)
                }
                error => Failure::in_file(&options.path, error),
            })?;
            let of_file = Run {
                file: &options.path,
                points: (0..model.probes.len()).map(|set| simulation.probes(set).placed_count).sum(),
                steps: recorded.run.steps,
                ranks: comm.size(),
                backend: comm.backend(),
                seconds_total: start.elapsed().as_secs_f64(),
                seconds_sampling: recorded.open_seconds + recorded.run.sampling_seconds + recorded.close_seconds,
                resumed: matches!(options.existing, Existing::Resume(_)),
                ended_by_signal: recorded.run.ended_at.is_some(),
                warnings: recorded.warnings,
            };
            (recorded.run, Some(RunReport::new(of_file, &recorded.statistics)))
        }
    };
    let solved = Solved {
        report,
        step_first,
        steps: run.steps,
        checkpoints: run.checkpoints,
        ended_at: run.ended_at,
        moves: run.moves,
        ranks: comm.size(),
        seconds: start.elapsed().as_secs_f64(),
    };
    Ok((comm.rank() == 0).then_some(solved))
}

/// A damaged checkpoint is a damaged file.
fn at_fault(error: &CheckpointError) -> Failure {
    if error.is_damage() { Failure::damaged(error) } else { Failure::failed(error) }
}

/// For runs without sampling, which never get here.
struct Nowhere;

impl Sampler for Nowhere {
    type Error = std::convert::Infallible;

    fn append(&mut self, _: usize, _: u64, _: f64, _: &afflux_fdtd::Row) -> Result<(), Self::Error> {
        Ok(())
    }
}
