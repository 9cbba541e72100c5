//! Which ranks aggregate, and in which order.
//!
//! Answers for: how many aggregators, on which ranks, spread over nodes or gathered where the network leads to a storage
//! target. Knows nothing of files but their number of targets. Worked out once a file; its size is the number of aggregators.
//!
//! The orders are those of Tsujita et al., HPC Asia 2018 ("EARTH", parameters `rr` and `agg`), and of GIO.

use std::collections::HashMap;

use crate::{AggregatorIndex, Rank};

/// Aggregators on a single node when no hint asks for a number. One would leave the other cores idle while it merges long
/// descriptions; more than four share one memory bus and one file lock for nothing.
const SINGLE_NODE_AGGREGATORS_MAX: usize = 4;

/// From so many ranks a stripe on (and as many a node) it pays to have several aggregators for each storage target: GIO's
/// rule, which takes 8, 4 or 2 of them.
const AGGREGATORS_PER_TARGET: [usize; 3] = [8, 4, 2];

/// The order in which ranks become aggregators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// One a node in turn (EARTH's `rr` = 1); with storage targets and columns, by column.
    #[default]
    RoundRobin,
    /// Node by node (`rr` = 0).
    Blocks,
}

/// The network, as far as it decides which ranks are near a storage target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Topology {
    /// Nodes alike.
    #[default]
    Flat,
    /// Nodes fill a mesh or torus of these extents in the order of their numbers, the last coordinate fastest; the lines
    /// along the last coordinate lead to the storage targets, in order, from their low end on.
    Mesh {
        /// Nodes in each direction.
        extents: [u32; 3],
    },
}

/// What a layout is made for.
#[derive(Debug, Clone, Copy, Default)]
pub struct LayoutRequest<'a> {
    /// The node of each rank, indexed by rank; numbered from 0 without gaps.
    pub node_of_rank: &'a [u32],
    /// Hint `cb_nodes`: how many aggregators; cut to what there is.
    pub count: Option<usize>,
    /// Hint `cb_config_list` (`*:k`): at most so many a node.
    pub per_node_max: Option<usize>,
    /// Hint `afflux_aggregator_order`.
    pub order: Order,
    /// Storage targets of the file, where it is striped.
    pub targets: Option<usize>,
    /// Hint `romio_lustre_co_ratio`: at most so many aggregators for a storage target.
    pub per_target_max: Option<usize>,
    /// Hint `afflux_topology`.
    pub topology: Topology,
    /// Aggregators that may access storage at the same time: successive ones of this many lie on different nodes as far as
    /// they can, so that a token goes to another node.
    pub group_size: Option<usize>,
}

/// The rank behind each aggregator index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregatorLayout {
    rank_of: Vec<Rank>,
    index_of: HashMap<Rank, AggregatorIndex>,
    reason: &'static str,
}

impl AggregatorLayout {
    /// Chooses aggregators.
    ///
    /// # Panics
    /// If there is no rank, or a node has none.
    #[must_use]
    pub fn choose(request: &LayoutRequest<'_>) -> Self {
        let nodes = Nodes::new(request);
        let (count, reason) = nodes.count(request);
        let rank_of = match (request.targets, request.order) {
            (Some(targets), Order::RoundRobin) if targets > 1 => nodes.by_column(targets, count, request.topology),
            (_, Order::RoundRobin) => nodes.in_groups(nodes.round_robin(count), request.group_size),
            (_, Order::Blocks) => nodes.ranks.iter().flatten().copied().take(count).map(Rank).collect(),
        };
        assert_eq!(rank_of.len(), count, "as many aggregators as were counted");
        let index_of = rank_of.iter().enumerate().map(|(index, &rank)| (rank, AggregatorIndex(index))).collect();
        Self { rank_of, index_of, reason }
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
        self.index_of.get(&rank).copied()
    }

    /// Why there are as many as there are.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }
}

/// The ranks of each node that may aggregate.
struct Nodes {
    /// Indexed by node; ascending, at even distances where not all may.
    ranks: Vec<Vec<usize>>,
    node_of_rank: Vec<usize>,
}

impl Nodes {
    fn new(request: &LayoutRequest<'_>) -> Self {
        assert!(!request.node_of_rank.is_empty(), "a communicator has ranks");
        let node_of_rank: Vec<usize> =
            request.node_of_rank.iter().map(|&node| usize::try_from(node).expect("a node number")).collect();
        let mut ranks: Vec<Vec<usize>> = vec![Vec::new(); node_of_rank.iter().max().map_or(0, |node| node + 1)];
        node_of_rank.iter().enumerate().for_each(|(rank, &node)| ranks[node].push(rank));
        assert!(ranks.iter().all(|members| !members.is_empty()), "nodes are numbered without gaps");
        if let Some(max) = request.per_node_max {
            ranks.iter_mut().for_each(|members| *members = spread(members, max.max(1)));
        }
        Self { ranks, node_of_rank }
    }

