//! One set as one rank holds it: its window, which of its points it writes, and where their blocks lie in the file.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use afflux_container::checksum::ColumnHasher;
use afflux_container::{DatasetIndex, SetGeometry, VariableSpec};
use afflux_plan::Extents;

use crate::registry::NOT_OWNED;
use crate::transpose::{Shape, transpose};
use crate::window::Window;
use crate::{ProbeSet, Step};

/// The points of one chunk that this rank writes, as a range of [`LocalSet::positions`].
#[derive(Debug, Clone)]
struct ChunkShare {
    chunk: u64,
    points: Range<usize>,
}

/// One chunk (or the part of it that this rank writes) of one flush.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    /// Offset of the chunk in the file.
    pub offset: u64,
    set: usize,
    dataset: DatasetIndex,
    column: u64,
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
}

/// One set on one rank.
#[derive(Debug)]
pub(crate) struct LocalSet {
    pub name: String,
    pub variables: Vec<VariableSpec>,
    pub cadence_steps: u64,
    pub geometry: SetGeometry,
    pub window: Window,
    /// Ranges of registered points, indexed by patch; one over all where points came in one call or none.
    pub patches: Vec<Range<usize>>,
    /// The next step at which a row is due; `None` before the first row.
    pub next_due: Option<Step>,
    /// Patches of the row begun that have not come yet, indexed by patch; all false between rows.
    pub missing: Vec<bool>,
    /// Patches that are missing in the row begun.
    pub missing_count: usize,
    /// Points the caller gives values for.
    pub registered: usize,
    /// Ascending positions in the file of the points this rank writes.
    positions: Vec<u64>,
    /// For each variable, the value columns of the window in file order: points by position, components within.
    orders: Vec<Rc<[u32]>>,
    /// For each variable, the chunks of a column that this rank has a share in.
    shares: Vec<Vec<ChunkShare>>,
    /// Whether this rank writes the set's `step` and `time`.
    writes_scale: bool,
    /// Offsets of the chunks of columns that may still be written, by column and dataset.
    chunk_offsets: BTreeMap<(u64, DatasetIndex), Vec<u64>>,
    /// Columns allocated in the file.
    pub columns: u64,
}

/// What registration decided for this rank.
#[derive(Debug)]
pub(crate) struct Placement {
    /// Points of the set in all.
    pub total: u64,
    /// Position of each registered point, or [`NOT_OWNED`].
    pub positions: Vec<u64>,
    /// Positions of points that this rank fills because nobody registered them.
    pub fills: Vec<u64>,
    /// Whether this rank writes `step` and `time`.
    pub writes_scale: bool,
}

impl LocalSet {
    /// Room for the window is taken here; where there is none, the system's reason.
    pub fn new(
        set: &ProbeSet,
        placement: &Placement,
        chunk_steps: u64,
        chunk_bytes: u64,
        window_steps: u64,
    ) -> io::Result<Self> {
        let variables: Vec<VariableSpec> = set.variables.iter().map(|variable| variable.spec.clone()).collect();
        let geometry = SetGeometry::of(placement.total, &variables, chunk_steps, chunk_bytes);
        let registered = placement.positions.len();
        let mut owned: Vec<(u64, u32)> = placement
            .positions
            .iter()
            .chain(&placement.fills)
            .zip(0_u32..)
            .filter(|&(&position, _)| position != NOT_OWNED)
            .map(|(&position, local)| (position, local))
            .collect();
        owned.sort_unstable();
        let positions: Vec<u64> = owned.iter().map(|&(position, _)| position).collect();
        let mut by_components: BTreeMap<usize, Rc<[u32]>> = BTreeMap::new();
        let orders = variables
            .iter()
            .map(|variable| {
                let values = variable.values();
                by_components.entry(values).or_insert_with(|| value_columns(&owned, values)).clone()
            })
            .collect();
        let shares = geometry.points_per_chunk.iter().map(|&count| chunk_shares(&positions, count)).collect();
        // The unfinished column, less the row that would finish it, and a window behind it.
        let rows_max = (chunk_steps - 1).saturating_add(window_steps.div_ceil(set.cadence_steps));
        let widths: Vec<_> = variables
            .iter()
            .map(|v| (v.element, registered * v.values(), placement.fills.len() * v.values()))
            .collect();
        let mut patches = Vec::new();
        for patch in &set.patches {
            let start = patches.last().map_or(0, |last: &Range<usize>| last.end);
            patches.push(start..start + patch.len());
        }
        if patches.is_empty() {
            patches.push(0..0);
        }
        Ok(Self {
            name: set.name.clone(),
            variables,
            cadence_steps: set.cadence_steps,
            geometry,
            window: Window::new(rows_max, 0, &widths)?,
            missing: vec![false; patches.len()],
            missing_count: 0,
            patches,
            next_due: None,
            registered,
            positions,
            orders,
            shares,
            writes_scale: placement.writes_scale,
            chunk_offsets: BTreeMap::new(),
            columns: 0,
        })
    }

    /// Columns of chunks that `rows` rows need.
    pub fn columns_for(&self, rows: u64) -> u64 {
        rows.div_ceil(self.geometry.chunk_steps)
    }

    /// The columns that a flush up to `row_end` writes: the one unfinished before and those after it.
    pub fn columns_to_write(&self, row_end: u64) -> Range<u64> {
        self.window.first_row() / self.geometry.chunk_steps..self.columns_for(row_end)
    }

