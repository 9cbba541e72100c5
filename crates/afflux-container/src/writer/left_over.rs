//! What a killed writer left behind: chunks of columns that no extent reaches, and space that nothing uses.
//!
//! A seal announces the space it needs before it lets metadata point there. A writer that is killed in between leaves chunks that are in
//! an index but behind the extent, and perhaps space that is nowhere. A resumed writer takes the former up again, each for the same
//! column of the same dataset: an index that still names it is then right, whatever becomes of this writer. (Given to another dataset,
//! a later resume would find it twice.) The latter serves any chunk.

use crate::DatasetIndex;
use crate::format::Survey;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// What an index knows: a growing dataset of a set, or the checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Dataset(usize, DatasetIndex),
    Checksums,
}

/// Chunks to be taken up again, and the space they take.
#[derive(Debug, Default)]
pub(super) struct LeftOver {
    /// Address by element of the index.
    chunks: HashMap<Owner, BTreeMap<u64, u64>>,
    used: Vec<Range<u64>>,
}

impl LeftOver {
    /// Takes note of an index and its chunks, of which those of elements from `first_unsealed` on may be taken up again.
    pub(super) fn add(&mut self, owner: Owner, survey: Survey, first_unsealed: u64, chunk_bytes: u64) {
        self.used.extend(survey.blocks);
        self.used.extend(survey.elements.iter().map(|&(_, address)| address..address.saturating_add(chunk_bytes)));
        let unsealed = survey.elements.into_iter().filter(|&(element, _)| element >= first_unsealed);
        self.chunks.insert(owner, unsealed.collect());
    }

    /// Where the chunks of these elements are to be, as far as they are anywhere.
    pub(super) fn places(&self, owner: Owner, elements: Range<u64>) -> Vec<Option<u64>> {
        match self.chunks.get(&owner) {
            Some(chunks) => elements.map(|element| chunks.get(&element).copied()).collect(),
            None => Vec::new(),
        }
    }

    /// What of `announced`, space that was taken for a seal that never came, nothing uses: gaps, and the end of what is used.
    /// All of every index must have been added.
    pub(super) fn gaps(&mut self, announced: Range<u64>) -> (Vec<Range<u64>>, u64) {
        self.used.sort_unstable_by_key(|range| range.start);
        let mut gaps = Vec::new();
        let mut end = announced.start;
        for used in &self.used {
            if used.end <= end || used.start >= announced.end {
                continue;
            }
            if used.start > end {
                gaps.push(end..used.start);
            }
            end = used.end.min(announced.end);
        }
        (gaps, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_is_not_used() {
        let gaps = |used: &[(u64, u64)]| {
            let used = used.iter().map(|&(start, end)| start..end).collect();
            let (gaps, end) = LeftOver { used, ..LeftOver::default() }.gaps(100..200);
            (gaps.into_iter().map(|gap| (gap.start, gap.end)).collect::<Vec<_>>(), end)
        };
        assert_eq!(gaps(&[]), (vec![], 100));
        assert_eq!(gaps(&[(10, 90), (300, 400)]), (vec![], 100));
        assert_eq!(gaps(&[(150, 160), (90, 110), (155, 170)]), (vec![(110, 150)], 170));
        assert_eq!(gaps(&[(120, 300)]), (vec![(100, 120)], 200));
    }
}