    /// How many aggregators, and why.
    fn count(&self, request: &LayoutRequest<'_>) -> (usize, &'static str) {
        let (ranks, nodes) = (self.node_of_rank.len(), self.ranks.len());
        let able = self.ranks.iter().map(Vec::len).sum::<usize>();
        let asked = match (request.count, request.targets) {
            (Some(asked), _) => (asked.max(1), "cb_nodes"),
            (None, Some(targets)) if targets >= ranks => (ranks, "as many storage targets as ranks, or more"),
            (None, Some(targets)) => {
                let enough = |each: usize| ranks >= each * targets && ranks / nodes >= each;
                let each = AGGREGATORS_PER_TARGET.into_iter().find(|&each| enough(each)).unwrap_or(1);
                (targets * each.min(request.per_target_max.unwrap_or(1).max(1)), "by storage targets")
            }
            (None, None) if nodes == 1 => (ranks.min(SINGLE_NODE_AGGREGATORS_MAX), "a single node: up to four"),
            (None, None) => (nodes, "one a node"),
        };
        match asked {
            (count, "cb_nodes") if count > ranks => (able, "cb_nodes, cut to the number of ranks"),
            (count, _) if count > able => (able, "cut by cb_config_list"),
            asked => asked,
        }
    }

    /// Aggregator `i` on node `i mod nodes`, so that any number of them is spread as evenly as it can be; on a node at even
    /// distances.
    fn round_robin(&self, count: usize) -> Vec<Rank> {
        let mut share = vec![0; self.ranks.len()];
        let mut dealt = 0;
        while dealt < count {
            for (node, members) in self.ranks.iter().enumerate() {
                if dealt < count && share[node] < members.len() {
                    share[node] += 1;
                    dealt += 1;
                }
            }
        }
        let chosen: Vec<Vec<usize>> =
            self.ranks.iter().zip(&share).map(|(members, &share)| spread(members, share)).collect();
        let rounds = share.iter().copied().max().unwrap_or(0);
        (0..rounds)
            .flat_map(|round| chosen.iter().filter_map(move |members| members.get(round)))
            .copied()
            .map(Rank)
            .collect()
    }

    /// Orders aggregators so that those of one group of `size` lie on every `groups`-th node, and a token, which goes from a
    /// place in one group to the same place in the next, goes to another node.
    fn in_groups(&self, chosen: Vec<Rank>, size: Option<usize>) -> Vec<Rank> {
        let Some(groups) = size.filter(|&size| size > 0).map(|size| chosen.len().div_ceil(size)) else { return chosen };
        let groups = groups.min(self.ranks.len()).max(1);
        let mut ordered = chosen;
        ordered.sort_by_key(|rank| {
            let node = self.node_of_rank[rank.0];
            (node % groups, node, rank.0)
        });
        ordered
    }

    /// EARTH's striping-aware order: index `i` deals with target `i mod targets` and sits on the column that leads there. All
    /// aggregators of a target are together, on nodes of one line of a mesh, or on one node where nodes are alike.
    fn by_column(&self, targets: usize, count: usize, topology: Topology) -> Vec<Rank> {
        let columns: Vec<Vec<usize>> = (0..targets).map(|target| self.column(target, targets, topology)).collect();
        let mut taken = vec![false; self.node_of_rank.len()];
        let mut next = vec![0; targets];
        let mut anywhere = self.round_robin(self.ranks.iter().map(Vec::len).sum()).into_iter();
        (0..count)
            .map(|index| {
                let target = index % targets;
                let from_column = columns[target][next[target]..].iter().position(|&rank| !taken[rank]);
                let rank = match from_column {
                    Some(at) => {
                        let at = next[target] + at;
                        next[target] = at + 1;
                        columns[target][at]
                    }
                    // The column has no more ranks: the next of all.
                    None => {
                        next[target] = columns[target].len();
                        anywhere.by_ref().map(|rank| rank.0).find(|&rank| !taken[rank]).expect("no more than there are")
                    }
                };
                taken[rank] = true;
                Rank(rank)
            })
            .collect()
    }

    /// The ranks from which the way to a target is short, nearest first.
    fn column(&self, target: usize, targets: usize, topology: Topology) -> Vec<usize> {
        let nodes = self.ranks.len();
        match topology {
            // Nodes at even distances; several targets share a node where there are fewer nodes.
            Topology::Flat => {
                let node = if targets <= nodes { target * (nodes / targets) } else { target % nodes };
                let sharing = if targets <= nodes { 1 } else { targets.div_ceil(nodes) };
                let members = &self.ranks[node];
                let mine = target / nodes.min(targets).max(1);
                members.iter().copied().skip(mine).step_by(sharing).collect()
            }
            Topology::Mesh { extents } => {
                let length = usize::try_from(extents[2]).unwrap_or(1).max(1);
                let lines = nodes.div_ceil(length);
                let (first, end) = if lines >= targets {
                    (target * lines / targets, (target + 1) * lines / targets)
                } else {
                    let line = target * lines / targets;
                    (line, line + 1)
                };
                let on_lines = (first * length)..(end * length).min(nodes);
                let mut members: Vec<(usize, usize, usize)> = on_lines
                    .flat_map(|node| {
                        self.ranks[node].iter().enumerate().map(move |(place, &rank)| (place, node % length, rank))
                    })
                    .collect();
                // One a node before the second of any, from the low end of the lines on.
                members.sort_unstable();
                members.into_iter().map(|(_, _, rank)| rank).collect()
            }
        }
    }
}

/// `count` of the ranks at even distances, ascending.
fn spread(members: &[usize], count: usize) -> Vec<usize> {
    let count = count.min(members.len());
    (0..count).map(|place| members[place * members.len() / count]).collect()
}

#[cfg(test)]
mod tests;
