//! One collective call through shared memory: who may write where, and when others may read it.
//!
//! Each rank writes only its own slot of the turn's phase. Call number `n` uses phase `n % PHASES`. A rank begins when all
//! have left the call that used the phase before (`left`), writes, and reads another's slot when that rank, or all, have written
//! (`posted` by the root alone, `entered` by all); so nobody writes what another still reads, however fast it is.
//! Counters only grow, modulo 2^32: in the use `u` of a phase all have entered when `entered` has reached `size * (u + 1)`.
//!
//! Every rank counts every call of the communicator, and enters and leaves each exactly once. Slots say the call and its
//! number, so that ranks in different calls notice where they read each other. No length read from a slot is trusted.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Node, SLOT_BYTES};
use crate::stall::StallWatch;
use crate::{CommError, Gate};

/// Calls that may be under way at once: the root of a broadcast does not wait for the others unless this many are behind.
pub(super) const PHASES: usize = 4;
/// Turns of the spin loop before a rank with a core of its own sleeps, about 20 us: what a sleep and a wake-up cost.
const SPIN_TURNS: u32 = 2_000;
/// How long a rank sleeps before it looks after MPI for the first time: long for a collective, short for a person.
const NAP: Duration = Duration::from_millis(1);
/// The longest sleep between two such looks: their cost vanishes in it.
const NAP_MAX: Duration = Duration::from_millis(16);

/// The counters of a phase. All zeros at first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Phase {
    /// Ranks that have entered, over all uses of the phase.
    entered: Gate,
    /// How many uses the root has written in, this one included.
    posted: Gate,
    /// Ranks that have left, over all uses.
    left: Gate,
}

/// What stands before the bytes in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Head {
    /// The kind of call and its root or count, see [`super::Kind`].
    pub(super) call: u64,
    /// The number of the call on the communicator.
    pub(super) number: u64,
    /// Length of the message; it follows if it fits, else the ranks go on with MPI.
    pub(super) length: u64,
}

/// Bytes of a message that a slot holds.
pub(super) const PAYLOAD_BYTES: usize = SLOT_BYTES - size_of::<Head>();

/// This rank's part in one call. Dropping it leaves the call, also after an error.
pub(super) struct Turn<'a> {
    node: &'a Node,
    name: &'static str,
    call: u64,
    number: u64,
    phase: usize,
    /// Uses of the phase before this one, modulo 2^32.
    uses: u32,
    entered: bool,
}

impl<'a> Turn<'a> {
    /// Begins the next call; waits where another rank is [`PHASES`] calls behind.
    pub(super) fn begin(node: &'a Node, name: &'static str, call: u64) -> Result<Self, CommError> {
        let number = node.calls.get();
        node.calls.set(number + 1);
        let phases = PHASES as u64;
        let phase = usize::try_from(number % phases).expect("below PHASES");
        let uses = u32::try_from((number / phases) & u64::from(u32::MAX)).expect("masked to 32 bits");
        let turn = Self { node, name, call, number, phase, uses, entered: false };
        turn.wait(&turn.gates().left, turn.all(uses), |_| true)?;
        Ok(turn)
    }

    fn gates(&self) -> &Phase {
        self.node.phase(self.phase)
    }

    /// The value of `entered` and `left` when all ranks have done so `uses` times.
    fn all(&self, uses: u32) -> u32 {
        u32::try_from(self.node.size).expect("MPI ranks fit in 31 bits").wrapping_mul(uses)
    }

    /// Writes this rank's message, before [`Self::enter`]: the concatenation of `parts` where it fits, else `length` alone.
    pub(super) fn write(&self, length: usize, parts: &[&[u8]]) {
        debug_assert!(!self.entered, "a slot is written before others may read it");
        let slot = self.node.slot(self.phase, self.node.rank);
        let head = Head { call: self.call, number: self.number, length: length as u64 };
        // SAFETY: the slot is this rank's and aligned to a cache line, and all have left the call that used it last.
        unsafe { slot.cast::<Head>().write(head) };
        let mut offset = 0;
        for part in parts {
            assert!(part.len() <= PAYLOAD_BYTES - offset, "a message that fits its slot");
            // SAFETY: as above, and within the slot as just checked.
            unsafe {
                let place = payload(slot).add(offset);
                place.copy_from_nonoverlapping(NonNull::from(*part).cast(), part.len());
            }
            offset += part.len();
        }
    }

