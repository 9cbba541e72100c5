//! Axes: which values stand where, and which of them are named.

use super::number::{bytes, significant};

/// A tick with its label; minor ticks have none.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub value: f64,
    pub label: Option<String>,
}

/// How values are laid out along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// From zero, evenly.
    Linear,
    /// By decades; values that are not positive are left out.
    Logarithmic,
    /// Lengths in bytes, by powers of two.
    Bytes,
}

/// An axis over the range of its data.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    axis: Axis,
    low: f64,
    high: f64,
}

impl Axis {
    /// The axis over all values that it can show; without any it covers 0 to 1 (or 1 to 10).
    pub(super) fn over(self, values: impl Iterator<Item = f64>) -> Scale {
        let shown = values.filter(|value| self.shows(*value));
        let (low, high) = shown.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = match self {
            Self::Linear if high > 0.0 => (0.0, high),
            Self::Linear => (0.0, 1.0),
            Self::Logarithmic if high > 0.0 => {
                let low = 10.0_f64.powf(low.log10().floor());
                (low, 10.0_f64.powf(high.log10().ceil()).max(low * 10.0))
            }
            Self::Bytes if high > 0.0 => (low, high.max(low * 2.0)),
            Self::Logarithmic | Self::Bytes => (1.0, 10.0),
        };
        Scale { axis: self, low, high }
    }

    /// Whether a value has a place on such an axis. Nothing that is measured lies outside of these eighteen decades on either side
    /// of 1; so bounded, no arithmetic of ours leaves the range of a double.
    pub(super) fn shows(self, value: f64) -> bool {
        (1e-18..=1e18).contains(&value) || (value == 0.0 && self == Self::Linear)
    }
}

impl Scale {
    /// Place of a value, 0 at the low end and 1 at the high end.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.axis {
            Axis::Linear => (value - self.low) / (self.high - self.low),
            Axis::Logarithmic | Axis::Bytes => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    /// Ticks within the range, ascending.
    pub fn ticks(&self) -> Vec<Tick> {
        match self.axis {
            Axis::Linear => self.even_ticks(),
            Axis::Logarithmic => self.decades(),
            Axis::Bytes => self.powers_of_two(),
        }
    }

    /// Four to ten steps of 1, 2 or 5 times a power of ten.
    fn even_ticks(&self) -> Vec<Tick> {
        let rough = self.high / 8.0;
        let power = 10.0_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(power * 10.0);
        (0..=10)
            .map(|index| f64::from(index) * step)
            .take_while(|value| *value <= self.high * (1.0 + 1e-9))
            .map(|value| Tick { value, label: Some(plain(value)) })
            .collect()
    }

    /// Powers of ten, every third one named where there are many, with the multiples between where there are few.
    fn decades(&self) -> Vec<Tick> {
        let mut ticks = Vec::new();
        let decades = (self.high / self.low).log10().round();
        let mut value = self.low;
        let mut index = 0;
        while value <= self.high * (1.0 + 1e-9) {
            let named = decades <= 8.0 || index % 3 == 0;
            ticks.push(Tick { value, label: named.then(|| plain(value)) });
            if decades <= 6.0 {
                let between = (2..10).map(|factor| value * f64::from(factor)).filter(|value| *value < self.high);
                ticks.extend(between.map(|value| Tick { value, label: None }));
            }
            value *= 10.0;
            index += 1;
        }
        ticks
    }

    /// Powers of two: every second, fourth, ... so that about eight are named.
    fn powers_of_two(&self) -> Vec<Tick> {
        let (first, last) = (self.low.log2().ceil(), self.high.log2().floor());
        let step = [1_u32, 2, 4, 5, 10, 20].into_iter().find(|step| (last - first) / f64::from(*step) <= 8.0);
        let step = f64::from(step.unwrap_or(40));
        let mut ticks = Vec::new();
        let mut power = (first / step).ceil() * step;
        while power <= last {
            let value = power.exp2();
            ticks.push(Tick { value, label: Some(bytes(whole(value))) });
            power += step;
        }
        ticks
    }
}

/// Bytes of a value on the axis of lengths; what is more than a u64 holds is cut there.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates, which is what is meant
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// A tick's label: no digits that say nothing.
fn plain(value: f64) -> String {
    let text = significant(value);
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks().into_iter().filter_map(|tick| tick.label).collect()
    }

    #[test]
    fn even_axes_begin_at_zero() {
        let scale = Axis::Linear.over([3.0, 9.0, f64::MAX, -1.0].into_iter());
        assert_eq!(labels(&scale), ["0", "2", "4", "6", "8"]);
        assert_eq!((scale.place(0.0), scale.place(4.5), scale.place(9.0)), (0.0, 0.5, 1.0));
    }

    #[test]
    fn logarithmic_axes_cover_whole_decades() {
        let scale = Axis::Logarithmic.over([0.03, 20.0, -1.0, f64::NAN].into_iter());
        assert_eq!(labels(&scale), ["0.01", "0.1", "1", "10", "100"]);
        assert!((scale.place(1.0) - 0.5).abs() < 1e-9);
        assert_eq!(labels(&Axis::Logarithmic.over([1e-9, 1e3].into_iter())).len(), 5);
    }

    #[test]
    fn lengths_are_named_in_binary_units() {
        let scale = Axis::Bytes.over([1.0, 67_108_864.0].into_iter());
        assert_eq!(labels(&scale), ["1 B", "16 B", "256 B", "4 KiB", "64 KiB", "1 MiB", "16 MiB"]);
    }

    #[test]
    fn axes_without_data_have_a_range() {
        for axis in [Axis::Linear, Axis::Logarithmic, Axis::Bytes] {
            let scale = axis.over(std::iter::empty());
            assert!(!scale.ticks().is_empty() && scale.place(5.0).is_finite(), "{axis:?}");
            let one = axis.over(std::iter::once(8.0));
            assert!(!one.ticks().is_empty() && one.place(8.0).is_finite(), "{axis:?}");
        }
    }
}
