//! Is every value of a made-up run right? Needs nothing but the file: ids, steps, and the order of sets and variables.

use super::{SeriesKey, SynthValue};
use afflux::file::{Block, ReadError, SeriesFile, SetInfo};

/// Values held in memory at once, so that a file of any size can be checked.
const BLOCK_VALUES: u64 = 1 << 20;
/// Differences described one by one.
const DESCRIBED_MAX: usize = 10;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// Values compared.
    pub values: u64,
    /// Values that are not what they must be.
    pub wrong: u64,
    /// The first wrong ones, in words.
    pub described: Vec<String>,
}

/// Compares every sealed value with the one that [`super`] defines; `progress` is told the values done so far and in all.
pub fn check(file: &SeriesFile, progress: &mut dyn FnMut(u64, u64)) -> Result<Check, ReadError> {
    let values_of = |set: &SetInfo| {
        set.variables.iter().map(|variable| variable.spec.values() as u64).sum::<u64>() * set.points * set.rows_sealed
    };
    let total = file.sets().iter().map(values_of).sum();
    let mut result = Check::default();
    for (set, info) in file.sets().iter().enumerate() {
        // One point's rows of a column are read together, as they lie in the file.
        for column in 0..info.columns_sealed() {
            let rows = info.column_rows(column);
            let steps = file.steps(set, rows.clone())?;
            for (variable, described) in info.variables.iter().enumerate() {
                let components = described.spec.values() as u64;
                let points_at_once = (BLOCK_VALUES / (components * (rows.end - rows.start)).max(1)).max(1);
                let mut first = 0;
                while first < info.points {
                    let positions = first..info.points.min(first + points_at_once);
                    let place = Place { file, set, variable, components, first, steps: &steps };
                    match file.block(set, variable, positions.clone(), rows.clone())? {
                        Block::F32(values) => place.compare(&values, &mut result)?,
                        Block::F64(values) => place.compare(&values, &mut result)?,
                        Block::I32(values) => place.compare(&values, &mut result)?,
                        Block::I64(values) => place.compare(&values, &mut result)?,
                    }
                    first = positions.end;
                    progress(result.values, total);
                }
            }
        }
    }
    Ok(result)
}

/// Where a block of values, indexed by (point, component, row), was read.
struct Place<'a> {
    file: &'a SeriesFile,
    set: usize,
    variable: usize,
    components: u64,
    /// Position of the first point.
    first: u64,
    /// Steps of the rows.
    steps: &'a [i64],
}

impl Place<'_> {
    fn compare<V: SynthValue>(&self, values: &[V], result: &mut Check) -> Result<(), ReadError> {
        let points = self.file.points(self.set)?;
        for (series, found) in (0_u64..).zip(values.chunks_exact(self.steps.len())) {
            let position = usize::try_from(self.first + series / self.components).expect("points are in memory");
            let (id, component) = (points.ids[position], series % self.components);
            let key = SeriesKey::new(self.set as u64, id, self.variable as u64, component);
            for (&step, &found) in self.steps.iter().zip(found) {
                let expected = V::from_hash(key.at(step.cast_unsigned()));
                result.values += 1;
                if found == expected {
                    continue;
                }
                result.wrong += 1;
                if result.described.len() < DESCRIBED_MAX {
                    let info = &self.file.sets()[self.set];
                    let variable = &info.variables[self.variable].spec.name;
                    let set = if info.name.is_empty() { String::new() } else { format!("set {}, ", info.name) };
                    result.described.push(format!(
                        "{set}point {id}, {variable}, component {component}, step {step}: {found} instead of {expected}"
                    ));
                }
            }
        }
        Ok(())
    }
}
