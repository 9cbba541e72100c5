//! What can go wrong in a collective access, and how one rank's failure becomes the same error on all of them.

use std::fmt;
use std::io;

use afflux_comm::CommError;
use afflux_comm::agree::Failure;

/// What was being done to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoOperation {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Opening or creating it.
    Open,
}

impl fmt::Display for IoOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Open => "opening",
        })
    }
}

/// The verdict of a failed collective access: equal on all ranks, but for [`CollectiveError::Comm`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// The file could not be read or written; from now on it refuses work.
    #[error("rank {rank}: the {operation} of {length_bytes} bytes at offset {offset} failed: {message}")]
    Io {
        /// The lowest rank that failed.
        rank: usize,
        /// What it did.
        operation: IoOperation,
        /// Where the failed transfer began.
        offset: u64,
        /// How long it was to be.
        length_bytes: u64,
        /// The operating system's error number, where it gave one (`ENOSPC`: the disk is full).
        errno: Option<i32>,
        /// The kind of error.
        kind: io::ErrorKind,
        /// Its text.
        message: String,
    },
    /// A rank came with a failure of the caller's own, see [`Part`](crate::Part).
    #[error("rank {rank}: {message}")]
    Caller {
        /// The lowest rank that failed.
        rank: usize,
        /// The caller's code.
        code: u32,
        /// The caller's message.
        message: String,
    },
    /// Two ranks write the same byte. Other file domains may have been written.
    #[error("ranks {first} and {second} both write the byte at offset {offset}")]
    Overlap {
        /// The lowest such byte of the aggregator with the lowest rank that found one.
        offset: u64,
        /// A rank that writes it.
        first: usize,
        /// The other.
        second: usize,
    },
    /// A rank's memory and extents do not fit together.
    #[error("rank {rank}: {message}")]
    Arguments {
        /// The lowest such rank.
        rank: usize,
        /// What does not fit.
        message: String,
    },
    /// This rank received something that is not a request or a verdict of ours: a fault in the program or its memory.
    #[error("received from rank {rank}: {message}")]
    Protocol {
        /// The rank it came from.
        rank: usize,
        /// What was received.
        message: String,
    },
    /// The ranks did not make the same call, or not with the same options and hints.
    #[error("ranks disagree in collective call {call}: {what} must be the same on all ranks")]
    Disagreement {
        /// The number of the call on this file, as this rank counts.
        call: u64,
        /// What differs.
        what: &'static str,
    },
    /// An earlier call failed in the file or between the ranks.
    #[error("the file refuses further work, because an earlier call failed: {cause}")]
    Failed {
        /// The first failure.
        cause: Box<CollectiveError>,
    },
    /// The ranks could not speak to one another.
    #[error(transparent)]
    Comm(#[from] CommError),
}

impl CollectiveError {
    /// The kind of the input/output error behind this one, if it is one: `StorageFull` for a full disk.
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Io { kind, .. } => Some(*kind),
            Self::Failed { cause } => cause.io_kind(),
            _ => None,
        }
    }

    /// Whether the file is to refuse further work.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Comm(_) | Self::Protocol { .. })
    }
}

/// One rank's failure, before the ranks have agreed on whose counts.
#[derive(Debug)]
pub(crate) enum LocalFailure {
    Caller { code: u32, message: String },
    Arguments(String),
    Overlap { offset: u64, first: usize, second: usize },
    Io { operation: IoOperation, offset: u64, length_bytes: u64, error: io::Error },
}

// Codes of the verdict. They travel between ranks of one program only.
const CALLER: u32 = 1;
const ARGUMENTS: u32 = 2;
const OVERLAP: u32 = 3;
const READ: u32 = 4;
const WRITE: u32 = 5;
const OPEN: u32 = 6;

// Errors that carry no number of the operating system: the completions of `afflux-storage` make these two.
const WRITE_ZERO: i32 = -1;
const UNEXPECTED_END: i32 = -2;
const OTHER: i32 = -3;
// Errors of storages that are not the operating system's.
const ALREADY_EXISTS: i32 = -4;
const NOT_FOUND: i32 = -5;

impl LocalFailure {
    /// The form in which [`afflux_comm::agree::agree`] carries it: fields on lines, the free text last.
    pub(crate) fn to_verdict(&self) -> (u32, String) {
        match self {
            Self::Caller { code, message } => (CALLER, format!("{code}\n{message}")),
            Self::Arguments(message) => (ARGUMENTS, message.clone()),
            Self::Overlap { offset, first, second } => (OVERLAP, format!("{offset}\n{first}\n{second}")),
            Self::Io { operation, offset, length_bytes, error } => {
                let code = match operation {
                    IoOperation::Read => READ,
                    IoOperation::Write => WRITE,
                    IoOperation::Open => OPEN,
                };
                let number = error.raw_os_error().unwrap_or(match error.kind() {
                    io::ErrorKind::WriteZero => WRITE_ZERO,
                    io::ErrorKind::UnexpectedEof => UNEXPECTED_END,
                    io::ErrorKind::AlreadyExists => ALREADY_EXISTS,
                    io::ErrorKind::NotFound => NOT_FOUND,
                    _ => OTHER,
                });
                (code, format!("{offset}\n{length_bytes}\n{number}\n{error}"))
            }
        }
    }
}

/// The error that every rank makes of the failure agreed on.
pub(crate) fn from_verdict(failure: &Failure) -> CollectiveError {
    let rank = failure.rank;
    parse(failure).unwrap_or_else(|| CollectiveError::Protocol {
        rank,
        message: format!("an unreadable verdict, code {}: {}", failure.code, failure.message),
    })
}

fn parse(failure: &Failure) -> Option<CollectiveError> {
    let (rank, message) = (failure.rank, failure.message.as_str());
    Some(match failure.code {
        CALLER => {
            let (code, message) = message.split_once('\n')?;
            CollectiveError::Caller { rank, code: code.parse().ok()?, message: message.to_owned() }
        }
        ARGUMENTS => CollectiveError::Arguments { rank, message: message.to_owned() },
        OVERLAP => {
            let mut fields = message.split('\n');
            CollectiveError::Overlap {
                offset: fields.next()?.parse().ok()?,
                first: fields.next()?.parse().ok()?,
                second: fields.next()?.parse().ok()?,
            }
        }
        READ | WRITE | OPEN => {
            let mut fields = message.splitn(4, '\n');
            let offset = fields.next()?.parse().ok()?;
            let length_bytes = fields.next()?.parse().ok()?;
            let number: i32 = fields.next()?.parse().ok()?;
            let (errno, kind) = match number {
                WRITE_ZERO => (None, io::ErrorKind::WriteZero),
                UNEXPECTED_END => (None, io::ErrorKind::UnexpectedEof),
                ALREADY_EXISTS => (None, io::ErrorKind::AlreadyExists),
                NOT_FOUND => (None, io::ErrorKind::NotFound),
                OTHER => (None, io::ErrorKind::Other),
                number => (Some(number), io::Error::from_raw_os_error(number).kind()),
            };
            let operation = match failure.code {
                READ => IoOperation::Read,
                WRITE => IoOperation::Write,
                _ => IoOperation::Open,
            };
            CollectiveError::Io {
                rank,
                operation,
                offset,
                length_bytes,
                errno,
                kind,
                message: fields.next()?.to_owned(),
            }
        }
        _ => return None,
    })
}
