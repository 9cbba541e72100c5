//! The run: placement by placement, latency, then sizes in a shuffled order, then what LogGP needs.

use super::agent;
use super::burst::Burst;
use super::lane::Lanes;
use super::loggp::{self, SizeTimes};
use super::mechanism::Mechanism;
use super::options::Options;
use super::placement::{Placement, Spots};
use super::record::{Distribution, Measured, Record, RoundTrip, Stream};
use super::sampler::{Samples, Shape, sample};
use crate::host::Host;
use crate::janitor::{Janitor, JanitorError};
use crate::timing::Summary;
use std::collections::HashMap;

/// What is being measured, for a progress bar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Steps done.
    pub done: usize,
    /// Steps in all.
    pub steps: usize,
    /// What comes next.
    pub what: String,
}

/// Messages of a burst that tells the sender's own work, and the sizes at which it is measured.
const OVERHEAD_MESSAGES: u64 = 64;
const OVERHEAD_SIZES: [usize; 3] = [1, 1024, 65_536];
/// The time between two messages of it: this many times what a message needs, and at least this much.
const OVERHEAD_DELAY_FACTOR: f64 = 3.0;
const OVERHEAD_DELAY_SECONDS_MIN: f64 = 2e-6;
/// A sample of round trips of one byte is cut short at this length: on one processor, those who wait by spinning need a time slice each.
const LATENCY_SECONDS_MAX: f64 = 2.0;
/// Messages of a sample at most.
const MESSAGES_MAX: u64 = 1 << 20;

/// Measures everything that the options ask for. `found` gets each record as soon as it is there.
///
/// # Errors
/// The janitor did not start. What goes wrong with a mechanism is a record.
pub fn run(
    options: &Options,
    progress: &mut dyn FnMut(Progress),
    found: &mut dyn FnMut(&Record),
) -> Result<Vec<Record>, JanitorError> {
    let mut janitor = Janitor::start(&options.program)?;
    let processors = agent::processors().unwrap_or_default();
    // Described before this process is placed, which would seem to leave it one processor.
    let machine = Host::current();
    let steps_each = options.sizes.len() + 2;
    let mut records = Vec::new();
    for (index, &placement) in options.placements.iter().enumerate() {
        let mut tell = |done: usize, what: &str| {
            let (done, steps) = (index * steps_each + done, options.placements.len() * steps_each);
            progress(Progress { done, steps, what: format!("{placement}: {what}") });
        };
        let new = match placement.on(&processors, &options.hosts) {
            Err(reason) => absent(options, &machine, placement, &reason),
            Ok(spots) => {
                // The parent is where the placement wants it while its children are measured.
                let _ = agent::place(spots.parent);
                let (lanes, absent) = Lanes::new(options, &machine, placement, &spots);
                let mut at = At { options, lanes, janitor: &mut janitor, new: absent, half_trips: HashMap::new() };
                at.run(&mut tell);
                let _ = agent::allow(&processors);
                at.new
            }
        };
        new.iter().for_each(&mut *found);
        records.extend(new);
    }
    Ok(records)
}

/// A placement that this machine cannot offer: a record for the whole of it.
fn absent(options: &Options, machine: &Host, placement: Placement, reason: &str) -> Vec<Record> {
    let spots = Spots { processors: None, parent: None, hosts: [None; 2] };
    let (lanes, _) = Lanes::new(options, machine, placement, &spots);
    (0..lanes.lanes.len()).map(|lane| lanes.record(lane, Measured::Absent { reason: reason.to_owned() })).collect()
}

/// A run at a placement.
struct At<'a> {
    options: &'a Options,
    lanes: Lanes,
    janitor: &'a mut Janitor,
    new: Vec<Record>,
    /// Half of the round trips' medians in seconds, by (lane, bytes).
    half_trips: HashMap<(usize, usize), f64>,
}

