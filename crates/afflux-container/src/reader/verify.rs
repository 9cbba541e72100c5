//! Is a file whole? Every sealed byte is read once, in bounded memory, and held against the checksums and the rules of steps.
//!
//! What is checked: both slots of the seal; the checksum of every column with sealed rows; that steps ascend by the cadence
//! without gap, double or step back, and reach the watermark; that times never go back; that every dataset has the sealed
//! rows; that the points can be read and their ids ascend. Rows past the watermark are no one's promise and are not looked
//! at, nor is what a writer seals meanwhile (see `tail`). The coordinates and names of the points have no checksum.

use super::{Block, ReadError, SeriesFile, tail};
use crate::DatasetIndex;
use crate::checksum::{RunPlace, run_checksum};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// Bytes of values read at once; a single point's rows of a column may be more.
const BLOCK_BYTES: u64 = 8 << 20;
/// Order faults of one set that are listed one by one; a shuffled file would else fill the memory with findings.
const ORDER_FINDINGS_MAX: usize = 100;

/// How far a verification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Columns checked so far, over all sets.
    pub columns_done: u64,
    /// Columns to check.
    pub columns: u64,
}

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Verification {
    /// Columns whose checksum was computed and compared, over all sets.
    pub columns_checked: u64,
    /// Unfinished columns that no verdict can be given on, since a writer sealed on while the file was being opened (each of
    /// several attempts): no damage; verify again for a verdict.
    pub columns_unchecked: u64,
    /// Rows whose steps and times were checked, over all sets.
    pub rows_checked: u64,
    /// Bytes of sealed values read.
    pub bytes_checked: u64,
    /// What is wrong; empty for a whole file.
    pub findings: Vec<Finding>,
}

impl Verification {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }

    /// What makes a file unreadable as a whole.
    pub(super) fn unreadable(what: String) -> Self {
        Self { findings: vec![Finding::new(None, None, None, Fault::Unreadable { what })], ..Self::default() }
    }

    /// Adds what was found in another file.
    pub(super) fn add(&mut self, other: Self) {
        self.columns_checked += other.columns_checked;
        self.columns_unchecked += other.columns_unchecked;
        self.rows_checked += other.rows_checked;
        self.bytes_checked += other.bytes_checked;
        self.findings.extend(other.findings);
    }
}

/// Something wrong, and where.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The file, where several were verified as one.
    pub file: Option<PathBuf>,
    /// Name of the set; `None` for what concerns the whole file.
    pub set: Option<String>,
    /// Column of chunks.
    pub column: Option<u64>,
    /// Row of the set.
    pub row: Option<u64>,
    /// What is wrong.
    pub fault: Fault,
}

/// A kind of damage.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// A slot of the seal is not valid; the other one counts.
    SealSlot {
        /// 0 or 1.
        slot: usize,
    },
    /// The column's bytes are not those that were sealed.
    Checksum {
        /// As recorded at the seal.
        recorded: u64,
        /// Of the bytes in the file.
        computed: u64,
    },
    /// No checksum is recorded for the sealed rows of this column.
    ChecksumMissing {
        /// Sealed rows of the column.
        rows_sealed: u64,
        /// Rows that the two slots speak of.
        rows_recorded: [u64; 2],
    },
    /// A dataset ends before the sealed rows do.
    RowsMissing {
        /// Path of the dataset.
        dataset: String,
        /// Sealed rows.
        rows_sealed: u64,
        /// Rows of the dataset.
        rows_found: u64,
    },
    /// Two rows have the same step.
    StepDouble {
        /// The step.
        step: i64,
    },
    /// A row's step is below the one before.
    StepOrder {
        /// Step of the row before.
        before: i64,
        /// Step of the row.
        step: i64,
    },
    /// Rows are missing, or stand where none is due.
    StepGap {
        /// Step of the row before.
        before: i64,
        /// Step of the row.
        step: i64,
        /// Steps from row to row.
        cadence_steps: u64,
    },
    /// A row within the sealed ones has a step past the watermark or below 0.
    StepUnsealed {
        /// The step.
        step: i64,
    },
    /// Rows that were due up to the watermark are missing at the end.
    TailMissing {
        /// Step of the last row.
        step_last: i64,
        /// The watermark.
        watermark: u64,
    },
    /// A row's time is below the one before, or one of the two is no number.
    TimeOrder {
        /// Time of the row before.
        before: f64,
        /// Time of the row.
        time: f64,
    },
    /// More order faults than are listed.
    MoreOrderFaults,
    /// HDF5 could not read something.
    Unreadable {
        /// What, and HDF5's reason.
        what: String,
    },
}

