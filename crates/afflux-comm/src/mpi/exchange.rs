//! Messages whose lengths both sides know.

use mpi::ffi::{self, MPI_Comm, MPI_Request};

use super::pieces::Message;
use super::poll::{Patience, received_bytes, wait_each};
use super::{check, int, is_success, is_truncation};
use crate::CommError;

/// Requests under way, with the messages that they read or fill. Nothing borrowed may be touched before
/// [`Self::finish`]; dropping it waits too.
pub(super) struct Transfers {
    comm: MPI_Comm,
    patience: Patience,
    call: &'static str,
    requests: Vec<MPI_Request>,
    messages: Vec<Message>,
    /// For each request: the other rank, and the length expected where it receives.
    peers: Vec<(usize, Option<usize>)>,
}

impl Transfers {
    pub(super) fn new(comm: MPI_Comm, patience: Patience, call: &'static str) -> Self {
        Self { comm, patience, call, requests: Vec::new(), messages: Vec::new(), peers: Vec::new() }
    }

    /// Begins to receive `length` bytes of `source`.
    ///
    /// # Safety
    /// `address` is valid for writes of `length` bytes, and nobody else touches them, until `finish` or drop.
    pub(super) unsafe fn receive(
        &mut self,
        source: usize,
        address: *mut u8,
        length: usize,
        tag: i32,
    ) -> Result<(), CommError> {
        let rank = self.patience.rank;
        let message = Message::into_memory(address, length, rank)?;
        let mut request = null_request();
        // SAFETY: the caller keeps the memory, `messages` the type, until the request is over.
        let code = unsafe {
            ffi::MPI_Irecv(
                message.address,
                message.count,
                message.datatype,
                int(source),
                tag,
                self.comm,
                &raw mut request,
            )
        };
        check(code, "MPI_Irecv", rank)?;
        self.push(request, message, (source, Some(length)));
        Ok(())
    }

    /// Begins to send the concatenation of `slices` to `destination`.
    ///
    /// # Safety
    /// What the slices point to stays alive and unchanged until `finish` or drop.
    pub(super) unsafe fn send(&mut self, destination: usize, slices: &[&[u8]], tag: i32) -> Result<(), CommError> {
        let rank = self.patience.rank;
        let message = Message::of_slices(slices, rank)?;
        let mut request = null_request();
        // SAFETY: the caller keeps the bytes, `messages` the type and what was packed, until the request is over.
        let code = unsafe {
            ffi::MPI_Isend(
                message.address,
                message.count,
                message.datatype,
                int(destination),
                tag,
                self.comm,
                &raw mut request,
            )
        };
        check(code, "MPI_Isend", rank)?;
        self.push(request, message, (destination, None));
        Ok(())
    }

    fn push(&mut self, request: MPI_Request, message: Message, peer: (usize, Option<usize>)) {
        self.requests.push(request);
        self.messages.push(message);
        self.peers.push(peer);
    }

    /// Waits until all are over and returns the first error.
    pub(super) fn finish(mut self) -> Result<(), CommError> {
        let rank = self.patience.rank;
        let outcomes = wait_each(self.patience, &mut self.requests, self.call);
        self.requests.clear();
        for ((code, status), &(peer, expected)) in outcomes.iter().zip(&self.peers) {
            let mismatch = |found: String, expected: usize| CommError::Mismatch {
                call: self.call,
                message: format!("rank {peer} sends {found} bytes, rank {rank} expects {expected}"),
            };
            match expected {
                Some(expected) if !is_success(*code) && is_truncation(*code) => {
                    return Err(mismatch("more".to_owned(), expected));
                }
                _ => check(*code, self.call, rank)?,
            }
            if let Some(expected) = expected {
                let found = received_bytes(status, rank)?;
                if found != expected {
                    return Err(mismatch(found.to_string(), expected));
                }
            }
        }
        Ok(())
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        // After a failed post the others must still end before their buffers do.
        wait_each(self.patience, &mut self.requests, self.call);
    }
}

/// A request for MPI to fill.
pub(super) fn null_request() -> MPI_Request {
    // SAFETY: a constant that the C shim of the `mpi` crate initialises.
    unsafe { ffi::RSMPI_REQUEST_NULL }
}
