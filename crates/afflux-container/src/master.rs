//! The master of a file in groups: virtual datasets that show the files of all groups as one.
//!
//! It has the datasets and attributes that one shared file would have, in the same order: points in ascending id over all groups,
//! as many rows as all groups have sealed. Points, `time` and `step` are its own; every variable is an HDF5 virtual dataset with a
//! part for each group. Files are named without a folder, so that the folder can be moved.
//!
//! A master is made from the files alone, under a temporary name, and takes its own by a rename: it is whole at every instant.
//! It does not grow: plain readers see the rows of the moment at which it was written, [`SeriesFile`] what is sealed now.
//! It is plain HDF5's work, on the operating system's files: a virtual dataset can point nowhere else.

use crate::blueprint::{BOOKKEEPING, Content, FORMAT_VERSION, Group, Stride, Value, VirtualPart};
use crate::blueprint::{global_attributes, set_group};
use crate::create::{Builder, c_string};
use crate::driver::format_bounds;
use crate::hdf::{HdfError, owned};
use crate::names::{SpecError, check_spec};
use crate::reader::ReadError;
use crate::writer::temporary_path;
use crate::{DatasetIndex, FileSpec, PointTable, SeriesFile, SetGeometry, SetSpec};
use afflux_storage::{PosixStorage, Storage};
use hdf5_metno::sync::sync;
use hdf5_metno_sys::h5p;
use std::io;
use std::path::{Path, PathBuf};

/// The attribute of the bookkeeping group that makes a file a master: how many groups there are.
pub(crate) const COUNT_ATTRIBUTE: &str = "groups";
/// Chunks of a virtual dataset mean nothing; the shape is computed all the same.
const CHUNK_BYTES: u64 = 1 << 20;

/// The attribute that names the file of a group.
pub(crate) fn file_attribute(group: u64) -> String {
    format!("group_{group}")
}

/// Name of the file of a group: `run.group-2.nc` of `run.nc`.
#[must_use]
pub fn group_path(master: &Path, group: usize) -> PathBuf {
    let mut name = master.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".group-{group}"));
    if let Some(extension) = master.extension() {
        name.push(".");
        name.push(extension);
    }
    master.with_file_name(name)
}

/// Why there is no (new) master. One that was there stays as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MasterError {
    /// The file of a group could not be read.
    #[error("the file of a group: {0}")]
    Group(#[from] ReadError),
    /// The files do not belong together.
    #[error("{} and {} are no groups of one run: {what}", first.display(), other.display())]
    Mismatch {
        /// The file of the first group.
        first: PathBuf,
        /// The one that differs.
        other: PathBuf,
        /// In what.
        what: String,
    },
    /// Together the files ask for something one file cannot have, such as two points of one name.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// HDF5 failed.
    #[error("HDF5 could not write the master: {0}")]
    Hdf5(#[from] HdfError),
    /// The master could not be given its name.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The fault.
        source: io::Error,
    },
}

/// Writes the master of `files`, which are in its folder, with the rows that all of them have sealed; one that is there is replaced.
/// Returns the rows of each set. The files are read and left alone; they may have writers.
///
/// # Errors
/// [`MasterError`].
///
/// # Panics
/// If there is no file.
pub fn write_master(master: &Path, files: &[PathBuf]) -> Result<Vec<u64>, MasterError> {
    assert!(!files.is_empty(), "a master has a group");
    let readers = files.iter().map(SeriesFile::open).collect::<Result<Vec<_>, _>>()?;
    let sets = (0..readers[0].sets().len()).map(|set| combine(&readers, files, set)).collect::<Result<Vec<_>, _>>()?;
    let spec = FileSpec {
        time_units: readers[0].sets().first().map_or_else(String::new, |set| set.time_units.clone()),
        length_units: readers[0].sets().first().map_or_else(String::new, |set| set.length_units.clone()),
        attributes: user_attributes(&readers[0]),
        sets: sets.iter().map(|set| set.spec.clone()).collect(),
        chunk_bytes: CHUNK_BYTES,
    };
    drop(readers);
    check_spec(&spec, &spec.tables())?;
    let temporary = temporary_path(master);
    sync(|| build(&temporary, &spec, &sets, files))?;
    let failed = |doing| move |source| MasterError::Io { doing, path: master.into(), source };
    PosixStorage.rename_replace(&temporary, master).map_err(failed("give its name to"))?;
    Ok(sets.iter().map(|set| set.steps.len() as u64).collect())
}

