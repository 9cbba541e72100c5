//! Two-phase collective reads and writes of one shared file: carries the plans of `afflux-plan` out over a communicator
//! and a storage.
//!
//! [`CollectiveFile`] is the whole interface. Every call is collective and ends in one verdict: all ranks succeed, or all
//! return the same error. [`Path`] says how bytes travel, [`Hints`] tune it, [`AccessReport`] tells what was done.
//! [`oracle`] is the naive reference that tests compare with.

mod error;
mod file;
mod hints;
mod memory;
mod options;
pub mod oracle;
mod transfer;
mod two_phase;

pub use error::{CollectiveError, IoOperation};
pub use file::CollectiveFile;
pub use hints::{HintError, HintReport, Hints, Toggle};
pub use options::{AccessReport, Holes, Part, Path, ReadOptions, ReadReport, Work, WriteOptions, WriteReport};
