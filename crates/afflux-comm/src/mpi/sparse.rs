//! Messages whose receivers do not know who sends: the NBX protocol.
//!
//! T. Hoefler, C. Siebert, A. Lumsdaine, "Scalable communication protocols for dynamic sparse data exchange", PPoPP 2010.
//! Each rank sends synchronously (such a send is complete when the receiver has matched it), receives whatever comes,
//! enters a non-blocking barrier when its own sends are complete, and stops when the barrier is: then all messages of
//! all ranks have been matched.
//!
//! A rank may see the barrier late, when faster ranks already send in their next call; the tag, which alternates, keeps
//! those messages apart. A rank two calls ahead is not possible: the next call's barrier needs this rank.

use std::ffi::c_int;

use std::rc::Rc;

use mpi::ffi::{self, MPI_Message, MPI_Request};

use super::exchange::null_request;
use super::handle::Handle;
use super::pieces::Message;
use super::poll::{Lookout, Patience, Poll, empty_status, received_bytes, test, test_all, wait};
use super::{check, int};
use crate::{CommError, Received};

/// Where the exchange happens.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// For the messages.
    pub(super) messages: &'a Rc<Handle>,
    /// For the barrier.
    pub(super) barrier: &'a Rc<Handle>,
    /// Of the messages; another than in the call before and the call after.
    pub(super) tag: c_int,
}

/// Sends under way, with the bytes that MPI reads. Dropped before they are complete, they stay in memory.
struct Sends<'a> {
    place: Place<'a>,
    requests: Vec<MPI_Request>,
    bytes: Vec<Vec<u8>>,
    is_complete: bool,
}

impl Drop for Sends<'_> {
    fn drop(&mut self) {
        if !self.is_complete {
            std::mem::forget(std::mem::take(&mut self.bytes));
            std::mem::forget((Rc::clone(self.place.messages), Rc::clone(self.place.barrier)));
        }
    }
}

impl<'a> Sends<'a> {
    fn start(place: Place<'a>, rank: usize, sends: &[(usize, &[u8])]) -> Result<Self, CommError> {
        let mut this = Self { place, requests: Vec::new(), bytes: Vec::new(), is_complete: false };
        for &(destination, bytes) in sends {
            let bytes = bytes.to_vec();
            let message = Message::of_slices(&[&bytes], rank)?;
            let mut request = null_request();
            // SAFETY: the bytes are on the heap and kept until the request is complete, or for ever. MPI keeps the type.
            let code = unsafe {
                ffi::MPI_Issend(
                    message.address,
                    message.count,
                    message.datatype,
                    int(destination),
                    place.tag,
                    place.messages.get(),
                    &raw mut request,
                )
            };
            check(code, "MPI_Issend", rank)?;
            this.bytes.push(bytes);
            this.requests.push(request);
        }
        Ok(this)
    }
}

/// The exchange among other ranks; messages to itself are the caller's. If the wait turns out to be in vain, copies of the
/// messages stay in the hands of MPI.
pub(super) fn sparse_exchange(
    place: Place<'_>,
    patience: Patience,
    sends: &[(usize, &[u8])],
    lookout: &dyn Lookout,
) -> Result<Vec<Received>, CommError> {
    let rank = patience.rank;
    let mut sends = Sends::start(place, rank, sends)?;
    let mut received = Vec::new();
    let mut barrier = null_request();
    let mut in_barrier = false;
    let mut poll = Poll::new(patience, "sparse_exchange", false, lookout);
    loop {
        if let Some(message) = receive_next(place, patience, lookout)? {
            received.push(message);
            poll = Poll::new(patience, "sparse_exchange", false, lookout);
            continue;
        }
        if !in_barrier && test_all(rank, &mut sends.requests, "MPI_Issend")? {
            // SAFETY: all ranks of the communicator enter it, once a call.
            check(unsafe { ffi::MPI_Ibarrier(place.barrier.get(), &raw mut barrier) }, "MPI_Ibarrier", rank)?;
            in_barrier = true;
        } else if in_barrier && test(rank, &mut barrier, "MPI_Ibarrier")? {
            break;
        } else {
            poll.pause()?;
        }
    }
    sends.is_complete = true;
    received.sort_unstable_by_key(|message: &Received| message.source);
    Ok(received)
}

/// Receives one message with this tag, if there is one.
fn receive_next(place: Place<'_>, patience: Patience, lookout: &dyn Lookout) -> Result<Option<Received>, CommError> {
    let (comm, tag) = (place.messages.get(), place.tag);
    let rank = patience.rank;
    let mut found: c_int = 0;
    let mut status = empty_status();
    // SAFETY: a constant that the C shim initialises.
    let mut matched: MPI_Message = unsafe { ffi::RSMPI_MESSAGE_NULL };
    // SAFETY: plain call; the results are read only when MPI says that it found a message.
    let code = unsafe {
        ffi::MPI_Improbe(ffi::RSMPI_ANY_SOURCE, tag, comm, &raw mut found, &raw mut matched, &raw mut status)
    };
    check(code, "MPI_Improbe", rank)?;
    if found == 0 {
        return Ok(None);
    }
    let length = received_bytes(&status, rank)?;
    let mut bytes: Vec<u8> = Vec::with_capacity(length);
    let buffer = Message::into_memory(bytes.as_mut_ptr(), length, rank)?;
    let mut request = null_request();
    // SAFETY: the vector has the capacity and is kept until the request is complete.
    let code =
        unsafe { ffi::MPI_Imrecv(buffer.address, buffer.count, buffer.datatype, &raw mut matched, &raw mut request) };
    check(code, "MPI_Imrecv", rank)?;
    if let Err(error) = wait(patience, &mut request, "MPI_Imrecv", true, lookout) {
        // MPI may still write to it.
        std::mem::forget((bytes, buffer));
        return Err(error);
    }
    // SAFETY: MPI has written all `length` bytes of the matched message.
    unsafe { bytes.set_len(length) };
    let source = usize::try_from(status.MPI_SOURCE).expect("the source of a matched message is a rank");
    Ok(Some(Received { source, bytes }))
}
