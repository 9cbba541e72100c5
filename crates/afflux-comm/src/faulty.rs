//! Makes another communicator fail when told to: the k-th call, call of a kind, or message of a rank, once or for good.
//!
//! Faults are injected on one rank and counted from there, over all communicators made from one another. A call that fails
//! is either not made at all, or made and reported as failed afterwards, when the others may have left it with
//! success: what a rank cannot know, and the layers above must survive. In both cases the others are told as after a
//! failure of the adapter itself ([what it can do](crate#when-a-call-fails)).

use std::cell::RefCell;
use std::rc::Rc;

use crate::intercept::{InterceptedCommunicator, Interceptor};
use crate::{CommError, CommOperation, Communicator, Intercepted};

/// What is counted down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommTarget {
    /// Calls of any kind.
    AnyCall,
    /// Calls of this kind.
    Call(CommOperation),
    /// Messages handed to exchanges: the call fails that would send the one counted.
    Send,
}

impl CommTarget {
    /// How many of it are in one call.
    fn count_in(self, call: &Intercepted) -> u64 {
        match self {
            Self::AnyCall => 1,
            Self::Call(operation) => u64::from(operation == call.operation),
            Self::Send => call.sends,
        }
    }
}

/// A fault to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommFault {
    target: CommTarget,
    countdown: u64,
    for_good: bool,
    afterwards: bool,
}

impl CommFault {
    /// The `nth` (from 1) of `target` fails, and is not made; what follows works again.
    ///
    /// # Panics
    /// If `nth` is 0.
    #[must_use]
    pub fn nth(target: CommTarget, nth: u64) -> Self {
        assert!(nth > 0, "calls are counted from 1");
        Self { target, countdown: nth, for_good: false, afterwards: false }
    }

    /// All later ones fail too.
    #[must_use]
    pub fn for_good(mut self) -> Self {
        self.for_good = true;
        self
    }

    /// The call is made, and fails on this rank when it has succeeded.
    #[must_use]
    pub fn afterwards(mut self) -> Self {
        self.afterwards = true;
        self
    }
}

#[derive(Debug, Default)]
struct State {
    faults: Vec<CommFault>,
    failures: u64,
}

/// The faults of a rank: clones share them.
#[derive(Debug, Clone, Default)]
pub struct CommFaults(Rc<RefCell<State>>);

impl CommFaults {
    /// Adds a fault, counted from now.
    pub fn inject(&self, fault: CommFault) {
        self.0.borrow_mut().faults.push(fault);
    }

    /// How many calls have failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.0.borrow().failures
    }

    /// Counts one call down for the faults of this moment.
    fn pass(&self, call: &Intercepted, rank: usize, afterwards: bool) -> Result<(), CommError> {
        let mut state = self.0.borrow_mut();
        let mut fails = false;
        state.faults.retain_mut(|fault| {
            let count = fault.target.count_in(call);
            if fault.afterwards != afterwards || count == 0 {
                return true;
            }
            let reached = fault.countdown <= count;
            fault.countdown = fault.countdown.saturating_sub(count);
            fails |= reached;
            fault.for_good || !reached
        });
        if !fails {
            return Ok(());
        }
        state.failures += 1;
        let message = format!("injected fault {}", if afterwards { "after the call" } else { "before the call" });
        Err(CommError::Transport { call: call.operation.name(), rank, message })
    }
}

impl Interceptor for CommFaults {
    fn before(&self, call: &Intercepted, rank: usize) -> Result<(), CommError> {
        self.pass(call, rank, false)
    }

    fn after(&self, call: &Intercepted, rank: usize) -> Result<(), CommError> {
        self.pass(call, rank, true)
    }
}

/// A communicator whose calls fail as its [`CommFaults`] say.
pub type FaultyCommunicator<C> = InterceptedCommunicator<C, CommFaults>;

impl<C: Communicator> FaultyCommunicator<C> {
    /// Without faults yet: inject them into `faults`, before or later.
    pub fn new(inner: C, faults: &CommFaults) -> Self {
        Self::with(inner, faults.clone())
    }
}
