//! The other ranks of a communicator whose collective calls all go through MPI: of several nodes, or without shared memory.
//!
//! Counts the calls, and remembers that the communicator has failed on this rank.

use std::cell::{Cell, RefCell};

use super::call::Call;
use crate::{CommError, CommOperation};

/// What this rank knows of a communicator over MPI alone.
#[derive(Debug)]
pub(super) struct Apart {
    rank: usize,
    /// Calls that this rank has begun, modulo 2^32; equal on all ranks between calls.
    calls: Cell<u32>,
    failure: RefCell<Option<CommError>>,
}

impl Apart {
    pub(super) fn new(rank: usize) -> Self {
        Self { rank, calls: Cell::new(0), failure: RefCell::new(None) }
    }

    /// Begins a collective call. Fails when the communicator is spent.
    pub(super) fn begin(&self, operation: CommOperation, argument: usize) -> Result<Call, CommError> {
        let number = self.calls.get();
        self.calls.set(number.wrapping_add(1));
        match &*self.failure.borrow() {
            Some(failure) => Err(failure.clone()),
            None => Ok(Call { operation, argument: argument as u64, number }),
        }
    }

    /// Fails when the communicator is spent.
    pub(super) fn look_around(&self) -> Result<(), CommError> {
        self.failure.borrow().as_ref().map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// No call of the communicator succeeds any more on this rank.
    pub(super) fn fail(&self, error: &CommError) {
        self.failure.borrow_mut().get_or_insert_with(|| error.clone());
    }

    pub(super) fn fail_with(&self, cause: &str) {
        let message = cause.to_owned();
        self.fail(&CommError::PeerFailed { call: "fail", rank: self.rank, peer: self.rank, message });
    }
}
