//! The loop of a run: give away due rows, step, repeat; and now and then a checkpoint or a move of the borders between ranks.
//!
//! Step s of the output is the state after s time steps: a run of 350 steps gives the rows of steps 0 to 349, and leaves the
//! simulation at step 350, where a longer run would go on. A checkpoint at step s is taken when all rows before s are given
//! away and sealed: whoever restarts from it has the row of step s still to come.

use std::path::PathBuf;
use std::time::Instant;

use afflux::storage::PosixStorage;

use crate::checkpoint::{CheckpointError, check_writable};
use crate::error::RunError;
use crate::probes::Row;
use crate::simulation::Simulation;

/// Takes the rows of a run. One a rank.
pub trait Sampler {
    /// What can go wrong.
    type Error: std::error::Error + 'static;

    /// Takes this rank's row of a set (by its index in the model) at a step; called in order of step, then set, once for
    /// every step that the cadence of the set divides, on every rank.
    fn append(&mut self, set: usize, step: u64, time_s: f64, row: &Row) -> Result<(), Self::Error>;

    /// Collective: keeps all rows given so far for good; called before the solver's own checkpoint is written, so that a
    /// restart from it never leaves a hole. Does nothing unless implemented.
    fn seal(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Whether the run is to end now, because somebody asked for it; the same on all ranks at the same step. Asked behind the
    /// rows of every step.
    fn is_ended(&self) -> bool {
        false
    }

    /// Collective: from now on rows have the points that [`Simulation::probes`] tells. Does nothing unless implemented.
    fn rebalance(&mut self, simulation: &Simulation<'_>) -> Result<(), Self::Error> {
        let _ = simulation;
        Ok(())
    }
}

/// How to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// Stop at this step, instead of where the model says.
    pub steps: Option<u64>,
    /// Give rows to the sampler; else only step (to measure what sampling costs).
    pub sampling: bool,
    /// Write checkpoints.
    pub checkpoint: Option<CheckpointOptions>,
    /// Move the borders between the ranks' boxes every so many steps, as a load balancer would ([`Simulation::move_borders`]).
    pub rebalance_every: Option<u64>,
}

/// When and where checkpoints are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// At every step that is a multiple of this.
    pub every: u64,
    /// The file; each checkpoint takes the place of the one before.
    pub path: PathBuf,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { steps: None, sampling: true, checkpoint: None, rebalance_every: None }
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Steps done.
    pub step: u64,
    /// Steps in all.
    pub steps: u64,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunReport {
    /// Time steps made.
    pub steps: u64,
    /// Cells of the whole grid.
    pub cells: u64,
    /// Wall time on this rank, seconds, sampling included.
    pub seconds: f64,
    /// Of that, in the sampler.
    pub sampling_seconds: f64,
    /// Rows that this rank gave to the sampler.
    pub rows: u64,
    /// Bytes of sample values in them.
    pub sample_bytes: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Wall time on this rank for writing them, seconds.
    pub checkpoint_seconds: f64,
    /// The step at which the sampler ended the run before its time; its row is given, and a restart goes on from it.
    pub ended_at: Option<u64>,
    /// Moves of the borders between ranks.
    pub moves: u64,
    /// Wall time on this rank for moving fields, seconds.
    pub move_seconds: f64,
}

impl RunReport {
    /// Cells of the whole grid updated a second.
    #[must_use]
    pub fn cells_per_second(&self) -> f64 {
        self.cells as f64 * self.steps as f64 / self.seconds
    }
}