impl At<'_> {
    fn run(&mut self, tell: &mut dyn FnMut(usize, &str)) {
        tell(0, "latency");
        let latencies = self.latencies();
        let mut sizes: HashMap<usize, Vec<SizeTimes>> = HashMap::new();
        for (done, bytes) in shuffled(&self.options.sizes).into_iter().enumerate() {
            tell(done + 1, &crate::report::bytes(bytes as u64));
            self.round_trips(bytes);
            for (lane, seconds_per_message) in self.streams(bytes) {
                // Of one message alone: half a round trip of the size, half of one of a byte for the answer.
                let alone = self.half_trip(lane, bytes) + self.half_trip(lane, 1);
                let seconds_per_message = without_the_first(seconds_per_message, alone);
                sizes.entry(lane).or_default().push(SizeTimes { bytes, seconds_per_message, overhead_seconds: None });
            }
        }
        tell(self.options.sizes.len() + 1, "LogGP");
        self.overheads(&mut sizes);
        self.fits(&latencies, sizes);
        self.new.sort_by_key(|record| order(self.options, record));
    }

    fn sample(&mut self, shape: &Shape<'_>) -> Vec<Samples> {
        let mut failures = Vec::new();
        let samples = sample(&mut self.lanes, shape, &self.options.rule, self.janitor, &mut failures);
        self.new.append(&mut failures);
        samples
    }

    /// Round trips of one byte, as many as the source has; returns the medians in seconds by lane.
    fn latencies(&mut self) -> HashMap<usize, f64> {
        let burst = |units| Burst::ping_pong(1, units);
        let round_trips = self.options.round_trips;
        let shape = Shape { burst: &burst, units_max: round_trips, sample_seconds: LATENCY_SECONDS_MAX };
        let mut medians = HashMap::new();
        for Samples { lane, units, seconds_per_unit } in self.sample(&shape) {
            let single = Burst { each_round: true, ..Burst::ping_pong(1, units) };
            let single = self.lanes.run(lane, &single, self.janitor).ok();
            let single = single.and_then(|timing| Distribution::of(timing.rounds_seconds));
            let result = RoundTrip::new(1, units, &seconds_per_unit, single);
            medians.insert(lane, result.round_trip_seconds_median);
            self.half_trips.insert((lane, 1), result.one_way_seconds_median);
            self.new.push(self.lanes.record(lane, Measured::RoundTrip(result)));
        }
        medians
    }

    /// Round trips of a size.
    fn round_trips(&mut self, bytes: usize) {
        if bytes == 1 {
            return;
        }
        let burst = |units| Burst::ping_pong(bytes, units);
        let sample_seconds = self.options.sample_seconds;
        let shape = Shape { burst: &burst, units_max: self.options.round_trips, sample_seconds };
        for Samples { lane, units, seconds_per_unit } in self.sample(&shape) {
            let result = RoundTrip::new(bytes, units, &seconds_per_unit, None);
            self.half_trips.insert((lane, bytes), result.one_way_seconds_median);
            self.new.push(self.lanes.record(lane, Measured::RoundTrip(result)));
        }
    }

    /// Streams of a size; returns (lane, (messages, seconds a message)).
    fn streams(&mut self, bytes: usize) -> Vec<(usize, (u64, f64))> {
        let burst = |units| Burst::stream(bytes, units);
        let sample_seconds = self.options.sample_seconds;
        let shape = Shape { burst: &burst, units_max: MESSAGES_MAX, sample_seconds };
        let samples = self.sample(&shape);
        let mut results: Vec<(usize, Stream)> = samples
            .iter()
            .map(|samples| (samples.lane, Stream::new(bytes, samples.units, &samples.seconds_per_unit)))
            .collect();
        let copy = results
            .iter()
            .find(|(lane, _)| self.lanes.lanes[*lane].mechanism == Mechanism::MemoryCopy)
            .map(|(_, stream)| stream.one_way_bytes_per_second_median);
        let link = self.link_bytes_per_second();
        for (lane, stream) in &mut results {
            let rate = stream.one_way_bytes_per_second_median;
            stream.fraction_of_link = link.map(|link| rate / link);
            stream.fraction_of_memory_copy = copy.filter(|_| link.is_none()).map(|copy| rate / copy);
            self.new.push(self.lanes.record(*lane, Measured::Stream(stream.clone())));
        }
        let times =
            |(lane, stream): (usize, Stream)| (lane, (stream.messages, stream.one_way_seconds_per_message_median));
        results.into_iter().map(times).collect()
    }

    /// Rate of the link between the hosts of this placement, in bytes.
    fn link_bytes_per_second(&self) -> Option<f64> {
        let between = matches!(self.lanes.placement, Placement::TwoNodes | Placement::TwoOtherNodes);
        self.options.link_bits_per_second.filter(|_| between).map(|bits| bits / 8.0)
    }

    fn half_trip(&self, lane: usize, bytes: usize) -> f64 {
        self.half_trips.get(&(lane, bytes)).copied().unwrap_or(0.0)
    }

    /// Measures what the sender itself works, at the sizes that were streamed.
    fn overheads(&mut self, sizes: &mut HashMap<usize, Vec<SizeTimes>>) {
        for (&lane, times) in sizes.iter_mut() {
            for time in times.iter_mut().filter(|time| OVERHEAD_SIZES.contains(&time.bytes)) {
                if !self.lanes.lanes[lane].runs {
                    continue;
                }
                let delay_seconds = (OVERHEAD_DELAY_FACTOR * time.seconds_per_message).max(OVERHEAD_DELAY_SECONDS_MIN);
                let burst = Burst { delay_seconds, ..Burst::stream(time.bytes, OVERHEAD_MESSAGES) };
                let samples: Result<Vec<f64>, _> = (0..self.options.rule.repetitions.max(1))
                    .map(|_| self.lanes.run(lane, &burst, self.janitor).map(|timing| timing.seconds))
                    .collect();
                match samples {
                    Ok(samples) => {
                        let alone = self.half_trips.get(&(lane, time.bytes)).copied().unwrap_or(0.0)
                            + self.half_trips.get(&(lane, 1)).copied().unwrap_or(0.0);
                        let median = Summary::new(&samples).map_or(0.0, |summary| summary.seconds_median);
                        let spaced = (median - alone - delay_seconds) / (OVERHEAD_MESSAGES - 1) as f64;
                        time.overhead_seconds = Some(spaced - delay_seconds);
                    }
                    Err(error) => {
                        let result = Measured::Failed { reason: error.to_string() };
                        self.new.push(self.lanes.record(lane, result));
                    }
                }
            }
        }
    }

    fn fits(&mut self, latencies: &HashMap<usize, f64>, sizes: HashMap<usize, Vec<SizeTimes>>) {
        for (lane, times) in sizes {
            if let Some(&round_trip_seconds) = latencies.get(&lane)
                && let Some(fitted) = loggp::fit(round_trip_seconds, &times)
            {
                self.new.push(self.lanes.record(lane, Measured::LogGp(fitted)));
            }
        }
    }
}

