//! Holds sealed columns against their checksums, before a resumed writer goes on with them.
//!
//! The samples are read from the medium at the addresses of their chunks, past HDF5, a few MiB at a time.

use super::{ContainerWriter, WriteError};
use crate::checksum::ColumnHasher;
use crate::reader::{Fault, VerifyProgress, column_fault};
use crate::{DatasetIndex, NewColumn};
use afflux_storage::StorageFileExt;
use std::fmt;
use std::io;
use std::ops::Range;

/// Points are read in pieces of about this many bytes.
const PIECE_BYTES: u64 = 4 << 20;

/// Which sealed columns are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeCheck {
    /// The last sealed column of each set: what the writer before was at work on. Costs the reading of one column a set.
    UnfinishedColumns,
    /// Every sealed column: costs the reading of the whole file.
    All,
}

/// A sealed column whose bytes are not those that were sealed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DamagedColumn {
    /// Index of the set.
    pub set: usize,
    /// Name of the set.
    pub set_name: String,
    /// The column.
    pub column: u64,
    /// Its sealed rows, counted over the set.
    pub rows: Range<u64>,
    /// The first and the last step of those rows.
    pub steps: (u64, u64),
    /// What is wrong.
    pub fault: Fault,
}

impl fmt::Display for DamagedColumn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = if self.set_name.is_empty() { "default set".to_owned() } else { format!("set {}", self.set_name) };
        let (first, last) = self.steps;
        write!(formatter, "{set}, column {} (steps {first} to {last}): {}", self.column, self.fault)
    }
}

impl ContainerWriter {
    /// Reads sealed columns and holds them against their checksums; `progress` is called after each. What is returned is damaged: the
    /// watermark cannot be trusted for those steps. An empty list is what to hope for.
    ///
    /// # Errors
    /// As [`Self::column_chunks`].
    pub fn check(
        &mut self,
        which: ResumeCheck,
        progress: &mut dyn FnMut(VerifyProgress),
    ) -> Result<Vec<DamagedColumn>, WriteError> {
        self.refuse_if_failed()?;
        let sealed = self.sets.iter().map(|set| set.rows.div_ceil(set.geometry.chunk_steps)).enumerate();
        let ranges: Vec<(usize, Range<u64>)> = sealed
            .map(|(set, columns)| match which {
                ResumeCheck::All => (set, 0..columns),
                ResumeCheck::UnfinishedColumns => (set, columns.saturating_sub(1)..columns),
            })
            .collect();
        let columns = ranges.iter().map(|(_, columns)| columns.end - columns.start).sum();
        let mut found = Vec::new();
        let all = ranges.into_iter().flat_map(|(set, columns)| columns.map(move |column| (set, column)));
        for ((set, column), columns_done) in all.zip(1..) {
            if let Some(fault) = self.check_column(set, column)? {
                found.push(self.damaged_column(set, column, fault));
            }
            progress(VerifyProgress { columns_done, columns });
        }
        Ok(found)
    }

    /// Holds a sealed column against its checksum, `sum` being that of its sealed rows as they are on the medium
    /// ([`crate::checksum`]): for those who share the reading out.
    ///
    /// # Errors
    /// As [`Self::column_chunks`].
    ///
    /// # Panics
    /// If there is no such set.
    pub fn judge_column(&mut self, set: usize, column: u64, sum: u64) -> Result<Option<DamagedColumn>, WriteError> {
        self.refuse_if_failed()?;
        let rows = self.sets[set].sealed_rows(column);
        let slots = self.checksum_slots(set, column)?;
        Ok(column_fault(slots, rows, sum).map(|fault| self.damaged_column(set, column, fault)))
    }

    fn check_column(&mut self, set: usize, column: u64) -> Result<Option<Fault>, WriteError> {
        let rows = self.sets[set].sealed_rows(column);
        let slots = self.checksum_slots(set, column)?;
        match self.sum_of_column(set, column, rows) {
            Ok(sum) => Ok(column_fault(slots, rows, sum)),
            Err(WriteError::Damaged { what, .. }) => Ok(Some(Fault::Unreadable { what })),
            Err(error) => Err(error),
        }
    }

    fn damaged_column(&self, set: usize, column: u64, fault: Fault) -> DamagedColumn {
        let state = &self.sets[set];
        let first = column * state.geometry.chunk_steps;
        let rows = first..first + state.sealed_rows(column);
        let step = |row: u64| state.first_step.unwrap_or(0).saturating_add(row.saturating_mul(state.cadence_steps));
        let steps = (step(rows.start), step(rows.end.saturating_sub(1)));
        DamagedColumn { set, set_name: state.name.clone(), column, rows, steps, fault }
    }

    /// The checksum of the first `rows` rows of a column as they are on the medium.
    pub(super) fn sum_of_column(&mut self, set: usize, column: u64, rows: u64) -> Result<u64, WriteError> {
        let chunks = self.column_chunks(set, column)?;
        let mut sum = 0_u64;
        for dataset in &chunks {
            let part = self.sum_of_dataset(dataset, rows).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    let what = format!("the file ends within column {column} of set {set}");
                    WriteError::Damaged { path: self.path.clone(), what }
                }
                _ => self.io_error("read", error),
            })?;
            sum = sum.wrapping_add(part);
        }
        Ok(sum)
    }

    fn sum_of_dataset(&self, column: &NewColumn, rows: u64) -> io::Result<u64> {
        let state = &self.sets[column.set];
        let (points, per_chunk, shape) = match column.dataset {
            DatasetIndex::Variable(variable) => {
                (state.geometry.points, state.geometry.points_per_chunk[variable], state.runs[variable])
            }
            _ => (1, 1, super::RunShape { components: 1, element_bytes: 8 }),
        };
        let run_bytes = state.geometry.chunk_steps * shape.element_bytes;
        let block_bytes = run_bytes * u64::from(shape.components);
        let hasher = ColumnHasher::new(column.set, column.dataset, column.column);
        let points_at_once = (PIECE_BYTES / block_bytes).max(1);
        let narrow = |value: u64| usize::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory));
        let sealed_bytes = narrow(rows * shape.element_bytes)?;
        let mut sum = 0_u64;
        let mut bytes = Vec::new();
        let mut position = 0;
        while position < points {
            let within = position % per_chunk;
            let count = points_at_once.min(per_chunk - within).min(points - position);
            bytes.resize(narrow(count * block_bytes)?, 0);
            let offset = column.chunk_offsets[narrow(position / per_chunk)?] + within * block_bytes;
            if self.file.read_full_at(&mut bytes, offset)? < bytes.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for (point, block) in (position..).zip(bytes.chunks_exact(narrow(block_bytes)?)) {
                for (component, run) in (0..shape.components).zip(block.chunks_exact(narrow(run_bytes)?)) {
                    sum = sum.wrapping_add(hasher.run(component, point, &run[..sealed_bytes]));
                }
            }
            position += count;
        }
        Ok(sum)
    }
}
