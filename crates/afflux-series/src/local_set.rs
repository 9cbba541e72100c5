//! One set as one rank holds it: its window, which of its points it writes, and where their blocks lie in the file.

use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use afflux_container::{DatasetIndex, SetGeometry, VariableSpec};

use crate::directory::Directory;
use crate::holdings::{Holdings, Placement};
use crate::job::Part;
use crate::layout::{ChunkOffsets, Layout, Segment};
use crate::replay::ChunkMap;
use crate::window::Window;
use crate::{Duplicates, ProbeSet, Step};

/// The first of a column's datasets in the order of [`ChunkOffsets`].
const FIRST_DATASET: DatasetIndex = DatasetIndex::Variable(0);

/// One set on one rank.
#[derive(Debug)]
pub(crate) struct LocalSet {
    pub name: String,
    pub cadence_steps: u64,
    /// What this rank writes, and where in the chunks.
    pub layout: Arc<Layout>,
    /// The rows that are being appended.
    pub window: Window,
    /// A window of the same shape that is free, where flushes go on in the background.
    spare: Option<Window>,
    /// The rows of a flush that has begun, once others are appended.
    leaving: Option<Window>,
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
    /// Rows that the last flush left in the file; `None` where it must write the unfinished column again.
    rows_written: Option<u64>,
    /// Rows that a window holds at most, those of an unfinished column included.
    rows_max: u64,
}

/// Lengths that rule a set's window and chunks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths {
    pub chunk_steps: u64,
    pub window_steps: u64,
    /// Whether there is a second window, so that rows are appended while others are on their way to the file.
    pub two_windows: bool,
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
            spare: lengths.two_windows.then(|| layout.window(rows_max, 0)).transpose()?,
            leaving: None,
            next_due: None,
            missing: vec![false; layout.holdings.roster.patches.len()],
            missing_count: 0,
            layout: Arc::new(layout),
            duplicates: set.duplicates,
            directory,
            chunk_offsets: ChunkOffsets::new(),
            columns: 0,
            rows_resumed,
            rows_written: None,
            rows_max,
        })
    }

    /// The same set where this rank has other points: as many rows in the window, of the same steps, their values to be filled in.
    /// No flush is under way.
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
            spare: self.spare.as_ref().map(|_| layout.window(self.rows_max, 0)).transpose()?,
            leaving: None,
            next_due: self.next_due,
            missing: vec![false; layout.holdings.roster.patches.len()],
            missing_count: 0,
            layout: Arc::new(layout),
            duplicates: self.duplicates,
            directory: Rc::clone(&self.directory),
            chunk_offsets: self.chunk_offsets.clone(),
            columns: self.columns,
            rows_resumed: self.rows_resumed,
            rows_written: self.rows_written,
            rows_max: self.rows_max,
        })
    }

    /// Columns of chunks that `rows` rows need.
    pub fn columns_for(&self, rows: u64) -> u64 {
        rows.div_ceil(self.layout.geometry.chunk_steps)
    }

    /// The rows that a flush is to bring to the file.
    fn flushing(&self) -> &Window {
        self.leaving.as_ref().unwrap_or(&self.window)
    }

    /// The columns that a flush up to `row_end` writes: the one unfinished before and those after it; none where there is no row
    /// that the file does not have.
    pub fn columns_to_write(&self, row_end: u64) -> Range<u64> {
        let end = self.columns_for(row_end);
        if self.rows_written == Some(row_end) {
            return end..end;
        }
        self.flushing().first_row() / self.layout.geometry.chunk_steps..end
    }

    /// Bytes of rows in the flush.
    pub fn flushing_bytes(&self) -> u64 {
        self.flushing().row_bytes() * self.flushing().rows() as u64
    }

    /// The next flush writes the unfinished column even if it has no more rows: they may have changed.
    pub fn write_again(&mut self) {
        self.rows_written = None;
    }

    /// New columns that a flush can need at most: those of a whole window.
    pub fn new_columns_max(&self) -> u64 {
        (self.rows_max - (self.layout.geometry.chunk_steps - 1)).div_ceil(self.layout.geometry.chunk_steps)
    }

    /// Chunk addresses of one column, over all datasets.
    pub fn chunks_per_column(&self) -> u64 {
        let geometry = &self.layout.geometry;
        geometry.datasets().map(|dataset| geometry.chunks_per_column(dataset)).sum()
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

    /// Puts the rows of a flush that has begun aside: from now on rows go into the second window.
    pub fn set_aside(&mut self) {
        let mut next = self.spare.take().expect("a second window, free between flushes");
        next.follow(&self.window, self.chunk_steps());
        self.leaving = Some(std::mem::replace(&mut self.window, next));
    }

    /// Adds what this rank writes of the columns that hold rows of the flush up to `row_end`, and hands its rows out.
    pub fn give(&mut self, set: usize, row_end: u64, segments: &mut Vec<Segment>) -> Part {
        self.layout.segments(set, self.columns_to_write(row_end), &self.chunk_offsets, segments);
        self.rows_written = Some(row_end);
        self.chunk_offsets = self.chunk_offsets.split_off(&(row_end / self.layout.geometry.chunk_steps, FIRST_DATASET));
        let window = self.leaving.take().unwrap_or_else(|| std::mem::replace(&mut self.window, Window::absent()));
        Part { layout: Arc::clone(&self.layout), window }
    }

    /// Takes the rows of a flush back: those of the unfinished column stay, unless they went into the second window.
    pub fn take_back(&mut self, mut window: Window, was_set_aside: bool) {
        if was_set_aside {
            self.spare = Some(window);
        } else {
            window.keep_unfinished(self.chunk_steps());
            self.window = window;
        }
    }

    fn chunk_steps(&self) -> usize {
        usize::try_from(self.layout.geometry.chunk_steps).expect("checked when opened")
    }

    /// Memory of the window and of what is kept of the points, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let Directory { shape, block } = &*self.directory;
        let windows = [Some(&self.window), self.spare.as_ref(), self.leaving.as_ref()];
        windows.into_iter().flatten().map(Window::bytes).sum::<u64>()
            + self.layout.holdings.bytes()
            + shape.bytes()
            + block.bytes()
    }
}
