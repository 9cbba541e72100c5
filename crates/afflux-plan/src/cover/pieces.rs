//! Merges runs piece by piece: for strides that do not fit together. Time is proportional to the pieces times the
//! logarithm of the number of runs that interleave.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::Owned;
use super::joined::Joined;
use crate::Rank;

/// Merges `runs`, ascending by offset and rank.
pub(super) fn merge(runs: &[Owned], union: &mut Joined) {
    // The next piece of each run under way: (offset, rank, run, number of the piece).
    let mut heads: BinaryHeap<Reverse<(u64, Rank, usize, u64)>> = BinaryHeap::new();
    let mut waiting = runs.iter().enumerate().map(|(at, (run, rank))| (run.offset, *rank, at)).peekable();
    loop {
        let next = heads.peek().map(|Reverse((offset, rank, ..))| (*offset, *rank));
        if let Some((offset, rank, at)) =
            waiting.next_if(|&(offset, rank, _)| next.is_none_or(|next| (offset, rank) <= next))
        {
            if runs[at].0.count == 1 {
                union.add(offset, runs[at].0.length, rank);
            } else {
                heads.push(Reverse((offset, rank, at, 0)));
            }
            continue;
        }
        let Some(mut head) = heads.peek_mut() else { return };
        let Reverse((offset, rank, at, number)) = *head;
        let run = &runs[at].0;
        if number + 1 < run.count {
            *head = Reverse((offset + run.stride, rank, at, number + 1));
        } else {
            PeekMut::pop(head);
        }
        union.add(offset, run.length, rank);
    }
}
