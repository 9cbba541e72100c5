//! Growth and extension in one go, ahead of the samples: all that HDF5 has to do for a seal, done in memory at its beginning.
//!
//! The blocks that make the rows visible wait here until [`ContainerWriter::seal`] writes them. So a seal that was prepared
//! calls no HDF5: it may run on a helper thread, while the thread of the simulation, which may use HDF5 itself and without our
//! lock, goes on. And each dataset is extended once a column instead of once more a seal.
//!
//! Invariant: between an advance and its seal HDF5 is not called, so nothing reads what the waiting blocks are to replace.

use super::{ContainerWriter, Hdf, NewColumn, WriteError};
use crate::driver::HeldBlock;
use crate::hdf::HdfError;
use hdf5_metno::sync::sync;

/// What a seal is to release.
#[derive(Debug)]
pub(super) struct Advanced {
    rows: Vec<u64>,
    blocks: Vec<HeldBlock>,
}

impl Advanced {
    /// The blocks, for a seal of these rows.
    pub(super) fn blocks_for(self, rows: &[u64]) -> Vec<HeldBlock> {
        assert_eq!(self.rows, rows, "a seal states the rows that it was prepared for");
        self.blocks
    }
}

impl ContainerWriter {
    /// Prepares the seal of `rows` rows of each set (indexed by set): takes the columns that they need and returns the new
    /// ones, as [`Self::grow`] does, and has HDF5 extend its datasets, in memory. The next call must be [`Self::seal`] with
    /// these rows, which then calls no HDF5, or `close`, which drops them.
    ///
    /// # Errors
    /// [`WriteError`]; the writer then refuses further work.
    ///
    /// # Panics
    /// If `rows` does not have an entry for each set or takes rows back, or if the rows of the last advance are not sealed.
    pub fn advance(&mut self, rows: &[u64]) -> Result<Vec<NewColumn>, WriteError> {
        self.refuse_if_failed()?;
        assert!(self.advanced.is_none(), "what was prepared is sealed before more is");
        assert_eq!(rows.len(), self.sets.len(), "an advance states the rows of every set");
        let advanced = sync(|| self.advance_locked(rows));
        let new = self.remember_failure(advanced)?;
        self.grown.extend_from_slice(&new);
        Ok(new)
    }

    fn advance_locked(&mut self, rows: &[u64]) -> Result<Vec<NewColumn>, WriteError> {
        let Some(mut hdf) = self.hdf.take() else { return Ok(Vec::new()) };
        let grown = self.grow_to_rows(&mut hdf, rows);
        self.hdf = Some(hdf);
        let new = grown.map_err(|error| self.hdf_error(error))?;
        let blocks = self.extend_to(rows)?;
        self.lengthen_for_growth()?;
        self.advanced = Some(Advanced { rows: rows.to_vec(), blocks });
        Ok(new)
    }

    /// New columns in the order of [`ContainerWriter::grow`]: by set, column, dataset.
    fn grow_to_rows(&mut self, hdf: &mut Hdf, rows: &[u64]) -> Result<Vec<NewColumn>, HdfError> {
        let mut new = Vec::new();
        for (set, &rows) in rows.iter().enumerate() {
            let chunk_steps = self.sets[set].geometry.chunk_steps;
            let columns = self.sets[set].columns..rows.div_ceil(chunk_steps);
            for column in columns {
                let rows = rows.min((column + 1) * chunk_steps);
                self.grow_column(hdf, set, column, rows, &mut new)?;
            }
        }
        self.grow_table_to_columns(hdf)?;
        Ok(new)
    }
}
