//! The source's index of relative performance.
//!
//! Its text: 1 is the best, 5 means that the rate has fallen by 30 %, and so on; a coarse measure because the range is wide. Two points do not make a
//! scale. Ours goes through both and is the same everywhere: each step is the same *ratio* of rates, so four steps multiply the rate by
//! 0.7 (a step is 8.5 % less), and mechanisms that differ by decades still have indices that can be read. A scale of equal differences
//! (7.5 % of the best a step) would end at 14.3, where the rate is 0. The ratio itself stands beside the index in every table.

/// The rate that is left four steps below the best.
const RATE_AT_FIVE: f64 = 0.7;

/// The index of something that takes `seconds` where the best takes `best_seconds`: 1 and more.
#[must_use]
pub fn index(seconds: f64, best_seconds: f64) -> f64 {
    1.0 + 4.0 * (seconds / best_seconds).ln() / (1.0 / RATE_AT_FIVE).ln()
}

/// Things with their times in seconds, sorted from the best: (thing, times the best's, index).
#[must_use]
pub fn ranked<T>(mut times: Vec<(T, f64)>) -> Vec<(T, f64, f64)> {
    times.retain(|(_, seconds)| *seconds > 0.0 && seconds.is_finite());
    times.sort_by(|a, b| a.1.total_cmp(&b.1));
    let best = times.first().map_or(1.0, |(_, seconds)| *seconds);
    times.into_iter().map(|(thing, seconds)| (thing, seconds / best, index(seconds, best))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_points_of_the_source_are_on_the_scale() {
        assert_eq!(index(2.0, 2.0), 1.0);
        assert!((index(1.0 / 0.7, 1.0) - 5.0).abs() < 1e-12);
        assert!((index(1.0 / 0.49, 1.0) - 9.0).abs() < 1e-12);
    }

    #[test]
    fn the_best_comes_first_and_what_was_not_measured_not_at_all() {
        let ranks = ranked(vec![("slow", 4.0), ("none", 0.0), ("fast", 2.0), ("broken", f64::NAN)]);
        assert_eq!(
            ranks.iter().map(|(name, ratio, _)| (*name, *ratio)).collect::<Vec<_>>(),
            [("fast", 1.0), ("slow", 2.0)]
        );
    }
}
