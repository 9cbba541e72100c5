//! What the requests that reach an aggregator cover together: the runs to write, and whether two ranks claim one byte.
//!
//! MPI leaves overlapping writes of one collective call undefined. Here they are an error, found before anything in the
//! domain is written and reported in the same words whatever the timing: the lowest offset claimed twice, and by whom.
//! For reads an overlap is welcome: the bytes are read once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::{Extents, Rank};

/// Two ranks claim the same byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// The lowest offset claimed twice.
    pub offset: u64,
    /// Whose piece begins earlier (at the same offset: the lower rank).
    pub first: Rank,
    /// Whose piece begins in it.
    pub second: Rank,
}

/// The union of several ranks' extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// All covered bytes; touching and overlapping pieces are one.
    pub covered: Extents,
    /// The first overlap, if any.
    pub overlap: Option<Overlap>,
    /// Pieces looked at: a count of work, for tests and reports.
    pub piece_count: u64,
}

/// Merges the requests of the ranks named, in time proportional to the pieces times the logarithm of the number of ranks.
#[must_use]
pub fn cover(requests: &[(Rank, &Extents)]) -> Coverage {
    let mut iterators: Vec<_> = requests.iter().map(|(_, extents)| extents.pieces()).collect();
    let mut heads: BinaryHeap<Reverse<(u64, Rank, usize, u64)>> = BinaryHeap::with_capacity(requests.len());
    for (at, (iterator, (rank, _))) in iterators.iter_mut().zip(requests).enumerate() {
        heads.extend(iterator.next().map(|(offset, length)| Reverse((offset, *rank, at, length))));
    }
    let mut union = Union::default();
    while let Some(mut head) = heads.peek_mut() {
        let Reverse((offset, rank, at, length)) = *head;
        match iterators[at].next() {
            Some((next_offset, next_length)) => *head = Reverse((next_offset, rank, at, next_length)),
            None => {
                PeekMut::pop(head);
            }
        }
        union.add(offset, length, rank);
    }
    union.finish()
}

/// The union so far: what is finished, and the last covered stretch, which may still grow.
#[derive(Default)]
struct Union {
    covered: Extents,
    open: Option<(u64, u64, Rank)>,
    overlap: Option<Overlap>,
    piece_count: u64,
}

impl Union {
    /// Adds the piece with the lowest offset of those left.
    fn add(&mut self, offset: u64, length: u64, rank: Rank) {
        self.piece_count += 1;
        let end = offset + length;
        match &mut self.open {
            Some((_, open_end, last)) if offset <= *open_end => {
                if offset < *open_end && self.overlap.is_none() {
                    self.overlap = Some(Overlap { offset, first: *last, second: rank });
                }
                if end > *open_end {
                    (*open_end, *last) = (end, rank);
                }
            }
            open => {
                if let Some((start, open_end, _)) = open.replace((offset, end, rank)) {
                    self.covered.push(start, open_end - start);
                }
            }
        }
    }

    fn finish(mut self) -> Coverage {
        if let Some((start, end, _)) = self.open {
            self.covered.push(start, end - start);
        }
        Coverage { covered: self.covered, overlap: self.overlap, piece_count: self.piece_count }
    }
}
