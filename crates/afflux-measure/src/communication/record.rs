//! Results: one line of JSON each, with the unit, and one way or round trip, in every name.

use super::loggp::LogGp;
use super::mechanism::Mechanism;
use super::placement::{Placement, Reading};
use crate::host::Host;
use crate::timing::Summary;
use serde::{Deserialize, Serialize};

/// One result: what was measured, where, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Always `comm`.
    pub benchmark: String,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Which MPI, where it is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mpi: Option<String>,
    /// Where the two processes were.
    pub placement: Placement,
    /// Whether that is meant of processors or of nodes.
    pub reading: Reading,
    /// The number of the placement in the source's list.
    pub source_case: Option<u8>,
    /// Processors of the driving and the serving side, where they were fixed.
    pub processors: Option<[usize; 2]>,
    /// Machines of the two.
    pub hosts: [String; 2],
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
    /// A message there and the same back.
    RoundTrip(RoundTrip),
    /// Messages one way.
    Stream(Stream),
    /// Parameters fitted to the others.
    LogGp(LogGp),
    /// It is not here.
    Absent {
        /// What is missing.
        reason: String,
    },
    /// It is here, but did not work.
    Failed {
        /// What went wrong.
        reason: String,
    },
}

/// Round trips of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// Bytes of a message, each way.
    pub bytes: usize,
    /// Round trips of a sample, whose mean the sample is.
    pub round_trips: u64,
    /// The middle sample.
    pub round_trip_seconds_median: f64,
    /// The smallest.
    pub round_trip_seconds_min: f64,
    /// The 95th percentile by nearest rank.
    pub round_trip_seconds_p95: f64,
    /// Half of the median.
    pub one_way_seconds_median: f64,
    /// The samples in the order in which they were taken.
    pub round_trip_samples_seconds: Vec<f64>,
    /// Their number.
    pub repetitions: usize,
    /// Every round trip by itself, where that was measured too.
    pub single_round_trips: Option<Distribution>,
}

/// How single round trips are distributed; each includes two readings of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many.
    pub count: usize,
    /// The middle one.
    pub round_trip_seconds_p50: f64,
    /// 95 of 100 took no longer.
    pub round_trip_seconds_p95: f64,
    /// 99 of 100 took no longer.
    pub round_trip_seconds_p99: f64,
    /// The longest.
    pub round_trip_seconds_max: f64,
}

/// Messages of one size one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Bytes of a message.
    pub bytes: usize,
    /// Messages of a sample, after which one byte comes back.
    pub messages: u64,
    /// Of the median sample.
    pub one_way_bytes_per_second_median: f64,
    /// Of the fastest sample.
    pub one_way_bytes_per_second_max: f64,
    /// 95 of 100 samples were at least as fast.
    pub one_way_bytes_per_second_p5: f64,
    /// Time of a message, the answer at the end counted in.
    pub one_way_seconds_per_message_median: f64,
    /// The samples: seconds a message, in the order in which they were taken.
    pub one_way_samples_seconds_per_message: Vec<f64>,
    /// Their number.
    pub repetitions: usize,
    /// Part of the link's rate, where that is known.
    pub fraction_of_link: Option<f64>,
    /// Part of what copying the same bytes within one process gave.
    pub fraction_of_memory_copy: Option<f64>,
}

impl RoundTrip {
    /// From the samples (seconds a round trip).
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn new(bytes: usize, round_trips: u64, samples: &[f64], single: Option<Distribution>) -> Self {
        let summary = Summary::new(samples).expect("a sample at least");
        Self {
            bytes,
            round_trips,
            round_trip_seconds_median: summary.seconds_median,
            round_trip_seconds_min: summary.seconds_min,
            round_trip_seconds_p95: summary.seconds_p95,
            one_way_seconds_median: summary.seconds_median / 2.0,
            repetitions: summary.repetitions,
            round_trip_samples_seconds: summary.samples_seconds,
            single_round_trips: single,
        }
    }
}

