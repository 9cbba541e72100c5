//! The collective calls under way in a group.
//!
//! Each call that not all ranks have entered stands in a queue, by its number. A rank that enters it leaves its part
//! there and is compared with the first to enter; the last rank to enter, or the root, publishes what the others came for.
//! Whoever waits, or asks, looks at the published result without a lock, and sleeps at most once a call. A tree would
//! spread the contention for the queue, but its inner ranks sleep and wake several times a call, and with fewer cores
//! than ranks the wake-ups are the cost.
//!
//! Invariants: the queue holds the calls `first..first + open.len()` in order, and every rank enters them in this order,
//! so the oldest is complete first; whoever waits for a call keeps it alive. A published result never changes. Whatever
//! makes calls fail (a rank that left, a failure) is recorded under the lock before the sleepers are woken.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::gate::Gate;
use super::group::Group;
use crate::stall::StallWatch;
use crate::{CommError, NodeMemory, Reduce};

/// Turns of the spin loop before a rank sleeps, about 20 us: the time that a sleep and a wake-up cost.
const SPIN_TURNS: u32 = 2_000;

/// What a rank believes a collective call to be; must agree on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// The trait's method.
    pub(super) name: &'static str,
    /// The root, or the number of elements; 0 where there is neither.
    pub(super) argument: usize,
    /// A hash of what else must agree.
    pub(super) digest: u64,
}

impl Call {
    /// How this call of `rank` and the other of `other_rank`, both number `number`, differ.
    fn disagreement(&self, rank: usize, other: &Self, other_rank: usize, number: u64) -> String {
        let describe = |call: &Self, rank: usize| format!("rank {rank} is in {} ({})", call.name, call.argument);
        let hint = if self.digest == other.digest { "" } else { "; their operations differ" };
        format!("{}, {}, both in call number {number}{hint}", describe(self, rank), describe(other, other_rank))
    }
}

/// What the ranks leave for each other in one call. Which fields are used depends on the call.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The elements of a reduction, combined as ranks enter.
    pub(super) elements: Vec<Reduce>,
    /// One number a rank, indexed by rank.
    pub(super) words: Vec<u64>,
    /// One message a rank, indexed by rank, or that of the root alone.
    pub(super) messages: Vec<Vec<u8>>,
    /// Messages that one rank takes away.
    pub(super) gathered: Mutex<Vec<Vec<u8>>>,
    /// Colour and key of each rank that joins a new group, indexed by rank.
    pub(super) colors: Vec<Option<(u32, u32)>>,
    /// The new group and the rank in it, indexed by rank.
    pub(super) groups: Vec<Option<(Arc<Group>, usize)>>,
    /// Memory that all ranks get.
    pub(super) memory: Option<NodeMemory>,
}

/// Whom a rank waits for in a call: it cannot succeed without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// Every rank.
    All,
    /// This one.
    Root(usize),
    /// Nobody: the rank only leaves its part.
    Nobody,
}

impl Awaited {
    fn includes(self, rank: usize) -> bool {
        match self {
            Self::All => true,
            Self::Root(root) => rank == root,
            Self::Nobody => false,
        }
    }
}

/// Who publishes what the ranks left; the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Publisher {
    /// The last rank to enter.
    Last,
    /// This one, as soon as it enters.
    Root(usize),
}

/// A call that a rank has entered.
#[derive(Debug)]
pub(super) struct Meeting {
    gate: Gate,
    published: OnceLock<Parts>,
}

impl Meeting {
    /// What the ranks left, if whoever is needed for it has come.
    pub(super) fn published(&self) -> Option<&Parts> {
        self.published.get()
    }
}

/// A rank's hold on a call that it has entered.
#[derive(Debug, Clone)]
pub(super) struct Entered {
    pub(super) meeting: Arc<Meeting>,
    pub(super) call: Call,
    pub(super) number: u64,
    rank: usize,
    awaited: Awaited,
    /// The gate as it was when all was well.
    seen: u32,
}

/// A call that not all ranks have entered.
#[derive(Debug)]
struct Open {
    call: Call,
    first_rank: usize,
    entered: usize,
    parts: Parts,
    meeting: Arc<Meeting>,
    /// Someone has already warned of it.
    warned: bool,
}

/// Why no call of the group can succeed any more.
#[derive(Debug)]
pub(super) struct Failure {
    /// The rank that failed.
    peer: usize,
    /// It found that ranks disagree.
    is_mismatch: bool,
    message: String,
}

