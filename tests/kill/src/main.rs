//! Kills runs of the command at every kind of moment, and holds what is left against what is promised.
//!
//! `afflux-kill trials N` makes N trials: a made-up run or a small box of the solver is started on four ranks (threads, Open MPI,
//! MPICH), killed with SIGKILL (one rank or all; by the clock, or when it is about to make its n-th call that changes a
//! file), looked at, resumed on another number of ranks, perhaps killed again, and in the end resumed to its end. After each
//! kill h5py, both engines of xarray and our own reader open the file and compare every value; at the end every dataset and
//! attribute outside the bookkeeping must be the uninterrupted run's. Nothing of this is built into the command: it is killed
//! from outside, as by a scheduler.
//!
//! Programs are named by the environment, see `tools.rs`; `./dev kill-trials` sets it.

mod life;
mod look;
mod plain;
mod process;
mod random;
mod reference;
mod report;
mod tools;
mod trial;
mod workload;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use clap::{Args, Parser, Subcommand};

use plain::PlainReaders;
use reference::Reference;
use report::Summary;
use tools::{Backend, Tools};
use trial::{Bench, TrialReport};
use workload::WORKLOADS;

/// Trials between two lines that say how far it is: one a minute or so.
const PROGRESS_EVERY: u64 = 20;

#[derive(Debug, Parser)]
#[command(
    about = "Kills runs of the command at every kind of moment, and holds what is left against what is promised."
)]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Trials(Trials),
}

/// Make so many trials.
#[derive(Debug, Args)]
struct Trials {
    /// How many.
    count: u64,
    /// What the random choices follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The first trial's number: with the seed it says all about a trial.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// How many trials are under way at a time. Two keep two cores busy: a trial waits for much of its time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
    /// Only ranks that are threads.
    #[arg(long)]
    threads_only: bool,
    /// Write a JSON object a trial to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Keep the directories of trials that were not as promised here.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Succeed when some trial was not as promised: for a command that is built to break a promise.
    #[arg(long)]
    canary: bool,
}

/// What all jobs add to.
struct Results {
    lines: Option<BufWriter<File>>,
    summary: Summary,
}

impl Results {
    /// Writes down a trial, and tells what was not as promised.
    fn add(&mut self, trials: &Trials, trial: u64, report: &TrialReport) -> Result<(), String> {
        if let Some(lines) = &mut self.lines {
            let line = serde_json::to_string(report).map_err(|error| error.to_string())?;
            writeln!(lines, "{line}")
                .and_then(|()| lines.flush())
                .map_err(|error| format!("cannot write figures: {error}"))?;
        }
        for finding in &report.findings {
            let (seed, workload) = (trials.seed, report.workload);
            println!("not ok  trial {trial} (--seed {seed} --first {trial}), {workload}: {finding}");
        }
        self.summary.add(report);
        let done = self.summary.trials();
        if done.is_multiple_of(PROGRESS_EVERY) || done == trials.count {
            println!("{}", self.summary.progress(trials.count, trials.jobs));
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let What::Trials(trials) = Cli::parse().command;
    match trials.run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("afflux-kill: {problem}");
            ExitCode::from(2)
        }
    }
}

impl Trials {
    /// Whether all was as promised (or, for a canary, not).
    fn run(&self) -> Result<bool, String> {
        let tools = Tools::from_environment()?;
        let backends = if self.threads_only { vec![Backend::Threads] } else { tools.backends() };
        let scratch = tempfile::tempdir().map_err(|error| format!("cannot make a temporary directory: {error}"))?;
        if !tools.strace {
            println!("strace may not trace here: all kills are by the clock");
        }
        let lines = match &self.json {
            None => None,
            Some(path) => {
                let file = File::create(path).map_err(|error| format!("cannot create {}: {error}", path.display()))?;
                Some(BufWriter::new(file))
            }
        };
        let results = Mutex::new(Results { lines, summary: Summary::default() });
        let jobs = u64::from(self.jobs);
        std::thread::scope(|scope| {
            let started: Vec<_> = (0..jobs)
                .map(|job| {
                    let directory = scratch.path().join(format!("job-{job}"));
                    let (tools, backends, results) = (&tools, &backends, &results);
                    scope.spawn(move || self.job(job, tools, backends, &directory, results))
                })
                .collect();
            let ended = started.into_iter().map(|job| job.join().map_err(|_| "a job panicked".to_owned())?);
            // All have ended before the first problem is told.
            ended.collect::<Vec<_>>().into_iter().collect::<Result<(), String>>()
        })?;
        let summary = results.into_inner().map_err(|_| "a job panicked".to_owned())?.summary;
        println!("{}", summary.text());
        if self.canary {
            println!("{} passed, {} failed, 0 skipped", u8::from(!summary.is_good()), u8::from(summary.is_good()));
            return Ok(!summary.is_good());
        }
        print!("{}", summary.counts());
        Ok(summary.is_good())
    }

    /// Every `jobs`-th trial, one after another, with uninterrupted runs and plain readers of its own.
    fn job(
        &self,
        job: u64,
        tools: &Tools,
        backends: &[Backend],
        scratch: &Path,
        results: &Mutex<Results>,
    ) -> Result<(), String> {
        let create = |directory: &Path| {
            std::fs::create_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))
        };
        create(scratch)?;
        let mut readers = PlainReaders::start(tools)?;
        let mut workloads = Vec::new();
        for (number, workload) in WORKLOADS.iter().enumerate() {
            let directory = scratch.join(format!("whole-{number}"));
            let reference = Reference::make(tools, backends, workload, &directory, &mut readers)?;
            workloads.push((workload, reference));
        }
        let mut bench = Bench { tools, backends, workloads, readers, seed: self.seed };
        for trial in (self.first..self.first + self.count)
            .skip(usize::try_from(job).expect("few jobs"))
            .step_by(usize::from(self.jobs))
        {
            let directory = scratch.join(format!("trial-{trial}"));
            create(&directory)?;
            let report = bench.trial(trial, &directory)?;
            self.put_away(&directory, !report.findings.is_empty())?;
            results.lock().map_err(|_| "another job panicked".to_owned())?.add(self, trial, &report)?;
        }
        Ok(())
    }

    /// Removes a trial's directory, or keeps it for whoever looks for the fault.
    fn put_away(&self, directory: &PathBuf, failed: bool) -> Result<(), String> {
        if failed && let Some(keep) = &self.keep {
            let kept = keep.join(directory.file_name().unwrap_or_default());
            let copied = std::process::Command::new("cp").arg("-a").arg(directory).arg(&kept).status();
            copied.map_err(|error| format!("cannot keep {}: {error}", directory.display()))?;
        }
        std::fs::remove_dir_all(directory).map_err(|error| format!("cannot remove {}: {error}", directory.display()))
    }
}
