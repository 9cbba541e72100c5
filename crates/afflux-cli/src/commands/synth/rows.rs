//! Rows of made-up values: what the simulation computes.

use super::Element;
use afflux::{AppendError, SeriesWriter, SetId, Values};
use afflux_measure::synth::{SeriesKey, SynthValue, fill_row, row_keys};
use std::time::{Duration, Instant};

/// One row of a set, of whichever type: a buffer a variable.
pub struct Rows {
    /// Indexed by set, then variable; each as long as a row.
    keys: Vec<Vec<Vec<SeriesKey>>>,
    buffers: Buffers,
}

enum Buffers {
    F32(Vec<Vec<f32>>),
    F64(Vec<Vec<f64>>),
    I32(Vec<Vec<i32>>),
    I64(Vec<Vec<i64>>),
}

impl Rows {
    /// Buffers for the rows of so many sets of variables; `ids` are this rank's points, the same in every set.
    pub fn new(element: Element, ids: &[i64], sets: u32, variables: u32) -> Self {
        let of_set = |set| (0..variables).map(|variable| row_keys(set, ids, u64::from(variable), 1)).collect();
        let keys = (0..u64::from(sets)).map(of_set).collect();
        fn zeros<V: SynthValue>(variables: u32, length: usize) -> Vec<Vec<V>> {
            (0..variables).map(|_| vec![V::default(); length]).collect()
        }
        let buffers = match element {
            Element::F32 => Buffers::F32(zeros(variables, ids.len())),
            Element::F64 => Buffers::F64(zeros(variables, ids.len())),
            Element::I32 => Buffers::I32(zeros(variables, ids.len())),
            Element::I64 => Buffers::I64(zeros(variables, ids.len())),
        };
        Self { keys, buffers }
    }

    /// Makes the values of a set's row.
    pub fn fill(&mut self, set: usize, step: u64) {
        fn each<V: SynthValue>(keys: &[Vec<SeriesKey>], buffers: &mut [Vec<V>], step: u64) {
            for (keys, buffer) in keys.iter().zip(buffers) {
                fill_row(keys, step, buffer);
            }
        }
        let keys = &self.keys[set];
        match &mut self.buffers {
            Buffers::F32(buffers) => each(keys, buffers, step),
            Buffers::F64(buffers) => each(keys, buffers, step),
            Buffers::I32(buffers) => each(keys, buffers, step),
            Buffers::I64(buffers) => each(keys, buffers, step),
        }
    }

    /// Gives the row to the writer; returns how long that took.
    pub fn append(&self, writer: &mut SeriesWriter, set: SetId, step: u64, time: f64) -> Result<Duration, AppendError> {
        let row: Vec<Values<'_>> = match &self.buffers {
            Buffers::F32(buffers) => buffers.iter().map(Values::from).collect(),
            Buffers::F64(buffers) => buffers.iter().map(Values::from).collect(),
            Buffers::I32(buffers) => buffers.iter().map(Values::from).collect(),
            Buffers::I64(buffers) => buffers.iter().map(Values::from).collect(),
        };
        let start = Instant::now();
        writer.append(set, step, time, &row)?;
        Ok(start.elapsed())
    }
}
