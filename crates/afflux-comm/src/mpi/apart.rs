//! The other ranks of a communicator whose collective calls all go through MPI: of several nodes, or without shared memory.
//!
//! Counts the calls, remembers that the communicator has failed, and finds out by notices why a wait is in vain. A rank
//! asks when it has waited for half of the time after which it would warn: in an exchange those whose messages it
//! misses; in a collective call rank 0 asks all, and the others ask rank 0, so that the notices are as many as the ranks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::call::Call;
use super::notices::{Notices, Place, Told, Topic};
use super::poll::Lookout;
use crate::{CommError, CommOperation, stall};

/// How long a rank may be past the call in which another waits for it: data on a slow network is faster.
const DOUBT: Duration = Duration::from_secs(10);
/// How long a rank looks for the cause of an error.
const EXPLAIN: Duration = Duration::from_secs(1);
const EXPLAIN_NAP: Duration = Duration::from_micros(200);
/// The communicator from which all others are made.
const ROOT_ID: u64 = 1;

/// How the ranks of a communicator reach each other by notices.
#[derive(Debug)]
struct Line {
    notices: Rc<Notices>,
    topic: Rc<Topic>,
    /// The same on all ranks, and no other communicator's.
    id: u64,
    /// Whom notices are addressed to, indexed by rank here.
    addresses: Vec<u32>,
}

/// What this rank knows of a communicator over MPI alone.
#[derive(Debug)]
pub(super) struct Apart {
    rank: usize,
    /// Calls that this rank has begun, modulo 2^32; equal on all ranks between calls.
    calls: Cell<u32>,
    /// That which has begun last.
    current: Cell<Option<Call>>,
    failure: RefCell<Option<Told>>,
    line: Option<Line>,
}

impl Apart {
    /// Of ranks that cannot be asked.
    pub(super) fn alone(rank: usize) -> Self {
        Self { rank, calls: Cell::new(0), current: Cell::new(None), failure: RefCell::new(None), line: None }
    }

    /// Of the ranks to which `notices` are addressed.
    pub(super) fn root(rank: usize, size: usize, notices: Rc<Notices>) -> Self {
        let addresses = (0..size).map(|rank| u32::try_from(rank).expect("MPI ranks fit in 31 bits")).collect();
        Self::with_line(rank, ROOT_ID, addresses, notices)
    }

    fn with_line(rank: usize, id: u64, addresses: Vec<u32>, notices: Rc<Notices>) -> Self {
        let topic = notices.topic(id, rank);
        Self { line: Some(Line { notices, topic, id, addresses }), ..Self::alone(rank) }
    }

    /// For a communicator of `members` (ranks here, in their new order), of which this is `rank`, made in the last call.
    pub(super) fn child(&self, members: &[usize], rank: usize) -> Self {
        let Some(line) = &self.line else { return Self::alone(rank) };
        let lowest = members.iter().min().copied().unwrap_or_default() as u64;
        let id = [u64::from(self.calls.get()), lowest].iter().fold(line.id, |id, word| {
            // splitmix64: ids that differ in one word differ in all bits.
            let mut mixed = (id ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        });
        let addresses = members.iter().map(|&member| line.addresses[member]).collect();
        Self::with_line(rank, id, addresses, Rc::clone(&line.notices))
    }

    /// Begins a collective call. Fails when the communicator is spent.
    pub(super) fn begin(&self, operation: CommOperation, argument: usize) -> Result<(), CommError> {
        let number = self.calls.get();
        self.calls.set(number.wrapping_add(1));
        let call = Call { operation, argument: argument as u64, number };
        self.current.set(Some(call));
        self.check_failure(operation.name())?;
        if let Some(line) = &self.line {
            line.topic.enter(call.to_word(), number);
        }
        Ok(())
    }

    /// That which has begun last.
    pub(super) fn current(&self) -> Option<Call> {
        self.current.get()
    }

    /// Takes the notices that have come; fails when the communicator is spent.
    pub(super) fn listen(&self, call: &'static str) -> Result<(), CommError> {
        if let Some(line) = &self.line {
            line.notices.serve()?;
        }
        self.check_failure(call)
    }

    pub(super) fn check_failure(&self, call: &'static str) -> Result<(), CommError> {
        if self.failure.borrow().is_none()
            && let Some(told) = self.line.as_ref().and_then(|line| line.topic.told.borrow().clone())
        {
            self.failure.replace(Some(told));
        }
        match &*self.failure.borrow() {
            None => Ok(()),
            Some(Told { is_mismatch: true, message, .. }) => {
                Err(CommError::Mismatch { call, message: message.clone() })
            }
            Some(Told { peer, message, .. }) => {
                Err(CommError::PeerFailed { call, rank: self.rank, peer: *peer, message: message.clone() })
            }
        }
    }

    /// No call of the communicator succeeds any more, on any rank.
    pub(super) fn fail(&self, error: &CommError) {
        match error {
            CommError::Mismatch { message, .. } => self.fail_with(message, true),
            error => self.fail_with(&error.to_string(), false),
        }
    }

    /// As [`Self::fail`], for a cause that is no error of a call.
    pub(super) fn fail_with(&self, message: &str, is_mismatch: bool) {
        if self.failure.borrow().is_some() {
            return;
        }
        let told = Told { peer: self.rank, is_mismatch, message: message.to_owned() };
        if let Some(line) = &self.line {
            line.notices.tell_failure(line.id, &line.topic, &line.addresses, &told);
        }
        self.failure.replace(Some(told));
    }

    /// A better error for one that a different call of another rank may have caused, if that can be found out soon: calls of
    /// MPI that do not belong together take each other's messages, and what they say of it does not name the cause.
    pub(super) fn explain(&self, error: CommError) -> CommError {
        let (Some(line), Some(call)) = (&self.line, self.current.get()) else { return error };
        let may_be = match &error {
            CommError::Mismatch { .. } => call.operation != CommOperation::Exchange,
            CommError::Transport { .. } => true,
            _ => false,
        };
        if !may_be || self.failure.borrow().is_some() {
            return error;
        }
        let lookout = ApartLookout::new(self);
        lookout.ask_all(line);
        while lookout.started.elapsed() < EXPLAIN {
            if let Err(better) = self.listen(call.operation.name()).and_then(|()| lookout.judge(line, call)) {
                return better;
            }
            std::thread::sleep(EXPLAIN_NAP);
        }
        error
    }

    /// This rank makes no more calls: who has asked is told, now or when it ends.
    pub(super) fn leave(&self) {
        if let Some(line) = &self.line {
            line.topic.place.set(Place { has_left: true, ..line.topic.place.get() });
            // Nobody hears of an error here; who waits goes on waiting, and warns.
            let _ = line.notices.serve();
        }
    }
}

/// What a rank looks at while it waits for MPI in the call that has begun last.
pub(super) struct ApartLookout<'a> {
    apart: &'a Apart,
    /// `None` while the communicator is made.
    call: Option<Call>,
    /// A rank that is past the call has done its part.
    may_be_past: bool,
    started: Instant,
    /// Whom to ask; all ranks, or only rank 0, until the wait says for whom it is.
    peers: RefCell<Vec<usize>>,
    asked: Cell<Option<Instant>>,
    /// Since when one of them is past this call.
    doubt: Cell<Option<Instant>>,
}

