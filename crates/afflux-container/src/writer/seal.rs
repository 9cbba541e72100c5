//! The seal slots as bytes, and what a caller asks to be sealed.

use crate::reader::{SEAL_WORDS, SealState, slot_checksum};
use afflux_storage::{StorageFile, StorageFileExt};
use std::io;

/// Bytes of one slot.
pub(super) const SLOT_BYTES: u64 = 8 * SEAL_WORDS as u64;
const FLAG_CLOSED: u64 = 1;

/// The checksum of the sealed rows of one column of chunks of one set, over all its datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnChecksum {
    /// Index of the set.
    pub set: usize,
    /// Index of the column.
    pub column: u64,
    /// Sealed rows within the column, at most `chunk_steps`.
    pub rows: u64,
    /// Sum of [`crate::checksum::run_checksum`] over all runs of those rows.
    pub checksum: u64,
}

/// What a seal makes visible.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seal {
    /// The last simulation step all of whose due rows are written; `None` while there is none.
    pub watermark: Option<u64>,
    /// Rows of each set, indexed by set.
    pub rows: Vec<u64>,
    /// Checksums of the columns that changed since the last seal.
    pub columns: Vec<ColumnChecksum>,
}

/// The content of a slot of `afflux/seal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SealSlot {
    pub sequence: u64,
    pub step_end: u64,
    pub epoch: u64,
    pub end_of_allocation: u64,
    pub closed: bool,
    /// One more than the first step whose sealed rows are being rewritten in place; 0 while none are.
    pub rewrite_end: u64,
}

impl SealSlot {
    /// Offset of the slot within the dataset.
    pub(crate) fn offset(&self) -> u64 {
        (self.sequence % 2) * SLOT_BYTES
    }

    /// The eight words, little-endian.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let flags = if self.closed { FLAG_CLOSED } else { 0 };
        let mut words =
            [self.sequence, self.step_end, self.epoch, self.end_of_allocation, flags, self.rewrite_end, 0, 0];
        words[SEAL_WORDS - 1] = slot_checksum(&words);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// The newest slot in a file whose slots begin at `offset`, and the other one if it is valid; `None` where neither is.
pub(super) fn read_slots(file: &dyn StorageFile, offset: u64) -> io::Result<Option<(SealState, Option<SealState>)>> {
    let mut bytes = [0; 2 * 8 * SEAL_WORDS];
    if file.read_full_at(&mut bytes, offset)? < bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut slots = [[0; SEAL_WORDS]; 2];
    for (word, bytes) in slots.as_flattened_mut().iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |value, &byte| (value << 8) | u64::from(byte));
    }
    let Some(newest) = SealState::decode(&slots) else { return Ok(None) };
    // Alone, the older slot is the newest.
    let newer = slots.iter_mut().find(|slot| slot[0] == newest.sequence);
    if let Some(newer) = newer {
        *newer = [0; SEAL_WORDS];
    }
    let older = SealState::decode(&slots).filter(|older| older.sequence > 0);
    Ok(Some((newest, older)))
}
