//! The window of one set on one rank: rows in memory, step-major, from the start of the unfinished column of chunks on.
//!
//! One buffer a variable, `rows_max` rows of `columns` values each (`columns` = local points x components, in registration
//! order, behind them the points that nobody owns and this rank fills). Row 0 of the buffer is always the first row of a
//! column of chunks, so a flush writes whole blocks and never reads back. Sized once; appending allocates nothing.

use afflux_container::ElementType;

use crate::{Step, Values};

/// The rows of one variable.
#[derive(Debug)]
pub(crate) struct VariableWindow {
    element: ElementType,
    /// Values in a row.
    columns: usize,
    /// `rows_max * columns` values.
    bytes: Vec<u8>,
}

impl VariableWindow {
    /// A row's length in bytes.
    pub fn row_bytes(&self) -> usize {
        self.columns * self.element.bytes()
    }

    /// Values in a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of one value.
    pub fn element_bytes(&self) -> usize {
        self.element.bytes()
    }

    /// The rows from `first` on, `row_bytes` each.
    pub fn rows(&self, first: usize, count: usize) -> &[u8] {
        let row_bytes = self.row_bytes();
        &self.bytes[first * row_bytes..(first + count) * row_bytes]
    }
}

/// The rows of one set.
#[derive(Debug)]
pub(crate) struct Window {
    pub variables: Vec<VariableWindow>,
    /// Simulation step of each row held.
    steps: Vec<Step>,
    /// Simulated time of each row held.
    times: Vec<f64>,
    /// Number, in the file, of the first row held.
    first_row: u64,
    /// Rows the buffers can hold.
    rows_max: usize,
}

impl Window {
    /// Room for `rows_max` rows of variables `(element, values of the caller's in a row, values filled by us)`.
    pub fn new(rows_max: usize, first_row: u64, variables: &[(ElementType, usize, usize)]) -> Self {
        let variables = variables
            .iter()
            .map(|&(element, given, filled)| {
                let columns = given + filled;
                let mut bytes = vec![0; rows_max * columns * element.bytes()];
                if filled > 0 {
                    let fill = element.fill_value_bytes();
                    for row in bytes.chunks_exact_mut(columns * element.bytes()) {
                        for value in row[given * element.bytes()..].chunks_exact_mut(element.bytes()) {
                            value.copy_from_slice(&fill[..element.bytes()]);
                        }
                    }
                }
                VariableWindow { element, columns, bytes }
            })
            .collect();
        Self {
            variables,
            steps: Vec::with_capacity(rows_max),
            times: Vec::with_capacity(rows_max),
            first_row,
            rows_max,
        }
    }

    /// Begins the row of `step`.
    pub fn begin_row(&mut self, step: Step, time: f64) {
        assert!(self.steps.len() < self.rows_max, "a flush is due before the window is full");
        self.steps.push(step);
        self.times.push(time);
    }

    /// Copies one variable's values into the last row, `first_column` values from its start.
    pub fn put(&mut self, variable: usize, first_column: usize, values: Values<'_>) {
        let row = self.steps.len() - 1;
        let window = &mut self.variables[variable];
        let start = row * window.row_bytes() + first_column * window.element.bytes();
        let bytes = values.bytes();
        window.bytes[start..start + bytes.len()].copy_from_slice(bytes);
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
        let finished = self.steps.len() / chunk_steps * chunk_steps;
        if finished == 0 {
            return;
        }
        let held = self.steps.len();
        for window in &mut self.variables {
            let row_bytes = window.row_bytes();
            window.bytes.copy_within(finished * row_bytes..held * row_bytes, 0);
        }
        self.steps.drain(..finished);
        self.times.drain(..finished);
        self.first_row += finished as u64;
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> u64 {
        let values: usize = self.variables.iter().map(|window| window.bytes.len()).sum();
        (values + self.rows_max * (size_of::<Step>() + size_of::<f64>())) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_columns_leave_and_the_rest_moves_to_the_front() {
        let mut window = Window::new(7, 0, &[(ElementType::I32, 2, 1)]);
        for step in 0..7_i32 {
            window.begin_row(Step::from(step.unsigned_abs()), f64::from(step));
            window.put(0, 0, Values::I32(&[step, 10 * step]));
        }
        window.keep_unfinished(3);
        assert_eq!((window.rows(), window.first_row(), window.row_end()), (1, 6, 7));
        assert_eq!(window.steps(), [6]);
        let row: Vec<i32> = bytemuck::allocation::pod_collect_to_vec(window.variables[0].rows(0, 1));
        assert_eq!(row[..2], [6, 60]);
        let fill = ElementType::I32.fill_value_bytes();
        assert_eq!(row[2].to_le_bytes(), fill[..4], "points without an owner keep their fill value");
    }
}
