//! Collective buffers in memory that the ranks of a node share.
//!
//! Each aggregator of the node has a *slot* of a few buffers of one window each. In a write the ranks place their pieces
//! straight from the caller's memory into the aggregator's buffer, where they lie as in the file; in a read they take them
//! straight from there. So within a node a byte is copied once, and nothing of it is sent.
//!
//! A buffer passes through these stages, each told by a gate on which ranks sleep:
//!
//! 1. *free*: what it held before is in the file, or with the ranks ([`Window::freed`]);
//! 2. *ready*, only where something must be read first (reads, and writes that fill holes): one rank has claimed the
//!    window ([`Window::claim`]) and read what is needed ([`Claimed::ready`]);
//! 3. *placed* (or taken): each rank adds the bytes of its part ([`Window::place`], [`Window::take`]), and the one whose
//!    bytes are the last, or the aggregator that waits for them, has the window to itself ([`Whole`]);
//! 4. free again: [`Whole::free`].
//!
//! Safety. The memory is written by several ranks (threads, or processes) at once. What keeps them apart: (a) no two ranks claim
//! one byte, for which [`Disjoint`] is the proof; (b) the gates, which this module asserts; (c) that a rank places its part of a
//! window once, which the callers see to: a handle is used up by placing. The kernels are in [`region`].

mod region;

use std::sync::atomic::{AtomicU32, Ordering};

use afflux_comm::{Gate, NodeMemory};
use afflux_plan::{Block, ByteRange, Coverage, Overlap, PayloadIndex};

use crate::copy::{Pieces, Step, Zip};
use crate::memory::{Source, Target, in_memory};
use region::Region;

/// Distance between gates, and what small buffers are rounded up to: a cache line.
const LINE_BYTES: usize = 64;
/// What large buffers are rounded up to, so that writes come from whole pages.
const PAGE_BYTES: usize = 4096;
/// Gates of a buffer.
const GATES: usize = 4;
/// Ranks that copy at the same time go through a window in parts of this length, each beginning with another, so that they
/// seldom write to one cache line at one time.
const PART_BYTES: u64 = 64 << 10;

/// The buffers of all aggregators of a node.
#[derive(Debug)]
pub(crate) struct Windows {
    memory: NodeMemory,
    shape: Shape,
    /// Windows that every slot has had, modulo 2^32; changes between calls, in step on all ranks.
    numbers: AtomicU32,
}

/// How buffers lie in the memory.
#[derive(Debug, Clone, Copy)]
struct Place {
    gates: usize,
    pitch: usize,
}

/// How many buffers of what size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Aggregators of the node.
    pub(crate) slots: usize,
    /// Buffers of each.
    pub(crate) depth: usize,
    /// Bytes of a buffer.
    pub(crate) window_bytes: usize,
    /// Rings of tokens.
    pub(crate) rings: usize,
}

fn place(Shape { slots, depth, window_bytes, rings }: Shape) -> Place {
    let line = if window_bytes >= PAGE_BYTES { PAGE_BYTES } else { LINE_BYTES };
    // A gate a slot, those of its buffers, one a ring.
    let gates = ((slots * (1 + depth * GATES) + rings) * LINE_BYTES).next_multiple_of(PAGE_BYTES);
    Place { gates, pitch: window_bytes.next_multiple_of(line) }
}

/// How much memory the buffers and gates take.
pub(crate) fn bytes_needed(shape: Shape) -> usize {
    let place = place(shape);
    place.gates + shape.slots * shape.depth * place.pitch
}

impl Windows {
    /// Buffers in memory that is zeros and has [`bytes_needed`].
    pub(crate) fn new(memory: NodeMemory, shape: Shape) -> Self {
        assert!(memory.bytes() >= bytes_needed(shape), "the buffers fit into their memory");
        assert!(shape.depth > 0, "an aggregator has a buffer");
        Self { memory, shape, numbers: AtomicU32::new(0) }
    }

    /// Buffers of a slot.
    pub(crate) fn depth(&self) -> usize {
        self.shape.depth
    }

