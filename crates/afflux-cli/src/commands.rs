//! The commands, one file each: its arguments, and what it does with them.

pub mod bench;
pub mod demo;
pub mod export;
pub mod fdtd;
pub mod info;
pub mod plan;
pub mod plot;
pub mod profile;
pub mod repair;
mod selection;
pub mod synth;
pub mod verify;
pub mod watch;

use crate::failure::Failure;
use afflux::file::{ReadError, SeriesFile};
use std::path::Path;

/// Opens an Afflux file for reading.
fn open(path: &Path) -> Result<SeriesFile, Failure> {
    SeriesFile::open(path).map_err(|error| read_failure(&error))
}

/// A file at fault is told from anything else that can go wrong in reading.
fn read_failure(error: &ReadError) -> Failure {
    if error.is_damage() { Failure::damaged(error) } else { Failure::failed(error) }
}

/// What a set is called when people are told about it.
fn set_label(name: &str) -> &str {
    if name.is_empty() { "the default set" } else { name }
}
