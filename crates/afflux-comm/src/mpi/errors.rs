//! Errors that MPI does not report on the communicator of the call.
//!
//! MPICH reports the failure of a finished request (a message longer than its buffer) on `MPI_COMM_SELF` or
//! `MPI_COMM_WORLD`, whose handlers end the job unless told otherwise. Where we started MPI both are told to return
//! errors, once. In a host program its handlers stay as they are, but for the time in which an exchange waits.

use mpi::ffi::{self, MPI_Comm, MPI_Errhandler};

use super::check;
use crate::CommError;

/// Lets `comm` return errors instead of ending the job.
pub(super) fn return_errors(comm: MPI_Comm, rank: usize) -> Result<(), CommError> {
    // SAFETY: `comm` is valid; the handler is a constant of MPI.
    let code = unsafe { ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN) };
    check(code, "MPI_Comm_set_errhandler", rank)
}

/// `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
fn predefined() -> [MPI_Comm; 2] {
    // SAFETY: constants that the C shim of the `mpi` crate initialises.
    unsafe { [ffi::RSMPI_COMM_WORLD, ffi::RSMPI_COMM_SELF] }
}

/// For the rest of the program.
pub(super) fn return_predefined_errors() -> Result<(), CommError> {
    predefined().into_iter().try_for_each(|comm| return_errors(comm, 0))
}

/// The predefined communicators return errors while this lives; then their handlers are as before.
pub(super) struct ReturnedErrors(Vec<(MPI_Comm, MPI_Errhandler)>);

impl ReturnedErrors {
    pub(super) fn new(rank: usize) -> Result<Self, CommError> {
        let mut saved = Self(Vec::with_capacity(2));
        for comm in predefined() {
            // SAFETY: a constant to be overwritten.
            let mut handler = unsafe { ffi::RSMPI_ERRORS_RETURN };
            // SAFETY: MPI is initialised, so both communicators are valid.
            let code = unsafe { ffi::MPI_Comm_get_errhandler(comm, &raw mut handler) };
            check(code, "MPI_Comm_get_errhandler", rank)?;
            saved.0.push((comm, handler));
            return_errors(comm, rank)?;
        }
        Ok(saved)
    }
}

impl Drop for ReturnedErrors {
    fn drop(&mut self) {
        for (comm, handler) in &mut self.0 {
            // SAFETY: the handler is the one that MPI_Comm_get_errhandler gave, which also asks to free it.
            unsafe {
                ffi::MPI_Comm_set_errhandler(*comm, *handler);
                ffi::MPI_Errhandler_free(handler);
            }
        }
    }
}
