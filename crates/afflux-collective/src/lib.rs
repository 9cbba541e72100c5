//! Two-phase collective reads and writes of one shared file: carries the plans of `afflux-plan` out over a communicator
//! and a storage.
//!
//! [`CollectiveFile`] is the whole interface. Every call is collective and ends in one verdict: all ranks succeed, or all
//! return the same error. [`Path`] says how bytes travel, [`Hints`] tune it, [`AccessReport`] tells what was done.
//! [`oracle`] is the naive reference that tests compare with.
//!
//! # Which path, and why
//!
//! [`Path::Auto`] writes independently from a mean piece of 32 KiB on and reads so from 2 KiB on; else the ranks of a node
//! place their pieces into collective buffers in memory that they share, from which whole windows are written. With holes that must
//! not be touched each piece is a call of its own on either path. `examples/hpio.rs` measures HPIO's patterns, and
//! `tests/bench/mpiio_hpio.c` the same through MPI-IO; `examples/measure.rs` compares the paths.

mod choices;
mod copy;
mod error;
mod file;
mod foresight;
mod hints;
mod memory;
mod node;
mod options;
pub mod oracle;
mod survey;
mod traits;
mod transfer;
mod two_phase;
mod windows;

/// What [`CollectiveFile`] takes as the places of bytes in a file.
pub use afflux_plan::Extents;
/// What explanations are made of, see [`Hints::foresee`].
pub use afflux_plan::{
    AccessSummary, AggregatorIndex, ByteRange, FileDomains, FileTraits, Locks, Method, Rank, Throttle,
};
pub use error::{CollectiveError, IoOperation};
pub use file::{CollectiveFile, IN_FLIGHT_MAX, PendingAccess};
pub use foresight::{Foresight, Machine};
pub use hints::{HintError, HintFacts, HintReport, Hints, Toggle};
pub use options::{AccessReport, Holes, Part, Path, ReadOptions, ReadReport, Work, WriteOptions, WriteReport};
