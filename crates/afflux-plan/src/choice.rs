//! Which partition fits a file, and why.
//!
//! The rule of Liao and Choudhary (SC 2008): no single method is best; what decides is who hands out the locks. One server
//! that hands out ranges of the whole file (GPFS) wants one contiguous piece an aggregator; servers that each lock their own
//! object of a striped file (Lustre) want one aggregator an object; and where nobody locks, only balance counts.

use std::fmt;
use std::num::NonZeroU64;

use crate::{ByteRange, Partition};

/// Who hands out the locks that writers of one file need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Locks {
    /// Not known.
    #[default]
    Unknown,
    /// Nobody: one kernel has the file.
    Free,
    /// One manager, ranges of the file (GPFS).
    Ranges,
    /// Each storage target for its own object (Lustre).
    Objects,
}

/// What a plan knows of the file it is for. The same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileTraits {
    /// Who hands out the locks.
    pub locks: Locks,
    /// Bytes of a stripe, or of what one lock covers.
    pub stripe_bytes: Option<NonZeroU64>,
    /// Stripes until the first storage target comes again.
    pub stripe_count: Option<NonZeroU64>,
}

/// A partition as it can be asked for: the stripes are the file's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PartitionMethod {
    /// What fits the file.
    #[default]
    Automatic,
    /// [`Partition::Even`].
    Even,
    /// [`Partition::Aligned`].
    Aligned,
    /// [`Partition::StaticCyclic`].
    StaticCyclic,
    /// [`Partition::GroupCyclic`].
    GroupCyclic,
}

impl PartitionMethod {
    /// All of them, in the order of the list above.
    pub const ALL: [Self; 5] = [Self::Automatic, Self::Even, Self::Aligned, Self::StaticCyclic, Self::GroupCyclic];

    /// Its name in hints and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::Even => "even",
            Self::Aligned => "aligned",
            Self::StaticCyclic => "static-cyclic",
            Self::GroupCyclic => "group-cyclic",
        }
    }
}

impl fmt::Display for PartitionMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What two ranks' writes to the page cache contend for.
const PAGE_BYTES: NonZeroU64 = NonZeroU64::new(4096).expect("not zero");

/// Below this many pages an aggregator, evenness matters more than whole pages.
const PAGES_PER_AGGREGATOR_MIN: u64 = 16;

/// Stripes of a partition that was asked for by name on a file without: 1 MiB, the default of Lustre.
const STRIPE_BYTES_DEFAULT: NonZeroU64 = NonZeroU64::new(1 << 20).expect("not zero");

impl Partition {
    /// The partition of `range` among `aggregator_count` aggregators, and why: as asked for, else what fits the file.
    ///
    /// Where locks are free, or not known and the range too small to be shared out in pages, lock units are ignored and the
    /// domains are even to the byte.
    #[must_use]
    pub fn choose(
        range: ByteRange,
        aggregator_count: usize,
        asked: PartitionMethod,
        file: &FileTraits,
    ) -> (Self, &'static str) {
        let stripe_bytes = file.stripe_bytes.unwrap_or(STRIPE_BYTES_DEFAULT);
        let aggregators = aggregator_count as u64;
        match asked {
            PartitionMethod::Automatic => Self::automatic(range, aggregators, file),
            PartitionMethod::Even => (Self::Even, "asked for"),
            PartitionMethod::Aligned => (Self::Aligned { unit_bytes: stripe_bytes }, "asked for"),
            PartitionMethod::StaticCyclic => (Self::StaticCyclic { stripe_bytes }, "asked for"),
            PartitionMethod::GroupCyclic => {
                let stripe_count = file.stripe_count.unwrap_or(NonZeroU64::MIN);
                (Self::GroupCyclic { stripe_bytes, stripe_count }, "asked for")
            }
        }
    }

    fn automatic(range: ByteRange, aggregators: u64, file: &FileTraits) -> (Self, &'static str) {
        let pages = range.bytes() / PAGE_BYTES / PAGES_PER_AGGREGATOR_MIN;
        match (file.stripe_bytes, file.stripe_count) {
            (Some(stripe_bytes), Some(targets)) if file.locks != Locks::Ranges => {
                if aggregators <= targets.get() && targets.get().is_multiple_of(aggregators) {
                    return (Self::StaticCyclic { stripe_bytes }, "each storage target has one aggregator");
                }
                let reason = if aggregators > targets.get() {
                    "more aggregators than storage targets: each target's object is cut into one piece an aggregator"
                } else {
                    "the aggregators do not divide the storage targets: whole objects as far as they go"
                };
                (Self::GroupCyclic { stripe_bytes, stripe_count: targets }, reason)
            }
            (Some(unit_bytes), _) => (Self::Aligned { unit_bytes }, "locks cover ranges of the file"),
            (None, _) if file.locks == Locks::Free => (Self::Even, "locks are free"),
            (None, _) if pages >= aggregators => {
                (Self::Aligned { unit_bytes: PAGE_BYTES }, "nothing is known of locks: no page has two writers")
            }
            (None, _) => (Self::Even, "too small to be shared out in pages"),
        }
    }
}
