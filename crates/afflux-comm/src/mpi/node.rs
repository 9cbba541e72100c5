//! Small collectives among ranks that all share one node: through memory, without MPI.
//!
//! A small collective of MPI is several messages one after the other, and each moves on only when its rank polls. With
//! more ranks than cores the polling takes the cores from the ranks that are waited for. Here each rank writes its part
//! into memory that all have mapped, and sleeps at most once until the last, or the root, wakes it.
//! `docs/decisions/0006-node-local-collectives.md` has the figures.
//!
//! What is longer than a slot goes on with MPI; every rank sees in the slots that it does. The environment variable
//! `AFFLUX_NODE_COLLECTIVES=off` (on any rank) switches this off for the communicators made by those ranks.
//!
//! MPI makes progress only in calls of MPI, and a sleeping rank makes none. Our own transfers are complete before
//! their calls return, but a library may call a send complete that it has only copied, and the host program has messages
//! of its own: so a rank that sleeps long wakes now and then and lets MPI look.
//!
//! [`memory`] is the mapping, [`Gate`](crate::Gate) what ranks sleep on, [`turn`] who may write and read when, [`calls`] the collectives.

mod calls;
pub(super) mod memory;
mod turn;

pub(super) use calls::Gathered;

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use mpi::ffi::{self, MPI_Comm};

use super::check;
use super::poll::Patience;
use crate::CommError;
use memory::{Memory, SetupWords};
use turn::{PHASES, Phase};

/// One slot with its head: room for what the layers above agree on in each flush, and for a few hundred elements of a
/// reduction. Longer messages are worth MPI's algorithms.
const SLOT_BYTES: usize = 16 << 10;
/// The token of the memory has the first cache line.
const PHASES_OFFSET: usize = 64;
/// Distance between the call counters of two ranks: a cache line.
const AT_STRIDE_BYTES: usize = 64;
/// The most ranks for which the lengths of a scatter fit in half a slot.
const RANKS_MAX: usize = SLOT_BYTES / 2 / size_of::<u64>();

/// The memory that the ranks of a communicator share.
#[derive(Debug)]
pub(super) struct Node {
    memory: Memory,
    comm: MPI_Comm,
    rank: usize,
    size: usize,
    patience: Patience,
    /// Calls that this rank has begun; equal on all ranks between calls.
    calls: Cell<u64>,
}

impl Node {
    /// Collective: memory for a communicator of `size` ranks on one node, or `None` on all when any rank cannot have it
    /// or does not want it. `all_gather` is collective over the same ranks.
    pub(super) fn share(
        comm: MPI_Comm,
        size: usize,
        patience: Patience,
        all_gather: impl Fn(SetupWords) -> Result<Vec<SetupWords>, CommError>,
    ) -> Result<Option<Self>, CommError> {
        let rank = patience.rank;
        if !(2..=RANKS_MAX).contains(&size) {
            return Ok(None);
        }
        let wanted = std::env::var("AFFLUX_NODE_COLLECTIVES").as_deref() != Ok("off");
        let Some(memory) = Memory::share(Layout { size }.bytes(), rank, wanted, all_gather)? else { return Ok(None) };
        Ok(Some(Self { memory, comm, rank, size, patience, calls: Cell::new(0) }))
    }

    fn layout(&self) -> Layout {
        Layout { size: self.size }
    }

    fn phase(&self, phase: usize) -> &Phase {
        let place = self.memory.at(self.layout().phase(phase), size_of::<Phase>());
        // SAFETY: aligned to a cache line, of atomics only, for which zeros are valid; mapped as long as `self` lives.
        unsafe { place.cast().as_ref() }
    }

    /// How many calls `rank` has entered.
    fn at(&self, rank: usize) -> &AtomicU64 {
        let place = self.memory.at(self.layout().at(rank), size_of::<AtomicU64>());
        // SAFETY: as in `phase`.
        unsafe { place.cast().as_ref() }
    }

    /// The slot of `rank` in `phase`: `SLOT_BYTES`, aligned to a cache line.
    fn slot(&self, phase: usize, rank: usize) -> NonNull<u8> {
        self.memory.at(self.layout().slot(phase, rank), SLOT_BYTES)
    }

    /// Lets MPI move what it still has under way for other ranks.
    fn look_after_mpi(&self) -> Result<(), CommError> {
        let mut found: c_int = 0;
        // SAFETY: plain query of a valid communicator; no message is taken.
        let code = unsafe {
            ffi::MPI_Iprobe(
                ffi::RSMPI_ANY_SOURCE,
                ffi::RSMPI_ANY_TAG,
                self.comm,
                &raw mut found,
                ffi::RSMPI_STATUS_IGNORE,
            )
        };
        check(code, "MPI_Iprobe", self.rank)
    }
}

/// Offsets in the memory: token, phases, call counters indexed by rank, slots indexed by phase, then by rank.
#[derive(Debug, Clone, Copy)]
struct Layout {
    size: usize,
}

impl Layout {
    fn phase(self, phase: usize) -> usize {
        PHASES_OFFSET + phase * size_of::<Phase>()
    }

    fn at(self, rank: usize) -> usize {
        self.phase(PHASES) + rank * AT_STRIDE_BYTES
    }

    fn slot(self, phase: usize, rank: usize) -> usize {
        self.at(self.size) + (phase * self.size + rank) * SLOT_BYTES
    }

    fn bytes(self) -> usize {
        self.slot(PHASES, 0)
    }
}