    /// Notes where the chunks of a new column lie.
    pub fn add_column(&mut self, column: u64, dataset: DatasetIndex, chunk_offsets: Vec<u64>) {
        self.columns = self.columns.max(column + 1);
        self.chunk_offsets.insert((column, dataset), chunk_offsets);
    }

    /// Forgets rows and addresses of columns that are finished and in the file.
    pub fn keep_unfinished(&mut self) {
        self.window.keep_unfinished(usize::try_from(self.geometry.chunk_steps).expect("checked when opened"));
        let column = self.window.first_row() / self.geometry.chunk_steps;
        self.chunk_offsets = self.chunk_offsets.split_off(&(column, DatasetIndex::Variable(0)));
    }

    /// Adds what this rank writes of the columns that hold rows of the window.
    pub fn segments(&self, set: usize, segments: &mut Vec<Segment>) {
        for column in self.columns_to_write(self.window.row_end()) {
            for dataset in self.geometry.datasets() {
                match dataset {
                    DatasetIndex::Variable(variable) => {
                        let offsets = &self.chunk_offsets[&(column, dataset)];
                        let block = self.geometry.block_bytes[variable];
                        let per_chunk = self.geometry.points_per_chunk[variable];
                        segments.extend(self.shares[variable].iter().map(|share| Segment {
                            offset: offsets[index(share.chunk)],
                            set,
                            dataset,
                            column,
                            points: share.points.clone(),
                            first_position: share.chunk * per_chunk,
                            bytes: share.points.len() * index(block),
                        }));
                    }
                    DatasetIndex::Step | DatasetIndex::Time if self.writes_scale => segments.push(Segment {
                        offset: self.chunk_offsets[&(column, dataset)][0],
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
    }

    /// Adds the bytes of the file that a segment covers, in the order of its payload.
    pub fn extents(&self, segment: &Segment, extents: &mut Extents) {
        let DatasetIndex::Variable(variable) = segment.dataset else {
            extents.push(segment.offset, segment.bytes as u64);
            return;
        };
        let block = self.geometry.block_bytes[variable];
        let positions = &self.positions[segment.points.clone()];
        for neighbours in positions.chunk_by(|left, right| left + 1 == *right) {
            let offset = segment.offset + (neighbours[0] - segment.first_position) * block;
            extents.push(offset, neighbours.len() as u64 * block);
        }
    }

    /// Puts the segment's payload together: whole blocks, the rows not yet sampled as zeros. Returns the checksum of its rows.
    pub fn fill(&self, segment: &Segment, payload: &mut [u8]) -> u64 {
        let column_start = segment.column * self.geometry.chunk_steps;
        let first = index(column_start - self.window.first_row());
        let rows = index(self.geometry.chunk_steps).min(self.window.rows() - first);
        let mut sum = 0_u64;
        let hasher = ColumnHasher::new(segment.set, segment.dataset, segment.column);
        let DatasetIndex::Variable(variable) = segment.dataset else {
            let (values, padding) = payload.split_at_mut(rows * 8);
            match segment.dataset {
                DatasetIndex::Step => copy_words(values, self.window.steps()[first..].iter().copied()),
                _ => copy_words(values, self.window.times()[first..].iter().map(|time| time.to_bits())),
            }
            padding.fill(0);
            return hasher.run(0, 0, values);
        };
        let values = self.variables[variable].values();
        let shape = Shape {
            columns: self.window.columns(variable),
            rows,
            block_rows: index(self.geometry.chunk_steps),
            element_bytes: self.variables[variable].element.bytes(),
        };
        let order = &self.orders[variable][segment.points.start * values..segment.points.end * values];
        let positions = &self.positions[segment.points.clone()];
        transpose(shape, self.window.values(variable, first, rows), order, payload, |column, block| {
            let component = u32::try_from(column % values).expect("components are counted in u32");
            sum = sum.wrapping_add(hasher.run(component, positions[column / values], block));
        });
        sum
    }

    /// Mean length in bytes of the contiguous pieces this rank writes, and their number in a column.
    pub fn pieces(&self) -> (u64, u64) {
        let (mut bytes, mut pieces) = (0, 0);
        for (variable, shares) in self.shares.iter().enumerate() {
            for share in shares {
                let positions = &self.positions[share.points.clone()];
                bytes += positions.len() as u64 * self.geometry.block_bytes[variable];
                pieces += positions.chunk_by(|left, right| left + 1 == *right).count() as u64;
            }
        }
        (bytes, pieces)
    }

    /// Memory of the window, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.window.bytes() + (self.positions.len() * size_of::<u64>()) as u64
    }
}

/// Little-endian words into their bytes.
fn copy_words(bytes: &mut [u8], words: impl Iterator<Item = u64>) {
    for (slot, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *slot = word.to_le_bytes();
    }
}

fn value_columns(owned: &[(u64, u32)], values: usize) -> Rc<[u32]> {
    let values = u32::try_from(values).expect("components are counted in u32");
    owned.iter().flat_map(|&(_, local)| local * values..(local + 1) * values).collect()
}

fn chunk_shares(positions: &[u64], points_per_chunk: u64) -> Vec<ChunkShare> {
    let mut start = 0;
    positions
        .chunk_by(|left, right| left / points_per_chunk == right / points_per_chunk)
        .map(|share| {
            let points = start..start + share.len();
            start = points.end;
            ChunkShare { chunk: share[0] / points_per_chunk, points }
        })
        .collect()
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("what fits in memory fits in usize")
}
