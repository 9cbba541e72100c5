//! Where bytes land.
//!
//! [`Storage`] opens files by path, [`StorageFile`] reads and writes them at offsets. Everything above (the collective
//! engine and HDF5's own file driver alike) goes through these two traits, so that one faulty or counting storage sees every
//! byte. Raw file calls are named in this crate only.
//!
//! [`PosixStorage`] is the real one, [`MemoryStorage`] the one of tests and thread ranks.

pub mod conformance;
mod memory;
mod posix;
mod traits;

pub use memory::MemoryStorage;
pub use posix::PosixStorage;
pub use traits::{OpenMode, Storage, StorageFile, StorageFileExt};
