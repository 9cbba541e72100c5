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
    /// An earlier call failed.
    #[error("{} is not written any more because of an earlier failure: {first}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The first failure.
        first: String,
    },
}
