//! One collective call through shared memory: who may write where, and when others may read it.
//!
//! Each rank writes only its own slot of the turn's phase. Turn number `n` uses phase `n % PHASES`. A rank begins when all
//! have left the turn that used the phase before (`left`), writes, and reads another's slot when that rank, or all, have written
//! (`posted` by the root alone, `entered` by all); so nobody writes what another still reads, however fast it is.
//!
//! Every rank enters and leaves each turn exactly once. Slots say which call they are of, and each rank compares its own with
//! the first rank's before it enters: a turn that all have entered is the same call of all. No length read from a slot
//! is trusted.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Node;
use super::layout::{PHASES, SLOT_BYTES};
use super::phase::Phase;
use crate::mpi::call::Call;
use crate::stall::StallWatch;
use crate::{CommError, CommOperation, Gate};

/// Turns of the spin loop before a rank with a core of its own sleeps, about 20 us: what a sleep and a wake-up cost.
pub(in crate::mpi) const SPIN_TURNS: u32 = 2_000;
/// How long a rank sleeps before it looks after MPI for the first time: long for a collective, short for a person.
const NAP: Duration = Duration::from_millis(1);
/// The longest sleep between two such looks: their cost vanishes in it.
const NAP_MAX: Duration = Duration::from_millis(16);

/// What stands before the bytes in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Head {
    /// The [`Call`].
    call: u64,
    /// Length of the message; it follows if it fits, else the ranks go on with MPI.
    length: u64,
}

/// Bytes of a message that a slot holds.
pub(super) const PAYLOAD_BYTES: usize = SLOT_BYTES - size_of::<Head>();

/// This rank's part in one call. Dropping it leaves the turn, also after an error.
pub(super) struct Turn<'a> {
    node: &'a Node,
    call: Call,
    number: u64,
    phase: usize,
    /// Uses of the phase before this one, modulo 2^32.
    uses: u32,
    written: bool,
    entered: bool,
}

impl<'a> Turn<'a> {
    /// Begins the next call; waits where another rank is [`PHASES`] turns behind.
    pub(super) fn begin(node: &'a Node, operation: CommOperation, argument: usize) -> Result<Self, CommError> {
        let call = node.begin(operation, argument)?;
        let number = node.turns.get();
        node.turns.set(number + 1);
        let phases = PHASES as u64;
        let phase = usize::try_from(number % phases).expect("below PHASES");
        let uses = u32::try_from((number / phases) & u64::from(u32::MAX)).expect("masked to 32 bits");
        let turn = Self { node, call, number, phase, uses, written: false, entered: false };
        if let Some(before) = number.checked_sub(phases) {
            turn.wait(&turn.gates().left, turn.all(uses), before, |_| true)?;
        }
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
    pub(super) fn write(&mut self, length: usize, parts: &[&[u8]]) {
        debug_assert!(!self.entered, "a slot is written before others may read it");
        let slot = self.node.slot(self.phase, self.node.rank);
        let head = Head { call: self.call.to_word(), length: length as u64 };
        // SAFETY: the slot is this rank's and aligned to a cache line, and all have left the turn that used it last.
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
        self.written = true;
    }

    /// The head of the slot of `rank`, which has said that it may be read.
    fn head(&self, rank: usize) -> Head {
        // SAFETY: that rank wrote it before it said so, which this rank has seen; it writes again only after this rank left.
        unsafe { self.node.slot(self.phase, rank).cast::<Head>().read() }
    }

    /// On the root: those who wait for it alone may read, before it enters. The first rank's call is compared before.
    pub(super) fn post(&mut self) -> Result<(), CommError> {
        self.compare()?;
        self.gates().posted.set(self.uses.wrapping_add(1));
        Ok(())
    }

    /// Compares this rank's call with that of the first to come.
    fn compare(&mut self) -> Result<(), CommError> {
        if !self.written {
            self.write(0, &[]);
        }
        let first = self.gates().first(self.uses, self.node.rank);
        if first == self.node.rank {
            return Ok(());
        }
        let head = self.head(first);
        if head.call == self.call.to_word() {
            return Ok(());
        }
        let other = Call::from_word(head.call);
        Err(self.mismatch(other.map_or_else(
            || format!("rank {first} wrote no call"),
            |other| other.disagreement(first, self.call, self.node.rank),
        )))
    }

    /// Lets the others read what this rank wrote, if its call is that of the first to come.
    pub(super) fn enter(&mut self) -> Result<(), CommError> {
        self.compare()?;
        self.entered = true;
        self.node.line(self.node.rank).turns.store(self.number + 1, Ordering::Release);
        self.gates().entered.add(self.all(self.uses.wrapping_add(1)));
        Ok(())
    }

    /// Waits until all ranks have entered.
    pub(super) fn wait_for_all(&self) -> Result<(), CommError> {
        self.wait(&self.gates().entered, self.all(self.uses.wrapping_add(1)), self.number, |_| true)
    }

    /// Waits until `root` has posted.
    pub(super) fn wait_for_root(&self, root: usize) -> Result<(), CommError> {
        self.wait(&self.gates().posted, self.uses.wrapping_add(1), self.number, |rank| rank == root)
    }

    /// The length of the message of `rank`, which has entered or posted.
    pub(super) fn length(&self, rank: usize) -> Result<usize, CommError> {
        let length = self.head(rank).length;
        usize::try_from(length).map_err(|_| self.mismatch(format!("rank {rank} sends {length} bytes")))
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
        CommError::Mismatch { call: self.call.operation.name(), message }
    }

    /// Returns when `gate` has reached `target`, for which those of `whom` are waited for who have not entered `turn` yet.
    fn wait(&self, gate: &Gate, target: u32, turn: u64, whom: impl Fn(usize) -> bool) -> Result<(), CommError> {
        let node = self.node;
        let spins = if node.patience.own_core { SPIN_TURNS } else { 0 };
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
            node.check_turn(self.call, turn, &whom)?;
            node.look_after_mpi()?;
            nap = (2 * nap).min(NAP_MAX);
            if watch.is_due() {
                watch.report(node.rank, self.call.operation.name(), &node.missing(turn, &whom));
            }
        }
        Ok(())
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
