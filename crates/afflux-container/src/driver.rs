//! The file driver that HDF5 writes through: every byte passes here on its way to storage, and may be kept back.
//!
//! HDF5 calls a driver (`H5FD_class_t`) for each read and write. Ours has three modes: while the file is being *built* (by HDF5, or
//! by us and then opened by it) its bytes are in memory; afterwards writes are *held* until a seal lets them go in an order of our choosing
//! ([`release_order`]); a *dead* file swallows whatever HDF5 still wants to write when it closes. So HDF5 itself never
//! touches the medium: the writer does, in plain Rust, with plain errors.
//!
//! This module answers for the C side and the held bytes. What is released when, and why that keeps the file openable, is
//! the writer's matter.

mod class;
mod held;
mod object_header;
mod state;
pub(crate) mod superblock;

pub(crate) use class::{DriverName, access_list, format_bounds};
pub(crate) use held::{EXTENT_RANK, HEADER_RANK, HeldBlock, release_order};
pub(crate) use state::{Allocation, SharedState};
