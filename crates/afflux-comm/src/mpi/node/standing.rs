//! Where the other ranks are, and why one waits for them in vain.
//!
//! Every rank writes the call it is in, that it has left, or that it has failed; whoever waits reads it now and then. A
//! rank writes `left` after its last call, `call` before anything of the call, `turns` and `pieces` when it has entered;
//! whoever judges it reads them in the order `left`, `call`, `turns` or `pieces`, so that what it sees of an
//! earlier word is never newer than what it sees of a later one: a rank that went on after it entered is not taken for one that
//! did not enter.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Node;
use super::layout::{Line, TEXT_BYTES};
use crate::CommError;
use crate::mpi::call::Call;
use crate::mpi::names;
use crate::mpi::poll::Lookout;

/// How long a message may be missing of a rank that is past the exchange: far longer than MPI needs to deliver it.
const DOUBT: Duration = Duration::from_secs(1);

/// Where a rank is, seen from a call.
enum Standing {
    /// It may still come.
    Expected,
    /// In this number it is, or was, in another call, or in this one without what is waited for.
    Elsewhere(Call),
    Left,
}

impl Node {
    /// Fails when some rank has failed.
    pub(super) fn check_failure(&self, name: &'static str) -> Result<(), CommError> {
        let first = self.header().first_failure.load(Ordering::Acquire);
        let Some(peer) = usize::try_from(first).ok().and_then(|first| first.checked_sub(1)) else { return Ok(()) };
        self.has_failed.set(true);
        let message = self.failure_text(peer);
        if self.line(peer).is_mismatch.load(Ordering::Acquire) != 0 {
            return Err(CommError::Mismatch { call: name, message });
        }
        Err(CommError::PeerFailed { call: name, rank: self.rank, peer, message })
    }

    fn failure_text(&self, peer: usize) -> String {
        let length = usize::try_from(self.line(peer).text_bytes.load(Ordering::Acquire)).unwrap_or(0);
        let mut text = vec![0; length.min(TEXT_BYTES)];
        let place = self.bytes_at(self.arena.layout.text(peer), TEXT_BYTES);
        // SAFETY: as many bytes as the area has at most; the rank wrote them before it said that it failed, and never again.
        unsafe { place.copy_to_nonoverlapping(std::ptr::NonNull::from(&mut text[..]).cast(), text.len()) };
        String::from_utf8_lossy(&text).into_owned()
    }

    /// This rank has failed: no call of the communicator succeeds any more, on any rank. The first failure stands.
    pub(in crate::mpi) fn fail(&self, error: &CommError) {
        match error {
            CommError::Mismatch { message, .. } => self.fail_with(message, true),
            error => self.fail_with(&error.to_string(), false),
        }
    }

    /// As [`Self::fail`], for a cause that is no error of a call.
    pub(in crate::mpi) fn fail_with(&self, message: &str, is_mismatch: bool) {
        if self.has_failed.replace(true) || self.header().first_failure.load(Ordering::Acquire) != 0 {
            return;
        }
        let text = &message.as_bytes()[..message.floor_char_boundary(TEXT_BYTES)];
        let place = self.bytes_at(self.arena.layout.text(self.rank), TEXT_BYTES);
        // SAFETY: this rank's area, as long as the text at least; written once, before anyone is told to read it.
        unsafe { place.copy_from_nonoverlapping(std::ptr::NonNull::from(text).cast(), text.len()) };
        let line = self.line(self.rank);
        line.text_bytes.store(u32::try_from(text.len()).expect("a short text"), Ordering::Release);
        line.is_mismatch.store(u32::from(is_mismatch), Ordering::Release);
        let mine = u32::try_from(self.rank + 1).expect("MPI ranks fit in 31 bits");
        // Losing the race is no fault: the first failure is the cause.
        let _ = self.header().first_failure.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire);
        self.header().troubles.fetch_add(1, Ordering::AcqRel);
        self.wake_all();
    }

    /// This rank makes no more calls.
    pub(in crate::mpi) fn leave(&self) {
        if self.line(self.rank).left.swap(1, Ordering::AcqRel) == 0 {
            self.header().troubles.fetch_add(1, Ordering::AcqRel);
            self.wake_all();
        }
    }

    /// Where `peer` is, who is waited for in `call` until its `count` is above `number`.
    fn standing(&self, call: Call, peer: usize, count: impl Fn(&Line) -> &AtomicU64, number: u64) -> Standing {
        let line = self.line(peer);
        let left = line.left.load(Ordering::Acquire) != 0;
        let other = Call::from_word(line.call.load(Ordering::Acquire));
        if count(line).load(Ordering::Acquire) > number {
            return Standing::Expected;
        }
        match other {
            Some(other) if call.lead(other) > 0 || (call.lead(other) == 0 && other.to_word() != call.to_word()) => {
                Standing::Elsewhere(other)
            }
            _ if left => Standing::Left,
            _ => Standing::Expected,
        }
    }

    fn left_error(&self, call: Call, peer: usize) -> CommError {
        CommError::PeerLeft { call: call.operation.name(), rank: self.rank, peer }
    }

    fn elsewhere_error(&self, call: Call, peer: usize, other: Call) -> CommError {
        CommError::Mismatch { call: call.operation.name(), message: call.disagreement(self.rank, other, peer) }
    }

    /// Fails when `call` cannot succeed any more, because a rank has failed, or one of `whom` will never make the turn
    /// `number`.
    pub(super) fn check_turn(&self, call: Call, number: u64, whom: impl Fn(usize) -> bool) -> Result<(), CommError> {
        self.check_ranks(call, number, |line| &line.turns, whom)
    }

    /// As [`Self::check_turn`], for a piece of a reduction. A rank may be in any later call before it contributes.
    pub(super) fn check_piece(&self, call: Call, number: u64) -> Result<(), CommError> {
        let mut found = Ok(());
        for peer in self.others() {
            let line = self.line(peer);
            let left = line.left.load(Ordering::Acquire) != 0;
            if left && line.pieces.load(Ordering::Acquire) <= number {
                found = found.and(Err(self.left_error(call, peer)));
            }
        }
        self.check_failure(call.operation.name())?;
        found
    }

    /// Lets MPI move on, and fails when a rank has failed or left.
    pub(in crate::mpi) fn look_around(&self, name: &'static str) -> Result<(), CommError> {
        self.look_after_mpi()?;
        let gone = self.others().find(|&peer| self.line(peer).left.load(Ordering::Acquire) != 0);
        self.check_failure(name)?;
        gone.map_or(Ok(()), |peer| Err(CommError::PeerLeft { call: name, rank: self.rank, peer }))
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let rank = self.rank;
        (0..self.size).filter(move |&peer| peer != rank)
    }

    fn check_ranks(
        &self,
        call: Call,
        number: u64,
        count: impl Fn(&Line) -> &AtomicU64,
        whom: impl Fn(usize) -> bool,
    ) -> Result<(), CommError> {
        let mut found = Ok(());
        for peer in self.others().filter(|&peer| whom(peer)) {
            match self.standing(call, peer, &count, number) {
                Standing::Expected => {}
                Standing::Left => found = found.and(Err(self.left_error(call, peer))),
                Standing::Elsewhere(other) => found = found.and(Err(self.elsewhere_error(call, peer, other))),
            }
        }
        // Asked last: who failed may have left because of it, and the failure is the cause.
        self.check_failure(call.operation.name())?;
        found
    }

    /// Those of `whom` that have not entered turn `number`, in words.
    pub(super) fn missing(&self, number: u64, whom: impl Fn(usize) -> bool) -> String {
        let behind = |&rank: &usize| whom(rank) && self.line(rank).turns.load(Ordering::Acquire) <= number;
        names_or_earlier(&self.others().filter(behind).collect::<Vec<_>>())
    }

    /// Those that have not contributed piece `number` of the reductions, in words.
    pub(super) fn missing_piece(&self, number: u64) -> String {
        let behind = |&rank: &usize| self.line(rank).pieces.load(Ordering::Acquire) <= number;
        names_or_earlier(&self.others().filter(behind).collect::<Vec<_>>())
    }
}

