//! One set as one rank holds it: its window, which of its points it writes, and where their blocks lie in the file.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use afflux_container::checksum::ColumnHasher;
use afflux_container::{DatasetIndex, SetGeometry, VariableSpec};
use afflux_plan::Extents;

use crate::directory::Directory;
use crate::holdings::{ChunkShare, Holdings, Placement};
use crate::transpose::{Shape, transpose};
use crate::window::Window;
use crate::{Duplicates, ProbeSet, Step};

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
    /// The next step at which a row is due; `None` before the first row.
    pub next_due: Option<Step>,
    /// Patches of the row begun that have not come yet, indexed by patch; all false between rows.
    pub missing: Vec<bool>,
    /// Patches that are missing in the row begun.
    pub missing_count: usize,
    /// The points this rank gives values for, and those it writes.
    pub holdings: Holdings,
    /// What happens to points that several ranks want.
    pub duplicates: Duplicates,
    /// How ids and positions are shared out over the ranks, and this rank's part of them.
    pub directory: Rc<Directory>,
    /// For each variable, the chunks of a column that this rank has a share in.
    shares: Vec<Vec<ChunkShare>>,
    /// Whether this rank writes the set's `step` and `time`.
    writes_scale: bool,
    /// Offsets of the chunks of columns that may still be written, by column and dataset.
    chunk_offsets: BTreeMap<(u64, DatasetIndex), Vec<u64>>,
    /// Columns allocated in the file.
    pub columns: u64,
    /// Rows that a window holds at most, those of an unfinished column included.
    rows_max: u64,
}

/// Lengths that rule a set's window and chunks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths {
    pub chunk_steps: u64,
    pub chunk_bytes: u64,
    pub window_steps: u64,
}

impl LocalSet {
    /// A set of `points` points. Room for the window is taken here; where there is none, the system's reason.
    pub fn new(
        set: &ProbeSet,
        points: u64,
        placement: Placement,
        directory: Rc<Directory>,
        writes_scale: bool,
        lengths: Lengths,
    ) -> io::Result<Self> {
        let variables: Vec<VariableSpec> = set.variables.iter().map(|variable| variable.spec.clone()).collect();
        let geometry = SetGeometry::of(points, &variables, lengths.chunk_steps, lengths.chunk_bytes);
        let holdings = Holdings::of(placement);
        // The unfinished column, less the row that would finish it, and a window behind it.
        let rows_max = (lengths.chunk_steps - 1).saturating_add(lengths.window_steps.div_ceil(set.cadence_steps));
        Ok(Self {
            name: set.name.clone(),
            cadence_steps: set.cadence_steps,
            window: window_of(&variables, &holdings, rows_max, 0)?,
            shares: shares_of(&geometry, &holdings),
            variables,
            geometry,
            next_due: None,
            missing: vec![false; holdings.roster.patches.len()],
            missing_count: 0,
            holdings,
            duplicates: set.duplicates,
            directory,
            writes_scale,
            chunk_offsets: BTreeMap::new(),
            columns: 0,
            rows_max,
        })
    }

    /// The same set where this rank has other points: as many rows in the window, of the same steps, their values to be filled in.
    pub fn with_placement(&self, placement: Placement) -> io::Result<Self> {
        let holdings = Holdings::of(placement);
        let mut window = window_of(&self.variables, &holdings, self.rows_max, self.window.first_row())?;
        for (&step, &time) in self.window.steps().iter().zip(self.window.times()) {
            window.begin_row(step, time);
        }
        Ok(Self {
            name: self.name.clone(),
            variables: self.variables.clone(),
            cadence_steps: self.cadence_steps,
            geometry: self.geometry.clone(),
            window,
            next_due: self.next_due,
            missing: vec![false; holdings.roster.patches.len()],
            missing_count: 0,
            shares: shares_of(&self.geometry, &holdings),
            holdings,
            duplicates: self.duplicates,
            directory: Rc::clone(&self.directory),
            writes_scale: self.writes_scale,
            chunk_offsets: self.chunk_offsets.clone(),
            columns: self.columns,
            rows_max: self.rows_max,
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
        for neighbours in self.holdings.stretches(segment.points.clone()) {
            extents
                .push(segment.offset + (neighbours.first - segment.first_position) * block, neighbours.length * block);
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
            values,
        };
        let places = self.holdings.places(segment.points.clone());
        let mut positions = self.holdings.positions(segment.points.clone());
        let mut position = 0;
        transpose(shape, self.window.values(variable, first, rows), places, payload, |block, bytes| {
            let component = u32::try_from(block % values).expect("components are counted in u32");
            if component == 0 {
                position = positions.next().expect("a position for every point");
            }
            sum = sum.wrapping_add(hasher.run(component, position, bytes));
        });
        sum
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

    /// Memory of the window and of what is kept of the points, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let Directory { shape, block } = &*self.directory;
        self.window.bytes() + self.holdings.bytes() + shape.bytes() + block.bytes()
    }
}

/// The window of a set with these points.
fn window_of(variables: &[VariableSpec], holdings: &Holdings, rows_max: u64, first_row: u64) -> io::Result<Window> {
    let (given, filled) = (holdings.roster.len(), holdings.fill_count());
    let widths: Vec<_> = variables.iter().map(|v| (v.element, given * v.values(), filled * v.values())).collect();
    Window::new(rows_max, first_row, &widths)
}

/// For each variable, the chunks of a column that these points lie in.
fn shares_of(geometry: &SetGeometry, holdings: &Holdings) -> Vec<Vec<ChunkShare>> {
    geometry.points_per_chunk.iter().map(|&count| holdings.chunk_shares(count)).collect()
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
