//! The points that a rank writes: their positions in the file, and their places in a row of the window.
//!
//! A row of the window holds the values of the registered points in registration order, and behind them those of points that
//! nobody owns and this rank fills. Regular points take a few words here however many they are; irregular ones twelve bytes each.

use std::ops::Range;

use crate::local_points::Roster;
use crate::numbers::{Numbers, Stretch};
use crate::transpose::Places;

/// What registration or a rebalance decided for a rank.
#[derive(Debug, Clone, Default)]
pub(crate) struct Placement {
    /// The points that the rank gives values for.
    pub roster: Roster,
    /// Ascending positions of those it keeps.
    pub owned: Numbers,
    /// Which of them (ordinals in ascending id) others keep.
    pub not_owned: Numbers,
    /// Ascending positions of points that this rank fills because nobody registered them.
    pub fills: Numbers,
}

/// The points of one chunk that a rank writes, as a range of ordinals of [`Holdings`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkShare {
    pub chunk: u64,
    pub points: Range<usize>,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holdings {
    /// The points that the caller gives values for.
    pub roster: Roster,
    /// Ascending positions of all points that this rank writes.
    positions: Numbers,
    /// The place of each in a row, where that is not its ordinal.
    places: Option<Vec<u32>>,
    /// Positions among them that are only filled.
    fills: Numbers,
}

impl Holdings {
    pub fn of(placement: Placement) -> Self {
        let Placement { roster, owned, not_owned, fills } = placement;
        assert_eq!(owned.len() + not_owned.len(), roster.len(), "every registered point is kept here or elsewhere");
        if roster.is_ascending() && not_owned.is_empty() && fills.is_empty() {
            return Self { roster, positions: owned, places: None, fills };
        }
        let mut elsewhere = not_owned.iter().peekable();
        let kept = (0..roster.len())
            .filter(|&ordinal| elsewhere.next_if_eq(&(ordinal as u64)).is_none())
            .map(|ordinal| roster.registered(ordinal));
        let filled = (0..fills.len())
            .map(|k| u32::try_from(roster.len() + k).expect("points of a rank are checked to fit in u32"));
        let mut all: Vec<(u64, u32)> = owned.iter().zip(kept).chain(fills.iter().zip(filled)).collect();
        // Two ascending lists: the sort finds and merges them.
        all.sort();
        let places = all.iter().map(|&(_, place)| place).collect();
        Self { positions: all.into_iter().map(|(position, _)| position).collect(), places: Some(places), roster, fills }
    }

    /// Points that this rank writes.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Points that it fills.
    pub fn fill_count(&self) -> usize {
        self.fills.len()
    }

    /// Ascending positions of the points that it has, without those that it fills.
    pub fn owned(&self) -> Numbers {
        if self.fills.is_empty() {
            return self.positions.clone();
        }
        self.positions.iter().filter(|&position| self.fills.find(position).is_err()).collect()
    }

    /// Ascending positions that it fills.
    pub fn fills(&self) -> &Numbers {
        &self.fills
    }

    /// The positions of these ordinals, neighbours together.
    pub fn stretches(&self, points: Range<usize>) -> impl Iterator<Item = Stretch> + '_ {
        self.positions.stretches(points)
    }

    /// The positions of these ordinals, one by one.
    pub fn positions(&self, points: Range<usize>) -> impl Iterator<Item = u64> + '_ {
        self.stretches(points).flat_map(|stretch| stretch.first..=stretch.last())
    }

    /// The places of these ordinals.
    pub fn places(&self, points: Range<usize>) -> Places<'_> {
        match &self.places {
            Some(places) => Places::Listed(&places[points]),
            None => Places::InARow { first: points.start, count: points.len() },
        }
    }

    /// The places of the points that it has, without those that it fills, in ascending position.
    pub fn owned_places(&self) -> impl Iterator<Item = usize> + '_ {
        let given = self.roster.len();
        let places = self.places(0..self.len());
        (0..places.len()).map(move |ordinal| places.get(ordinal)).filter(move |&place| place < given)
    }

    /// The chunks of `points_per_chunk` points that this rank has a share in, ascending.
    pub fn chunk_shares(&self, points_per_chunk: u64) -> Vec<ChunkShare> {
        let mut shares: Vec<ChunkShare> = Vec::new();
        let mut ordinal = 0;
        for whole in self.positions.all() {
            let mut rest = Some(whole);
            while let Some(stretch) = rest {
                let chunk = stretch.first / points_per_chunk;
                let length = stretch.length.min((chunk + 1) * points_per_chunk - stretch.first);
                let end = ordinal + usize::try_from(length).expect("points of a rank are addressed by usize");
                match shares.last_mut() {
                    Some(last) if last.chunk == chunk => last.points.end = end,
                    _ => shares.push(ChunkShare { chunk, points: ordinal..end }),
                }
                ordinal = end;
                rest = stretch.skip(length);
            }
        }
        shares
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> u64 {
        let places = self.places.as_ref().map_or(0, |places| places.len() * size_of::<u32>());
        self.roster.bytes() + (self.positions.bytes() + self.fills.bytes() + places) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Point;
    use crate::local_points::LocalPoints;

    fn numbers(list: &[u64]) -> Numbers {
        list.iter().copied().collect()
    }

    #[test]
    fn places_follow_registration_and_positions_the_file() {
        // Ids 8, 2, 5, 3 are registered; 3 is another rank's; nobody has the points at positions 0 and 6.
        let points = [8, 2, 5, 3].map(|id| Point::new(id, 0.0, 0.0, 0.0));
        let holdings = Holdings::of(Placement {
            roster: Roster::of(&LocalPoints::from(points)),
            owned: numbers(&[2, 4, 7]),
            not_owned: numbers(&[1]),
            fills: numbers(&[0, 6]),
        });
        assert_eq!(holdings.positions(0..5).collect::<Vec<_>>(), [0, 2, 4, 6, 7]);
        let places = holdings.places(0..5);
        assert_eq!((0..5).map(|ordinal| places.get(ordinal)).collect::<Vec<_>>(), [4, 1, 2, 5, 0]);
        assert_eq!(holdings.owned(), numbers(&[2, 4, 7]));
        let share = |chunk, points| ChunkShare { chunk, points };
        assert_eq!(holdings.chunk_shares(4), [share(0, 0..2), share(1, 2..5)]);
        assert_eq!(holdings.chunk_shares(3), [share(0, 0..2), share(1, 2..3), share(2, 3..5)]);
    }
}