/// What makes calls fail.
#[derive(Debug)]
enum Trouble {
    /// This rank has left: calls that it has not entered fail for those who await it.
    Left(usize),
    /// Every call fails.
    Failed(Failure),
}

#[derive(Debug)]
struct State {
    /// Number of the oldest call in `open`.
    first: u64,
    open: VecDeque<Open>,
    /// Calls that each rank has entered, indexed by rank.
    entered: Vec<u64>,
    /// In the order in which it came: the first is the cause of what followed. At most one failure is kept.
    troubles: Vec<Trouble>,
}

/// The collective calls under way in a group.
#[derive(Debug)]
pub(super) struct Calls {
    state: Mutex<State>,
    /// A rank has left or failed: whoever asks without the lock must look closer.
    troubled: AtomicBool,
    failed: AtomicBool,
    spin_turns: u32,
}

impl Calls {
    pub(super) fn new(size: usize) -> Self {
        let entered = vec![0; size];
        Self {
            state: Mutex::new(State { first: 0, open: VecDeque::new(), entered, troubles: Vec::new() }),
            troubled: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            spin_turns: if size <= cores() { SPIN_TURNS } else { 0 },
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the next call of `rank`, which will wait for `awaited`. Under the lock each rank runs `deposit`, and the
    /// `publisher` then `combine`.
    pub(super) fn enter(
        &self,
        rank: usize,
        call: Call,
        (awaited, publisher): (Awaited, Publisher),
        deposit: impl FnOnce(&mut Parts),
        combine: impl FnOnce(&mut Parts),
    ) -> Result<Entered, CommError> {
        let mut state = self.lock();
        let number = state.entered[rank];
        state.check(rank, &call, number, awaited)?;
        let place = usize::try_from(number - state.first).expect("calls under way fit in memory");
        if place == state.open.len() {
            state.open.push_back(Open::new(call, rank));
        }
        let size = state.entered.len();
        state.entered[rank] += 1;
        let open = &mut state.open[place];
        if open.call != call {
            let message = open.call.disagreement(open.first_rank, &call, rank, number);
            let error = CommError::Mismatch { call: call.name, message };
            state.fail(Failure::of_call(rank, &error));
            self.alarm(&state);
            return Err(error);
        }
        open.entered += 1;
        deposit(&mut open.parts);
        let is_last = open.entered == size;
        let publishes = match publisher {
            Publisher::Last => is_last,
            Publisher::Root(root) => root == rank,
        };
        if publishes {
            combine(&mut open.parts);
            let unpublished = open.meeting.published.set(std::mem::take(&mut open.parts));
            assert!(unpublished.is_ok(), "a call is published once");
        }
        let meeting = Arc::clone(&open.meeting);
        let entered = Entered { call, number, rank, awaited, seen: meeting.gate.state(), meeting };
        if is_last {
            state.open.pop_front();
            state.first += 1;
        }
        drop(state);
        if publishes {
            // After the lock is free: whoever woke earlier would only sleep again, at the lock.
            entered.meeting.gate.open();
        }
        Ok(entered)
    }

    /// Waits for what the rank entered the call for.
    pub(super) fn wait<'a>(&self, entered: &'a Entered) -> Result<&'a Parts, CommError> {
        let meeting = &*entered.meeting;
        for _ in 0..self.spin_turns {
            if meeting.published().is_some() {
                break;
            }
            std::hint::spin_loop();
        }
        let mut watch = None;
        let mut seen = entered.seen;
        loop {
            if let Some(parts) = meeting.published() {
                return Ok(parts);
            }
            let watch = watch.get_or_insert_with(StallWatch::start);
            meeting.gate.sleep(seen, watch.sleep());
            if meeting.published().is_some() {
                continue;
            }
            let mut state = self.lock();
            seen = meeting.gate.state();
            if meeting.published().is_none() {
                state.check(entered.rank, &entered.call, entered.number, entered.awaited)?;
                if watch.is_due() && state.may_warn(entered.number) {
                    watch.report(entered.rank, entered.call.name, &state.missing(entered.number, entered.awaited));
                }
            }
        }
    }

    /// Fails when the call cannot become complete any more; cheap when nothing is wrong.
    pub(super) fn check(&self, entered: &Entered) -> Result<(), CommError> {
        if !self.troubled.load(Ordering::Acquire) {
            return Ok(());
        }
        let state = self.lock();
        // Published meanwhile: what went wrong came later.
        if entered.meeting.published().is_some() {
            return Ok(());
        }
        state.check(entered.rank, &entered.call, entered.number, entered.awaited)
    }