impl Finding {
    fn new(set: Option<String>, column: Option<u64>, row: Option<u64>, fault: Fault) -> Self {
        Self { file: None, set, column, row, fault }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(formatter, "{}: ", file.display())?;
        }
        match self.set.as_deref() {
            None => write!(formatter, "file: ")?,
            Some("") => write!(formatter, "default set")?,
            Some(set) => write!(formatter, "set {set}")?,
        }
        if let Some(column) = self.column {
            write!(formatter, ", column {column}")?;
        }
        if let Some(row) = self.row {
            write!(formatter, ", row {row}")?;
        }
        let separator = if self.set.is_some() { ": " } else { "" };
        write!(formatter, "{separator}{}", self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SealSlot { slot } => write!(formatter, "slot {slot} of the seal is not valid; the other one counts"),
            Self::Checksum { recorded, computed } => {
                write!(formatter, "checksum {computed:016x}, sealed with {recorded:016x}: values are damaged")
            }
            Self::ChecksumMissing { rows_sealed, rows_recorded: [first, second] } => write!(
                formatter,
                "no checksum for its {rows_sealed} sealed rows (the slots speak of {first} and {second})"
            ),
            Self::RowsMissing { dataset, rows_sealed, rows_found } => {
                write!(formatter, "{dataset} has {rows_found} rows, {rows_sealed} are sealed")
            }
            Self::StepDouble { step } => write!(formatter, "step {step} is there twice"),
            Self::StepOrder { before, step } => write!(formatter, "step {step} follows step {before}"),
            Self::StepGap { before, step, cadence_steps } => {
                write!(formatter, "step {step} follows step {before}, a row is due every {cadence_steps}")
            }
            Self::StepUnsealed { step } => write!(formatter, "step {step} among the sealed ones is not sealed"),
            Self::TailMissing { step_last, watermark } => {
                write!(formatter, "rows end at step {step_last}, the file is sealed up to step {watermark}")
            }
            Self::TimeOrder { before, time } => write!(formatter, "time {time:e} follows time {before:e}"),
            Self::MoreOrderFaults => write!(formatter, "more faults in the order of steps and times; not listed"),
            Self::Unreadable { what } => write!(formatter, "{what}"),
        }
    }
}

/// The state of one verification.
pub(super) struct Verifier<'file> {
    file: &'file SeriesFile,
    report: Verification,
    bytes: Vec<u8>,
}

impl<'file> Verifier<'file> {
    pub fn new(file: &'file SeriesFile) -> Self {
        Self { file, report: Verification::default(), bytes: Vec::new() }
    }

    /// Checks all sets; `progress` is called after every column.
    pub fn run(mut self, progress: &mut dyn FnMut(VerifyProgress)) -> Verification {
        if let Some(slot) = self.file.state().broken_slot {
            self.report.findings.push(Finding::new(None, None, None, Fault::SealSlot { slot }));
        }
        let columns = self.file.sets().iter().map(super::SetInfo::columns_sealed).sum();
        let mut columns_done = 0;
        for set in 0..self.file.sets().len() {
            if let Err(error) = self.file.points(set) {
                self.find(set, None, None, Fault::Unreadable { what: error.to_string() });
            }
            self.check_lengths(set);
            let mut order = Order::default();
            for column in 0..self.file.sets()[set].columns_sealed() {
                if let Err(error) = self.check_column(set, column, &mut order) {
                    self.find(set, Some(column), None, Fault::Unreadable { what: error.to_string() });
                }
                columns_done += 1;
                progress(VerifyProgress { columns_done, columns });
            }
            self.check_tail(set);
        }
        self.report
    }

