//! The uninterrupted runs that every trial is held against, and what is known of their course: how long they take, and how
//! many calls that change files they make.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::plain::PlainReaders;
use crate::process::{self, Run, Victims};
use crate::tools::{Backend, Tools};
use crate::workload::{Kind, MODEL, Workload};

/// Ranks of the runs that are measured: those of the first start of a trial.
const RANKS: usize = 4;

/// Windows with which calls are counted.
const WINDOW_SHORT: u64 = 5;
const WINDOW_LONG: u64 = 50;

/// An uninterrupted run.
#[derive(Debug)]
pub struct Reference {
    pub file: PathBuf,
    pub file_bytes: u64,
    seconds: BTreeMap<Backend, f64>,
    calls: Calls,
}

/// How many calls that change files the thread makes that makes most of them, as far as flushes tell.
#[derive(Debug, Clone, Copy)]
struct Calls {
    fixed: f64,
    per_flush: f64,
}

impl Reference {
    /// Runs a workload to its end, on one rank for the file, and on each backend for the time.
    pub fn make(
        tools: &Tools,
        backends: &[Backend],
        workload: &Workload,
        directory: &Path,
        readers: &mut PlainReaders,
    ) -> Result<Self, String> {
        std::fs::create_dir_all(directory)
            .and_then(|()| std::fs::write(directory.join("model.toml"), MODEL))
            .map_err(|error| format!("cannot set up {}: {error}", directory.display()))?;
        let file = directory.join("whole.nc");
        let finish = |backend: Backend, ranks: usize, file: &Path, more: &[&str]| {
            let mut arguments = workload.command(file, 0);
            arguments.extend(more.iter().map(|&argument| argument.to_owned()));
            let run =
                Run { tools, backend, ranks, arguments: &arguments, directory, moment: None, victims: Victims::All };
            let ended = run.carry_out()?;
            if ended.finished { Ok(ended.seconds) } else { Err(format!("{}: {}", workload.name, ended.errors)) }
        };
        finish(Backend::Threads, 1, &file, &[])?;
        readers.learn(&file, workload.kind == Kind::Synth)?;
        let file_bytes = std::fs::metadata(&file).map_err(|error| format!("{}: {error}", file.display()))?.len();

        let pace = workload.step_seconds.to_string();
        let paced = ["--step-seconds", pace.as_str(), "--replace"];
        let more: &[&str] = if workload.step_seconds > 0.0 { &paced } else { &["--replace"] };
        let measured = directory.join("measured.nc");
        let mut seconds = BTreeMap::new();
        for &backend in backends {
            seconds.insert(backend, finish(backend, RANKS, &measured, more)?);
        }
        let calls =
            if tools.strace { count_calls(tools, workload, &measured)? } else { Calls { fixed: 1.0, per_flush: 0.0 } };
        Ok(Self { file, file_bytes, seconds, calls })
    }

    /// The most calls of a thread in a run of so many flushes.
    pub fn calls(&self, flushes: f64) -> f64 {
        self.calls.fixed + self.calls.per_flush * flushes
    }

    /// Wall time of the whole run on 4 ranks, at the pace of trials that end by the clock.
    pub fn seconds(&self, backend: Backend) -> f64 {
        self.seconds.get(&backend).copied().unwrap_or(1.0)
    }
}

/// Measured with two windows: creation and close cost the same in both.
fn count_calls(tools: &Tools, workload: &Workload, file: &Path) -> Result<Calls, String> {
    let directory = file.parent().unwrap_or(Path::new("."));
    let measure = |window: u64| {
        let mut arguments = workload.command(file, 0);
        arguments.extend(["--replace".to_owned(), "--window".to_owned(), window.to_string()]);
        let calls = process::count_calls(tools, &arguments, RANKS, directory)?;
        Ok::<f64, String>(calls.first().copied().unwrap_or(0) as f64)
    };
    let flushes = |window: u64| workload.steps.div_ceil(window) as f64;
    let (few, many) = (measure(WINDOW_LONG)?, measure(WINDOW_SHORT)?);
    let per_flush = ((many - few) / (flushes(WINDOW_SHORT) - flushes(WINDOW_LONG))).max(0.0);
    Ok(Calls { fixed: (few - per_flush * flushes(WINDOW_LONG)).max(1.0), per_flush })
}
