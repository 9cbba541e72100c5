//! The seal: which steps are durable and visible, read from the two slots of `afflux/seal`.
//!
//! A writer changes one slot and leaves the other alone, so a write cut in the middle leaves the older seal valid. A slot
//! counts when its last word is the XXH3-64 of the seven words before it (little-endian); the higher sequence wins. A slot of
//! zeros was never written.

use xxhash_rust::xxh3::xxh3_64;

/// Words of one slot of `afflux/seal`.
pub const SEAL_WORDS: usize = 8;
const FLAG_CLOSED: u64 = 1;

/// What the file's seal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SealState {
    /// The last sealed simulation step; `None` while nothing is sealed.
    pub watermark: Option<u64>,
    /// Counts the seals of the file's life.
    pub sequence: u64,
    /// Counts the writers of the file's life.
    pub epoch: u64,
    /// End of the space that HDF5 had allocated at this seal, in bytes.
    pub allocation_end_bytes: u64,
    /// Whether the last writer closed the file in good order.
    pub closed: bool,
    /// The first step whose sealed rows the last writer was rewriting in place when it sealed last; columns from there on may be
    /// half old and half new, which their checksums tell.
    pub rewriting_from: Option<u64>,
    /// The slot (0 or 1) that was written and is not valid, if there is one: the trace of an interrupted seal, or damage.
    pub broken_slot: Option<usize>,
}

impl SealState {
    /// Decodes both slots; `None` when a slot was written and neither is valid.
    #[must_use]
    pub fn decode(slots: &[[u64; SEAL_WORDS]; 2]) -> Option<Self> {
        let empty = slots.map(|slot| slot.iter().all(|&word| word == 0));
        let valid = slots.map(|slot| slot_checksum(&slot) == slot[SEAL_WORDS - 1]);
        let broken_slot = (0..2).find(|&slot| !empty[slot] && !valid[slot]);
        let newest = (0..2).filter(|&slot| valid[slot]).max_by_key(|&slot| slots[slot][0]);
        match newest {
            Some(slot) => {
                let [sequence, step_end, epoch, allocation_end_bytes, flags, rewrite_end, ..] = slots[slot];
                let watermark = step_end.checked_sub(1);
                let closed = flags & FLAG_CLOSED != 0;
                let rewriting_from = rewrite_end.checked_sub(1);
                Some(Self { watermark, sequence, epoch, allocation_end_bytes, closed, rewriting_from, broken_slot })
            }
            None if broken_slot.is_none() => Some(Self::default()),
            None => None,
        }
    }

    /// How many of `steps`, which ascend, are sealed.
    #[must_use]
    pub fn sealed_count(&self, steps: &[i64]) -> usize {
        steps.partition_point(|&step| self.is_sealed(step))
    }

    /// Whether a row of this step is sealed.
    #[must_use]
    pub fn is_sealed(&self, step: i64) -> bool {
        match (u64::try_from(step), self.watermark) {
            (Ok(step), Some(watermark)) => step <= watermark,
            _ => false,
        }
    }
}

/// The check word of a slot: XXH3-64 of its first seven words.
#[must_use]
pub fn slot_checksum(slot: &[u64; SEAL_WORDS]) -> u64 {
    let mut bytes = [0_u8; 8 * (SEAL_WORDS - 1)];
    for (target, word) in bytes.chunks_exact_mut(8).zip(slot) {
        target.copy_from_slice(&word.to_le_bytes());
    }
    xxh3_64(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(sequence: u64, step_end: u64, flags: u64) -> [u64; SEAL_WORDS] {
        let mut slot = [sequence, step_end, 1, 4096, flags, 0, 0, 0];
        slot[7] = slot_checksum(&slot);
        slot
    }

    #[test]
    fn the_higher_sequence_counts() {
        let state = SealState::decode(&[slot(4, 100, 0), slot(5, 200, 1)]).expect("both valid");
        assert_eq!((state.watermark, state.sequence, state.closed, state.broken_slot), (Some(199), 5, true, None));
    }

    #[test]
    fn an_interrupted_seal_leaves_the_older_one() {
        for word in 0..SEAL_WORDS {
            for bit in [0, 31, 63] {
                let mut newer = slot(5, 200, 0);
                newer[word] ^= 1 << bit;
                let state = SealState::decode(&[slot(4, 100, 0), newer]).expect("the older is valid");
                assert_eq!((state.watermark, state.broken_slot), (Some(99), Some(1)));
                assert_eq!(SealState::decode(&[newer, newer]), None);
            }
        }
    }

    #[test]
    fn nothing_is_sealed_before_the_first_seal() {
        assert_eq!(SealState::decode(&[[0; SEAL_WORDS]; 2]), Some(SealState::default()));
        let state = SealState::decode(&[slot(1, 0, 0), [0; SEAL_WORDS]]).expect("valid");
        assert_eq!(state.watermark, None);
        assert!(!state.is_sealed(0));
    }

    #[test]
    fn sealed_rows_end_at_the_watermark() {
        let state = SealState { watermark: Some(10), ..SealState::default() };
        assert_eq!(state.sealed_count(&[0, 5, 10, 15]), 3);
        assert!(!state.is_sealed(-1));
    }
}
