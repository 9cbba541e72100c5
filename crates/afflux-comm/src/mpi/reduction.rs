//! Reductions under way among MPI ranks: `MPI_Iallreduce`, looked at now and then.
//!
//! A look costs MPI a turn of its progress engine, so [`PendingReduce::test`] takes one at most every
//! [`LOOK_EVERY`]; between looks it reads the clock. What a rank drops unfinished is kept aside with its buffers, to
//! which MPI still writes, until it is complete; MPI is finalised after that.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mpi::ffi::{self, MPI_Request};

use super::apart::{Apart, ApartLookout};
use super::call::Call;
use super::exchange::null_request;
use super::handle::Handle;
use super::poll::{Blind, Lookout, Patience, Poll, test_all};
use super::shared::{EQUAL, POISON, RawReduce, Shared};
use super::{PIECE_BYTES_MAX, check, int};
use crate::{CommError, PendingReduce, Reduce, ReduceOp};

/// Elements of a reduction in one MPI call.
const REDUCE_ELEMENTS_MAX: usize = PIECE_BYTES_MAX / size_of::<RawReduce>();
/// The least time between two looks: long beside one (about 200 ns), short beside the time between two steps of the
/// algorithm where ranks are polled by a simulation.
const LOOK_EVERY: Duration = Duration::from_micros(5);

/// The requests of one reduction and the buffers that MPI reads and fills.
pub(super) struct Requests {
    handle: Rc<Handle>,
    rank: usize,
    /// The call, in the first element, and the elements.
    given: Vec<RawReduce>,
    combined: Vec<RawReduce>,
    /// One for each [`REDUCE_ELEMENTS_MAX`] elements.
    requests: Vec<MPI_Request>,
}

impl Requests {
    /// Collective: starts the reduction of `elements` in the call of `word`, which all must be in.
    pub(super) fn start(
        handle: &Rc<Handle>,
        shared: &Shared,
        rank: usize,
        word: u64,
        elements: &[Reduce],
    ) -> Result<Self, CommError> {
        let given: Vec<_> = std::iter::once(RawReduce { op: EQUAL, value: word })
            .chain(elements.iter().map(|element| RawReduce { op: element.op as u64, value: element.value }))
            .collect();
        let combined = vec![RawReduce { op: POISON, value: 0 }; given.len()];
        let mut this = Self { handle: Rc::clone(handle), rank, given, combined, requests: Vec::new() };
        let pieces = this.given.chunks(REDUCE_ELEMENTS_MAX).zip(this.combined.chunks_mut(REDUCE_ELEMENTS_MAX));
        for (piece, combined) in pieces {
            let mut request = null_request();
            // SAFETY: both buffers hold as many elements as the count says. They lie on the heap and stay there, untouched,
            // until the request is complete: dropping `this` before that leaks them.
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

    /// Waits for the result. Where that is in vain, the buffers stay in the hands of MPI.
    pub(super) fn complete(
        mut self,
        patience: Patience,
        bulk: bool,
        lookout: &dyn Lookout,
    ) -> Result<Vec<Reduce>, CommError> {
        let mut poll = Poll::new(patience, "MPI_Iallreduce", bulk, lookout);
        while !self.look()? {
            poll.pause()?;
        }
        self.result()
    }

    /// The result of a reduction that is complete.
    fn result(&self) -> Result<Vec<Reduce>, CommError> {
        debug_assert!(self.requests.is_empty(), "only a complete reduction has a result");
        let (given_call, given) = self.given.split_first().expect("the call comes first");
        let (call, combined) = self.combined.split_first().expect("the call comes first");
        if (call.op, call.value) != (EQUAL, given_call.value) {
            return Err(another_call(given_call.value));
        }
        let mut result = Vec::with_capacity(given.len());
        for (index, (given, combined)) in given.iter().zip(combined).enumerate() {
            let op = [ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max].into_iter().find(|&op| op as u64 == combined.op);
            let op = op.filter(|&op| op as u64 == given.op).ok_or_else(|| CommError::Mismatch {
                call: "all_reduce",
                message: format!("the operations of element {index} differ between ranks"),
            })?;
            result.push(Reduce { op, value: combined.value });
        }
        Ok(result)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            // MPI still reads and writes them, and the job is about to be aborted, or MPI has failed.
            std::mem::forget(std::mem::take(&mut self.given));
            std::mem::forget(std::mem::take(&mut self.combined));
            std::mem::forget(Rc::clone(&self.handle));
        }
    }
}

/// What a rank received in the call of `word` is not of that call.
pub(super) fn another_call(word: u64) -> CommError {
    let Some(call) = Call::from_word(word) else {
        return CommError::Mismatch { call: "setup", message: "ranks set up different things".to_owned() };
    };
    let (name, argument, number) = (call.operation.name(), call.argument, call.number);
    let message = format!("what came in {name} ({argument}), call number {number}, is of another call");
    CommError::Mismatch { call: name, message }
}

/// Reductions that were dropped unfinished, with the ranks that they are among.
#[derive(Default)]
pub(super) struct Abandoned(RefCell<Vec<(Requests, Rc<Apart>)>>);

impl std::fmt::Debug for Abandoned {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Abandoned({})", self.0.borrow().len())
    }
}

