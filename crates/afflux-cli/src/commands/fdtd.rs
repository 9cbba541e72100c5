//! `afflux fdtd`: the Maxwell solver on a model of the user's.

use crate::failure::Failure;
use crate::{output, progress, quantity, ranks, solver};
use afflux::Existing;
use afflux_fdtd::{Model, RecordOptions};
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;

/// Solve Maxwell's equations on a model and write its probes into a file.
#[derive(Debug, Args)]
#[command(
    after_help = "Models to begin with are in the sources, apps/fdtd/models/*.toml; apps/fdtd/README.md is the reference of all keys.\n\
                  Under mpirun the ranks are MPI's.\n\n\
                  Examples:\n  afflux fdtd model.toml --out run.nc --ranks 4\n  mpirun -n 8 afflux fdtd model.toml --out run.nc\n  \
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
    /// Solve only: what remains is what sampling costs.
    #[arg(long)]
    no_sampling: bool,
    /// Put the new file in place of an existing one.
    #[arg(long)]
    replace: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Fdtd {
    /// Runs the model and prints what was written.
    pub fn run(&self) -> Result<(), Failure> {
        // Read once before ranks start, so that a bad model is told at once; ranks of other processes read it themselves.
        let model = Model::from_file(&self.model)
            .map_err(|error| Failure::failed(format!("the model cannot be used: {error}")));
        let bar = progress::bar(model.as_ref().map_or(0, |model| model.steps), "steps");
        let existing = if self.replace { Existing::Replace } else { Existing::Refuse };
        let start = Instant::now();
        let report = ranks::run(self.ranks, ranks::processors(), |comm| {
            let model = ranks::together(comm, model.clone())?;
            let out = self.out.clone().filter(|_| !self.no_sampling);
            let output = out.map(|path| RecordOptions { path, window_steps: self.window, existing });
            let rank = comm.rank();
            let report = solver::run(&model, comm, output.as_ref(), &mut |step| {
                if rank == 0 {
                    bar.set_position(step);
                }
            })?;
            Ok((rank, comm.size(), report))
        });
        bar.finish_and_clear();
        match report? {
            (0, _, Some(report)) if self.json => output::print_json(&report),
            (0, _, Some(report)) => output::print(&report.text()),
            (0, ranks, None) => {
                let seconds = start.elapsed().as_secs_f64();
                if self.json {
                    output::print_json(&serde_json::json!({ "ranks": ranks, "seconds_total": seconds, "file": null }))
                } else {
                    output::print(&format!(
                        "solved in {} on {ranks} ranks, nothing sampled\n",
                        quantity::seconds(seconds)
                    ))
                }
            }
            _ => Ok(()),
        }
    }
}
