//! What differs between the file that is there and what a resumed run would write, in words.
//!
//! What says which numbers are in the file must be the same: sets and their order, points, variables, types, units, cadence, and
//! the rows of a column. What only describes (global attributes, `long_name`) stays as the file has it, and so does how many
//! points a chunk holds, whatever `chunk_bytes` would make of it today.

use crate::reader::{ReadError, SetInfo};
use crate::{FileSpec, PointTable, SeriesFile, SetSpec, VariableSpec};
use std::fmt::{Debug, Display};

/// More are not listed.
const DIFFERENCES_MAX: usize = 12;

/// All differences; empty if the run may go on with the file.
pub(super) fn differences(spec: &FileSpec, file: &SeriesFile) -> Result<Vec<String>, ReadError> {
    let mut found = Differences::default();
    let names = |names: Vec<&String>| names.into_iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let in_file = names(file.sets().iter().map(|set| &set.name).collect());
    let in_run = names(spec.sets.iter().map(|set| &set.name).collect());
    if in_file != in_run {
        found.add(format!("the file has the sets {in_file}; the run {in_run}"));
        return Ok(found.0);
    }
    for (index, (set, info)) in spec.sets.iter().zip(file.sets()).enumerate() {
        found.of_set(set, info);
        found.texts(&format!("{}: units of time", title(&set.name)), &info.time_units, &spec.time_units);
        found.texts(&format!("{}: units of length", title(&set.name)), &info.length_units, &spec.length_units);
        found.of_points(&set.name, &set.points, file.points(index)?);
    }
    let count = found.0.len();
    if count > DIFFERENCES_MAX {
        found.0.truncate(DIFFERENCES_MAX);
        found.add(format!("and {} more", count - DIFFERENCES_MAX));
    }
    Ok(found.0)
}

fn title(set: &str) -> String {
    if set.is_empty() { "default set".into() } else { format!("set {set}") }
}

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn add(&mut self, difference: String) {
        self.0.push(difference);
    }

    fn numbers<T: PartialEq + Display>(&mut self, what: &str, in_file: T, in_run: T) {
        if in_file != in_run {
            self.add(format!("{what}: {in_file} in the file, {in_run} in the run"));
        }
    }

    fn texts<T: PartialEq + Debug + ?Sized>(&mut self, what: &str, in_file: &T, in_run: &T) {
        if in_file != in_run {
            self.add(format!("{what}: {in_file:?} in the file, {in_run:?} in the run"));
        }
    }

    fn of_set(&mut self, set: &SetSpec, info: &SetInfo) {
        let title = title(&set.name);
        if let Some(cadence) = info.cadence_steps {
            self.numbers(&format!("{title}: steps from row to row"), cadence, set.cadence_steps);
        }
        self.numbers(&format!("{title}: rows in a column of chunks (chunk_steps)"), info.chunk_steps, set.chunk_steps);
        let names = |variables: Vec<&VariableSpec>| {
            variables.into_iter().map(|variable| variable.name.clone()).collect::<Vec<_>>().join(", ")
        };
        let in_file: Vec<&VariableSpec> = info.variables.iter().map(|variable| &variable.spec).collect();
        let in_run: Vec<&VariableSpec> = set.variables.iter().collect();
        let (names_in_file, names_in_run) = (names(in_file.clone()), names(in_run.clone()));
        if names_in_file != names_in_run {
            self.add(format!("{title}: variables {names_in_file} in the file, {names_in_run} in the run"));
            return;
        }
        for (left, right) in in_file.into_iter().zip(in_run) {
            let what = |property| format!("{title}: {property} of {}", right.name);
            self.texts(&what("type"), &left.element, &right.element);
            let components = |variable: &VariableSpec| {
                variable.components.map_or_else(|| "none".into(), |components| components.to_string())
            };
            self.numbers(&what("components"), components(left), components(right));
            self.texts(&what("units"), &left.units, &right.units);
            let standard_name = |variable: &VariableSpec| variable.standard_name.clone().unwrap_or_default();
            self.texts(&what("standard name"), &standard_name(left), &standard_name(right));
        }
    }

    /// The first point that differs says enough.
    fn of_points(&mut self, set: &str, in_run: &PointTable, in_file: &PointTable) {
        let title = title(set);
        if in_file.len() != in_run.len() {
            let only = |left: &PointTable, right: &PointTable| {
                let missing = left.ids.iter().position(|id| right.ids.binary_search(id).is_err());
                missing.map(|position| format!("{} ({})", left.ids[position], left.names[position]))
            };
            let mut text = format!("{title}: {} points in the file, {} in the run", in_file.len(), in_run.len());
            if let Some(point) = only(in_file, in_run) {
                text.push_str(&format!("; point {point} is only in the file"));
            }
            if let Some(point) = only(in_run, in_file) {
                text.push_str(&format!("; point {point} is only in the run"));
            }
            self.add(text);
            return;
        }
        let differs = |position: &usize| {
            let of = |points: &PointTable| {
                let at = [points.x[*position], points.y[*position], points.z[*position]];
                (points.ids[*position], points.names[*position].clone(), at)
            };
            of(in_file) != of(in_run)
        };
        if let Some(position) = (0..in_file.len()).find(differs) {
            let of = |points: &PointTable| {
                let (x, y, z) = (points.x[position], points.y[position], points.z[position]);
                format!("{} named {:?} at ({x}, {y}, {z})", points.ids[position], points.names[position])
            };
            self.add(format!("{title}: point {} in the file, {} in the run", of(in_file), of(in_run)));
        }
    }
}
