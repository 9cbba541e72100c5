//! What a frame shows: the last sealed rows of a variable at some points, read in one opening of the file.

use crate::commands::selection::{self, Selected};
use crate::commands::{open, read_failure};
use crate::failure::Failure;
use afflux::file::SeriesFile;
use std::path::Path;

/// What is to be shown.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// The default set, or the first, unless given.
    pub set: Option<String>,
    /// The first unless given.
    pub variable: Option<String>,
    /// The first unless given.
    pub points: Vec<String>,
    /// The last so many rows.
    pub rows: u64,
    /// How many variables further on.
    pub variables_on: u64,
    /// How many points further on.
    pub points_on: u64,
}

/// One point's values.
#[derive(Debug, Clone)]
pub struct Line {
    /// The point's name.
    pub label: String,
    /// Time and value.
    pub points: Vec<(f64, f64)>,
}

/// A frame's contents.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub watermark: Option<u64>,
    pub closed: bool,
    /// Sealed rows of the set.
    pub rows: u64,
    /// Step of the last of them.
    pub step_last: Option<i64>,
    pub variable: String,
    pub units: String,
    pub time_units: String,
    pub lines: Vec<Line>,
}

impl Snapshot {
    /// Reads what is sealed now.
    pub fn read(path: &Path, shown: &Shown) -> Result<Self, Failure> {
        let file = open(path)?;
        let set = match &shown.set {
            Some(name) => selection::set(&file, name)?,
            None => file.set_index("").unwrap_or(0),
        };
        let info = file.sets().get(set).ok_or_else(|| Failure::failed(format!("{} has no set", path.display())))?;
        let chosen = choose(&file, set, shown)?;
        let rows = info.rows_sealed.saturating_sub(shown.rows)..info.rows_sealed;
        let times = file.times(set, rows.clone()).map_err(|error| read_failure(&error))?;
        let names = &file.points(set).map_err(|error| read_failure(&error))?.names;
        let mut lines = Vec::new();
        for position in positions(&file, set, shown)? {
            let values = file
                .series(set, chosen.variable, position, chosen.component, rows.clone())
                .map_err(|error| read_failure(&error))?;
            let name = usize::try_from(position).ok().and_then(|position| names.get(position));
            let label = name.cloned().unwrap_or_else(|| position.to_string());
            lines.push(Line { label, points: times.iter().copied().zip(values).collect() });
        }
        let spec = &info.variables[chosen.variable].spec;
        Ok(Self {
            watermark: file.state().watermark,
            closed: file.state().closed,
            rows: info.rows_sealed,
            step_last: info.steps_sealed.map(|(_, last)| last),
            variable: spec
                .components
                .map_or_else(|| spec.name.clone(), |_| format!("{}[{}]", spec.name, chosen.component)),
            units: spec.units.clone(),
            time_units: info.time_units.clone(),
            lines,
        })
    }

    /// The last value of each line.
    pub fn values_last(&self) -> Vec<f64> {
        self.lines.iter().filter_map(|line| line.points.last()).map(|(_, value)| *value).collect()
    }
}

fn choose(file: &SeriesFile, set: usize, shown: &Shown) -> Result<Selected, Failure> {
    let variables = &file.sets()[set].variables;
    let first = match &shown.variable {
        Some(name) => selection::variable(file, set, name)?,
        None => Selected { set, variable: 0, component: 0 },
    };
    if shown.variables_on == 0 {
        return Ok(first);
    }
    let on = usize::try_from(shown.variables_on % variables.len() as u64).unwrap_or(0);
    Ok(Selected { variable: (first.variable + on) % variables.len(), component: 0, ..first })
}

fn positions(file: &SeriesFile, set: usize, shown: &Shown) -> Result<Vec<u64>, Failure> {
    let count = file.sets()[set].points;
    let first: Vec<u64> = if shown.points.is_empty() {
        (0..count.min(1)).collect()
    } else {
        shown.points.iter().map(|text| selection::point(file, set, text)).collect::<Result<_, _>>()?
    };
    Ok(first.into_iter().map(|position| (position + shown.points_on % count) % count).collect())
}
