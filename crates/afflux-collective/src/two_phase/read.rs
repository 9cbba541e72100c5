//! Steps 2 and 3 of a read.
//!
//! Each rank goes through the rounds and takes its pieces of each window, as an aggregator also what goes to other nodes. Where
//! every rank knows all, the first rank that comes to a window reads it, and a rank that would have to wait for one reads the
//! next; else the aggregators read, on helper threads. Several ranks may want the same bytes: they are read once.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use afflux_plan::{AggregatorIndex, PayloadIndex, cover};

use super::remote::Peers;
use super::served::{Direction, Mover, Served};
use super::write::{StopOnDrop, join};
use super::{Engine, Own, Requests, wait_for};
use crate::error::LocalFailure;
use crate::memory::Target;
use crate::transfer::nanoseconds;
use crate::windows::Window;
use crate::{CollectiveError, Work};

/// Collective: reads the bytes of `own` into `target` through the aggregators. The inner result is this rank's own part of the
/// verdict; when it is an error, on this rank or another, what is in the memory does not matter.
pub(crate) fn read(
    engine: &Engine<'_>,
    requests: &Requests,
    own: &Own<'_>,
    target: &mut Target<'_, '_>,
    gap_bytes_max: u64,
    messages: &mut Vec<u8>,
    work: &mut Work,
) -> Result<Result<(), LocalFailure>, CollectiveError> {
    let begin = Instant::now();
    let named: Vec<_> = requests.list().iter().map(|(rank, extents)| (*rank, extents)).collect();
    let coverage = cover(&named);
    let covered = PayloadIndex::new(&coverage.covered);
    let indices: Vec<PayloadIndex<'_>> = named.iter().map(|(_, extents)| PayloadIndex::new(extents)).collect();
    work.merge_steps += coverage.step_count;
    work.exchange_nanoseconds += nanoseconds(begin);
    let direction = Direction::Read { gap_bytes_max };
    let unit_bytes = engine.unit_bytes();
    let mover = Mover { file: engine.file, domains: engine.domains, covered: &covered, direction, unit_bytes };
    let takers = |aggregator, round| takers(engine.domains, &indices, aggregator, round);
    let mut taking = Taking { engine, own, target, peers: Peers::new(engine, requests), messages };
    match requests {
        Requests::Known(_) if engine.throttle.is_none() => {
            let mut crew = Crew { engine: *engine, mover, takers: &takers, outcome: Ok(()) };
            taking.all_rounds(&mut crew, work)?;
            Ok(crew.outcome)
        }
        _ => {
            let stop = AtomicBool::new(false);
            let aggregator = engine.own_aggregator();
            let of_own = |round| aggregator.map_or(0, |aggregator| takers(aggregator, round));
            let served = aggregator.map(|aggregator| Served::new(engine, aggregator, mover, &of_own, &stop));
            std::thread::scope(|scope| {
                let _stop = StopOnDrop(&stop);
                let helper = served.map(|served| scope.spawn(move || served.run()));
                taking.all_rounds(&mut ByAggregators { engine: *engine }, work)?;
                Ok(helper.map_or(Ok(()), |helper| join(helper, work)))
            })
        }
    }
}

/// How many of the ranks have bytes in a window.
fn takers(
    domains: &afflux_plan::FileDomains,
    indices: &[PayloadIndex<'_>],
    aggregator: AggregatorIndex,
    round: u64,
) -> u64 {
    let takes =
        |index: &&PayloadIndex<'_>| domains.blocks(aggregator, round).any(|block| index.bytes_in(block.range) > 0);
    indices.iter().filter(takes).count() as u64
}

/// Who sees to it that windows are read.
trait Keeper<'e> {
    /// Waits until a window has been read.
    fn admit(
        &mut self,
        aggregator: AggregatorIndex,
        round: u64,
        work: &mut Work,
    ) -> Result<Window<'e>, CollectiveError>;

    /// A rank has what it wanted of the window.
    fn taken(&mut self, aggregator: AggregatorIndex, round: u64, window: Window<'e>);
}

/// A rank's part of the exchange.
struct Taking<'a, 'e, 't, 'b> {
    engine: &'a Engine<'e>,
    own: &'a Own<'a>,
    target: &'a mut Target<'t, 'b>,
    peers: Peers<'a>,
    messages: &'a mut Vec<u8>,
}

impl<'e> Taking<'_, 'e, '_, '_> {
    fn all_rounds(&mut self, keeper: &mut impl Keeper<'e>, work: &mut Work) -> Result<(), CollectiveError> {
        let rounds = self.engine.domains.round_count();
        for round in 0..rounds {
            if !self.engine.node.has_all() {
                self.exchange(keeper, round, work)?;
            }
            self.take_own(keeper, round, work)?;
        }
        work.rounds += rounds;
        Ok(())
    }

    /// What this rank has of aggregators whose memory it reaches.
    fn take_own(&mut self, keeper: &mut impl Keeper<'e>, round: u64, work: &mut Work) -> Result<(), CollectiveError> {
        let engine = self.engine;
        for aggregator in self.own.turn(engine).filter(|&aggregator| engine.node.slot(aggregator).is_some()) {
            if self.own.bytes(engine, aggregator, round) == 0 {
                continue;
            }
            let window = keeper.admit(aggregator, round, work)?;
            let begin = Instant::now();
            let blocks = engine.domains.blocks(aggregator, round);
            work.copied_bytes += window.take(self.target, &self.own.index, blocks, engine.node.turn);
            work.copy_nanoseconds += nanoseconds(begin);
            keeper.taken(aggregator, round, window);
        }
        Ok(())
    }

    /// Collective: what goes to and comes from other nodes, in steps.
    fn exchange(&mut self, keeper: &mut impl Keeper<'e>, round: u64, work: &mut Work) -> Result<(), CollectiveError> {
        let engine = self.engine;
        for step in engine.steps() {
            let mut outgoing = Vec::new();
            for (peer, bytes) in self.peers.parts(engine, round, &step) {
                let aggregator = engine.own_aggregator().expect("only aggregators have peers");
                let window = keeper.admit(aggregator, round, work)?;
                let mut message = Vec::with_capacity(bytes);
                window.take_message(&mut message, self.peers.index(peer), engine.domains.blocks(aggregator, round));
                work.copied_bytes += message.len() as u64;
                keeper.taken(aggregator, round, window);
                outgoing.push((peer, message));
            }
            let begin = Instant::now();
            let at = (round, &step);
            self.peers.send_to_ranks(engine, self.own, self.target, at, &outgoing, self.messages, work)?;
            work.exchange_nanoseconds += nanoseconds(begin);
        }
        Ok(())
    }
}

