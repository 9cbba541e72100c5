//! An aggregator that moves its own windows between buffers and file, where only it knows what the ranks ask of it.
//!
//! Runs on the aggregator's helper thread, beside its main thread, which exchanges like any other rank: so that a window is
//! written, or read ahead, while the next is exchanged. It calls the file and the gates of the node's memory, no message.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use afflux_comm::Gate;
use afflux_plan::{AggregatorIndex, FileDomains, PayloadIndex, Throttle};
use afflux_storage::StorageFile;

use super::Engine;
use super::spans::{Span, spans};
use super::turns::{NAP, Turns};
use crate::Work;
use crate::error::LocalFailure;
use crate::transfer::{self, nanoseconds};
use crate::windows::{Claimed, Whole, Window, Windows};

/// What a window is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Written when placed; holes up to `gap_bytes_max` are read first.
    Write { gap_bytes_max: u64 },
    /// Read, with holes up to this long, then taken.
    Read { gap_bytes_max: u64 },
}

/// Moves windows of one aggregator between their buffers and the file.
#[derive(Clone, Copy)]
pub(super) struct Mover<'a> {
    pub(super) file: &'a dyn StorageFile,
    pub(super) domains: &'a FileDomains,
    /// What the ranks cover together.
    pub(super) covered: &'a PayloadIndex<'a>,
    pub(super) direction: Direction,
    /// Requests are bounded: none concerns two of these.
    pub(super) unit_bytes: Option<NonZeroU64>,
}

impl Mover<'_> {
    fn spans(&self, aggregator: AggregatorIndex, round: u64) -> Vec<Span> {
        let (Direction::Write { gap_bytes_max } | Direction::Read { gap_bytes_max }) = self.direction;
        spans(self.covered, self.domains.blocks(aggregator, round), gap_bytes_max, self.unit_bytes)
    }

    /// Bytes that the ranks cover in a window.
    pub(super) fn covered_bytes(&self, aggregator: AggregatorIndex, round: u64) -> u64 {
        self.domains.blocks(aggregator, round).map(|block| self.covered.bytes_in(block.range)).sum()
    }

    /// Whether a window must be read before ranks place in it.
    pub(super) fn has_holes_to_fill(&self, aggregator: AggregatorIndex, round: u64) -> bool {
        match self.direction {
            Direction::Write { gap_bytes_max: 0 } => false,
            Direction::Write { .. } => self.spans(aggregator, round).iter().any(|span| span.has_hole),
            Direction::Read { .. } => true,
        }
    }

    /// Reads what must be there before ranks place in or take from a window. After a failure nothing more is read.
    pub(super) fn make_ready(
        &self,
        (aggregator, round): (AggregatorIndex, u64),
        mut window: Claimed<'_>,
        turns: Option<&mut Turns<'_>>,
        outcome: &mut Result<(), LocalFailure>,
        work: &mut Work,
    ) {
        let begin = Instant::now();
        let is_read = matches!(self.direction, Direction::Read { .. });
        let mut spans = if outcome.is_ok() { self.spans(aggregator, round) } else { Vec::new() };
        spans.retain(|span| is_read || span.has_hole);
        let bytes = window.bytes();
        let filled = in_turn(turns, &spans, |span| {
            let target = &mut bytes[span.place()];
            if is_read {
                return transfer::read(self.file, span.range.start, target, work);
            }
            let read = transfer::read_what_is_there(self.file, span.range.start, target, work)?;
            // A hole past the end of the file reads as zeros once it is inside.
            target[read..].fill(0);
            Ok(())
        });
        if outcome.is_ok() {
            *outcome = filled;
        }
        work.file_nanoseconds += nanoseconds(begin);
        window.ready();
    }

    /// Writes a window that all ranks have placed in (for a read: that all have taken from), and frees it. After a failure
    /// nothing more is written.
    pub(super) fn finish(
        &self,
        (aggregator, round): (AggregatorIndex, u64),
        window: Whole<'_>,
        turns: Option<&mut Turns<'_>>,
        outcome: &mut Result<(), LocalFailure>,
        work: &mut Work,
    ) {
        if let Direction::Write { .. } = self.direction {
            let begin = Instant::now();
            let spans = if outcome.is_ok() { self.spans(aggregator, round) } else { Vec::new() };
            let bytes = window.bytes();
            let written =
                in_turn(turns, &spans, |span| transfer::write(self.file, span.range.start, &bytes[span.place()], work));
            if outcome.is_ok() {
                *outcome = written;
            }
            work.file_nanoseconds += nanoseconds(begin);
        }
        window.free();
    }
}

