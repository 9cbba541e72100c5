//! Collective calls among ranks that all share one node: through memory, without MPI.
//!
//! A small collective of MPI is several messages one after the other, and each moves on only when its rank polls. With
//! more ranks than cores the polling takes the cores from the ranks that are waited for. Here each rank writes its part
//! into memory that all have mapped, and sleeps at most once until the last, or the root, wakes it.
//! `docs/decisions/0006-node-local-collectives.md` has the figures.
//!
//! What is longer than a slot goes on with MPI; every rank sees in the slots that it does. The environment variable
//! `AFFLUX_NODE_COLLECTIVES=off` (on any rank) switches this off for the communicators made by those ranks.
//!
//! Each rank also says in the memory which call it is in, whether it has left and whether it has failed, so that a rank
//! that waits, here or in MPI, learns why it waits in vain ([`standing`]).
//!
//! MPI makes progress only in calls of MPI, and a sleeping rank makes none. Our own transfers are complete before
//! their calls return, but a library may call a send complete that it has only copied, and the host program has messages
//! of its own: so a rank that sleeps long wakes now and then and lets MPI look.
//!
//! [`memory`] is the mapping, [`layout`] what lies where, [`phase`] the counters on which ranks sleep, [`turn`] who may
//! write and read when, [`calls`] the collectives, [`reduction`] those that are completed later.

mod calls;
mod layout;
pub(super) mod memory;
mod phase;
mod reduction;
mod standing;
mod turn;

pub(super) use calls::{Gathered, SparseLengths, SparseMessages};
pub(super) use standing::ExchangeLookout;
pub(super) use turn::SPIN_TURNS;

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::call::Call;
use super::handle::Handle;
use super::poll::Patience;
use crate::{CommError, CommOperation};
use layout::{Header, Layout, Line, PHASES, RANKS_MAX, REDUCE_PHASES, REDUCE_SLOT_BYTES, SLOT_BYTES};
use memory::{Memory, SetupWords};
use phase::Phase;
use reduction::UnderWay;

/// The memory of a communicator and its duplicates.
#[derive(Debug)]
struct Arena {
    memory: Memory,
    layout: Layout,
}

impl Arena {
    fn used(&self) -> &AtomicU64 {
        let place = self.memory.at(Layout::used_offset(), size_of::<AtomicU64>());
        // SAFETY: aligned to a cache line and used as this alone; mapped as long as `self` lives.
        unsafe { place.cast().as_ref() }
    }

    /// Takes a section that nobody uses.
    fn take_section(&self) -> Option<usize> {
        let used = self.used();
        let free = |used: u64| (0..self.layout.sections()).find(|section| used & 1 << section == 0);
        let taken = used.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| Some(used | 1 << free(used)?));
        taken.ok().and_then(free)
    }

    /// Gives a section back that every rank has dropped.
    fn give_back(&self, section: usize) {
        let bytes = self.layout.control_bytes();
        let control = self.memory.at(self.layout.section(section), bytes);
        // SAFETY: within the section, which nobody else uses any more: all have counted themselves as dropped, this rank
        // last, and nobody takes it before its mark is removed.
        unsafe { control.write_bytes(0, bytes) };
        self.used().fetch_and(!(1 << section), Ordering::AcqRel);
    }
}

/// The section of the memory that the ranks of a communicator share.
#[derive(Debug)]
pub(super) struct Node {
    arena: Rc<Arena>,
    section: usize,
    /// To let MPI look at; kept alive for it.
    handle: Rc<Handle>,
    rank: usize,
    size: usize,
    patience: Patience,
    /// Calls that this rank has begun, modulo 2^32; equal on all ranks between calls.
    calls: Cell<u32>,
    /// The call that it has begun last.
    current: Cell<Option<Call>>,
    /// Calls through slots that it has begun.
    turns: Cell<u64>,
    under_way: RefCell<UnderWay>,
    has_failed: Cell<bool>,
    /// The communicator is dropped.
    is_closing: Cell<bool>,
}

impl Node {
    /// Collective: memory for a communicator of `size` ranks on one node, or `None` on all when any rank cannot have it
    /// or does not want it. `all_gather` is collective over the same ranks.
    pub(super) fn share(
        handle: &Rc<Handle>,
        size: usize,
        patience: Patience,
        all_gather: impl Fn(SetupWords) -> Result<Vec<SetupWords>, CommError>,
    ) -> Result<Option<Rc<Self>>, CommError> {
        if !(2..=RANKS_MAX).contains(&size) {
            return Ok(None);
        }
        let wanted = std::env::var("AFFLUX_NODE_COLLECTIVES").as_deref() != Ok("off");
        let layout = Layout { size };
        let Some(memory) = Memory::share(layout.arena_bytes(), patience.rank, wanted, all_gather)? else {
            return Ok(None);
        };
        let arena = Rc::new(Arena { memory, layout });
        // All ranks say so; what rank 0 does to the word later it does with section 0 marked.
        arena.used().fetch_or(1, Ordering::AcqRel);
        Ok(Some(Rc::new(Self::over(arena, 0, Rc::clone(handle), patience))))
    }

