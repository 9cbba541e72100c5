//! The values of a made-up simulation: every one a hash of where it belongs, so that a reader needs nothing but the file to
//! know what it must hold.
//!
//! A value belongs to (set, point, variable, component, step): the set's position in the file, the point's id, the variable's
//! position in its set, the component (0 where there is none) and the simulation step. With `splitmix64(x)` the first output
//! of the generator of Steele, Lea and Flood (OOPSLA 2014) from the state `x`:
//!
//! ```text
//! h = splitmix64(set)
//! h = splitmix64(h ^ point)          point as a 64-bit two's complement number
//! h = splitmix64(h ^ variable)
//! h = splitmix64(h ^ component)
//! h = splitmix64(h ^ step)
//! f64: (h >> 11) / 2^53     f32: (h >> 40) / 2^24     i64: h     i32: h >> 32, both as two's complement numbers
//! ```
//!
//! The first four lines do not depend on the step: a [`SeriesKey`] keeps their result, and filling a row costs one
//! `splitmix64` a value in a loop that vectorises.

mod check;

pub use check::{Check, check};

/// One step of the splitmix64 generator from the state `x`.
#[inline]
#[must_use]
pub const fn splitmix64(x: u64) -> u64 {
    let z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The hash of all but the step: one series of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesKey(u64);

impl SeriesKey {
    /// The key of a series: `set` and `variable` are positions in file order, `point` is the point's id.
    #[must_use]
    pub const fn new(set: u64, point: i64, variable: u64, component: u64) -> Self {
        let hash = splitmix64(set);
        let hash = splitmix64(hash ^ point.cast_unsigned());
        let hash = splitmix64(hash ^ variable);
        Self(splitmix64(hash ^ component))
    }

    /// The hash of the series at a step.
    #[inline]
    #[must_use]
    pub const fn at(self, step: u64) -> u64 {
        splitmix64(self.0 ^ step)
    }
}

/// The types a made-up value may have.
pub trait SynthValue: Copy + Default + PartialEq + std::fmt::Display {
    /// The value that stands for a hash.
    fn from_hash(hash: u64) -> Self;
}

impl SynthValue for f64 {
    #[inline]
    fn from_hash(hash: u64) -> Self {
        const SCALE: f64 = 1.0 / (1_u64 << 53) as f64;
        (hash >> 11) as Self * SCALE
    }
}

impl SynthValue for f32 {
    #[inline]
    fn from_hash(hash: u64) -> Self {
        const SCALE: f32 = 1.0 / (1_u32 << 24) as f32;
        (hash >> 40) as Self * SCALE
    }
}

impl SynthValue for i64 {
    #[inline]
    fn from_hash(hash: u64) -> Self {
        hash.cast_signed()
    }
}

impl SynthValue for i32 {
    #[inline]
    fn from_hash(hash: u64) -> Self {
        let [.., a, b, c, d] = (hash >> 32).to_be_bytes();
        Self::from_be_bytes([a, b, c, d])
    }
}

/// Fills one step's row of a variable: `row[i]` becomes the value of `keys[i]` at `step`.
///
/// # Panics
/// If the two are not equally long.
pub fn fill_row<V: SynthValue>(keys: &[SeriesKey], step: u64, row: &mut [V]) {
    assert_eq!(keys.len(), row.len(), "a row holds one value a series");
    for (value, key) in row.iter_mut().zip(keys) {
        *value = V::from_hash(key.at(step));
    }
}

/// The keys of a variable's row: `points` in the row's order, the components of a point together.
#[must_use]
pub fn row_keys(set: u64, points: &[i64], variable: u64, components: u64) -> Vec<SeriesKey> {
    let series = |point| (0..components).map(move |component| SeriesKey::new(set, point, variable, component));
    points.iter().flat_map(|&point| series(point)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published sequence from the state 1234567 (Vigna's splitmix64.c, and the Java reference).
    #[test]
    fn the_generator_is_the_published_one() {
        let golden = 0x9E37_79B9_7F4A_7C15_u64;
        let state = |k: u64| 1_234_567_u64.wrapping_add(golden.wrapping_mul(k));
        let outputs: Vec<u64> = (0..3).map(|k| splitmix64(state(k))).collect();
        assert_eq!(outputs, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn the_key_is_the_documented_fold() {
        let mut hash = splitmix64(2);
        for word in [u64::MAX - 6, 3, 1, 17] {
            hash = splitmix64(hash ^ word);
        }
        assert_eq!(SeriesKey::new(2, -7, 3, 1).at(17), hash);
    }

    #[test]
    fn types_take_the_top_bits() {
        let hash = 0xFFFF_FFFF_8000_0001;
        assert_eq!(i64::from_hash(hash), -2_147_483_647);
        assert_eq!(i32::from_hash(hash), -1);
        assert_eq!(i32::from_hash(0x8000_0000_FFFF_FFFF), i32::MIN);
        assert_eq!(f64::from_hash(1 << 63), 0.5);
        assert_eq!(f32::from_hash(1 << 63), 0.5);
        assert_eq!(f64::from_hash(1 << 11), 2.0_f64.powi(-53));
        assert_eq!(f32::from_hash(1 << 40), 2.0_f32.powi(-24));
        assert!(f64::from_hash(u64::MAX) < 1.0 && f32::from_hash(u64::MAX) < 1.0);
    }

    #[test]
    fn a_row_holds_the_components_of_a_point_together() {
        let keys = row_keys(1, &[5, 9], 2, 3);
        let mut row = [0_i64; 6];
        fill_row(&keys, 4, &mut row);
        assert_eq!(row[4], i64::from_hash(SeriesKey::new(1, 9, 2, 1).at(4)));
        assert_eq!(row[2], i64::from_hash(SeriesKey::new(1, 5, 2, 2).at(4)));
    }

    #[test]
    fn no_two_places_share_a_value() {
        let mut seen = std::collections::HashSet::new();
        for set in 0..3 {
            for point in -2..5 {
                for variable in 0..3 {
                    for component in 0..2 {
                        for step in 0..50 {
                            assert!(seen.insert(SeriesKey::new(set, point, variable, component).at(step)));
                        }
                    }
                }
            }
        }
    }
}
