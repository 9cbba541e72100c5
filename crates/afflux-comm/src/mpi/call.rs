//! What a rank says of the collective call that it is in: one word that others can read at any time.

use crate::CommOperation;

/// The operations that a word can name, by their place here.
const OPERATIONS: [CommOperation; 13] = [
    CommOperation::Barrier,
    CommOperation::Broadcast,
    CommOperation::AllReduce,
    CommOperation::StartAllReduce,
    CommOperation::AllGather,
    CommOperation::Gather,
    CommOperation::Scatter,
    CommOperation::ExclusiveSum,
    CommOperation::SparseExchange,
    CommOperation::Exchange,
    CommOperation::Duplicate,
    CommOperation::Split,
    CommOperation::NodeMemory,
];

/// Bits of the argument; those beyond are cut off.
const ARGUMENT_BITS: u32 = 24;
const ARGUMENT_MAX: u64 = (1 << ARGUMENT_BITS) - 1;
/// Bits of the operation's place, plus one so that 0 means no call yet.
const OPERATION_BITS: u32 = 8;

/// A collective call of a communicator: must be the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) operation: CommOperation,
    /// The root, or the number of elements; 0 where there is neither.
    pub(super) argument: u64,
    /// How many calls were made on the communicator before, modulo 2^32.
    pub(super) number: u32,
}

impl Call {
    /// A word that is never 0.
    pub(super) fn to_word(self) -> u64 {
        let place = OPERATIONS.iter().position(|&operation| operation == self.operation);
        let place = place.expect("every collective operation has a place") as u64 + 1;
        u64::from(self.number) << (ARGUMENT_BITS + OPERATION_BITS)
            | place << ARGUMENT_BITS
            | self.argument & ARGUMENT_MAX
    }

    /// `None` for 0, which says that a rank has made no call yet, and for what is no word.
    pub(super) fn from_word(word: u64) -> Option<Self> {
        let place = usize::try_from((word >> ARGUMENT_BITS) & 0xff).ok()?.checked_sub(1)?;
        let number = u32::try_from(word >> (ARGUMENT_BITS + OPERATION_BITS)).ok()?;
        Some(Self { operation: *OPERATIONS.get(place)?, argument: word & ARGUMENT_MAX, number })
    }

    /// How many calls the other is ahead of this one; negative when it is behind. The two are never 2^31 apart.
    pub(super) fn lead(self, other: Self) -> i32 {
        other.number.wrapping_sub(self.number).cast_signed()
    }

    /// How this call of `rank` and the other of `other_rank` differ.
    pub(super) fn disagreement(self, rank: usize, other: Self, other_rank: usize) -> String {
        let describe =
            |call: Self, rank: usize| format!("rank {rank} is in {} ({})", call.operation.name(), call.argument);
        let (one, two) = (describe(self, rank), describe(other, other_rank));
        if self.number == other.number {
            format!("{one}, {two}, both in call number {}", self.number)
        } else {
            format!("{one}, its call number {}, {two}, its call number {}", self.number, other.number)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_tells_the_call() {
        for (argument, operation) in (0_u64..).step_by(1_000_003).zip(OPERATIONS) {
            let call = Call { operation, argument, number: u32::MAX - 3 };
            assert_eq!(Call::from_word(call.to_word()), Some(call));
        }
        assert_eq!(Call::from_word(0), None);
    }

    #[test]
    fn numbers_pass_the_end_of_32_bits() {
        let call = |number| Call { operation: CommOperation::Barrier, argument: 0, number };
        assert_eq!(call(u32::MAX).lead(call(1)), 2);
        assert_eq!(call(1).lead(call(u32::MAX)), -2);
    }
}
