//! Where a value lies within the chunks of a set: pure arithmetic, shared by the rank that calls HDF5 and those that do not.
//!
//! A variable's dataset has the shape `(point[, component], time)` and chunks of `(points_per_chunk[, components],
//! chunk_steps)`. One column of chunks holds `chunk_steps` rows of all points. Within a chunk a point's block is contiguous:
//! `components` runs of `chunk_steps` values. The `time` and `step` datasets have one chunk of `chunk_steps` values a column.

use crate::{SetSpec, VariableSpec};

/// A growing dataset of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DatasetIndex {
    /// The variable with this index in [`SetSpec::variables`].
    Variable(usize),
    /// The `step` dataset, i64.
    Step,
    /// The `time` dataset, f64.
    Time,
}

/// The shape of a set's chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetGeometry {
    /// Number of points of the set.
    pub points: u64,
    /// Rows in a column of chunks (T).
    pub chunk_steps: u64,
    /// Points in a chunk of each variable, indexed by variable.
    pub points_per_chunk: Vec<u64>,
    /// Bytes of one point's block in a chunk of each variable: components x T x element bytes.
    pub block_bytes: Vec<u64>,
}

impl SetGeometry {
    /// Chooses the chunk shapes: at most about `chunk_bytes` each, shaped so that the last chunk of a column is padded by
    /// fewer points than there are chunks.
    #[must_use]
    pub fn new(set: &SetSpec, chunk_bytes: u64) -> Self {
        Self::of(set.points.len() as u64, &set.variables, set.chunk_steps, chunk_bytes)
    }

    /// As [`SetGeometry::new`], where it is known how many points there are but not which.
    #[must_use]
    pub fn of(points: u64, variables: &[VariableSpec], chunk_steps: u64, chunk_bytes: u64) -> Self {
        let block_bytes: Vec<u64> =
            variables.iter().map(|variable| variable.row_bytes() as u64 * chunk_steps).collect();
        let points_per_chunk = block_bytes
            .iter()
            .map(|&block| {
                let column_bytes = block * points.max(1);
                let chunks = column_bytes.div_ceil(chunk_bytes.max(block)).max(1);
                points.max(1).div_ceil(chunks)
            })
            .collect();
        Self { points, chunk_steps, points_per_chunk, block_bytes }
    }

    /// Chunks in one column of a dataset.
    #[must_use]
    pub fn chunks_per_column(&self, dataset: DatasetIndex) -> u64 {
        match dataset {
            DatasetIndex::Variable(variable) => self.points.div_ceil(self.points_per_chunk[variable]).max(1),
            DatasetIndex::Step | DatasetIndex::Time => 1,
        }
    }

    /// Bytes of one chunk of a dataset.
    #[must_use]
    pub fn chunk_bytes(&self, dataset: DatasetIndex) -> u64 {
        match dataset {
            DatasetIndex::Variable(variable) => self.points_per_chunk[variable] * self.block_bytes[variable],
            DatasetIndex::Step | DatasetIndex::Time => 8 * self.chunk_steps,
        }
    }

    /// The growing datasets of the set, in the fixed order in which they grow.
    pub fn datasets(&self) -> impl Iterator<Item = DatasetIndex> + use<> {
        (0..self.points_per_chunk.len()).map(DatasetIndex::Variable).chain([DatasetIndex::Step, DatasetIndex::Time])
    }
}