/// Visits the spans, in turn where requests are bounded, until one fails.
fn in_turn(
    turns: Option<&mut Turns<'_>>,
    spans: &[Span],
    visit: impl FnMut(&Span) -> Result<(), LocalFailure>,
) -> Result<(), LocalFailure> {
    match turns {
        Some(turns) => turns.step(spans, visit),
        None => spans.iter().try_for_each(visit),
    }
}

/// One aggregator's windows of a call.
pub(super) struct Served<'a> {
    pub(super) mover: Mover<'a>,
    windows: &'a Windows,
    first_window: u32,
    aggregator: AggregatorIndex,
    slot: usize,
    rounds: u64,
    /// For a read: the parts in which the ranks take from the window of a round.
    takers: &'a (dyn Fn(u64) -> u64 + Sync),
    throttle: Option<Throttle>,
    /// The caller has given up.
    stop: &'a AtomicBool,
}

impl<'a> Served<'a> {
    pub(super) fn new(
        engine: &Engine<'a>,
        aggregator: AggregatorIndex,
        mover: Mover<'a>,
        takers: &'a (dyn Fn(u64) -> u64 + Sync),
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            mover,
            windows: &engine.node.windows,
            first_window: engine.first_window,
            aggregator,
            slot: engine.node.slot(aggregator).expect("an aggregator reaches its own memory"),
            rounds: engine.domains.round_count(),
            takers,
            throttle: engine.throttle,
            stop,
        }
    }

    fn window(&self, round: u64) -> Window<'a> {
        self.windows.window(self.slot, self.first_window, round)
    }

    /// Serves all windows, in order; returns this aggregator's part of the verdict.
    pub(super) fn run(&self) -> (Result<(), LocalFailure>, Work) {
        let (mut outcome, mut work) = (Ok(()), Work::default());
        let depth = self.windows.depth() as u64;
        // Steps on the file, alike for all aggregators: a read for each window, a write for each, or both.
        let steps_a_round = match self.mover.direction {
            Direction::Write { gap_bytes_max: 1.. } => 2,
            Direction::Write { .. } | Direction::Read { .. } => 1,
        };
        let mut turns = self.throttle.map(|throttle| {
            let steps = self.rounds * steps_a_round;
            Turns::new(throttle, self.mover.domains, self.windows, self.aggregator, steps, self.stop)
        });
        for round in 0..self.rounds + depth {
            // Made ready `depth` rounds ahead: as far as there are buffers.
            if round < self.rounds {
                self.make_ready(round, turns.as_mut(), &mut outcome, &mut work);
            }
            if let Some(round) = round.checked_sub(depth - 1).filter(|&round| round < self.rounds)
                && !self.finish(round, turns.as_mut(), &mut outcome, &mut work)
            {
                break;
            }
        }
        (outcome, work)
    }

    fn make_ready(
        &self,
        round: u64,
        turns: Option<&mut Turns<'_>>,
        outcome: &mut Result<(), LocalFailure>,
        work: &mut Work,
    ) {
        let window = self.window(round);
        // The buffer is free: the window that used it before was finished by this thread.
        let claimed = window.claim().expect("nobody else makes this aggregator's windows ready");
        if self.mover.direction == (Direction::Write { gap_bytes_max: 0 }) {
            claimed.ready();
        } else {
            self.mover.make_ready((self.aggregator, round), claimed, turns, outcome, work);
        }
    }

    /// Waits for all ranks and finishes the window; false where the caller has given up meanwhile.
    fn finish(
        &self,
        round: u64,
        turns: Option<&mut Turns<'_>>,
        outcome: &mut Result<(), LocalFailure>,
        work: &mut Work,
    ) -> bool {
        let window = self.window(round);
        let is_write = matches!(self.mover.direction, Direction::Write { .. });
        let total = if is_write { self.mover.covered_bytes(self.aggregator, round) } else { (self.takers)(round) };
        if total == 0 {
            // Nothing to write: the tokens are passed on.
            if let Some(turns) = turns.filter(|_| is_write) {
                let passed = turns.step(&[], |_| Ok(()));
                debug_assert!(passed.is_ok(), "nothing was done");
            }
            window.skip();
            return true;
        }
        loop {
            if let Some(whole) = window.whole(total) {
                self.mover.finish((self.aggregator, round), whole, turns, outcome, work);
                return true;
            }
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            sleep_until(window.moved(), total);
        }
    }
}

fn sleep_until(gate: &Gate, total: u64) {
    gate.sleep_unless(NAP, |value| u64::from(value) == total);
}
