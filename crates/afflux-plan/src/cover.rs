//! What the requests that reach an aggregator cover together: the runs to write, and whether two ranks claim one byte.
//!
//! MPI leaves overlapping writes of one collective call undefined. Here they are an error, found before anything in the
//! domain is written and reported in the same words whatever the timing: the lowest offset claimed twice, and by whom.
//! For reads an overlap is welcome: the bytes are read once.
//!
//! Runs of several ranks that interlock regularly are merged by arithmetic, whatever the number of their pieces ([`cells`]);
//! only where strides differ pieces are merged one by one ([`pieces`]).

mod cells;
mod joined;
mod pieces;

use crate::{Extents, Rank, Run};
use joined::Joined;

/// Two ranks claim the same byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// The lowest offset claimed twice.
    pub offset: u64,
    /// One that claims it.
    pub first: Rank,
    /// Another.
    pub second: Rank,
}

/// The union of several ranks' extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// All covered bytes; touching and overlapping pieces are one.
    pub covered: Extents,
    /// The first overlap, if any.
    pub overlap: Option<Overlap>,
    /// Steps of the merge: pieces looked at one by one, and entries of regular patterns. A count of work, for tests and
    /// reports.
    pub step_count: u64,
}

/// A run and whose it is.
type Owned = (Run, Rank);

/// Merges the requests of the ranks named. Time and memory follow the runs, and the pieces only where runs of different strides
/// interleave.
#[must_use]
pub fn cover(requests: &[(Rank, &Extents)]) -> Coverage {
    let mut runs: Vec<Owned> =
        requests.iter().flat_map(|(rank, extents)| extents.runs().iter().map(|run| (*run, *rank))).collect();
    // Each request is ascending already, which the sort makes use of.
    runs.sort_by_key(|(run, rank)| (run.offset, *rank));
    let mut union = Joined::default();
    let mut rest = runs.as_slice();
    while !rest.is_empty() {
        let (cluster, behind) = rest.split_at(cluster_length(rest));
        rest = behind;
        match cluster {
            [(run, rank)] => union.add_run(*run, *rank),
            _ if !cells::merge(cluster, &mut union) => pieces::merge(cluster, &mut union),
            _ => {}
        }
    }
    union.finish()
}

/// How many runs at the front of `runs` (ascending by offset, at least one) belong together because their spans overlap.
fn cluster_length(runs: &[Owned]) -> usize {
    let mut end = 0;
    for (at, (run, _)) in runs.iter().enumerate() {
        if at > 0 && run.offset >= end {
            return at;
        }
        end = end.max(run.end());
    }
    runs.len()
}
