//! Results of spawning: one line of JSON each.

use super::method::Method;
use crate::host::Host;
use crate::timing::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One result: a method, on a machine, with a number of processes at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Always `spawn`.
    pub benchmark: String,
    /// The method.
    pub method: Method,
    /// Which MPI, or the launcher's template.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub variant: Option<String>,
    /// The machine that was asked for, where it is another one; for MPI all of them, with commas.
    pub target: Option<String>,
    /// Processes that were started at once.
    pub at_once: usize,
    /// What the processes become; empty where they stay a copy of this program.
    pub child: String,
    /// What came of it.
    #[serde(flatten)]
    pub result: Measured,
    /// The machine of the command.
    pub host: Host,
    /// The command line.
    pub command: String,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "measure", rename_all = "kebab-case")]
pub enum Measured {
    /// Processes were started.
    Spawns(Spawns),
    /// The method is not here.
    Absent {
        /// What is missing.
        reason: String,
    },
}

/// Times of processes that spoke, and numbers of those that did not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Spawns {
    /// Processes that were to be started.
    pub spawns: usize,
    /// Of them, those that did not start or ended without a word.
    pub failed: usize,
    /// Of them, those that had said nothing when the time was up.
    pub timed_out: usize,
    /// From the call to the first byte of a process: the middle one; nothing where none spoke.
    pub call_to_first_byte_seconds_median: Option<f64>,
    /// The shortest.
    pub call_to_first_byte_seconds_min: Option<f64>,
    /// The 95th percentile by nearest rank.
    pub call_to_first_byte_seconds_p95: Option<f64>,
    /// All of them, in order.
    pub call_to_first_byte_samples_seconds: Vec<f64>,
    /// From the first call to the last first byte of those that were started at once: the middle one.
    pub call_to_all_first_bytes_seconds_median: Option<f64>,
    /// Processes at once over that.
    pub spawns_per_second: Option<f64>,
    /// Where they said that they were, and how many were there.
    pub landed: BTreeMap<String, usize>,
    /// What the first that failed complained of.
    pub complaint: Option<String>,
}

/// Collects what became of processes.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    result: Spawns,
    together: Vec<f64>,
}

impl Tally {
    /// A process that spoke.
    pub fn spoke(&mut self, seconds: f64, landed: String) {
        self.result.spawns += 1;
        self.result.call_to_first_byte_samples_seconds.push(seconds);
        if !landed.is_empty() {
            *self.result.landed.entry(landed).or_default() += 1;
        }
    }

    /// Processes that failed.
    pub fn failed(&mut self, count: usize, complaint: &str) {
        self.result.spawns += count;
        self.result.failed += count;
        self.result.complaint.get_or_insert_with(|| complaint.to_owned());
    }

    /// Processes that were late.
    pub fn late(&mut self, count: usize) {
        self.result.spawns += count;
        self.result.timed_out += count;
    }

    /// All that were started at once have spoken, in this time.
    pub fn together(&mut self, seconds: f64) {
        self.together.push(seconds);
    }

    /// Processes so far.
    #[must_use]
    pub fn spawns(&self) -> usize {
        self.result.spawns
    }

    /// Whether any process has spoken.
    #[must_use]
    pub fn any_spoke(&self) -> bool {
        !self.result.call_to_first_byte_samples_seconds.is_empty()
    }

    /// The result, of so many at once.
    #[must_use]
    pub fn finish(mut self, at_once: usize) -> Spawns {
        if let Some(summary) = Summary::new(&self.result.call_to_first_byte_samples_seconds) {
            self.result.call_to_first_byte_seconds_median = Some(summary.seconds_median);
            self.result.call_to_first_byte_seconds_min = Some(summary.seconds_min);
            self.result.call_to_first_byte_seconds_p95 = Some(summary.seconds_p95);
        }
        let together = Summary::new(&self.together).map(|summary| summary.seconds_median);
        self.result.call_to_all_first_bytes_seconds_median = together;
        self.result.spawns_per_second = together.map(|seconds| at_once as f64 / seconds);
        self.result
    }
}

impl Record {
    /// The method, and which MPI or launcher.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{} ({variant})", self.method),
            None => self.method.to_string(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record for tests.
    pub fn record(method: Method, target: Option<&str>, at_once: usize, result: Measured) -> Record {
        Record {
            benchmark: "spawn".to_owned(),
            method,
            variant: method.is_mpi().then(|| "MPICH 4.0.2".to_owned()),
            target: target.map(str::to_owned),
            at_once,
            child: "uname -n".to_owned(),
            result,
            host: Host { name: "here".into(), kernel: "Linux 6".into(), cpu: "a cpu".into(), cores: 2 },
            command: "afflux bench spawn".to_owned(),
        }
    }

    #[test]
    fn processes_are_counted_whatever_became_of_them() {
        let mut tally = Tally::default();
        for seconds in [3.0, 1.0, 2.0] {
            tally.spoke(seconds, "n1".to_owned());
        }
        tally.spoke(9.0, String::new());
        tally.failed(2, "no route");
        tally.failed(1, "another");
        tally.late(1);
        tally.together(4.0);
        let result = tally.finish(2);
        assert_eq!((result.spawns, result.failed, result.timed_out), (8, 3, 1));
        assert_eq!(result.call_to_first_byte_seconds_median, Some(2.5));
        assert_eq!(result.spawns_per_second, Some(0.5));
        assert_eq!(result.landed, BTreeMap::from([("n1".to_owned(), 3)]));
        assert_eq!(result.complaint.as_deref(), Some("no route"));
        assert_eq!(Tally::default().finish(1).call_to_first_byte_seconds_median, None);
    }

    #[test]
    fn a_record_survives_its_json() {
        let mut tally = Tally::default();
        tally.spoke(1e-3, "n1".to_owned());
        let results = [Measured::Spawns(tally.finish(1)), Measured::Absent { reason: "no rsh".to_owned() }];
        for result in results {
            let record = record(Method::MpiSpawn, Some("n1"), 4, result);
            let line = serde_json::to_string(&record).unwrap();
            assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record, "{line}");
        }
    }
}