    fn over(arena: Rc<Arena>, section: usize, handle: Rc<Handle>, patience: Patience) -> Self {
        let size = arena.layout.size;
        Self {
            arena,
            section,
            handle,
            rank: patience.rank,
            size,
            patience,
            calls: Cell::new(0),
            current: Cell::new(None),
            turns: Cell::new(0),
            under_way: RefCell::default(),
            has_failed: Cell::new(false),
            is_closing: Cell::new(false),
        }
    }

    /// Collective: a section of its own for a duplicate, over the same MPI communicator; `None` on all when there is none.
    pub(super) fn duplicate(&self) -> Result<Option<Rc<Self>>, CommError> {
        const NONE: u64 = u64::MAX;
        let mine = if self.rank == 0 { self.arena.take_section().map_or(NONE, |section| section as u64) } else { NONE };
        let section = self.broadcast_word(CommOperation::Duplicate, mine)?;
        let section = usize::try_from(section).ok().filter(|&section| section < self.arena.layout.sections());
        Ok(section.map(|section| {
            Rc::new(Self::over(Rc::clone(&self.arena), section, Rc::clone(&self.handle), self.patience))
        }))
    }

    /// Tells the messages of this communicator from those of others over the same MPI communicator: below 64.
    pub(super) fn section(&self) -> usize {
        self.section
    }

    /// Begins a collective call: the others can see it from now on. Fails when the communicator is spent.
    pub(super) fn begin(&self, operation: CommOperation, argument: usize) -> Result<Call, CommError> {
        let number = self.calls.get();
        self.calls.set(number.wrapping_add(1));
        let call = Call { operation, argument: argument as u64, number };
        self.current.set(Some(call));
        self.check_failure(operation.name())?;
        self.line(self.rank).call.store(call.to_word(), Ordering::Release);
        // Pieces that others wait for are moved on in passing.
        self.advance()?;
        Ok(call)
    }

    /// The call that has begun last.
    pub(super) fn current(&self) -> Option<Call> {
        self.current.get()
    }

    fn place<T>(&self, offset: usize) -> &T {
        let offset = self.arena.layout.section(self.section) + offset;
        let place = self.arena.memory.at(offset, size_of::<T>());
        // SAFETY: `T` is one of the types of `layout`, at its offset there: aligned to a cache line and made of atomics only,
        // for which all bytes are valid; mapped as long as `self` lives.
        unsafe { place.cast().as_ref() }
    }

    fn header(&self) -> &Header {
        self.place(0)
    }

    fn phase(&self, phase: usize) -> &Phase {
        self.place(self.arena.layout.phase(phase))
    }

    fn reduce_phase(&self, phase: usize) -> &Phase {
        self.place(self.arena.layout.reduce_phase(phase))
    }

    fn line(&self, rank: usize) -> &Line {
        self.place(self.arena.layout.line(rank))
    }

    fn bytes_at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        self.arena.memory.at(self.arena.layout.section(self.section) + offset, bytes)
    }

    /// The slot of `rank` in `phase`: `SLOT_BYTES`, aligned to a cache line.
    fn slot(&self, phase: usize, rank: usize) -> NonNull<u8> {
        self.bytes_at(self.arena.layout.slot(phase, rank), SLOT_BYTES)
    }

    fn reduce_slot(&self, phase: usize, rank: usize) -> NonNull<u8> {
        self.bytes_at(self.arena.layout.reduce_slot(phase, rank), REDUCE_SLOT_BYTES)
    }

    /// Wakes everyone who sleeps, to look at what has happened.
    fn wake_all(&self) {
        (0..PHASES).for_each(|phase| self.phase(phase).wake());
        (0..REDUCE_PHASES).for_each(|phase| self.reduce_phase(phase).wake());
    }

    /// Lets MPI move what it still has under way for other ranks.
    fn look_after_mpi(&self) -> Result<(), CommError> {
        self.handle.look_after(self.rank)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.leave();
        // What a failure left behind (messages of MPI that nobody takes) must not meet a later user of the section.
        if self.has_failed.get() || self.header().first_failure.load(Ordering::Acquire) != 0 {
            return;
        }
        let dropped = self.header().dropped.fetch_add(1, Ordering::AcqRel) + 1;
        if usize::try_from(dropped) == Ok(self.size) && self.section != 0 {
            self.arena.give_back(self.section);
        }
    }
}
