//! Counts the calls, messages and bytes of a rank that pass through a communicator.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::intercept::{InterceptedCommunicator, Interceptor};
use crate::{CommError, CommOperation, Communicator, Intercepted};

/// What one rank has called and sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommCounts {
    /// How often each operation was called; those never called are absent.
    pub operations: BTreeMap<CommOperation, u64>,
    /// Messages that this rank handed to exchanges, those to itself included.
    pub sends: u64,
    /// Their bytes.
    pub sent_bytes: u64,
}

impl CommCounts {
    /// How often `operation` was called.
    #[must_use]
    pub fn of(&self, operation: CommOperation) -> u64 {
        self.operations.get(&operation).copied().unwrap_or_default()
    }

    /// Collective calls of all kinds.
    #[must_use]
    pub fn collective_calls(&self) -> u64 {
        self.operations.iter().filter(|(operation, _)| operation.is_collective()).map(|(_, count)| count).sum()
    }
}

/// The counter of a rank: clones share their numbers.
#[derive(Debug, Clone, Default)]
pub struct CommCounter(Rc<RefCell<CommCounts>>);

impl CommCounter {
    /// The numbers so far.
    #[must_use]
    pub fn counts(&self) -> CommCounts {
        self.0.borrow().clone()
    }

    /// Begins again at zero.
    pub fn reset(&self) {
        self.0.take();
    }
}

impl Interceptor for CommCounter {
    fn before(&self, call: &Intercepted, _rank: usize) -> Result<(), CommError> {
        let mut counts = self.0.borrow_mut();
        *counts.operations.entry(call.operation).or_default() += 1;
        counts.sends += call.sends;
        counts.sent_bytes += call.sent_bytes;
        Ok(())
    }
}

/// A communicator that counts what passes through it and through those made from it.
pub type CountingCommunicator<C> = InterceptedCommunicator<C, CommCounter>;

impl<C: Communicator> CountingCommunicator<C> {
    /// Counts for this rank, from zero.
    pub fn new(inner: C) -> Self {
        Self::with(inner, CommCounter::default())
    }

    /// The numbers so far.
    #[must_use]
    pub fn counts(&self) -> CommCounts {
        self.interceptor().counts()
    }
}
