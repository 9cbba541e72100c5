//! Messages whose lengths both sides know.

use std::time::{Duration, Instant};

use mpi::ffi::{self, MPI_Comm, MPI_Request};

use super::environment::end_job;
use super::pieces::Message;
use super::poll::{Blind, Lookout, Outcome, Patience, received_bytes, test_each, wait_each};
use super::{check, int, is_success, is_truncation};
use crate::CommError;

/// How long a rank tries to get rid of what it has under way, once it knows that another has failed.
const GRACE: Duration = Duration::from_secs(1);
/// Sleep between two polls then.
const TAKE_BACK_NAP: Duration = Duration::from_micros(100);

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

    /// Waits until all are over and returns the first error. Where the lookout says that this is in vain, what can be
    /// taken back is; if messages remain in the hands of MPI, whose memory is the caller's, the job ends.
    pub(super) fn finish(mut self, lookout: &dyn Lookout) -> Result<(), CommError> {
        let rank = self.patience.rank;
        let mut outcomes = vec![None; self.requests.len()];
        let peers = |index: usize| self.peers[index].0;
        let waited = wait_each(self.patience, &mut self.requests, &mut outcomes, self.call, &peers, lookout);
        if let Err(error) = waited {
            self.take_back(&mut outcomes, &error);
            self.requests.clear();
            return Err(error);
        }
        self.requests.clear();
        for ((code, status), &(peer, expected)) in outcomes.iter().flatten().zip(&self.peers) {
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

    /// Cancels what is received; a message that is sent cannot be cancelled in either library, but may still be taken.
    fn take_back(&mut self, outcomes: &mut [Option<Outcome>], error: &CommError) {
        let mut pending: Vec<usize> = (0..self.requests.len()).filter(|&index| outcomes[index].is_none()).collect();
        for &index in &pending {
            if self.peers[index].1.is_some() {
                // SAFETY: a receive that is under way; it is tested until it is over.
                unsafe { ffi::MPI_Cancel(&raw mut self.requests[index]) };
            }
        }
        let started = Instant::now();
        while !pending.is_empty() {
            if test_each(&mut self.requests, outcomes, &mut pending) {
                continue;
            }
            if started.elapsed() > GRACE {
                end_job(self.patience.rank, error);
            }
            std::thread::sleep(TAKE_BACK_NAP);
        }
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        // After a failed post the others must still end before their buffers do.
        let mut outcomes = vec![None; self.requests.len()];
        let peers = |index: usize| self.peers[index].0;
        let _ = wait_each(self.patience, &mut self.requests, &mut outcomes, self.call, &peers, &Blind);
    }
}

/// A request for MPI to fill.
pub(super) fn null_request() -> MPI_Request {
    // SAFETY: a constant that the C shim of the `mpi` crate initialises.
    unsafe { ffi::RSMPI_REQUEST_NULL }
}
