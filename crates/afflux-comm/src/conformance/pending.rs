//! Checks of reductions that are started now and completed later.

use std::time::Duration;

use super::{Effort, assert_bytes, pattern};
use crate::{Communicator, PendingReduce, Reduce};

pub(super) fn run(comm: &dyn Communicator) {
    nothing_and_little(comm);
    several_in_any_order(comm);
    dropped_unfinished(comm);
}

pub(super) fn run_long(comm: &dyn Communicator, effort: Effort) {
    starting_waits_for_nobody(comm);
    other_calls_meanwhile(comm, effort.repetitions);
    across_communicators(comm);
    outlives_its_communicator(comm);
    far_ahead(comm, effort.repetitions);
    many_elements(comm, effort.long_bytes / 64 + 1);
}

/// What this rank gives in reduction `call`.
fn given(comm: &dyn Communicator, call: u64) -> Vec<Reduce> {
    let rank = comm.rank() as u64;
    vec![Reduce::sum(rank + call), Reduce::min(rank + call), Reduce::max(rank + call), Reduce::sum(1)]
}

/// What all get from it.
fn expected(comm: &dyn Communicator, call: u64) -> Vec<Reduce> {
    let size = comm.size() as u64;
    vec![
        Reduce::sum(size * (size - 1) / 2 + size * call),
        Reduce::min(call),
        Reduce::max(size - 1 + call),
        Reduce::sum(size),
    ]
}

fn start(comm: &dyn Communicator, call: u64) -> Box<dyn PendingReduce> {
    comm.start_all_reduce(given(comm, call)).unwrap()
}

/// Tests until there is a result.
fn poll(pending: &mut dyn PendingReduce) -> Vec<Reduce> {
    loop {
        if let Some(elements) = pending.test().unwrap() {
            return elements;
        }
        std::thread::yield_now();
    }
}

fn nothing_and_little(comm: &dyn Communicator) {
    assert_eq!(comm.start_all_reduce(Vec::new()).unwrap().wait().unwrap(), []);
    assert_eq!(start(comm, 1).wait().unwrap(), expected(comm, 1), "waited for");
    let mut pending = start(comm, 2);
    assert_eq!(poll(&mut *pending), expected(comm, 2), "polled");
    assert_eq!(pending.test().unwrap(), Some(expected(comm, 2)), "tested once more");
    assert_eq!(pending.wait().unwrap(), expected(comm, 2), "waited for after the test");
}

/// Each rank completes them in another order, some by polling.
fn several_in_any_order(comm: &dyn Communicator) {
    let mut pending: Vec<_> = (0..7).map(|call| Some(start(comm, call))).collect();
    for step in 0..7 {
        let call = (step * 3 + comm.rank()) % 7;
        let mut one = pending[call].take().expect("each is completed once");
        let found = if step % 2 == 0 { one.wait().unwrap() } else { poll(&mut *one) };
        assert_eq!(found, expected(comm, call as u64), "reduction {call}");
    }
}

/// A rank that gives up its result takes it from nobody else, and nothing later meets what it left.
fn dropped_unfinished(comm: &dyn Communicator) {
    for call in 0..8 {
        let mut pending = start(comm, call);
        let drops = comm.rank() as u64 % 2 == call % 2;
        if drops && call % 4 < 2 {
            drop(pending);
        } else if drops {
            let _ = pending.test().unwrap();
        } else {
            assert_eq!(pending.wait().unwrap(), expected(comm, call), "others drop reduction {call}");
        }
    }
    for call in 0..3 {
        drop(start(comm, call));
    }
    let mut elements = given(comm, 9);
    comm.all_reduce(&mut elements).unwrap();
    assert_eq!(elements, expected(comm, 9), "after all have dropped theirs");
}

