//! Reductions under way among thread ranks.
//!
//! Each reduction that not all ranks have started stands in a queue; a rank that starts it adds its elements, and the
//! last takes it out and publishes the result. Whoever asks meanwhile reads one word and takes no lock.
//!
//! Invariants: the queue holds reductions `first..first + open.len()` in order; every rank starts them in this order, so
//! the oldest is complete first. What a rank contributed stays when its handle or its pending reduction is dropped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::group::Group;
use super::meeting::Call;
use crate::stall::StallWatch;
use crate::{CommError, PendingReduce, Reduce};

/// The result of a reduction, for all ranks.
type Outcome = Arc<OnceLock<Vec<Reduce>>>;

/// A reduction that not all ranks have started.
#[derive(Debug)]
struct Open {
    call: Call,
    first_rank: usize,
    sum: Vec<Reduce>,
    started: usize,
    outcome: Outcome,
}

impl Open {
    fn disagreement(&self, call: Call, rank: usize) -> Option<String> {
        (self.call != call).then(|| self.call.disagreement(self.first_rank, &call, rank))
    }
}

#[derive(Debug)]
struct State {
    /// Number of the oldest reduction in `open`.
    first: u64,
    open: VecDeque<Open>,
    /// How many each rank has started, indexed by rank.
    started: Vec<u64>,
    /// Ranks that have left, in the order in which they did.
    left: Vec<usize>,
    /// What ranks disagree about; once set, what is not complete fails.
    mismatch: Option<String>,
    sleepers: usize,
}

/// The reductions under way in a group.
#[derive(Debug)]
pub(super) struct Reductions {
    state: Mutex<State>,
    wake: Condvar,
    /// A rank has left or ranks disagree: who tests must look closer.
    troubled: AtomicBool,
}

impl Reductions {
    pub(super) fn new(size: usize) -> Self {
        let state = State {
            first: 0,
            open: VecDeque::new(),
            started: vec![0; size],
            left: Vec::new(),
            mismatch: None,
            sleepers: 0,
        };
        Self { state: Mutex::new(state), wake: Condvar::new(), troubled: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the elements of `rank` to its next reduction; returns its number and where the result will be.
    fn start(&self, rank: usize, call: Call, elements: Vec<Reduce>) -> Result<(u64, Outcome), CommError> {
        let mut state = self.lock();
        let number = state.started[rank];
        state.check(rank, call, number)?;
        let place = usize::try_from(number - state.first).expect("reductions under way fit in memory");
        if let Some(message) = state.open.get(place).and_then(|open| open.disagreement(call, rank)) {
            state.mismatch = Some(message);
            return Err(self.fail(state, rank, call, number));
        }
        if place == state.open.len() {
            let sum = elements.iter().map(|element| Reduce { value: element.op.identity(), ..*element }).collect();
            state.open.push_back(Open { call, first_rank: rank, sum, started: 0, outcome: Outcome::default() });
        }
        let open = &mut state.open[place];
        open.sum.iter_mut().zip(elements).for_each(|(sum, element)| sum.combine(element));
        open.started += 1;
        let outcome = Arc::clone(&open.outcome);
        let started = open.started;
        state.started[rank] += 1;
        if started == state.started.len() {
            let open = state.open.pop_front().expect("the oldest is complete first");
            state.first += 1;
            // Under the lock, so that nobody who found it unset goes to sleep after the wake-up.
            open.outcome.set(open.sum).expect("set once, by the last to start");
            let sleepers = state.sleepers;
            drop(state);
            if sleepers > 0 {
                self.wake.notify_all();
            }
        }
        Ok((number, outcome))
    }

    /// Tells those who wait of the trouble that `state` holds, and returns it as `rank` sees it.
    fn fail(&self, state: MutexGuard<'_, State>, rank: usize, call: Call, number: u64) -> CommError {
        self.troubled.store(true, Ordering::Release);
        let error = state.check(rank, call, number).expect_err("there is trouble");
        drop(state);
        self.wake.notify_all();
        error
    }

    /// Rank `rank` will start no more.
    pub(super) fn leave(&self, rank: usize) {
        let mut state = self.lock();
        state.left.push(rank);
        self.troubled.store(true, Ordering::Release);
        if state.sleepers > 0 {
            self.wake.notify_all();
        }
    }
}

impl State {
    /// Fails when reduction `number` cannot become complete.
    fn check(&self, rank: usize, call: Call, number: u64) -> Result<(), CommError> {
        if let Some(message) = &self.mismatch {
            return Err(CommError::Mismatch { call: call.name, message: message.clone() });
        }
        match self.left.iter().find(|&&peer| self.started[peer] <= number) {
            Some(&peer) => Err(CommError::PeerLeft { call: call.name, rank, peer }),
            None => Ok(()),
        }
    }

    /// Who has not started reduction `number`, in words.
    fn missing(&self, number: u64) -> String {
        super::names_of((0..self.started.len()).filter(|&rank| self.started[rank] <= number))
    }
}

/// One reduction, as one rank waits for it.
#[derive(Debug)]
pub(super) struct ThreadReduction {
    group: Arc<Group>,
    rank: usize,
    call: Call,
    number: u64,
    outcome: Outcome,
}

impl ThreadReduction {
    pub(super) fn start(group: &Arc<Group>, rank: usize, call: Call, elements: Vec<Reduce>) -> Result<Self, CommError> {
        let (number, outcome) = group.reductions.start(rank, call, elements)?;
        Ok(Self { group: Arc::clone(group), rank, call, number, outcome })
    }
}

impl PendingReduce for ThreadReduction {
    fn test(&mut self) -> Result<Option<Vec<Reduce>>, CommError> {
        if let Some(elements) = self.outcome.get() {
            return Ok(Some(elements.clone()));
        }
        let reductions = &self.group.reductions;
        if reductions.troubled.load(Ordering::Acquire) {
            let state = reductions.lock();
            // Complete meanwhile: what went wrong came later.
            if self.outcome.get().is_none() {
                state.check(self.rank, self.call, self.number)?;
            }
        }
        Ok(None)
    }

    fn wait(self: Box<Self>) -> Result<Vec<Reduce>, CommError> {
        let reductions = &self.group.reductions;
        let mut watch = None;
        let mut state = None;
        loop {
            if let Some(elements) = self.outcome.get() {
                return Ok(elements.clone());
            }
            let mut locked = state.take().unwrap_or_else(|| reductions.lock());
            if self.outcome.get().is_some() {
                continue;
            }
            locked.check(self.rank, self.call, self.number)?;
            let watch = watch.get_or_insert_with(StallWatch::start);
            locked.sleepers += 1;
            let wake = &reductions.wake;
            locked = match watch.sleep() {
                None => wake.wait(locked).unwrap_or_else(PoisonError::into_inner),
                Some(time) => wake.wait_timeout(locked, time).unwrap_or_else(PoisonError::into_inner).0,
            };
            locked.sleepers -= 1;
            if self.outcome.get().is_none() && watch.is_due() {
                watch.report(self.rank, self.call.name, &locked.missing(self.number));
            }
            state = Some(locked);
        }
    }
}
