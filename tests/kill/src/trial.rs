//! A trial: a run that is started, killed, resumed, perhaps killed again, and resumed to its end. After every kill the file is
//! looked at; at the end it is held against the uninterrupted run's.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde::Serialize;

use crate::life::Life;
use crate::look::{Seen, checkpoint_step, look};
use crate::plain::PlainReaders;
use crate::process::{Moment, Run, Victims};
use crate::random::Random;
use crate::reference::Reference;
use crate::tools::{Backend, Tools};
use crate::workload::{Kind, Workload};

/// Most kills of a trial.
const KILLS_MAX: u64 = 3;
/// How much larger than the uninterrupted run's the file may be at the end.
const GROWTH_MAX: f64 = 0.01;
/// Later starts that are MPI's, of a hundred; the others are threads, which start faster.
const MPI_AGAIN_PERCENT: u64 = 30;

/// Where in the life of a file a kill fell, told by what it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the file had its name.
    Creation,
    /// Before the first seal of its life.
    BeforeFirstSeal,
    /// Between two seals.
    Running,
    /// While a resume had not yet made the file its own.
    Resuming,
    /// Behind the last seal, before the close was complete.
    Closing,
    /// The run had come to its end.
    Over,
}

/// One start, as it is reported.
#[derive(Debug, Serialize)]
pub struct LifeReport {
    backend: String,
    ranks: usize,
    window: u64,
    replay: Option<&'static str>,
    start_step: u64,
    /// `clock`, `call` or none.
    pub killed_by: Option<&'static str>,
    /// `all` or `one`.
    victims: Option<&'static str>,
    pub phase: Phase,
    watermark: Option<u64>,
    seconds: f64,
}

/// What became of a trial.
#[derive(Debug, Serialize)]
pub struct TrialReport {
    trial: u64,
    pub workload: &'static str,
    pub backend: String,
    pub lives: Vec<LifeReport>,
    pub file_bytes: u64,
    pub reference_bytes: u64,
    pub seconds: f64,
    /// What was not as promised; empty for a good trial.
    pub findings: Vec<String>,
}

/// What trials share.
pub struct Bench<'a> {
    pub tools: &'a Tools,
    pub backends: &'a [Backend],
    pub workloads: Vec<(&'a Workload, Reference)>,
    pub readers: PlainReaders,
    pub seed: u64,
}

