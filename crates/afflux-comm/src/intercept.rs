//! A communicator around another, that asks an [`Interceptor`] before and after each call.
//!
//! The faulty and the counting communicator are interceptors; tests of other layers may bring their own. Communicators made
//! from it by `duplicate` and `split`, and its reductions under way, keep the interceptor.

use crate::{CommError, Communicator, NodeMap, NodeMemory, PendingReduce, Received, Reduce};

/// The calls of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CommOperation {
    /// [`Communicator::barrier`].
    Barrier,
    /// [`Communicator::broadcast`].
    Broadcast,
    /// [`Communicator::all_reduce`].
    AllReduce,
    /// [`Communicator::start_all_reduce`].
    StartAllReduce,
    /// The first test of a reduction under way, or the wait for it: not a collective call.
    CompleteReduce,
    /// [`Communicator::all_gather`].
    AllGather,
    /// [`Communicator::gather`].
    Gather,
    /// [`Communicator::scatter`].
    Scatter,
    /// [`Communicator::exclusive_sum`].
    ExclusiveSum,
    /// [`Communicator::sparse_exchange`].
    SparseExchange,
    /// [`Communicator::exchange`].
    Exchange,
    /// [`Communicator::duplicate`].
    Duplicate,
    /// [`Communicator::split`].
    Split,
    /// [`Communicator::node_memory`].
    NodeMemory,
}

impl CommOperation {
    /// The name of the trait's method.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::AllReduce => "all_reduce",
            Self::StartAllReduce => "start_all_reduce",
            Self::CompleteReduce => "wait",
            Self::AllGather => "all_gather",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::ExclusiveSum => "exclusive_sum",
            Self::SparseExchange => "sparse_exchange",
            Self::Exchange => "exchange",
            Self::Duplicate => "duplicate",
            Self::Split => "split",
            Self::NodeMemory => "node_memory",
        }
    }

    /// All ranks make it together, in the same order.
    #[must_use]
    pub fn is_collective(self) -> bool {
        self != Self::CompleteReduce
    }
}

/// One call, as an interceptor sees it.
#[derive(Debug, Clone, Copy)]
pub struct Intercepted {
    /// Which.
    pub operation: CommOperation,
    /// Messages that this rank hands to an exchange, those to itself included; 0 in other calls.
    pub sends: u64,
    /// Their bytes.
    pub sent_bytes: u64,
}

/// What is asked about every call.
///
/// Clones share what they keep: each communicator and reduction that comes of another has one.
pub trait Interceptor: Clone + 'static {
    /// Asked before the call. An error is returned in its stead, and the other ranks are told.
    ///
    /// # Errors
    /// Whatever the interceptor wants.
    fn before(&self, _call: &Intercepted, _rank: usize) -> Result<(), CommError> {
        Ok(())
    }

    /// Asked after the call, if it succeeded. An error replaces its result, and the other ranks are told, although they
    /// may have left the call with success.
    ///
    /// # Errors
    /// Whatever the interceptor wants.
    fn after(&self, _call: &Intercepted, _rank: usize) -> Result<(), CommError> {
        Ok(())
    }
}

/// A communicator whose calls pass an interceptor.
#[derive(Debug)]
pub struct InterceptedCommunicator<C, I> {
    inner: C,
    interceptor: I,
}

impl<C: Communicator, I: Interceptor> InterceptedCommunicator<C, I> {
    /// `inner` (a communicator, a box of one or a reference) behind `interceptor`.
    pub fn with(inner: C, interceptor: I) -> Self {
        Self { inner, interceptor }
    }

    /// The one that was given.
    pub fn interceptor(&self) -> &I {
        &self.interceptor
    }

    fn pass<T>(&self, operation: CommOperation, call: impl FnOnce(&C) -> Result<T, CommError>) -> Result<T, CommError> {
        self.pass_sends(Intercepted { operation, sends: 0, sent_bytes: 0 }, call)
    }

    fn pass_sends<T>(
        &self,
        intercepted: Intercepted,
        call: impl FnOnce(&C) -> Result<T, CommError>,
    ) -> Result<T, CommError> {
        let rank = self.inner.rank();
        let tell = |error: &CommError| self.inner.fail(&error.to_string());
        self.interceptor.before(&intercepted, rank).inspect_err(tell)?;
        let result = call(&self.inner)?;
        self.interceptor.after(&intercepted, rank).inspect_err(tell)?;
        Ok(result)
    }

    fn child(&self, comm: Box<dyn Communicator>) -> Box<dyn Communicator> {
        Box::new(InterceptedCommunicator { inner: comm, interceptor: self.interceptor.clone() })
    }
}

/// The bytes of all slices of all messages.
fn bytes_of<'a>(messages: impl Iterator<Item = &'a [&'a [u8]]>) -> u64 {
    messages.flatten().map(|slice| slice.len() as u64).sum()
}

