//! What can go wrong when a file is created, and when one is written.

use crate::hdf::HdfError;
use crate::names::SpecError;
use std::io;
use std::path::PathBuf;

/// Why a file could not be created. Nothing is left under its name, nor under the temporary one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The description asks for something a file cannot have.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The name is taken and replacing was not asked for.
    #[error("{} exists already; say replace or resume, or choose another name", path.display())]
    Exists {
        /// The name.
        path: PathBuf,
    },
    /// The name is that of a directory, a device, a pipe, a socket or a link to nothing, which a new file must not replace.
    #[error(
        "{} is no regular file (but a directory, a device, a pipe or the like) and is not replaced; choose another name",
        path.display()
    )]
    NotAFile {
        /// The name.
        path: PathBuf,
    },
    /// Another writer has the file, or is creating it at this moment.
    #[error("{} is being written by another process", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The storage failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The fault.
        source: io::Error,
    },
    /// HDF5 failed while it built the file in memory.
    #[error("HDF5 could not build the file: {0}")]
    Hdf5(#[from] HdfError),
    /// HDF5 built something this crate does not know how to keep openable.
    #[error("this HDF5 built an unexpected file: {0}")]
    Unexpected(&'static str),
}

/// Why a file could not be written further. After any of these the writer refuses all work but being dropped; the file stays
/// as the last seal left it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The storage failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The fault.
        source: io::Error,
    },
    /// HDF5 failed.
    #[error("HDF5 could not extend {}: {source}", path.display())]
    Hdf5 {
        /// The file.
        path: PathBuf,
        /// HDF5's words.
        source: HdfError,
    },
    /// The file's own structures are broken.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is broken.
        what: String,
    },
    /// Another writer has taken the file over, which locks prevent where there are any.
    #[error(
        "{} has been taken over by another writer (its seal is of epoch {found_epoch} and sequence {found_sequence}, this \
         writer's of epoch {epoch} and sequence {sequence}); nothing more is written",
        path.display()
    )]
    TakenOver {
        /// The file.
        path: PathBuf,
        /// Epoch of this writer.
        epoch: u64,
        /// Epoch in the file.
        found_epoch: u64,
        /// Sequence number of this writer's last seal.
        sequence: u64,
        /// Sequence number of the seal in the file.
        found_sequence: u64,
    },
    /// An earlier call failed.
    #[error("{} is not written any more because of an earlier failure: {first}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The first failure.
        first: String,
    },
}

/// Why a file could not be resumed. Nothing of it was changed, but for [`ResumeError::Io`] and [`ResumeError::Hdf5`], after which it
/// is as a killed writer leaves it: another attempt may follow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The description asks for something a file cannot have.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// There is no such file: it is to be created.
    #[error("{} does not exist", path.display())]
    Missing {
        /// The name.
        path: PathBuf,
    },
    /// The name is that of something else than a regular file.
    #[error("{} is no regular file (but a directory, a device, a pipe or the like)", path.display())]
    NotAFile {
        /// The name.
        path: PathBuf,
    },
    /// Another program wrote the file.
    #[error("{} was not written by Afflux ({what}), so it cannot be resumed; choose another name", path.display())]
    NotAfflux {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
    /// Written in a format that this version does not know.
    #[error("{} has format version {found}, this Afflux writes version {supported}; resume it with the Afflux that wrote it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Version in the file.
        found: i32,
        /// Version this crate writes.
        supported: i32,
    },
    /// Another writer has the file.
    #[error("{} is being written by another process", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The run would write something else than what the file has.
    #[error("{} cannot be resumed by a run that differs from it: {}", path.display(), differences.join("; "))]
    Different {
        /// The file.
        path: PathBuf,
        /// Each difference in words, what the file has first.
        differences: Vec<String>,
    },
    /// The file was written by Afflux and something that a writer needs is broken.
    #[error("{} is damaged: {what}; see `afflux verify` and `afflux repair`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is broken.
        what: String,
    },
    /// The storage failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The fault.
        source: io::Error,
    },
    /// HDF5 failed.
    #[error("HDF5 could not open {} for writing: {source}", path.display())]
    Hdf5 {
        /// The file.
        path: PathBuf,
        /// HDF5's words.
        source: HdfError,
    },
}
