//! The file: netCDF-4 on HDF5, openable at every instant.
//!
//! HDF5 gives the file its structure and allocates its chunks; the bytes of the samples are written by the collective engine
//! at the addresses this crate hands out. This crate is the only one that names HDF5, and one rank at most calls it.

pub mod checksum;
mod geometry;
mod reader;
mod spec;

pub use geometry::{DatasetIndex, SetGeometry};
pub use reader::{
    Block, FORMAT_VERSION, Fault, Finding, ReadError, SEAL_WORDS, SealState, SeriesFile, SetInfo, VariableInfo,
    Verification, VerifyProgress, slot_checksum,
};
pub use spec::{ElementType, FileSpec, PointTable, SetSpec, VariableSpec};