/// Collective: runs a simulation from its present step to the end, giving the rows of all sets to `sampler`. `progress` is
/// called after every step.
pub fn run<S: Sampler>(
    simulation: &mut Simulation<'_>,
    sampler: &mut S,
    options: &RunOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<RunReport, RunError<S::Error>> {
    check(simulation, options)?;
    run_checked(simulation, sampler, options, progress)
}

/// Collective: what can be found out before the first step, and before any file is made.
pub(crate) fn check(simulation: &Simulation<'_>, options: &RunOptions) -> Result<(), CheckpointError> {
    match &options.checkpoint {
        None => Ok(()),
        Some(checkpoint) => check_writable(simulation.comm(), &PosixStorage::new(), &checkpoint.path),
    }
}

/// Collective: [`run`] behind its [`check`].
pub(crate) fn run_checked<S: Sampler>(
    simulation: &mut Simulation<'_>,
    sampler: &mut S,
    options: &RunOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<RunReport, RunError<S::Error>> {
    let start = Instant::now();
    let steps = options.steps.unwrap_or(simulation.model().steps);
    let mut rows = Rows::new(simulation);
    let mut report = RunReport {
        steps: 0,
        cells: simulation.grid().cell_count(),
        seconds: 0.0,
        sampling_seconds: 0.0,
        rows: 0,
        sample_bytes: 0,
        checkpoints: 0,
        checkpoint_seconds: 0.0,
        ended_at: None,
        moves: 0,
        move_seconds: 0.0,
    };
    while simulation.step_index() < steps {
        if options.sampling {
            let begin = Instant::now();
            rows.give(simulation, sampler, &mut report)?;
            report.sampling_seconds += begin.elapsed().as_secs_f64();
            if sampler.is_ended() {
                report.ended_at = Some(simulation.step_index());
                if let Some(checkpoint) = &options.checkpoint {
                    save(simulation, sampler, options, checkpoint, &mut report)?;
                }
                break;
            }
        }
        simulation.step()?;
        report.steps += 1;
        let step = simulation.step_index();
        if let Some(checkpoint) = &options.checkpoint
            && step.is_multiple_of(checkpoint.every)
        {
            save(simulation, sampler, options, checkpoint, &mut report)?;
        }
        if let Some(every) = options.rebalance_every
            && step.is_multiple_of(every)
            && step < steps
        {
            let begin = Instant::now();
            let moved = simulation.move_borders(step / every)?;
            report.move_seconds += begin.elapsed().as_secs_f64();
            if moved {
                report.moves += 1;
                rows = Rows::new(simulation);
                sampler_call(options, &mut report, step, || sampler.rebalance(simulation))?;
            }
        }
        progress(Progress { step, steps });
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Seals the samples, then writes the checkpoint: a kill in between leaves an older checkpoint and rows that are replayed.
fn save<S: Sampler>(
    simulation: &Simulation<'_>,
    sampler: &mut S,
    options: &RunOptions,
    checkpoint: &CheckpointOptions,
    report: &mut RunReport,
) -> Result<(), RunError<S::Error>> {
    sampler_call(options, report, simulation.step_index(), || sampler.seal())?;
    let saved = simulation.save(&PosixStorage::new(), &checkpoint.path)?;
    report.checkpoints += 1;
    report.checkpoint_seconds += saved.seconds;
    Ok(())
}

/// A call of the sampler besides its rows, where there is sampling.
fn sampler_call<E: std::error::Error + 'static>(
    options: &RunOptions,
    report: &mut RunReport,
    step: u64,
    call: impl FnOnce() -> Result<(), E>,
) -> Result<(), RunError<E>> {
    if !options.sampling {
        return Ok(());
    }
    let begin = Instant::now();
    call().map_err(|source| RunError::Sampler { step, source })?;
    report.sampling_seconds += begin.elapsed().as_secs_f64();
    Ok(())
}

/// A row for each set, filled again and again.
struct Rows {
    /// Indexed by set.
    rows: Vec<Row>,
    /// Bytes of the values of each.
    bytes: Vec<u64>,
}

impl Rows {
    /// Rows of the right shape for the points that this rank has now.
    fn new(simulation: &Simulation<'_>) -> Self {
        let rows: Vec<Row> = (0..simulation.model().probes.len()).map(|set| simulation.empty_row(set)).collect();
        let bytes_of = |row: &Row| row.columns.iter().map(|column| column.bytes() as u64).sum();
        let bytes = rows.iter().map(bytes_of).collect();
        Self { rows, bytes }
    }

    /// Gives the rows that are due at the present step.
    fn give<S: Sampler>(
        &mut self,
        simulation: &Simulation<'_>,
        sampler: &mut S,
        report: &mut RunReport,
    ) -> Result<(), RunError<S::Error>> {
        let step = simulation.step_index();
        let sets = simulation.model().probes.iter().zip(&mut self.rows).zip(&self.bytes).enumerate();
        for (set, ((_, row), bytes)) in sets.filter(|(_, ((model, _), _))| step.is_multiple_of(model.every)) {
            simulation.sample(set, row);
            sampler.append(set, step, simulation.time(), row).map_err(|source| RunError::Sampler { step, source })?;
            report.rows += 1;
            report.sample_bytes += bytes;
        }
        Ok(())
    }
}
