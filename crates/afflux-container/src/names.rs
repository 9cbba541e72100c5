//! Which names and shapes a file may have, checked before anything is created.

use crate::blueprint::{BOOKKEEPING, component_dimension_name};
use crate::point_source::{PointSource, try_visit};
use crate::{FileSpec, SetSpec};
use std::collections::HashSet;
use xxhash_rust::xxh3::xxh3_64;

/// Why a [`FileSpec`] cannot become a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The name breaks netCDF's rules.
    #[error("the {what} name {name:?} is not allowed: {reason}")]
    BadName {
        /// Variable, set, attribute or point.
        what: &'static str,
        /// The name.
        name: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// The name belongs to the format itself.
    #[error("the {what} name {name:?} is taken by the file format itself; choose another")]
    ReservedName {
        /// Variable, set or attribute.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Two things of one kind have the same name, or a set has the name of a variable of the default set.
    #[error("the {what} name {name:?} is used twice{place}")]
    DuplicateName {
        /// Variable, set, attribute or point.
        what: &'static str,
        /// The name.
        name: String,
        /// Where, as the end of the sentence.
        place: String,
    },
    /// Something that must have elements has none, or a number is out of its range.
    #[error("set {set:?}: {what}")]
    BadShape {
        /// The set.
        set: String,
        /// What is wrong with it.
        what: String,
    },
}

/// Names in the group of each set that are not for variables.
const RESERVED_IN_SET: [&str; 8] = ["time", "step", "x", "y", "z", "point", "point_name", BOOKKEEPING];
/// Global attributes that the format sets.
const RESERVED_ATTRIBUTES: [&str; 2] = ["Conventions", "featureType"];
/// netCDF's `NC_MAX_NAME`.
const NAME_BYTES_MAX: usize = 256;
/// HDF5 does not take a chunk of 4 GiB.
const CHUNK_BYTES_MAX: u64 = u32::MAX as u64;

/// Checks everything that HDF5 or netCDF would refuse later, or accept and make a file that readers trip over.
/// `points` are those of the sets; the tables in `spec` are not looked at.
pub(crate) fn check_spec(spec: &FileSpec, points: &[&dyn PointSource]) -> Result<(), SpecError> {
    if spec.sets.is_empty() {
        return Err(SpecError::BadShape { set: String::new(), what: "a file needs at least one set".into() });
    }
    let mut attributes = HashSet::new();
    for (name, text) in &spec.attributes {
        check_name("attribute", name)?;
        if RESERVED_ATTRIBUTES.contains(&name.as_str()) || name.starts_with("_NC") {
            return Err(SpecError::ReservedName { what: "attribute", name: name.clone() });
        }
        if !attributes.insert(name) {
            return Err(SpecError::DuplicateName { what: "attribute", name: name.clone(), place: String::new() });
        }
        check_text("attribute", text)?;
    }
    let mut sets = HashSet::new();
    for (set, points) in spec.sets.iter().zip(points) {
        if !sets.insert(set.name.as_str()) {
            return Err(SpecError::DuplicateName { what: "set", name: set.name.clone(), place: String::new() });
        }
        if !set.name.is_empty() {
            check_name("set", &set.name)?;
            if set.name == BOOKKEEPING {
                return Err(SpecError::ReservedName { what: "set", name: set.name.clone() });
            }
        }
        check_set(set, *points)?;
    }
    check_root_names(spec)
}

/// Sets are groups beside the datasets of the default set.
fn check_root_names(spec: &FileSpec) -> Result<(), SpecError> {
    let Some(root) = spec.sets.iter().find(|set| set.name.is_empty()) else { return Ok(()) };
    let dimensions: Vec<String> =
        root.variables.iter().filter_map(|variable| variable.components).map(component_dimension_name).collect();
    for set in &spec.sets {
        let name = &set.name;
        if RESERVED_IN_SET.contains(&name.as_str()) || dimensions.contains(name) {
            return Err(SpecError::ReservedName { what: "set", name: name.clone() });
        }
        if root.variables.iter().any(|variable| variable.name == *name) {
            let place = ": for a set and for a variable of the default set".into();
            return Err(SpecError::DuplicateName { what: "set", name: name.clone(), place });
        }
    }
    Ok(())
}

fn check_set(set: &SetSpec, points: &dyn PointSource) -> Result<(), SpecError> {
    let bad = |what: String| Err(SpecError::BadShape { set: set.name.clone(), what });
    if points.count() == 0 {
        return bad("it has no point".into());
    }
    let table = &set.points;
    if [table.x.len(), table.y.len(), table.z.len(), table.names.len()].iter().any(|&length| length != table.len()) {
        return bad("ids, coordinates and names of its points are not equally many".into());
    }
    if set.chunk_steps == 0 || set.cadence_steps == 0 {
        return bad("steps in a chunk and cadence must be at least 1".into());
    }
    check_points(&set.name, points)?;
    check_variables(set)
}

/// Ids that ascend and names that tell the points apart. Memory is taken for the names that are given, not for those that are ids.
fn check_points(set: &str, points: &dyn PointSource) -> Result<(), SpecError> {
    let mut hashes: Vec<u64> = Vec::new();
    // Names that are numbers, for points named by their ids could have them.
    let mut numbers: Vec<i64> = Vec::new();
    let (mut last, mut named_by_id) = (None, false);
    try_visit(points, |row| {
        if let Some(last) = last.filter(|&last| last >= row.id) {
            let what = format!("point ids must ascend, but {last} is followed by {}", row.id);
            return Err(SpecError::BadShape { set: set.to_owned(), what });
        }
        last = Some(row.id);
        let Some(name) = row.name else {
            named_by_id = true;
            return Ok(());
        };
        check_text("point", name)?;
        hashes.push(xxh3_64(name.as_bytes()));
        numbers.extend(decimal(name));
        Ok(())
    })?;
    let twice = |name: &str| SpecError::DuplicateName {
        what: "point",
        name: name.to_owned(),
        place: format!(" in set {set:?}"),
    };
    if named_by_id && !numbers.is_empty() {
        numbers.sort_unstable();
        try_visit(points, |row| match row.name {
            None if numbers.binary_search(&row.id).is_ok() => Err(twice(&row.label())),
            _ => Ok(()),
        })?;
    }
    // There may be many thousands, so their hashes are sorted: a set of texts takes several times as long.
    hashes.sort_unstable();
    hashes.chunk_by(|left, right| left == right).filter(|group| group.len() > 1).try_for_each(|group| {
        let mut seen = HashSet::new();
        try_visit(points, |row| match row.name {
            Some(name) if xxh3_64(name.as_bytes()) == group[0] && !seen.insert(name.to_owned()) => Err(twice(name)),
            _ => Ok(()),
        })
    })
}

/// The number whose decimal a name is.
fn decimal(name: &str) -> Option<i64> {
    // An i64 has 20 characters at most.
    if name.len() > 20 {
        return None;
    }
    name.parse().ok().filter(|number: &i64| number.to_string() == name)
}

fn check_variables(set: &SetSpec) -> Result<(), SpecError> {
    let bad = |what: String| Err(SpecError::BadShape { set: set.name.clone(), what });
    let dimensions: Vec<String> =
        set.variables.iter().filter_map(|variable| variable.components).map(component_dimension_name).collect();
    let mut names = HashSet::new();
    for variable in &set.variables {
        let name = &variable.name;
        check_name("variable", name)?;
        if RESERVED_IN_SET.contains(&name.as_str()) || dimensions.contains(name) {
            return Err(SpecError::ReservedName { what: "variable", name: name.clone() });
        }
        if !names.insert(name) {
            let place = format!(" in set {:?}", set.name);
            return Err(SpecError::DuplicateName { what: "variable", name: name.clone(), place });
        }
        if variable.components == Some(0) {
            return bad(format!("variable {name:?} has a component dimension of length 0"));
        }
        let block_bytes = (variable.row_bytes() as u64).checked_mul(set.chunk_steps);
        if block_bytes.is_none_or(|bytes| bytes > CHUNK_BYTES_MAX) {
            let steps = set.chunk_steps;
            return bad(format!("{steps} steps of one point of variable {name:?} do not fit into a chunk of 4 GiB"));
        }
        for text in [Some(&variable.units), variable.long_name.as_ref(), variable.standard_name.as_ref()] {
            check_text("attribute", text.map_or("", String::as_str))?;
        }
    }
    Ok(())
}

/// The rules of netCDF for names (NetCDF User's Guide, "Permitted characters in netCDF names").
fn check_name(what: &'static str, name: &str) -> Result<(), SpecError> {
    let first_is_fine = |first: char| first.is_ascii_alphanumeric() || first == '_' || !first.is_ascii();
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > NAME_BYTES_MAX {
        "it is longer than 256 bytes"
    } else if name.contains('/') {
        "a slash separates groups"
    } else if name.chars().any(char::is_control) {
        "it has a control character"
    } else if name.ends_with(' ') {
        "it ends with a space"
    } else if !name.starts_with(first_is_fine) {
        "it must begin with a letter, a digit or an underscore"
    } else {
        return Ok(());
    };
    Err(SpecError::BadName { what, name: name.into(), reason })
}

/// HDF5 ends strings at the first NUL.
fn check_text(what: &'static str, text: &str) -> Result<(), SpecError> {
    if text.as_bytes().contains(&0) {
        return Err(SpecError::BadName { what, name: text.into(), reason: "it has a NUL character" });
    }
    Ok(())
}