impl Bench<'_> {
    /// Makes one trial in an empty directory. The error is one of the harness, not a finding.
    pub fn trial(&mut self, trial: u64, directory: &Path) -> Result<TrialReport, String> {
        let begin = Instant::now();
        let mut random = Random::new(self.seed, trial);
        let at = usize::try_from(random.below(self.workloads.len() as u64)).expect("an index");
        let backend = *random.pick(self.backends);
        let (workload, reference) = &self.workloads[at];
        if workload.kind == Kind::Fdtd {
            let model = directory.join("model.toml");
            std::fs::write(&model, crate::workload::MODEL).map_err(|error| format!("{}: {error}", model.display()))?;
        }
        let file = directory.join("run.nc");
        let mut report = TrialReport {
            trial,
            workload: workload.name,
            backend: backend.to_string(),
            lives: Vec::new(),
            file_bytes: 0,
            reference_bytes: reference.file_bytes,
            seconds: 0.0,
            findings: Vec::new(),
        };
        let kills = 1 + random.below(KILLS_MAX);
        let mut seen: Option<Seen> = None;
        for number in 0..=kills {
            let last = number == kills;
            let backend = match number {
                0 => backend,
                _ if random.percent(MPI_AGAIN_PERCENT) => *random.pick(self.backends),
                _ => Backend::Threads,
            };
            let strace = self.tools.strace;
            let before = seen;
            let watermark = before.and_then(|seen| seen.watermark);
            let life = match number {
                0 => Life::first(&mut random, backend, (workload, reference), strace),
                _ => Life::later(&mut random, backend, (workload, reference), strace, watermark, last),
            };
            let arguments = life.arguments(workload, &file, watermark);
            let run = Run {
                tools: self.tools,
                backend,
                ranks: life.ranks,
                arguments: &arguments,
                directory,
                moment: life.moment,
                victims: life.victims,
            };
            let ended = run.carry_out()?;
            let mut findings = Vec::new();
            if ended.hung {
                findings.push("it hung and had to be ended".to_owned());
            } else if !ended.finished && failed_by_itself(&life, &ended.errors) {
                findings.push(format!("it failed by itself: {}: {}", ended.status, ended.errors.trim()));
            }
            seen = look(&file, &reference.file, workload.kind, &mut findings);
            if file.exists() {
                let rows_ahead = rows_ahead(life.window);
                if let Err(what) = self.readers.check(&file, &reference.file, rows_ahead)? {
                    findings.push(what);
                }
            }
            check_progress(before, seen, &mut findings);
            if let Some(step) = checkpoint_step(&Workload::checkpoint(&file))
                && seen.and_then(|seen| seen.watermark).is_none_or(|watermark| watermark + 1 < step)
            {
                findings
                    .push(format!("the solver's checkpoint is at step {step}, the samples before it are not sealed"));
            }
            let name = format!("start {number} ({})", arguments.join(" "));
            report.findings.extend(findings.into_iter().map(|finding| format!("{name}: {finding}")));
            report.lives.push(LifeReport {
                backend: backend.to_string(),
                ranks: life.ranks,
                window: life.window,
                replay: life.replay.map(crate::life::Replay::name),
                start_step: life.start(workload, watermark),
                killed_by: life.moment.map(|moment| match moment {
                    Moment::Clock { .. } => "clock",
                    Moment::Call { .. } => "call",
                }),
                victims: life.moment.map(|moment| match (moment, life.victims, backend) {
                    (_, _, Backend::Threads) | (Moment::Clock { .. }, Victims::All, _) => "all",
                    _ => "one",
                }),
                phase: phase(before, seen, ended.finished, workload.steps),
                watermark: seen.and_then(|seen| seen.watermark),
                seconds: ended.seconds,
            });
        }
        self.check_end(at, &file, &mut report)?;
        report.seconds = begin.elapsed().as_secs_f64();
        Ok(report)
    }

    /// At the end the file is the uninterrupted run's.
    fn check_end(&mut self, at: usize, file: &Path, report: &mut TrialReport) -> Result<(), String> {
        let reference = &self.workloads[at].1;
        report.file_bytes = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        if report.file_bytes as f64 > reference.file_bytes as f64 * (1.0 + GROWTH_MAX) {
            let (found, whole) = (report.file_bytes, reference.file_bytes);
            report.findings.push(format!("at the end: {found} bytes, the uninterrupted run's file has {whole}"));
        }
        let mut command = Command::new("h5diff");
        let output = command.arg("--exclude-path=/afflux").arg(&reference.file).arg(file).output();
        let output = output.map_err(|error| format!("cannot start h5diff: {error}"))?;
        if !output.status.success() || !output.stdout.is_empty() {
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            report.findings.push(format!("at the end: h5diff: {}: {}", output.status, text.trim()));
        }
        if let Err(what) = self.readers.same(file, &reference.file)? {
            report.findings.push(format!("at the end: {what}"));
        }
        Ok(())
    }
}

/// A run that was to be killed may end otherwise if it is over first; ranks whose peer was killed say so.
fn failed_by_itself(life: &Life, errors: &str) -> bool {
    match (life.moment, life.victims) {
        (None, _) => true,
        // What a living rank says of a dead one is no fault; a complaint about the file is.
        _ => errors.lines().any(|line| line.starts_with("afflux: ") && !line.contains("rank")),
    }
}

/// How many rows some datasets of a set may be longer than others after a kill: those of one flush.
fn rows_ahead(window: u64) -> u64 {
    window
}

/// What was sealed stays sealed.
fn check_progress(before: Option<Seen>, after: Option<Seen>, findings: &mut Vec<String>) {
    match (before, after) {
        (Some(_), None) => findings.push("the file is gone".to_owned()),
        (Some(before), Some(after)) if after.watermark < before.watermark => {
            findings.push(format!("sealed up to {:?}, and before up to {:?}", after.watermark, before.watermark));
        }
        _ => {}
    }
}

fn phase(before: Option<Seen>, after: Option<Seen>, finished: bool, steps: u64) -> Phase {
    match (before, after) {
        _ if finished => Phase::Over,
        (_, None) => Phase::Creation,
        (Some(before), Some(after)) if before.epoch == after.epoch => Phase::Resuming,
        (_, Some(after)) if after.watermark == Some(steps - 1) => Phase::Closing,
        (_, Some(Seen { watermark: None, .. })) => Phase::BeforeFirstSeal,
        _ => Phase::Running,
    }
}
