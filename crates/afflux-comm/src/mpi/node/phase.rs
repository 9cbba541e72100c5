//! The counters of one place that calls use in turns.
//!
//! A place is used again and again, by call after call. Counters only grow, modulo 2^32: in the use `u` all ranks have
//! entered when `entered` has reached `size * (u + 1)`, and left when `left` has.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Gate;

/// All zeros at first.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Phase {
    /// Ranks that have entered, over all uses of the phase.
    pub(super) entered: Gate,
    /// How many uses the root has written in, this one included.
    pub(super) posted: Gate,
    /// Ranks that have left, over all uses.
    pub(super) left: Gate,
    /// In the high half one more than the use, in the low half one more than the rank that came first to it.
    first: AtomicU64,
}

impl Phase {
    /// The rank that came first to use `use_number` (modulo 2^32): `rank` itself if nobody was here before. What the
    /// first has written before it asked may be read by those who ask later.
    pub(super) fn first(&self, use_number: u32, rank: usize) -> usize {
        let epoch = u64::from(use_number.wrapping_add(1));
        let mine = epoch << 32 | (rank as u64 + 1);
        let mut found = self.first.load(Ordering::Acquire);
        loop {
            if found >> 32 == epoch && found != 0 {
                return usize::try_from((found & u64::from(u32::MAX)) - 1).expect("a rank");
            }
            match self.first.compare_exchange_weak(found, mine, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return rank,
                Err(other) => found = other,
            }
        }
    }

    pub(super) fn wake(&self) {
        self.entered.wake();
        self.posted.wake();
        self.left.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_use_is_told_to_the_others() {
        let phase = Phase::default();
        assert_eq!(phase.first(0, 3), 3);
        assert_eq!(phase.first(0, 1), 3);
        assert_eq!(phase.first(1, 0), 0);
        assert_eq!(phase.first(1, 5), 0);
        let phase = Phase::default();
        assert_eq!(phase.first(u32::MAX, 2), 2, "the epoch of the last use is 0");
        assert_eq!(phase.first(u32::MAX, 4), 2);
    }
}