/// The ranks of a node that know all.
struct Crew<'e> {
    engine: Engine<'e>,
    mover: Mover<'e>,
    takers: &'e dyn Fn(AggregatorIndex, u64) -> u64,
    outcome: Result<(), LocalFailure>,
}

impl<'e> Crew<'e> {
    fn window(&self, aggregator: AggregatorIndex, round: u64) -> Window<'e> {
        let slot = self.engine.node.slot(aggregator).expect("only windows that this rank reaches are taken");
        self.engine.window(slot, round)
    }

    /// What the freed gate of the buffer must reach before the window can be read; `None` where it is free from the start.
    fn free_from(&self, aggregator: AggregatorIndex, round: u64) -> Option<u32> {
        let is_used = |round| self.mover.covered_bytes(aggregator, round) > 0;
        let before = self.engine.round_before(round, is_used)?;
        Some(self.window(aggregator, before).next_number())
    }

    /// Reads a window if its buffer is free and nobody else has claimed it; whether it did.
    fn read(&mut self, aggregator: AggregatorIndex, round: u64, work: &mut Work) -> bool {
        let window = self.window(aggregator, round);
        if self.free_from(aggregator, round).is_some_and(|target| !window.freed().is_reached(target)) {
            return false;
        }
        let Some(claimed) = window.claim() else { return false };
        self.mover.make_ready((aggregator, round), claimed, None, &mut self.outcome, work);
        true
    }

    /// Reads the next window that can be read, of any aggregator here; whether there was one.
    fn read_ahead(&mut self, round: u64, work: &mut Work) -> bool {
        let (depth, rounds) = (self.engine.node.windows.depth() as u64, self.engine.domains.round_count());
        for round in round..(round + depth).min(rounds) {
            for aggregator in (0..self.engine.domains.aggregator_count()).map(AggregatorIndex) {
                let here = self.engine.node.slot(aggregator).is_some();
                if here && self.mover.covered_bytes(aggregator, round) > 0 && self.read(aggregator, round, work) {
                    return true;
                }
            }
        }
        false
    }
}

impl<'e> Keeper<'e> for Crew<'e> {
    fn admit(
        &mut self,
        aggregator: AggregatorIndex,
        round: u64,
        work: &mut Work,
    ) -> Result<Window<'e>, CollectiveError> {
        let window = self.window(aggregator, round);
        if let Some(target) = self.free_from(aggregator, round)
            && !window.readied().is_reached(window.next_number())
        {
            wait_for(&self.engine, window.freed(), target, work)?;
        }
        let ready = window.readied();
        while !ready.is_reached(window.next_number()) && !self.read(aggregator, round, work) {
            if !self.read_ahead(round, work) {
                wait_for(&self.engine, ready, window.next_number(), work)?;
            }
        }
        Ok(window)
    }

    fn taken(&mut self, aggregator: AggregatorIndex, round: u64, window: Window<'e>) {
        if let Some(whole) = window.count(1, Some((self.takers)(aggregator, round))) {
            whole.free();
        }
    }
}

/// The aggregators read, each its own windows.
struct ByAggregators<'e> {
    engine: Engine<'e>,
}

impl<'e> Keeper<'e> for ByAggregators<'e> {
    fn admit(
        &mut self,
        aggregator: AggregatorIndex,
        round: u64,
        work: &mut Work,
    ) -> Result<Window<'e>, CollectiveError> {
        let slot = self.engine.node.slot(aggregator).expect("only windows that this rank reaches are taken");
        let window = self.engine.window(slot, round);
        wait_for(&self.engine, window.readied(), window.next_number(), work)?;
        Ok(window)
    }

    fn taken(&mut self, _aggregator: AggregatorIndex, _round: u64, window: Window<'e>) {
        window.count(1, None);
    }
}
