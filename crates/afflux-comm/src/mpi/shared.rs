//! What communicators made from one another share: the type and operation of reductions, and MPI's life.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use mpi::ffi::{self, MPI_Datatype, MPI_Op};

use super::environment::{Environment, is_finalized};
use super::pieces::byte;
use super::reduction::Abandoned;
use super::{check, int};
use crate::CommError;

/// An operation that no rank asked for: what becomes of an element whose ranks disagree.
pub(super) const POISON: u64 = u64::MAX;

/// The operation of an element that must be equal on all ranks.
pub(super) const EQUAL: u64 = 3;

/// A [`Reduce`] whose operation may be anything.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct RawReduce {
    pub(super) op: u64,
    pub(super) value: u64,
}

/// What the communicators made from one share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) element_type: MPI_Datatype,
    pub(super) combine: MPI_Op,
    /// What was dropped before it was complete.
    pub(super) abandoned: Abandoned,
    /// Last, so that MPI is finalised after the above are freed.
    pub(super) environment: Rc<Environment>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !is_finalized() && !std::thread::panicking() {
            self.abandoned.finish();
            // SAFETY: both were created by `Shared::new` and are freed once, before MPI is finalised.
            unsafe {
                ffi::MPI_Op_free(&raw mut self.combine);
                ffi::MPI_Type_free(&raw mut self.element_type);
            }
        }
    }
}

impl Shared {
    pub(super) fn new(environment: Rc<Environment>) -> Result<Self, CommError> {
        let mut element_type = byte();
        // SAFETY: plain calls that create a type and an operation.
        let code = unsafe { ffi::MPI_Type_contiguous(int(size_of::<RawReduce>()), byte(), &raw mut element_type) };
        check(code, "MPI_Type_contiguous", 0)?;
        // SAFETY: the type was just created.
        check(unsafe { ffi::MPI_Type_commit(&raw mut element_type) }, "MPI_Type_commit", 0)?;
        // SAFETY: a constant that the C shim initialises.
        let mut combine = unsafe { ffi::RSMPI_SUM };
        // SAFETY: the function has MPI's signature, lives as long as the program and does not unwind.
        check(unsafe { ffi::MPI_Op_create(Some(combine_elements), 1, &raw mut combine) }, "MPI_Op_create", 0)?;
        Ok(Self { element_type, combine, abandoned: Abandoned::default(), environment })
    }
}

/// MPI's reduction function over the 16-byte element type: `inout[i] = in[i] op inout[i]`.
unsafe extern "C" fn combine_elements(
    input: *mut c_void,
    inout: *mut c_void,
    length: *mut c_int,
    _datatype: *mut MPI_Datatype,
) {
    // SAFETY: MPI passes a valid pointer to the count.
    let length = usize::try_from(unsafe { *length }).unwrap_or(0);
    let (input, inout) = (input.cast::<RawReduce>(), inout.cast::<RawReduce>());
    for index in 0..length {
        // SAFETY: MPI passes `length` elements in both buffers. It promises no alignment beyond that of bytes.
        unsafe {
            let other = input.add(index).read_unaligned();
            let mut mine = inout.add(index).read_unaligned();
            if mine.op != other.op || (mine.op == EQUAL && mine.value != other.value) {
                mine.op = POISON;
            }
            mine.value = match mine.op {
                0 => mine.value.wrapping_add(other.value),
                1 => mine.value.min(other.value),
                2 => mine.value.max(other.value),
                EQUAL => mine.value,
                _ => 0,
            };
            inout.add(index).write_unaligned(mine);
        }
    }
}