impl Stream {
    /// From the samples (seconds a message).
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn new(bytes: usize, messages: u64, samples: &[f64]) -> Self {
        let summary = Summary::new(samples).expect("a sample at least");
        let rate = |seconds: f64| bytes as f64 / seconds;
        Self {
            bytes,
            messages,
            one_way_bytes_per_second_median: rate(summary.seconds_median),
            one_way_bytes_per_second_max: rate(summary.seconds_min),
            one_way_bytes_per_second_p5: rate(summary.seconds_p95),
            one_way_seconds_per_message_median: summary.seconds_median,
            repetitions: summary.repetitions,
            one_way_samples_seconds_per_message: summary.samples_seconds,
            fraction_of_link: None,
            fraction_of_memory_copy: None,
        }
    }
}

impl Distribution {
    /// Of these times; `None` when there are none.
    #[must_use]
    pub fn of(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        let count = seconds.len();
        // By nearest rank, as everywhere.
        let percentile = |percent: usize| seconds.get((count * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(Self {
            count,
            round_trip_seconds_p50: percentile(50)?,
            round_trip_seconds_p95: percentile(95)?,
            round_trip_seconds_p99: percentile(99)?,
            round_trip_seconds_max: *seconds.last()?,
        })
    }
}

impl Record {
    /// The mechanism, and which MPI where it is one.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.mpi {
            Some(mpi) => format!("{} ({mpi})", self.mechanism),
            None => self.mechanism.to_string(),
        }
    }

    /// Whether another record is of the same mechanism of the same MPI.
    #[must_use]
    pub fn is_same_mechanism(&self, other: &Self) -> bool {
        self.mechanism == other.mechanism && self.mpi == other.mpi
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record for tests.
    pub fn record(mechanism: Mechanism, placement: Placement, result: Measured) -> Record {
        Record {
            benchmark: "comm".to_owned(),
            mechanism,
            mpi: mechanism.is_mpi().then(|| "Open MPI v4.1.4".to_owned()),
            placement,
            reading: placement.reading(),
            source_case: placement.source_case(),
            processors: None,
            hosts: ["here".to_owned(), "here".to_owned()],
            result,
            host: Host { name: "here".into(), kernel: "Linux 6".into(), cpu: "a cpu".into(), cores: 2 },
            command: "afflux bench comm".to_owned(),
        }
    }

    #[test]
    fn a_record_survives_its_json() {
        let distribution = Distribution::of((1..=100).map(f64::from).collect());
        let results = [
            Measured::RoundTrip(RoundTrip::new(1, 10_000, &[3e-6, 2e-6, 4e-6], distribution)),
            Measured::Stream(Stream::new(4096, 100, &[1e-6])),
            Measured::Absent { reason: "no mpirun".to_owned() },
            Measured::Failed { reason: "refused".to_owned() },
        ];
        for result in results {
            let record = record(Mechanism::MpiTcp, Placement::TwoNodes, result);
            let line = serde_json::to_string(&record).unwrap();
            assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record, "{line}");
        }
    }

    #[test]
    fn every_time_says_which_way_it_is_and_its_unit() {
        let distribution = Distribution::of(vec![1.0, 2.0]);
        let round_trip = serde_json::to_value(RoundTrip::new(1, 10, &[2.0], distribution)).unwrap();
        let stream = serde_json::to_value(Stream::new(1, 10, &[2.0])).unwrap();
        let mut timed = 0;
        for object in [&round_trip, &round_trip["single_round_trips"], &stream] {
            for name in object.as_object().unwrap().keys().filter(|name| name.contains("second")) {
                timed += 1;
                assert!(name.starts_with("round_trip_") || name.starts_with("one_way_"), "{name}");
            }
        }
        assert!(timed > 10);
        assert_eq!(round_trip["one_way_seconds_median"], 1.0);
        assert_eq!(stream["one_way_bytes_per_second_median"], 0.5);
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let found = Distribution::of((1..=100).rev().map(f64::from).collect()).unwrap();
        let of = (found.round_trip_seconds_p50, found.round_trip_seconds_p95, found.round_trip_seconds_p99);
        assert_eq!((of, found.round_trip_seconds_max), ((50.0, 95.0, 99.0), 100.0));
        assert_eq!(Distribution::of(vec![]), None);
    }
}