/// (T(n) - T(1)) / (n-1) from T(n)/n and T(1); the mean where there was one message only.
fn without_the_first((messages, seconds_per_message): (u64, f64), alone: f64) -> f64 {
    let n = messages as f64;
    let without = (n * seconds_per_message - alone) / (n - 1.0);
    if messages > 1 && without > 0.0 { without } else { seconds_per_message }
}

/// Where a record stands in the results: by mechanism, MPI, kind and size, not by when it was measured.
fn order(options: &Options, record: &Record) -> (usize, Option<String>, usize, usize) {
    let mechanism = options.mechanisms.iter().position(|mechanism| *mechanism == record.mechanism);
    let (kind, bytes) = match &record.result {
        Measured::RoundTrip(result) => (0, result.bytes),
        Measured::Stream(result) => (1, result.bytes),
        Measured::LogGp(_) => (2, 0),
        Measured::Absent { .. } | Measured::Failed { .. } => (3, 0),
    };
    (mechanism.unwrap_or(usize::MAX), record.mpi.clone(), kind, bytes)
}

/// The sizes in an order of no meaning, the same in every run: a machine that slows down slows no end of the curve.
fn shuffled(sizes: &[usize]) -> Vec<usize> {
    let mut shuffled = sizes.to_vec();
    // Multiplication by a large odd number scatters (Knuth's multiplicative hash).
    shuffled.sort_by_key(|&bytes| (bytes as u64 ^ 0x55).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    shuffled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_sizes_is_no_order() {
        let sizes = super::super::options::sizes_of_the_source();
        assert_eq!((sizes[0], sizes[sizes.len() - 1]), (1, 64 << 20));
        let order = shuffled(&sizes);
        assert!(!order.is_sorted() && !order.iter().rev().is_sorted());
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, sizes);
    }

    #[test]
    fn the_first_message_and_the_answer_are_taken_off() {
        // 10 messages of 2 s after a first that takes 7 with its answer.
        let total = 7.0 + 9.0 * 2.0;
        assert!((without_the_first((10, total / 10.0), 7.0) - 2.0).abs() < 1e-12);
        assert_eq!(without_the_first((1, 3.0), 7.0), 3.0);
        assert_eq!(without_the_first((2, 1.0), 7.0), 1.0);
    }
}