/// Ranks in words; where there are none, those are waited for that have entered and not left.
fn names_or_earlier(missing: &[usize]) -> String {
    if missing.is_empty() { "ranks that are still in an earlier call".to_owned() } else { names(missing) }
}

/// What a rank looks at while it waits for MPI.
pub(in crate::mpi) struct ExchangeLookout<'a> {
    node: &'a Node,
    /// To be compared with the calls that the others are in; `None` before the first.
    call: Option<Call>,
    /// Ranks whose messages have not come, or have not been taken; each once or twice.
    peers: RefCell<Vec<usize>>,
    /// Since when one of them is past this exchange.
    doubt: Cell<Option<Instant>>,
}

impl<'a> ExchangeLookout<'a> {
    pub(in crate::mpi) fn new(node: &'a Node) -> Self {
        Self { node, call: node.current.get(), peers: RefCell::default(), doubt: Cell::new(None) }
    }
}

impl Lookout for ExchangeLookout<'_> {
    fn wait_for(&self, peers: &mut dyn Iterator<Item = usize>) {
        *self.peers.borrow_mut() = peers.collect();
    }

    fn look(&self) -> Result<(), CommError> {
        let node = self.node;
        let Some(call) = self.call else { return node.check_failure("a call of MPI") };
        let mut found = Ok(());
        let mut doubtful = None;
        for &peer in &*self.peers.borrow() {
            let line = node.line(peer);
            let left = line.left.load(Ordering::Acquire) != 0;
            let other = Call::from_word(line.call.load(Ordering::Acquire));
            let lead = other.map_or(i32::MIN, |other| call.lead(other));
            match other {
                Some(other) if lead == 0 && other.to_word() != call.to_word() => {
                    found = found.and(Err(node.elsewhere_error(call, peer, other)));
                }
                _ if lead < 0 && left => found = found.and(Err(node.left_error(call, peer))),
                _ if lead > 0 || left => doubtful = Some(peer),
                _ => {}
            }
        }
        node.check_failure(call.operation.name())?;
        found?;
        let Some(peer) = doubtful else {
            self.doubt.set(None);
            return Ok(());
        };
        let since = self.doubt.get().unwrap_or_else(Instant::now);
        self.doubt.set(Some(since));
        if since.elapsed() < DOUBT {
            return Ok(());
        }
        let rank = node.rank;
        Err(CommError::Mismatch {
            call: call.operation.name(),
            message: format!("rank {rank} waits for rank {peer} in {}, which is past it", call.operation.name()),
        })
    }

    fn call(&self) -> Option<Call> {
        self.call
    }

    fn whom(&self) -> String {
        let mut peers = self.peers.borrow().clone();
        peers.sort_unstable();
        peers.dedup();
        names_or_earlier(&peers)
    }
}
