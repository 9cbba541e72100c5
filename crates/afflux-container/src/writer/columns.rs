//! Columns that exist: where their chunks are, what their checksums are.
//!
//! Columns grown since the last seal are remembered, since their index is not on the medium yet; those sealed before are looked up
//! in the chunk index there, in a few small reads, so that memory does not grow with the file.

use super::{ColumnChecksum, ContainerWriter, NewColumn, SetState, WriteError};
use crate::format::{ChunkIndex, FormatError, ObjectHeader, UNDEFINED};
use crate::hdf::reference;
use hdf5_metno::sync::sync;

/// How a dataset's values divide a point's block into runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunShape {
    pub components: u32,
    pub element_bytes: u64,
}

impl SetState {
    /// Rows of a column that the last seal covers.
    pub(super) fn sealed_rows(&self, column: u64) -> u64 {
        let first = column.saturating_mul(self.geometry.chunk_steps);
        self.rows.saturating_sub(first).min(self.geometry.chunk_steps)
    }
}

impl ContainerWriter {
    /// Where the chunks of an allocated column are, sealed or not, in the order of [`crate::SetGeometry::datasets`]: to read an unfinished
    /// column back, to compare or rewrite an old one.
    ///
    /// # Errors
    /// [`WriteError::Io`], [`WriteError::Damaged`], [`WriteError::Failed`]. The writer can go on after it.
    ///
    /// # Panics
    /// If the set has no such column.
    pub fn column_chunks(&mut self, set: usize, column: u64) -> Result<Vec<NewColumn>, WriteError> {
        self.refuse_if_failed()?;
        assert!(column < self.sets[set].columns, "set {set} has {} columns, not {column}", self.sets[set].columns);
        let grown: Vec<NewColumn> =
            self.grown.iter().filter(|grown| (grown.set, grown.column) == (set, column)).cloned().collect();
        if !grown.is_empty() {
            return Ok(grown);
        }
        let found = self.look_up(set, column);
        found.map_err(|error| self.format_error("read the chunk index of", error))
    }

    /// The checksum of a column's sealed rows; `None` if none of its rows are sealed.
    ///
    /// After a kill while a column was rewritten in place the file has two checksums of as many rows; then the samples are read and the one
    /// that they match is returned.
    ///
    /// # Errors
    /// [`WriteError::Damaged`] where no checksum of those rows is recorded; else as [`Self::column_chunks`].
    ///
    /// # Panics
    /// If the set has no such column.
    pub fn column_checksum(&mut self, set: usize, column: u64) -> Result<Option<ColumnChecksum>, WriteError> {
        self.refuse_if_failed()?;
        assert!(column < self.sets[set].columns, "set {set} has {} columns, not {column}", self.sets[set].columns);
        let rows = self.sets[set].sealed_rows(column);
        if rows == 0 {
            return Ok(None);
        }
        let slots = self.checksum_slots(set, column)?;
        let in_slots = slots.map(|[rows, _]| rows);
        let checksum = match self.table.sealed_slot(set, column, in_slots, rows) {
            Some(slot) if in_slots[slot] == rows => slots[slot][1],
            None if slots[0] == slots[1] => slots[0][1],
            None => {
                let actual = self.sum_of_column(set, column, rows)?;
                slots.iter().map(|slot| slot[1]).find(|&recorded| recorded == actual).unwrap_or(slots[0][1])
            }
            Some(_) => {
                let what = format!("set {set}, column {column}: no checksum is recorded for its {rows} sealed rows");
                return Err(WriteError::Damaged { path: self.path.clone(), what });
            }
        };
        Ok(Some(ColumnChecksum { set, column, rows, checksum }))
    }

    pub(super) fn checksum_slots(&mut self, set: usize, column: u64) -> Result<[[u64; 2]; 2], WriteError> {
        let slots = self.table.slots(self.file.as_ref(), set, column);
        slots.map_err(|error| self.io_error("read the checksums of", error))
    }

    fn look_up(&mut self, set: usize, column: u64) -> Result<Vec<NewColumn>, FormatError> {
        let file = self.file.as_ref();
        let geometry = &self.sets[set].geometry;
        let Some(hdf) = &mut self.hdf else { return Ok(Vec::new()) };
        let mut found = Vec::with_capacity(hdf.sets[set].len());
        for growing in &mut hdf.sets[set] {
            let lost = |what: &str| FormatError::Damaged(format!("column {column} of set {set} {what}"));
            if growing.index.is_none() {
                let header = sync(|| reference(growing.handle.id(), c"."));
                let header = header.map_err(|error| FormatError::Damaged(error.to_string()))?;
                growing.index = ObjectHeader::read(file, header)?.chunk_index()?;
            }
            let address = growing.index.ok_or_else(|| lost("has no chunk index"))?;
            let chunks = geometry.chunks_per_column(growing.role);
            let elements = column * chunks..(column + 1) * chunks;
            let chunk_offsets = ChunkIndex::open(file, address)?.elements(file, elements)?;
            if chunk_offsets.contains(&UNDEFINED) {
                return Err(lost("is not in the chunk index"));
            }
            found.push(NewColumn { set, column, dataset: growing.role, chunk_offsets });
        }
        Ok(found)
    }

    pub(super) fn format_error(&self, doing: &'static str, error: FormatError) -> WriteError {
        match error {
            FormatError::Io(source) => self.io_error(doing, source),
            FormatError::Damaged(what) => WriteError::Damaged { path: self.path.clone(), what },
        }
    }
}
