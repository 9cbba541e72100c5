//! Growth: HDF5 takes space for whole columns of chunks, and the driver sees where.
//!
//! A dataset with early allocation takes its new chunks within `H5Dset_extent`, one growth of the end of the file each, in
//! ascending chunk number when one column is added at a time. So the addresses come from the driver. The alternative,
//! `H5Dget_chunk_info_by_coord`, searches linearly, which makes a long run quadratic, and HDF5 1.10.8 answers wrongly for all
//! but the first chunk of a column (it walks an extensible array as if the unlimited dimension were the first one). It serves
//! to check the first chunk of each dataset; a growth of another number or size of pieces than expected is an error.
//!
//! After a kill chunks are not at the end of the file but where the writer before had them, see `left_over`.

use super::left_over::Owner;
use super::{ContainerWriter, Growing, Hdf, WriteError};
use crate::DatasetIndex;
use crate::driver::{Allocation, HeldBlock};
use crate::hdf::{HdfError, Hid, check};
use hdf5_metno_sys::{h5d, h5f};

/// The chunks of one new column of one dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewColumn {
    /// Index of the set.
    pub set: usize,
    /// Index of the column.
    pub column: u64,
    /// The dataset within the set.
    pub dataset: DatasetIndex,
    /// File offset of each chunk of the column, in ascending order of the points (one chunk for `step` and `time`).
    pub chunk_offsets: Vec<u64>,
}

impl ContainerWriter {
    pub(super) fn grow_locked(&mut self, requests: &[(usize, u64)]) -> Result<Vec<NewColumn>, WriteError> {
        let Some(mut hdf) = self.hdf.take() else { return Ok(Vec::new()) };
        let grown = self.grow_datasets(&mut hdf, requests);
        self.hdf = Some(hdf);
        let new = grown.map_err(|error| self.hdf_error(error))?;
        self.lengthen_for_growth()?;
        Ok(new)
    }

    /// Room for the samples of the new columns.
    pub(super) fn lengthen_for_growth(&mut self) -> Result<(), WriteError> {
        let end = self.driver.end_of_allocation();
        if let Some(length) = self.space.length_due_for_growth(end) {
            self.file.set_len(length).map_err(|error| self.io_error("lengthen", error))?;
            self.space.lengthened(length);
            self.counters.length_changes += 1;
        }
        Ok(())
    }

    fn grow_datasets(&mut self, hdf: &mut Hdf, requests: &[(usize, u64)]) -> Result<Vec<NewColumn>, HdfError> {
        let mut new = Vec::new();
        for &(set, columns) in requests {
            let chunk_steps = self.sets[set].geometry.chunk_steps;
            for column in self.sets[set].columns..columns {
                // One row into a column takes the space of the whole column.
                self.grow_column(hdf, set, column, column * chunk_steps + 1, &mut new)?;
            }
        }
        self.grow_table_to_columns(hdf)?;
        Ok(new)
    }

    /// Extends the datasets of a set to `rows` rows, the last of them in the new column.
    pub(super) fn grow_column(
        &mut self,
        hdf: &mut Hdf,
        set: usize,
        column: u64,
        rows: u64,
        new: &mut Vec<NewColumn>,
    ) -> Result<(), HdfError> {
        hdf.changed = true;
        for growing in &mut hdf.sets[set] {
            let chunk_offsets = self.grow_dataset(set, growing, column, rows)?;
            new.push(NewColumn { set, column, dataset: growing.role, chunk_offsets });
        }
        self.sets[set].columns = column + 1;
        Ok(())
    }

    /// The table of checksums gets as many columns as the set that has most.
    pub(super) fn grow_table_to_columns(&mut self, hdf: &mut Hdf) -> Result<(), HdfError> {
        let columns_max = self.sets.iter().map(|state| state.columns).max().unwrap_or(0);
        for columns in self.table.extents_until(columns_max) {
            hdf.changed = true;
            self.grow_table(&hdf.table, columns)?;
        }
        Ok(())
    }

