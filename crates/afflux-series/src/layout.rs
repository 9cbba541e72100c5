//! What one rank writes of one set, and how it is put together: the part of a set that stays as it is while owners stay, so that a
//! helper thread can share it.
//!
//! Answers for: which chunks this rank has a share in, where its points lie in them, and the bytes of its blocks. Leaves the
//! rows to [`Window`], and where the chunks lie in the file to the set.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use afflux_container::checksum::ColumnHasher;
use afflux_container::{DatasetIndex, SetGeometry, VariableSpec};
use afflux_plan::Extents;

use crate::holdings::{ChunkShare, Holdings};
use crate::numbers::Stretch;
use crate::transpose::{Shape, transpose};
use crate::window::Window;

/// Where the chunks of a column lie in the file, by column and dataset.
pub(crate) type ChunkOffsets = BTreeMap<(u64, DatasetIndex), Vec<u64>>;

/// One chunk (or the part of it that this rank writes) of one flush.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    /// Offset of the chunk in the file.
    pub offset: u64,
    set: usize,
    dataset: DatasetIndex,
    column: u64,
    /// Ordinals of its points.
    points: Range<usize>,
    first_position: u64,
    /// Bytes of payload.
    pub bytes: usize,
}

impl Segment {
    /// Index of the set it belongs to.
    pub fn set(&self) -> usize {
        self.set
    }
    /// The column of chunks it lies in.
    pub fn column(&self) -> u64 {
        self.column
    }
    /// Whether it holds steps (0) or times (1).
    pub fn scale(&self) -> Option<usize> {
        match self.dataset {
            DatasetIndex::Step => Some(0),
            DatasetIndex::Time => Some(1),
            DatasetIndex::Variable(_) => None,
        }
    }
}

/// The part of a set that is shared. Points are addressed by ordinal, in the order of the file.
#[derive(Debug)]
pub(crate) struct Layout {
    pub variables: Vec<VariableSpec>,
    pub geometry: SetGeometry,
    /// The points this rank gives values for, and those it writes.
    pub holdings: Holdings,
    /// For each variable, the chunks of a column that this rank has a share in.
    shares: Vec<Vec<ChunkShare>>,
    /// Whether this rank writes the set's `step` and `time`.
    pub writes_scale: bool,
}

impl Layout {
    pub fn new(variables: Vec<VariableSpec>, geometry: SetGeometry, holdings: Holdings, writes_scale: bool) -> Self {
        let shares = geometry.points_per_chunk.iter().map(|&count| holdings.chunk_shares(count)).collect();
        Self { variables, geometry, holdings, shares, writes_scale }
    }

    /// The same where this rank has other points.
    pub fn with_holdings(&self, holdings: Holdings) -> Self {
        Self::new(self.variables.clone(), self.geometry.clone(), holdings, self.writes_scale)
    }

    /// Room for `rows_max` rows, the first of which is row `first_row` of the set; where there is none, the system's reason.
    pub fn window(&self, rows_max: u64, first_row: u64) -> io::Result<Window> {
        let (given, filled) = (self.holdings.roster.len(), self.holdings.fill_count());
        let width = |v: &VariableSpec| (v.element, given * v.values(), filled * v.values());
        Window::new(rows_max, first_row, &self.variables.iter().map(width).collect::<Vec<_>>())
    }

    /// Adds what this rank writes of `columns`, whose chunks lie at `offsets`; `set` is the index of this set.
    pub fn segments(&self, set: usize, columns: Range<u64>, offsets: &ChunkOffsets, segments: &mut Vec<Segment>) {
        for column in columns {
            self.column_segments(set, column, offsets, self.writes_scale, segments);
        }
    }

    /// Adds what this rank has of one column, `step` and `time` too where `with_scale` says so.
    pub fn column_segments(
        &self,
        set: usize,
        column: u64,
        offsets: &ChunkOffsets,
        with_scale: bool,
        segments: &mut Vec<Segment>,
    ) {
        for dataset in self.geometry.datasets() {
            match dataset {
                DatasetIndex::Variable(variable) => {
                    let chunks = &offsets[&(column, dataset)];
                    let block = self.geometry.block_bytes[variable];
                    let per_chunk = self.geometry.points_per_chunk[variable];
                    segments.extend(self.shares[variable].iter().map(|share| Segment {
                        offset: chunks[index(share.chunk)],
                        set,
                        dataset,
                        column,
                        points: share.points.clone(),
                        first_position: share.chunk * per_chunk,
                        bytes: share.points.len() * index(block),
                    }));
                }
                DatasetIndex::Step | DatasetIndex::Time if with_scale => segments.push(Segment {
                    offset: offsets[&(column, dataset)][0],
                    set,
                    dataset,
                    column,
                    points: 0..1,
                    first_position: 0,
                    bytes: index(self.geometry.chunk_bytes(dataset)),
                }),
                DatasetIndex::Step | DatasetIndex::Time => {}
            }
        }
    }

    /// The contiguous pieces of what this rank writes of a dataset in one column, whose chunks lie at `chunks`: offset in the file,
    /// and the ordinals of the blocks (0..1 for `step` and `time`).
    pub fn pieces_at(&self, dataset: DatasetIndex, chunks: &[u64]) -> Vec<(u64, Range<usize>)> {
        let DatasetIndex::Variable(variable) = dataset else {
            return if self.writes_scale { vec![(chunks[0], 0..1)] } else { Vec::new() };
        };
        let block = self.geometry.block_bytes[variable];
        let per_chunk = self.geometry.points_per_chunk[variable];
        let mut pieces = Vec::new();
        for share in &self.shares[variable] {
            let mut ordinal = share.points.start;
            for neighbours in self.holdings.stretches(share.points.clone()) {
                let end = ordinal + index(neighbours.length);
                let within = neighbours.first - share.chunk * per_chunk;
                pieces.push((chunks[index(share.chunk)] + within * block, ordinal..end));
                ordinal = end;
            }
        }
        pieces
    }

