//! Stripes dealt out to aggregators: the arithmetic of the static-cyclic and the group-cyclic partition.
//!
//! Stripe `n` of the file lies on storage target `n mod stripe_count`, in *row* `n div stripe_count` of its object.
//!
//! Group-cyclic, with `S` targets and `A` aggregators: `A div S` full groups of `S` aggregators and a short one of the
//! `A mod S` left over. Each group has one region, of a number of rows in proportion to its members. In a region of `R`
//! rows the targets' objects laid end to end are `S R` cells (cell `o R + i` is row `i` of target `o`); member `m` of `M`
//! has the cells from `m S R / M` to `(m + 1) S R / M`. So with `M = S` it has one target; with `M < S` some targets
//! whole, and parts of at most two, contiguous in their objects. It takes them row by row, so that it keeps all its targets
//! busy. (SC 2008 leaves open what becomes of aggregators that do not fill a group; ROMIO lets the stripe count's divisors
//! decide, and falls to one aggregator at 53 stripes and 37 aggregators.)

use crate::{ByteRange, Partition};

/// Up to this many rows a range's stripes are looked at one by one.
const ROWS_LOOKED_AT_MAX: u64 = 4;

/// Which stripes an aggregator has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dealing {
    stripe_bytes: u64,
    aggregators: u64,
    /// Stripes that the range touches, half-open.
    stripe_first: u64,
    stripe_end: u64,
    /// Storage targets; `None` for static-cyclic.
    targets: Option<u64>,
}

/// A rectangle of stripes that one member has: rows of the file's stripes by targets. May be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rectangle {
    row: u64,
    rows: u64,
    target: u64,
    targets: u64,
}

impl Rectangle {
    fn stripes(self) -> u64 {
        self.rows * self.targets
    }
}

fn to_u64(value: u128) -> u64 {
    u64::try_from(value).expect("a share of stripes is not more than the stripes")
}

impl Dealing {
    /// The dealing of `partition`, if it deals stripes out.
    pub(super) fn new(range: ByteRange, aggregators: u64, partition: Partition) -> Option<Self> {
        let (stripe_bytes, targets) = match partition {
            Partition::Even | Partition::Aligned { .. } => return None,
            Partition::StaticCyclic { stripe_bytes } => (stripe_bytes.get(), None),
            Partition::GroupCyclic { stripe_bytes, stripe_count } => (stripe_bytes.get(), Some(stripe_count.get())),
        };
        let stripe_first = range.start / stripe_bytes;
        let stripe_end = if range.is_empty() { stripe_first } else { (range.end - 1) / stripe_bytes + 1 };
        Some(Self { stripe_bytes, aggregators, stripe_first, stripe_end, targets })
    }

    pub(super) fn stripe_bytes(&self) -> u64 {
        self.stripe_bytes
    }

    pub(super) fn stripe_of(&self, offset: u64) -> u64 {
        offset / self.stripe_bytes
    }

    /// Who has a stripe of the range.
    pub(super) fn owner(&self, stripe: u64) -> u64 {
        let Some(targets) = self.targets else { return stripe % self.aggregators };
        let (row, target) = (stripe / targets, stripe % targets);
        let group = self.group_of(row, targets);
        let (row_first, rows, members) = self.region(group, targets);
        let cell = u128::from(target) * u128::from(rows) + u128::from(row - row_first);
        let member = cell * u128::from(members) / (u128::from(targets) * u128::from(rows));
        group * targets + to_u64(member)
    }

    /// How many stripes an aggregator has, those of its region that the ends of the range leave out included.
    pub(super) fn stripe_count(&self, aggregator: u64) -> u64 {
        match self.targets {
            None => {
                let first = self.static_first(aggregator);
                self.stripe_end.saturating_sub(first).div_ceil(self.aggregators)
            }
            Some(targets) => self.share(aggregator, targets).iter().map(|rectangle| rectangle.stripes()).sum(),
        }
    }

