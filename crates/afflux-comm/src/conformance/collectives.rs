//! Checks of barrier, broadcast, reductions, gathers, scatter and prefix sums.

use super::{Effort, assert_bytes, pattern};
use crate::{Communicator, Reduce};

pub(super) fn run(comm: &dyn Communicator) {
    barrier(comm);
    broadcast(comm);
    reduce(comm);
    gathers(comm);
    scatter(comm);
    exclusive_sum(comm);
}

pub(super) fn run_long(comm: &dyn Communicator, effort: Effort) {
    broadcast_long(comm, effort.long_bytes);
    reduce_many(comm, effort);
    barrier_orders(comm, effort.repetitions);
    // Each rank gathers a long message from one rank at a time, so that memory stays bounded with many ranks.
    let long = effort.long_bytes / comm.size();
    for source in 0..comm.size() {
        let length = |rank: usize| if rank == source { long } else { rank % 3 };
        let all = comm.all_gather(&pattern(comm.rank(), source, 5, length(comm.rank()))).unwrap();
        for (rank, bytes) in all.iter().enumerate() {
            assert_bytes(bytes, &pattern(rank, source, 5, length(rank)), "all_gather with one long message");
        }
    }
}

fn barrier(comm: &dyn Communicator) {
    comm.barrier().unwrap();
    comm.barrier().unwrap();
}

/// After a barrier everything sent before it may be counted: every rank sees the same number of barriers.
fn barrier_orders(comm: &dyn Communicator, repetitions: usize) {
    for round in 0..repetitions as u64 {
        comm.barrier().unwrap();
        let mut elements = [Reduce::min(round), Reduce::max(round)];
        comm.all_reduce(&mut elements).unwrap();
        assert_eq!(elements.map(|element| element.value), [round; 2]);
    }
}

/// Roots to try: all of a few, the ends and the middle of many.
fn roots(size: usize) -> Vec<usize> {
    if size <= 8 { (0..size).collect() } else { vec![0, size / 2, size - 1] }
}

fn broadcast(comm: &dyn Communicator) {
    for root in roots(comm.size()) {
        for length in [0, 1, 8, 2_040, 2_041, 4_088, 4_097, 16_360, 16_361, 70_001] {
            let expected = pattern(root, root, length, length);
            // What was in the vector does not matter, whether shorter or longer than what comes.
            let mut bytes = if comm.rank() == root { expected.clone() } else { vec![7; (comm.rank() * 5_000) % 9_000] };
            comm.broadcast(root, &mut bytes).unwrap();
            assert_bytes(&bytes, &expected, "broadcast");
        }
    }
}

fn broadcast_long(comm: &dyn Communicator, length: usize) {
    let root = comm.size() - 1;
    let expected = pattern(root, root, 1, length);
    let mut bytes = if comm.rank() == root { expected.clone() } else { Vec::new() };
    comm.broadcast(root, &mut bytes).unwrap();
    assert_bytes(&bytes, &expected, "long broadcast");
}

pub(super) fn huge_broadcast(comm: &dyn Communicator, length: usize) {
    let mut bytes = if comm.rank() == 0 { pattern(0, 0, 2, length) } else { Vec::new() };
    comm.broadcast(0, &mut bytes).unwrap();
    if comm.rank() + 1 == comm.size() {
        assert_bytes(&bytes, &pattern(0, 0, 2, length), "huge broadcast");
    }
}

fn reduce(comm: &dyn Communicator) {
    let (rank, size) = (comm.rank() as u64, comm.size() as u64);
    comm.all_reduce(&mut []).unwrap();
    let mut elements = [
        Reduce::sum(rank + 1),
        Reduce::min(rank + 10),
        Reduce::max(rank + 10),
        Reduce::sum(u64::MAX),
        Reduce::max(if rank == size / 2 { u64::MAX } else { 0 }),
        Reduce::min(if rank == size / 2 { 0 } else { u64::MAX }),
    ];
    comm.all_reduce(&mut elements).unwrap();
    let expected = [size * (size + 1) / 2, 10, size + 9, size.wrapping_neg(), u64::MAX, 0];
    assert_eq!(elements.map(|element| element.value), expected, "all_reduce; sums wrap modulo 2^64");
    assert_eq!(elements[1], Reduce::min(10), "the operation stays with the element");
}

/// More elements than any implementation reduces in one piece: the operation must hold for every element of every piece.
fn reduce_many(comm: &dyn Communicator, effort: Effort) {
    let count = effort.long_bytes / 64 + 1;
    let rank = comm.rank() as u64;
    let mut elements: Vec<_> = (0..count as u64)
        .map(|index| match index % 3 {
            0 => Reduce::sum(index + rank),
            1 => Reduce::min(index + rank),
            _ => Reduce::max(index + rank),
        })
        .collect();
    comm.all_reduce(&mut elements).unwrap();
    let size = comm.size() as u64;
    for (index, element) in (0..).zip(&elements) {
        let expected = match index % 3 {
            0 => size * index + size * (size - 1) / 2,
            1 => index,
            _ => index + size - 1,
        };
        assert_eq!(element.value, expected, "element {index} of {count}");
    }
}

fn gathers(comm: &dyn Communicator) {
    // Lengths 0..=4, with the empty ranks at every position in turn; very many ranks would make very many vectors.
    for shift in 0..if comm.size() > 100 { 1 } else { 5 } {
        let length = |rank: usize| (rank + shift) % 5;
        let mine = pattern(comm.rank(), shift, 3, length(comm.rank()));
        let check = |all: &[Vec<u8>], what: &str| {
            assert_eq!(all.len(), comm.size(), "{what}");
            for (rank, bytes) in all.iter().enumerate() {
                assert_bytes(bytes, &pattern(rank, shift, 3, length(rank)), what);
            }
        };
        check(&comm.all_gather(&mine).unwrap(), "all_gather");
        let root = shift % comm.size();
        let all = comm.gather(root, &mine).unwrap();
        if comm.rank() == root {
            check(&all, "gather");
        } else {
            assert!(all.is_empty(), "gather gives nothing but on the root");
        }
    }
    assert!(comm.all_gather(&[]).unwrap().iter().all(Vec::is_empty), "all_gather of nothing");
}

fn scatter(comm: &dyn Communicator) {
    for root in roots(comm.size()) {
        let length = |rank: usize| (rank * 3 + root) % 11;
        let messages: Vec<_> = if comm.rank() == root {
            (0..comm.size()).map(|rank| pattern(root, rank, 4, length(rank))).collect()
        } else {
            Vec::new()
        };
        let mine = comm.scatter(root, &messages).unwrap();
        assert_bytes(&mine, &pattern(root, comm.rank(), 4, length(comm.rank())), "scatter");
    }
}

fn exclusive_sum(comm: &dyn Communicator) {
    let rank = comm.rank() as u64;
    assert_eq!(comm.exclusive_sum(rank + 1).unwrap(), rank * (rank + 1) / 2, "exclusive_sum");
    let wrapped = comm.exclusive_sum(u64::MAX).unwrap();
    assert_eq!(wrapped, rank.wrapping_neg(), "exclusive_sum wraps modulo 2^64");
}