    fn grow_dataset(&self, set: usize, growing: &mut Growing, column: u64, rows: u64) -> Result<Vec<u64>, HdfError> {
        let geometry = &self.sets[set].geometry;
        let chunks = geometry.chunks_per_column(growing.role);
        let owner = Owner::Dataset(set, growing.role);
        self.driver.offer(self.left_over.places(owner, column * chunks..(column + 1) * chunks));
        growing.set_rows(rows)?;
        let taken = self.driver.take_allocations();
        let bytes = geometry.chunk_bytes(growing.role);
        if !is_expected(&taken, chunks, bytes) {
            return Err(HdfError::new("H5Dset_extent", "new chunks are not where the file grew"));
        }
        if column == 0 || (cfg!(debug_assertions) && chunks == 1) {
            growing.check_first_chunk(column * geometry.chunk_steps, taken[0].offset)?;
        }
        Ok(taken.iter().map(|allocation| allocation.offset).collect())
    }

    fn grow_table(&mut self, table: &Hid, columns: u64) -> Result<(), HdfError> {
        let extents = [self.set_count, columns, 2, 2];
        self.driver.offer(self.left_over.places(Owner::Checksums, self.table.elements_added(columns)));
        // SAFETY: a valid dataset of four dimensions, under HDF5's lock.
        check("H5Dset_extent", unsafe { h5d::H5Dset_extent(table.id(), extents.as_ptr()) })?;
        let taken = self.driver.take_allocations();
        let added = self.table.elements_added(columns);
        if !is_expected(&taken, added.end - added.start, self.table.chunk_bytes()) {
            return Err(HdfError::new("H5Dset_extent", "chunks of the checksums are not where the file grew"));
        }
        self.table.extended(columns, &taken);
        Ok(())
    }

    /// Sets the extents that a seal states and returns what HDF5 then has to write.
    pub(super) fn extend_to(&mut self, rows: &[u64]) -> Result<Vec<HeldBlock>, WriteError> {
        let Some(mut hdf) = self.hdf.take() else { return Ok(Vec::new()) };
        let extended = set_all_rows(&mut hdf, rows);
        self.hdf = Some(hdf);
        extended.map_err(|error| self.hdf_error(error))?;
        Ok(self.driver.take_held())
    }
}

fn set_all_rows(hdf: &mut Hdf, rows: &[u64]) -> Result<(), HdfError> {
    for (datasets, &rows) in hdf.sets.iter_mut().zip(rows) {
        for growing in datasets.iter_mut().filter(|growing| growing.rows < rows) {
            growing.set_rows(rows)?;
            hdf.changed = true;
        }
    }
    if hdf.changed {
        flush(&hdf.file)?;
        hdf.changed = false;
    }
    Ok(())
}

/// One flush of the metadata cache, for all datasets at once.
fn flush(file: &Hid) -> Result<(), HdfError> {
    // SAFETY: a valid file, under HDF5's lock.
    check("H5Fflush", unsafe { h5f::H5Fflush(file.id(), h5f::H5F_scope_t::H5F_SCOPE_LOCAL) })
}

fn is_expected(taken: &[Allocation], chunks: u64, bytes: u64) -> bool {
    taken.len() as u64 == chunks && taken.iter().all(|allocation| allocation.bytes == bytes)
}

impl Growing {
    fn set_rows(&mut self, rows: u64) -> Result<(), HdfError> {
        debug_assert!(rows > self.rows, "an extent that shrinks gives its chunks away");
        let extents: Vec<u64> = self.leading.iter().copied().chain([rows]).collect();
        // SAFETY: as many extents as the dataset has dimensions, under HDF5's lock.
        check("H5Dset_extent", unsafe { h5d::H5Dset_extent(self.handle.id(), extents.as_ptr()) })?;
        self.rows = rows;
        Ok(())
    }

    /// Asks HDF5 (by a linear search) whether the first chunk of a column lies where the file grew.
    fn check_first_chunk(&self, first_row: u64, expected: u64) -> Result<(), HdfError> {
        let mut place: Vec<u64> = vec![0; self.leading.len() + 1];
        place[self.leading.len()] = first_row;
        let (mut offset, mut bytes, mut filters) = (u64::MAX, 0_u64, 0);
        let (offset_at, bytes_at) = (&raw mut offset, &raw mut bytes);
        // SAFETY: as many coordinates as dimensions and room for the answers, under HDF5's lock.
        check("H5Dget_chunk_info_by_coord", unsafe {
            h5d::H5Dget_chunk_info_by_coord(self.handle.id(), place.as_ptr(), &raw mut filters, offset_at, bytes_at)
        })?;
        if offset != expected {
            return Err(HdfError::new("H5Dset_extent", "a new chunk is not where the file grew"));
        }
        Ok(())
    }
}
