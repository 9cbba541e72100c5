//! Reductions under way among MPI ranks: `MPI_Iallreduce`, looked at now and then.
//!
//! A look costs MPI a turn of its progress engine, so [`PendingReduce::test`] takes one at most every
//! [`LOOK_EVERY`]; between looks it reads the clock. What a rank drops unfinished is kept aside with its buffers, to
//! which MPI still writes, until it is complete; MPI is finalised after that.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mpi::ffi::{self, MPI_Request};

use super::apart::Apart;
use super::exchange::null_request;
use super::handle::Handle;
use super::poll::{Blind, Patience, Poll, test_all};
use super::shared::{POISON, RawReduce, Shared};
use super::{PIECE_BYTES_MAX, check, int};
use crate::{CommError, PendingReduce, Reduce};

/// Elements of a reduction in one MPI call.
pub(super) const REDUCE_ELEMENTS_MAX: usize = PIECE_BYTES_MAX / size_of::<RawReduce>();
/// The least time between two looks: long beside one (about 200 ns), short beside the time between two steps of the
/// algorithm where ranks are polled by a simulation.
const LOOK_EVERY: Duration = Duration::from_micros(5);

/// The requests of one reduction and the buffers that MPI reads and fills.
pub(super) struct Requests {
    handle: Rc<Handle>,
    rank: usize,
    elements: Vec<Reduce>,
    combined: Vec<RawReduce>,
    /// One for each [`REDUCE_ELEMENTS_MAX`] elements.
    requests: Vec<MPI_Request>,
}

impl Requests {
    /// Collective: starts the reduction of `elements`.
    pub(super) fn start(
        handle: &Rc<Handle>,
        shared: &Shared,
        rank: usize,
        elements: Vec<Reduce>,
    ) -> Result<Self, CommError> {
        let combined = vec![RawReduce { op: POISON, value: 0 }; elements.len()];
        let mut this = Self { handle: Rc::clone(handle), rank, elements, combined, requests: Vec::new() };
        let pieces = this.elements.chunks(REDUCE_ELEMENTS_MAX).zip(this.combined.chunks_mut(REDUCE_ELEMENTS_MAX));
        for (piece, combined) in pieces {
            let mut request = null_request();
            // SAFETY: `Reduce` has the layout of `RawReduce` (repr(C), repr(u64)); both buffers hold as many elements as
            // the count says. They lie on the heap and stay there, untouched, until the request is complete: dropping
            // `this` before that leaks them.
            let code = unsafe {
                ffi::MPI_Iallreduce(
                    piece.as_ptr().cast(),
                    combined.as_mut_ptr().cast(),
                    int(piece.len()),
                    shared.element_type,
                    shared.combine,
                    this.handle.get(),
                    &raw mut request,
                )
            };
            check(code, "MPI_Iallreduce", rank)?;
            this.requests.push(request);
        }
        Ok(this)
    }

    /// Whether it is complete, at the price of a look.
    fn look(&mut self) -> Result<bool, CommError> {
        let done = test_all(self.rank, &mut self.requests, "MPI_Iallreduce");
        if !matches!(done, Ok(false)) {
            self.requests.clear();
        }
        done
    }

    /// The result of a reduction that is complete.
    fn result(&self) -> Result<Vec<Reduce>, CommError> {
        debug_assert!(self.requests.is_empty(), "only a complete reduction has a result");
        combined(&self.elements, &self.combined)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            // MPI still reads and writes them, and the job is about to be aborted, or MPI has failed.
            std::mem::forget(std::mem::take(&mut self.elements));
            std::mem::forget(std::mem::take(&mut self.combined));
            std::mem::forget(Rc::clone(&self.handle));
        }
    }
}

/// `elements` with the values that MPI combined, if all ranks gave the same operations.
pub(super) fn combined(elements: &[Reduce], combined: &[RawReduce]) -> Result<Vec<Reduce>, CommError> {
    let pairs = elements.iter().zip(combined).enumerate();
    pairs
        .map(|(index, (element, raw))| {
            if raw.op != element.op as u64 {
                return Err(CommError::Mismatch {
                    call: "all_reduce",
                    message: format!("the operations of element {index} differ between ranks"),
                });
            }
            Ok(Reduce { op: element.op, value: raw.value })
        })
        .collect()
}

/// Reductions that were dropped unfinished.
#[derive(Default)]
pub(super) struct Abandoned(RefCell<Vec<Requests>>);

impl std::fmt::Debug for Abandoned {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Abandoned({})", self.0.borrow().len())
    }
}

impl Abandoned {
    /// Frees those that are complete by now. One whose look fails is leaked.
    pub(super) fn free_complete(&self) {
        self.0.borrow_mut().retain_mut(|requests| matches!(requests.look(), Ok(false)));
    }

    /// Waits until all are complete.
    pub(super) fn finish(&self) {
        self.free_complete();
        let Some(rank) = self.0.borrow().first().map(|requests| requests.rank) else { return };
        let patience = Patience { own_core: false, rank };
        let mut poll = Poll::new(patience, "a reduction that it gave up", false, &Blind);
        while !self.0.borrow().is_empty() {
            poll.pause().expect("nobody looks out");
            self.free_complete();
        }
    }
}

/// One reduction, as this rank waits for it.
pub(super) struct MpiReduction {
    /// `None` once dropped.
    requests: Option<Requests>,
    patience: Patience,
    looked: Option<Instant>,
    peers: Rc<Apart>,
    shared: Rc<Shared>,
}

impl MpiReduction {
    pub(super) fn new(requests: Requests, patience: Patience, peers: Rc<Apart>, shared: Rc<Shared>) -> Self {
        Self { requests: Some(requests), patience, looked: None, peers, shared }
    }

    fn look(&mut self) -> Result<bool, CommError> {
        self.requests.as_mut().expect("there until dropped").look()
    }

    fn result(&self) -> Result<Vec<Reduce>, CommError> {
        self.requests.as_ref().expect("there until dropped").result()
    }
}

impl PendingReduce for MpiReduction {
    fn test(&mut self) -> Result<Option<Vec<Reduce>>, CommError> {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now - looked < LOOK_EVERY) {
            return Ok(None);
        }
        if self.look()? {
            return self.result().map(Some);
        }
        self.looked = Some(now);
        Ok(None)
    }

    fn complete(&mut self) -> Result<Vec<Reduce>, CommError> {
        let mut poll = Poll::new(self.patience, "start_all_reduce", false, &Blind);
        while !self.look()? {
            poll.pause()?;
        }
        self.result()
    }

    fn fail(&self, cause: &str) {
        self.peers.fail_with(cause);
    }
}

impl Drop for MpiReduction {
    fn drop(&mut self) {
        if let Some(requests) = self.requests.take()
            && !requests.requests.is_empty()
            && !std::thread::panicking()
        {
            self.shared.abandoned.0.borrow_mut().push(requests);
        }
    }
}
