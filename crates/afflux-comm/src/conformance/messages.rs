//! Checks of the sparse exchange and of the exchange with known lengths.

use super::{Effort, assert_bytes, pattern};
use crate::Communicator;

pub(super) fn run(comm: &dyn Communicator, effort: Effort) {
    sparse_shapes(comm);
    sparse_consecutive(comm, effort.repetitions);
    dense(comm, effort);
    one_to_one_at_every_position(comm);
    run_ahead(comm, effort.repetitions);
    pieces(comm);
    long_ring(comm, effort.long_bytes);
}

fn sparse(comm: &dyn Communicator, sends: &[(usize, Vec<u8>)]) -> Vec<(usize, Vec<u8>)> {
    let sends: Vec<(usize, &[u8])> = sends.iter().map(|(destination, bytes)| (*destination, &bytes[..])).collect();
    let received = comm.sparse_exchange(&sends).unwrap();
    received.into_iter().map(|message| (message.source, message.bytes)).collect()
}

/// A ring in both kinds of exchange, the neighbour of a lone rank being itself.
pub(super) fn ring(comm: &dyn Communicator) {
    let (rank, size) = (comm.rank(), comm.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let received = sparse(comm, &[(next, pattern(rank, next, 0, rank % 50))]);
    assert_eq!(received, [(previous, pattern(previous, rank, 0, previous % 50))], "sparse ring");
    let mut buffer = vec![0; 33];
    comm.exchange(&[(next, &[&pattern(rank, next, 1, 33)])], &mut [(previous, &mut buffer)]).unwrap();
    assert_bytes(&buffer, &pattern(previous, rank, 1, 33), "ring");
}

fn sparse_shapes(comm: &dyn Communicator) {
    let (rank, size) = (comm.rank(), comm.size());
    assert_eq!(sparse(comm, &[]), [], "nobody sends");
    // All to one, at every position; lengths from nothing to beyond the eager limit.
    for target in 0..size.min(8) {
        let length = |source: usize| [0, 1, 100_000, 17][(source + target) % 4];
        let received = sparse(comm, &[(target, pattern(rank, target, 2, length(rank)))]);
        let expected: Vec<_> = (0..size).map(|source| (source, pattern(source, target, 2, length(source)))).collect();
        assert_eq!(received, if rank == target { expected } else { Vec::new() }, "all to rank {target}");
        // One to all, itself included.
        let sends: Vec<_> = (0..size).map(|to| (to, pattern(target, to, 3, to % 9))).collect();
        let received = sparse(comm, if rank == target { &sends } else { &[] });
        assert_eq!(received, [(target, pattern(target, rank, 3, rank % 9))], "rank {target} to all");
    }
}

/// Consecutive calls must not meet, although fast ranks are a call ahead of slow ones.
fn sparse_consecutive(comm: &dyn Communicator, repetitions: usize) {
    let (rank, size) = (comm.rank(), comm.size());
    for call in 0..repetitions {
        let destination = |source: usize| (source * 3 + call) % size;
        let sends = [(destination(rank), pattern(rank, destination(rank), call, call % 21))];
        // Every seventh call this rank is silent, another at each call.
        let silent = |source: usize| (source + call).is_multiple_of(7);
        let received = sparse(comm, if silent(rank) { &[] } else { &sends });
        let expected: Vec<_> = (0..size)
            .filter(|&source| destination(source) == rank && !silent(source))
            .map(|source| (source, pattern(source, rank, call, call % 21)))
            .collect();
        assert_eq!(received, expected, "sparse call {call}");
    }
}

/// Everyone to everyone, itself included, in lengths that differ by pair and are often 0; receives in falling order.
fn dense(comm: &dyn Communicator, effort: Effort) {
    let (rank, size) = (comm.rank(), comm.size());
    for call in 0..6 {
        let long = effort.long_bytes / (10 * size);
        let length = |source: usize, destination: usize| [0, 1, long, 13, 0, 5_000][(source + destination + call) % 6];
        let sends: Vec<_> = (0..size).map(|to| pattern(rank, to, call, length(rank, to))).collect();
        let slices: Vec<[&[u8]; 1]> = sends.iter().map(|bytes| [&bytes[..]]).collect();
        let sends: Vec<(usize, &[&[u8]])> = slices.iter().enumerate().map(|(to, slices)| (to, &slices[..])).collect();
        let mut buffers: Vec<_> = (0..size).map(|from| vec![0xaa; length(from, rank)]).collect();
        let mut receives: Vec<_> = buffers.iter_mut().enumerate().map(|(from, bytes)| (from, &mut bytes[..])).collect();
        receives.reverse();
        comm.exchange(&sends, &mut receives).unwrap();
        for (from, buffer) in buffers.iter().enumerate() {
            assert_bytes(buffer, &pattern(from, rank, call, length(from, rank)), "dense exchange");
        }
    }
}

/// One pair only; the others have nothing to do and come at once to the next call.
fn one_to_one_at_every_position(comm: &dyn Communicator) {
    let (rank, size) = (comm.rank(), comm.size());
    for source in 0..size.min(8) {
        let destination = size - 1 - source;
        let message = pattern(source, destination, source, 999);
        let slices: [&[u8]; 1] = [&message];
        let sends: &[(usize, &[&[u8]])] = if rank == source { &[(destination, &slices)] } else { &[] };
        let mut buffer = vec![0; 999];
        if rank == destination {
            comm.exchange(sends, &mut [(source, &mut buffer)]).unwrap();
            assert_bytes(&buffer, &message, "one to one");
        } else {
            comm.exchange(sends, &mut []).unwrap();
        }
    }
}

/// Rank 0 sends many exchanges in a row to the last rank: they arrive in order, none is lost.
fn run_ahead(comm: &dyn Communicator, repetitions: usize) {
    let (rank, last) = (comm.rank(), comm.size() - 1);
    for call in 0..repetitions {
        let message = pattern(0, last, call, 64);
        let slices: [&[u8]; 1] = [&message];
        let sends: &[(usize, &[&[u8]])] = if rank == 0 { &[(last, &slices)] } else { &[] };
        let mut buffer = [0; 64];
        let mut receives: Vec<(usize, &mut [u8])> = if rank == last { vec![(0, &mut buffer)] } else { Vec::new() };
        comm.exchange(sends, &mut receives).unwrap();
        if rank == last {
            assert_bytes(&buffer, &message, "exchange in order");
        }
    }
}

/// A message of many slices, short and long and empty, arrives as their concatenation.
fn pieces(comm: &dyn Communicator) {
    let (rank, size) = (comm.rank(), comm.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let lists: [&[usize]; 5] = [&[], &[0, 0], &[3, 0, 5, 1], &[40_000, 0, 70_001, 30_000], &[1, 90_000, 2]];
    for (call, lengths) in lists.iter().enumerate() {
        let total = lengths.iter().sum();
        let whole = pattern(rank, next, call, total);
        let mut rest = &whole[..];
        let mut slices = Vec::new();
        for &length in *lengths {
            let (piece, tail) = rest.split_at(length);
            slices.push(piece);
            rest = tail;
        }
        let mut buffer = vec![0; total];
        comm.exchange(&[(next, &slices)], &mut [(previous, &mut buffer)]).unwrap();
        assert_bytes(&buffer, &pattern(previous, rank, call, total), "message of several slices");
    }
    let many: Vec<_> = (0..1_000).map(|index| pattern(rank, next, index, index % 40)).collect();
    let slices: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
    let expected: Vec<u8> = (0..1_000).flat_map(|index| pattern(previous, rank, index, index % 40)).collect();
    let mut buffer = vec![0; expected.len()];
    comm.exchange(&[(next, &slices)], &mut [(previous, &mut buffer)]).unwrap();
    assert_bytes(&buffer, &expected, "message of a thousand slices");
}

fn long_ring(comm: &dyn Communicator, length: usize) {
    let (rank, size) = (comm.rank(), comm.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let message = pattern(rank, next, 9, length);
    let mut buffer = vec![0; length];
    comm.exchange(&[(next, &[&message])], &mut [(previous, &mut buffer)]).unwrap();
    assert_bytes(&buffer, &pattern(previous, rank, 9, length), "long ring");
    let received = sparse(comm, &[(previous, message)]);
    assert_eq!(received.len(), 1);
    assert_bytes(&received[0].1, &pattern(next, (next + 1) % size, 9, length), "long sparse ring");
}

pub(super) fn huge_exchange(comm: &dyn Communicator, length: usize) {
    let last = comm.size() - 1;
    if comm.rank() == 0 && last > 0 {
        // In two slices with a short head, so that neither starts at a round place.
        let message = pattern(0, last, 3, length);
        let (head, tail) = message.split_at(11);
        comm.exchange(&[(last, &[head, tail])], &mut []).unwrap();
    } else if comm.rank() == last && last > 0 {
        let mut buffer = vec![0; length];
        comm.exchange(&[], &mut [(0, &mut buffer)]).unwrap();
        assert_bytes(&buffer, &pattern(0, last, 3, length), "huge exchange");
    } else {
        comm.exchange(&[], &mut []).unwrap();
    }
}