impl Abandoned {
    fn push(&self, requests: Requests, peers: Rc<Apart>) {
        self.0.borrow_mut().push((requests, peers));
    }

    /// Frees those that are complete by now. One whose look fails, or whose communicator has failed, is leaked.
    pub(super) fn free_complete(&self) {
        self.0.borrow_mut().retain_mut(|(requests, peers)| {
            matches!(requests.look(), Ok(false)) && peers.check_failure("start_all_reduce").is_ok()
        });
    }

    /// Waits until all are complete.
    pub(super) fn finish(&self) {
        self.free_complete();
        let Some(rank) = self.0.borrow().first().map(|(requests, _)| requests.rank) else { return };
        let patience = Patience { own_core: false, rank };
        let mut poll = Poll::new(patience, "a reduction that it gave up", false, &Blind);
        while !self.0.borrow().is_empty() {
            poll.pause().expect("nobody looks out");
            for (_, peers) in &*self.0.borrow() {
                // An error shows in the look.
                let _ = peers.listen("start_all_reduce");
            }
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
    call: Option<Call>,
    peers: Rc<Apart>,
    shared: Rc<Shared>,
}

impl MpiReduction {
    pub(super) fn new(requests: Requests, patience: Patience, peers: Rc<Apart>, shared: Rc<Shared>) -> Self {
        Self { requests: Some(requests), patience, looked: None, call: peers.current(), peers, shared }
    }

    fn look(&mut self) -> Result<bool, CommError> {
        self.requests.as_mut().expect("there until dropped").look()
    }

    fn result(&self) -> Result<Vec<Reduce>, CommError> {
        self.requests.as_ref().expect("there until dropped").result()
    }

    fn test_checked(&mut self) -> Result<Option<Vec<Reduce>>, CommError> {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now - looked < LOOK_EVERY) {
            return Ok(None);
        }
        if self.look()? {
            return self.result().map(Some);
        }
        self.peers.listen("start_all_reduce")?;
        self.looked = Some(now);
        Ok(None)
    }

    fn complete_checked(&mut self) -> Result<Vec<Reduce>, CommError> {
        let peers = Rc::clone(&self.peers);
        let lookout = ApartLookout::of_reduction(&peers, self.call);
        let mut poll = Poll::new(self.patience, "start_all_reduce", false, &lookout);
        while !self.look()? {
            poll.pause()?;
        }
        self.result()
    }
}

impl PendingReduce for MpiReduction {
    fn test(&mut self) -> Result<Option<Vec<Reduce>>, CommError> {
        let outcome = self.test_checked();
        outcome.inspect_err(|error| self.peers.fail(error))
    }

    fn complete(&mut self) -> Result<Vec<Reduce>, CommError> {
        let outcome = self.complete_checked();
        outcome.inspect_err(|error| self.peers.fail(error))
    }

    fn fail(&self, cause: &str) {
        self.peers.fail_with(cause, false);
    }
}

impl Drop for MpiReduction {
    fn drop(&mut self) {
        if let Some(requests) = self.requests.take()
            && !requests.requests.is_empty()
            && !std::thread::panicking()
        {
            self.shared.abandoned.push(requests, Rc::clone(&self.peers));
        }
    }
}
