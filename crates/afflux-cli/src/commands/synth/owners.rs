//! Which rank has which points, and how they change hands.
//!
//! Owners follow from the turn, which counts the moves: in turns 0, 3, 6, ... each rank has a range of ids, in turns 1, 4, ... the
//! range of the rank after it, so that every point moves, in turns 2, 5, ... every so-manieth point.

/// The ids of a rank's points, ascending; counts differ by at most one between ranks.
pub fn ids(points: u64, rank: usize, ranks: usize, turn: u64) -> Vec<i64> {
    let share = |rank: usize| u128::from(points) * rank as u128 / ranks as u128;
    // No share is larger than the number of points, which the id of a point must hold anyway.
    let bound = |rank| i64::try_from(share(rank)).unwrap_or(i64::MAX);
    match turn % 3 {
        0 => (bound(rank)..bound(rank + 1)).collect(),
        1 => {
            let next = (rank + 1) % ranks;
            (bound(next)..bound(next + 1)).collect()
        }
        _ => (bound(0)..bound(ranks)).skip(rank).step_by(ranks).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_one_owner_at_every_turn() {
        for (points, ranks) in [(0, 3), (1, 4), (10, 1), (10, 3), (17, 4), (5, 7)] {
            for turn in 0..4 {
                let of_ranks: Vec<Vec<i64>> = (0..ranks).map(|rank| ids(points, rank, ranks, turn)).collect();
                assert!(of_ranks.iter().all(|ids| ids.is_sorted()));
                let mut all = of_ranks.concat();
                all.sort_unstable();
                assert_eq!(all, (0..points.cast_signed()).collect::<Vec<i64>>(), "{points} over {ranks}, turn {turn}");
                let counts: Vec<usize> = of_ranks.iter().map(Vec::len).collect();
                assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
            }
        }
    }
}
