//! The FDTD solver with its samples going into an Afflux file: what `demo` and `fdtd` share.

use crate::failure::Failure;
use crate::report::{Run, RunReport};
use afflux::comm::Communicator;
use afflux_fdtd::{Model, Progress, RecordError, RecordOptions, RunOptions, Sampler, Simulation, record};
use std::time::Instant;

/// Collective: runs a model and writes its probes; without `output` nothing is sampled. The report on rank 0, else `None`.
/// `progress` is told the steps done, on every rank.
pub fn run(
    model: &Model,
    comm: &dyn Communicator,
    output: Option<&RecordOptions>,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<RunReport>, Failure> {
    let start = Instant::now();
    let mut simulation = Simulation::new(model, comm).map_err(Failure::failed)?;
    let mut tell = |now: Progress| progress(now.step);
    let Some(output) = output else {
        let options = RunOptions { sampling: false, ..RunOptions::default() };
        afflux_fdtd::run(&mut simulation, &mut Nowhere, &options, &mut tell).map_err(Failure::failed)?;
        return Ok(None);
    };
    let recorded = record(&mut simulation, output, &mut tell).map_err(|error| match error {
        RecordError::Open(error) => Failure::open(&error),
        error => Failure::failed(error),
    })?;
    Ok((comm.rank() == 0).then(|| {
        let run = Run {
            file: &output.path,
            points: (0..model.probes.len()).map(|set| simulation.probes(set).placed_count).sum(),
            steps: recorded.run.steps,
            ranks: comm.size(),
            backend: comm.backend(),
            seconds_total: start.elapsed().as_secs_f64(),
            seconds_sampling: recorded.open_seconds + recorded.run.sampling_seconds + recorded.close_seconds,
            warnings: recorded.warnings,
        };
        RunReport::new(run, &recorded.statistics)
    }))
}

/// For runs without sampling, which never get here.
struct Nowhere;

impl Sampler for Nowhere {
    type Error = std::convert::Infallible;

    fn append(&mut self, _: usize, _: u64, _: f64, _: &afflux_fdtd::Row) -> Result<(), Self::Error> {
        Ok(())
    }
}
