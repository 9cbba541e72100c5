//! How one rank's failure to flush becomes the same error on all ranks: a code and a text that travel in the verdict.

use std::io;
use std::path::PathBuf;

use afflux_collective::{CollectiveError, IoOperation};
use afflux_comm::agree::Failure;

use crate::FlushError;
use crate::job::{JobError, WriteFailure};

/// A failure that travels as its message.
const MESSAGE: u32 = 0;
/// A write that failed: lines of offset, length, error number and path, and the system's words behind.
const WRITE: u32 = 1;

/// In the place of an error number, where the system gave none.
const NO_NUMBER: i32 = 0;

impl FlushError {
    /// A write of `rank` that failed.
    pub(crate) fn of_write(path: PathBuf, rank: usize, failure: &WriteFailure) -> Self {
        let WriteFailure { offset, length_bytes, error } = failure;
        let source = CollectiveError::Io {
            rank,
            operation: IoOperation::Write,
            offset: *offset,
            length_bytes: *length_bytes,
            errno: error.raw_os_error(),
            kind: error.kind(),
            message: error.to_string(),
        };
        Self::Write { path, source }
    }

    /// A job of `rank` that failed.
    pub(crate) fn of_job(path: PathBuf, rank: usize, error: JobError) -> Self {
        match error {
            JobError::Memory { bytes, source } => Self::Memory { bytes, source },
            JobError::Write(failure) => Self::of_write(path, rank, &failure),
            JobError::Sync(source) => Self::Sync { path, source },
        }
    }

    /// This rank's part of the verdict.
    pub(crate) fn to_verdict(&self) -> (u32, String) {
        match self {
            Self::Write { path, source: CollectiveError::Io { offset, length_bytes, errno, message, .. } } => {
                let number = errno.unwrap_or(NO_NUMBER);
                (WRITE, format!("{offset}\n{length_bytes}\n{number}\n{}\n{message}", path.display()))
            }
            error => (MESSAGE, error.to_string()),
        }
    }

    /// The error that the other ranks make of it.
    pub(crate) fn from_verdict(failure: Failure) -> Self {
        match failure.code {
            WRITE => Self::parse_write(&failure).unwrap_or_else(|| Self::elsewhere(failure)),
            _ => Self::elsewhere(failure),
        }
    }

    fn elsewhere(failure: Failure) -> Self {
        Self::Elsewhere { rank: failure.rank, message: failure.message }
    }

    fn parse_write(failure: &Failure) -> Option<Self> {
        let mut fields = failure.message.splitn(5, '\n');
        let offset = fields.next()?.parse().ok()?;
        let length_bytes = fields.next()?.parse().ok()?;
        let errno = fields.next()?.parse().ok().filter(|&number| number != NO_NUMBER);
        let path = fields.next()?.into();
        let kind = errno.map_or(io::ErrorKind::Other, |number| io::Error::from_raw_os_error(number).kind());
        let (operation, message) = (IoOperation::Write, fields.next()?.to_owned());
        let source = CollectiveError::Io { rank: failure.rank, operation, offset, length_bytes, errno, kind, message };
        Some(Self::Write { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_names_file_operation_and_rank() {
        let error = io::Error::from_raw_os_error(28);
        let own = FlushError::of_write("run.nc".into(), 2, &WriteFailure { offset: 4096, length_bytes: 400, error });
        let (code, message) = own.to_verdict();
        let other = FlushError::from_verdict(Failure { rank: 2, failed_ranks: 1, code, message });
        assert_eq!(own.to_string(), other.to_string());
        let text = other.to_string();
        for part in ["run.nc", "rank 2", "write of 400 bytes at offset 4096", "No space left"] {
            assert!(text.contains(part), "`{part}` in: {text}");
        }
        let FlushError::Write { source, .. } = other else { panic!("{other:?}") };
        assert_eq!(source.io_kind(), Some(io::ErrorKind::StorageFull));
    }

    #[test]
    fn what_has_no_form_of_its_own_travels_as_words() {
        let own = FlushError::RowMissing { set: "a".into(), step: 3, flush_step: 5 };
        let (code, message) = own.to_verdict();
        let other = FlushError::from_verdict(Failure { rank: 1, failed_ranks: 1, code, message });
        assert_eq!(other.to_string(), format!("{own} (rank 1)"));
    }
}
