//! What the ranks tell one another when a flush begins, as elements of one reduction.
//!
//! Every rank gives a hash of what it is about to flush, and whether it can; rank 0 adds what only it knows: how many rows each
//! set has, where the new chunks lie, how long the window after the next is to be. The others give zeros for that, so that sums are
//! rank 0's values.
//!
//! Invariant: the number of elements follows from the sets alone, not from what is flushed: ranks that disagree about their rows
//! find out from the hash, not from a reduction that does not fit.

use afflux_comm::Reduce;
use xxhash_rust::xxh3::xxh3_64;

use crate::Step;

/// What every rank says of its own flush.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Intent {
    /// Counts flushes.
    pub number: u64,
    /// All rows before this step are flushed.
    pub flush_step: Step,
    /// Rows of each set with this flush.
    pub row_ends: Vec<u64>,
}

impl Intent {
    fn hash(&self) -> u64 {
        let words = [self.number, self.flush_step].into_iter().chain(self.row_ends.iter().copied());
        xxh3_64(&words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
    }
}

/// What rank 0 adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directions {
    /// Length of the window after the one that begins now.
    pub window_steps: u64,
    /// Where the new chunks lie: by set, column, dataset, chunk.
    pub chunk_offsets: Vec<u64>,
}

/// What came of it, on every rank.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// How many ranks cannot.
    pub failed_ranks: u64,
    /// Whether all are about to flush the same.
    pub agreed: bool,
    /// Rank 0's.
    pub flush_step: Step,
    /// Rank 0's, by set.
    pub row_ends: Vec<u64>,
    /// Rank 0's; behind the offsets that were given, zeros.
    pub directions: Directions,
}

const HEAD: usize = 5;

/// This rank's elements. `chunks_max` is the most offsets that a flush can need; `directions` are given by rank 0, if it can flush.
pub(crate) fn elements(
    intent: &Intent,
    failed: bool,
    is_root: bool,
    directions: Option<&Directions>,
    chunks_max: usize,
) -> Vec<Reduce> {
    let root = |value: u64| Reduce::sum(if is_root { value } else { 0 });
    let hash = intent.hash();
    let mut elements = Vec::with_capacity(HEAD + intent.row_ends.len() + chunks_max);
    elements.extend([Reduce::min(hash), Reduce::max(hash), Reduce::sum(u64::from(failed)), root(intent.flush_step)]);
    elements.push(root(directions.map_or(0, |directions| directions.window_steps)));
    elements.extend(intent.row_ends.iter().map(|&row_end| root(row_end)));
    let offsets = directions.map_or(&[][..], |directions| &directions.chunk_offsets);
    assert!(offsets.len() <= chunks_max, "a flush needs no more columns than a window has");
    elements.extend(offsets.iter().map(|&offset| root(offset)));
    elements.resize(HEAD + intent.row_ends.len() + chunks_max, Reduce::sum(0));
    elements
}

/// Reads the combined elements of `sets` sets.
pub(crate) fn decode(elements: &[Reduce], sets: usize) -> Opening {
    let values: Vec<u64> = elements.iter().map(|element| element.value).collect();
    let (head, rest) = values.split_at(HEAD);
    let (row_ends, chunk_offsets) = rest.split_at(sets);
    Opening {
        agreed: head[0] == head[1],
        failed_ranks: head[2],
        flush_step: head[3],
        row_ends: row_ends.to_vec(),
        directions: Directions { window_steps: head[4], chunk_offsets: chunk_offsets.to_vec() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(ranks: &[Vec<Reduce>]) -> Vec<Reduce> {
        let mut sum = ranks[0].clone();
        for rank in &ranks[1..] {
            assert_eq!(rank.len(), sum.len());
            sum.iter_mut().zip(rank).for_each(|(sum, element)| sum.combine(*element));
        }
        sum
    }

    #[test]
    fn rank_0_directs_and_all_learn_who_differs() {
        let intent = Intent { number: 3, flush_step: 400, row_ends: vec![400, 100] };
        let directions = Directions { window_steps: 50, chunk_offsets: vec![4096, 8192] };
        let root = elements(&intent, false, true, Some(&directions), 3);
        let other = elements(&intent, false, false, None, 3);
        let opening = decode(&combined(&[root.clone(), other.clone(), other.clone()]), 2);
        assert!(opening.agreed);
        assert_eq!((opening.failed_ranks, opening.flush_step), (0, 400));
        assert_eq!(opening.row_ends, intent.row_ends);
        assert_eq!(opening.directions, Directions { window_steps: 50, chunk_offsets: vec![4096, 8192, 0] });

        let short = Intent { row_ends: vec![400, 99], ..intent.clone() };
        let opening = decode(&combined(&[root, elements(&short, false, false, None, 3), other.clone()]), 2);
        assert!(!opening.agreed);
        assert_eq!(opening.row_ends, intent.row_ends, "rank 0's");

        let failing = elements(&intent, true, true, None, 3);
        assert_eq!(decode(&combined(&[failing, other]), 2).failed_ranks, 1);
    }
}
