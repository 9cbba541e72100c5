//! One set as one rank holds it: its window, which of its points it writes, and where their blocks lie in the file.

use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use afflux_container::{DatasetIndex, SetGeometry, VariableSpec};

use crate::directory::Directory;
use crate::holdings::{Holdings, Placement};
use crate::layout::{ChunkOffsets, Layout, Segment};
use crate::replay::ChunkMap;
use crate::window::Window;
use crate::{Duplicates, ProbeSet, Step};

/// One set on one rank.
#[derive(Debug)]
pub(crate) struct LocalSet {
    pub name: String,
    pub cadence_steps: u64,
    /// What this rank writes, and where in the chunks.
    pub layout: Arc<Layout>,
    /// The rows that are being appended.
    pub window: Window,
    /// The next step at which a row is due; `None` before the first row.
    pub next_due: Option<Step>,
    /// Patches of the row begun that have not come yet, indexed by patch; all false between rows.
    pub missing: Vec<bool>,
    /// Patches that are missing in the row begun.
    pub missing_count: usize,
    /// What happens to points that several ranks want.
    pub duplicates: Duplicates,
    /// How ids and positions are shared out over the ranks, and this rank's part of them.
    pub directory: Rc<Directory>,
    /// Where the chunks of columns lie that may still be written.
    chunk_offsets: ChunkOffsets,
    /// Columns allocated in the file.
    pub columns: u64,
    /// Rows that were in the file when it was resumed.
    pub rows_resumed: u64,
    /// Rows that a window holds at most, those of an unfinished column included.
    rows_max: u64,
}

/// Lengths that rule a set's window and chunks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths {
    pub chunk_steps: u64,
    pub window_steps: u64,
}

impl LocalSet {
    /// A set of which `rows_resumed` rows are in the file. Room for the window is taken here; where there is none, the system's
    /// reason.
    pub fn new(
        set: &ProbeSet,
        geometry: SetGeometry,
        placement: Placement,
        directory: Rc<Directory>,
        writes_scale: bool,
        rows_resumed: u64,
        lengths: Lengths,
    ) -> io::Result<Self> {
        let variables: Vec<VariableSpec> = set.variables.iter().map(|variable| variable.spec.clone()).collect();
        let layout = Layout::new(variables, geometry, Holdings::of(placement), writes_scale);
        // The unfinished column, less the row that would finish it, and a window behind it.
        let rows_max = (lengths.chunk_steps - 1).saturating_add(lengths.window_steps.div_ceil(set.cadence_steps));
        Ok(Self {
            name: set.name.clone(),
            cadence_steps: set.cadence_steps,
            window: layout.window(rows_max, rows_resumed / lengths.chunk_steps * lengths.chunk_steps)?,
            next_due: None,
            missing: vec![false; layout.holdings.roster.patches.len()],
            missing_count: 0,
            layout: Arc::new(layout),
            duplicates: set.duplicates,
            directory,
            chunk_offsets: ChunkOffsets::new(),
            columns: 0,
            rows_resumed,
            rows_max,
        })
    }

    /// The same set where this rank has other points: as many rows in the window, of the same steps, their values to be filled in.
    pub fn with_placement(&self, placement: Placement) -> io::Result<Self> {
        let layout = self.layout.with_holdings(Holdings::of(placement));
        let mut window = layout.window(self.rows_max, self.window.first_row())?;
        for (&step, &time) in self.window.steps().iter().zip(self.window.times()) {
            window.begin_row(step, time);
        }
        Ok(Self {
            name: self.name.clone(),
            cadence_steps: self.cadence_steps,
            window,
            next_due: self.next_due,
            missing: vec![false; layout.holdings.roster.patches.len()],
            missing_count: 0,
            layout: Arc::new(layout),
            duplicates: self.duplicates,
            directory: Rc::clone(&self.directory),
            chunk_offsets: self.chunk_offsets.clone(),
            columns: self.columns,
            rows_resumed: self.rows_resumed,
            rows_max: self.rows_max,
        })
    }

    /// Columns of chunks that `rows` rows need.
    pub fn columns_for(&self, rows: u64) -> u64 {
        rows.div_ceil(self.layout.geometry.chunk_steps)
    }

    /// The columns that a flush up to `row_end` writes: the one unfinished before and those after it.
    pub fn columns_to_write(&self, row_end: u64) -> Range<u64> {
        self.window.first_row() / self.layout.geometry.chunk_steps..self.columns_for(row_end)
    }

    /// Notes where the chunks of a new column lie.
    pub fn add_column(&mut self, column: u64, dataset: DatasetIndex, chunk_offsets: Vec<u64>) {
        self.columns = self.columns.max(column + 1);
        self.chunk_offsets.insert((column, dataset), chunk_offsets);
    }

    /// Notes the columns that a resumed file has, and where the unfinished one lies.
    pub fn resume_columns(&mut self, map: &ChunkMap) {
        self.columns = self.columns_for(self.rows_resumed);
        if let Some(column) = self.unfinished_column() {
            for dataset in self.layout.geometry.datasets() {
                self.chunk_offsets.insert((column, dataset), map.dataset(column, dataset).to_vec());
            }
        }
    }

    /// The column that a resumed file has but not in full.
    fn unfinished_column(&self) -> Option<u64> {
        let chunk_steps = self.layout.geometry.chunk_steps;
        (!self.rows_resumed.is_multiple_of(chunk_steps)).then_some(self.rows_resumed / chunk_steps)
    }

    /// Adds what is to be read back of a resumed file: this rank's part of the unfinished column, with its steps and times.
    pub fn unfinished_segments(&self, set: usize, segments: &mut Vec<Segment>) {
        if let Some(column) = self.unfinished_column() {
            self.layout.column_segments(set, column, &self.chunk_offsets, true, segments);
        }
    }

    /// Forgets rows and addresses of columns that are finished and in the file.
    pub fn keep_unfinished(&mut self) {
        self.window.keep_unfinished(usize::try_from(self.layout.geometry.chunk_steps).expect("checked when opened"));
        let column = self.window.first_row() / self.layout.geometry.chunk_steps;
        self.chunk_offsets = self.chunk_offsets.split_off(&(column, DatasetIndex::Variable(0)));
    }

    /// Adds what this rank writes of the columns that hold rows of the window.
    pub fn segments(&self, set: usize, segments: &mut Vec<Segment>) {
        self.layout.segments(set, self.columns_to_write(self.window.row_end()), &self.chunk_offsets, segments);
    }

    /// Memory of the window and of what is kept of the points, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let Directory { shape, block } = &*self.directory;
        self.window.bytes() + self.layout.holdings.bytes() + shape.bytes() + block.bytes()
    }
}
