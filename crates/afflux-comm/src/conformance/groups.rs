//! Checks of duplicate, split and the node map.

use super::messages;
use crate::{Communicator, Reduce};

pub(super) fn run(comm: &dyn Communicator) {
    duplicates_are_apart(comm);
    split_halves(comm);
    split_reversed(comm);
    split_without_some(comm);
    split_extreme_colors(comm);
    nested(comm);
    many_duplicates(comm);
}

/// The map has an entry a rank, is numbered by lowest rank and is the same on all ranks.
pub(super) fn node_map(comm: &dyn Communicator) {
    let nodes = comm.nodes();
    assert_eq!(nodes.node_of_rank.len(), comm.size(), "one node a rank");
    let mut next = 0;
    for &node in &nodes.node_of_rank {
        assert!(node <= next, "node {node} before node {next}");
        next = next.max(node + 1);
    }
    assert_eq!(next, nodes.node_count, "node_count");
    let mine =
        nodes.node_of_rank.iter().fold(17_u64, |hash, &node| hash.wrapping_mul(31).wrapping_add(u64::from(node)));
    let mut elements = [Reduce::min(mine), Reduce::max(mine)];
    comm.all_reduce(&mut elements).unwrap();
    assert_eq!(elements.map(|element| element.value), [mine; 2], "all ranks have the same node map");
}

/// Two exchanges whose order differs between ranks do not meet.
fn duplicates_are_apart(comm: &dyn Communicator) {
    let other = comm.duplicate().unwrap();
    assert_eq!((other.rank(), other.size()), (comm.rank(), comm.size()));
    assert_eq!(other.nodes(), comm.nodes());
    assert_eq!(other.backend(), comm.backend());
    for _ in 0..10 {
        messages::ring(comm);
        messages::ring(&*other);
    }
    let mut bytes = vec![1];
    other.broadcast(0, &mut bytes).unwrap();
    comm.barrier().unwrap();
    drop(other);
    comm.barrier().unwrap();
}

fn split_halves(comm: &dyn Communicator) {
    let (rank, size) = (comm.rank(), comm.size());
    let half = comm.split(Some(u32::from(rank % 2 == 1)), 0).unwrap().expect("a colour joins a group");
    assert_eq!(half.rank(), rank / 2);
    assert_eq!(half.size(), if rank.is_multiple_of(2) { size.div_ceil(2) } else { size / 2 });
    super::run_basic(&*half);
    let mut elements = [Reduce::sum(rank as u64)];
    half.all_reduce(&mut elements).unwrap();
    let expected: usize = (0..size).filter(|other| other % 2 == rank % 2).sum();
    assert_eq!(elements[0].value, expected as u64, "a reduction stays within its group");
}

fn split_reversed(comm: &dyn Communicator) {
    let key = u32::try_from(comm.size() - comm.rank()).unwrap();
    let reversed = comm.split(Some(3), key).unwrap().expect("a colour joins a group");
    assert_eq!(reversed.rank(), comm.size() - 1 - comm.rank(), "ranks are ordered by key");
    super::run_basic(&*reversed);
    let equal = comm.split(Some(0), 7).unwrap().expect("a colour joins a group");
    assert_eq!(equal.rank(), comm.rank(), "equal keys keep the order");
}

/// A rank without a colour gets nothing, at every position.
fn split_without_some(comm: &dyn Communicator) {
    for without in 0..comm.size().min(4) {
        let joins = comm.rank() != without;
        let part = comm.split(joins.then_some(0), 0).unwrap();
        assert_eq!(part.is_some(), joins);
        if let Some(part) = part {
            assert_eq!(part.size(), comm.size() - 1);
            part.barrier().unwrap();
        }
    }
    assert!(comm.split(None, 0).unwrap().is_none(), "nobody joins");
}

/// All colours and keys of 32 bits are valid, also where the layer below has signed ones.
fn split_extreme_colors(comm: &dyn Communicator) {
    let high = comm.rank().is_multiple_of(2);
    let key = if comm.rank() < 2 { u32::MAX } else { 0 };
    let part = comm.split(Some(if high { u32::MAX } else { 0 }), key).unwrap().expect("a colour joins a group");
    let members = (0..comm.size()).filter(|rank| rank.is_multiple_of(2) == high).count();
    assert_eq!(part.size(), members);
    if comm.rank() < 2 {
        assert_eq!(part.rank(), members - 1, "the largest key comes last");
    }
}

fn nested(comm: &dyn Communicator) {
    let half = comm.split(Some(u32::from(comm.rank() * 2 >= comm.size())), 0).unwrap().expect("a colour");
    let inner = half.duplicate().unwrap();
    drop(half);
    super::run_basic(&*inner);
    let single = inner.split(Some(u32::try_from(inner.rank()).unwrap()), 0).unwrap().expect("a colour");
    assert_eq!(single.size(), 1);
    super::run_basic(&*single);
}

/// More duplicates at a time than an adapter may keep ready, used and dropped in other orders than they were made.
fn many_duplicates(comm: &dyn Communicator) {
    let (rank, size) = (comm.rank(), comm.size());
    if size > 16 {
        return;
    }
    for _ in 0..2 {
        let mut all = vec![comm.duplicate().unwrap()];
        while all.len() < 20 {
            let next = all[all.len() / 2].duplicate().unwrap();
            all.push(next);
        }
        for (index, one) in all.iter().enumerate().rev() {
            let expected = super::pattern(0, 0, index, 40_000 + index);
            let mut bytes = if rank == 0 { expected.clone() } else { Vec::new() };
            one.broadcast(0, &mut bytes).unwrap();
            super::assert_bytes(&bytes, &expected, "long broadcast on a duplicate");
        }
        let pending: Vec<_> = all.iter().map(|one| one.start_all_reduce(vec![Reduce::sum(1); 100]).unwrap()).collect();
        messages::ring(&*all[3]);
        for index in 0..all.len() {
            // Each rank drops them in another order.
            drop(all.swap_remove((index * 7 + rank) % all.len()));
        }
        for one in pending {
            assert_eq!(one.wait().unwrap(), vec![Reduce::sum(size as u64); 100], "reduction on a duplicate");
        }
    }
    comm.barrier().unwrap();
}
