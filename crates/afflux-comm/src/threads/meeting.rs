//! The meeting place of a group: all ranks deposit, the last to arrive combines, all collect.
//!
//! One lock and one condition variable serve the whole group. A tree would spread the contention, but its inner ranks
//! sleep and wake several times a call, and on machines with fewer cores than ranks the wake-ups are the cost: here
//! each rank sleeps at most once.
//!
//! Invariants: meeting `g` uses slot `g % 2`. Nobody arrives at `g + 2` before all have collected `g` (all must first
//! arrive at `g + 1`), so a slot is never overwritten while a slow rank still reads it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::group::Group;
use crate::stall::StallWatch;
use crate::{CommError, NodeMemory, Reduce};

/// Turns of the spin loop before a rank sleeps, about 20 us: the time that a sleep and a wake-up cost.
const SPIN_TURNS: u32 = 2_000;

/// What a rank believes the meeting to be; must agree on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// The trait's method.
    pub(super) name: &'static str,
    /// How many collective calls this rank made on the communicator before.
    pub(super) sequence: u64,
    /// The root, or the number of elements; 0 where there is neither.
    pub(super) argument: usize,
    /// A hash of what else must agree.
    pub(super) digest: u64,
}

impl Call {
    /// How this call of `rank` and the other of `other_rank` differ.
    pub(super) fn disagreement(&self, rank: usize, other: &Self, other_rank: usize) -> String {
        let describe = |call: &Self, rank: usize| {
            format!("rank {rank} is in {} ({}), its call number {}", call.name, call.argument, call.sequence)
        };
        let hint = if self.digest == other.digest { "" } else { "; their operations differ" };
        format!("{}, {}{hint}", describe(self, rank), describe(other, other_rank))
    }
}

/// What the ranks leave for each other in one meeting. Which fields are used depends on the call.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The elements of a reduction, combined as ranks arrive.
    pub(super) elements: Vec<Reduce>,
    /// One number a rank, indexed by rank.
    pub(super) words: Vec<u64>,
    /// One message a rank, indexed by rank.
    pub(super) messages: Vec<Vec<u8>>,
    /// A message, or one a rank, that all ranks read without holding the lock.
    pub(super) shared: Option<Arc<Vec<Vec<u8>>>>,
    /// Colour and key of each rank that joins a new group, indexed by rank.
    pub(super) colors: Vec<Option<(u32, u32)>>,
    /// The new group and the rank in it, indexed by rank.
    pub(super) groups: Vec<Option<(Arc<Group>, usize)>>,
    /// Memory that all ranks get.
    pub(super) memory: Option<NodeMemory>,
}

impl Slot {
    /// Empties the slot for the next meeting but keeps the small buffers.
    fn reset(&mut self) {
        self.elements.clear();
        self.words.clear();
        self.messages.clear();
        self.shared = None;
        self.colors.clear();
        self.groups.clear();
        self.memory = None;
    }
}

#[derive(Debug)]
struct State {
    /// Meetings that are complete; also kept in [`Meeting::completed`] for those who spin.
    completed: u64,
    slots: [Slot; 2],
    /// Ranks that have arrived at the meeting under way.
    arrived: usize,
    /// Meetings each rank has arrived at, indexed by rank.
    arrivals: Vec<u64>,
    /// The call of the first to arrive, and its rank.
    first: Option<(Call, usize)>,
    /// Ranks that sleep.
    sleepers: usize,
    /// The ranks that have left, in the order in which they did.
    left: Vec<usize>,
    /// What ranks disagree about; once set, every call fails.
    mismatch: Option<String>,
    /// A sleeper has already warned of the meeting under way.
    warned: bool,
}

#[derive(Debug)]
pub(super) struct Meeting {
    completed: AtomicU64,
    state: Mutex<State>,
    wake: Condvar,
    spin_turns: u32,
}

