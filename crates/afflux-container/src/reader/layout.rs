//! What sets a file has: found from its groups and datasets, checked against the contract of the format.

use super::ReadError;
use super::raw::{Checked, RawFile};
use super::seal::{SEAL_WORDS, SealState};
use crate::{PointTable, VariableSpec};
use hdf5_metno::{Group, IndexType, IterationOrder};
use std::sync::OnceLock;

/// Version of the file format that this crate reads.
pub const FORMAT_VERSION: i32 = 1;
const BOOKKEEPING: &str = "afflux";
/// Datasets of a set that are no variables.
const RESERVED: [&str; 7] = ["point", "time", "step", "x", "y", "z", "point_name"];
/// Rows from which the cadence is guessed where the file does not state it.
const CADENCE_ROWS_MAX: u64 = 1024;

/// A variable as it is in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VariableInfo {
    /// Name, type, components, units, descriptions.
    pub spec: VariableSpec,
    /// Points in a chunk.
    pub points_per_chunk: u64,
    /// Rows in the file, sealed or not.
    pub rows_on_disk: u64,
}

/// A set as it is in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetInfo {
    /// Name; empty for the set in the root group.
    pub name: String,
    /// Number of points.
    pub points: u64,
    /// Rows with a step up to the watermark: all that the reading functions show.
    pub rows_sealed: u64,
    /// Rows in the file, sealed or not.
    pub rows_on_disk: u64,
    /// Rows in a column of chunks.
    pub chunk_steps: u64,
    /// Steps from row to row: stated in the file, else the most frequent distance of the first rows; `None` where there are
    /// fewer than two.
    pub cadence_steps: Option<u64>,
    /// Step of the first and of the last sealed row.
    pub steps_sealed: Option<(i64, i64)>,
    /// Units of the times.
    pub time_units: String,
    /// Units of the coordinates.
    pub length_units: String,
    /// Variables in file order.
    pub variables: Vec<VariableInfo>,
}

impl SetInfo {
    /// Columns of chunks that hold sealed rows; the last may be partly filled.
    #[must_use]
    pub fn columns_sealed(&self) -> u64 {
        self.rows_sealed.div_ceil(self.chunk_steps)
    }

    /// The sealed rows of a column, half-open.
    #[must_use]
    pub fn column_rows(&self, column: u64) -> std::ops::Range<u64> {
        let start = column.saturating_mul(self.chunk_steps).min(self.rows_sealed);
        start..start.saturating_add(self.chunk_steps).min(self.rows_sealed)
    }

    /// Index of a variable by name.
    #[must_use]
    pub fn variable_index(&self, name: &str) -> Option<usize> {
        self.variables.iter().position(|variable| variable.spec.name == name)
    }
}

/// A set with its open datasets.
#[derive(Debug)]
pub(super) struct OpenSet {
    pub group: Group,
    pub step: Checked,
    pub time: Checked,
    /// Indexed as [`SetInfo::variables`].
    pub variables: Vec<Checked>,
    /// Read when first asked for.
    pub points: OnceLock<PointTable>,
}

/// Reads the seal, and opens the datasets of seal and checksums; `afflux` missing means that another program wrote the file.
pub(super) fn read_seal(file: &RawFile) -> Result<(SealState, Checked, Checked), ReadError> {
    let group = match file.root.group(BOOKKEEPING) {
        Ok(group) => group,
        // Listed, and not looked up by name: a look-up that fails must not count as a group that is not there.
        Err(error) if member_names(file, &file.root)?.iter().any(|name| name == BOOKKEEPING) => {
            return Err(file.damaged(format!("the group {BOOKKEEPING} cannot be opened: {error}")));
        }
        Err(_) => return Err(file.not_afflux(format!("no group named {BOOKKEEPING}"))),
    };
    let version = file
        .integer_attribute(&group, "format_version")
        .ok_or_else(|| file.not_afflux(format!("no format_version in the group {BOOKKEEPING}")))?;
    if version != i64::from(FORMAT_VERSION) {
        let found = i32::try_from(version).map_err(|_| file.damaged(format!("format version {version}")))?;
        return Err(ReadError::Version { path: file.path.clone(), found, supported: FORMAT_VERSION });
    }
    let seal = file.dataset(&group, "seal", 2)?;
    if seal.shape != [2, SEAL_WORDS as u64] {
        return Err(file.damaged(format!("{} has the shape {:?}", seal.label, seal.shape)));
    }
    let state = SealState::decode(&read_slots(file, &seal)?)
        .ok_or_else(|| file.damaged("neither slot of the seal is valid"))?;
    let checksums = file.dataset(&group, "column_checksum", 4)?;
    if checksums.shape[2..] != [2, 2] {
        return Err(file.damaged(format!("{} has the shape {:?}", checksums.label, checksums.shape)));
    }
    Ok((state, seal, checksums))
}

