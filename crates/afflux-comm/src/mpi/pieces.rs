//! How a message lies in memory, said to MPI.
//!
//! One slice below [`PIECE_BYTES_MAX`] goes to MPI as it is. Longer ones, and messages of several slices, become one
//! derived type of absolute addresses (`MPI_BOTTOM`), so that a pair of ranks always exchanges exactly one MPI message
//! whatever its length. Several short slices are packed instead: the datatype engine's work for each piece is then more
//! than a copy, and their description longer than themselves.

use std::ffi::{c_int, c_void};
use std::ptr;

use mpi::ffi::{self, MPI_Aint, MPI_Datatype};

use super::{PIECE_BYTES_MAX, check, int};
use crate::{CommError, bytes};

/// Messages of several slices up to this length are packed when their slices are short.
const PACK_BYTES_MAX: usize = 4 << 20;
/// Slices are short when their mean length is below this. Measured with Open MPI 4.1.4 and 4 MiB in all: a derived type is
/// twice to five times as fast as packing for slices of 1 KiB and 8 KiB, and no faster for 128 B.
const SHORT_SLICE_BYTES: usize = 512;

/// A message to send or a buffer to receive into: what an MPI call takes, and what must live as long as the request.
pub(super) struct Message {
    /// Address, count and type for MPI.
    pub(super) address: *mut c_void,
    pub(super) count: c_int,
    pub(super) datatype: MPI_Datatype,
    /// The type is ours to free.
    derived: bool,
    /// Keeps a packed message.
    _packed: Vec<u8>,
}

impl Message {
    /// The concatenation of `slices`, to be sent.
    pub(super) fn of_slices(slices: &[&[u8]], rank: usize) -> Result<Self, CommError> {
        let filled: Vec<&[u8]> = slices.iter().copied().filter(|slice| !slice.is_empty()).collect();
        match filled[..] {
            [] => Ok(Self::contiguous(&[])),
            [slice] if slice.len() <= PIECE_BYTES_MAX => Ok(Self::contiguous(slice)),
            _ if is_packed(&filled) => {
                let packed = filled.concat();
                // Moving the vector leaves its bytes where they are.
                let mut message = Self::contiguous(&packed);
                message._packed = packed;
                Ok(message)
            }
            _ => Self::derived(filled.iter().map(|slice| (slice.as_ptr(), slice.len())), rank),
        }
    }

    /// A buffer of `length` bytes to receive into; it need not be initialised.
    pub(super) fn into_memory(address: *mut u8, length: usize, rank: usize) -> Result<Self, CommError> {
        if length <= PIECE_BYTES_MAX {
            let count = int(length);
            return Ok(Self { address: address.cast(), count, datatype: byte(), derived: false, _packed: Vec::new() });
        }
        Self::derived(std::iter::once((address.cast_const(), length)), rank)
    }

    fn contiguous(slice: &[u8]) -> Self {
        let address = slice.as_ptr().cast_mut().cast();
        Self { address, count: int(slice.len()), datatype: byte(), derived: false, _packed: Vec::new() }
    }

    fn derived(pieces: impl Iterator<Item = (*const u8, usize)>, rank: usize) -> Result<Self, CommError> {
        let mut lengths: Vec<c_int> = Vec::new();
        let mut addresses: Vec<MPI_Aint> = Vec::new();
        for (address, length) in pieces {
            for start in (0..length).step_by(PIECE_BYTES_MAX) {
                lengths.push(int(PIECE_BYTES_MAX.min(length - start)));
                let mut absolute: MPI_Aint = 0;
                // SAFETY: the address lies in the slice; MPI only converts it.
                let code = unsafe { ffi::MPI_Get_address(address.wrapping_add(start).cast(), &raw mut absolute) };
                check(code, "MPI_Get_address", rank)?;
                addresses.push(absolute);
            }
        }
        let mut datatype = byte();
        // SAFETY: both arrays have as many entries as the count says.
        let code = unsafe {
            ffi::MPI_Type_create_hindexed(
                int(lengths.len()),
                lengths.as_ptr(),
                addresses.as_ptr(),
                byte(),
                &raw mut datatype,
            )
        };
        check(code, "MPI_Type_create_hindexed", rank)?;
        // MPI_BOTTOM is a null pointer in both libraries: addresses are absolute.
        let message = Self { address: ptr::null_mut(), count: 1, datatype, derived: true, _packed: Vec::new() };
        let mut committed = datatype;
        // SAFETY: the type was created above.
        let code = unsafe { ffi::MPI_Type_commit(&raw mut committed) };
        check(code, "MPI_Type_commit", rank)?;
        Ok(message)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if self.derived {
            // SAFETY: created by `derived`, freed once. MPI keeps it for requests that still use it.
            unsafe { ffi::MPI_Type_free(&raw mut self.datatype) };
        }
    }
}

/// Whether these slices are better copied together than described.
fn is_packed(slices: &[&[u8]]) -> bool {
    let total = bytes::total_bytes(slices);
    slices.len() > 1 && total <= PACK_BYTES_MAX && total / slices.len() < SHORT_SLICE_BYTES
}

/// MPI's type of one byte.
pub(super) fn byte() -> MPI_Datatype {
    // SAFETY: a constant that the C shim of the `mpi` crate initialises.
    unsafe { ffi::RSMPI_UINT8_T }
}
