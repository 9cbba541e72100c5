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

use mpi::ffi::{self, MPI_Comm, MPI_Message};

use super::environment::end_job;
use super::exchange::null_request;
use super::pieces::Message;
use super::poll::{Lookout, Patience, Poll, empty_status, received_bytes, test, test_all, wait};
use super::{check, int};
use crate::{CommError, Received};

/// Where the exchange happens.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// For the messages.
    pub(super) comm: MPI_Comm,
    /// For the barrier.
    pub(super) barrier: MPI_Comm,
    /// Of the messages; another than in the call before and the call after.
    pub(super) tag: c_int,
}

/// The exchange among other ranks; messages to itself are the caller's. If the wait turns out to be in vain the job ends.
pub(super) fn sparse_exchange(
    place: Place,
    patience: Patience,
    sends: &[(usize, &[u8])],
    lookout: &dyn Lookout,
) -> Result<Vec<Received>, CommError> {
    let Place { comm, barrier: barrier_comm, tag } = place;
    let rank = patience.rank;
    let mut messages = Vec::with_capacity(sends.len());
    let mut requests = Vec::with_capacity(sends.len());
    for &(destination, bytes) in sends {
        let message = Message::of_slices(&[bytes], rank)?;
        let mut request = null_request();
        // SAFETY: `sends` and `messages` outlive the request: this function returns without an error only when it is
        // complete. (After an error of MPI nothing is promised about any request; the communicator is spent.)
        let code = unsafe {
            ffi::MPI_Issend(
                message.address,
                message.count,
                message.datatype,
                int(destination),
                tag,
                comm,
                &raw mut request,
            )
        };
        check(code, "MPI_Issend", rank)?;
        messages.push(message);
        requests.push(request);
    }
    let mut received = Vec::new();
    let mut barrier = null_request();
    let mut in_barrier = false;
    let mut poll = Poll::new(patience, "sparse_exchange", false, lookout);
    loop {
        if let Some(message) = receive_next(comm, patience, tag, lookout)? {
            received.push(message);
            poll = Poll::new(patience, "sparse_exchange", false, lookout);
            continue;
        }
        if !in_barrier && test_all(rank, &mut requests, "MPI_Issend")? {
            // SAFETY: all ranks of the communicator enter it, once a call.
            check(unsafe { ffi::MPI_Ibarrier(barrier_comm, &raw mut barrier) }, "MPI_Ibarrier", rank)?;
            in_barrier = true;
        } else if in_barrier && test(rank, &mut barrier, "MPI_Ibarrier")? {
            break;
        } else {
            poll.pause().unwrap_or_else(|error| end_job(rank, &error));
        }
    }
    received.sort_unstable_by_key(|message: &Received| message.source);
    Ok(received)
}

/// Receives one message with this tag, if there is one.
fn receive_next(
    comm: MPI_Comm,
    patience: Patience,
    tag: c_int,
    lookout: &dyn Lookout,
) -> Result<Option<Received>, CommError> {
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
        end_job(rank, &error);
    }
    // SAFETY: MPI has written all `length` bytes of the matched message.
    unsafe { bytes.set_len(length) };
    let source = usize::try_from(status.MPI_SOURCE).expect("the source of a matched message is a rank");
    Ok(Some(Received { source, bytes }))
}
