//! Where the parts of a file are that a resumed writer changes.

use super::{ReadError, SeriesFile};
use crate::hdf::reference;
use hdf5_metno::sync::sync;

/// Addresses and shapes.
#[derive(Debug)]
pub(crate) struct Anatomy {
    /// Object headers of the growing datasets of each set, in the order of [`crate::SetGeometry::datasets`].
    pub headers: Vec<Vec<u64>>,
    /// Where the first slot of the seal is.
    pub seal_offset: u64,
    pub table: TableAnatomy,
}

/// Of the column checksums.
#[derive(Debug)]
pub(crate) struct TableAnatomy {
    /// Object header.
    pub header: u64,
    /// (sets, columns).
    pub shape: (u64, u64),
    /// Sets and columns in a chunk.
    pub chunk: (u64, u64),
}

impl TableAnatomy {
    /// Bytes of a chunk: two slots of two words a cell.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.chunk.0 * self.chunk.1 * 32
    }
}

impl SeriesFile {
    /// The dataset of a set with the fewest rows, and how many those are.
    pub(crate) fn shortest(&self, set: usize) -> Option<(&str, u64)> {
        let open = &self.open_sets[set];
        let datasets = open.variables.iter().chain([&open.step, &open.time]);
        let rows = datasets.map(|dataset| (dataset.label.as_str(), dataset.shape.last().copied().unwrap_or(0)));
        rows.min_by_key(|&(_, rows)| rows)
    }

    /// Path, object header and sealed rows of every growing dataset.
    pub(crate) fn growing(&self) -> Result<Vec<(String, u64, u64)>, ReadError> {
        let headers = self.anatomy()?.headers;
        let sets = self.open_sets.iter().zip(&self.sets).zip(headers);
        let growing = sets.flat_map(|((open, info), headers)| {
            let datasets = open.variables.iter().chain([&open.step, &open.time]);
            let labels = datasets.map(|dataset| dataset.label.clone());
            labels.zip(headers).map(|(label, header)| (label, header, info.rows_sealed)).collect::<Vec<_>>()
        });
        Ok(growing.collect())
    }

    /// # Errors
    /// [`ReadError::Damaged`].
    pub(crate) fn anatomy(&self) -> Result<Anatomy, ReadError> {
        let header = |dataset: &super::Checked| {
            let address = sync(|| reference(dataset.dataset.id(), c"."));
            address.map_err(|error| self.file.damaged(format!("{} cannot be found: {error}", dataset.label)))
        };
        let of_set = |set: &super::OpenSet| set.variables.iter().chain([&set.step, &set.time]).map(header).collect();
        let headers = self.open_sets.iter().map(of_set).collect::<Result<Vec<_>, _>>()?;
        let table = &self.checksums;
        let (chunk_sets, chunk_columns) = match table.chunk.as_deref() {
            Some(&[sets, columns, 2, 2]) if sets > 0 && columns > 0 => (sets, columns),
            chunk => return Err(self.file.damaged(format!("{} has chunks {chunk:?}", table.label))),
        };
        let (sets, columns) = (table.shape[0], table.shape[1]);
        if sets < self.sets.len() as u64 {
            return Err(self.file.damaged(format!("{} has room for {sets} sets", table.label)));
        }
        let seal_offset = self.seal.dataset.offset();
        Ok(Anatomy {
            headers,
            seal_offset: seal_offset.ok_or_else(|| self.file.damaged(format!("{} has no place", self.seal.label)))?,
            table: TableAnatomy { header: header(table)?, shape: (sets, columns), chunk: (chunk_sets, chunk_columns) },
        })
    }
}
