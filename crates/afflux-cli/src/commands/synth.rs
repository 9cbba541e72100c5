//! `afflux synth`: a made-up simulation whose every value can be checked.

use crate::durability::DurabilityArgument;
use crate::existing::ExistingArguments;
use crate::failure::Failure;
use crate::report::{Run, RunReport};
use crate::{memory, output, progress, ranks};
use afflux::comm::Communicator;
use afflux::{Existing, Point, ProbeSet, STEP_MAX, SealOnSignal, SeriesBuilder, SeriesWriter, SetId, Variable};
use afflux_measure::synth::SeriesKey;
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use rows::Rows;
use std::path::PathBuf;
use std::time::{Duration, Instant};

mod owners;
mod rows;

/// Simulated seconds between steps; any number does.
const STEP_SIMULATED_SECONDS: f64 = 1.0e-3;
/// The longest that a step may take: a day.
const STEP_SECONDS_MAX: f64 = 86_400.0;
/// The most sets, and variables of each.
const COUNT_MAX: i64 = 4096;

/// Write a made-up run: every value is a hash of (set, point, variable, component, step), which `afflux verify --synth` checks.
#[derive(Debug, Args)]
#[command(
    after_help = "Points are shared out over the ranks in equal ranges of ids. Under mpirun the ranks are MPI's.\n\n\
                  Examples:\n  afflux synth --points 1000 --steps 350 --variables 4 --out trial.nc\n  \
                  mpirun -n 8 afflux synth --points 8192 --steps 1000 --variables 2 --type f32 --out trial.nc"
)]
pub struct Synth {
    /// Points of each set.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX.cast_unsigned()))]
    points: u64,
    /// Steps.
    #[arg(long, value_name = "S")]
    steps: u64,
    /// Variables of each set, named v0, v1, ...
    #[arg(long, value_name = "V", value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX))]
    variables: u32,
    /// Sets: one is the default set, several are named s0, s1, ...
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX))]
    sets: u32,
    /// A row every so many steps.
    #[arg(long, value_name = "C", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    cadence: u64,
    /// Type of the values.
    #[arg(long = "type", value_enum, default_value_t = Element::F64)]
    element: Element,
    /// Ranks in this process, 4 unless given; under mpirun the number of its processes.
    #[arg(long, value_name = "R", value_parser = ranks::parse_count)]
    ranks: Option<usize>,
    /// Steps between flushes.
    #[arg(long, value_name = "W", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    window: u64,
    /// The first step.
    #[arg(long, value_name = "B", default_value_t = 0)]
    start_step: u64,
    /// The file's step at step 0 of this run: for one that counts anew behind an existing file.
    #[arg(long, value_name = "O", default_value_t = 0)]
    step_offset: u64,
    /// Seal everything every so many steps.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: Option<u64>,
    /// Give the points to other ranks every so many steps, as a load balancer would.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    rebalance_every: Option<u64>,
    /// Seconds that a step takes: the run computes nothing and waits instead.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    step_seconds: f64,
    /// Groups of ranks, each of which writes a file of its own; F is then a master that shows them as one.
    #[arg(long, value_name = "G", default_value_t = 1)]
    groups: usize,
    /// The file.
    #[arg(long, value_name = "F")]
    out: PathBuf,
    /// When SIGTERM or SIGUSR1 comes: seal everything and end.
    #[arg(long)]
    seal_on_signal: bool,
    /// What sealed rows survive.
    #[arg(long, value_enum, default_value_t)]
    durability: DurabilityArgument,
    #[command(flatten)]
    existing: ExistingArguments,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Element {
    /// 32-bit floats in [0, 1).
    F32,
    /// 64-bit floats in [0, 1).
    F64,
    /// 32-bit integers.
    I32,
    /// 64-bit integers.
    I64,
}

