//! Which ranks aggregate.
//!
//! Answers for: how many aggregators, on which ranks, spread over the nodes. Knows nothing of files. Worked out once, when
//! a file is opened; its size is the number of aggregators.

use crate::{AggregatorIndex, Rank};

/// Aggregators on a single node when no hint asks for a number. One would leave the other cores idle while it copies;
/// more than four share one memory bus and one file lock for nothing.
const SINGLE_NODE_AGGREGATORS_MAX: usize = 4;

/// The rank behind each aggregator index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregatorLayout {
    rank_of: Vec<Rank>,
    reason: &'static str,
}

impl AggregatorLayout {
    /// Chooses aggregators among the ranks whose nodes are `node_of_rank` (indexed by rank, nodes numbered from 0 without
    /// gaps); `asked` is the hint `cb_nodes`, cut to the number of ranks.
    ///
    /// Aggregator `i` sits on node `i mod nodes`, so that any number of them is spread as evenly as it can be; on a node
    /// they take ranks at even distances. Without a hint each node gets one; a single node gets up to four.
    ///
    /// # Panics
    /// If there is no rank, or a node has none.
    #[must_use]
    pub fn choose(node_of_rank: &[u32], asked: Option<usize>) -> Self {
        let ranks = node_of_rank.len();
        assert!(ranks > 0, "a communicator has ranks");
        let mut ranks_on_node: Vec<Vec<usize>> = Vec::new();
        for (rank, &node) in node_of_rank.iter().enumerate() {
            let node = usize::try_from(node).expect("a node number fits in usize");
            if ranks_on_node.len() <= node {
                ranks_on_node.resize(node + 1, Vec::new());
            }
            ranks_on_node[node].push(rank);
        }
        let nodes = ranks_on_node.len();
        let (count, reason) = match asked {
            Some(asked) if asked > ranks => (ranks, "cb_nodes, cut to the number of ranks"),
            Some(asked) => (asked.max(1), "cb_nodes"),
            None if nodes == 1 => (ranks.min(SINGLE_NODE_AGGREGATORS_MAX), "a single node: up to four"),
            None => (nodes, "one a node"),
        };
        let share_of_node = shares(&ranks_on_node, count);
        let mut rank_of = Vec::with_capacity(count);
        let mut given = vec![0; nodes];
        while rank_of.len() < count {
            for (node, members) in ranks_on_node.iter().enumerate() {
                if given[node] < share_of_node[node] {
                    rank_of.push(Rank(members[given[node] * members.len() / share_of_node[node]]));
                    given[node] += 1;
                }
            }
        }
        Self { rank_of, reason }
    }

    /// How many aggregators there are; at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rank_of.len()
    }

    /// The rank of an aggregator.
    ///
    /// # Panics
    /// If there is no such aggregator.
    #[must_use]
    pub fn rank(&self, aggregator: AggregatorIndex) -> Rank {
        self.rank_of[aggregator.0]
    }

    /// Which aggregator a rank is, if it is one.
    #[must_use]
    pub fn index_of(&self, rank: Rank) -> Option<AggregatorIndex> {
        self.rank_of.iter().position(|&candidate| candidate == rank).map(AggregatorIndex)
    }

    /// Why there are as many as there are.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }
}

/// How many aggregators each node gives: dealt out one a node in turn, as long as it has ranks left.
fn shares(ranks_on_node: &[Vec<usize>], count: usize) -> Vec<usize> {
    assert!(ranks_on_node.iter().all(|members| !members.is_empty()), "nodes are numbered without gaps");
    let mut share = vec![0; ranks_on_node.len()];
    let mut dealt = 0;
    while dealt < count {
        for (node, members) in ranks_on_node.iter().enumerate() {
            if dealt < count && share[node] < members.len() {
                share[node] += 1;
                dealt += 1;
            }
        }
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(layout: &AggregatorLayout) -> Vec<usize> {
        (0..layout.count()).map(|index| layout.rank(AggregatorIndex(index)).0).collect()
    }

    #[test]
    fn without_a_hint_each_node_gives_one() {
        assert_eq!(ranks(&AggregatorLayout::choose(&[0, 0, 0, 1, 1, 2], None)), [0, 3, 5]);
    }

    #[test]
    fn a_single_node_gives_up_to_four_at_even_distances() {
        assert_eq!(ranks(&AggregatorLayout::choose(&[0], None)), [0]);
        assert_eq!(ranks(&AggregatorLayout::choose(&[0; 8], None)), [0, 2, 4, 6]);
    }

    #[test]
    fn a_hint_is_spread_over_nodes_and_cut_to_the_ranks() {
        let nodes = [0, 0, 0, 0, 1, 1, 2];
        assert_eq!(ranks(&AggregatorLayout::choose(&nodes, Some(5))), [0, 4, 6, 2, 5]);
        let all = AggregatorLayout::choose(&nodes, Some(100));
        let mut sorted = ranks(&all);
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(all.reason(), "cb_nodes, cut to the number of ranks");
        assert_eq!(all.index_of(Rank(4)), Some(AggregatorIndex(1)));
        assert_eq!(AggregatorLayout::choose(&nodes, Some(2)).index_of(Rank(1)), None);
    }
}
