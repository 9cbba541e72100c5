//! Two-phase access, in the order of its steps:
//!
//! 1. The ranks have told one another what they access ([`Requests`]): each rank knows all, where ranks are few and
//!    descriptions short; else each aggregator knows what concerns its domain ([`ask`]).
//! 2. The requests are merged: what is covered, and whether two ranks write one byte.
//! 3. In rounds that every rank counts alike, the window of each aggregator passes through a collective buffer
//!    ([`windows`](crate::windows)). For a write the ranks place their pieces and the window is written
//!    ([`write`](write::write)); for a read it is read and the ranks take their pieces ([`read`](read::read)). Where a rank does not
//!    reach an aggregator's memory, messages go between them ([`remote`]), one a pair and round; both sides work out their
//!    lengths from what they know already. Where few aggregators shall receive at a time, those of a round follow one another in
//!    steps.
//!
//! Who moves a window between buffer and file: where every rank knows all, whichever rank of the aggregator's node comes to it
//! (the last to place, the first to take), so that nobody is woken for it; else the aggregator, whose helper thread does
//! nothing else and calls no message ([`served`]).
//!
//! What an aggregator asks of itself never travels. A rank whose file work fails goes on to the end, so that nobody waits for
//! it; the verdict after the last round is the caller's.

mod read;
mod remote;
mod served;
mod spans;
mod turns;
mod write;

use std::num::NonZeroU64;
use std::ops::Range;
use std::time::Instant;

use afflux_comm::{Communicator, Gate};
use afflux_plan::{
    AggregatorIndex, AggregatorLayout, Extents, FileDomains, PayloadIndex, Rank, Send, Throttle, plan_sends, wire,
};
use afflux_storage::StorageFile;

use crate::node::Node;
use crate::transfer::nanoseconds;
use crate::windows::Window;
use crate::{CollectiveError, Work};

pub(crate) use read::read;
pub(crate) use write::write;

/// What one access works with.
#[derive(Clone, Copy)]
pub(crate) struct Engine<'a> {
    pub(crate) comm: &'a dyn Communicator,
    pub(crate) file: &'a dyn StorageFile,
    pub(crate) layout: &'a AggregatorLayout,
    pub(crate) domains: &'a FileDomains,
    pub(crate) node: &'a Node,
    /// The number of this access on the file, equal on all ranks.
    pub(crate) call: u64,
    /// Number of its first window in each slot.
    pub(crate) first_window: u32,
    /// Requests at storage targets are bounded: aggregators take turns.
    pub(crate) throttle: Option<Throttle>,
    /// So many aggregators, from 1, exchange with other nodes at a time.
    pub(crate) step_aggregators: usize,
}

/// Waits until a gate has reached `target`.
fn wait_for(engine: &Engine<'_>, gate: &Gate, target: u32, work: &mut Work) -> Result<(), CollectiveError> {
    if gate.is_reached(target) {
        return Ok(());
    }
    let begin = Instant::now();
    let reached = |value: u32| value.wrapping_sub(target) < 1 << 31;
    engine.comm.wait_at(gate, "a collective access", "the ranks that share a collective buffer", &reached)?;
    work.wait_nanoseconds += nanoseconds(begin);
    Ok(())
}

/// Who accesses what, as far as this rank knows.
pub(crate) enum Requests {
    /// What every rank accesses, ascending by rank; known to all.
    Known(Vec<(Rank, Extents)>),
    /// What each rank, this one included, asks of this rank, ascending by rank. Empty where it does not aggregate.
    Told(Vec<(Rank, Extents)>),
}

impl Requests {
    pub(crate) fn list(&self) -> &[(Rank, Extents)] {
        match self {
            Self::Known(list) | Self::Told(list) => list,
        }
    }
}

/// What this rank accesses.
pub(crate) struct Own<'a> {
    pub(crate) index: PayloadIndex<'a>,
    /// The aggregators that it may deal with, ascending.
    pub(crate) aggregators: Vec<AggregatorIndex>,
}

impl<'a> Own<'a> {
    /// With the aggregators of `extents`.
    pub(crate) fn new(extents: &'a Extents, engine: &Engine<'_>) -> Self {
        let mut deals = vec![false; engine.domains.aggregator_count()];
        // As `plan_sends` finds them, without a description for each.
        afflux_plan::owners_of(extents, engine.domains, |owner| deals[owner.0] = true);
        let aggregators = (0..deals.len()).filter(|&index| deals[index]).map(AggregatorIndex).collect();
        Self { index: PayloadIndex::new(extents), aggregators }
    }

