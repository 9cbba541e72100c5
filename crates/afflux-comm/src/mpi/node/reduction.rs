//! Reductions under way in the memory of a node.
//!
//! The elements go through slots of their own, a piece at a time. A rank contributes its next piece when its phase is
//! free, and takes the result of the oldest when all have contributed to it: in passing, whenever it begins a call of the
//! communicator or looks after one of its reductions. So a rank that looks at none of them holds up only those that are
//! [`REDUCE_PHASES`] pieces ahead.
//!
//! Invariants: pieces are numbered over all reductions, and each rank contributes to them, and takes them, in this order.
//! What is here called a piece is a use of a phase as in [`super::turn`].

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Node;
use super::calls::{ELEMENT_BYTES, combine, to_bytes};
use super::layout::{REDUCE_PHASES, REDUCE_SLOT_BYTES};
use super::phase::Phase;
use crate::mpi::call::Call;
use crate::stall::StallWatch;
use crate::{CommError, CommOperation, PendingReduce, Reduce};

/// The call's word stands before the elements.
const WORD_BYTES: usize = size_of::<u64>();
/// Elements of one piece.
const PIECE_ELEMENTS: usize = (REDUCE_SLOT_BYTES - WORD_BYTES) / ELEMENT_BYTES;
/// How long a rank sleeps before it looks whether it waits in vain.
const NAP: Duration = Duration::from_millis(1);
const NAP_MAX: Duration = Duration::from_millis(16);

/// A reduction of this rank that is not complete.
#[derive(Debug)]
struct Reduction {
    call: Call,
    elements: Vec<Reduce>,
    /// Number of its first piece; it has [`piece_count`].
    first_piece: u64,
    error: Option<CommError>,
    complete: bool,
}

type Shared = Rc<RefCell<Reduction>>;

/// A reduction of nothing has one empty piece: it too waits for all ranks.
fn piece_count(elements: usize) -> u64 {
    elements.div_ceil(PIECE_ELEMENTS).max(1) as u64
}

impl Reduction {
    /// One more than its last piece.
    fn end_piece(&self) -> u64 {
        self.first_piece + piece_count(self.elements.len())
    }

    fn range_of(&self, piece: u64) -> std::ops::Range<usize> {
        let start = usize::try_from(piece - self.first_piece).expect("pieces fit in memory") * PIECE_ELEMENTS;
        start..(start + PIECE_ELEMENTS).min(self.elements.len())
    }
}

/// The reductions of this rank that are not complete, in order, and how far it is.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    reductions: VecDeque<Shared>,
    /// Pieces of all reductions started so far.
    started: u64,
    contributed: u64,
    taken: u64,
}

/// A use of a phase.
#[derive(Clone, Copy)]
struct Piece {
    number: u64,
    phase: usize,
    uses: u32,
}

impl Piece {
    fn new(number: u64) -> Self {
        let phases = REDUCE_PHASES as u64;
        let phase = usize::try_from(number % phases).expect("below REDUCE_PHASES");
        let uses = u32::try_from((number / phases) & u64::from(u32::MAX)).expect("masked to 32 bits");
        Self { number, phase, uses }
    }
}

impl Node {
    /// Collective: starts the reduction of `elements`.
    pub(in crate::mpi) fn start_reduction(self: &Rc<Self>, elements: Vec<Reduce>) -> Result<NodeReduction, CommError> {
        let call = self.begin(CommOperation::StartAllReduce, elements.len())?;
        let reduction = {
            let under_way = &mut *self.under_way.borrow_mut();
            let first_piece = under_way.started;
            under_way.started += piece_count(elements.len());
            let reduction = Reduction { call, elements, first_piece, error: None, complete: false };
            let shared = Rc::new(RefCell::new(reduction));
            under_way.reductions.push_back(Rc::clone(&shared));
            shared
        };
        self.advance()?;
        Ok(NodeReduction { node: Rc::clone(self), reduction })
    }