    /// Stripe number `number` of an aggregator, in the order in which it takes them.
    pub(super) fn stripe(&self, aggregator: u64, number: u64) -> u64 {
        let Some(targets) = self.targets else {
            return self.static_first(aggregator) + number * self.aggregators;
        };
        let mut rest = number;
        for rectangle in self.share(aggregator, targets) {
            if rest < rectangle.stripes() {
                let row = rectangle.row + rest / rectangle.targets;
                return row * targets + rectangle.target + rest % rectangle.targets;
            }
            rest -= rectangle.stripes();
        }
        unreachable!("aggregator {aggregator} has no stripe number {number}")
    }

    /// From the first byte of an aggregator to its last.
    pub(super) fn hull(&self, aggregator: u64, range: ByteRange) -> ByteRange {
        let (first, end) = match self.targets {
            None => {
                let count = self.stripe_count(aggregator);
                let first = self.static_first(aggregator);
                (first, if count == 0 { first } else { first + (count - 1) * self.aggregators + 1 })
            }
            Some(targets) => {
                let filled = self.share(aggregator, targets).into_iter().filter(|rectangle| rectangle.stripes() > 0);
                let ends = filled.map(|rectangle| {
                    let last = (rectangle.row + rectangle.rows - 1) * targets + rectangle.target + rectangle.targets;
                    (rectangle.row * targets + rectangle.target, last)
                });
                ends.reduce(|(a, b), (c, d)| (a.min(c), b.max(d))).unwrap_or((self.stripe_first, self.stripe_first))
            }
        };
        let clamp = |stripe: u64| stripe.saturating_mul(self.stripe_bytes).clamp(range.start, range.end);
        ByteRange::new(clamp(first), clamp(end))
    }

