//! Where bytes land.
//!
//! [`Storage`] opens files by path, [`StorageFile`] reads and writes them at offsets. Everything above (the collective
//! engine and HDF5's own file driver alike) goes through these two traits, so that one faulty or counting storage sees every
//! byte. Raw file calls are named in this crate only.
//!
//! [`PosixStorage`] is the real one, [`MemoryStorage`] the one of tests and thread ranks. [`CountingStorage`] and
//! [`FaultyStorage`] wrap any other, and so does [`SyncedOnly`], which knows what a power failure would leave. [`conformance`] is the suite that all of them pass.

pub mod conformance;
mod counting;
mod faulty;
mod memory;
mod posix;
mod striping;
mod synced_only;
mod traits;

pub use counting::{CountingStorage, Counts};
pub use faulty::{Fault, FaultyStorage, Lasting, Operation, Roughness};
pub use memory::MemoryStorage;
pub use posix::PosixStorage;
pub use striping::{FileSystemKind, LayoutError, Striping, StripingRequest, lov_request, parse_lov};
pub use synced_only::SyncedOnly;
pub use traits::{OpenMode, Storage, StorageFile, StorageFileExt};