impl<C: Communicator, I: Interceptor> Communicator for InterceptedCommunicator<C, I> {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.pass(CommOperation::Barrier, C::barrier)
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        self.pass(CommOperation::Broadcast, |comm| comm.broadcast(root, bytes))
    }

    fn all_reduce(&self, elements: &mut [Reduce]) -> Result<(), CommError> {
        self.pass(CommOperation::AllReduce, |comm| comm.all_reduce(elements))
    }

    fn start_all_reduce(&self, elements: Vec<Reduce>) -> Result<Box<dyn PendingReduce>, CommError> {
        let pending = self.pass(CommOperation::StartAllReduce, |comm| comm.start_all_reduce(elements))?;
        let (rank, interceptor) = (self.inner.rank(), self.interceptor.clone());
        Ok(Box::new(InterceptedReduce { pending, interceptor, rank, asked: false, complete: false }))
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.pass(CommOperation::AllGather, |comm| comm.all_gather(bytes))
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.pass(CommOperation::Gather, |comm| comm.gather(root, bytes))
    }

    fn scatter(&self, root: usize, messages: &[Vec<u8>]) -> Result<Vec<u8>, CommError> {
        self.pass(CommOperation::Scatter, |comm| comm.scatter(root, messages))
    }

    fn exclusive_sum(&self, value: u64) -> Result<u64, CommError> {
        self.pass(CommOperation::ExclusiveSum, |comm| comm.exclusive_sum(value))
    }

    fn sparse_exchange(&self, sends: &[(usize, &[u8])]) -> Result<Vec<Received>, CommError> {
        let sent_bytes = sends.iter().map(|send| send.1.len() as u64).sum();
        let operation = CommOperation::SparseExchange;
        let call = Intercepted { operation, sends: sends.len() as u64, sent_bytes };
        self.pass_sends(call, |comm| comm.sparse_exchange(sends))
    }

    fn exchange(&self, sends: &[(usize, &[&[u8]])], receives: &mut [(usize, &mut [u8])]) -> Result<(), CommError> {
        let sent_bytes = bytes_of(sends.iter().map(|send| send.1));
        let call = Intercepted { operation: CommOperation::Exchange, sends: sends.len() as u64, sent_bytes };
        self.pass_sends(call, |comm| comm.exchange(sends, receives))
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>, CommError> {
        Ok(self.child(self.pass(CommOperation::Duplicate, C::duplicate)?))
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>, CommError> {
        let part = self.pass(CommOperation::Split, |comm| comm.split(color, key))?;
        Ok(part.map(|comm| self.child(comm)))
    }

    fn node_memory(&self, bytes: usize) -> Result<Option<NodeMemory>, CommError> {
        self.pass(CommOperation::NodeMemory, |comm| comm.node_memory(bytes))
    }

    fn fail(&self, cause: &str) {
        self.inner.fail(cause);
    }

    fn look_around(&self, call: &'static str) -> Result<(), CommError> {
        self.inner.look_around(call)
    }

    fn spin_turns(&self) -> u32 {
        self.inner.spin_turns()
    }

    fn nodes(&self) -> &NodeMap {
        self.inner.nodes()
    }
}

/// A reduction under way, intercepted when it is first asked and when it is complete.
struct InterceptedReduce<I> {
    pending: Box<dyn PendingReduce>,
    interceptor: I,
    rank: usize,
    asked: bool,
    complete: bool,
}

const COMPLETE_REDUCE: Intercepted = Intercepted { operation: CommOperation::CompleteReduce, sends: 0, sent_bytes: 0 };

impl<I: Interceptor> InterceptedReduce<I> {
    fn ask(&mut self) -> Result<(), CommError> {
        if std::mem::replace(&mut self.asked, true) {
            return Ok(());
        }
        self.interceptor.before(&COMPLETE_REDUCE, self.rank).inspect_err(|error| self.pending.fail(&error.to_string()))
    }

    fn told(&mut self) -> Result<(), CommError> {
        if std::mem::replace(&mut self.complete, true) {
            return Ok(());
        }
        self.interceptor.after(&COMPLETE_REDUCE, self.rank).inspect_err(|error| self.pending.fail(&error.to_string()))
    }
}

impl<I: Interceptor> PendingReduce for InterceptedReduce<I> {
    fn test(&mut self) -> Result<Option<Vec<Reduce>>, CommError> {
        self.ask()?;
        let elements = self.pending.test()?;
        if elements.is_some() {
            self.told()?;
        }
        Ok(elements)
    }

    fn complete(&mut self) -> Result<Vec<Reduce>, CommError> {
        self.ask()?;
        let elements = self.pending.complete()?;
        self.told()?;
        Ok(elements)
    }

    fn fail(&self, cause: &str) {
        self.pending.fail(cause);
    }
}
