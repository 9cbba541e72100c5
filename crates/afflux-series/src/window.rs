//! The window of one set on one rank: rows in memory, step-major, from the start of the unfinished column of chunks on.
//!
//! For each variable one stretch of the buffer, `rows_max` rows of `columns` values each (`columns` = local points x components, in registration
//! order, behind them the points that nobody owns and this rank fills). Row 0 of the buffer is always the first row of a
//! column of chunks, so a flush writes whole blocks and never reads back. Sized once; appending allocates nothing.

use std::io;

use afflux_container::ElementType;

use crate::buffer::Buffer;
use crate::{Step, Values};

/// Where the rows of one variable lie.
#[derive(Debug)]
struct VariableRows {
    element: ElementType,
    /// Values in a row.
    columns: usize,
    /// How many of them, at the end, are filled by us.
    filled: usize,
    /// Offset of the first row in the buffer, in bytes.
    start: usize,
}

impl VariableRows {
    /// A row's length in bytes.
    fn row_bytes(&self) -> usize {
        self.columns * self.element.bytes()
    }

    /// The bytes of `count` rows from `first` on.
    fn range(&self, first: usize, count: usize) -> std::ops::Range<usize> {
        let start = self.start + first * self.row_bytes();
        start..start + count * self.row_bytes()
    }
}

/// The rows of one set.
#[derive(Debug)]
pub(crate) struct Window {
    variables: Vec<VariableRows>,
    bytes: Buffer,
    /// Simulation step of each row held.
    steps: Vec<Step>,
    /// Simulated time of each row held.
    times: Vec<f64>,
    /// Number, in the file, of the first row held.
    first_row: u64,
    /// Rows the buffer can hold.
    rows_max: usize,
}

impl Window {
    /// Room for `rows_max` rows of variables `(element, values of the caller's in a row, values filled by us)`.
    pub fn new(rows_max: u64, first_row: u64, variables: &[(ElementType, usize, usize)]) -> io::Result<Self> {
        let too_large = io::ErrorKind::OutOfMemory;
        let rows_max = usize::try_from(rows_max).map_err(|_| too_large)?;
        let mut length = 0_usize;
        let rows: Vec<VariableRows> = variables
            .iter()
            .map(|&(element, given, filled)| {
                let variable = VariableRows { element, columns: given + filled, filled, start: length };
                length = rows_max
                    .checked_mul(variable.row_bytes())
                    .and_then(|more| length.checked_add(more))
                    .ok_or(too_large)?;
                Ok(variable)
            })
            .collect::<io::Result<_>>()?;
        let bytes = Buffer::zeroed(length)?;
        let (mut steps, mut times) = (Vec::new(), Vec::new());
        steps.try_reserve_exact(rows_max).map_err(|_| too_large)?;
        times.try_reserve_exact(rows_max).map_err(|_| too_large)?;
        Ok(Self { variables: rows, bytes, steps, times, first_row, rows_max })
    }

    /// A window that holds nothing and takes nothing, in the place of one that is elsewhere. It allocates nothing.
    pub fn absent() -> Self {
        Self {
            variables: Vec::new(),
            bytes: Buffer::Heap(Vec::new()),
            steps: Vec::new(),
            times: Vec::new(),
            first_row: 0,
            rows_max: 0,
        }
    }

    /// Goes on behind `other`, a window of the same shape: takes over the rows of its unfinished column and forgets its own.
    pub fn follow(&mut self, other: &Self, chunk_steps: usize) {
        let finished = other.steps.len() / chunk_steps * chunk_steps;
        let unfinished = other.steps.len() - finished;
        for (rows, theirs) in self.variables.iter().zip(&other.variables) {
            self.bytes[rows.range(0, unfinished)].copy_from_slice(&other.bytes[theirs.range(finished, unfinished)]);
        }
        self.steps.clear();
        self.steps.extend_from_slice(&other.steps[finished..]);
        self.times.clear();
        self.times.extend_from_slice(&other.times[finished..]);
        self.first_row = other.first_row + finished as u64;
    }

