//! One sealed column as one rank has a share in it: its own blocks, read from the file, changed in memory, written back.

use std::io;

use afflux_container::DatasetIndex;
use afflux_container::checksum::ColumnHasher;
use afflux_storage::{StorageFile, StorageFileExt};

use super::{ChunkMap, dataset_number, index};
use crate::Step;
use crate::layout::Layout;

/// One value of a given row, and where it belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot<'a> {
    pub variable: usize,
    /// The point in the order of the file.
    pub ordinal: usize,
    /// The point in a row.
    pub place: usize,
    pub component: usize,
    pub value: &'a [u8],
    /// Offset in a row of the window, in bytes.
    pub window_start: usize,
}

/// This rank's blocks of one dataset, by ordinal.
#[derive(Debug)]
struct Blocks {
    dataset: DatasetIndex,
    bytes: Vec<u8>,
    block_bytes: usize,
    run_bytes: usize,
    /// Which blocks differ from the file.
    changed: Vec<bool>,
}

/// A finished column (all T rows are sealed).
#[derive(Debug)]
pub(super) struct LoadedColumn {
    set: usize,
    column: u64,
    /// In the order of [`afflux_container::SetGeometry::datasets`]; those of `step` and `time` are empty where another rank writes them.
    datasets: Vec<Blocks>,
    /// Checksums of the changed blocks as they were.
    before: u64,
}

/// What a write-back did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    pub bytes: u64,
    /// By how much the column's checksum has grown.
    pub change: u64,
}

impl LoadedColumn {
    /// Reads this rank's blocks. Bytes that the file does not have are zeros.
    pub fn load(file: &dyn StorageFile, layout: &Layout, set: usize, column: u64, map: &ChunkMap) -> io::Result<Self> {
        let mut datasets = Vec::new();
        for dataset in layout.geometry.datasets() {
            let (points, block_bytes, components) = match dataset {
                DatasetIndex::Variable(variable) => {
                    (layout.holdings.len(), layout.geometry.block_bytes[variable], layout.variables[variable].values())
                }
                _ => (usize::from(layout.writes_scale), layout.geometry.chunk_bytes(dataset), 1),
            };
            let block_bytes = index(block_bytes);
            let run_bytes = block_bytes / components;
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(points * block_bytes)?;
            bytes.resize(points * block_bytes, 0);
            for (offset, ordinals) in layout.pieces_at(dataset, map.dataset(column, dataset)) {
                file.read_full_at(&mut bytes[ordinals.start * block_bytes..ordinals.end * block_bytes], offset)?;
            }
            datasets.push(Blocks { dataset, bytes, block_bytes, run_bytes, changed: vec![false; points] });
        }
        Ok(Self { set, column, datasets, before: 0 })
    }

    pub fn column(&self) -> u64 {
        self.column
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> u64 {
        self.datasets.iter().map(|blocks| blocks.bytes.len() as u64).sum()
    }

    /// The value at a spot, in row `row` of the column.
    pub fn value(&self, layout: &Layout, spot: Spot<'_>, row: usize) -> &[u8] {
        let (blocks, at) = (&self.datasets[spot.variable], self.at(layout, spot, row));
        &blocks.bytes[at..at + spot.value.len()]
    }

    fn at(&self, layout: &Layout, spot: Spot<'_>, row: usize) -> usize {
        let blocks = &self.datasets[spot.variable];
        let element_bytes = layout.variables[spot.variable].element.bytes();
        spot.ordinal * blocks.block_bytes + spot.component * blocks.run_bytes + row * element_bytes
    }

    /// Puts a value into row `row`.
    pub fn put(&mut self, layout: &Layout, spot: Spot<'_>, row: usize) {
        let at = self.at(layout, spot, row);
        self.put_at(spot.variable, layout, spot.ordinal, at, spot.value);
    }

    /// Puts step and time into row `row`, on the rank that writes them.
    pub fn put_scale(&mut self, layout: &Layout, row: usize, step: Step, time: f64) {
        if layout.writes_scale {
            let variables = layout.variables.len();
            for (dataset, bytes) in [(DatasetIndex::Step, step.to_le_bytes()), (DatasetIndex::Time, time.to_le_bytes())]
            {
                self.put_at(dataset_number(dataset, variables), layout, 0, row * 8, &bytes);
            }
        }
    }

    fn put_at(&mut self, number: usize, layout: &Layout, ordinal: usize, at: usize, value: &[u8]) {
        let blocks = &mut self.datasets[number];
        if &blocks.bytes[at..at + value.len()] == value {
            return;
        }
        if !blocks.changed[ordinal] {
            let sum = blocks.sum(ColumnHasher::new(self.set, blocks.dataset, self.column), layout, ordinal);
            self.before = self.before.wrapping_add(sum);
            blocks.changed[ordinal] = true;
        }
        blocks.bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// Writes the blocks that differ from the file, neighbours together.
    pub fn write_back(&mut self, file: &dyn StorageFile, layout: &Layout, map: &ChunkMap) -> io::Result<Written> {
        let mut written = Written::default();
        for blocks in &self.datasets {
            let hasher = ColumnHasher::new(self.set, blocks.dataset, self.column);
            for (offset, ordinals) in layout.pieces_at(blocks.dataset, map.dataset(self.column, blocks.dataset)) {
                let mut ordinal = ordinals.start;
                for run in blocks.changed[ordinals.clone()].chunk_by(|left, right| left == right) {
                    let end = ordinal + run.len();
                    if run[0] {
                        let bytes = &blocks.bytes[ordinal * blocks.block_bytes..end * blocks.block_bytes];
                        let skipped = (ordinal - ordinals.start) * blocks.block_bytes;
                        file.write_all_at(bytes, offset + skipped as u64)?;
                        written.bytes += bytes.len() as u64;
                        let sums = (ordinal..end).map(|ordinal| blocks.sum(hasher, layout, ordinal));
                        written.change = sums.fold(written.change, u64::wrapping_add);
                    }
                    ordinal = end;
                }
            }
        }
        written.change = written.change.wrapping_sub(self.before);
        self.before = 0;
        self.datasets.iter_mut().for_each(|blocks| blocks.changed.fill(false));
        Ok(written)
    }
}

impl Blocks {
    /// Sum of the checksums of a block's runs.
    fn sum(&self, hasher: ColumnHasher, layout: &Layout, ordinal: usize) -> u64 {
        let position = match self.dataset {
            DatasetIndex::Variable(_) => layout.holdings.positions(ordinal..ordinal + 1).next().expect("one position"),
            DatasetIndex::Step | DatasetIndex::Time => 0,
        };
        let block = &self.bytes[ordinal * self.block_bytes..][..self.block_bytes];
        let runs = (0_u32..).zip(block.chunks_exact(self.run_bytes));
        runs.fold(0, |sum: u64, (component, run)| sum.wrapping_add(hasher.run(component, position, run)))
    }
}