    /// The longest window that fits a buffer.
    pub(crate) fn window_bytes(&self) -> usize {
        self.shape.window_bytes
    }

    /// Bytes of all buffers of one aggregator.
    pub(crate) fn slot_bytes(&self) -> u64 {
        (self.shape.depth * self.shape.window_bytes) as u64
    }

    /// The number of the next call's first window.
    pub(crate) fn first_number(&self) -> u32 {
        self.numbers.load(Ordering::Relaxed)
    }

    /// A call of `rounds` rounds is over on all ranks.
    pub(crate) fn pass(&self, rounds: u64) {
        self.numbers.fetch_add(low_bits(rounds), Ordering::Relaxed);
    }

    /// The gate at which an aggregator says whether the ranks may place.
    pub(crate) fn admission(&self, slot: usize) -> &Gate {
        assert!(slot < self.shape.slots, "slot {slot} of {}", self.shape.slots);
        self.memory.gate(slot * LINE_BYTES)
    }

    /// The gate that counts the turns of a ring of tokens that have ended in this call.
    pub(crate) fn ring(&self, ring: usize) -> &Gate {
        let Shape { slots, depth, rings, .. } = self.shape;
        assert!(ring < rings, "ring {ring} of {rings}");
        self.memory.gate((slots * (1 + depth * GATES) + ring) * LINE_BYTES)
    }

    /// The window of round `round` of a call whose first window is number `first`.
    pub(crate) fn window(&self, slot: usize, first: u32, round: u64) -> Window<'_> {
        assert!(slot < self.shape.slots, "slot {slot} of {}", self.shape.slots);
        let buffer = in_memory(round % self.shape.depth as u64);
        Window { windows: self, buffer: slot * self.shape.depth + buffer, number: first.wrapping_add(low_bits(round)) }
    }
}

fn low_bits(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).expect("masked to 32 bits")
}

/// Proof that no two ranks claim one byte of a write.
pub(crate) struct Disjoint(());

impl Disjoint {
    /// What the ranks claim together shows it, or where they overlap.
    pub(crate) fn of(coverage: &Coverage) -> Result<Self, Overlap> {
        coverage.overlap.map_or(Ok(Self(())), Err)
    }

    /// An aggregator that has such a proof for its own domain says so at the gate of its slot: [`Admission`].
    pub(crate) fn admitted(admission: Admission) -> Option<Self> {
        (admission == Admission::Open).then_some(Self(()))
    }
}

/// What an aggregator says before a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// No two ranks claim one byte of its domain.
    Open,
    /// Some do, or the aggregator cannot work: nothing is placed.
    Refused,
}

impl Admission {
    /// The value of the gate, which only grows, that says this in call number `call`.
    pub(crate) fn gate_value(self, call: u64) -> u32 {
        low_bits(call.wrapping_mul(2)).wrapping_add(u32::from(self == Self::Refused))
    }

    /// What the value says.
    pub(crate) fn read(value: u32) -> Self {
        if value.is_multiple_of(2) { Self::Open } else { Self::Refused }
    }
}

/// One window: a buffer in one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window<'w> {
    windows: &'w Windows,
    buffer: usize,
    number: u32,
}

