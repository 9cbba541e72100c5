//! From the solver into a file: the probe sets of a model become sets of an Afflux series, each row one append.
//!
//! This is all that a simulation code needs of Afflux: describe the sets, open, append, seal, rebalance, close. Points get their owner from
//! the solver's own decomposition; the rest (windows, transposition, the shared file) is Afflux's.

use std::path::PathBuf;
use std::time::Instant;

use afflux::{
    AppendError, Durability, Existing, FlushError, OpenError, Point, ProbeSet, RebalanceError, SealOnSignal,
    SeriesWriter, SetId, Statistics, Values, Variable,
};

use crate::error::{RunError, SimulationError};
use crate::grid::Component;
use crate::model::{ProbeSetModel, SampleType};
use crate::probes::{Column, Placement, Row};
use crate::run::{Progress, RunOptions, RunReport, Sampler, check, run_checked};
use crate::simulation::Simulation;

/// There are six field components, so no set has more columns.
const COLUMNS_MAX: usize = 6;

/// Where and how samples are written.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// The file.
    pub path: PathBuf,
    /// Steps between flushes; as the model says when left out.
    pub window_steps: Option<u64>,
    /// What becomes of an existing file.
    pub existing: Existing,
    /// What sealed rows survive.
    pub durability: Durability,
    /// End the run in good order when the system signals that it is to go (SIGTERM, SIGUSR1).
    pub seal_on_signal: bool,
    /// How long to run, and what is done besides.
    pub run: RunOptions,
}

impl RecordOptions {
    /// A whole run into a new file.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            window_steps: None,
            existing: Existing::Refuse,
            durability: Durability::default(),
            seal_on_signal: false,
            run: RunOptions::default(),
        }
    }
}

/// What a recorded run did.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// The solver's side.
    pub run: RunReport,
    /// The file's side.
    pub statistics: Statistics,
    /// Time to open the file, seconds.
    pub open_seconds: f64,
    /// Time to close it, seconds.
    pub close_seconds: f64,
    /// Points left out and the like.
    pub warnings: Vec<String>,
}

/// A recorded run that stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The solver failed, or the writer refused a row.
    #[error(transparent)]
    Run(#[from] RunError<SampleError>),
    /// The last rows could not be written.
    #[error(transparent)]
    Close(#[from] FlushError),
}

/// A row or a call between rows that the writer refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// A row.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// Sealing all rows so far.
    #[error(transparent)]
    Seal(#[from] FlushError),
    /// Points that changed hands.
    #[error(transparent)]
    Rebalance(#[from] RebalanceError),
}

impl From<SimulationError> for RecordError {
    fn from(error: SimulationError) -> Self {
        Self::Run(RunError::Simulation(error))
    }
}

/// Collective: runs a simulation from its present step to the end and writes the rows of its probe sets. `progress` is called after
/// every step. On a failure the file keeps what was sealed.
pub fn record(
    simulation: &mut Simulation<'_>,
    options: &RecordOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recorded, RecordError> {
    check(simulation, &options.run).map_err(RunError::Checkpoint)?;
    let opening = Instant::now();
    let mut sampler = SeriesSampler::open(simulation, options)?;
    let open_seconds = opening.elapsed().as_secs_f64();
    let report = run_checked(simulation, &mut sampler, &options.run, progress)?;
    let warnings = simulation.warnings().into_iter().chain(sampler.writer.warnings().iter().cloned()).collect();
    let closing = Instant::now();
    let statistics = sampler.writer.close()?;
    Ok(Recorded { run: report, statistics, open_seconds, close_seconds: closing.elapsed().as_secs_f64(), warnings })
}

/// Rows into a [`SeriesWriter`].
struct SeriesSampler {
    writer: SeriesWriter,
    /// Indexed as the probe sets of the model.
    sets: Vec<SetId>,
}

impl SeriesSampler {
    /// Collective: creates the file with a set for each probe set of the model.
    fn open(simulation: &Simulation<'_>, options: &RecordOptions) -> Result<Self, OpenError> {
        let model = simulation.model();
        let mut builder = SeriesWriter::at(&options.path)
            .window_steps(options.window_steps.unwrap_or(model.output.window_steps))
            .existing(options.existing)
            .durability(options.durability);
        if options.seal_on_signal {
            builder = builder.seal_on_signal(SealOnSignal::new());
        }
        if let Some(rows) = model.output.chunk_steps {
            builder = builder.chunk_steps(rows);
        }
        if !model.title.is_empty() {
            builder = builder.attribute("title", &model.title);
        }
        for (index, set) in model.probes.iter().enumerate() {
            builder = builder.set(probe_set(set, simulation.probes(index)));
        }
        let writer = builder.open(simulation.comm())?;
        let sets = model
            .probes
            .iter()
            .map(|set| writer.set(&set.name).expect("a writer has the sets it was opened with"))
            .collect();
        Ok(Self { writer, sets })
    }
}

impl Sampler for SeriesSampler {
    type Error = SampleError;

    fn append(&mut self, set: usize, step: u64, time_s: f64, row: &Row) -> Result<(), SampleError> {
        // On the stack: an append allocates nothing.
        let mut values = [Values::F64(&[]); COLUMNS_MAX];
        for (value, column) in values.iter_mut().zip(&row.columns) {
            *value = match column {
                Column::F64(column) => Values::F64(column),
                Column::F32(column) => Values::F32(column),
            };
        }
        self.writer.append(self.sets[set], step, time_s, &values[..row.columns.len()])?;
        Ok(())
    }

    fn seal(&mut self) -> Result<(), SampleError> {
        Ok(self.writer.checkpoint()?)
    }

    fn is_ended(&self) -> bool {
        self.writer.signalled().is_some()
    }

    fn rebalance(&mut self, simulation: &Simulation<'_>) -> Result<(), SampleError> {
        for (index, &set) in self.sets.iter().enumerate() {
            self.writer.rebalance(set, points(simulation.probes(index)))?;
        }
        Ok(())
    }
}

/// A probe set of the model with the points of this rank.
fn probe_set(model: &ProbeSetModel, placed: &Placement) -> ProbeSet {
    let set = ProbeSet::new(&model.name).points(points(placed)).every(model.every);
    model.fields.iter().fold(set, |set, &field| set.variable(variable(field, model.sample_type)))
}

/// The points that this rank has.
fn points(placed: &Placement) -> impl Iterator<Item = Point> {
    placed.local.iter().map(|point| {
        let [x, y, z] = point.position_m;
        Point::new(point.id, x, y, z).named(&point.name)
    })
}

fn variable(field: Component, sample_type: SampleType) -> Variable {
    let kind = if field.is_electric() { "electric" } else { "magnetic" };
    let axis = ["x", "y", "z"][field.axis()];
    let variable = match sample_type {
        SampleType::F64 => Variable::f64(field.name()),
        SampleType::F32 => Variable::f32(field.name()),
    };
    variable.units(field.units()).long_name(format!("{kind} field strength along {axis}"))
}
