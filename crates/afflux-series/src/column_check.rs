//! Column checksums of a file that is resumed, summed by all ranks together: chunks are shared out evenly, whoever owns their points, and
//! read whole.

use std::io;

use afflux_container::checksum::ColumnHasher;
use afflux_container::{DatasetIndex, SetGeometry, VariableSpec};
use afflux_storage::{StorageFile, StorageFileExt};

/// One column of chunks of one set, as it is in the file.
pub(crate) struct ColumnOnFile<'a> {
    pub set: usize,
    pub column: u64,
    /// Its sealed rows.
    pub rows: u64,
    pub variables: &'a [VariableSpec],
    pub geometry: &'a SetGeometry,
    /// Offsets of its chunks, dataset by dataset in the order of [`SetGeometry::datasets`].
    pub chunks: &'a [u64],
}

/// Reads chunks and sums their runs.
pub(crate) struct ColumnChecker<'a> {
    file: &'a dyn StorageFile,
    rank: u64,
    ranks: u64,
    /// Chunks seen so far: every `ranks`-th is this rank's.
    seen: u64,
    bytes: Vec<u8>,
}

impl<'a> ColumnChecker<'a> {
    pub fn new(file: &'a dyn StorageFile, rank: usize, ranks: usize) -> Self {
        Self { file, rank: rank as u64, ranks: ranks as u64, seen: 0, bytes: Vec::new() }
    }

    /// This rank's part of the column's checksum. All ranks ask for the same columns in the same order. Bytes that the file does not
    /// have count as zeros: the sum then is not the one that was sealed.
    pub fn part(&mut self, column: &ColumnOnFile<'_>) -> io::Result<u64> {
        let mut sum = 0_u64;
        let mut chunks = column.chunks.iter();
        for dataset in column.geometry.datasets() {
            for chunk in 0..column.geometry.chunks_per_column(dataset) {
                let offset = *chunks.next().expect("an offset for every chunk");
                if self.seen % self.ranks == self.rank {
                    sum = sum.wrapping_add(self.chunk_sum(column, dataset, chunk, offset)?);
                }
                self.seen += 1;
            }
        }
        Ok(sum)
    }

    fn chunk_sum(
        &mut self,
        column: &ColumnOnFile<'_>,
        dataset: DatasetIndex,
        chunk: u64,
        offset: u64,
    ) -> io::Result<u64> {
        let geometry = column.geometry;
        let (points, first, block, values, element_bytes) = match dataset {
            DatasetIndex::Variable(index) => {
                let (per_chunk, variable) = (geometry.points_per_chunk[index], &column.variables[index]);
                let first = chunk * per_chunk;
                let points = per_chunk.min(geometry.points - first);
                (points, first, geometry.block_bytes[index], variable.values(), variable.element.bytes())
            }
            DatasetIndex::Step | DatasetIndex::Time => (1, 0, geometry.chunk_bytes(dataset), 1, 8),
        };
        let narrow = |bytes: u64| usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory));
        let sealed = narrow(column.rows)? * element_bytes;
        let (block, run) = (narrow(block)?, narrow(geometry.chunk_steps)? * element_bytes);
        self.bytes.clear();
        self.bytes.resize(narrow(points)? * block, 0);
        self.file.read_full_at(&mut self.bytes, offset)?;
        let hasher = ColumnHasher::new(column.set, dataset, column.column);
        let mut sum = 0_u64;
        for (position, block) in (first..).zip(self.bytes.chunks_exact(block)) {
            for (component, run) in (0_u32..).zip(block.chunks_exact(run).take(values)) {
                sum = sum.wrapping_add(hasher.run(component, position, &run[..sealed]));
            }
        }
        Ok(sum)
    }
}
