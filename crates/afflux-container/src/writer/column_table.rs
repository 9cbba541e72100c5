//! `afflux/column_checksum`: two slots a (set, column), written in place at the addresses of its chunks.
//!
//! Shape `(set, column, slot, word)`, words `[rows, checksum]`. A column that is sealed again gets the other slot, so that the
//! slot of the last seal stays whole until the next seal holds. A chunk is about [`CHUNK_BYTES`] and is written as a whole;
//! the words that a seal does not change are written with the values they had.

use super::seal::ColumnChecksum;
use crate::driver::Allocation;
use crate::reader::TableAnatomy;
use afflux_storage::{StorageFile, StorageFileExt};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Range;

/// Small, so that a tiny run stays small; a page of a write is not cut by a kill.
const CHUNK_BYTES: u64 = 2048;
/// Two slots of two words.
const CELL_BYTES: u64 = 32;
/// Chunks kept in memory; the least recently begun columns go first.
const CACHED_CHUNKS_MAX: usize = 256;

/// Shape of the table's chunks: (sets, columns).
pub(super) fn chunk_shape(sets: u64) -> (u64, u64) {
    let cells = CHUNK_BYTES / CELL_BYTES;
    let sets_per_chunk = sets.clamp(1, cells);
    (sets_per_chunk, cells / sets_per_chunk)
}

/// Address and bytes of a chunk that was changed.
pub(super) type ChunkWrite = (u64, Vec<u8>);

/// The table as the writer knows it.
pub(super) struct ColumnTable {
    sets_per_chunk: u64,
    columns_per_chunk: u64,
    chunks_per_column: u64,
    columns: u64,
    /// Address of each chunk: index `chunk column * chunks_per_column + chunk of sets`.
    offsets: Vec<u64>,
    /// Bytes of the chunks in use, by index in `offsets`.
    cached: BTreeMap<usize, Vec<u8>>,
    /// The slot last written of columns whose two slots have equally many rows, which their rows cannot tell.
    tied: HashMap<(usize, u64), usize>,
    /// New chunks that must be written whatever the checksums are, since the space they take is not known to be zeros.
    fresh: BTreeSet<usize>,
    /// Whether new space may hold what a killed writer left there.
    resumed: bool,
}

impl ColumnTable {
    pub(super) fn new(sets: u64) -> Self {
        let (sets_per_chunk, columns_per_chunk) = chunk_shape(sets);
        Self {
            sets_per_chunk,
            columns_per_chunk,
            chunks_per_column: sets.div_ceil(sets_per_chunk),
            columns: 0,
            offsets: Vec::new(),
            cached: BTreeMap::new(),
            tied: HashMap::new(),
            fresh: BTreeSet::new(),
            resumed: false,
        }
    }

    /// The table of a file that exists; `offsets` has its chunks, which cover all sets and `columns` columns.
    pub(super) fn resumed(shape: &TableAnatomy, offsets: Vec<u64>) -> Self {
        let (sets, columns) = shape.shape;
        let (sets_per_chunk, columns_per_chunk) = shape.chunk;
        let chunks_per_column = sets.div_ceil(sets_per_chunk);
        Self {
            sets_per_chunk,
            columns_per_chunk,
            chunks_per_column,
            columns,
            offsets,
            resumed: true,
            ..Self::new(sets)
        }
    }

    /// The extents that would add chunks, one chunk column at a time, up to `columns` columns; the last one is `columns`.
    pub(super) fn extents_until(&self, columns: u64) -> Vec<u64> {
        let mut extents = Vec::new();
        let mut at = self.columns;
        while at < columns {
            at = (at + 1).next_multiple_of(self.columns_per_chunk).min(columns);
            extents.push(at);
        }
        extents
    }

    /// The elements of the chunk index that an extension to `columns` adds.
    pub(super) fn elements_added(&self, columns: u64) -> Range<u64> {
        self.offsets.len() as u64..columns.div_ceil(self.columns_per_chunk) * self.chunks_per_column
    }

    /// Bytes of a chunk.
    pub(super) fn chunk_bytes(&self) -> u64 {
        self.sets_per_chunk * self.columns_per_chunk * CELL_BYTES
    }

    /// Takes note of an extension and the chunks it brought; new chunks are all zeros.
    pub(super) fn extended(&mut self, columns: u64, allocations: &[Allocation]) {
        self.columns = columns;
        for allocation in allocations {
            self.cached.insert(self.offsets.len(), vec![0; usize::try_from(allocation.bytes).unwrap_or(0)]);
            if self.resumed {
                self.fresh.insert(self.offsets.len());
            }
            self.offsets.push(allocation.offset);
        }
    }