/// Rank 0 starts, finds it incomplete, and only then tells the last rank to start.
fn starting_waits_for_nobody(comm: &dyn Communicator) {
    let (rank, last) = (comm.rank(), comm.size() - 1);
    if last == 0 {
        return;
    }
    let other = comm.duplicate().unwrap();
    let mut tell = [0; 3];
    if rank == last {
        other.exchange(&[], &mut [(0, &mut tell)]).unwrap();
        assert_eq!(tell, [1, 2, 3]);
    }
    let mut pending = start(comm, 4);
    if rank == 0 {
        assert_eq!(pending.test().unwrap(), None, "the last rank has not started");
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(pending.test().unwrap(), None, "the last rank has not started yet");
        other.exchange(&[(last, &[&[1, 2, 3]])], &mut []).unwrap();
    } else if rank != last {
        other.exchange(&[], &mut []).unwrap();
    }
    assert_eq!(pending.wait().unwrap(), expected(comm, 4));
}

/// A reduction stays under way through calls of all kinds.
fn other_calls_meanwhile(comm: &dyn Communicator, repetitions: usize) {
    let (rank, size) = (comm.rank(), comm.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    for call in 0..repetitions {
        let mut pending = start(comm, call as u64);
        comm.barrier().unwrap();
        let mut bytes = pattern(0, 0, call, if rank == 0 { 500 } else { 0 });
        comm.broadcast(0, &mut bytes).unwrap();
        assert_bytes(&bytes, &pattern(0, 0, call, 500), "broadcast beside a reduction");
        let mut elements = given(comm, call as u64 + 1);
        comm.all_reduce(&mut elements).unwrap();
        assert_eq!(elements, expected(comm, call as u64 + 1), "all_reduce beside a reduction");
        let mut buffer = vec![0; 20_000];
        let message = pattern(rank, next, call, 20_000);
        comm.exchange(&[(next, &[&message])], &mut [(previous, &mut buffer)]).unwrap();
        assert_bytes(&buffer, &pattern(previous, rank, call, 20_000), "exchange beside a reduction");
        assert_eq!(comm.sparse_exchange(&[(next, &[7])]).unwrap().len(), 1);
        // Everyone has started it long ago, but under MPI it may need some more looks.
        assert_eq!(poll(&mut *pending), expected(comm, call as u64), "reduction beside other calls");
    }
}

/// Ranks complete the reductions of two communicators in different orders, waiting in calls of either meanwhile.
fn across_communicators(comm: &dyn Communicator) {
    let other = comm.duplicate().unwrap();
    for call in 0..6 {
        let (one, two) = (start(comm, call), start(&*other, call + 10));
        if comm.rank().is_multiple_of(2) {
            assert_eq!(one.wait().unwrap(), expected(comm, call));
            other.barrier().unwrap();
            assert_eq!(two.wait().unwrap(), expected(comm, call + 10));
        } else {
            assert_eq!(two.wait().unwrap(), expected(comm, call + 10));
            other.barrier().unwrap();
            assert_eq!(one.wait().unwrap(), expected(comm, call));
        }
    }
}

fn outlives_its_communicator(comm: &dyn Communicator) {
    let other = comm.duplicate().unwrap();
    let pending = start(&*other, 5);
    drop(other);
    comm.barrier().unwrap();
    assert_eq!(pending.wait().unwrap(), expected(comm, 5));
}

/// Fast ranks start many before slow ones have started any.
fn far_ahead(comm: &dyn Communicator, repetitions: usize) {
    if comm.rank() + 1 == comm.size() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut pending: Vec<_> = (0..repetitions as u64).map(|call| (call, start(comm, call))).collect();
    while let Some((call, one)) = pending.pop() {
        assert_eq!(one.wait().unwrap(), expected(comm, call));
    }
}

fn many_elements(comm: &dyn Communicator, count: usize) {
    let rank = comm.rank() as u64;
    let elements = (0..count as u64).map(|index| Reduce::max(index * 3 + rank)).collect();
    let long = comm.start_all_reduce(elements).unwrap();
    let short = start(comm, 3);
    assert_eq!(short.wait().unwrap(), expected(comm, 3));
    for (index, element) in (0..).zip(long.wait().unwrap()) {
        assert_eq!(element, Reduce::max(index * 3 + comm.size() as u64 - 1), "element {index} of {count}");
    }
}
