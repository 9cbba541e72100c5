//! What lies where in the memory of a node.
//!
//! An arena has room for several communicators over the same ranks in the same order: one and its duplicates. Each has a
//! section: the words by which ranks control each other, then the slots in which they leave messages. Sections that
//! nobody uses are zeros in their control words.

use std::sync::atomic::{AtomicU32, AtomicU64};

use super::phase::Phase;

/// Calls through slots that may be under way at once: the root of a broadcast does not wait for the others unless this
/// many are behind.
pub(super) const PHASES: usize = 4;
/// Pieces of reductions that may be under way at once.
pub(super) const REDUCE_PHASES: usize = 4;
/// One slot with its head: room for what the layers above agree on in each flush, and for a few hundred elements of a
/// reduction. Longer messages are worth MPI's algorithms.
pub(super) const SLOT_BYTES: usize = 16 << 10;
/// One slot of a reduction under way: room for what a flush agrees on. Longer ones go in pieces.
pub(super) const REDUCE_SLOT_BYTES: usize = 1 << 10;
/// Room for what a rank says of its failure.
pub(super) const TEXT_BYTES: usize = 448;
/// The most ranks for which the lengths of a scatter fit in half a slot.
pub(super) const RANKS_MAX: usize = SLOT_BYTES / 2 / size_of::<u64>();

/// A line of the cache: what different ranks write lies in different ones.
const LINE_BYTES: usize = 64;
/// The token of the memory has the first line, the sections in use are marked in the second.
const SECTIONS_OFFSET: usize = 2 * LINE_BYTES;
/// More duplicates of one communicator at a time than programs have: a writer needs two.
const SECTIONS_MAX: usize = 16;
/// Addresses that the arena may take; only pages that are used exist.
const ARENA_BYTES_MAX: usize = 256 << 20;

/// What a section begins with. All zeros at first.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Header {
    /// One more than the rank whose failure came first; 0 where none has failed.
    pub(super) first_failure: AtomicU32,
    /// Ranks that have left or failed: while it is 0 nobody need look closer.
    pub(super) troubles: AtomicU32,
    /// Ranks that use the section no more; the last of them clears it.
    pub(super) dropped: AtomicU32,
}

/// What a rank says of itself. All zeros at first.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Line {
    /// The [`Call`](crate::mpi::call::Call) that it is in, or was in last; 0 before the first.
    pub(super) call: AtomicU64,
    /// Calls through slots that it has entered.
    pub(super) turns: AtomicU64,
    /// Pieces of reductions that it has contributed.
    pub(super) pieces: AtomicU64,
    /// It will make no more calls.
    pub(super) left: AtomicU32,
    /// Its failure is a disagreement of the ranks.
    pub(super) is_mismatch: AtomicU32,
    /// Bytes of its text.
    pub(super) text_bytes: AtomicU32,
}

/// Offsets in an arena for communicators of `size` ranks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) size: usize,
}

impl Layout {
    /// How many sections there are.
    pub(super) fn sections(self) -> usize {
        (ARENA_BYTES_MAX / self.section_bytes()).clamp(1, SECTIONS_MAX)
    }

    pub(super) fn arena_bytes(self) -> usize {
        self.section(self.sections())
    }

    /// The word of which bit `s` says that section `s` is in use.
    pub(super) fn used_offset() -> usize {
        LINE_BYTES
    }

    /// Where a section begins: at its header.
    pub(super) fn section(self, section: usize) -> usize {
        SECTIONS_OFFSET + section * self.section_bytes()
    }

    // Offsets within a section.

    pub(super) fn phase(self, phase: usize) -> usize {
        size_of::<Header>() + phase * size_of::<Phase>()
    }

    pub(super) fn reduce_phase(self, phase: usize) -> usize {
        self.phase(PHASES + phase)
    }

    pub(super) fn line(self, rank: usize) -> usize {
        self.reduce_phase(REDUCE_PHASES) + rank * size_of::<Line>()
    }

    /// Up to here a section is cleared when nobody uses it any more.
    pub(super) fn control_bytes(self) -> usize {
        self.line(self.size)
    }

    pub(super) fn text(self, rank: usize) -> usize {
        self.control_bytes() + rank * TEXT_BYTES
    }

    pub(super) fn reduce_slot(self, phase: usize, rank: usize) -> usize {
        self.text(self.size) + (phase * self.size + rank) * REDUCE_SLOT_BYTES
    }

    pub(super) fn slot(self, phase: usize, rank: usize) -> usize {
        self.reduce_slot(REDUCE_PHASES, 0) + (phase * self.size + rank) * SLOT_BYTES
    }

    fn section_bytes(self) -> usize {
        self.slot(PHASES, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_lies_on_lines_of_its_own() {
        for size in [2, 3, 7, 64, RANKS_MAX] {
            let layout = Layout { size };
            let places = [
                layout.section(0),
                layout.section(1),
                layout.phase(1),
                layout.reduce_phase(1),
                layout.line(1),
                layout.text(1),
                layout.reduce_slot(1, 1),
                layout.slot(1, 1),
            ];
            assert!(places.iter().all(|place| place.is_multiple_of(LINE_BYTES)), "{size} ranks: {places:?}");
            assert!(layout.sections() >= 4 || size > 500, "{size} ranks have {} sections", layout.sections());
        }
    }
}
