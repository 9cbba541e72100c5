//! Direct output: a file a point, written at every step, as codes without a sampling library do it.
//!
//! The three variants differ in when files are opened and in which directory they lie. Langer and others put pF3D's sample files
//! into directories of bounded size; here each holds those of [`POINTS_PER_DIRECTORY`] neighbours.

use super::phases::{Phase, Stopwatch};
use super::workload::{RECORD_BYTES, Rows};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The literature names 32 to 128 files a directory.
const POINTS_PER_DIRECTORY: u64 = 64;

/// How a rank keeps its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Every step opens, appends and closes every file.
    OpenAppendClose,
    /// Files stay open for the run.
    KeptOpen,
    /// As `OpenAppendClose`, files spread over directories.
    TwoLevelDirectories,
}

impl Variant {
    /// The file of a point.
    fn path(self, directory: &Path, point: u64) -> PathBuf {
        match self {
            Self::TwoLevelDirectories => {
                directory.join(format!("{:04}", point / POINTS_PER_DIRECTORY)).join(format!("{point:06}"))
            }
            Self::OpenAppendClose | Self::KeptOpen => directory.join(format!("{point:06}")),
        }
    }
}

/// Writes a rank's rows of `steps` steps below `directory`, which exists.
///
/// The first step, which creates the files, counts as [`Phase::Create`]. Nothing is collective.
pub fn write(variant: Variant, directory: &Path, rows: &Rows, steps: u64, watch: &mut Stopwatch) -> io::Result<()> {
    let paths: Vec<PathBuf> = rows.points.iter().map(|&point| variant.path(directory, point)).collect();
    if variant == Variant::TwoLevelDirectories {
        // Every rank makes those it needs; another may be first.
        let mut parents: Vec<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
        parents.dedup();
        parents.into_iter().try_for_each(fs::create_dir_all)?;
    }
    if variant == Variant::KeptOpen {
        kept_open(&paths, rows, steps, watch)
    } else {
        reopened(&paths, rows, steps, watch)
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

fn reopened(paths: &[PathBuf], rows: &Rows, steps: u64, watch: &mut Stopwatch) -> io::Result<()> {
    for step in 0..steps {
        for (index, path) in paths.iter().enumerate() {
            append_to(path)?.write_all(&rows.record(index, step))?;
        }
        watch.lap(if step == 0 { Phase::Create } else { Phase::Write });
    }
    Ok(())
}

fn kept_open(paths: &[PathBuf], rows: &Rows, steps: u64, watch: &mut Stopwatch) -> io::Result<()> {
    let mut files = paths.iter().map(|path| append_to(path)).collect::<io::Result<Vec<_>>>()?;
    watch.lap(Phase::Create);
    for step in 0..steps {
        for (index, file) in files.iter_mut().enumerate() {
            file.write_all(&rows.record(index, step))?;
        }
    }
    watch.lap(Phase::Write);
    drop(files);
    watch.lap(Phase::Close);
    Ok(())
}

/// Reads the files of `rows` back; `Err` names the first that differs.
pub fn verify(variant: Variant, directory: &Path, rows: &Rows, steps: u64) -> Result<(), String> {
    for (index, &point) in rows.points.iter().enumerate() {
        let path = variant.path(directory, point);
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if bytes.len() as u64 != steps * RECORD_BYTES as u64 {
            return Err(format!("{} has {} bytes instead of {steps} records", path.display(), bytes.len()));
        }
        let wrong =
            (0..steps).zip(bytes.chunks_exact(RECORD_BYTES)).find(|(step, got)| **got != rows.record(index, *step));
        if let Some((step, _)) = wrong {
            return Err(format!("{} holds a wrong record at step {step}", path.display()));
        }
    }
    Ok(())
}