/// The words of both slots of the seal, as they are now.
pub(super) fn read_slots(file: &RawFile, seal: &Checked) -> Result<[[u64; SEAL_WORDS]; 2], ReadError> {
    let words = file.read::<u64>(seal, &[0..2, 0..SEAL_WORDS as u64])?;
    let mut slots = [[0; SEAL_WORDS]; 2];
    for (slot, words) in slots.iter_mut().zip(words.chunks_exact(SEAL_WORDS)) {
        slot.copy_from_slice(words);
    }
    Ok(slots)
}

/// Names of the sets in file order, which is that of creation: a set's group, or for the root's set its first dataset.
pub(super) fn set_names(file: &RawFile) -> Result<Vec<String>, ReadError> {
    let mut names = Vec::new();
    for name in member_names(file, &file.root)? {
        if name == BOOKKEEPING {
            continue;
        }
        if file.root.group(&name).is_ok() {
            names.push(name);
        } else if !names.iter().any(String::is_empty) {
            names.push(String::new());
        }
    }
    Ok(names)
}

/// Opens a set, with all its datasets checked against each other.
pub(super) fn open_set(file: &RawFile, seal: &SealState, name: &str) -> Result<(SetInfo, OpenSet), ReadError> {
    let group = match name {
        "" => file.root.as_group(),
        _ => file.root.group(name),
    }
    .map_err(|error| file.damaged(format!("set {name:?} cannot be opened: {error}")))?;
    let point = file.dataset(&group, "point", 1)?;
    let step = file.dataset(&group, "step", 1)?;
    let time = file.dataset(&group, "time", 1)?;
    let chunk_steps = match step.chunk.as_deref() {
        Some(&[chunk_steps]) if chunk_steps > 0 && time.chunk == step.chunk => chunk_steps,
        _ => return Err(file.damaged(format!("{} and {} have unlike chunks", step.label, time.label))),
    };
    // Space is taken a column ahead, never more, so the file is longer than its steps.
    if step.shape[0].saturating_mul(8) > file.bytes {
        let what = format!("{} claims {} rows in a file of {} bytes", step.label, step.shape[0], file.bytes);
        return Err(file.damaged(what));
    }
    let (infos, variables) = open_variables(file, &group, point.shape[0], chunk_steps)?;
    let mut info = SetInfo {
        name: name.to_owned(),
        points: point.shape[0],
        rows_sealed: 0,
        rows_on_disk: step.shape[0],
        chunk_steps,
        cadence_steps: None,
        steps_sealed: None,
        time_units: file.text_attribute(&time.dataset, "units").unwrap_or_default(),
        length_units: group
            .dataset("x")
            .ok()
            .and_then(|dataset| file.text_attribute(&dataset, "units"))
            .unwrap_or_default(),
        variables: infos,
    };
    learn_rows(file, seal, &step, &mut info)?;
    Ok((info, OpenSet { group, step, time, variables, points: OnceLock::new() }))
}

/// Finds the sealed rows by bisection over the columns, then within one.
fn learn_rows(file: &RawFile, seal: &SealState, step: &Checked, info: &mut SetInfo) -> Result<(), ReadError> {
    let stated = file.integer_attribute(&step.dataset, "cadence_steps").and_then(|cadence| u64::try_from(cadence).ok());
    let (mut low, mut high) = (0, info.rows_on_disk.div_ceil(info.chunk_steps));
    while low < high {
        let column = low + (high - low) / 2;
        let row = column * info.chunk_steps;
        let first = file.read_line::<i64>(step, row..row + 1)?;
        if seal.is_sealed(first[0]) {
            low = column + 1;
        } else {
            high = column;
        }
    }
    if low > 0 {
        let start = (low - 1) * info.chunk_steps;
        let end = start.saturating_add(info.chunk_steps).min(info.rows_on_disk);
        let steps = file.read_line::<i64>(step, start..end)?;
        let sealed = seal.sealed_count(&steps);
        info.rows_sealed = start + sealed as u64;
        let first = file.read_line::<i64>(step, 0..1)?[0];
        info.steps_sealed = sealed.checked_sub(1).map(|last| (first, steps[last]));
    }
    info.cadence_steps = match stated.filter(|&cadence| cadence > 0) {
        Some(cadence) => Some(cadence),
        None => cadence_guess(&file.read_line::<i64>(step, 0..info.rows_sealed.min(CADENCE_ROWS_MAX))?),
    };
    Ok(())
}

/// The most frequent positive distance from row to row; the smaller of two as frequent.
fn cadence_guess(steps: &[i64]) -> Option<u64> {
    let distances = steps.windows(2).filter_map(|pair| pair[1].checked_sub(pair[0]));
    let mut distances: Vec<u64> =
        distances.filter_map(|distance| u64::try_from(distance).ok()).filter(|&distance| distance > 0).collect();
    distances.sort_unstable();
    let mut best: Option<(usize, u64)> = None;
    for run in distances.chunk_by(|left, right| left == right) {
        if best.is_none_or(|(count, _)| run.len() > count) {
            best = Some((run.len(), run[0]));
        }
    }
    best.map(|(_, distance)| distance)
}

