//! The loop of a run: give away due rows, step, repeat.
//!
//! Step s of the output is the state after s time steps: a run of 350 steps gives the rows of steps 0 to 349, and leaves the
//! simulation at step 350, where a longer run would go on.

use std::time::Instant;

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
}

/// How to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// Stop at this step, instead of where the model says.
    pub steps: Option<u64>,
    /// Give rows to the sampler; else only step (to measure what sampling costs).
    pub sampling: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { steps: None, sampling: true }
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
    let steps = options.steps.unwrap_or(simulation.model().steps);
    let cadences: Vec<u64> = simulation.model().probes.iter().map(|set| set.every).collect();
    let mut rows: Vec<Row> = (0..cadences.len()).map(|set| simulation.empty_row(set)).collect();
    let row_bytes: Vec<usize> = rows.iter().map(|row| row.columns.iter().map(|column| column.bytes()).sum()).collect();
    let mut report = RunReport {
        steps: 0,
        cells: simulation.grid().cell_count(),
        seconds: 0.0,
        sampling_seconds: 0.0,
        rows: 0,
        sample_bytes: 0,
    };
    let start = Instant::now();
    while simulation.step_index() < steps {
        let step = simulation.step_index();
        if options.sampling {
            let sampling_start = Instant::now();
            for (set, row) in rows.iter_mut().enumerate().filter(|(set, _)| step.is_multiple_of(cadences[*set])) {
                simulation.sample(set, row);
                sampler
                    .append(set, step, simulation.time(), row)
                    .map_err(|source| RunError::Sampler { step, source })?;
                report.rows += 1;
                report.sample_bytes += row_bytes[set] as u64;
            }
            report.sampling_seconds += sampling_start.elapsed().as_secs_f64();
        }
        simulation.step()?;
        report.steps += 1;
        progress(Progress { step: step + 1, steps });
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}
