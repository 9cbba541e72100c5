//! A sum of f64 that does not depend on the order of the terms, nor on how they are shared over ranks.
//!
//! Terms are added into a fixed-point number wide enough for every finite f64, held as 32-bit digits in 64-bit words (the
//! accumulator of Kulisch; carries are put off as in Neal's small superaccumulator). Integer addition is associative, so
//! the digits of all ranks may simply be added.

/// Digits: the 2,098 bits of all finite f64, and two more digits for the carries of up to 2^62 terms.
const DIGITS: usize = 68;
/// Additions after which carries must be passed on: each adds less than 2^32 to a word of 63 bits.
const ADDITIONS_MAX: u32 = 1 << 30;
const DIGIT_BITS: usize = 32;
const DIGIT_MASK: i64 = 0xffff_ffff;

/// The running sum.
#[derive(Debug, Clone)]
pub(crate) struct ExactSum {
    /// Digit n weighs 2^(32 n - 1074).
    digits: [i64; DIGITS],
    additions: u32,
    /// Terms that were NaN or infinite.
    not_finite: u64,
}

impl ExactSum {
    pub fn new() -> Self {
        Self { digits: [0; DIGITS], additions: 0, not_finite: 0 }
    }

    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            self.not_finite += 1;
            return;
        }
        let bits = value.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as usize;
        let fraction = bits & ((1 << 52) - 1);
        // Subnormal numbers have the exponent of the smallest normal ones and no hidden bit.
        let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
        let position = exponent.saturating_sub(1);
        let wide = u128::from(mantissa) << (position % DIGIT_BITS);
        let first = position / DIGIT_BITS;
        for n in 0..3 {
            let digit = low_digit(wide >> (n * DIGIT_BITS));
            self.digits[first + n] += if value.is_sign_negative() { -digit } else { digit };
        }
        self.additions += 1;
        if self.additions >= ADDITIONS_MAX {
            self.carry();
        }
    }

    /// Passes carries on, so that all digits but the last are in `0..2^32`.
    fn carry(&mut self) {
        for n in 0..DIGITS - 1 {
            let over = self.digits[n] >> DIGIT_BITS;
            self.digits[n] &= DIGIT_MASK;
            self.digits[n + 1] += over;
        }
        self.additions = 0;
    }

    /// The sum as words to be added, word by word modulo 2^64, to those of up to 2^30 other ranks.
    pub fn into_words(mut self) -> Vec<u64> {
        self.carry();
        self.digits.iter().map(|digit| digit.cast_unsigned()).chain([self.not_finite]).collect()
    }

    /// The inverse of [`Self::into_words`].
    ///
    /// # Panics
    /// If there are not as many words.
    pub fn from_words(words: &[u64]) -> Self {
        let (digits, not_finite) = words.split_at(DIGITS);
        let digits: [u64; DIGITS] = digits.try_into().expect("split at that length");
        Self { digits: digits.map(u64::cast_signed), additions: 0, not_finite: not_finite[0] }
    }

    /// The sum, to within one unit in the last place; NaN if a term was not finite.
    pub fn value(mut self) -> f64 {
        if self.not_finite > 0 {
            return f64::NAN;
        }
        self.carry();
        let negative = self.digits[DIGITS - 1] < 0;
        if negative {
            self.digits.iter_mut().for_each(|digit| *digit = -*digit);
            self.carry();
        }
        let Some(top) = self.digits.iter().rposition(|&digit| digit != 0) else { return 0.0 };
        let mut wide = 0_u128;
        for n in 0..3 {
            let digit = top.checked_sub(n).map_or(0, |at| self.digits[at].cast_unsigned());
            wide = wide << DIGIT_BITS | u128::from(digit);
        }
        let exponent = i32::try_from(DIGIT_BITS * top).expect("a small number") - 1074 - 64;
        // In two halves, so that neither factor overflows or vanishes before the product does.
        let magnitude = wide as f64 * 2.0_f64.powi(exponent / 2) * 2.0_f64.powi(exponent - exponent / 2);
        if negative { -magnitude } else { magnitude }
    }
}

/// The lowest 32 bits.
fn low_digit(wide: u128) -> i64 {
    i64::try_from(wide & 0xffff_ffff).expect("32 bits fit")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: &[f64]) -> f64 {
        let mut sum = ExactSum::new();
        values.iter().for_each(|&value| sum.add(value));
        sum.value()
    }

    #[test]
    fn known_sums() {
        assert_eq!(sum(&[]), 0.0);
        assert_eq!(sum(&[1e300, 1.0, -1e300]), 1.0);
        assert_eq!(sum(&[-0.1, -0.2]), -0.30000000000000004);
        assert_eq!(sum(&[5e-324, 5e-324]), 1e-323);
        assert_eq!(sum(&[f64::MAX, -f64::MAX, -2.5e-12]), -2.5e-12);
        assert!(sum(&[1.0, f64::INFINITY]).is_nan());
    }

    #[test]
    fn order_and_sharing_do_not_matter() {
        // Wildly different magnitudes from a linear congruence; any floating sum would depend on the order.
        let mut state = 1_u64;
        let values: Vec<f64> = (0..3000)
            .map(|n| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state >> 11) as f64 / 9e15 - 0.5) * 10.0_f64.powi(n % 60 - 40)
            })
            .collect();
        let whole = sum(&values);
        let backwards: Vec<f64> = values.iter().rev().copied().collect();
        assert_eq!(whole.to_bits(), sum(&backwards).to_bits());
        let mut words = vec![0_u64; DIGITS + 1];
        for part in values.chunks(701) {
            let mut sum = ExactSum::new();
            part.iter().for_each(|&value| sum.add(value));
            for (word, other) in words.iter_mut().zip(sum.into_words()) {
                *word = word.wrapping_add(other);
            }
        }
        assert_eq!(whole.to_bits(), ExactSum::from_words(&words).value().to_bits());
    }
}
