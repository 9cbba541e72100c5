//! File domains: which aggregator answers for which part of the accessed range, and in which rounds.
//!
//! Answers for: the partition of one range, the owner of an offset, the windows of the rounds. Leaves to others which
//! ranks aggregate (`layout`), which method fits (`choice`) and what is in a domain (`sends`, `cover`).
//!
//! Invariants: the domains partition the range exactly; the windows of a domain partition the domain; nothing here is as
//! long as the file or the list of aggregators, every question has a closed formula or a halving.
//!
//! The methods are those of W. Liao and A. Choudhary, "Dynamically adapting file domain partitioning methods for
//! collective I/O based on underlying parallel file system locking protocols", SC 2008. A domain is a sequence of
//! *blocks*: parts of the file that lie in one piece there, in the order in which the aggregator takes them. Of an even or
//! aligned domain a block is what fits a round; of a cyclic one it is a stripe (or a part of one, where a round is
//! shorter), and several make a round. In a collective buffer the blocks of a round lie one behind another.

mod cyclic;

use std::fmt;
use std::num::NonZeroU64;

use crate::{AggregatorIndex, ByteRange};
use cyclic::Dealing;

/// How the accessed range is cut into file domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Partition {
    /// Lengths within one byte of each other.
    Even,
    /// As even as borders on multiples of `unit_bytes` allow, so that no two aggregators share a lock unit, a stripe or a
    /// page. When the range has fewer units than aggregators some have nothing to do.
    Aligned {
        /// What a lock, a stripe or a page covers.
        unit_bytes: NonZeroU64,
    },
    /// Stripes dealt out one by one: stripe `n` of the file belongs to aggregator `n mod aggregators`. Depends on the
    /// offset alone, so that an aggregator keeps its stripes, and its locks on them, from call to call.
    StaticCyclic {
        /// Bytes of a stripe.
        stripe_bytes: NonZeroU64,
    },
    /// An aggregator deals with few storage targets, and those who share one have each one contiguous piece of its object:
    /// the range is cut into regions, one for each `stripe_count` aggregators (a last, shorter one for the rest), and the
    /// stripes of a region are dealt out by target. Where a region has fewer aggregators than targets, the targets' objects
    /// are laid end to end and cut evenly, so that any number of aggregators is in balance.
    GroupCyclic {
        /// Bytes of a stripe.
        stripe_bytes: NonZeroU64,
        /// Stripes until the first storage target comes again.
        stripe_count: NonZeroU64,
    },
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even => write!(f, "even"),
            Self::Aligned { unit_bytes } => write!(f, "aligned to {unit_bytes} bytes"),
            Self::StaticCyclic { stripe_bytes } => write!(f, "static-cyclic, stripes of {stripe_bytes} bytes"),
            Self::GroupCyclic { stripe_bytes, stripe_count } => {
                write!(f, "group-cyclic, {stripe_count} stripes of {stripe_bytes} bytes")
            }
        }
    }
}

impl Partition {
    /// Bytes of a stripe, where the method deals stripes out.
    #[must_use]
    pub fn stripe_bytes(&self) -> Option<NonZeroU64> {
        match *self {
            Self::Even | Self::Aligned { .. } => None,
            Self::StaticCyclic { stripe_bytes } | Self::GroupCyclic { stripe_bytes, .. } => Some(stripe_bytes),
        }
    }
}

/// A part of the file that lies in one piece, and its place in the collective buffer of its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Which bytes of the file; never empty.
    pub range: ByteRange,
    /// Where the first of them lies in the buffer, in bytes.
    pub at: u64,
}

/// The partition of one accessed range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDomains {
    range: ByteRange,
    partition: Partition,
    aggregator_count: usize,
    /// The longest block.
    block_bytes: u64,
    blocks_per_round: u64,
    dealing: Option<Dealing>,
}

