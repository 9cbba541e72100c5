//! Steps 2 and 3 of a write.
//!
//! Each rank goes through the rounds and places what it has for each window, its own from the caller's memory, and as an
//! aggregator what has come from other nodes. Who may place when, and who writes, is the business of the window's
//! keepers: a [`Crew`] where every rank knows all, else the aggregators ([`ByAggregators`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use afflux_plan::{AggregatorIndex, Overlap, PayloadIndex, cover};

use super::remote::Peers;
use super::served::{Direction, Mover, Served};
use super::{Engine, Own, Requests, wait_for};
use crate::error::LocalFailure;
use crate::memory::Source;
use crate::transfer::nanoseconds;
use crate::windows::{Admission, Disjoint, Whole, Window};
use crate::{CollectiveError, Holes, Work};

/// A rank's own part of the verdict, inside what only a failure between the ranks makes.
type Outcome = Result<Result<(), LocalFailure>, CollectiveError>;

/// Collective: writes the bytes of `own` from `source` through the aggregators.
pub(crate) fn write(
    engine: &Engine<'_>,
    requests: &Requests,
    own: &Own<'_>,
    source: &Source<'_>,
    holes: Holes,
    messages: &mut Vec<u8>,
    work: &mut Work,
) -> Outcome {
    let begin = Instant::now();
    let named: Vec<_> = requests.list().iter().map(|(rank, extents)| (*rank, extents)).collect();
    let coverage = cover(&named);
    let covered = PayloadIndex::new(&coverage.covered);
    work.merge_steps += coverage.step_count;
    work.exchange_nanoseconds += nanoseconds(begin);
    let gap_bytes_max = match holes {
        Holes::Forbidden => 0,
        Holes::Fill { gap_bytes_max } => gap_bytes_max,
    };
    let direction = Direction::Write { gap_bytes_max };
    let unit_bytes = engine.unit_bytes();
    let mover = Mover { file: engine.file, domains: engine.domains, covered: &covered, direction, unit_bytes };
    let mut placing = Placing { engine, own, source, peers: Peers::new(engine, requests), messages };
    match requests {
        Requests::Known(_) if engine.throttle.is_none() => match Disjoint::of(&coverage) {
            Ok(proof) => {
                let mut crew = Crew { engine: *engine, mover, proof, owed: VecDeque::new(), outcome: Ok(()) };
                placing.all_rounds(&mut crew, work)?;
                crew.write_owed(work);
                Ok(crew.outcome)
            }
            Err(overlap) => Ok(Err(failure(overlap))),
        },
        _ => by_aggregators(&mut placing, coverage.overlap, mover, work),
    }
}

fn failure(overlap: Overlap) -> LocalFailure {
    let (first, second) = (overlap.first.0.min(overlap.second.0), overlap.first.0.max(overlap.second.0));
    LocalFailure::Overlap { offset: overlap.offset, first, second }
}

/// Who lets ranks place, and sees to it that windows are written.
trait Keeper<'e> {
    /// Waits until this rank may place in a window; `None` where nothing is placed in this call.
    fn admit(
        &mut self,
        aggregator: AggregatorIndex,
        round: u64,
        work: &mut Work,
    ) -> Result<Option<(Window<'e>, &Disjoint)>, CollectiveError>;

    /// So many bytes have been placed.
    fn placed(&mut self, aggregator: AggregatorIndex, round: u64, window: Window<'e>, bytes: u64);

    /// This rank is going to wait for others: what they wait for is done first.
    fn before_waiting(&mut self, work: &mut Work);
}

/// A rank's part of the exchange.
struct Placing<'a, 'e> {
    engine: &'a Engine<'e>,
    own: &'a Own<'a>,
    source: &'a Source<'a>,
    peers: Peers<'a>,
    messages: &'a mut Vec<u8>,
}

impl<'e> Placing<'_, 'e> {
    fn all_rounds(&mut self, keeper: &mut impl Keeper<'e>, work: &mut Work) -> Result<(), CollectiveError> {
        let rounds = self.engine.domains.round_count();
        for round in 0..rounds {
            self.place_own(keeper, round, work)?;
            if !self.engine.node.has_all() {
                self.exchange(keeper, round, work)?;
            }
        }
        work.rounds += rounds;
        Ok(())
    }

    /// What this rank has for aggregators whose memory it reaches.
    fn place_own(&mut self, keeper: &mut impl Keeper<'e>, round: u64, work: &mut Work) -> Result<(), CollectiveError> {
        let engine = self.engine;
        for aggregator in self.own.turn(engine).filter(|&aggregator| engine.node.slot(aggregator).is_some()) {
            if self.own.bytes(engine, aggregator, round) == 0 {
                continue;
            }
            if let Some((window, proof)) = keeper.admit(aggregator, round, work)? {
                let begin = Instant::now();
                let blocks = engine.domains.blocks(aggregator, round);
                let bytes = window.place(proof, self.source, &self.own.index, blocks, engine.node.turn);
                work.copied_bytes += bytes;
                work.copy_nanoseconds += nanoseconds(begin);
                keeper.placed(aggregator, round, window, bytes);
            }
        }
        Ok(())
    }

    /// Collective: what goes to and comes from other nodes, in steps.
    fn exchange(&mut self, keeper: &mut impl Keeper<'e>, round: u64, work: &mut Work) -> Result<(), CollectiveError> {
        let engine = self.engine;
        let peers = &self.peers;
        for step in engine.steps() {
            keeper.before_waiting(work);
            let begin = Instant::now();
            let arrived =
                peers.send_to_aggregators(engine, self.own, self.source, (round, &step), self.messages, work)?;
            work.exchange_nanoseconds += nanoseconds(begin);
            let Some(aggregator) = engine.own_aggregator() else { continue };
            for (peer, bytes) in arrived {
                if let Some((window, proof)) = keeper.admit(aggregator, round, work)? {
                    let blocks = engine.domains.blocks(aggregator, round);
                    let placed = window.place_message(proof, bytes, peers.index(peer), blocks);
                    work.copied_bytes += placed;
                    keeper.placed(aggregator, round, window, placed);
                }
            }
        }
        Ok(())
    }
}

