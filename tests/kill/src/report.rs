//! Figures of many trials as a table for people and for `docs/RELIABILITY.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::trial::{Phase, TrialReport};

/// Adds up trials.
#[derive(Debug, Default)]
pub struct Summary {
    trials: u64,
    kills: u64,
    findings: u64,
    failed_trials: u64,
    by_backend: BTreeMap<String, (u64, u64)>,
    by_workload: BTreeMap<&'static str, (u64, u64)>,
    by_phase: BTreeMap<Phase, u64>,
    by_moment: BTreeMap<&'static str, u64>,
    growth_max: f64,
    seconds: f64,
}

impl Summary {
    /// Adds a trial.
    pub fn add(&mut self, trial: &TrialReport) {
        let failed = u64::from(!trial.findings.is_empty());
        self.trials += 1;
        self.failed_trials += failed;
        self.findings += trial.findings.len() as u64;
        self.seconds += trial.seconds;
        for count in [
            self.by_backend.entry(trial.backend.clone()).or_default(),
            self.by_workload.entry(trial.workload).or_default(),
        ] {
            count.0 += 1;
            count.1 += failed;
        }
        for life in trial.lives.iter().filter(|life| life.killed_by.is_some()) {
            *self.by_phase.entry(life.phase).or_default() += 1;
            if life.phase != Phase::Over {
                self.kills += 1;
                *self.by_moment.entry(life.killed_by.unwrap_or_default()).or_default() += 1;
            }
        }
        self.growth_max = self.growth_max.max(trial.file_bytes as f64 / trial.reference_bytes as f64 - 1.0);
    }

    /// How many were added.
    pub fn trials(&self) -> u64 {
        self.trials
    }

    /// How far it is, of `count` trials, and how long the rest takes at this pace with so many at a time.
    pub fn progress(&self, count: u64, jobs: u8) -> String {
        let each = self.seconds / self.trials.max(1) as f64 / f64::from(jobs);
        let left = count.saturating_sub(self.trials) as f64 * each;
        let Self { trials, kills, failed_trials, .. } = self;
        format!(
            "{trials} of {count} trials, {kills} kills, {failed_trials} not as promised; {:.0} minutes to go",
            left / 60.0
        )
    }

    /// Whether every trial was as promised.
    pub fn is_good(&self) -> bool {
        self.findings == 0
    }

    /// The lines that test runners add up, the last of the output.
    pub fn counts(&self) -> String {
        format!("{} passed, {} failed, 0 skipped\n", self.trials - self.failed_trials, self.failed_trials)
    }

    /// The tables.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} trials, {} kills, {} findings in {} trials; {:.2} s a trial; the largest file at the end {:+.3} %\n\n",
            self.trials,
            self.kills,
            self.findings,
            self.failed_trials,
            self.seconds / self.trials.max(1) as f64,
            100.0 * self.growth_max
        );
        text.push_str("| first start | trials | not as promised |\n|---|---|---|\n");
        for (name, (trials, failed)) in &self.by_backend {
            let _ = writeln!(text, "| {name} | {trials} | {failed} |");
        }
        text.push_str("\n| workload | trials | not as promised |\n|---|---|---|\n");
        for (name, (trials, failed)) in &self.by_workload {
            let _ = writeln!(text, "| {name} | {trials} | {failed} |");
        }
        text.push_str("\n| the kill fell | times |\n|---|---|\n");
        for (phase, times) in &self.by_phase {
            let _ = writeln!(text, "| {} | {times} |", words(*phase));
        }
        text.push_str("\n| killed by | times |\n|---|---|\n");
        for (moment, times) in &self.by_moment {
            let name = if *moment == "call" { "a call that changes a file" } else { "the clock" };
            let _ = writeln!(text, "| {name} | {times} |");
        }
        text
    }
}

fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Creation => "before the file had its name",
        Phase::BeforeFirstSeal => "before its first seal",
        Phase::Running => "between two seals",
        Phase::Resuming => "in a resume, before it had made the file its own",
        Phase::Closing => "behind the last seal, in the close",
        Phase::Over => "too late: the run was over",
    }
}