    fn find(&mut self, set: usize, column: Option<u64>, row: Option<u64>, fault: Fault) {
        let set = Some(self.file.sets()[set].name.clone());
        self.report.findings.push(Finding::new(set, column, row, fault));
    }

    /// Every growing dataset must have the sealed rows.
    fn check_lengths(&mut self, set: usize) {
        let rows_sealed = self.file.sets()[set].rows_sealed;
        let open = &self.file.open_sets[set];
        for dataset in open.variables.iter().chain([&open.time]) {
            let rows_found = dataset.shape.last().copied().unwrap_or(0);
            if rows_found < rows_sealed {
                let fault = Fault::RowsMissing { dataset: dataset.label.clone(), rows_sealed, rows_found };
                self.find(set, None, None, fault);
            }
        }
    }

    /// The last row must be the last one due up to the watermark.
    fn check_tail(&mut self, set: usize) {
        let info = &self.file.sets()[set];
        let (Some((_, step_last)), Some(cadence), Some(watermark)) =
            (info.steps_sealed, info.cadence_steps, self.file.state().watermark)
        else {
            return;
        };
        if i128::from(step_last) + i128::from(cadence) <= i128::from(watermark) {
            self.find(set, None, None, Fault::TailMissing { step_last, watermark });
        }
    }

    fn check_column(&mut self, set: usize, column: u64, order: &mut Order) -> Result<(), ReadError> {
        let rows = self.file.sets()[set].column_rows(column);
        let steps = self.file.steps(set, rows.clone())?;
        let times = self.file.times(set, rows.clone())?;
        self.check_order(set, rows.start, &steps, &times, order);
        self.report.rows_checked += rows.end - rows.start;
        let mut sum = self.run_sum(set, DatasetIndex::Step, column, &Block::I64(steps));
        sum = sum.wrapping_add(self.run_sum(set, DatasetIndex::Time, column, &Block::F64(times)));
        for variable in 0..self.file.sets()[set].variables.len() {
            sum = sum.wrapping_add(self.variable_sum(set, variable, column, &rows)?);
        }
        self.compare(set, column, rows.end - rows.start, sum)
    }

    fn compare(&mut self, set: usize, column: u64, rows_sealed: u64, computed: u64) -> Result<(), ReadError> {
        let file = self.file;
        let kept = file.tails.slots(set, &file.sets[set], column);
        let slots = match kept {
            Some(slots) => slots,
            None => tail::column_slots(&file.file, &file.checksums, set, column)?,
        };
        let fault = tail::fault(slots, rows_sealed, computed);
        if fault.is_some() && kept.is_some() && file.tails.overtaken {
            self.report.columns_unchecked += 1;
            return Ok(());
        }
        self.report.columns_checked += 1;
        if let Some(fault) = fault {
            self.find(set, Some(column), None, fault);
        }
        Ok(())
    }