    /// Its bytes in a window.
    pub(crate) fn bytes(&self, engine: &Engine<'_>, aggregator: AggregatorIndex, round: u64) -> u64 {
        engine.domains.blocks(aggregator, round).map(|block| self.index.bytes_in(block.range)).sum()
    }

    /// The aggregators of a step whose memory this rank does not reach.
    fn aggregators_away<'s>(
        &'s self,
        engine: &'s Engine<'_>,
        step: &'s Range<usize>,
    ) -> impl Iterator<Item = &'s AggregatorIndex> {
        let is_away = |aggregator: &&AggregatorIndex| engine.node.slot(**aggregator).is_none();
        self.aggregators.iter().filter(|aggregator| step.contains(&aggregator.0)).filter(is_away)
    }

    /// The aggregators, beginning with another on each rank of a node, so that ranks seldom wait for one another.
    pub(crate) fn turn(&self, engine: &Engine<'_>) -> impl Iterator<Item = AggregatorIndex> + '_ {
        let first = self.aggregators.len() * engine.node.turn.mine / engine.node.turn.ranks.max(1);
        let (before, from) = self.aggregators.split_at(first);
        from.iter().chain(before).copied()
    }
}

impl<'a> Engine<'a> {
    pub(crate) fn rank(&self) -> Rank {
        Rank(self.comm.rank())
    }

    /// Which aggregator of this access this rank is, if it is one.
    pub(crate) fn own_aggregator(&self) -> Option<AggregatorIndex> {
        self.layout.index_of(self.rank()).filter(|aggregator| aggregator.0 < self.domains.aggregator_count())
    }

    /// A window whose memory this rank reaches.
    pub(crate) fn window(&self, slot: usize, round: u64) -> Window<'a> {
        self.node.windows.window(slot, self.first_window, round)
    }

    /// The steps of a round's exchange: the aggregators of each, half-open. As many on every rank.
    fn steps(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (count, each) = (self.domains.aggregator_count(), self.step_aggregators);
        (0..count).step_by(each).map(move |first| first..(first + each).min(count))
    }

    /// Where requests are bounded: what none of them may concern two of.
    fn unit_bytes(&self) -> Option<NonZeroU64> {
        self.throttle.and_then(|_| self.domains.partition().stripe_bytes())
    }

    /// The round before `round` in which the same buffer was used, if there is one of which `is_used`.
    pub(crate) fn round_before(&self, round: u64, is_used: impl Fn(u64) -> bool) -> Option<u64> {
        let depth = self.node.windows.depth() as u64;
        let mut round = round.checked_sub(depth)?;
        while !is_used(round) {
            round = round.checked_sub(depth)?;
        }
        Some(round)
    }

    /// Collective: step 1 where not all know all: tells the aggregators what concerns them.
    pub(crate) fn ask(&self, extents: &Extents, work: &mut Work) -> Result<Requests, CollectiveError> {
        let begin = Instant::now();
        let asked = plan_sends(extents, self.domains);
        let mut descriptions = Vec::with_capacity(asked.len());
        let mut received = Vec::new();
        for Send { aggregator, extents } in asked {
            let to = self.layout.rank(aggregator);
            if to == self.rank() {
                received.push((to, extents));
                continue;
            }
            let mut bytes = Vec::new();
            wire::encode(&extents, &mut bytes);
            work.description_bytes += bytes.len() as u64;
            descriptions.push((to.0, bytes));
        }
        let messages: Vec<(usize, &[u8])> = descriptions.iter().map(|(to, bytes)| (*to, bytes.as_slice())).collect();
        for message in self.comm.sparse_exchange(&messages)? {
            let extents = wire::decode(&message.bytes)
                .map_err(|error| CollectiveError::Protocol { rank: message.source, message: error.to_string() })?;
            received.push((Rank(message.source), extents));
        }
        received.sort_by_key(|(rank, _)| *rank);
        work.exchange_nanoseconds += nanoseconds(begin);
        Ok(Requests::Told(received))
    }
}