/// A set over all groups.
struct Combined {
    spec: SetSpec,
    steps: Vec<i64>,
    times: Vec<f64>,
    /// Of each group where its points stand, and how many there are.
    strides: Vec<(u64, Vec<Stride>)>,
}

fn combine(readers: &[SeriesFile], files: &[PathBuf], set: usize) -> Result<Combined, MasterError> {
    let first = &readers[0];
    let rows = readers.iter().filter_map(|reader| reader.sets().get(set)).map(|set| set.rows_sealed).min().unwrap_or(0);
    let (steps, times) = (first.steps(set, 0..rows)?, first.times(set, 0..rows)?);
    let info = &first.sets()[set];
    let mut points: Vec<(i64, usize, usize)> = Vec::new();
    for (group, reader) in readers.iter().enumerate() {
        let mismatch =
            |what: String| MasterError::Mismatch { first: files[0].clone(), other: files[group].clone(), what };
        let Some(other) = reader.sets().get(set).filter(|_| reader.sets().len() == first.sets().len()) else {
            return Err(mismatch("they have other sets".into()));
        };
        let is_alike = info.name == other.name
            && info.variables.len() == other.variables.len()
            && info.variables.iter().zip(&other.variables).all(|(left, right)| left.spec == right.spec)
            && (&info.time_units, &info.length_units) == (&other.time_units, &other.length_units);
        if !is_alike {
            return Err(mismatch(format!("set {:?} has other variables or units", info.name)));
        }
        if reader.steps(set, 0..rows)? != steps {
            return Err(mismatch(format!("set {:?} has other steps", info.name)));
        }
        points.extend(reader.points(set)?.ids.iter().enumerate().map(|(position, &id)| (id, group, position)));
    }
    points.sort_unstable();
    if let Some(pair) = points.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let (first, other) = (files[pair[0].1].clone(), files[pair[1].1].clone());
        return Err(MasterError::Mismatch { first, other, what: format!("both have point {}", pair[0].0) });
    }
    let mut table = PointTable::default();
    let mut positions: Vec<Vec<u64>> = vec![Vec::new(); readers.len()];
    for (place, (id, group, position)) in (0..).zip(points) {
        let from = readers[group].points(set)?;
        table.ids.push(id);
        table.x.push(from.x[position]);
        table.y.push(from.y[position]);
        table.z.push(from.z[position]);
        table.names.push(from.names[position].clone());
        positions[group].push(place);
    }
    let strides = positions.iter().map(|positions| (positions.len() as u64, strides(positions))).collect();
    let spec = SetSpec {
        name: info.name.clone(),
        points: table,
        variables: info.variables.iter().map(|variable| variable.spec.clone()).collect(),
        cadence_steps: info.cadence_steps.unwrap_or(1),
        chunk_steps: info.chunk_steps,
    };
    Ok(Combined { spec, steps, times, strides })
}

/// Ascending positions as few strides: blocks of neighbours, and such blocks of one length at one distance.
fn strides(positions: &[u64]) -> Vec<Stride> {
    let mut strides: Vec<Stride> = Vec::new();
    for run in positions.chunk_by(|left, right| left + 1 == *right) {
        let (start, block) = (run[0], run.len() as u64);
        match strides.last_mut() {
            Some(last) if last.block == block && last.count == 1 => {
                last.stride = start - last.start;
                last.count = 2;
            }
            Some(last) if last.block == block && last.start + last.count * last.stride == start => last.count += 1,
            _ => strides.push(Stride { start, stride: block, count: 1, block }),
        }
    }
    strides
}

/// The global attributes that the format does not set itself.
fn user_attributes(file: &SeriesFile) -> Vec<(String, String)> {
    let own = ["Conventions", "featureType"];
    file.attributes().into_iter().filter(|(name, _)| !own.contains(&name.as_str())).collect()
}