impl<'a> ApartLookout<'a> {
    pub(super) fn new(apart: &'a Apart) -> Self {
        Self::of_call(apart, apart.current(), false)
    }

    /// For a reduction that was started in `call`: other ranks may have gone on since.
    pub(super) fn of_reduction(apart: &'a Apart, call: Option<Call>) -> Self {
        Self::of_call(apart, call, true)
    }

    fn of_call(apart: &'a Apart, call: Option<Call>, may_be_past: bool) -> Self {
        let size = apart.line.as_ref().map_or(0, |line| line.addresses.len());
        let peers = if apart.rank == 0 { (1..size).collect() } else { (0..size.min(1)).collect() };
        Self {
            apart,
            call,
            may_be_past,
            started: Instant::now(),
            peers: RefCell::new(peers),
            asked: Cell::new(None),
            doubt: Cell::new(None),
        }
    }

    /// Asks when half the time until the warning is over, and again in every such time: a rank that did not have the
    /// communicator yet does not answer.
    fn ask(&self, line: &Line) {
        let Some(after) = stall::warning_after() else { return };
        let since = self.asked.get().map_or(after, |asked| asked.elapsed());
        if self.started.elapsed() < after / 2 || since < after {
            return;
        }
        self.asked.set(Some(Instant::now()));
        self.ask_all(line);
    }

    fn ask_all(&self, line: &Line) {
        for &peer in &*self.peers.borrow() {
            line.notices.ask(line.id, &line.topic, line.addresses[peer]);
        }
    }

    /// What the answers say of the wait.
    fn judge(&self, line: &Line, call: Call) -> Result<(), CommError> {
        let mut doubtful = None;
        let (rank, name) = (self.apart.rank, call.operation.name());
        for &peer in &*self.peers.borrow() {
            let Some(&Place { word, has_left }) = line.topic.answers.borrow().get(&peer) else { continue };
            let other = Call::from_word(word);
            let lead = other.map_or(i32::MIN, |other| call.lead(other));
            match other {
                Some(other) if lead == 0 && other.to_word() != call.to_word() => {
                    let message = call.disagreement(rank, other, peer);
                    return Err(CommError::Mismatch { call: name, message });
                }
                _ if lead < 0 && has_left => return Err(CommError::PeerLeft { call: name, rank, peer }),
                _ if (lead > 0 || has_left) && !self.may_be_past => doubtful = Some(peer),
                _ => {}
            }
        }
        let Some(peer) = doubtful else { return Ok(()) };
        let since = self.doubt.get().unwrap_or_else(Instant::now);
        self.doubt.set(Some(since));
        if since.elapsed() < DOUBT {
            return Ok(());
        }
        let message = format!("rank {rank} waits for rank {peer} in {name}, which is past it");
        Err(CommError::Mismatch { call: name, message })
    }
}

impl Lookout for ApartLookout<'_> {
    fn wait_for(&self, peers: &mut dyn Iterator<Item = usize>) {
        *self.peers.borrow_mut() = peers.collect();
        self.asked.set(None);
    }

    fn look(&self) -> Result<(), CommError> {
        let (Some(line), Some(call)) = (&self.apart.line, self.call) else { return Ok(()) };
        self.apart.listen(call.operation.name())?;
        self.ask(line);
        self.judge(line, call)
    }

    fn call(&self) -> Option<Call> {
        self.call
    }

    fn whom(&self) -> String {
        let (Some(line), Some(call)) = (&self.apart.line, self.call) else {
            return "ranks that have not entered it or not sent".to_owned();
        };
        let answers = line.topic.answers.borrow();
        let is_here = |peer: &usize| {
            let word = answers.get(peer).map_or(0, |place| place.word);
            Call::from_word(word).is_some_and(|other| call.lead(other) >= 0)
        };
        let mut missing: Vec<usize> = self.peers.borrow().iter().copied().filter(|peer| !is_here(peer)).collect();
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return "ranks that rank 0 knows".to_owned();
        }
        super::names(&missing)
    }
}
