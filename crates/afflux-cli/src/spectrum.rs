//! The amplitude spectrum of an evenly sampled series.

use rustfft::FftPlanner;
use rustfft::num_complex::Complex;

/// Why a series has no spectrum.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpectrumError {
    /// Fewer than four samples.
    #[error("a spectrum needs at least 4 samples, there are {0}")]
    TooShort(usize),
    /// Times are not evenly spaced.
    #[error("a spectrum needs evenly spaced times; between samples {index} and {} the step is {found:e} instead of {expected:e}", index + 1)]
    Uneven {
        /// The first of the two samples.
        index: usize,
        /// Mean step.
        expected: f64,
        /// The step there.
        found: f64,
    },
    /// A value is not a finite number.
    #[error("a spectrum needs finite values; sample {0} is not")]
    NotFinite(usize),
}

/// Single-sided amplitudes.
#[derive(Debug, Clone, PartialEq)]
pub struct Spectrum {
    /// Frequencies from 0 to half the sampling rate, in cycles a unit of time.
    pub frequency: Vec<f64>,
    /// Amplitude of the sine at each frequency, in the units of the values.
    pub amplitude: Vec<f64>,
}

/// Times within this part of a step are evenly spaced: written as doubles, they carry rounding.
const UNEVENNESS_MAX: f64 = 1e-3;

/// The spectrum of `values` at `times`, both indexed by sample: mean removed, Hann window, scaled such that a sine of amplitude a
/// in the middle of a bin shows the peak a. The series is padded with zeros to four times its length for a smooth curve.
pub fn amplitude(times: &[f64], values: &[f64]) -> Result<Spectrum, SpectrumError> {
    assert_eq!(times.len(), values.len(), "a time for every value");
    let count = values.len();
    if count < 4 {
        return Err(SpectrumError::TooShort(count));
    }
    let step = (times[count - 1] - times[0]) / (count - 1) as f64;
    for (index, pair) in times.windows(2).enumerate() {
        let found = pair[1] - pair[0];
        // Negated so that NaN is refused too.
        if !(step > 0.0 && (found - step).abs() <= UNEVENNESS_MAX * step) {
            return Err(SpectrumError::Uneven { index, expected: step, found });
        }
    }
    if let Some(index) = values.iter().position(|value| !value.is_finite()) {
        return Err(SpectrumError::NotFinite(index));
    }

    let mean = values.iter().sum::<f64>() / count as f64;
    let hann = |index: usize| (std::f64::consts::PI * (index as f64 + 0.5) / count as f64).sin().powi(2);
    let padded = (4 * count).next_power_of_two();
    let mut buffer = vec![Complex::new(0.0, 0.0); padded];
    let mut window_sum = 0.0;
    for (index, (slot, value)) in buffer.iter_mut().zip(values).enumerate() {
        slot.re = (value - mean) * hann(index);
        window_sum += hann(index);
    }
    FftPlanner::new().plan_fft_forward(padded).process(&mut buffer);

    let bins = padded / 2 + 1;
    let frequency = (0..bins).map(|bin| bin as f64 / (padded as f64 * step)).collect();
    let amplitude = buffer[..bins].iter().map(|value| 2.0 * value.norm() / window_sum).collect();
    Ok(Spectrum { frequency, amplitude })
}

/// How many bins of a spectrum are worth showing: up to a little behind the last one with at least a hundredth of the peak.
#[must_use]
pub fn significant_bins(amplitude: &[f64]) -> usize {
    let peak = amplitude.iter().copied().fold(0.0, f64::max);
    let last = amplitude.iter().rposition(|&value| value >= 1e-2 * peak && peak > 0.0);
    last.map_or(amplitude.len(), |bin| (bin + bin / 10 + 8).min(amplitude.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sine(frequency: f64, amplitude: f64, step: f64, count: u32) -> (Vec<f64>, Vec<f64>) {
        let times: Vec<f64> = (0..count).map(|index| f64::from(index) * step).collect();
        let values = times.iter().map(|t| 5.0 + amplitude * (std::f64::consts::TAU * frequency * t).sin()).collect();
        (times, values)
    }

    #[test]
    fn a_sine_peaks_at_its_frequency_with_its_amplitude() {
        let (times, values) = sine(2.0e9, 3.0, 2.0e-12, 5000);
        let spectrum = amplitude(&times, &values).unwrap();
        let (bin, peak) = spectrum.amplitude.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert!((spectrum.frequency[bin] - 2.0e9).abs() < 2.0e7, "{}", spectrum.frequency[bin]);
        assert!((peak - 3.0).abs() < 0.05, "{peak}");
        assert!((spectrum.frequency.last().unwrap() - 0.25e12).abs() < 1.0);
        assert!(spectrum.frequency[significant_bins(&spectrum.amplitude) - 1] < 0.1e12);
    }

    #[test]
    fn what_has_no_spectrum_is_refused() {
        assert_eq!(amplitude(&[0.0, 1.0], &[0.0, 1.0]), Err(SpectrumError::TooShort(2)));
        assert!(matches!(amplitude(&[0.0, 1.0, 3.0, 4.0], &[0.0; 4]), Err(SpectrumError::Uneven { .. })));
        assert!(matches!(
            amplitude(&[0.0, 1.0, 2.0, 3.0], &[0.0, f64::NAN, 0.0, 0.0]),
            Err(SpectrumError::NotFinite(1))
        ));
        assert!(matches!(amplitude(&[1.0; 4], &[0.0; 4]), Err(SpectrumError::Uneven { index: 0, .. })));
    }
}