    /// Bytes of the range that an aggregator has: its stripes, less what the ends of the range cut off.
    pub(super) fn domain_bytes(&self, aggregator: u64, range: ByteRange) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let inside = match self.targets {
            None => self.stripe_count(aggregator),
            Some(targets) => {
                self.share(aggregator, targets).iter().map(|rectangle| self.stripes_inside(*rectangle, targets)).sum()
            }
        };
        let mut bytes = inside * self.stripe_bytes;
        if self.owner(self.stripe_first) == aggregator {
            bytes -= range.start % self.stripe_bytes;
        }
        if self.owner(self.stripe_end - 1) == aggregator {
            bytes -= self.stripe_end * self.stripe_bytes - range.end;
        }
        bytes
    }

    /// How many stripes of a rectangle the range touches: all but some of its first and last row.
    fn stripes_inside(&self, rectangle: Rectangle, targets: u64) -> u64 {
        let inside = |row: u64| {
            let start = row * targets + rectangle.target;
            let end = start + rectangle.targets;
            end.min(self.stripe_end).saturating_sub(start.max(self.stripe_first))
        };
        match rectangle.rows {
            _ if rectangle.targets == 0 => 0,
            0 => 0,
            1 => inside(rectangle.row),
            rows => inside(rectangle.row) + inside(rectangle.row + rows - 1) + (rows - 2) * rectangle.targets,
        }
    }

    /// Whether [`Dealing::candidates`] of this range are stripes; else they are aggregators.
    pub(super) fn are_stripes(&self, range: ByteRange) -> bool {
        if range.is_empty() {
            return false;
        }
        let count = self.stripe_of(range.end - 1) - self.stripe_of(range.start) + 1;
        match self.targets {
            None => count < self.aggregators,
            Some(targets) => count < targets.saturating_mul(ROWS_LOOKED_AT_MAX),
        }
    }

    /// `(first, count)` of the stripes in `range`, or of the aggregators that may have some of them.
    pub(super) fn candidates(&self, range: ByteRange) -> (u64, u64) {
        let (first, last) = (self.stripe_of(range.start), self.stripe_of(range.end - 1));
        if self.are_stripes(range) {
            return (first, last - first + 1);
        }
        let Some(targets) = self.targets else { return (0, self.aggregators) };
        let (first, last) = (self.group_of(first / targets, targets), self.group_of(last / targets, targets));
        (first * targets, ((last + 1) * targets).min(self.aggregators) - first * targets)
    }

    /// The targets, of `targets` round which the stripes of the file go, that an aggregator may deal with, ascending.
    pub(super) fn targets_of(&self, aggregator: u64, targets: u64) -> Vec<u64> {
        let mut found: Vec<u64> = match self.targets {
            // Its stripes are those with one remainder: their targets repeat after so many at most.
            None => (0..targets).map(|number| (aggregator + number * self.aggregators) % targets).collect(),
            Some(own) => self
                .share(aggregator, own)
                .iter()
                .filter(|rectangle| rectangle.rows > 0)
                .flat_map(|rectangle| rectangle.target..rectangle.target + rectangle.targets)
                .map(|target| target % targets)
                .collect(),
        };
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Static-cyclic: the first stripe of an aggregator in the range, or the first behind it.
    fn static_first(&self, aggregator: u64) -> u64 {
        let phase = (aggregator + self.aggregators - self.stripe_first % self.aggregators) % self.aggregators;
        self.stripe_first + phase
    }

    /// Rows that the range touches, half-open.
    fn rows(&self, targets: u64) -> (u64, u64) {
        (self.stripe_first / targets, self.stripe_end.div_ceil(targets))
    }

    /// The row with which the region of `group` begins.
    fn region_start(&self, group: u64, targets: u64) -> u64 {
        let (first, end) = self.rows(targets);
        let members_before = (group * targets).min(self.aggregators);
        first + to_u64(u128::from(end - first) * u128::from(members_before) / u128::from(self.aggregators))
    }

    /// The region of `group`: its first row, its rows, its members.
    fn region(&self, group: u64, targets: u64) -> (u64, u64, u64) {
        let start = self.region_start(group, targets);
        let members = (self.aggregators - group * targets).min(targets);
        (start, self.region_start(group + 1, targets) - start, members)
    }

    /// The group whose region has `row`: a halving, since regions end at whole rows.
    fn group_of(&self, row: u64, targets: u64) -> u64 {
        let (mut low, mut high) = (0, self.aggregators.div_ceil(targets));
        // Invariant: region_start(low) <= row < region_start(high).
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.region_start(middle, targets) <= row { low = middle } else { high = middle }
        }
        low
    }

    /// What an aggregator has, as at most three rectangles that follow one another in the file: its cells are the tail of one
    /// target's object, some whole, and the head of another's; cut by rows, the targets it has are neighbours.
    fn share(&self, aggregator: u64, targets: u64) -> [Rectangle; 3] {
        let (row_first, rows, members) = self.region(aggregator / targets, targets);
        let cells = u128::from(targets) * u128::from(rows);
        let member = u128::from(aggregator % targets);
        let cell = |member: u128| to_u64((member * cells).div_ceil(u128::from(members)));
        let (from, to) = (cell(member), cell(member + 1));
        let rectangle = |row: u64, row_end: u64, target: u64, target_end: u64| Rectangle {
            row: row_first + row,
            rows: row_end.saturating_sub(row),
            target,
            targets: target_end.saturating_sub(target),
        };
        if from == to {
            return [rectangle(0, 0, 0, 0); 3];
        }
        // The target of the first cell and the rows before it; the same for the cell behind the last.
        let (first, head) = (from / rows, from % rows);
        let (last, tail) = (to / rows, to % rows);
        if first == last {
            return [rectangle(head, tail, first, first + 1), rectangle(0, 0, 0, 0), rectangle(0, 0, 0, 0)];
        }
        // Rows below `head` lack the first target, rows from `tail` on lack the last.
        let (low, high) = (head.min(tail), head.max(tail));
        let middle = if head <= tail { (first, last + 1) } else { (first + 1, last) };
        [
            rectangle(0, low, first + 1, last + 1),
            rectangle(low, high, middle.0, middle.1),
            rectangle(high, rows, first, last),
        ]
    }
}
