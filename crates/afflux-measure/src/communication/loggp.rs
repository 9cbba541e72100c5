//! The parameters of the LogGP model (Alexandrov, Ionescu, Schauser and Scheiman 1995), fitted to what was measured.
//!
//! One message of m bytes takes L + 2o + (m-1)G; each further one, sent at once, g + (m-1)G more. The measurements are those of Hoefler's
//! netgauge: `PRTT(n, d, m)` is the time of n messages of m bytes, d apart, until one answer of 1 byte. Then
//!
//! - (PRTT(n, 0, m) - PRTT(1, 0, m)) / (n-1) = g + (m-1)G for every size m: a line, fitted by least squares;
//! - (PRTT(n, d, m) - PRTT(1, 0, m)) / (n-1) - d = o(m) for d above that: what the sender itself works;
//! - RTT(1) / 2 - 2 o(1) = L.
//!
//! The squares are of *relative* differences (weights 1/y²): sizes span seven decades, and absolute differences would fit the largest message
//! alone. A straight line is the model, not the machine: protocols change with the size, caches end; the residuals say by how much.

use serde::{Deserialize, Serialize};

/// What was measured of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeTimes {
    /// Bytes of a message.
    pub bytes: usize,
    /// Time of each message after the first when many are sent at once.
    pub seconds_per_message: f64,
    /// What the sender itself worked for one, where that was measured.
    pub overhead_seconds: Option<f64>,
}

/// The parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogGp {
    /// L: the way itself, in seconds. Not above 0 where the sender waits for the receiver: then o holds all of it.
    pub latency_seconds: f64,
    /// o: work of the sender for a message of 1 byte.
    pub overhead_seconds: f64,
    /// How it grows with each byte.
    pub overhead_seconds_per_byte: f64,
    /// g: the least time between two messages of 1 byte.
    pub gap_seconds: f64,
    /// G: the time of each further byte.
    pub gap_seconds_per_byte: f64,
    /// 1/G.
    pub one_way_bytes_per_second: f64,
    /// Relative residuals of g + (m-1)G: root of their mean square.
    pub residual_relative_rms: f64,
    /// The largest of them, with its sign (measured over modelled, less 1).
    pub residual_relative_max: f64,
    /// At which size.
    pub residual_max_bytes: usize,
    /// Sizes that were fitted.
    pub sizes: usize,
}

/// A straight line and how well it fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Its value at 0.
    pub intercept: f64,
    /// Its slope.
    pub slope: f64,
}

impl Line {
    /// The line of least relative squares through (x, y), y above 0. `None` with fewer than two different x.
    #[must_use]
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let (mut s, mut sx, mut sxx, mut sy, mut sxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(x, y) in points.iter().filter(|(_, y)| *y > 0.0) {
            let weight = y.powi(-2);
            s += weight;
            sx += weight * x;
            sxx += weight * x * x;
            sy += weight * y;
            sxy += weight * x * y;
        }
        let determinant = s * sxx - sx * sx;
        // Of weights that differ by many decades: compared with what was subtracted.
        if determinant <= 1e-12 * s * sxx || determinant.is_nan() {
            return None;
        }
        let slope = (s * sxy - sx * sy) / determinant;
        Some(Self { intercept: (sy - slope * sx) / s, slope })
    }

    fn at(self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// Fits the parameters; `None` where sizes or overheads are missing.
#[must_use]
pub fn fit(round_trip_seconds: f64, sizes: &[SizeTimes]) -> Option<LogGp> {
    // No message of ours is as long as the integers that a double cannot hold.
    let x = |bytes: usize| bytes.saturating_sub(1) as f64;
    let points: Vec<(f64, f64)> = sizes.iter().map(|size| (x(size.bytes), size.seconds_per_message)).collect();
    let line = Line::fit(&points)?;
    let overheads: Vec<(usize, f64)> =
        sizes.iter().filter_map(|size| Some((size.bytes, size.overhead_seconds?))).collect();
    let &(_, overhead_seconds) = overheads.iter().min_by_key(|(bytes, _)| *bytes)?;
    let work: Vec<(f64, f64)> = overheads.iter().map(|&(bytes, seconds)| (x(bytes), seconds)).collect();
    let residuals = sizes.iter().map(|size| (size.bytes, size.seconds_per_message / line.at(x(size.bytes)) - 1.0));
    let residuals: Vec<(usize, f64)> = residuals.collect();
    let &(residual_max_bytes, residual_relative_max) =
        residuals.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let mean_square = residuals.iter().map(|(_, residual)| residual * residual).sum::<f64>() / residuals.len() as f64;
    Some(LogGp {
        latency_seconds: round_trip_seconds / 2.0 - 2.0 * overhead_seconds,
        overhead_seconds,
        overhead_seconds_per_byte: Line::fit(&work).map_or(0.0, |line| line.slope),
        gap_seconds: line.intercept,
        gap_seconds_per_byte: line.slope,
        one_way_bytes_per_second: 1.0 / line.slope,
        residual_relative_rms: mean_square.sqrt(),
        residual_relative_max,
        residual_max_bytes,
        sizes: sizes.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Times of a machine that is the model.
    fn model(o: f64, g: f64, per_byte: f64) -> Vec<SizeTimes> {
        (0..=13_u32)
            .map(|power| 4_usize.pow(power))
            .map(|bytes| SizeTimes {
                bytes,
                seconds_per_message: g + (bytes - 1) as f64 * per_byte,
                overhead_seconds: (bytes <= 65_536).then(|| o + (bytes - 1) as f64 * per_byte / 2.0),
            })
            .collect()
    }

    proptest! {
        #[test]
        fn a_machine_that_is_the_model_is_found_again(
            latency in 1e-7_f64..1e-4, o in 1e-8_f64..1e-5, g in 1e-7_f64..1e-4, per_byte in 1e-11_f64..1e-7,
        ) {
            let found = fit(2.0 * (latency + 2.0 * o), &model(o, g, per_byte)).unwrap();
            let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
            prop_assert!(close(found.gap_seconds, g) && close(found.gap_seconds_per_byte, per_byte), "{:?}", found);
            prop_assert!(close(found.overhead_seconds, o) && close(found.overhead_seconds_per_byte, per_byte / 2.0));
            prop_assert!((found.latency_seconds - latency).abs() < 1e-9 * (1.0 + latency) && found.residual_relative_rms < 1e-6);
        }
    }

    #[test]
    fn what_does_not_fit_shows_in_the_residuals() {
        let mut sizes = model(1e-7, 1e-6, 1e-9);
        sizes[6].seconds_per_message *= 1.5;
        let found = fit(1e-5, &sizes).unwrap();
        assert_eq!(found.residual_max_bytes, 4096);
        assert!(found.residual_relative_max > 0.3 && found.residual_relative_rms > 0.05, "{found:?}");
    }

    #[test]
    fn too_little_gives_no_parameters() {
        assert_eq!(fit(1e-5, &[]), None);
        assert_eq!(fit(1e-5, &model(1e-7, 1e-6, 1e-9)[..1]), None);
        let mut without_overhead = model(1e-7, 1e-6, 1e-9);
        without_overhead.iter_mut().for_each(|size| size.overhead_seconds = None);
        assert_eq!(fit(1e-5, &without_overhead), None);
        assert_eq!(Line::fit(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }
}
