//! Probe sets, windows, transposition, and the writer that keeps every step exactly once.
//!
//! The path of a row: [`SeriesWriter::append`] copies it into the window (step-major, per rank); when the window is full, a flush
//! grows the file by columns of chunks (rank 0, through `afflux-container`), transposes the window into the chunks' blocks,
//! writes them collectively (`afflux-collective`) and seals them. This crate knows steps, points and states; it names neither
//! MPI nor HDF5, and moves no byte to storage itself.

mod background;
mod buffer;
mod builder;
mod column_check;
mod directory;
mod error;
mod flight;
mod flush;
mod grid;
mod groups;
mod holdings;
mod job;
mod layout;
mod local_points;
mod local_set;
mod memory;
mod merge;
mod moves;
mod numbers;
mod open;
mod opening;
mod points;
mod probe_set;
mod rebalance;
mod registration;
mod registry;
mod replay;
mod resume;
mod route;
mod schedule;
mod settings;
mod signal;
pub mod state;
mod statistics;
mod transpose;
mod variable;
mod verdict;
mod window;
mod wire;
mod writer;

pub use afflux_container::{Durability, ResumeCheck};
pub use builder::{Existing, Replay, SeriesBuilder};
pub use error::{AppendError, Difference, FlushError, OpenError, RebalanceError};
pub use grid::{GridBlock, PointGrid};
pub use local_points::LocalPoints;
pub use memory::MemoryBound;
pub use points::{Point, StationsError, parse_stations, read_stations};
pub use probe_set::{Duplicates, Orphans, ProbeSet};
pub use rebalance::Rebalanced;
pub use signal::SealOnSignal;
pub use statistics::{PhaseSeconds, Statistics};
pub use variable::{Values, Variable};
pub use writer::{Appended, SeriesWriter, SetId};

/// A step of the simulation: the integer that, with a point's id, addresses a sample.
pub type Step = u64;

/// The largest step: steps and the cadences added to them stay far from the ends of the file's signed integers.
pub const STEP_MAX: Step = 1 << 62;

const _: () =
    assert!(cfg!(target_endian = "little"), "samples are written as they lie in memory, and the file is little-endian");
