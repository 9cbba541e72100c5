//! Where bytes land.
//!
//! [`Storage`] opens files by path, [`StorageFile`] reads and writes them at offsets. Everything above (the collective
//! engine and HDF5's own file driver alike) goes through these two traits, so that one faulty or counting storage sees every
//! byte. Raw file calls are named in this crate only.

mod traits;

pub use traits::{OpenMode, Storage, StorageFile, StorageFileExt};
