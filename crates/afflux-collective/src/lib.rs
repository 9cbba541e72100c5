//! Two-phase collective reads and writes of one shared file: carries the plans of `afflux-plan` out over a communicator
//! and a storage.
//!
//! [`CollectiveFile`] is the whole interface. Every call is collective and ends in one verdict: all ranks succeed, or all
//! return the same error. [`Path`] says how bytes travel, [`Hints`] tune it, [`AccessReport`] tells what was done.
//! [`oracle`] is the naive reference that tests compare with.
//!
//! # Which path, and why
//!
//! `examples/measure.rs`, four thread ranks on two busy cores, 26 MiB a call, milliseconds (one run, medians of 15; read the
//! ratios). *plain* is one process writing the same bytes as one block; the disk's figures are those of its page cache.
//!
//! | write, pieces round robin | tmpfs plain | independent | two-phase | disk plain | independent | two-phase |
//! |---|---|---|---|---|---|---|
//! | one block a rank | 5.9 | 3.2 | 3.8 | 2.6 | 2.6 | 2.8 |
//! | 100,000 bytes | 3.4 | 2.5 | 5.1 | 2.6 | 3.0 | 3.5 |
//! | 16 KiB | 2.9 | 2.1 | 5.6 | 2.7 | 15.8 | 3.4 |
//! | 4 KiB | 5.5 | 4.7 | 13.0 | 2.8 | 55 | 4.2 |
//! | 1 KiB | 4.1 | 21 | 9.7 | 2.9 | 287 | 7.8 |
//! | 400 bytes | 3.0 | 45 | 7.5 | 6.4 | 775 | 12.9 |
//! | 64 bytes | 3.1 | 226 | 23 | 6.6 | 3,223 | 9.1 |
//! | 400 bytes, holes of 400 | 3.2 | 71 | 52 | 2.5 | 481 | 466 |
//!
//! (The tmpfs columns have `cb_buffer_size` 16 MiB, the disk's 1 MiB.) So [`Path::Auto`] writes independently from a mean
//! piece of 32 KiB on, and reads so from 2 KiB on. It loses up to 2.8 times in tmpfs between 4 and 32 KiB, and wins 4 to 13
//! times there on a disk. With holes that must not be touched each piece is a call of its own on either path.

mod error;
mod file;
mod hints;
mod memory;
mod options;
pub mod oracle;
mod transfer;
mod two_phase;

/// What [`CollectiveFile`] takes as the places of bytes in a file.
pub use afflux_plan::Extents;
pub use error::{CollectiveError, IoOperation};
pub use file::CollectiveFile;
pub use hints::{HintError, HintReport, Hints, Toggle};
pub use options::{AccessReport, Holes, Part, Path, ReadOptions, ReadReport, Work, WriteOptions, WriteReport};
