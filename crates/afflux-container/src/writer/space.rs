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