impl FileDomains {
    /// Cuts `range` for `aggregator_count` aggregators, each of which takes at most `round_bytes` of its domain a round.
    ///
    /// # Panics
    /// If there is no aggregator.
    #[must_use]
    pub fn new(range: ByteRange, aggregator_count: usize, partition: Partition, round_bytes: NonZeroU64) -> Self {
        assert!(aggregator_count > 0, "someone must answer for the file");
        let (block_bytes, blocks_per_round) = match partition.stripe_bytes().map(NonZeroU64::get) {
            None => (round_bytes.get(), 1),
            Some(stripe_bytes) if stripe_bytes <= round_bytes.get() => (stripe_bytes, round_bytes.get() / stripe_bytes),
            // Parts of a stripe, as equal as whole bytes allow.
            Some(stripe_bytes) => (stripe_bytes.div_ceil(stripe_bytes.div_ceil(round_bytes.get())), 1),
        };
        let dealing = Dealing::new(range, aggregator_count as u64, partition);
        Self { range, partition, aggregator_count, block_bytes, blocks_per_round, dealing }
    }

    /// The accessed range.
    #[must_use]
    pub fn range(&self) -> ByteRange {
        self.range
    }

    /// The method.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// How many aggregators there are, those with an empty domain included.
    #[must_use]
    pub fn aggregator_count(&self) -> usize {
        self.aggregator_count
    }

    /// The longest window: what a collective buffer must hold.
    #[must_use]
    pub fn window_bytes_max(&self) -> u64 {
        self.block_bytes.saturating_mul(self.blocks_per_round)
    }

    /// Where domain `index` begins (and domain `index - 1` ends), of an even or aligned partition; a formula, so that no
    /// rank keeps a list.
    fn border(&self, index: usize) -> u64 {
        if index == 0 {
            return self.range.start;
        }
        if index >= self.aggregator_count {
            return self.range.end;
        }
        let share = u128::from(self.range.bytes()) * index as u128 / self.aggregator_count as u128;
        let even = self.range.start + u64::try_from(share).expect("a share of a u64 is a u64");
        match self.partition {
            Partition::Aligned { unit_bytes } => {
                let unit = unit_bytes.get();
                let (below, rest) = (even - even % unit, even % unit);
                let nearest = if rest < unit - rest { below } else { below.saturating_add(unit) };
                nearest.clamp(self.range.start, self.range.end)
            }
            _ => even,
        }
    }

    /// From the first byte of an aggregator's domain to its last: all of the domain where that lies in one piece, else also
    /// bytes of others.
    ///
    /// # Panics
    /// If there is no such aggregator.
    #[must_use]
    pub fn hull(&self, aggregator: AggregatorIndex) -> ByteRange {
        self.check(aggregator);
        match &self.dealing {
            None => ByteRange::new(self.border(aggregator.0), self.border(aggregator.0 + 1)),
            Some(dealing) => dealing.hull(aggregator.0 as u64, self.range),
        }
    }

    /// How many bytes an aggregator answers for.
    ///
    /// # Panics
    /// If there is no such aggregator.
    #[must_use]
    pub fn domain_bytes(&self, aggregator: AggregatorIndex) -> u64 {
        match &self.dealing {
            None => self.hull(aggregator).bytes(),
            Some(dealing) => {
                self.check(aggregator);
                dealing.domain_bytes(aggregator.0 as u64, self.range)
            }
        }
    }

