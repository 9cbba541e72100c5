//! Random choices that follow from a seed, so that a trial can be made again.

use afflux_measure::synth::splitmix64;

/// A stream of choices.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of a trial: those of neighbouring trials have nothing in common.
    pub fn new(seed: u64, trial: u64) -> Self {
        Self { state: splitmix64(splitmix64(seed) ^ trial) }
    }

    fn next(&mut self) -> u64 {
        let value = splitmix64(self.state);
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        value
    }

    /// A number in `0..bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("less than the bound")
    }

    /// A number in `[0, 1)`.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// `true` so many times of a hundred.
    pub fn percent(&mut self, of_hundred: u64) -> bool {
        self.below(100) < of_hundred
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, several: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(several.len() as u64)).expect("an index");
        &several[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_repeat_with_the_seed_and_reach_every_value() {
        let choices = |seed, trial| {
            let mut random = Random::new(seed, trial);
            (0..200).map(|_| random.below(7)).collect::<Vec<_>>()
        };
        assert_eq!(choices(1, 5), choices(1, 5));
        assert_ne!(choices(1, 5), choices(1, 6));
        assert_ne!(choices(1, 5), choices(2, 5));
        assert!((0..7).all(|value| choices(1, 5).contains(&value)));
    }
}
