//! The file: netCDF-4 on HDF5, openable at every instant.
//!
//! HDF5 gives the file its structure and allocates its chunks; the bytes of the samples are written by the collective engine
//! at the addresses this crate hands out. This crate is the only one that names HDF5, and one rank at most calls it.

pub mod checksum;
mod geometry;
mod spec;

pub use geometry::{DatasetIndex, SetGeometry};
pub use spec::{ElementType, FileSpec, PointTable, SetSpec, VariableSpec};
