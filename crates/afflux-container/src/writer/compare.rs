//! What differs between the file that is there and what a resumed run would write, in words.
//!
//! What says which numbers are in the file must be the same: sets and their order, points, variables, types, units, cadence, and
//! the rows of a column. What only describes (global attributes, `long_name`) stays as the file has it, and so does how many
//! points a chunk holds, whatever `chunk_bytes` would make of it today.

use crate::point_source::{PointRow, PointSource, try_visit, visit_all};
use crate::reader::{ReadError, SetInfo};
use crate::{FileSpec, PointTable, SeriesFile, SetSpec, VariableSpec};
use std::fmt::{Debug, Display};

/// More are not listed.
const DIFFERENCES_MAX: usize = 12;

/// All differences; empty if the run may go on with the file.
/// `points` are those of the run's sets.
pub(super) fn differences(
    spec: &FileSpec,
    points: &[&dyn PointSource],
    file: &SeriesFile,
) -> Result<Vec<String>, ReadError> {
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
        found.of_points(&set.name, points[index], file.points(index)?);
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
    fn of_points(&mut self, set: &str, in_run: &dyn PointSource, in_file: &PointTable) {
        let title = title(set);
        if in_file.len() as u64 != in_run.count() {
            let mut text = format!("{title}: {} points in the file, {} in the run", in_file.len(), in_run.count());
            let (only_in_file, only_in_run) = first_alone(in_file, in_run);
            if let Some(point) = only_in_file {
                text.push_str(&format!("; point {point} is only in the file"));
            }
            if let Some(point) = only_in_run {
                text.push_str(&format!("; point {point} is only in the run"));
            }
            self.add(text);
            return;
        }
        let mut position = 0;
        let equal = try_visit(in_run, |in_run| {
            let in_file = row(in_file, position);
            position += 1;
            if (in_file.id, in_file.at) == (in_run.id, in_run.at) && in_file.name == Some(&*in_run.label()) {
                return Ok(());
            }
            Err(format!("{title}: point {} in the file, {} in the run", described(&in_file), described(&in_run)))
        });
        if let Err(difference) = equal {
            self.add(difference);
        }
    }
}

/// The point at a position of the file.
fn row(table: &PointTable, position: usize) -> PointRow<'_> {
    let at = [table.x[position], table.y[position], table.z[position]];
    PointRow { id: table.ids[position], at, name: Some(&table.names[position]) }
}

fn described(point: &PointRow<'_>) -> String {
    let [x, y, z] = point.at;
    format!("{} named {:?} at ({x}, {y}, {z})", point.id, point.label())
}

/// The first point that only the file has, and the first that only the run has, as `id (name)`. Both ascend by id.
fn first_alone(in_file: &PointTable, in_run: &dyn PointSource) -> (Option<String>, Option<String>) {
    let shown = |point: &PointRow<'_>| format!("{} ({})", point.id, point.label());
    let (mut only_in_file, mut only_in_run) = (None, None);
    let mut next = 0;
    visit_all(in_run, |point| {
        while next < in_file.len() && in_file.ids[next] < point.id {
            only_in_file.get_or_insert_with(|| shown(&row(in_file, next)));
            next += 1;
        }
        if in_file.ids.get(next) == Some(&point.id) {
            next += 1;
        } else {
            only_in_run.get_or_insert_with(|| shown(&point));
        }
    });
    if next < in_file.len() {
        only_in_file.get_or_insert_with(|| shown(&row(in_file, next)));
    }
    (only_in_file, only_in_run)
}
