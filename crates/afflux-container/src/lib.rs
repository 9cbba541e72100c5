//! The file: netCDF-4 on HDF5, openable at every instant.
//!
//! A new file is laid out as HDF5 would build it; HDF5 opens it, allocates its chunks and keeps its structure; the bytes of the samples are written by the collective engine
//! at the addresses this crate hands out. This crate is the only one that names HDF5, and one rank at most calls it.

mod blueprint;
pub mod checksum;
mod create;
mod driver;
mod format;
mod geometry;
mod hdf;
mod image;
mod master;
mod names;
mod plain;
mod point_source;
mod reader;
mod repair;
mod serial;
mod spec;
mod writer;

pub use geometry::{DatasetIndex, SetGeometry};
pub use hdf::HdfError;
pub use master::{MasterError, group_path, write_master};
pub use names::SpecError;
pub use plain::read_plain_f64;
pub use point_source::{PointRow, PointSource};
pub use reader::{
    Block, FORMAT_VERSION, Fault, Finding, GroupInfo, ReadError, SEAL_WORDS, SealState, SeriesFile, SetInfo,
    VariableInfo, Verification, VerifyProgress, listed_groups, slot_checksum,
};
pub use repair::{RepairError, RepairReport, repair};
pub use serial::{SerialError, SerialWindow, SerialWriter};
pub use spec::{ElementType, FileSpec, PointTable, SetSpec, VariableSpec};
pub use writer::{
    CloseReport, ColumnChecksum, ContainerCounters, ContainerWriter, CreateError, DamagedColumn, Durability, Existing,
    NewColumn, ResumeCheck, ResumeError, Resumed, ResumedSet, Seal, WriteCount, WriteError,
};
