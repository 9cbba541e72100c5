//! Currents that drive the fields.
//!
//! A source is a current I(t) along one edge of a cell: it adds `-Cb I / (area of the edge's cross-section)` to E there, in
//! the update from step n to n + 1, with I at n + 1/2. It is soft: waves pass through it.

use std::f64::consts::{PI, TAU};

use crate::coefficients::Coefficients;
use crate::fields::Fields;
use crate::grid::Grid;
use crate::layout::Block;
use crate::model::{SourceModel, WaveformModel};

impl WaveformModel {
    /// The value at a time in seconds.
    #[must_use]
    pub fn at(&self, time_s: f64) -> f64 {
        match *self {
            Self::Gaussian { width, .. } => gauss((time_s - self.delay_s()) / width),
            Self::Modulated { frequency, width, .. } => {
                let t = time_s - self.delay_s();
                gauss(t / width) * (TAU * frequency * t).sin()
            }
            Self::Ricker { frequency, .. } => {
                let u = (PI * frequency * (time_s - self.delay_s())).powi(2);
                (1.0 - 2.0 * u) * (-u).exp()
            }
        }
    }

    /// Time of the peak (of the envelope), seconds.
    #[must_use]
    pub fn delay_s(&self) -> f64 {
        match *self {
            Self::Gaussian { width, delay } | Self::Modulated { width, delay, .. } => delay.unwrap_or(5.0 * width),
            Self::Ricker { frequency, delay } => delay.unwrap_or(1.5 / frequency),
        }
    }

    /// When it is over: from here on it is below 1e-5 of its peak, seconds.
    #[must_use]
    pub fn end_s(&self) -> f64 {
        self.delay_s()
            + match *self {
                Self::Gaussian { width, .. } | Self::Modulated { width, .. } => 5.0 * width,
                Self::Ricker { frequency, .. } => 1.5 / frequency,
            }
    }
}

fn gauss(u: f64) -> f64 {
    (-0.5 * u * u).exp()
}

/// A source in this rank's box.
#[derive(Debug)]
pub(crate) struct LocalSource {
    axis: usize,
    index: usize,
    /// What one ampere adds to E in a step, V/m, times the amplitude.
    scale: f64,
    waveform: WaveformModel,
}

impl LocalSource {
    /// The source, if its cell is in `block`.
    pub fn new(
        model: &SourceModel,
        grid: &Grid,
        block: &Block,
        fields: &Fields,
        coefficients: &Coefficients,
    ) -> Option<Self> {
        let cell = grid.cell_of(model.position).filter(|&cell| block.contains(cell))?;
        let axis = model.axis.index();
        let index = fields.lattice.electric(std::array::from_fn(|n| cell[n] - block.start[n]));
        let area = grid.cell_size_m[(axis + 1) % 3] * grid.cell_size_m[(axis + 2) % 3];
        let scale = -coefficients.gain[axis][index] / area * model.amplitude;
        Some(Self { axis, index, scale, waveform: model.waveform })
    }

    /// Adds the current at `time_s`, the middle of the step.
    pub fn drive(&self, fields: &mut Fields, time_s: f64) {
        fields.electric[self.axis][self.index] += self.scale * self.waveform.at(time_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waveforms_peak_where_they_say_and_start_and_end_small() {
        let waveforms = [
            WaveformModel::Gaussian { width: 2.0, delay: None },
            WaveformModel::Modulated { frequency: 0.3, width: 4.0, delay: Some(25.0) },
            WaveformModel::Ricker { frequency: 0.1, delay: None },
        ];
        for waveform in waveforms {
            assert!(waveform.at(0.0).abs() < 1e-5 && waveform.at(waveform.end_s()).abs() < 1e-5, "{waveform:?}");
            let largest = (0..4000).map(|n| waveform.at(f64::from(n) * 0.01).abs()).fold(0.0, f64::max);
            assert!(largest > 0.9 && largest <= 1.0, "{waveform:?}: {largest}");
        }
        assert_eq!(waveforms[0].at(waveforms[0].delay_s()), 1.0);
        assert_eq!(waveforms[2].at(15.0), 1.0);
    }
}
