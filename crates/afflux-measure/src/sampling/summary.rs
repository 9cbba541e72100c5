//! Results as people read them: a table with the ratios that matter, and the goals that Afflux is held to.

use super::{Measurement, Method};
use std::fmt::Write as _;

/// A promise about a ratio, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// What is compared.
    pub what: String,
    /// The ratio measured.
    pub ratio: f64,
    /// The bound.
    pub bound: f64,
    /// Whether the ratio must be at least the bound (else at most).
    pub at_least: bool,
}

impl Goal {
    /// Whether the ratio keeps within the bound.
    #[must_use]
    pub fn is_met(&self) -> bool {
        if self.at_least { self.ratio >= self.bound } else { self.ratio <= self.bound }
    }
}

/// The results of one configuration: same points, ranks.
fn configurations(results: &[Measurement]) -> impl Iterator<Item = &[Measurement]> {
    results.chunk_by(|a, b| (a.points, a.ranks) == (b.points, b.ranks))
}

fn median(configuration: &[Measurement], method: Method) -> Option<f64> {
    configuration.iter().find(|result| result.method == method).map(|result| result.time.seconds_median)
}

/// How many times the median of `slow` is that of `fast`, where both were measured.
fn ratio(configuration: &[Measurement], slow: Method, fast: Method) -> Option<f64> {
    Some(median(configuration, slow)? / median(configuration, fast)?)
}

/// A table, one line a result, with how many times faster Afflux is than each method and how far it is from the limit; below it
/// the configurations in which another method was faster, and where Afflux spent its time there.
#[must_use]
pub fn table(results: &[Measurement]) -> String {
    let mut text = format!(
        "{:>6} {:>5}  {:<28} {:>11} {:>11} {:>4} {:>12} {:>11}\n",
        "points", "ranks", "method", "median (ms)", "min (ms)", "runs", "MB/s", "afflux is"
    );
    let mut lost = String::new();
    for configuration in configurations(results) {
        for result in configuration {
            let verdict = match ratio(configuration, result.method, Method::Afflux) {
                _ if result.method == Method::Afflux => String::new(),
                Some(ratio) if ratio >= 1.0 => format!("{ratio:.1}x faster"),
                Some(ratio) => format!("{:.1}x slower", 1.0 / ratio),
                None => String::new(),
            };
            let _ = writeln!(
                text,
                "{:>6} {:>5}  {:<28} {:>11.3} {:>11.3} {:>4} {:>12.2} {:>11}",
                result.points,
                result.ranks,
                result.method,
                result.time.seconds_median * 1e3,
                result.time.seconds_min * 1e3,
                result.time.repetitions,
                result.bytes_per_second * 1e-6,
                verdict
            );
        }
        lost.push_str(&losses(configuration));
    }
    if !lost.is_empty() {
        let _ = write!(text, "\nWhere Afflux was slower than another method (the limit aside):\n{lost}");
    }
    text
}

/// The methods that beat Afflux in a configuration, with the phases in which Afflux spent its time.
fn losses(configuration: &[Measurement]) -> String {
    let Some(afflux) = configuration.iter().find(|result| result.method == Method::Afflux) else {
        return String::new();
    };
    let winners = configuration
        .iter()
        .filter(|result| result.method != Method::Limit && result.time.seconds_median < afflux.time.seconds_median);
    let names: Vec<&str> = winners.map(|result| result.method.name()).collect();
    if names.is_empty() {
        return String::new();
    }
    let labels = ["create", "transpose", "exchange", "write", "seal", "close"];
    let mut phases: Vec<_> = labels.into_iter().zip(afflux.phases.as_array()).collect();
    phases.sort_by(|a, b| b.1.total_cmp(&a.1));
    let spent: Vec<String> =
        phases.iter().take(3).map(|(label, seconds)| format!("{label} {:.3} ms", seconds * 1e3)).collect();
    format!(
        "{:>6} points: {} (Afflux's {:.3} ms: {})\n",
        afflux.points,
        names.join(", "),
        afflux.time.seconds_median * 1e3,
        spent.join(", ")
    )
}