    /// Whether the group has failed, without the lock.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// The error of `rank` in `call`, which needs the ranks that `awaits` says: the first of them to have left, or the
    /// group's failure, whichever came first.
    pub(super) fn trouble(&self, rank: usize, call: &'static str, awaits: impl Fn(usize) -> bool) -> Option<CommError> {
        self.lock().trouble(rank, call, awaits)
    }

    /// Turns of the spin loop before a rank sleeps.
    pub(super) fn spin_turns(&self) -> u32 {
        self.spin_turns
    }

    /// As [`Self::trouble`] where any rank has left; cheap when nothing is wrong.
    pub(super) fn any_trouble(&self, rank: usize, call: &'static str) -> Result<(), CommError> {
        if !self.troubled.load(Ordering::Acquire) {
            return Ok(());
        }
        self.trouble(rank, call, |_| true).map_or(Ok(()), Err)
    }

    /// Rank `rank` will enter no more calls.
    pub(super) fn leave(&self, rank: usize) {
        let mut state = self.lock();
        state.troubles.push(Trouble::Left(rank));
        self.alarm(&state);
    }

    /// No call of any rank succeeds any more. The first failure stands.
    pub(super) fn fail(&self, failure: Failure) {
        let mut state = self.lock();
        state.fail(failure);
        self.alarm(&state);
    }

    /// Lets those who wait look at the trouble that was recorded in `state`, which is locked.
    fn alarm(&self, state: &State) {
        self.troubled.store(true, Ordering::Release);
        self.failed.store(state.failure().is_some(), Ordering::Release);
        for open in &state.open {
            open.meeting.gate.disturb();
        }
    }
}

impl Open {
    fn new(call: Call, first_rank: usize) -> Self {
        let meeting = Arc::new(Meeting { gate: Gate::default(), published: OnceLock::new() });
        Self { call, first_rank, entered: 0, parts: Parts::default(), meeting, warned: false }
    }
}

impl Failure {
    /// A call of `peer` has failed.
    pub(super) fn of_call(peer: usize, error: &CommError) -> Self {
        match error {
            CommError::Mismatch { message, .. } => Self { peer, is_mismatch: true, message: message.clone() },
            error => Self { peer, is_mismatch: false, message: error.to_string() },
        }
    }

    /// `peer` gives the group up.
    pub(super) fn given_up(peer: usize, cause: &str) -> Self {
        Self { peer, is_mismatch: false, message: cause.to_owned() }
    }

    /// All ranks are told of a disagreement in the same words.
    fn seen_by(&self, rank: usize, call: &'static str) -> CommError {
        let message = self.message.clone();
        if self.is_mismatch {
            CommError::Mismatch { call, message }
        } else {
            CommError::PeerFailed { call, rank, peer: self.peer, message }
        }
    }
}

impl State {
    /// Fails when a rank that is awaited in the call will never enter it, or the group has failed.
    fn check(&self, rank: usize, call: &Call, number: u64, awaited: Awaited) -> Result<(), CommError> {
        let awaits = |peer: usize| awaited.includes(peer) && self.entered[peer] <= number;
        self.trouble(rank, call.name, awaits).map_or(Ok(()), Err)
    }

    fn trouble(&self, rank: usize, call: &'static str, awaits: impl Fn(usize) -> bool) -> Option<CommError> {
        self.troubles.iter().find_map(|trouble| match trouble {
            Trouble::Left(peer) => awaits(*peer).then_some(CommError::PeerLeft { call, rank, peer: *peer }),
            Trouble::Failed(failure) => Some(failure.seen_by(rank, call)),
        })
    }

    fn failure(&self) -> Option<&Failure> {
        self.troubles.iter().find_map(|trouble| match trouble {
            Trouble::Failed(failure) => Some(failure),
            Trouble::Left(_) => None,
        })
    }

    fn fail(&mut self, failure: Failure) {
        if self.failure().is_none() {
            self.troubles.push(Trouble::Failed(failure));
        }
    }

    /// True once a call.
    fn may_warn(&mut self, number: u64) -> bool {
        let place = usize::try_from(number - self.first).expect("a call that somebody waits for is open");
        !std::mem::replace(&mut self.open[place].warned, true)
    }

    /// Who of those awaited has not entered the call, in words.
    fn missing(&self, number: u64, awaited: Awaited) -> String {
        let missing = |rank: &usize| awaited.includes(*rank) && self.entered[*rank] <= number;
        super::names_of((0..self.entered.len()).filter(missing))
    }
}

/// Cores this process may use; 1 when the system does not say.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}
