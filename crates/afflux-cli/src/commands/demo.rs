//! `afflux demo`: the main job in one command. The source's box runs on 4 ranks in this process, its probes go into a file, and
//! pictures are drawn from the file.

use super::{open, plot, selection};
use crate::failure::Failure;
use crate::report::RunReport;
use crate::solver::{self, Output};
use crate::{output, progress, ranks};
use afflux::Existing;
use afflux_fdtd::{Model, RecordOptions};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Ranks, as in the source.
const RANKS: usize = 4;
/// What is drawn.
const VARIABLE: &str = "Ez";
/// How many probes are drawn, spread over the file.
const PLOTTED: u64 = 3;

/// Run a small simulation with 1,024 probes on 4 ranks, write them into DIR/run.nc and plot some.
#[derive(Debug, Args)]
#[command(
    after_help = "The box is that of Cao and Luo: 60x60x60 cells, 8x8x16 probes, 350 steps, 32 bytes a probe and step.\n\n\
                  Examples:\n  afflux demo\n  afflux demo /tmp/demo --replace"
)]
pub struct Demo {
    /// Where to write; made if it is not there.
    #[arg(value_name = "DIR", default_value = "afflux-demo")]
    directory: PathBuf,
    /// Put the results in place of those of an earlier demo.
    #[arg(long)]
    replace: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    run: &'a RunReport,
    plots: Vec<String>,
}

impl Demo {
    /// Runs, writes, draws and prints.
    pub fn run(&self) -> Result<(), Failure> {
        let file = self.directory.join("run.nc");
        std::fs::create_dir_all(&self.directory).map_err(|error| {
            Failure::failed(format!("cannot make the directory {}: {error}", self.directory.display()))
        })?;
        let model = Model::builtin("box").map_err(Failure::failed)?;
        let existing = if self.replace { Existing::Replace } else { Existing::Refuse };
        let bar = progress::bar(model.steps, "steps");
        let output = Output::File(RecordOptions { existing, ..RecordOptions::at(&file) });
        let report = ranks::run(None, RANKS, |comm| {
            let rank = comm.rank();
            // One rank looks, before any creates.
            ranks::together(comm, if rank == 0 { self.check_free(&file) } else { Ok(()) })?;
            solver::run(&model, comm, None, &output, &mut |step| {
                if rank == 0 {
                    bar.set_position(step);
                }
            })
        });
        bar.finish_and_clear();
        let Some(report) = report?.and_then(|solved| solved.report) else { return Ok(()) };
        let plots = draw(&file, &self.directory)?;

        let names: Vec<String> = plots.iter().map(|plot| plot.display().to_string()).collect();
        if self.json {
            return output::print_json(&Report { run: &report, plots: names });
        }
        let mut text = report.text();
        for name in &names {
            text.push_str(&format!("{:<10} {name}\n", "picture"));
        }
        text.push_str(&format!("{:<10} afflux info {}\n", "look at it", file.display()));
        output::print(&text)
    }
}

impl Demo {
    /// An earlier demo is not overwritten unasked.
    fn check_free(&self, file: &Path) -> Result<(), Failure> {
        if self.replace || !file.exists() {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "{} exists already; give another directory, or --replace to put a new run in its place",
            file.display()
        )))
    }
}

/// Draws series and spectra of a few probes.
fn draw(path: &Path, directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let file = open(path)?;
    let set = selection::set(&file, "")?;
    let selected = selection::variable(&file, set, VARIABLE)?;
    let points = file.sets()[set].points;
    // In a grid of 8x8x16 quarters begin on its edge; nine more 128ths are the middle of y and z.
    let inside = points * 9 / 128;
    let shown: Vec<u64> = (1..=PLOTTED).map(|k| points * k / (PLOTTED + 1) + inside).collect();
    let pictures = [("run.png", false), ("run-spectrum.png", true), ("run.svg", false)];
    let mut drawn = Vec::new();
    for (name, spectrum) in pictures {
        let picture = directory.join(name);
        plot::draw(&file, path, selected, VARIABLE, &shown, spectrum, &picture)?;
        drawn.push(picture);
    }
    Ok(drawn)
}