impl Synth {
    /// Runs the made-up simulation and prints what it wrote.
    pub fn run(&self) -> Result<(), Failure> {
        if !(0.0..=STEP_SECONDS_MAX).contains(&self.step_seconds) {
            return Err(Failure::usage(format!(
                "a step cannot take {} seconds: --step-seconds is from 0 to {STEP_SECONDS_MAX}",
                self.step_seconds
            )));
        }
        let end = self.start_step.checked_add(self.steps).and_then(|end| end.checked_add(self.step_offset));
        if end.is_none_or(|end| end > STEP_MAX) {
            return Err(Failure::usage(format!(
                "{} steps from step {} go beyond step {STEP_MAX}, the last there is: lower --start-step, --step-offset or --steps",
                self.steps, self.start_step
            )));
        }
        let bar = progress::bar(self.steps, "steps");
        let report = ranks::run(self.ranks, 4, |comm| self.on_rank(comm, &bar))?;
        bar.finish_and_clear();
        let Some(report) = report else { return Ok(()) };
        if self.json { output::print_json(&report) } else { output::print(&report.text()) }
    }

    fn set_name(&self, set: u32) -> String {
        if self.sets == 1 { String::new() } else { format!("s{set}") }
    }

    /// Refuses a run that this rank's node cannot hold.
    fn check_memory(&self, comm: &dyn Communicator) -> Result<(), Failure> {
        let value_bytes = match self.element {
            Element::F32 | Element::I32 => 4,
            Element::F64 | Element::I64 => 8,
        };
        let values = u64::from(self.sets) * u64::from(self.variables);
        let points = memory::points_on_node(self.points, comm);
        // A window never holds more rows than the run has. Beside it: a key a value, one row of a set, and the points.
        let rows = self.window.min(self.steps).div_ceil(self.cadence);
        let windows = memory::window_bytes(points, values * value_bytes, rows);
        let other = values * size_of::<SeriesKey>() as u64
            + u64::from(self.variables) * value_bytes
            + u64::from(self.sets) * memory::POINT_BYTES;
        let needed_bytes = windows.saturating_add(points.saturating_mul(u128::from(other)));
        memory::require(needed_bytes, "take fewer --points, --variables or --sets, or a shorter --window")
    }

    /// The points of a rank, which are the same in every set; their places follow from their ids.
    fn points(ids: &[i64]) -> impl Iterator<Item = Point> {
        ids.iter().map(|&id| Point::new(id, id as f64, 0.0, 0.0))
    }

    fn probe_set(&self, name: String, ids: &[i64]) -> ProbeSet {
        let set = ProbeSet::new(name).points(Self::points(ids)).every(self.cadence);
        (0..self.variables).fold(set, |set, variable| {
            let name = format!("v{variable}");
            let made_up = match self.element {
                Element::F32 => Variable::f32(name),
                Element::F64 => Variable::f64(name),
                Element::I32 => Variable::i32(name),
                Element::I64 => Variable::i64(name),
            };
            set.variable(made_up.long_name(format!("made-up quantity {variable}")))
        })
    }

    /// The file that the run writes, with this rank's points.
    fn builder(&self, ids: &[i64]) -> SeriesBuilder {
        let builder = SeriesWriter::at(&self.out)
            .window_steps(self.window)
            .groups(self.groups)
            .existing(self.existing.existing())
            .durability(self.durability.into())
            .step_offset(self.step_offset);
        let builder = if self.seal_on_signal { builder.seal_on_signal(SealOnSignal::new()) } else { builder };
        (0..self.sets).fold(builder, |builder, set| builder.set(self.probe_set(self.set_name(set), ids)))
    }