    /// Contributes to, and takes, whatever is due; waits for nobody.
    pub(super) fn advance(&self) -> Result<(), CommError> {
        let under_way = &mut *self.under_way.borrow_mut();
        if under_way.reductions.is_empty() {
            return Ok(());
        }
        loop {
            let taken = self.take_due(under_way)?;
            let contributed = self.contribute_due(under_way)?;
            if !taken && !contributed {
                break;
            }
        }
        if self.is_closing.get() && under_way.contributed == under_way.started {
            self.leave();
        }
        Ok(())
    }

    /// The communicator is dropped: this rank leaves, once it has contributed what it owes to reductions under way.
    pub(in crate::mpi) fn close(&self) {
        self.is_closing.set(true);
        let under_way = self.under_way.borrow();
        if under_way.contributed == under_way.started {
            self.leave();
        }
    }

    /// Takes the oldest piece if all have contributed to it.
    fn take_due(&self, under_way: &mut UnderWay) -> Result<bool, CommError> {
        let piece = Piece::new(under_way.taken);
        if under_way.taken == under_way.contributed || !self.is_complete(piece) {
            return Ok(false);
        }
        let shared = Rc::clone(under_way.reductions.front().expect("a piece belongs to a reduction"));
        let reduction = &mut *shared.borrow_mut();
        let range = reduction.range_of(piece.number);
        let mut bytes = vec![0; range.len() * ELEMENT_BYTES];
        for rank in (0..self.size).filter(|&rank| rank != self.rank) {
            let slot = self.reduce_slot(piece.phase, rank);
            // SAFETY: behind the word as many bytes as the slot has at least; that rank wrote them before it contributed,
            // and does so again only after this rank has left.
            unsafe {
                let place = slot.add(WORD_BYTES);
                place.copy_to_nonoverlapping(NonNull::from(&mut bytes[..]).cast(), bytes.len());
            }
            if let Err(index) = combine(&mut reduction.elements[range.clone()], &bytes) {
                let message = format!("the operations of element {} differ between ranks", range.start + index);
                reduction.error = Some(CommError::Mismatch { call: reduction.call.operation.name(), message });
            }
        }
        let phase = self.reduce_phase(piece.phase);
        phase.left.add(self.all_of(piece.uses.wrapping_add(1)));
        under_way.taken += 1;
        if under_way.taken == reduction.end_piece() {
            reduction.complete = true;
            under_way.reductions.pop_front();
        }
        match &reduction.error {
            Some(error) => Err(error.clone()),
            None => Ok(true),
        }
    }

    /// Contributes to the next piece if its phase is free.
    fn contribute_due(&self, under_way: &mut UnderWay) -> Result<bool, CommError> {
        let piece = Piece::new(under_way.contributed);
        let phase = self.reduce_phase(piece.phase);
        if under_way.contributed == under_way.started || !phase.left.is_reached(self.all_of(piece.uses)) {
            return Ok(false);
        }
        let of_piece = |shared: &&Shared| piece.number < shared.borrow().end_piece();
        let shared = under_way.reductions.iter().find(of_piece).expect("a piece belongs to a reduction");
        let reduction = shared.borrow();
        let word = reduction.call.to_word();
        let bytes = to_bytes(&reduction.elements[reduction.range_of(piece.number)]);
        let slot = self.reduce_slot(piece.phase, self.rank);
        // SAFETY: this rank's slot, aligned to a cache line, which all have left; the bytes of a piece fit behind the word.
        unsafe {
            slot.cast::<u64>().write(word);
            slot.add(WORD_BYTES).copy_from_nonoverlapping(NonNull::from(&bytes[..]).cast(), bytes.len());
        }
        self.compare(piece, reduction.call, phase)?;
        self.line(self.rank).pieces.store(piece.number + 1, Ordering::Release);
        phase.entered.add(self.all_of(piece.uses.wrapping_add(1)));
        under_way.contributed += 1;
        Ok(true)
    }

    /// Compares this rank's call with that of the first to contribute.
    fn compare(&self, piece: Piece, call: Call, phase: &Phase) -> Result<(), CommError> {
        let first = phase.first(piece.uses, self.rank);
        // SAFETY: the first rank wrote its word before it said so, and writes again only after this rank has left.
        let word = unsafe { self.reduce_slot(piece.phase, first).cast::<u64>().read() };
        match Call::from_word(word) {
            _ if word == call.to_word() => Ok(()),
            Some(other) => Err(CommError::Mismatch {
                call: call.operation.name(),
                message: other.disagreement(first, call, self.rank),
            }),
            None => unreachable!("rank {first} wrote the word of its call"),
        }
    }