fn build(path: &Path, spec: &FileSpec, sets: &[Combined], files: &[PathBuf]) -> Result<(), HdfError> {
    let text = path.to_str().ok_or_else(|| HdfError::new("H5Fcreate", "the name is not Unicode"))?;
    // SAFETY: a valid class, under HDF5's lock.
    let access = owned("H5Pcreate", unsafe { h5p::H5Pcreate(*h5p::H5P_CLS_FILE_ACCESS) })?;
    format_bounds(&access)?;
    let mut builder = Builder::new(&c_string("H5Fcreate", text)?, &access)?;
    if spec.sets.iter().all(|set| !set.name.is_empty()) {
        builder.root_attributes(&global_attributes(spec))?;
    }
    for (index, combined) in sets.iter().enumerate() {
        let geometry = SetGeometry::new(&combined.spec, spec.chunk_bytes);
        let mut group = set_group(spec, index, &combined.spec.points, &geometry);
        let parts: Vec<Vec<VirtualPart>> =
            combined.spec.variables.iter().map(|variable| parts(combined, &variable.name, files)).collect();
        show(&mut group, combined, &parts);
        builder.add_group(&group, &[])?;
    }
    builder.add_group(&bookkeeping(spec, files), &[])?;
    Ok(())
}

/// What a variable shows of each group.
fn parts(set: &Combined, variable: &str, files: &[PathBuf]) -> Vec<VirtualPart> {
    let group = if set.spec.name.is_empty() { String::new() } else { format!("/{}", set.spec.name) };
    let part = |(path, (points, strides)): (&PathBuf, &(u64, Vec<Stride>))| VirtualPart {
        file: file_name(path),
        dataset: format!("{group}/{variable}"),
        points: *points,
        strides: strides.clone(),
    };
    files.iter().zip(&set.strides).map(part).collect()
}

/// Gives the growing datasets of a set's group their rows.
fn show<'a>(group: &mut Group<'a>, set: &'a Combined, parts: &'a [Vec<VirtualPart>]) {
    if set.steps.is_empty() {
        // Nothing to show: datasets of no row, as in a new file.
        return;
    }
    for dimension in group.dimensions.iter_mut().filter(|dimension| dimension.unlimited) {
        dimension.length = set.steps.len() as u64;
    }
    for dataset in &mut group.datasets {
        match dataset.grows {
            Some(DatasetIndex::Step) => dataset.content = Content::Steps(&set.steps),
            Some(DatasetIndex::Time) => dataset.content = Content::Times(&set.times),
            Some(DatasetIndex::Variable(variable)) => dataset.content = Content::Virtual(&parts[variable]),
            None => {}
        }
    }
}

fn bookkeeping(spec: &FileSpec, files: &[PathBuf]) -> Group<'static> {
    let count = i64::try_from(files.len()).unwrap_or(i64::MAX);
    let mut attributes = vec![
        ("format_version".to_owned(), Value::I32(FORMAT_VERSION)),
        ("sets".to_owned(), Value::Texts(spec.sets.iter().map(|set| set.name.clone()).collect())),
        (COUNT_ATTRIBUTE.to_owned(), Value::I64(count)),
    ];
    attributes.extend((0..).zip(files).map(|(group, path)| (file_attribute(group), Value::Text(file_name(path)))));
    Group { name: BOOKKEEPING.into(), attributes, dimensions: Vec::new(), datasets: Vec::new(), set: None }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_files_are_named_after_the_master() {
        assert_eq!(group_path(Path::new("a/run.nc"), 2), Path::new("a/run.group-2.nc"));
        assert_eq!(group_path(Path::new("run"), 0), Path::new("run.group-0"));
    }

    #[test]
    fn positions_become_few_strides_that_hold_them_all() {
        for positions in [&[0, 1, 2, 3][..], &[1, 4, 7, 10], &[0, 1, 4, 5, 8, 9], &[2], &[0, 2, 3, 9, 10, 30]] {
            let strides = strides(positions);
            let all = strides.iter().flat_map(|stride| {
                (0..stride.count).flat_map(move |index| {
                    let start = stride.start + index * stride.stride;
                    start..start + stride.block
                })
            });
            assert_eq!(all.collect::<Vec<_>>(), positions);
        }
        assert_eq!(strides(&[1, 4, 7, 10]), [Stride { start: 1, stride: 3, count: 4, block: 1 }]);
        assert_eq!(strides(&[0, 1, 4, 5, 8, 9]).len(), 1);
    }
}
