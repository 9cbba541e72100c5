//! What can go wrong when a file is read, and what the person in front of it can do.

use std::path::PathBuf;
use thiserror::Error;

/// Why an Afflux file could not be opened or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system refused the file, or HDF5 its name.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The bytes are not those of an HDF5 file.
    #[error("{} is not an HDF5 file ({found}); Afflux reads the files that it wrote, usually named .nc", path.display())]
    NotHdf5 {
        /// The file.
        path: PathBuf,
        /// What it seems to be instead.
        found: &'static str,
    },
    /// A sound HDF5 file that Afflux did not write.
    #[error("{} is an HDF5 file, but not one written by Afflux ({what}); open it with ncdump, h5dump or xarray", path.display())]
    NotAfflux {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
    /// Written in a format that this version does not know.
    #[error(
        "{} has format version {found}, this Afflux reads version {supported}; read it with the newer Afflux that wrote it",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Version in the file.
        found: i32,
        /// Version this crate reads.
        supported: i32,
    },
    /// The file was written by Afflux and something in it is broken.
    #[error(
        "{} is damaged: {what}; `afflux verify` lists the damage as far as the file opens; take it from a copy, or save what \
         h5dump or xarray still show",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is broken, with the names of set and dataset where there are any.
        what: String,
    },
    /// Something was asked for that the file does not have.
    #[error("no {what} {asked}: the file has {available}")]
    OutOfRange {
        /// Set, variable, point, component, rows.
        what: &'static str,
        /// What was asked for.
        asked: String,
        /// What there is.
        available: String,
    },
    /// The answer does not fit into memory.
    #[error("{bytes} bytes of memory are needed at once and cannot be had; ask for fewer rows or points")]
    Memory {
        /// Bytes asked for.
        bytes: u64,
    },
}

impl ReadError {
    /// Whether the file itself is at fault (exit code 3 of the command line).
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}