    /// Whether a domain is one piece of the file. If not, [`FileDomains::hull`]s overlap.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.dealing.is_none()
    }

    /// Who answers for the byte at `offset`: a formula for the cyclic methods, a halving for the others, because aligned
    /// borders have no closed inverse.
    ///
    /// # Panics
    /// If the offset lies outside the range.
    #[must_use]
    pub fn owner(&self, offset: u64) -> AggregatorIndex {
        assert!(self.range.contains(offset), "offset {offset} lies outside {}", self.range);
        if let Some(dealing) = &self.dealing {
            let owner = dealing.owner(dealing.stripe_of(offset));
            return AggregatorIndex(usize::try_from(owner).expect("aggregators are counted in usize"));
        }
        let (mut low, mut high) = (0, self.aggregator_count);
        // Invariant: border(low) <= offset < border(high).
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.border(middle) <= offset { low = middle } else { high = middle }
        }
        AggregatorIndex(low)
    }

    /// How many rounds the busiest aggregator needs: all ranks take part in as many.
    #[must_use]
    pub fn round_count(&self) -> u64 {
        (0..self.aggregator_count)
            .map(|index| self.block_count(AggregatorIndex(index)).div_ceil(self.blocks_per_round))
            .max()
            .unwrap_or(0)
    }

    /// Blocks of a domain, those that the ends of the range leave empty included.
    fn block_count(&self, aggregator: AggregatorIndex) -> u64 {
        match &self.dealing {
            None => self.hull(aggregator).bytes().div_ceil(self.block_bytes),
            Some(dealing) => dealing.stripe_count(aggregator.0 as u64) * self.blocks_per_stripe(dealing),
        }
    }

    fn blocks_per_stripe(&self, dealing: &Dealing) -> u64 {
        dealing.stripe_bytes().div_ceil(self.block_bytes)
    }

    /// What an aggregator takes of its domain in round `round`, counted from 0, in the order of its buffer; nothing after its
    /// last.
    ///
    /// # Panics
    /// If there is no such aggregator.
    pub fn blocks(&self, aggregator: AggregatorIndex, round: u64) -> impl Iterator<Item = Block> + '_ {
        self.check(aggregator);
        let first = round.saturating_mul(self.blocks_per_round);
        let end = first.saturating_add(self.blocks_per_round).min(self.block_count(aggregator));
        (first..end).map(move |number| self.block(aggregator, number, first)).filter(|block| !block.range.is_empty())
    }

    /// Block `number` of a domain, in the buffer of a round that begins with block `first`.
    fn block(&self, aggregator: AggregatorIndex, number: u64, first: u64) -> Block {
        let (start, end) = match &self.dealing {
            None => {
                let domain = self.hull(aggregator);
                let start = domain.start + number * self.block_bytes;
                (start, start.saturating_add(self.block_bytes).min(domain.end))
            }
            Some(dealing) => {
                let parts = self.blocks_per_stripe(dealing);
                let stripe = dealing.stripe(aggregator.0 as u64, number / parts) * dealing.stripe_bytes();
                let start = stripe.saturating_add(number % parts * self.block_bytes);
                let end = start.saturating_add(self.block_bytes).min(stripe.saturating_add(dealing.stripe_bytes()));
                (start, end)
            }
        };
        let whole = start;
        let (start, end) = (start.max(self.range.start), end.min(self.range.end));
        Block {
            range: ByteRange::new(start.min(end.max(start)), end.max(start)),
            at: (number - first) * self.block_bytes + (start - whole),
        }
    }

    /// The aggregators that answer for bytes of `range`, in no order, some perhaps more than once; where the range covers
    /// many stripes perhaps also some that answer for none of it. The number of steps does not grow with the range.
    ///
    /// # Panics
    /// If part of a `range` that is not empty lies outside the range of the domains.
    pub fn owners_in(&self, range: ByteRange) -> impl Iterator<Item = AggregatorIndex> + '_ {
        let (first, count) = if range.is_empty() {
            (0, 0)
        } else {
            let (first, last) = (self.owner(range.start).0 as u64, self.owner(range.end - 1).0 as u64);
            match &self.dealing {
                None => (first, last - first + 1),
                Some(dealing) => dealing.candidates(range),
            }
        };
        let by_stripe = self.dealing.as_ref().filter(|dealing| dealing.are_stripes(range));
        (first..first + count).map(move |number| {
            let owner = by_stripe.map_or(number, |dealing| dealing.owner(number));
            AggregatorIndex(usize::try_from(owner).expect("aggregators are counted in usize"))
        })
    }

    /// The storage targets, of a file whose stripes go round `targets`, that an aggregator may deal with, ascending; all of them
    /// where domains are not cut by stripes.
    ///
    /// # Panics
    /// If there is no such aggregator.
    #[must_use]
    pub fn targets_of(&self, aggregator: AggregatorIndex, targets: NonZeroU64) -> Vec<u64> {
        self.check(aggregator);
        match &self.dealing {
            None => (0..targets.get()).collect(),
            Some(dealing) => dealing.targets_of(aggregator.0 as u64, targets.get()),
        }
    }

    fn check(&self, aggregator: AggregatorIndex) {
        assert!(aggregator.0 < self.aggregator_count, "aggregator {} of {}", aggregator.0, self.aggregator_count);
    }
}