    /// One rank's part; the report on rank 0.
    fn on_rank(&self, comm: &dyn Communicator, bar: &ProgressBar) -> Result<Option<RunReport>, Failure> {
        ranks::together(comm, self.check_memory(comm))?;
        let start = Instant::now();
        let ids = owners::ids(self.points, comm.rank(), comm.size(), 0);
        let writer = self.builder(&ids).open(comm).map_err(|error| Failure::open(&self.out, &error))?;
        let sets = (0..self.sets)
            .map(|set| writer.set(&self.set_name(set)).ok_or_else(|| Failure::failed("a set has been lost")))
            .collect::<Result<Vec<_>, _>>()?;
        let rows = Rows::new(self.element, &ids, self.sets, self.variables);
        let mut made_up = MadeUp { synth: self, comm, writer, sets, rows, steps: 0, sampling: start.elapsed() };
        let pace = Duration::from_secs_f64(self.step_seconds);
        for step in self.start_step..self.start_step + self.steps {
            let step_start = Instant::now();
            made_up.step(step)?;
            if made_up.writer.signalled().is_some() {
                break;
            }
            if comm.rank() == 0 {
                bar.inc(1);
            }
            std::thread::sleep(pace.saturating_sub(step_start.elapsed()));
        }
        made_up.close(start)
    }
}

/// A run on one rank.
struct MadeUp<'a> {
    synth: &'a Synth,
    comm: &'a dyn Communicator,
    writer: SeriesWriter,
    sets: Vec<SetId>,
    rows: Rows,
    /// Steps made so far.
    steps: u64,
    /// Time spent on samples so far.
    sampling: Duration,
}

impl MadeUp<'_> {
    /// The rows of one step, and what is due behind it.
    fn step(&mut self, step: u64) -> Result<(), Failure> {
        let synth = self.synth;
        let in_file = |error: &dyn std::error::Error| Failure::in_file(&synth.out, error);
        // What is computed, when, and which rows are due follows from the step in the file, whatever the run counts.
        let step_in_file = step + synth.step_offset;
        for (index, &set) in self.sets.iter().enumerate().filter(|_| step_in_file.is_multiple_of(synth.cadence)) {
            self.rows.fill(index, step_in_file);
            let time = step_in_file as f64 * STEP_SIMULATED_SECONDS;
            let appended = self.rows.append(&mut self.writer, set, step, time);
            self.sampling += appended.map_err(|error| Failure::append(&synth.out, &error))?;
        }
        self.steps += 1;
        let behind = Instant::now();
        if synth.checkpoint_every.is_some_and(|every| (step + 1).is_multiple_of(every)) {
            self.writer.checkpoint().map_err(|error| in_file(&error))?;
        }
        if let Some(every) = synth.rebalance_every
            && (step + 1).is_multiple_of(every)
        {
            let ids = owners::ids(synth.points, self.comm.rank(), self.comm.size(), (step + 1) / every);
            for &set in &self.sets {
                self.writer.rebalance(set, Synth::points(&ids)).map_err(|error| in_file(&error))?;
            }
            self.rows = Rows::new(synth.element, &ids, synth.sets, synth.variables);
        }
        self.sampling += behind.elapsed();
        Ok(())
    }

    /// Closes the file; the report on rank 0.
    fn close(self, start: Instant) -> Result<Option<RunReport>, Failure> {
        let Self { synth, comm, writer, steps, sampling, .. } = self;
        let ended_by_signal = writer.signalled().is_some();
        let warnings = writer.warnings().to_vec();
        let closing = Instant::now();
        let statistics = writer.close().map_err(|error| Failure::in_file(&synth.out, error))?;
        let seconds_sampling = (sampling + closing.elapsed()).as_secs_f64();
        Ok((comm.rank() == 0).then(|| {
            let run = Run {
                file: &synth.out,
                points: synth.points * u64::from(synth.sets),
                steps,
                ranks: comm.size(),
                backend: comm.backend(),
                seconds_total: start.elapsed().as_secs_f64(),
                seconds_sampling,
                resumed: matches!(synth.existing.existing(), Existing::Resume(_)),
                ended_by_signal,
                warnings,
            };
            RunReport::new(run, &statistics)
        }))
    }
}