impl Meeting {
    pub(super) fn new(size: usize) -> Self {
        Self {
            completed: AtomicU64::new(0),
            state: Mutex::new(State {
                completed: 0,
                slots: [Slot::default(), Slot::default()],
                arrived: 0,
                arrivals: vec![0; size],
                first: None,
                sleepers: 0,
                left: Vec::new(),
                mismatch: None,
                warned: false,
            }),
            wake: Condvar::new(),
            spin_turns: if size <= cores() { SPIN_TURNS } else { 0 },
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Meets all ranks of the group. Under the lock each rank runs `deposit`, the last to arrive then `combine`, and
    /// after that each rank `collect`.
    pub(super) fn meet<R>(
        &self,
        rank: usize,
        call: Call,
        deposit: impl FnOnce(&mut Slot),
        combine: impl FnOnce(&mut Slot),
        collect: impl FnOnce(&mut Slot) -> R,
    ) -> Result<R, CommError> {
        let mut state = self.lock();
        let meeting = state.completed;
        let slot = usize::from(meeting % 2 == 1);
        state.check(rank, call)?;
        if state.arrived == 0 {
            state.first = Some((call, rank));
            state.slots[slot].reset();
        } else if let Some(message) = state.disagreement(rank, call) {
            state.mismatch = Some(message);
            self.wake.notify_all();
            state.check(rank, call)?;
        }
        state.arrivals[rank] += 1;
        state.arrived += 1;
        deposit(&mut state.slots[slot]);
        if state.arrived < state.arrivals.len() {
            state = self.wait(state, rank, call, meeting)?;
            return Ok(collect(&mut state.slots[slot]));
        }
        combine(&mut state.slots[slot]);
        let result = collect(&mut state.slots[slot]);
        state.arrived = 0;
        state.first = None;
        state.warned = false;
        state.completed += 1;
        let sleepers = state.sleepers;
        // The others are told after the lock is free: whoever woke earlier would only sleep again, at the lock.
        drop(state);
        self.completed.store(meeting + 1, Ordering::Release);
        if sleepers > 0 {
            self.wake.notify_all();
        }
        Ok(result)
    }

    /// Returns, with the lock, when `meeting` is complete.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        rank: usize,
        call: Call,
        meeting: u64,
    ) -> Result<MutexGuard<'a, State>, CommError> {
        if self.spin_turns > 0 {
            drop(state);
            for _ in 0..self.spin_turns {
                if self.completed.load(Ordering::Acquire) > meeting {
                    break;
                }
                std::hint::spin_loop();
            }
            state = self.lock();
        }
        let mut watch = None;
        while state.completed <= meeting {
            state.check(rank, call)?;
            let watch = watch.get_or_insert_with(StallWatch::start);
            state.sleepers += 1;
            state = match watch.sleep() {
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(time) => self.wake.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0,
            };
            state.sleepers -= 1;
            if state.completed <= meeting && watch.is_due() && !state.warned {
                state.warned = true;
                watch.report(rank, call.name, &state.missing());
            }
        }
        Ok(state)
    }

    /// Rank `rank` will not arrive any more.
    pub(super) fn leave(&self, rank: usize) {
        let mut state = self.lock();
        state.left.push(rank);
        if state.sleepers > 0 {
            self.wake.notify_all();
        }
    }
}

impl State {
    /// Fails when the meeting under way cannot become complete.
    fn check(&self, rank: usize, call: Call) -> Result<(), CommError> {
        if let Some(message) = &self.mismatch {
            return Err(CommError::Mismatch { call: call.name, message: message.clone() });
        }
        // The first to leave is the cause; others may have left because they missed it.
        if let Some(&peer) = self.left.iter().find(|&&peer| self.arrivals[peer] <= self.completed) {
            return Err(CommError::PeerLeft { call: call.name, rank, peer });
        }
        Ok(())
    }

    /// How this rank's call differs from that of the first to arrive.
    fn disagreement(&self, rank: usize, call: Call) -> Option<String> {
        let (first, first_rank) = self.first.as_ref()?;
        (*first != call).then(|| first.disagreement(*first_rank, &call, rank))
    }

    /// Who has not arrived, in words.
    fn missing(&self) -> String {
        super::names_of((0..self.arrivals.len()).filter(|&rank| self.arrivals[rank] <= self.completed))
    }
}

/// Cores this process may use; 1 when the system does not say.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}
