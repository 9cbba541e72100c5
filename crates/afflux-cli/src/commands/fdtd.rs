//! `afflux fdtd`: the Maxwell solver on a model of the user's.

use crate::durability::DurabilityArgument;
use crate::existing::ExistingArguments;
use crate::failure::Failure;
use crate::report::RunReport;
use crate::solver::{self, Output, Solved};
use crate::{output, progress, quantity, ranks};
use afflux_fdtd::{CheckpointOptions, Model, RecordOptions, RunOptions};
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Solve Maxwell's equations on a model and write its probes into a file.
#[derive(Debug, Args)]
#[command(
    after_help = "Models to begin with are in the sources, apps/fdtd/models/*.toml; apps/fdtd/README.md is the reference of all keys.\n\
                  Under mpirun the ranks are MPI's. Ranks and window may change at a restart; the samples do not.\n\n\
                  Examples:\n  afflux fdtd model.toml --out run.nc --ranks 4\n  mpirun -n 8 afflux fdtd model.toml --out run.nc\n  \
                  afflux fdtd model.toml --out run.nc --checkpoint-every 1000\n  \
                  afflux fdtd model.toml --out run.nc --checkpoint-every 1000 --restart-from run.nc.checkpoint --resume\n  \
                  afflux fdtd model.toml --no-sampling"
)]
pub struct Fdtd {
    /// The model.
    #[arg(value_name = "MODEL.toml")]
    model: PathBuf,
    /// The file; not touched with --no-sampling.
    #[arg(long, value_name = "F", required_unless_present = "no_sampling")]
    out: Option<PathBuf>,
    /// Ranks in this process, one a processor unless given; under mpirun the number of its processes.
    #[arg(long, value_name = "N", value_parser = ranks::parse_count)]
    ranks: Option<usize>,
    /// Steps between flushes; as the model says unless given.
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Seal the samples and save the solver's fields every so many steps.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: Option<u64>,
    /// Where the fields are saved; F.checkpoint unless given.
    #[arg(long, value_name = "C", requires = "checkpoint_every")]
    checkpoint: Option<PathBuf>,
    /// Begin with the saved fields of a checkpoint instead of at step 0.
    #[arg(long, value_name = "C")]
    restart_from: Option<PathBuf>,
    /// Move the borders between the ranks' boxes every so many steps, to and fro, as a load balancer would.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    rebalance_every: Option<u64>,
    /// When SIGTERM or SIGUSR1 comes: seal the samples, save the fields (with --checkpoint-every), and end.
    #[arg(long)]
    seal_on_signal: bool,
    /// Solve only: what remains is what sampling costs.
    #[arg(long)]
    no_sampling: bool,
    /// What sealed rows survive.
    #[arg(long, value_enum, default_value_t)]
    durability: DurabilityArgument,
    #[command(flatten)]
    existing: ExistingArguments,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON: without sampling the fields of the file are absent, and `file` is null.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    written: Option<RunReport>,
    #[serde(flatten)]
    bare: Option<Bare>,
    step_first: u64,
    ended_at: Option<u64>,
    checkpoints: u64,
    border_moves: u64,
}

/// What there is to say where nothing was sampled.
#[derive(Serialize)]
struct Bare {
    file: Option<String>,
    steps: u64,
    ranks: usize,
    seconds_total: f64,
}

impl Fdtd {
    /// Runs the model and prints what was written.
    pub fn run(&self) -> Result<(), Failure> {
        // Read once before ranks start, so that a bad model is told at once; ranks of other processes read it themselves.
        let model = Model::from_file(&self.model)
            .map_err(|error| Failure::failed(format!("the model cannot be used: {error}")));
        let steps = model.as_ref().map_or(0, |model| model.steps);
        let output = self.output()?;
        let bar = progress::bar(steps, "steps");
        let solved = ranks::run(self.ranks, ranks::processors(), |comm| {
            let model = ranks::together(comm, model.clone())?;
            let rank = comm.rank();
            solver::run(&model, comm, self.restart_from.as_deref(), &output, &mut |step| {
                if rank == 0 {
                    bar.set_position(step);
                }
            })
        });
        bar.finish_and_clear();
        let Some(solved) = solved? else { return Ok(()) };
        if self.json { output::print_json(&report(solved)) } else { output::print(&text(&solved)) }
    }

    fn output(&self) -> Result<Output, Failure> {
        let run = RunOptions {
            checkpoint: self.checkpoint()?,
            rebalance_every: self.rebalance_every,
            ..RunOptions::default()
        };
        let existing = self.existing.existing();
        Ok(match self.out.clone().filter(|_| !self.no_sampling) {
            None => Output::Nowhere(run),
            Some(path) => {
                let (window_steps, seal_on_signal) = (self.window, self.seal_on_signal);
                let durability = self.durability.into();
                Output::File(RecordOptions { path, window_steps, existing, durability, seal_on_signal, run })
            }
        })
    }

    /// When and where the fields are saved.
    fn checkpoint(&self) -> Result<Option<CheckpointOptions>, Failure> {
        let Some(every) = self.checkpoint_every else { return Ok(None) };
        let path = match (&self.checkpoint, &self.out) {
            (Some(path), _) => path.clone(),
            (None, Some(out)) => beside(out),
            (None, None) => {
                return Err(Failure::usage(
                    "--checkpoint-every without --out: say with --checkpoint where to save the fields",
                ));
            }
        };
        if self.out.as_ref() == Some(&path) || self.model == path {
            return Err(Failure::usage(format!("{} cannot be the checkpoint too; give another name", path.display())));
        }
        Ok(Some(CheckpointOptions { every, path }))
    }
}

/// The name of a run's checkpoint unless another is given.
fn beside(out: &Path) -> PathBuf {
    let mut name: OsString = out.as_os_str().to_owned();
    name.push(".checkpoint");
    name.into()
}

fn report(solved: Solved) -> Report {
    let Solved { report, step_first, steps, checkpoints, ended_at, moves, ranks, seconds } = solved;
    let bare = Bare { file: None, steps, ranks, seconds_total: seconds };
    let bare = report.is_none().then_some(bare);
    Report { bare, written: report, step_first, ended_at, checkpoints, border_moves: moves }
}

fn text(solved: &Solved) -> String {
    let mut text = match &solved.report {
        Some(report) => report.text(),
        None => format!(
            "solved {} steps in {} on {} ranks, nothing sampled\n",
            quantity::count(solved.steps),
            quantity::seconds(solved.seconds),
            solved.ranks
        ),
    };
    if solved.checkpoints > 0 {
        text.push_str(&format!(
            "{:<10} {}\n",
            "saved",
            quantity::count_of(solved.checkpoints, "checkpoint", "checkpoints")
        ));
    }
    if solved.moves > 0 {
        text.push_str(&format!(
            "{:<10} {}\n",
            "balanced",
            quantity::count_of(solved.moves, "move of the borders", "moves of the borders")
        ));
    }
    text
}
