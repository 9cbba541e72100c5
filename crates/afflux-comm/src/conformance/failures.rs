//! Checks of what becomes of a communicator, and of those who wait, when a rank fails, leaves or makes another call.
//!
//! Each check spends a duplicate of the communicator. Which of the ranks' own errors comes first is a matter of time; what
//! is certain is that every rank gets one, that it names the right rank where it names one, and that nobody hangs.

use std::time::Duration;

use super::pattern;
use crate::{CommError, Communicator, Reduce};

/// Collective: every check that leaves no message of the layer below unfinished.
pub(super) fn run(comm: &dyn Communicator) {
    for expected_bytes in [0, 999, 1_001, 5_000] {
        length_mismatch(&*comm.duplicate().unwrap(), expected_bytes);
    }
    self_length_mismatch(comm);
    for failing in 0..comm.size().min(4) {
        for late in [false, true] {
            given_up(&*comm.duplicate().unwrap(), failing, late);
            left(comm.duplicate().unwrap(), failing, late);
            another_call(&*comm.duplicate().unwrap(), failing, late);
        }
    }
    comm.barrier().unwrap();
}

/// Lets the others be in their call already.
fn come(late: bool) {
    if late {
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// A small call in which every rank waits for every other.
fn reduce(comm: &dyn Communicator) -> Result<(), CommError> {
    comm.all_reduce(&mut [Reduce::sum(1)])
}

/// After a failure every call fails on every rank, in words that name the one who failed.
fn is_spent(comm: &dyn Communicator, what: &str) {
    for found in [reduce(comm), comm.barrier(), comm.start_all_reduce(vec![]).map(drop), comm.exchange(&[], &mut [])] {
        assert!(found.is_err(), "{what}: a call succeeds on rank {} of a spent communicator", comm.rank());
    }
}

/// One rank gives the communicator up; the others wait for it, or come later.
fn given_up(comm: &dyn Communicator, failing: usize, late: bool) {
    if comm.rank() == failing {
        come(late);
        comm.fail("the disk is full");
    } else {
        let pending = comm.start_all_reduce(vec![Reduce::sum(1)]);
        let found = pending.and_then(|pending| pending.wait());
        match found {
            Err(CommError::PeerFailed { peer, message, rank, .. }) => {
                assert_eq!((peer, rank), (failing, comm.rank()));
                assert!(message.contains("the disk is full"), "{message}");
            }
            other => panic!("rank {failing} gives up, rank {} gets {other:?}", comm.rank()),
        }
    }
    is_spent(comm, "given up");
}

/// One rank drops its handle; the others wait for it, or come later.
fn left(comm: Box<dyn Communicator>, leaving: usize, late: bool) {
    if comm.rank() == leaving {
        come(late);
        drop(comm);
        return;
    }
    match reduce(&*comm) {
        Err(CommError::PeerLeft { peer, rank, .. }) => assert_eq!((peer, rank), (leaving, comm.rank())),
        // Another rank has noticed before.
        Err(CommError::PeerFailed { message, .. }) => {
            assert!(message.contains(&format!("rank {leaving} left")), "{message}");
        }
        other => panic!("rank {leaving} leaves, rank {} gets {other:?}", comm.rank()),
    }
    is_spent(&*comm, "left");
}

/// One rank makes another call than the others.
fn another_call(comm: &dyn Communicator, other: usize, late: bool) {
    if comm.size() == 1 {
        return;
    }
    let found = if comm.rank() == other {
        come(late);
        comm.exclusive_sum(1).map(drop)
    } else {
        reduce(comm)
    };
    match found {
        // A rank that needs nothing of the others in its call hears of it in its next.
        Ok(()) if comm.rank() == other => {}
        Err(CommError::Mismatch { message, .. }) => {
            for part in [format!("rank {other} is in exclusive_sum"), "is in all_reduce".to_owned()] {
                assert!(message.contains(&part), "no {part:?} in {message:?}");
            }
        }
        found => panic!("rank {other} makes another call, rank {} gets {found:?}", comm.rank()),
    }
    is_spent(comm, "another call");
}

/// A wrong length to itself is an error on this rank.
fn self_length_mismatch(comm: &dyn Communicator) {
    let rank = comm.rank();
    let duplicate = comm.duplicate().unwrap();
    let found = duplicate.exchange(&[(rank, &[&[1, 2, 3]])], &mut [(rank, &mut [0; 2])]);
    assert!(matches!(found, Err(CommError::Mismatch { .. })), "{found:?}");
}

/// Collective: a rank that expects too few or too many bytes gets an error and the sender does not hang.
fn length_mismatch(comm: &dyn Communicator, expected_bytes: usize) {
    let last = comm.size() - 1;
    let message = pattern(0, last, 0, 1_000);
    if last == 0 {
        return;
    }
    if comm.rank() == last {
        let mut buffer = vec![0; expected_bytes];
        let found = comm.exchange(&[], &mut [(0, &mut buffer)]);
        assert!(matches!(found, Err(CommError::Mismatch { .. })), "{found:?}");
        return;
    }
    let sends: &[(usize, &[&[u8]])] = if comm.rank() == 0 { &[(last, &[&message])] } else { &[] };
    // The others are told if they are still in the call, or come late.
    let found = comm.exchange(sends, &mut []);
    assert!(matches!(found, Ok(()) | Err(CommError::Mismatch { .. })), "{found:?}");
}