/// The goals that these results can speak to.
#[must_use]
pub fn goals(results: &[Measurement]) -> Vec<Goal> {
    let mut goals = Vec::new();
    let direct: Vec<f64> = configurations(results)
        .filter(|configuration| configuration[0].points <= 1024)
        .filter_map(|configuration| ratio(configuration, Method::DirectOpenAppendClose, Method::Afflux))
        .collect();
    if direct.len() > 1 {
        goals.push(Goal {
            what: format!("direct-open-append-close over afflux, mean of {} sizes up to 1,024 points", direct.len()),
            ratio: direct.iter().sum::<f64>() / direct.len() as f64,
            bound: 49.0,
            at_least: true,
        });
    }
    let bounds = [
        (Method::DirectOpenAppendClose, Method::Afflux, 1024, 100.0, true),
        (Method::Gather, Method::Afflux, 1024, 2.0, true),
        (Method::Gather, Method::Afflux, 8192, 2.0, true),
        (Method::Gather, Method::Afflux, 16, 1.0, true),
        (Method::Afflux, Method::Limit, 1024, 3.5, false),
        (Method::Afflux, Method::Limit, 8192, 2.0, false),
    ];
    for (slow, fast, points, bound, at_least) in bounds {
        let found = configurations(results)
            .filter(|configuration| configuration[0].points == points)
            .find_map(|configuration| ratio(configuration, slow, fast));
        if let Some(ratio) = found {
            goals.push(Goal { what: format!("{slow} over {fast}, {points} points"), ratio, bound, at_least });
        }
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{FileSystem, Host};
    use crate::sampling::{Owners, Phases};
    use crate::timing::Summary;

    fn result(method: Method, points: u64, seconds: f64) -> Measurement {
        Measurement {
            benchmark: "sampling",
            method,
            points,
            ranks: 4,
            backend: "threads",
            mpi_version: None,
            owners: Owners::Grid,
            steps: 350,
            window: 100,
            bytes: points * 350 * 32,
            time: Summary::new(&[seconds]).unwrap(),
            warmups: 0,
            bytes_per_second: 1.0,
            phases: Phases { create_seconds: seconds / 2.0, ..Phases::default() },
            verified: true,
            fsync: false,
            file_system: FileSystem::default(),
            host: Host { name: String::new(), kernel: String::new(), cpu: String::new(), cores: 1 },
            command: String::new(),
        }
    }

    #[test]
    fn losing_rows_are_shown_and_explained() {
        let results = [
            result(Method::Afflux, 1, 0.004),
            result(Method::DirectOpenAppendClose, 1, 0.002),
            result(Method::Limit, 1, 0.0001),
        ];
        let text = table(&results);
        assert!(text.contains("2.0x slower") && text.contains("1 points: direct-open-append-close"), "{text}");
        assert!(text.contains("create 2.000 ms"), "{text}");
    }

    #[test]
    fn goals_follow_from_what_was_measured() {
        let mut results = vec![];
        for (points, afflux, direct) in [(512, 0.01, 0.5), (1024, 0.02, 3.0)] {
            results.push(result(Method::Afflux, points, afflux));
            results.push(result(Method::DirectOpenAppendClose, points, direct));
        }
        let goals = goals(&results);
        assert_eq!(goals.len(), 2);
        assert!((goals[0].ratio - 100.0).abs() < 1e-9 && goals[0].is_met());
        assert!((goals[1].ratio - 150.0).abs() < 1e-9 && goals[1].is_met());
        assert!(!Goal { what: String::new(), ratio: 4.0, bound: 3.5, at_least: false }.is_met());
    }

    #[test]
    fn a_result_is_one_json_object_with_the_agreed_keys() {
        let value = serde_json::to_value(result(Method::Gather, 8, 0.5)).unwrap();
        for key in ["method", "points", "ranks", "backend", "steps", "window", "bytes", "seconds_median", "seconds_min"]
        {
            assert!(!value[key].is_null(), "{key}");
        }
        assert_eq!(value["method"], "gather");
        assert_eq!(value["repetitions"], 1);
        assert_eq!(value["phases"]["create_seconds"], 0.25);
    }
}