    /// Begins the row of `step`; the points that nobody owns get their fill values.
    pub fn begin_row(&mut self, step: Step, time: f64) {
        let row = self.steps.len();
        assert!(row < self.rows_max, "a flush is due before the window is full");
        for variable in self.variables.iter().filter(|variable| variable.filled > 0) {
            let element_bytes = variable.element.bytes();
            let fill = variable.element.fill_value_bytes();
            let range = variable.range(row, 1);
            for value in
                self.bytes[range.end - variable.filled * element_bytes..range.end].chunks_exact_mut(element_bytes)
            {
                value.copy_from_slice(&fill[..element_bytes]);
            }
        }
        self.steps.push(step);
        self.times.push(time);
    }

    /// The row numbered `row` is given again: its step and time.
    pub fn put_again(&mut self, row: usize, step: Step, time: f64) {
        (self.steps[row], self.times[row]) = (step, time);
    }

    /// Copies one variable's values into the last row, `first_column` values from its start.
    pub fn put(&mut self, variable: usize, first_column: usize, values: Values<'_>) {
        let rows = &self.variables[variable];
        let start = rows.range(self.steps.len() - 1, 1).start + first_column * rows.element.bytes();
        let bytes = values.bytes();
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Values in a row of a variable.
    pub fn columns(&self, variable: usize) -> usize {
        self.variables[variable].columns
    }

    /// The rows of a variable from `first` on, step-major.
    pub fn values(&self, variable: usize, first: usize, count: usize) -> &[u8] {
        &self.bytes[self.variables[variable].range(first, count)]
    }

    /// One row of a variable.
    pub fn values_mut(&mut self, variable: usize, row: usize) -> &mut [u8] {
        let range = self.variables[variable].range(row, 1);
        &mut self.bytes[range]
    }

    /// Rows held.
    pub fn rows(&self) -> usize {
        self.steps.len()
    }

    /// Number, in the file, of the first row held.
    pub fn first_row(&self) -> u64 {
        self.first_row
    }

    /// Rows of the set so far, those in the file included.
    pub fn row_end(&self) -> u64 {
        self.first_row + self.steps.len() as u64
    }

    /// Steps of the rows held.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Times of the rows held.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// Forgets the rows of finished columns; those of the unfinished one stay.
    pub fn keep_unfinished(&mut self, chunk_steps: usize) {
        let held = self.steps.len();
        let finished = held / chunk_steps * chunk_steps;
        if finished == 0 {
            return;
        }
        for variable in &self.variables {
            self.bytes.copy_within(variable.range(finished, held - finished), variable.start);
        }
        self.steps.drain(..finished);
        self.times.drain(..finished);
        self.first_row += finished as u64;
    }

    /// Bytes of one row, over all variables.
    pub fn row_bytes(&self) -> u64 {
        self.variables.iter().map(|variable| variable.row_bytes() as u64).sum()
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.bytes.len() + self.rows_max * (size_of::<Step>() + size_of::<f64>())) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_columns_leave_and_the_rest_moves_to_the_front() {
        let mut window = Window::new(7, 0, &[(ElementType::I32, 2, 1)]).unwrap();
        for step in 0..7_i32 {
            window.begin_row(Step::from(step.unsigned_abs()), f64::from(step));
            window.put(0, 0, Values::I32(&[step, 10 * step]));
        }
        window.keep_unfinished(3);
        assert_eq!((window.rows(), window.first_row(), window.row_end()), (1, 6, 7));
        assert_eq!(window.steps(), [6]);
        let row: Vec<i32> = bytemuck::allocation::pod_collect_to_vec(window.values(0, 0, 1));
        assert_eq!(row[..2], [6, 60]);
        let fill = ElementType::I32.fill_value_bytes();
        assert_eq!(row[2].to_le_bytes(), fill[..4], "points without an owner keep their fill value");
    }
}
