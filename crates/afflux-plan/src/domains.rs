//! File domains: which aggregator answers for which part of the accessed range, and in which rounds.
//!
//! Answers for: the partition of one range, the owner of an offset, the windows of the rounds. Leaves to others which
//! ranks aggregate (`layout`) and what is in a domain (`sends`, `cover`). Invariants: the domains ascend with the
//! aggregator's index and partition the range exactly; the windows of a domain partition the domain.
//!
//! The methods are those of Liao and Choudhary (SC 2008): [`Partition::Even`] and [`Partition::Aligned`] so far. The
//! callers ask only for [`FileDomains::window`], so that cyclic methods fit behind the same questions.

use std::fmt;
use std::num::NonZeroU64;

use crate::{AggregatorIndex, ByteRange};

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
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even => write!(f, "even"),
            Self::Aligned { unit_bytes } => write!(f, "aligned to {unit_bytes} bytes"),
        }
    }
}

/// What two ranks' writes to the page cache contend for.
const PAGE_BYTES: NonZeroU64 = NonZeroU64::new(4096).expect("not zero");

/// Below this many pages an aggregator, evenness matters more than whole pages.
const PAGES_PER_AGGREGATOR_MIN: u64 = 16;

impl Partition {
    /// Aligned to the stripes where they are known (hint `striping_unit`), else to pages, else, for ranges too small to
    /// share out in pages, even.
    #[must_use]
    pub fn choose(range: ByteRange, aggregator_count: usize, striping_unit_bytes: Option<NonZeroU64>) -> Self {
        let pages = range.bytes() / PAGE_BYTES / PAGES_PER_AGGREGATOR_MIN;
        match striping_unit_bytes {
            Some(unit_bytes) => Self::Aligned { unit_bytes },
            None if pages >= aggregator_count as u64 => Self::Aligned { unit_bytes: PAGE_BYTES },
            None => Self::Even,
        }
    }
}

/// The partition of one accessed range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDomains {
    range: ByteRange,
    partition: Partition,
    aggregator_count: usize,
    round_bytes: NonZeroU64,
}

impl FileDomains {
    /// Cuts `range` for `aggregator_count` aggregators, each of which takes at most `round_bytes` of its domain a round.
    ///
    /// # Panics
    /// If there is no aggregator.
    #[must_use]
    pub fn new(range: ByteRange, aggregator_count: usize, partition: Partition, round_bytes: NonZeroU64) -> Self {
        assert!(aggregator_count > 0, "someone must answer for the file");
        Self { range, partition, aggregator_count, round_bytes }
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

    /// Where domain `index` begins (and domain `index - 1` ends); a formula, so that no rank keeps a list.
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
            Partition::Even => even,
            Partition::Aligned { unit_bytes } => {
                let unit = unit_bytes.get();
                let (below, rest) = (even - even % unit, even % unit);
                let nearest = if rest < unit - rest { below } else { below.saturating_add(unit) };
                nearest.clamp(self.range.start, self.range.end)
            }
        }
    }

    /// The domain of an aggregator; may be empty.
    ///
    /// # Panics
    /// If there is no such aggregator.
    #[must_use]
    pub fn domain(&self, aggregator: AggregatorIndex) -> ByteRange {
        assert!(aggregator.0 < self.aggregator_count, "aggregator {} of {}", aggregator.0, self.aggregator_count);
        ByteRange::new(self.border(aggregator.0), self.border(aggregator.0 + 1))
    }

    /// Who answers for the byte at `offset`; found by halving, because aligned borders have no closed inverse.
    ///
    /// # Panics
    /// If the offset lies outside the range.
    #[must_use]
    pub fn owner(&self, offset: u64) -> AggregatorIndex {
        assert!(self.range.contains(offset), "offset {offset} lies outside {}", self.range);
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
            .map(|index| self.domain(AggregatorIndex(index)).bytes().div_ceil(self.round_bytes.get()))
            .max()
            .unwrap_or(0)
    }

    /// The part of an aggregator's domain that it takes in round `round`, counted from 0; empty after its last.
    #[must_use]
    pub fn window(&self, aggregator: AggregatorIndex, round: u64) -> ByteRange {
        let domain = self.domain(aggregator);
        let at = |round: u64| domain.start.saturating_add(self.round_bytes.get().saturating_mul(round)).min(domain.end);
        ByteRange::new(at(round), at(round.saturating_add(1)))
    }
}
