//! The timing rule at a placement: every lane once unmeasured with its bytes compared, then all in turn, repetition by repetition.
//!
//! How many messages a sample has is found while warming up, so that a sample lasts about as long for fast as for slow mechanisms, and long
//! compared with the clock.

use super::burst::Burst;
use super::lane::Lanes;
use super::record::{Measured, Record};
use crate::janitor::Janitor;
use crate::timing::{Rule, Runs};

/// What is sampled: a burst of a number of units (round trips, messages).
pub struct Shape<'a> {
    /// The burst of that many units.
    pub burst: &'a dyn Fn(u64) -> Burst,
    /// No sample has more.
    pub units_max: u64,
    /// How long a sample should last.
    pub sample_seconds: f64,
}

/// The samples of a lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// Index of the lane.
    pub lane: usize,
    /// Units of a sample.
    pub units: u64,
    /// Seconds a unit, sample by sample.
    pub seconds_per_unit: Vec<f64>,
}

/// A sample grows by at most this factor from one try to the next: the first tries are cold, and tell little.
const GROWTH_MAX: u64 = 32;

/// Samples all lanes that run. Those that fail are out, with a record.
pub fn sample(
    lanes: &mut Lanes,
    shape: &Shape<'_>,
    rule: &Rule,
    janitor: &mut Janitor,
    failures: &mut Vec<Record>,
) -> Vec<Samples> {
    let mut sampled: Vec<(Samples, Runs)> = Vec::new();
    for lane in 0..lanes.lanes.len() {
        if lanes.lanes[lane].runs
            && let Some(units) = attempt(lanes, lane, failures, |lanes| warm_up(lanes, lane, shape, janitor))
        {
            sampled.push((Samples { lane, units, seconds_per_unit: Vec::new() }, Runs::default()));
        }
    }
    // The warm-ups have been; what is recorded here all counts.
    let counted = Rule { warmups: 0, ..*rule };
    while sampled.iter().any(|(samples, runs)| lanes.lanes[samples.lane].runs && runs.wants_another(&counted)) {
        for (samples, runs) in &mut sampled {
            let (lane, units) = (samples.lane, samples.units);
            if !lanes.lanes[lane].runs || !runs.wants_another(&counted) {
                continue;
            }
            let run = |lanes: &mut Lanes| lanes.run(lane, &(shape.burst)(units), janitor);
            if let Some(timing) = attempt(lanes, lane, failures, run) {
                runs.record(timing.seconds);
                samples.seconds_per_unit.push(timing.seconds / units as f64);
            }
        }
    }
    sampled.retain(|(samples, _)| lanes.lanes[samples.lane].runs && !samples.seconds_per_unit.is_empty());
    sampled.into_iter().map(|(samples, _)| samples).collect()
}

/// Runs something of a lane; a failure is put on record.
fn attempt<T>(
    lanes: &mut Lanes,
    lane: usize,
    failures: &mut Vec<Record>,
    run: impl FnOnce(&mut Lanes) -> Result<T, super::station::StationError>,
) -> Option<T> {
    match run(lanes) {
        Ok(value) => Some(value),
        Err(error) => {
            failures.push(lanes.record(lane, Measured::Failed { reason: error.to_string() }));
            None
        }
    }
}

/// Compares the bytes of one unit, then finds how many units make a sample.
fn warm_up(
    lanes: &mut Lanes,
    lane: usize,
    shape: &Shape<'_>,
    janitor: &mut Janitor,
) -> Result<u64, super::station::StationError> {
    lanes.run(lane, &Burst { verify: true, ..(shape.burst)(1) }, janitor)?;
    let mut units = 1;
    loop {
        let seconds = lanes.run(lane, &(shape.burst)(units), janitor)?.seconds;
        let wanted = next_units(units, seconds, shape.sample_seconds, shape.units_max);
        // Long enough to be believed.
        if wanted <= units || seconds >= shape.sample_seconds / 4.0 {
            return Ok(wanted);
        }
        units = wanted;
    }
}

/// How many units to try next, when `units` took `seconds`.
fn next_units(units: u64, seconds: f64, sample_seconds: f64, units_max: u64) -> u64 {
    let ratio = (sample_seconds / seconds.max(1e-9)).clamp(0.0, GROWTH_MAX as f64);
    // Bounded by the clamp: no bits are lost that matter.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let wanted = (units as f64 * ratio) as u64;
    wanted.clamp(1, units_max.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_grow_towards_their_length() {
        assert_eq!(next_units(1, 1e-6, 0.02, 10_000), 32);
        assert_eq!(next_units(1000, 0.01, 0.02, 10_000), 2000);
        assert_eq!(next_units(1000, 0.01, 0.02, 1500), 1500);
        assert_eq!(next_units(1000, 1.0, 0.02, 10_000), 20);
        assert_eq!(next_units(1, 5.0, 0.02, 10_000), 1);
        assert_eq!(next_units(7, 0.0, 0.02, 0), 1);
    }
}