    fn is_complete(&self, piece: Piece) -> bool {
        self.reduce_phase(piece.phase).entered.is_reached(self.all_of(piece.uses.wrapping_add(1)))
    }

    /// The value of a phase's counters when all ranks have counted `uses` times.
    fn all_of(&self, uses: u32) -> u32 {
        u32::try_from(self.size).expect("MPI ranks fit in 31 bits").wrapping_mul(uses)
    }
}

/// One reduction, as this rank waits for it. It keeps the memory of the node mapped.
pub(in crate::mpi) struct NodeReduction {
    node: Rc<Node>,
    reduction: Shared,
}

impl NodeReduction {
    fn result(&self) -> Option<Result<Vec<Reduce>, CommError>> {
        let reduction = self.reduction.borrow();
        match &reduction.error {
            Some(error) => Some(Err(error.clone())),
            None => reduction.complete.then(|| Ok(reduction.elements.clone())),
        }
    }

    /// The last piece.
    fn last(&self) -> Piece {
        Piece::new(self.reduction.borrow().end_piece() - 1)
    }

    /// Whether nothing has changed since this rank could do nothing: in one look where it has contributed everything.
    fn is_idle(&self, last: Piece) -> bool {
        let contributed = self.node.under_way.borrow().contributed > last.number;
        contributed && !self.node.is_complete(last)
    }

    fn check(&self) -> Result<(), CommError> {
        if self.node.header().troubles.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let last = self.last();
        // Complete meanwhile: what went wrong came later.
        if self.node.is_complete(last) && self.node.under_way.borrow().contributed > last.number {
            return Ok(());
        }
        let call = self.reduction.borrow().call;
        self.node.check_piece(call, last.number)
    }

    fn test_checked(&self) -> Result<Option<Vec<Reduce>>, CommError> {
        if let Some(result) = self.result() {
            return result.map(Some);
        }
        if !self.is_idle(self.last()) {
            self.node.advance()?;
            if let Some(result) = self.result() {
                return result.map(Some);
            }
        }
        self.check()?;
        Ok(None)
    }

    fn complete_checked(&self) -> Result<Vec<Reduce>, CommError> {
        let node = &*self.node;
        let mut watch = None;
        let mut nap = NAP;
        loop {
            if let Some(elements) = self.test_checked()? {
                return Ok(elements);
            }
            let watch = watch.get_or_insert_with(StallWatch::start);
            self.sleep(nap);
            nap = (2 * nap).min(NAP_MAX);
            node.look_after_mpi()?;
            if watch.is_due() {
                let whom = node.missing_piece(self.last().number);
                watch.report(node.rank, CommOperation::StartAllReduce.name(), &whom);
            }
        }
    }

    /// Sleeps until the piece that this rank needs next may have moved on.
    fn sleep(&self, nap: Duration) {
        let node = &*self.node;
        let (contributed, taken) = {
            let under_way = node.under_way.borrow();
            (under_way.contributed, under_way.taken)
        };
        if taken < contributed {
            let piece = Piece::new(taken);
            let gate = &node.reduce_phase(piece.phase).entered;
            gate.sleep(node.all_of(piece.uses.wrapping_add(1)), nap);
        } else {
            let piece = Piece::new(contributed);
            node.reduce_phase(piece.phase).left.sleep(node.all_of(piece.uses), nap);
        }
    }

    /// An error spends the communicator for all.
    fn checked<T>(&self, outcome: Result<T, CommError>) -> Result<T, CommError> {
        outcome.inspect_err(|error| self.node.fail(error))
    }
}

impl PendingReduce for NodeReduction {
    fn test(&mut self) -> Result<Option<Vec<Reduce>>, CommError> {
        self.checked(self.test_checked())
    }

    fn complete(&mut self) -> Result<Vec<Reduce>, CommError> {
        self.checked(self.complete_checked())
    }

    fn fail(&self, cause: &str) {
        self.node.fail_with(cause, false);
    }
}
