//! Ascending sequences of numbers from many sources, visited in one ascending order.
//!
//! Where several sources have the same number, the one with the lowest index comes first. Neighbours that no other source
//! interrupts come together, so regular sources cost steps by their stretches, not by their numbers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::numbers::{Numbers, Stretch, Stretches};

/// Neighbouring numbers of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Merged {
    /// Index of the source.
    pub source: usize,
    /// Ordinal in the source of the first number.
    pub ordinal: usize,
    pub stretch: Stretch,
}

impl Merged {
    /// What is left without the first `count` numbers.
    pub fn skip(self, count: u64) -> Option<Self> {
        let ordinal = self.ordinal + usize::try_from(count).expect("counts of numbers in memory fit in usize");
        self.stretch.skip(count).map(|stretch| Self { ordinal, stretch, ..self })
    }
}

/// Where one source stands.
struct Cursor<'a> {
    rest: Stretches<'a>,
    /// What comes next of it.
    ordinal: usize,
    stretch: Stretch,
}

/// The merge of `sources`, each ascending (a number may come several times).
pub(crate) struct Merge<'a> {
    cursors: Vec<Cursor<'a>>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// Index of the source of each cursor: sources without numbers have none.
    sources: Vec<usize>,
}

impl<'a> Merge<'a> {
    pub fn new(sources: impl IntoIterator<Item = &'a Numbers>) -> Self {
        let mut merge = Self { cursors: Vec::new(), heap: BinaryHeap::new(), sources: Vec::new() };
        for (source, numbers) in sources.into_iter().enumerate() {
            let mut rest = numbers.all();
            if let Some(stretch) = rest.next() {
                merge.heap.push(Reverse((stretch.first, merge.cursors.len())));
                merge.cursors.push(Cursor { rest, ordinal: 0, stretch });
                merge.sources.push(source);
            }
        }
        merge
    }
}

impl Iterator for Merge<'_> {
    type Item = Merged;

    fn next(&mut self) -> Option<Merged> {
        let Reverse((_, index)) = self.heap.pop()?;
        let cursor = &mut self.cursors[index];
        let whole = Merged { source: self.sources[index], ordinal: cursor.ordinal, stretch: cursor.stretch };
        let length = match self.heap.peek() {
            // At least the first number, even where others have it too.
            Some(&Reverse((other, _))) => whole.stretch.length.min((other - whole.stretch.first).max(1)),
            None => whole.stretch.length,
        };
        cursor.ordinal += usize::try_from(length).expect("counts of numbers in memory fit in usize");
        if let Some(stretch) = whole.stretch.skip(length).or_else(|| cursor.rest.next()) {
            cursor.stretch = stretch;
            self.heap.push(Reverse((stretch.first, index)));
        }
        Some(Merged { stretch: Stretch { length, ..whole.stretch }, ..whole })
    }
}

/// One number after another: the first source that has it, or one that has it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// These numbers come for the first time; all claims of this kind ascend strictly.
    First(Merged),
    /// This number came before, from `first`.
    Again { first: Merged, again: Merged },
}

/// Tells first claims of numbers from later ones.
pub(crate) struct Claims<'a> {
    merge: Merge<'a>,
    /// The rest of what the merge gave last.
    pending: Option<Merged>,
    /// The last number claimed, and by whom.
    last: Option<Merged>,
}

impl<'a> Claims<'a> {
    /// The claims of `sources`, each ascending.
    pub fn of(sources: impl IntoIterator<Item = &'a Numbers>) -> Self {
        Self { merge: Merge::new(sources), pending: None, last: None }
    }
}

impl Iterator for Claims<'_> {
    type Item = Claim;

    fn next(&mut self) -> Option<Claim> {
        let merged = self.pending.take().or_else(|| self.merge.next())?;
        if let Some(first) = self.last
            && first.stretch.first == merged.stretch.first
        {
            self.pending = merged.skip(1);
            let again = Merged { stretch: Stretch::one(merged.stretch.first), ..merged };
            return Some(Claim::Again { first, again });
        }
        self.last = merged.skip(merged.stretch.length - 1);
        Some(Claim::First(merged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn regular_sources_come_in_long_stretches() {
        let sources: Vec<Numbers> = vec![(0..500).collect(), (500..900).collect()];
        assert_eq!(Merge::new(&sources).count(), 2);
    }

    proptest! {
        #[test]
        fn visits_every_number_of_every_source_in_order(
            mut lists in proptest::collection::vec(proptest::collection::vec(0_u64..40, 0..30), 0..6),
        ) {
            lists.iter_mut().for_each(|list| list.sort_unstable());
            let sources: Vec<Numbers> = lists.iter().map(|list| list.iter().copied().collect()).collect();
            let mut expected: Vec<(u64, usize, usize)> = lists
                .iter()
                .enumerate()
                .flat_map(|(source, list)| list.iter().enumerate().map(move |(ordinal, &number)| (number, source, ordinal)))
                .collect();
            expected.sort_unstable();
            let one_by_one = |merged: Merged| {
                (merged.stretch.first..=merged.stretch.last()).zip(merged.ordinal..).map(move |(number, ordinal)| (number, merged.source, ordinal))
            };
            prop_assert_eq!(Merge::new(&sources).flat_map(one_by_one).collect::<Vec<_>>(), &expected[..]);

            let mut seen: Vec<(u64, usize, usize)> = Vec::new();
            let mut owner = std::collections::HashMap::new();
            for claim in Claims::of(&sources) {
                match claim {
                    Claim::First(merged) => {
                        for entry in one_by_one(merged) {
                            prop_assert_eq!(owner.insert(entry.0, entry), None);
                            seen.push(entry);
                        }
                    }
                    Claim::Again { first, again } => {
                        let entries = [first, again].map(|merged| one_by_one(merged).next().unwrap());
                        prop_assert_eq!(owner.get(&entries[1].0), Some(&entries[0]));
                        seen.push(entries[1]);
                    }
                }
            }
            prop_assert_eq!(seen, expected);
        }
    }
}
