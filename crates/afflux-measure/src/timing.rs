//! The one timing rule of all benchmarks.
//!
//! A configuration's methods run in alternation within one process, so that a machine that slows down slows all of them. Each
//! method runs `warmups` times unmeasured and then `repetitions` times; the median, the smallest and the 95th percentile are
//! reported and the raw samples kept. A method so slow that it has used up `seconds_max` is not run again: its report states
//! how many repetitions there were. When several ranks take part, a sample is the time of the slowest.

use serde::Serialize;

/// How often something is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Runs that are not counted.
    pub warmups: usize,
    /// Runs that are counted, at least 1.
    pub repetitions: usize,
    /// Once a method has used this much time in a configuration it is not run again.
    pub seconds_max: f64,
}

impl Default for Rule {
    /// One warm-up fills caches and allocates; seven samples give a median that one disturbed run cannot move.
    fn default() -> Self {
        Self { warmups: 1, repetitions: 7, seconds_max: 10.0 }
    }
}

/// The runs of one method so far, in order, and what the rule makes of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Runs {
    seconds: Vec<f64>,
}

impl Runs {
    /// Whether the rule asks for another run. The same on all ranks if the recorded times are.
    #[must_use]
    pub fn wants_another(&self, rule: &Rule) -> bool {
        let enough = self.seconds.len() >= rule.warmups + rule.repetitions.max(1);
        let slow = !self.seconds.is_empty() && self.seconds.iter().sum::<f64>() >= rule.seconds_max;
        !enough && !slow
    }

    /// Adds the time of a run.
    pub fn record(&mut self, seconds: f64) {
        self.seconds.push(seconds);
    }

    /// Index of the first counted run: the warm-ups are left out unless there was nothing else.
    #[must_use]
    pub fn first_counted(&self, rule: &Rule) -> usize {
        if self.seconds.len() > rule.warmups { rule.warmups } else { 0 }
    }

    /// The counted samples; `None` before the first run.
    #[must_use]
    pub fn summary(&self, rule: &Rule) -> Option<Summary> {
        Summary::new(&self.seconds[self.first_counted(rule)..])
    }
}

/// What is reported of a list of samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The middle sample, or the mean of the two in the middle.
    pub seconds_median: f64,
    /// The smallest sample.
    pub seconds_min: f64,
    /// The 95th percentile by nearest rank: with fewer than 20 samples the largest.
    pub seconds_p95: f64,
    /// Number of samples.
    pub repetitions: usize,
    /// The samples in the order in which they were taken.
    pub samples_seconds: Vec<f64>,
}

impl Summary {
    /// Summarises samples; `None` when there are none.
    #[must_use]
    pub fn new(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let upper = *sorted.get(count / 2)?;
        let median = if count % 2 == 1 { upper } else { f64::midpoint(sorted[count / 2 - 1], upper) };
        Some(Self {
            seconds_median: median,
            seconds_min: sorted[0],
            seconds_p95: sorted[(count * 19).div_ceil(20) - 1],
            repetitions: count,
            samples_seconds: samples.to_vec(),
        })
    }

    /// Index of the sample nearest the median, for details that belong to one run.
    #[must_use]
    pub fn typical_index(&self) -> usize {
        let distance = |&index: &usize| (self.samples_seconds[index] - self.seconds_median).abs();
        (0..self.samples_seconds.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_minimum_and_percentile() {
        let odd = Summary::new(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.seconds_median, odd.seconds_min, odd.seconds_p95, odd.repetitions), (2.0, 1.0, 3.0, 3));
        assert_eq!(odd.samples_seconds, [3.0, 1.0, 2.0]);
        assert_eq!(odd.typical_index(), 2);
        assert_eq!(Summary::new(&[4.0, 1.0, 2.0, 8.0]).unwrap().seconds_median, 3.0);
        let many: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(Summary::new(&many).unwrap().seconds_p95, 95.0);
        assert_eq!(Summary::new(&[]), None);
    }

    #[test]
    fn warmups_are_left_out_unless_there_is_nothing_else() {
        let rule = Rule { warmups: 1, repetitions: 2, seconds_max: 10.0 };
        let mut runs = Runs::default();
        for seconds in [5.0, 1.0, 2.0] {
            assert!(runs.wants_another(&rule));
            runs.record(seconds);
        }
        assert!(!runs.wants_another(&rule));
        assert_eq!(runs.summary(&rule).unwrap().samples_seconds, [1.0, 2.0]);

        let mut slow = Runs::default();
        slow.record(11.0);
        assert!(!slow.wants_another(&rule));
        assert_eq!(slow.summary(&rule).unwrap().samples_seconds, [11.0]);
    }
}