/// The ranks of a node that know all: the last to place in a window writes it. It first places what it can without waiting, so
/// that others are not kept from theirs.
struct Crew<'e> {
    engine: Engine<'e>,
    mover: Mover<'e>,
    proof: Disjoint,
    /// Windows that this rank is to write.
    owed: VecDeque<(AggregatorIndex, u64, Whole<'e>)>,
    outcome: Result<(), LocalFailure>,
}

impl Crew<'_> {
    fn write_owed(&mut self, work: &mut Work) {
        while let Some((aggregator, round, whole)) = self.owed.pop_front() {
            self.mover.finish((aggregator, round), whole, None, &mut self.outcome, work);
        }
    }
}

impl<'e> Keeper<'e> for Crew<'e> {
    fn admit(
        &mut self,
        aggregator: AggregatorIndex,
        round: u64,
        work: &mut Work,
    ) -> Result<Option<(Window<'e>, &Disjoint)>, CollectiveError> {
        let slot = self.engine.node.slot(aggregator).expect("only windows that this rank reaches are placed");
        let window = self.engine.window(slot, round);
        let is_used = |round| self.mover.covered_bytes(aggregator, round) > 0;
        if let Some(before) = self.engine.round_before(round, is_used) {
            let target = self.engine.window(slot, before).next_number();
            if !window.freed().is_reached(target) {
                self.write_owed(work);
                wait_for(&self.engine, window.freed(), target, work)?;
            }
        }
        if self.mover.has_holes_to_fill(aggregator, round) {
            match window.claim() {
                Some(claimed) => self.mover.make_ready((aggregator, round), claimed, None, &mut self.outcome, work),
                None => wait_for(&self.engine, window.readied(), window.next_number(), work)?,
            }
        }
        Ok(Some((window, &self.proof)))
    }

    fn placed(&mut self, aggregator: AggregatorIndex, round: u64, window: Window<'e>, bytes: u64) {
        let total = self.mover.covered_bytes(aggregator, round);
        if let Some(whole) = window.count(bytes, Some(total)) {
            self.owed.push_back((aggregator, round, whole));
        }
    }

    fn before_waiting(&mut self, work: &mut Work) {
        self.write_owed(work);
    }
}

/// The aggregators know what is asked of them: each says whether ranks may place, and writes its windows on a helper thread.
struct ByAggregators<'e> {
    engine: Engine<'e>,
    proof: Option<Disjoint>,
}

impl<'e> Keeper<'e> for ByAggregators<'e> {
    fn admit(
        &mut self,
        aggregator: AggregatorIndex,
        round: u64,
        work: &mut Work,
    ) -> Result<Option<(Window<'e>, &Disjoint)>, CollectiveError> {
        let slot = self.engine.node.slot(aggregator).expect("only windows that this rank reaches are placed");
        let gate = self.engine.node.windows.admission(slot);
        wait_for(&self.engine, gate, Admission::Open.gate_value(self.engine.call), work)?;
        self.proof = Disjoint::admitted(Admission::read(gate.value()));
        let Some(proof) = &self.proof else { return Ok(None) };
        let window = self.engine.window(slot, round);
        wait_for(&self.engine, window.readied(), window.next_number(), work)?;
        Ok(Some((window, proof)))
    }

    fn placed(&mut self, _aggregator: AggregatorIndex, _round: u64, window: Window<'e>, bytes: u64) {
        window.count(bytes, None);
    }

    fn before_waiting(&mut self, _work: &mut Work) {}
}

fn by_aggregators(
    placing: &mut Placing<'_, '_>,
    overlap: Option<Overlap>,
    mover: Mover<'_>,
    work: &mut Work,
) -> Outcome {
    let engine = placing.engine;
    let own = engine.own_aggregator();
    if let Some(aggregator) = own {
        let slot = engine.node.slot(aggregator).expect("an aggregator reaches its own memory");
        let admission = if overlap.is_none() { Admission::Open } else { Admission::Refused };
        engine.node.windows.admission(slot).set(admission.gate_value(engine.call));
    }
    let stop = AtomicBool::new(false);
    let served = own.filter(|_| overlap.is_none()).map(|own| Served::new(engine, own, mover, &|_| 0, &stop));
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let helper = served.map(|served| scope.spawn(move || served.run()));
        placing.all_rounds(&mut ByAggregators { engine: *engine, proof: None }, work)?;
        let written = helper.map_or(Ok(()), |helper| join(helper, work));
        Ok(overlap.map_or(written, |overlap| Err(failure(overlap))))
    })
}

/// The helper's part of the verdict, when it has done all its windows.
pub(super) fn join(
    helper: std::thread::ScopedJoinHandle<'_, (Result<(), LocalFailure>, Work)>,
    work: &mut Work,
) -> Result<(), LocalFailure> {
    let (outcome, moved) = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    work.add(&moved);
    outcome
}

/// Tells the helper to give up, whichever way the exchange ends.
pub(super) struct StopOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
