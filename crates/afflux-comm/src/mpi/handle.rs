//! An MPI communicator that is ours to free.

use std::ffi::c_int;

use mpi::ffi::{self, MPI_Comm};

use super::check;
use super::environment::is_finalized;
use super::errors::return_errors;
use crate::CommError;

/// Freed when the last who needs it is gone: the communicator's owner, or a reduction that is still under way (Open MPI
/// 4.1.4 crashes when a communicator is freed before its non-blocking collectives are complete, which the standard allows).
#[derive(Debug)]
pub(super) struct Handle(MPI_Comm);

impl Handle {
    /// Collective: a duplicate of `comm` whose errors are returned.
    pub(super) fn duplicate_of(comm: MPI_Comm, rank: usize) -> Result<Self, CommError> {
        let mut duplicate = comm;
        // SAFETY: `comm` is valid; all its ranks call this.
        check(unsafe { ffi::MPI_Comm_dup(comm, &raw mut duplicate) }, "MPI_Comm_dup", rank)?;
        Self::owning(duplicate, rank)
    }

    /// Collective: as [`Self::duplicate_of`], where ranks may make several at a time, each in its own order: `tag` (the same on
    /// all ranks) tells them apart.
    pub(super) fn duplicate_of_group(comm: MPI_Comm, tag: c_int, rank: usize) -> Result<Self, CommError> {
        // SAFETY: a constant to be overwritten.
        let mut group = unsafe { ffi::RSMPI_GROUP_EMPTY };
        // SAFETY: `comm` is valid.
        check(unsafe { ffi::MPI_Comm_group(comm, &raw mut group) }, "MPI_Comm_group", rank)?;
        let mut duplicate = comm;
        // SAFETY: the group of `comm` itself; all its ranks call this.
        let code = unsafe { ffi::MPI_Comm_create_group(comm, group, tag, &raw mut duplicate) };
        // SAFETY: made above, freed once.
        unsafe { ffi::MPI_Group_free(&raw mut group) };
        check(code, "MPI_Comm_create_group", rank)?;
        Self::owning(duplicate, rank)
    }

    /// Takes a communicator that was just made for us; its errors are returned from now on.
    pub(super) fn owning(comm: MPI_Comm, rank: usize) -> Result<Self, CommError> {
        let this = Self(comm);
        return_errors(comm, rank)?;
        Ok(this)
    }

    pub(super) fn get(&self) -> MPI_Comm {
        self.0
    }

    /// Lets MPI move what it still has under way for other ranks.
    pub(super) fn look_after(&self, rank: usize) -> Result<(), CommError> {
        let mut found: c_int = 0;
        // SAFETY: plain query of a valid communicator; no message is taken.
        let code = unsafe {
            ffi::MPI_Iprobe(ffi::RSMPI_ANY_SOURCE, ffi::RSMPI_ANY_TAG, self.0, &raw mut found, ffi::RSMPI_STATUS_IGNORE)
        };
        check(code, "MPI_Iprobe", rank)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // While unwinding the job is about to be aborted; a call that other ranks do not make could only hang.
        if !is_finalized() && !std::thread::panicking() {
            // SAFETY: ours, and no request uses it: each holds this handle.
            unsafe { ffi::MPI_Comm_free(&raw mut self.0) };
        }
    }
}
