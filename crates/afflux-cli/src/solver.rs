//! The FDTD solver with its samples going into an Afflux file: what `demo` and `fdtd` share.

use crate::failure::Failure;
use crate::report::{Run, RunReport};
use afflux::comm::Communicator;
use afflux::{AppendError, Existing, Point, ProbeSet, SeriesWriter, SetId, Values, Variable};
use afflux_fdtd::model::{ProbeSetModel, SampleType};
use afflux_fdtd::{Column, Component, Model, Placement, Row, RunOptions, Sampler, Simulation};
use std::path::Path;
use std::time::Instant;

/// How a run is written.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    /// The file.
    pub file: &'a Path,
    /// Steps between flushes; as the model says unless given.
    pub window_steps: Option<u64>,
    /// What becomes of an existing file.
    pub existing: Existing,
}

/// Collective: runs a model and writes its probes; without `output` nothing is sampled. The report on rank 0, else `None`.
/// `progress` is told the steps done, on every rank.
pub fn run(
    model: &Model,
    comm: &dyn Communicator,
    output: Option<Output<'_>>,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<RunReport>, Failure> {
    let start = Instant::now();
    let mut simulation = Simulation::new(model, comm).map_err(Failure::failed)?;
    let mut tell = |now: afflux_fdtd::Progress| progress(now.step);
    let Some(output) = output else {
        let options = RunOptions { sampling: false, ..RunOptions::default() };
        afflux_fdtd::run(&mut simulation, &mut Nowhere, &options, &mut tell).map_err(Failure::failed)?;
        return Ok(None);
    };

    let opening = Instant::now();
    let mut builder = SeriesWriter::at(output.file)
        .window_steps(output.window_steps.unwrap_or(model.output.window_steps))
        .existing(output.existing);
    if let Some(rows) = model.output.chunk_steps {
        builder = builder.chunk_steps(rows);
    }
    if !model.title.is_empty() {
        builder = builder.attribute("title", &model.title);
    }
    for (index, set) in model.probes.iter().enumerate() {
        builder = builder.set(probe_set(set, simulation.probes(index)));
    }
    let writer = builder.open(comm).map_err(Failure::failed)?;
    let find = |set: &ProbeSetModel| writer.set(&set.name).ok_or_else(|| Failure::failed("a set has been lost"));
    let sets = model.probes.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let opening_seconds = opening.elapsed().as_secs_f64();

    let mut file = Into { writer, sets };
    let solved =
        afflux_fdtd::run(&mut simulation, &mut file, &RunOptions::default(), &mut tell).map_err(Failure::failed)?;
    let warnings = simulation.warnings().into_iter().chain(file.writer.warnings().iter().cloned()).collect();
    let closing = Instant::now();
    let statistics = file.writer.close().map_err(Failure::failed)?;
    let closing_seconds = closing.elapsed().as_secs_f64();
    Ok((comm.rank() == 0).then(|| {
        let run = Run {
            file: output.file,
            points: (0..model.probes.len()).map(|set| simulation.probes(set).placed_count).sum(),
            steps: solved.steps,
            ranks: comm.size(),
            backend: comm.backend(),
            seconds_total: start.elapsed().as_secs_f64(),
            seconds_sampling: opening_seconds + solved.sampling_seconds + closing_seconds,
            warnings,
        };
        RunReport::new(run, &statistics)
    }))
}

/// A set of the model, with the points that this rank has.
fn probe_set(model: &ProbeSetModel, placed: &Placement) -> ProbeSet {
    let points = placed.local.iter().map(|point| {
        let [x, y, z] = point.position_m;
        Point::new(point.id, x, y, z).named(&point.name)
    });
    model.fields.iter().fold(ProbeSet::new(&model.name).points(points).every(model.every), |set, &field| {
        set.variable(variable(field, model.sample_type))
    })
}

fn variable(field: Component, sample_type: SampleType) -> Variable {
    let variable = match sample_type {
        SampleType::F64 => Variable::f64(field.name()),
        SampleType::F32 => Variable::f32(field.name()),
    };
    let kind = if field.is_electric() { "electric" } else { "magnetic" };
    let axis = ["x", "y", "z"][field.axis()];
    variable.units(field.units()).long_name(format!("{kind} field strength along {axis}"))
}

/// The solver's rows go into the writer.
struct Into {
    writer: SeriesWriter,
    /// Indexed as the model's sets.
    sets: Vec<SetId>,
}

impl Sampler for Into {
    type Error = AppendError;

    fn append(&mut self, set: usize, step: u64, time_s: f64, row: &Row) -> Result<(), AppendError> {
        let values: Vec<Values<'_>> = row
            .columns
            .iter()
            .map(|column| match column {
                Column::F64(values) => values.into(),
                Column::F32(values) => values.into(),
            })
            .collect();
        self.writer.append(self.sets[set], step, time_s, &values).map(|_| ())
    }
}

/// For runs without sampling, which never get here.
struct Nowhere;

impl Sampler for Nowhere {
    type Error = std::convert::Infallible;

    fn append(&mut self, _: usize, _: u64, _: f64, _: &Row) -> Result<(), Self::Error> {
        Ok(())
    }
}