impl<'w> Window<'w> {
    fn gate(&self, which: usize) -> &'w Gate {
        self.windows.memory.gate((self.windows.shape.slots + self.buffer * GATES + which) * LINE_BYTES)
    }

    /// The gate that counts, modulo 2^32, up to the number of the last window of this buffer that is free again, plus one.
    pub(crate) fn freed(&self) -> &'w Gate {
        self.gate(0)
    }

    /// The gate that reaches [`Window::next_number`] when the window is ready.
    pub(crate) fn readied(&self) -> &'w Gate {
        self.gate(1)
    }

    /// The gate that counts what is moved, while the window is not free: bytes placed, or ranks that have taken.
    pub(crate) fn moved(&self) -> &'w Gate {
        self.gate(2)
    }

    /// The value of the gates behind this window.
    pub(crate) fn next_number(&self) -> u32 {
        self.number.wrapping_add(1)
    }

    fn region(&self) -> Region<'w> {
        let windows = self.windows;
        let place = place(windows.shape);
        Region::new(&windows.memory, place.gates + self.buffer * place.pitch, windows.shape.window_bytes)
    }

    /// Whether this rank is to make the window ready: the first to ask is. The buffer must be free.
    pub(crate) fn claim(&self) -> Option<Claimed<'w>> {
        let claims = self.gate(3);
        let seen = claims.value();
        (!claims.is_reached(self.next_number()) && claims.replace(seen, self.next_number())).then_some(Claimed(*self))
    }

    /// Copies this rank's part of the window into it: of the bytes that `index` describes those in `blocks`, from `source`.
    /// The buffer must be free, or ready. Returns how many.
    pub(crate) fn place(
        self,
        _proof: &Disjoint,
        source: &Source<'_>,
        index: &PayloadIndex<'_>,
        blocks: impl Iterator<Item = Block>,
        turn: Turn,
    ) -> u64 {
        let region = self.region();
        turn.for_parts(blocks, |part| {
            copy_steps(index, part, |payload, pieces| {
                let mut zip = Zip::new(pieces);
                source.stretches(payload, |stretch| {
                    zip.advance(stretch.length, stretch.stride, stretch.count, |step: Step| {
                        // SAFETY: the bytes are this rank's own by the plan, and nobody else's by the proof; the buffer is free
                        // or ready, so that nobody writes or reads it whole before this rank has counted its bytes.
                        unsafe { region.scatter(stretch.span, step) };
                    });
                });
            })
        })
    }

    /// Copies this rank's part of the window, which is ready, out of it: as [`Window::place`] in reverse.
    pub(crate) fn take(
        self,
        target: &mut Target<'_, '_>,
        index: &PayloadIndex<'_>,
        blocks: impl Iterator<Item = Block>,
        turn: Turn,
    ) -> u64 {
        assert!(self.readied().is_reached(self.next_number()), "what is taken has been read");
        let region = self.region();
        turn.for_parts(blocks, |part| {
            copy_steps(index, part, |payload, pieces| {
                let mut zip = Zip::new(pieces);
                target.stretches(payload, |stretch| {
                    let (length, stride, count) = (stretch.length, stretch.stride, stretch.count);
                    let span = stretch.span;
                    zip.advance(length, stride, count, |step: Step| {
                        // SAFETY: the window is ready, so nobody writes it before all ranks, this one included, have counted
                        // what they take.
                        unsafe { region.gather(span, step) };
                    });
                });
            })
        })
    }

    /// As [`Window::place`] for bytes that have come in a message: those of the rank with that `index`, block by block.
    pub(crate) fn place_message(
        self,
        _proof: &Disjoint,
        message: &[u8],
        index: &PayloadIndex<'_>,
        blocks: impl Iterator<Item = Block>,
    ) -> u64 {
        let region = self.region();
        let mut rest = message;
        for block in blocks {
            copy_steps(index, block, |payload, pieces| {
                let (bytes, behind) = rest.split_at(in_memory(payload.bytes()));
                rest = behind;
                Zip::new(pieces).advance(bytes.len(), bytes.len(), 1, |step| {
                    // SAFETY: as in `place`, for the rank that sent the bytes.
                    unsafe { region.scatter(bytes, step) };
                });
            });
        }
        assert!(rest.is_empty(), "a message holds what its sender has in the window");
        message.len() as u64
    }

    /// Appends to `message` what the rank with that `index` has in the window, which is ready, block by block.
    pub(crate) fn take_message(
        self,
        message: &mut Vec<u8>,
        index: &PayloadIndex<'_>,
        blocks: impl Iterator<Item = Block>,
    ) {
        assert!(self.readied().is_reached(self.next_number()), "what is taken has been read");
        let region = self.region();
        for block in blocks {
            copy_steps(index, block, |payload, pieces| {
                let start = message.len();
                message.resize(start + in_memory(payload.bytes()), 0);
                let bytes = &mut message[start..];
                Zip::new(pieces).advance(bytes.len(), bytes.len(), 1, |step| {
                    // SAFETY: as in `take`.
                    unsafe { region.gather(bytes, step) };
                });
            });
        }
    }

    /// Adds `amount` to what the ranks have moved: the bytes that this rank has placed, or 1 when it has taken its part. With
    /// the `total` of all ranks: the window, if these were the last.
    pub(crate) fn count(&self, amount: u64, total: Option<u64>) -> Option<Whole<'w>> {
        let amount = u32::try_from(amount).expect("a window is below 2 GiB");
        let moved = self.moved().count(amount);
        match total {
            Some(total) => (u64::from(moved) == total).then_some(Whole(*self)),
            None => {
                self.moved().wake();
                None
            }
        }
    }

    /// The window, if all ranks' part is moved. For the one rank, or its helper, that waits for them.
    pub(crate) fn whole(&self, total: u64) -> Option<Whole<'w>> {
        (u64::from(self.moved().value()) == total).then_some(Whole(*self))
    }

    /// A window in which nobody has anything passes at once. For the one rank, or its helper, that answers for it.
    pub(crate) fn skip(&self) {
        self.readied().set(self.next_number());
        self.freed().set(self.next_number());
    }
}

