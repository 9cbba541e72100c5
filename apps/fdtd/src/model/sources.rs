//! The sources of a model, as data; `crate::source` drives the fields with them.

use serde::Deserialize;

/// An electric current along one edge of a cell: a short dipole of the length of the cell.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceModel {
    /// A point in the cell, metres.
    pub position: [f64; 3],
    /// Direction.
    pub axis: Axis,
    /// Largest current, amperes.
    #[serde(default = "default_amplitude")]
    pub amplitude: f64,
    /// Course in time.
    pub waveform: WaveformModel,
}

fn default_amplitude() -> f64 {
    1.0
}

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// Along x.
    X,
    /// Along y.
    Y,
    /// Along z.
    Z,
}

impl Axis {
    /// 0, 1, 2.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::X => 0,
            Self::Y => 1,
            Self::Z => 2,
        }
    }
}

/// The course of a source in time, peak 1. With `g = exp(-((t - delay) / width)^2 / 2)`:
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum WaveformModel {
    /// `g`. Leaves charges, and so a static field, at the ends of the dipole.
    Gaussian {
        /// Standard deviation, seconds.
        width: f64,
        /// Time of the peak, seconds; 5 widths when left out.
        delay: Option<f64>,
    },
    /// `g sin(2 pi frequency (t - delay))`.
    Modulated {
        /// Carrier, hertz.
        frequency: f64,
        /// Standard deviation of the envelope, seconds.
        width: f64,
        /// Time of the peak of the envelope, seconds; 5 widths when left out.
        delay: Option<f64>,
    },
    /// `(1 - 2 u) exp(-u)` with `u = (pi frequency (t - delay))^2`.
    Ricker {
        /// Peak of the spectrum, hertz.
        frequency: f64,
        /// Time of the peak, seconds; 1.5 periods when left out.
        delay: Option<f64>,
    },
}
