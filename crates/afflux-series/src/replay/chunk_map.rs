//! Where the chunks of a set's sealed columns lie.

use afflux_container::{DatasetIndex, SetGeometry};

use super::{dataset_number, index};

/// Offsets of chunks, column after column: eight bytes a chunk. Where a run skips what it replays, those of `time` alone.
#[derive(Debug, Clone)]
pub(crate) struct ChunkMap {
    /// Where each dataset's chunks begin within a column's, in the order of [`SetGeometry::datasets`]; and their end.
    starts: Vec<usize>,
    offsets: Vec<u64>,
    only_times: bool,
}

impl ChunkMap {
    /// No column yet.
    pub fn new(geometry: &SetGeometry) -> Self {
        let mut starts = vec![0];
        for dataset in geometry.datasets() {
            starts.push(starts[starts.len() - 1] + index(geometry.chunks_per_column(dataset)));
        }
        Self { starts, offsets: Vec::new(), only_times: false }
    }

    /// Chunks of a column, over all datasets.
    pub fn chunks_per_column(&self) -> u64 {
        self.per_column() as u64
    }

    fn per_column(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// Adds whole columns.
    pub fn extend(&mut self, offsets: Vec<u64>) {
        assert_eq!(offsets.len() % self.per_column(), 0, "chunks come by whole columns");
        self.offsets.extend(offsets);
    }

    /// All chunks of a column, dataset by dataset.
    pub fn column(&self, column: u64) -> &[u64] {
        assert!(!self.only_times, "the chunks of variables are kept");
        let start = index(column) * self.per_column();
        &self.offsets[start..start + self.per_column()]
    }

    /// The chunks of one dataset in a column.
    pub fn dataset(&self, column: u64, dataset: DatasetIndex) -> &[u64] {
        let number = dataset_number(dataset, self.starts.len() - 3);
        &self.column(column)[self.starts[number]..self.starts[number + 1]]
    }

    /// The chunk of `time` in a column.
    pub fn time(&self, column: u64) -> u64 {
        if self.only_times { self.offsets[index(column)] } else { self.dataset(column, DatasetIndex::Time)[0] }
    }

    /// Forgets all but the chunks of `time`.
    pub fn keep_times(&mut self) {
        let per_column = self.per_column();
        // `time` is the last dataset, and has one chunk.
        self.offsets = self.offsets.chunks_exact(per_column).map(|column| column[per_column - 1]).collect();
        self.only_times = true;
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.offsets.len() * size_of::<u64>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use afflux_container::{ElementType, VariableSpec};

    #[test]
    fn chunks_are_found_by_column_and_dataset() {
        let variable = |name: &str, components| VariableSpec {
            name: name.into(),
            element: ElementType::F64,
            components,
            units: String::new(),
            long_name: None,
            standard_name: None,
        };
        // Two points a chunk of `a`, one of `b`.
        let geometry = SetGeometry::of(3, &[variable("a", None), variable("b", Some(2))], 4, 64);
        let mut map = ChunkMap::new(&geometry);
        assert_eq!(map.chunks_per_column(), 2 + 3 + 1 + 1);
        map.extend((100..107).collect());
        map.extend((200..214).collect());
        assert_eq!(map.dataset(0, DatasetIndex::Variable(0)), [100, 101]);
        assert_eq!(map.dataset(1, DatasetIndex::Variable(1)), [202, 203, 204]);
        assert_eq!(map.dataset(2, DatasetIndex::Step), [212]);
        assert_eq!((map.time(0), map.time(2)), (106, 213));
        map.keep_times();
        assert_eq!(((0..3).map(|column| map.time(column)).collect::<Vec<_>>(), map.bytes()), (vec![106, 206, 213], 24));
    }
}