    /// Lets the others read what this rank wrote.
    pub(super) fn enter(&mut self) {
        self.entered = true;
        self.node.at(self.node.rank).store(self.number + 1, Ordering::Release);
        self.gates().entered.add(self.all(self.uses.wrapping_add(1)));
    }

    /// On the root: those who wait for it alone may read. Before [`Self::enter`].
    pub(super) fn post(&self) {
        self.gates().posted.set(self.uses.wrapping_add(1));
    }

    /// Waits until all ranks have entered.
    pub(super) fn wait_for_all(&self) -> Result<(), CommError> {
        self.wait(&self.gates().entered, self.all(self.uses.wrapping_add(1)), |_| true)
    }

    /// Waits until `root` has posted.
    pub(super) fn wait_for_root(&self, root: usize) -> Result<(), CommError> {
        self.wait(&self.gates().posted, self.uses.wrapping_add(1), |rank| rank == root)
    }

    /// The length of the message of `rank`, which has entered or posted.
    pub(super) fn length(&self, rank: usize) -> Result<usize, CommError> {
        // SAFETY: that rank wrote it before it entered, which this rank has seen; it writes again only after this rank left.
        let head = unsafe { self.node.slot(self.phase, rank).cast::<Head>().read() };
        if (head.call, head.number) != (self.call, self.number) {
            return Err(self.mismatch(format!("rank {rank} is in another call, or has another root or count")));
        }
        usize::try_from(head.length).map_err(|_| self.mismatch(format!("rank {rank} sends {} bytes", head.length)))
    }

    /// The bytes at `offset` of the message of `rank`, for which [`Self::length`] was asked, into `buffer`.
    pub(super) fn read(&self, rank: usize, offset: usize, buffer: &mut [u8]) {
        assert!(
            offset.checked_add(buffer.len()).is_some_and(|end| end <= PAYLOAD_BYTES),
            "what is read lies in the slot"
        );
        // SAFETY: within the slot as just checked; not written meanwhile, as in `length`.
        unsafe {
            let place = payload(self.node.slot(self.phase, rank)).add(offset);
            place.copy_to_nonoverlapping(NonNull::from(&mut *buffer).cast(), buffer.len());
        }
    }

    pub(super) fn mismatch(&self, message: String) -> CommError {
        CommError::Mismatch { call: self.name, message }
    }

    /// Returns when `gate` has reached `target`; `whom` are the ranks that it waits for, to name them in a warning.
    fn wait(&self, gate: &Gate, target: u32, whom: impl Fn(usize) -> bool) -> Result<(), CommError> {
        let spins = if self.node.patience.own_core { SPIN_TURNS } else { 0 };
        for _ in 0..spins {
            if gate.is_reached(target) {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let mut watch = None;
        let mut nap = NAP;
        while !gate.is_reached(target) {
            let watch = watch.get_or_insert_with(StallWatch::start);
            gate.sleep(target, nap);
            if gate.is_reached(target) {
                break;
            }
            self.node.look_after_mpi()?;
            nap = (2 * nap).min(NAP_MAX);
            if watch.is_due() {
                watch.report(self.node.patience.rank, self.name, &self.missing(&whom));
            }
        }
        Ok(())
    }

    /// Who of `whom` has not entered this call, in words.
    fn missing(&self, whom: impl Fn(usize) -> bool) -> String {
        let behind = |&rank: &usize| whom(rank) && self.node.at(rank).load(Ordering::Acquire) <= self.number;
        let missing: Vec<usize> = (0..self.node.size).filter(|rank| *rank != self.node.rank).filter(behind).collect();
        let names: Vec<_> = missing.iter().take(8).map(usize::to_string).collect();
        match missing.len() - names.len() {
            0 if names.is_empty() => "ranks that are still in an earlier call".to_owned(),
            0 => format!("rank {}", names.join(", ")),
            more => format!("rank {} and {more} more", names.join(", ")),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // A rank that unwinds before it entered has nothing that others could read: they wait, and the job is aborted.
        if self.entered {
            self.gates().left.add(self.all(self.uses.wrapping_add(1)));
        }
    }
}

/// Where the bytes of a slot begin.
fn payload(slot: NonNull<u8>) -> NonNull<u8> {
    // SAFETY: a slot is longer than its head.
    unsafe { slot.add(size_of::<Head>()) }
}