    /// The sum over all runs of a variable in a column, block by block.
    fn variable_sum(&mut self, set: usize, variable: usize, column: u64, rows: &Range<u64>) -> Result<u64, ReadError> {
        let info = &self.file.sets()[set];
        let spec = &info.variables[variable].spec;
        let point_bytes = (spec.row_bytes() as u64).saturating_mul(rows.end - rows.start).max(1);
        let per_chunk = info.variables[variable].points_per_chunk.max(1);
        // Whole chunks where they fit, so that a full column is read in long pieces.
        let chunks = (BLOCK_BYTES / point_bytes.saturating_mul(per_chunk)).saturating_mul(per_chunk);
        let points_at_once = if chunks > 0 { chunks } else { (BLOCK_BYTES / point_bytes).max(1) };
        let components = spec.components;
        let mut sum = 0_u64;
        let mut start = 0;
        while start < info.points {
            let positions = start..start.saturating_add(points_at_once).min(info.points);
            start = positions.end;
            let block = self.file.block(set, variable, positions.clone(), rows.clone())?;
            sum = sum.wrapping_add(self.block_sum((set, variable, column), positions.start, components, &block, rows));
        }
        Ok(sum)
    }

    fn block_sum(
        &mut self,
        (set, variable, column): (usize, usize, u64),
        position_first: u64,
        components: Option<u32>,
        block: &Block,
        rows: &Range<u64>,
    ) -> u64 {
        let run_values = usize::try_from(rows.end - rows.start).expect("the rows are in memory");
        let components = components.unwrap_or(1);
        let (mut position, mut component) = (position_first, 0);
        let mut sum = 0_u64;
        for start in (0..block.len()).step_by(run_values) {
            block.bytes_into(start..start + run_values, &mut self.bytes);
            self.report.bytes_checked += self.bytes.len() as u64;
            let dataset = DatasetIndex::Variable(variable);
            let place = RunPlace { set, dataset, position, component, column };
            sum = sum.wrapping_add(run_checksum(place, &self.bytes));
            component += 1;
            if component == components {
                (position, component) = (position + 1, 0);
            }
        }
        sum
    }

    fn run_sum(&mut self, set: usize, dataset: DatasetIndex, column: u64, run: &Block) -> u64 {
        run.bytes_into(0..run.len(), &mut self.bytes);
        self.report.bytes_checked += self.bytes.len() as u64;
        run_checksum(RunPlace { set, dataset, position: 0, component: 0, column }, &self.bytes)
    }

    /// Checks the rows of a column against each other and the row before.
    fn check_order(&mut self, set: usize, row_first: u64, steps: &[i64], times: &[f64], order: &mut Order) {
        let cadence = self.file.sets()[set].cadence_steps;
        let column = row_first / self.file.sets()[set].chunk_steps;
        for (row, (&step, &time)) in (row_first..).zip(steps.iter().zip(times)) {
            let mut faults = Vec::new();
            if !self.file.state().is_sealed(step) {
                faults.push(Fault::StepUnsealed { step });
            }
            if let Some((before, time_before)) = order.before.replace((step, time)) {
                faults.extend(step_fault(before, step, cadence));
                // Times may repeat. `None` is a time that is no number.
                if matches!(time.partial_cmp(&time_before), None | Some(std::cmp::Ordering::Less)) {
                    faults.push(Fault::TimeOrder { before: time_before, time });
                }
            }
            for fault in faults {
                order.findings += 1;
                if order.findings <= ORDER_FINDINGS_MAX {
                    self.find(set, Some(column), Some(row), fault);
                } else if order.findings == ORDER_FINDINGS_MAX + 1 {
                    self.find(set, Some(column), Some(row), Fault::MoreOrderFaults);
                }
            }
        }
    }
}

/// What the order check carries from column to column of a set.
#[derive(Debug, Default)]
struct Order {
    before: Option<(i64, f64)>,
    findings: usize,
}

fn step_fault(before: i64, step: i64, cadence: Option<u64>) -> Option<Fault> {
    match step.cmp(&before) {
        std::cmp::Ordering::Equal => Some(Fault::StepDouble { step }),
        std::cmp::Ordering::Less => Some(Fault::StepOrder { before, step }),
        std::cmp::Ordering::Greater => {
            let distance = step.abs_diff(before);
            cadence.filter(|&cadence| distance != cadence).map(|cadence_steps| Fault::StepGap {
                before,
                step,
                cadence_steps,
            })
        }
    }
}
