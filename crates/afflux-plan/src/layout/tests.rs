//! Layouts of the sources, rank by rank.

use super::*;

fn ranks(request: &LayoutRequest<'_>) -> Vec<usize> {
    let layout = AggregatorLayout::choose(request);
    let ranks: Vec<usize> = (0..layout.count()).map(|index| layout.rank(AggregatorIndex(index)).0).collect();
    let mut sorted = ranks.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), ranks.len(), "a rank aggregates once");
    for (index, &rank) in ranks.iter().enumerate() {
        assert_eq!(layout.index_of(Rank(rank)), Some(AggregatorIndex(index)));
    }
    ranks
}

fn on(node_of_rank: &[u32]) -> LayoutRequest<'_> {
    LayoutRequest { node_of_rank, ..LayoutRequest::default() }
}

/// Nodes of `each` ranks.
fn nodes(count: u32, each: usize) -> Vec<u32> {
    (0..count).flat_map(|node| std::iter::repeat_n(node, each)).collect()
}

#[test]
fn without_a_hint_each_node_gives_one() {
    assert_eq!(ranks(&on(&[0, 0, 0, 1, 1, 2])), [0, 3, 5]);
}

#[test]
fn a_single_node_gives_up_to_four_at_even_distances() {
    assert_eq!(ranks(&on(&[0])), [0]);
    assert_eq!(ranks(&on(&[0; 8])), [0, 2, 4, 6]);
}

#[test]
fn a_hint_is_spread_over_nodes_and_cut_to_the_ranks() {
    let nodes = [0, 0, 0, 0, 1, 1, 2];
    assert_eq!(ranks(&LayoutRequest { count: Some(5), ..on(&nodes) }), [0, 4, 6, 2, 5]);
    let all = AggregatorLayout::choose(&LayoutRequest { count: Some(100), ..on(&nodes) });
    assert_eq!((all.count(), all.reason()), (7, "cb_nodes, cut to the number of ranks"));
    let two = AggregatorLayout::choose(&LayoutRequest { count: Some(2), ..on(&nodes) });
    assert_eq!(two.index_of(Rank(1)), None);
}

#[test]
fn a_configuration_list_limits_the_ranks_of_a_node() {
    let nodes = nodes(3, 4);
    let request = LayoutRequest { count: Some(12), per_node_max: Some(2), ..on(&nodes) };
    assert_eq!(ranks(&request), [0, 4, 8, 2, 6, 10]);
    assert_eq!(AggregatorLayout::choose(&request).reason(), "cut by cb_config_list");
}

/// EARTH, Figure "aggregator layout": 16 ranks on 4 nodes, 8 aggregators. In blocks: ranks 0 to 7. Round robin with 4 that
/// access at a time: 0, 1, 8, 9, then 4, 5, 12, 13, so that a token goes to another node.
#[test]
fn earth_blocks_and_round_robin() {
    let nodes = nodes(4, 4);
    let blocks = LayoutRequest { count: Some(8), order: Order::Blocks, ..on(&nodes) };
    assert_eq!(ranks(&blocks), [0, 1, 2, 3, 4, 5, 6, 7]);
    let round_robin = LayoutRequest { count: Some(8), group_size: Some(4), ..on(&nodes) };
    // We take ranks of a node at even distances (0 and 2), the source the first two.
    assert_eq!(ranks(&round_robin), [0, 2, 8, 10, 4, 6, 12, 14]);
}

/// EARTH, Figure "striping-aware": 16 ranks, 4 targets, column `c` holds ranks `4c` to `4c + 3`.
#[test]
fn earth_striping_aware() {
    let nodes = nodes(16, 1);
    let topology = Topology::Mesh { extents: [2, 2, 4] };
    let request = LayoutRequest { count: Some(16), targets: Some(4), topology, ..on(&nodes) };
    assert_eq!(ranks(&request), [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]);
}

/// Nodes alike: the aggregators of one target share a node.
#[test]
fn targets_without_a_topology_have_a_node_each() {
    let many = nodes(8, 4);
    let request = LayoutRequest { count: Some(8), targets: Some(4), ..on(&many) };
    assert_eq!(ranks(&request), [0, 8, 16, 24, 1, 9, 17, 25]);
    // More targets than nodes: each target has ranks of its own on a node.
    let few = nodes(2, 4);
    assert_eq!(ranks(&LayoutRequest { count: Some(4), targets: Some(4), ..on(&few) }), [0, 4, 1, 5]);
}

/// Several lines for a target, several targets for a line, and columns that run out of ranks.
#[test]
fn meshes_of_any_shape_give_as_many_as_are_asked() {
    for (count, targets, extents, node_count) in
        [(8, 2, [2, 2, 3], 12), (6, 6, [1, 2, 4], 8), (8, 3, [1, 1, 8], 8), (7, 5, [3, 1, 2], 5)]
    {
        let nodes = nodes(node_count, 2);
        let topology = Topology::Mesh { extents };
        let request = LayoutRequest { count: Some(count), targets: Some(targets), topology, ..on(&nodes) };
        assert_eq!(ranks(&request).len(), count);
    }
}

#[test]
fn the_number_follows_the_targets_and_the_ranks() {
    let nodes = nodes(8, 8);
    let count = |targets, per_target_max| {
        AggregatorLayout::choose(&LayoutRequest { targets: Some(targets), per_target_max, ..on(&nodes) }).count()
    };
    assert_eq!(count(4, None), 4, "one for each target, as romio_lustre_co_ratio is 1 where it is not asked");
    assert_eq!(count(4, Some(8)), 32);
    assert_eq!(count(16, Some(4)), 64);
    assert_eq!(count(100, None), 64);
}