fn open_variables(
    file: &RawFile,
    group: &Group,
    points: u64,
    chunk_steps: u64,
) -> Result<(Vec<VariableInfo>, Vec<Checked>), ReadError> {
    let mut infos = Vec::new();
    let mut datasets = Vec::new();
    for name in member_names(file, group)? {
        if RESERVED.contains(&name.as_str()) || group.group(&name).is_ok() {
            continue;
        }
        let label = super::raw::label(group, &name);
        let dataset = file
            .attempt(|| group.dataset(&name))
            .map_err(|error| file.damaged(format!("dataset {label} cannot be opened: {error}")))?;
        if dataset.ndim() < 2 {
            continue; // the scale of the component dimension
        }
        let dataset = file.checked(dataset, label)?;
        infos.push(variable_info(file, &name, &dataset, points, chunk_steps)?);
        datasets.push(dataset);
    }
    Ok((infos, datasets))
}

fn variable_info(
    file: &RawFile,
    name: &str,
    dataset: &Checked,
    points: u64,
    chunk_steps: u64,
) -> Result<VariableInfo, ReadError> {
    let wrong = |what: String| file.damaged(format!("variable {} {what}", dataset.label));
    let element = dataset.element().ok_or_else(|| wrong("has a type that Afflux does not write".into()))?;
    let (components, rows_on_disk) = match dataset.shape[..] {
        [_, rows] => (None, rows),
        [_, components, rows] => {
            let narrow = u32::try_from(components).map_err(|_| wrong(format!("has {components} components")))?;
            (Some(narrow), rows)
        }
        _ => return Err(wrong(format!("has {} dimensions", dataset.shape.len()))),
    };
    if dataset.shape[0] != points {
        return Err(wrong(format!("has {} points, the set {points}", dataset.shape[0])));
    }
    let points_per_chunk = match dataset.chunk.as_deref() {
        Some(chunk) if chunk.len() == dataset.shape.len() && chunk.last() == Some(&chunk_steps) => chunk[0],
        chunk => return Err(wrong(format!("has chunks {chunk:?}, not of {chunk_steps} rows"))),
    };
    let text = |attribute| file.text_attribute(&dataset.dataset, attribute);
    let spec = VariableSpec {
        name: name.to_owned(),
        element,
        components,
        units: text("units").unwrap_or_default(),
        long_name: text("long_name"),
        standard_name: text("standard_name"),
    };
    Ok(VariableInfo { spec, points_per_chunk, rows_on_disk })
}

/// Members of a group, oldest first where the group tracks that, else by name.
fn member_names(file: &RawFile, group: &Group) -> Result<Vec<String>, ReadError> {
    let by = |index| file.attempt(|| group.member_names_by(index, IterationOrder::Increasing));
    by(IndexType::CreationOrder)
        .or_else(|_| by(IndexType::Name))
        .map_err(|error| file.damaged(format!("group {} cannot be listed: {error}", group.name())))
}

/// Reads the points of a set.
pub(super) fn read_points(file: &RawFile, set: &OpenSet, points: u64) -> Result<PointTable, ReadError> {
    let open = |name| -> Result<Checked, ReadError> {
        let dataset = file.dataset(&set.group, name, 1)?;
        if dataset.shape[0] != points {
            return Err(file.damaged(format!("{} has {} points, not {points}", dataset.label, dataset.shape[0])));
        }
        Ok(dataset)
    };
    let ids = file.read_line::<i64>(&open("point")?, 0..points)?;
    if !ids.is_sorted_by(|left, right| left < right) {
        return Err(file.damaged(format!("the ids of {} do not ascend", super::raw::label(&set.group, "point"))));
    }
    let coordinate = |name| file.read_line::<f64>(&open(name)?, 0..points);
    let (x, y, z) = (coordinate("x")?, coordinate("y")?, coordinate("z")?);
    let names = file.read_texts(&open("point_name")?)?;
    Ok(PointTable { ids, x, y, z, names })
}

#[cfg(test)]
mod tests {
    use super::cadence_guess;

    #[test]
    fn cadence_is_the_common_distance() {
        assert_eq!(cadence_guess(&[]), None);
        assert_eq!(cadence_guess(&[7]), None);
        assert_eq!(cadence_guess(&[0, 4, 8, 16, 20]), Some(4));
        assert_eq!(cadence_guess(&[5, 5, 3, 3]), None);
        assert_eq!(cadence_guess(&[0, 2, 6]), Some(2));
        assert_eq!(cadence_guess(&[i64::MIN, i64::MAX]), None);
    }
}