    /// Puts checksums into their slots and returns the chunks to write, by address. `sealed` tells how many rows of a column
    /// the last seal covers.
    pub(super) fn record(
        &mut self,
        file: &dyn StorageFile,
        columns: &[ColumnChecksum],
        sealed: impl Fn(usize, u64) -> u64,
    ) -> io::Result<Vec<ChunkWrite>> {
        let mut touched = std::mem::take(&mut self.fresh);
        for entry in columns {
            let (index, cell) = self.place(entry.set, entry.column);
            self.load(file, index)?;
            let slot = self.next_slot(entry, index, cell, sealed(entry.set, entry.column));
            let Some(bytes) = self.cached.get_mut(&index) else { continue };
            let at = cell + slot * 16;
            bytes[at..at + 8].copy_from_slice(&entry.rows.to_le_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&entry.checksum.to_le_bytes());
            touched.insert(index);
        }
        let mut writes: Vec<ChunkWrite> = Vec::with_capacity(touched.len());
        for &index in &touched {
            if let Some(bytes) = self.cached.get(&index) {
                writes.push((self.offsets[index], bytes.clone()));
            }
        }
        writes.sort_unstable_by_key(|&(offset, _)| offset);
        while self.cached.len() > CACHED_CHUNKS_MAX {
            self.cached.pop_first();
        }
        Ok(writes)
    }

    /// Index of the chunk and offset of the cell within it.
    fn place(&self, set: usize, column: u64) -> (usize, usize) {
        let set = set as u64;
        let chunk = column / self.columns_per_chunk * self.chunks_per_column + set / self.sets_per_chunk;
        let cell = (set % self.sets_per_chunk) * self.columns_per_chunk + column % self.columns_per_chunk;
        let narrow = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        (narrow(chunk), narrow(cell * CELL_BYTES))
    }

    fn load(&mut self, file: &dyn StorageFile, index: usize) -> io::Result<()> {
        assert!(index < self.offsets.len(), "a column is checksummed before it is grown");
        if !self.cached.contains_key(&index) {
            let mut bytes = vec![0; usize::try_from(self.chunk_bytes()).unwrap_or(0)];
            file.read_full_at(&mut bytes, self.offsets[index])?;
            self.cached.insert(index, bytes);
        }
        Ok(())
    }

    /// What the two slots of a column say: rows and checksum.
    pub(super) fn slots(&mut self, file: &dyn StorageFile, set: usize, column: u64) -> io::Result<[[u64; 2]; 2]> {
        let (index, cell) = self.place(set, column);
        self.load(file, index)?;
        Ok([0, 1].map(|slot| [0, 1].map(|word| self.word(index, cell, slot, word))))
    }

    /// The slot that the last seal uses, of a column of which it covers `sealed` rows; `None` where both may be it.
    pub(super) fn sealed_slot(&self, set: usize, column: u64, rows: [u64; 2], sealed: u64) -> Option<usize> {
        match rows.map(|rows| rows == sealed) {
            [true, true] => self.tied.get(&(set, column)).copied(),
            [first, _] => Some(usize::from(!first)),
        }
    }

    fn word(&self, index: usize, cell: usize, slot: usize, word: usize) -> u64 {
        let at = cell + slot * 16 + word * 8;
        self.cached[&index][at..at + 8].iter().rev().fold(0, |value, &byte| (value << 8) | u64::from(byte))
    }

    /// The slot that the last seal, which covers `sealed` rows of the column, does not need.
    fn next_slot(&mut self, entry: &ColumnChecksum, index: usize, cell: usize, sealed: u64) -> usize {
        let key = (entry.set, entry.column);
        let rows = [self.word(index, cell, 0, 0), self.word(index, cell, 1, 0)];
        let next = match (sealed, self.sealed_slot(entry.set, entry.column, rows, sealed)) {
            // Nothing of the column is sealed: whatever a killed writer left does not count.
            (0, _) => 0,
            (_, Some(current)) => 1 - current,
            // Both slots may be the sealed one, which happens where a column was rewritten before a kill. The samples are
            // written already: the new checksum is right wherever it goes.
            (_, None) => 1,
        };
        self.tied.remove(&key);
        if rows[1 - next] == entry.rows {
            self.tied.insert(key, next);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_stay_about_two_kibibytes() {
        for sets in [1, 2, 3, 5, 33, 64, 65, 345] {
            let (sets_per_chunk, columns) = chunk_shape(sets);
            assert!(sets_per_chunk * columns * CELL_BYTES <= CHUNK_BYTES);
            assert!(columns >= 1 && sets_per_chunk >= 1);
        }
    }

    #[test]
    fn extents_add_one_chunk_column_at_a_time() {
        let mut table = ColumnTable::new(32);
        assert_eq!((table.sets_per_chunk, table.columns_per_chunk), (32, 2));
        assert_eq!(table.extents_until(5), [2, 4, 5]);
        table.extended(1, &[Allocation { offset: 0, bytes: 2048 }]);
        assert_eq!(table.extents_until(2), [2]);
        assert_eq!(table.elements_added(2), 1..1);
        assert_eq!(table.elements_added(3), 1..2);
    }
}
