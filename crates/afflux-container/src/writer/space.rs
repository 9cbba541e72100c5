//! The file's length and the superblock's stored end, which run ahead of what HDF5 has allocated.
//!
//! Invariant: end of allocation <= stored end <= length. A reader keeps the stored end that it found when it opened the file,
//! and the length from a moment before; what it meets later must lie within. The lead is therefore large: it costs no blocks
//! on a file system with sparse files, and close trims it away. (Measured: with a lead of 1 MiB and a writer that sealed every
//! 50 us, 3 of 100 opens by h5py failed.)

use crate::driver::superblock::{Superblock, amend, stored_end};

/// A reader that takes milliseconds, and a writer that adds a gigabyte a second.
const LEAD_BYTES_MIN: u64 = 8 << 20;
/// Seals that a reader's superblock may be old: the stored end covers that much growth of the largest kind seen.
const LEAD_GROWTHS: u64 = 2;
/// A large file grows by at least this fraction before a reader is left behind.
const LEAD_FRACTION: u64 = 4;

pub(super) struct Space {
    superblock: Superblock,
    stored_end: u64,
    length: u64,
    /// Length at the end of the last seal: what the superblock may state now.
    length_before: u64,
    sealed_end: u64,
    lead: u64,
}

impl Space {
    /// The state of a new file that has `end` bytes, with its superblock as HDF5 wrote it.
    pub(super) fn new(superblock: Superblock, end: u64) -> Self {
        let length = end + 4 * LEAD_BYTES_MIN;
        let mut space = Self {
            superblock,
            stored_end: length,
            length,
            length_before: length,
            sealed_end: end,
            lead: LEAD_BYTES_MIN,
        };
        amend(&mut space.superblock, length);
        space
    }

    /// The state of a file that exists: its superblock, its length, and the end of what is in use.
    pub(super) fn resumed(superblock: Superblock, length: u64, end: u64) -> Self {
        Self {
            superblock,
            stored_end: stored_end(&superblock),
            length,
            length_before: length,
            sealed_end: end,
            lead: LEAD_BYTES_MIN,
        }
    }

    /// Length of the file.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The superblock to write at offset 0 now.
    pub(super) fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The length the file needs before space up to `end` is handed out, if it is too short.
    pub(super) fn length_due_for_growth(&mut self, end: u64) -> Option<u64> {
        self.note_growth(end);
        (self.length < end + self.lead).then_some(end + 4 * self.lead)
    }

    /// The length to set at the end of a seal, if the file should be longer by then.
    pub(super) fn length_due(&mut self, end: u64) -> Option<u64> {
        self.length_before = self.length;
        self.sealed_end = end;
        (self.length < end + 3 * self.lead).then_some(end + 4 * self.lead)
    }

    /// The file has this length now.
    pub(super) fn lengthened(&mut self, length: u64) {
        self.length = length;
    }

    /// The superblock to write before metadata may point at anything below `end`, if the stored end is too low.
    pub(super) fn superblock_due(&mut self, end: u64) -> Option<(Superblock, u64)> {
        self.note_growth(end);
        if self.stored_end >= end + self.lead {
            return None;
        }
        // The older length where it is enough; else, after a large growth, the one that `grow` has set before the samples
        // were written.
        let target = if self.length_before >= end + self.lead { self.length_before } else { self.length };
        if target <= self.stored_end {
            return None;
        }
        debug_assert!(target >= end && target <= self.length);
        self.stored_end = target;
        amend(&mut self.superblock, target);
        Some((self.superblock, 0))
    }

    /// As [`Self::superblock_due`], for a file that a new writer goes on with: no further than is needed. A reader may hold a length that the
    /// writer before has given the file, which is as far ahead of what that one had, and finds the superblock of this one.
    pub(super) fn superblock_due_to_resume(&mut self, end: u64) -> Option<(Superblock, u64)> {
        self.note_growth(end);
        let target = self.length.min(end + 2 * self.lead);
        if self.stored_end >= end + self.lead || target <= self.stored_end {
            return None;
        }
        self.stored_end = target;
        amend(&mut self.superblock, target);
        Some((self.superblock, 0))
    }

    /// The superblock of the closed file.
    pub(super) fn final_superblock(&mut self, end: u64) -> (Superblock, u64) {
        self.stored_end = end;
        amend(&mut self.superblock, end);
        (self.superblock, 0)
    }

    fn note_growth(&mut self, end: u64) {
        let growth = end.saturating_sub(self.sealed_end);
        self.lead = self.lead.max(LEAD_GROWTHS * growth).max(end / LEAD_FRACTION);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::superblock::SUPERBLOCK_BYTES;

    #[test]
    fn a_length_from_the_life_before_covers_the_superblock_of_a_resumed_file() {
        let (end_before, end) = (800_000, 830_000);
        let mut before = Space::resumed([0; SUPERBLOCK_BYTES], end_before, end_before);
        let length_before = before.length_due_for_growth(end_before).expect("a closed file is too short");
        // It is closed at `end`, and resumed.
        let mut space = Space::resumed([0; SUPERBLOCK_BYTES], end, end);
        let length = space.length_due_for_growth(end).expect("a closed file is too short");
        space.lengthened(length);
        let (superblock, _) = space.superblock_due_to_resume(end).expect("its stored end is too low");
        assert!(stored_end(&superblock) >= end + LEAD_BYTES_MIN && stored_end(&superblock) <= length_before);
        assert!(length > length_before);
        assert_eq!(space.superblock_due_to_resume(end), None);
    }
}