    /// Adds the bytes of the file that a segment covers, in the order of its payload.
    pub fn extents(&self, segment: &Segment, extents: &mut Extents) {
        let DatasetIndex::Variable(variable) = segment.dataset else {
            extents.push(segment.offset, segment.bytes as u64);
            return;
        };
        let block = self.geometry.block_bytes[variable];
        for neighbours in self.holdings.stretches(segment.points.clone()) {
            extents
                .push(segment.offset + (neighbours.first - segment.first_position) * block, neighbours.length * block);
        }
    }

    /// Cuts a segment into pieces that are contiguous in the file, of at most `bytes_max` bytes but at least one block each.
    pub fn cut<'a>(&'a self, segment: &'a Segment, bytes_max: usize) -> impl Iterator<Item = Segment> + 'a {
        let block = match segment.dataset {
            DatasetIndex::Variable(variable) => self.geometry.block_bytes[variable],
            DatasetIndex::Step | DatasetIndex::Time => segment.bytes as u64,
        };
        // A scale has one block, and no position.
        let is_scale = !matches!(segment.dataset, DatasetIndex::Variable(_));
        let scale = is_scale.then(|| Stretch::one(segment.first_position));
        let points = if is_scale { 0..0 } else { segment.points.clone() };
        let count_max = (bytes_max / index(block).max(1)).max(1) as u64;
        let mut ordinal = segment.points.start;
        scale.into_iter().chain(self.holdings.stretches(points)).flat_map(move |whole| whole.chunks(count_max)).map(
            move |part| {
                let points = ordinal..ordinal + index(part.length);
                ordinal = points.end;
                Segment {
                    offset: segment.offset + (part.first - segment.first_position) * block,
                    points,
                    first_position: part.first,
                    bytes: index(part.length * block),
                    ..*segment
                }
            },
        )
    }

    /// Bytes of the largest block: the least that can be put together at once.
    pub fn block_bytes_max(&self) -> usize {
        let scale = self.geometry.chunk_bytes(DatasetIndex::Step);
        index(self.geometry.block_bytes.iter().copied().fold(scale, u64::max))
    }

    /// Puts the segment's payload together from the window's rows: whole blocks, the rows not yet sampled as zeros. Returns the
    /// checksum of its rows.
    pub fn fill(&self, segment: &Segment, window: &Window, payload: &mut [u8]) -> u64 {
        let column_start = segment.column * self.geometry.chunk_steps;
        let first = index(column_start - window.first_row());
        let rows = index(self.geometry.chunk_steps).min(window.rows() - first);
        let mut sum = 0_u64;
        let hasher = ColumnHasher::new(segment.set, segment.dataset, segment.column);
        let DatasetIndex::Variable(variable) = segment.dataset else {
            let (values, padding) = payload.split_at_mut(rows * 8);
            match segment.dataset {
                DatasetIndex::Step => copy_words(values, window.steps()[first..].iter().copied()),
                _ => copy_words(values, window.times()[first..].iter().map(|time| time.to_bits())),
            }
            padding.fill(0);
            return hasher.run(0, 0, values);
        };
        let values = self.variables[variable].values();
        let shape = Shape {
            columns: window.columns(variable),
            rows,
            block_rows: index(self.geometry.chunk_steps),
            element_bytes: self.variables[variable].element.bytes(),
            values,
        };
        let places = self.holdings.places(segment.points.clone());
        let mut positions = self.holdings.positions(segment.points.clone());
        let mut position = 0;
        transpose(shape, window.values(variable, first, rows), places, payload, |block, bytes| {
            let component = u32::try_from(block % values).expect("components are counted in u32");
            if component == 0 {
                position = positions.next().expect("a position for every point");
            }
            sum = sum.wrapping_add(hasher.run(component, position, bytes));
        });
        sum
    }

    /// The way back from [`Layout::fill`]: a segment of a variable read from the file becomes values of the window's rows.
    pub fn restore(&self, segment: &Segment, payload: &[u8], window: &mut Window) {
        let DatasetIndex::Variable(variable) = segment.dataset else { return };
        let first = index(segment.column * self.geometry.chunk_steps - window.first_row());
        let values = self.variables[variable].values();
        let element_bytes = self.variables[variable].element.bytes();
        let run_bytes = index(self.geometry.chunk_steps) * element_bytes;
        let places = self.holdings.places(segment.points.clone());
        for row in first..window.rows() {
            let target = window.values_mut(variable, row);
            let runs = payload.chunks_exact(run_bytes).enumerate();
            for (block, run) in runs {
                let column = places.get(block / values) * values + block % values;
                target[column * element_bytes..][..element_bytes]
                    .copy_from_slice(&run[(row - first) * element_bytes..][..element_bytes]);
            }
        }
    }

    /// Mean length in bytes of the contiguous pieces this rank writes, and their number in a column.
    pub fn pieces(&self) -> (u64, u64) {
        let (mut bytes, mut pieces) = (0, 0);
        for (variable, shares) in self.shares.iter().enumerate() {
            for share in shares {
                bytes += share.points.len() as u64 * self.geometry.block_bytes[variable];
                pieces += self.holdings.stretches(share.points.clone()).count() as u64;
            }
        }
        (bytes, pieces)
    }
}

/// Little-endian words into their bytes.
fn copy_words(bytes: &mut [u8], words: impl Iterator<Item = u64>) {
    for (slot, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *slot = word.to_le_bytes();
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("what fits in memory fits in usize")
}
