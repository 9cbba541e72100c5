//! Who may access a storage target when: tokens that go round.
//!
//! After Tsujita et al., HPC Asia 2018: of the aggregators that deal with a target at most `q` have a request outstanding
//! there (reads of read-modify-write included). Each target has `q` tokens; the aggregators of a target take turns at one of
//! them, in a ring: in every round each waits for its turn, makes its requests to the target one after the other, and passes the
//! token on, also where it has nothing to do. After the last of a round comes the first of the next.
//!
//! A turn is a number: turn `round * members + place` of a ring begins when the one before it has ended. So a ring is a counter,
//! in shared memory or carried by messages, and all that is planned is who has which turn.

use std::collections::HashMap;
use std::num::NonZeroU64;

use crate::{AggregatorIndex, FileDomains};

/// An aggregator's place in the ring of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingPlace {
    /// The storage target.
    pub target: u64,
    /// Which of the target's tokens, from 0.
    pub token: u64,
    /// This aggregator's place among those that share the token, from 0.
    pub place: u64,
    /// How many share it.
    pub members: u64,
}

impl RingPlace {
    /// The number of the turn that the aggregator has in a round: so many turns of the ring must have ended before.
    #[must_use]
    pub fn turn(&self, round: u64) -> u64 {
        round * self.members + self.place
    }
}

/// The rings of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    targets: NonZeroU64,
    requests_per_target: NonZeroU64,
}

impl Throttle {
    /// At most `requests_per_target` requests at each of `targets`.
    #[must_use]
    pub fn new(targets: NonZeroU64, requests_per_target: NonZeroU64) -> Self {
        Self { targets, requests_per_target }
    }

    /// Number of rings: counters that the aggregators need.
    #[must_use]
    pub fn ring_count(&self) -> u64 {
        self.targets.get() * self.requests_per_target.get()
    }

    /// The number of a ring, below [`Throttle::ring_count`].
    #[must_use]
    pub fn ring(&self, place: &RingPlace) -> u64 {
        place.target * self.requests_per_target.get() + place.token
    }

    /// The target of the stripe that holds a byte, of a file whose stripes go round the targets; `None` where the domains are
    /// not cut by stripes, and a request may concern all targets.
    #[must_use]
    pub fn target_of(&self, domains: &FileDomains, offset: u64) -> Option<u64> {
        domains.partition().stripe_bytes().map(|stripe_bytes| offset / stripe_bytes % self.targets)
    }

    /// Whether the aggregators of each ring are on one node, where it is a counter in memory.
    #[must_use]
    pub fn is_within_nodes(&self, domains: &FileDomains, node_of: impl Fn(AggregatorIndex) -> u32) -> bool {
        let (mut users, mut nodes) = (HashMap::<u64, u64>::new(), HashMap::new());
        (0..domains.aggregator_count()).map(AggregatorIndex).all(|aggregator| {
            let node = node_of(aggregator);
            domains.targets_of(aggregator, self.targets).into_iter().all(|target| {
                let before = users.entry(target).or_default();
                let token = *before % self.requests_per_target;
                *before += 1;
                *nodes.entry((target, token)).or_insert(node) == node
            })
        })
    }

    /// The places of an aggregator, one for each target that it may deal with, ascending by target.
    #[must_use]
    pub fn places(&self, domains: &FileDomains, aggregator: AggregatorIndex) -> Vec<RingPlace> {
        let all: Vec<Vec<u64>> = (0..domains.aggregator_count())
            .map(|index| domains.targets_of(AggregatorIndex(index), self.targets))
            .collect();
        let tokens = self.requests_per_target.get();
        all[aggregator.0]
            .iter()
            .map(|&target| {
                let before = all[..aggregator.0].iter().filter(|targets| targets.contains(&target)).count() as u64;
                let users = all.iter().filter(|targets| targets.contains(&target)).count() as u64;
                let token = before % tokens;
                // Those whose number among the users has the same remainder share the token.
                let members = (users - token).div_ceil(tokens);
                RingPlace { target, token, place: before / tokens, members }
            })
            .collect()
    }
}

/// Counts of aggregators below `count`, falling to 1, with which each of `targets` storage targets has as many aggregators as
/// any other, or each aggregator targets of its own (as the last has always).
pub fn even_counts_below(count: usize, targets: usize) -> impl Iterator<Item = usize> {
    let multiples = (1..=count.saturating_sub(1) / targets.max(1)).rev().map(move |each| each * targets);
    let divisors = (1..targets.min(count)).rev().filter(move |&count| targets.is_multiple_of(count));
    multiples.chain(divisors)
}