/// For each run of `index` in `block`: where its bytes lie in the payload, and where its pieces in the window.
fn copy_steps(index: &PayloadIndex<'_>, block: Block, mut copy: impl FnMut(ByteRange, Pieces)) -> u64 {
    let mut bytes = 0;
    index.runs_in(block.range, |payload, run| {
        bytes += run.bytes();
        let pieces = Pieces {
            at: in_memory(block.at + (run.offset - block.range.start)),
            length: in_memory(run.length),
            stride: in_memory(run.stride),
            count: in_memory(run.count),
        };
        copy(ByteRange::new(payload, payload + run.bytes()), pieces);
    });
    bytes
}

/// With which part of a window a rank begins: rank `mine` of `ranks`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) mine: usize,
    pub(crate) ranks: usize,
}

impl Turn {
    /// Calls `visit` for the parts of `blocks`, from this rank's on and around, and adds up what it returns.
    fn for_parts(self, blocks: impl Iterator<Item = Block>, mut visit: impl FnMut(Block) -> u64) -> u64 {
        let parts: Vec<Block> = blocks.flat_map(parts_of).collect();
        let first = parts.len() * self.mine / self.ranks.max(1);
        let (before, from) = parts.split_at(first);
        from.iter().chain(before).map(|part| visit(*part)).sum()
    }
}

/// A block in parts whose borders lie at multiples of [`PART_BYTES`] in its buffer.
fn parts_of(block: Block) -> impl Iterator<Item = Block> {
    let (first, end) = (block.at / PART_BYTES, (block.at + block.range.bytes()).div_ceil(PART_BYTES));
    (first..end).map(move |part| {
        let from = (part * PART_BYTES).max(block.at);
        let to = ((part + 1) * PART_BYTES).min(block.at + block.range.bytes());
        let start = block.range.start + (from - block.at);
        Block { range: ByteRange::new(start, start + (to - from)), at: from }
    })
}

/// A window that this rank alone makes ready.
pub(crate) struct Claimed<'w>(Window<'w>);

impl<'w> Claimed<'w> {
    /// The whole buffer.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the buffer is free and claimed by this rank; the others touch it when it is ready.
        unsafe { self.0.region().bytes_mut() }
    }

    /// Lets all ranks place or take.
    pub(crate) fn ready(self) {
        self.0.readied().set(self.0.next_number());
    }
}

/// A window of which all ranks' bytes are placed, or taken.
pub(crate) struct Whole<'w>(Window<'w>);

impl<'w> Whole<'w> {
    /// The whole buffer.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: all ranks have counted their bytes, so none touches the buffer before it is free.
        unsafe { self.0.region().bytes() }
    }

    /// Lets the buffer be used again.
    pub(crate) fn free(self) {
        // Nobody else looks at the count before the buffer is free.
        self.0.moved().set(0);
        self.0.freed().set(self.0.next_number());
    }
}
