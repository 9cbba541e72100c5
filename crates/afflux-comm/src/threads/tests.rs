//! Thread ranks: the conformance suite, and what happens when ranks leave or disagree.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{RunError, run, run_on_nodes, try_run};
use crate::conformance::{self, Effort};
use crate::{CommError, Communicator, NodeMap, Reduce};

#[test]
fn conformance_on_few_ranks() {
    for ranks in [1, 2, 3, 4, 7] {
        run(ranks, |comm| {
            conformance::run_all(&comm, Effort::default());
            conformance::run_failures(&comm);
        });
    }
}

#[test]
fn conformance_on_64_ranks() {
    run(64, |comm| {
        conformance::run_all(&comm, Effort { long_bytes: 200_003, repetitions: 10 });
        conformance::run_failures(&comm);
    });
}

#[test]
fn basic_conformance_on_1536_ranks() {
    run(1_536, |comm| conformance::run_basic(&comm));
}

#[test]
fn results_come_in_rank_order() {
    assert_eq!(run(5, |comm| comm.rank() * 10), [0, 10, 20, 30, 40]);
}

#[test]
fn made_up_nodes_are_numbered_by_lowest_rank() {
    let maps = run_on_nodes(&[9, 4, 9, 4, 1], |comm| {
        conformance::run_basic(&comm);
        let part = comm.split(Some(u32::from(comm.rank() > 0)), 0).unwrap().unwrap();
        (comm.nodes().clone(), part.nodes().clone())
    });
    assert_eq!(maps[0].0, NodeMap { node_of_rank: vec![0, 1, 0, 1, 2], node_count: 3 });
    assert_eq!(maps[4].1, NodeMap { node_of_rank: vec![0, 1, 0, 2], node_count: 3 });
}

type Waiting = fn(&dyn Communicator) -> Result<(), CommError>;

/// Every call that waits, on the ranks that remain when rank 2 of 4 has left. (In a gather only the root waits.)
fn calls_that_wait() -> Vec<(&'static str, Waiting)> {
    vec![
        ("barrier", |comm| comm.barrier()),
        ("broadcast", |comm| comm.broadcast(2, &mut Vec::new())),
        ("all_reduce", |comm| comm.all_reduce(&mut [Reduce::sum(1)])),
        ("all_gather", |comm| comm.all_gather(&[1]).map(drop)),
        ("gather", |comm| comm.gather(0, &[1]).map(drop)),
        ("scatter", |comm| comm.scatter(2, &[]).map(drop)),
        ("exclusive_sum", |comm| comm.exclusive_sum(1).map(drop)),
        ("sparse_exchange", |comm| comm.sparse_exchange(&[(2, &[1])]).map(drop)),
        ("exchange", |comm| comm.exchange(&[], &mut [(2, &mut [0; 4])])),
        ("exchange", |comm| comm.exchange(&[(2, &[&[0; 4]])], &mut [])),
        ("duplicate", |comm| comm.duplicate().map(drop)),
        ("split", |comm| comm.split(Some(1), 0).map(drop)),
    ]
}

#[test]
fn a_rank_that_returns_is_missed_in_every_call() {
    for delay in [Duration::ZERO, Duration::from_millis(20)] {
        for (name, call) in calls_that_wait() {
            let outcomes = run(4, |comm| {
                if comm.rank() == 2 {
                    std::thread::sleep(delay);
                    return Ok(());
                }
                call(&comm)
            });
            let waiting: &[usize] = if name == "gather" { &[0] } else { &[0, 1, 3] };
            for &rank in waiting {
                match &outcomes[rank] {
                    Err(CommError::PeerLeft { call, peer: 2, .. }) => assert_eq!(*call, name),
                    // An exchange that comes after another rank has noticed.
                    Err(CommError::PeerFailed { message, .. }) if name == "exchange" => {
                        assert!(message.starts_with("rank 2 left"), "{message}");
                    }
                    other => panic!("rank {rank} in {name}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_rank_that_gives_up_fails_every_call_of_the_others() {
    for delay in [Duration::ZERO, Duration::from_millis(20)] {
        for (name, call) in calls_that_wait() {
            let told = AtomicUsize::new(0);
            let outcomes = run(4, |comm| {
                if comm.rank() == 2 {
                    std::thread::sleep(delay);
                    comm.fail("no more");
                    // It stays: the others must not wait until it leaves.
                    let started = Instant::now();
                    while told.load(Ordering::SeqCst) < 3 {
                        assert!(started.elapsed() < Duration::from_secs(30), "the others hang in {name}");
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    return Ok(());
                }
                let outcome = call(&comm);
                told.fetch_add(1, Ordering::SeqCst);
                outcome
            });
            let waiting: &[usize] = if name == "gather" { &[0] } else { &[0, 1, 3] };
            for &rank in waiting {
                let expected = CommError::PeerFailed { call: name, rank, peer: 2, message: "no more".to_owned() };
                assert_eq!(outcomes[rank], Err(expected), "rank {rank} in {name}");
            }
        }
    }
}

#[test]
fn an_exchange_against_another_call_is_a_mismatch() {
    let started = Instant::now();
    let outcomes = run(3, |comm| match comm.rank() {
        0 => comm.exchange(&[], &mut [(1, &mut [0; 4])]),
        1 => comm.barrier(),
        _ => comm.exchange(&[(0, &[&[1; 4]])], &mut [(1, &mut [0; 4])]),
    });
    for outcome in outcomes {
        match outcome {
            Err(CommError::Mismatch { message, .. }) => assert!(message.contains("rank 1 is in barrier"), "{message}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_panic_is_reported_with_its_rank_after_all_have_ended() {
    let ended = AtomicUsize::new(0);
    let outcome = try_run(4, |comm| {
        comm.barrier().unwrap();
        if comm.rank() == 2 {
            panic!("probe {} lies outside the box", 17);
        }
        // The others panic in turn; that they do must not hide the cause.
        let missed = comm.barrier();
        ended.fetch_add(1, Ordering::SeqCst);
        missed.unwrap();
    });
    assert_eq!(ended.load(Ordering::SeqCst), 3);
    match outcome {
        Err(RunError::Panicked { rank, message, .. }) => {
            assert_eq!((rank, message.as_str()), (2, "probe 17 lies outside the box"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
#[should_panic(expected = "the first cause")]
fn run_passes_the_panic_on() {
    run(3, |comm| {
        assert!(comm.rank() != 1, "the first cause");
        comm.barrier().unwrap();
    });
}

#[test]
fn a_panic_in_a_subgroup_reaches_those_who_wait_elsewhere() {
    let outcome = try_run(4, |comm| {
        let half = comm.split(Some(u32::from(comm.rank() >= 2)), 0).unwrap().unwrap();
        if comm.rank() == 3 {
            panic!("gone");
        }
        if comm.rank() == 2 {
            half.barrier().unwrap();
        }
        comm.barrier().unwrap();
    });
    assert!(matches!(outcome, Err(RunError::Panicked { rank: 3, .. })), "{outcome:?}");
}

#[test]
fn leaving_after_the_last_call_disturbs_nobody() {
    for _ in 0..200 {
        run(4, |comm| {
            comm.barrier().unwrap();
            let mut buffer = [0; 8];
            if comm.rank() == 0 {
                comm.exchange(&[(3, &[&[5; 8]])], &mut []).unwrap();
            } else if comm.rank() == 3 {
                comm.exchange(&[], &mut [(0, &mut buffer)]).unwrap();
                assert_eq!(buffer, [5; 8]);
            }
        });
    }
}

#[test]
fn different_calls_are_a_mismatch_on_every_rank() {
    let outcomes = run(3, |comm| if comm.rank() == 1 { comm.broadcast(0, &mut vec![1]) } else { comm.barrier() });
    for outcome in outcomes {
        match outcome {
            Err(CommError::Mismatch { message, .. }) => {
                assert!(message.contains("rank 1 is in broadcast"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
    let outcomes = run(2, |comm| {
        let mut elements = if comm.rank() == 0 { [Reduce::sum(1)] } else { [Reduce::min(1)] };
        comm.all_reduce(&mut elements)
    });
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(CommError::Mismatch { .. }))), "{outcomes:?}");
}

#[test]
fn a_message_nobody_expects_or_sends_is_a_mismatch() {
    let outcomes = run(2, |comm| {
        let outcome =
            if comm.rank() == 0 { comm.exchange(&[(1, &[&[1]])], &mut []) } else { comm.exchange(&[], &mut []) };
        assert!(matches!(comm.barrier(), Err(CommError::Mismatch { .. })), "the error spends the group");
        outcome
    });
    assert!(matches!(outcomes[0], Err(CommError::Mismatch { .. })), "{outcomes:?}");
    let started = Instant::now();
    let outcomes = run(2, |comm| {
        let outcome =
            if comm.rank() == 0 { comm.exchange(&[], &mut [(1, &mut [0])]) } else { comm.exchange(&[], &mut []) };
        assert!(matches!(comm.barrier(), Err(CommError::Mismatch { .. })), "the error spends the group");
        outcome
    });
    assert!(matches!(outcomes[0], Err(CommError::Mismatch { .. })), "{outcomes:?}");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
#[should_panic(expected = "named twice")]
fn a_destination_named_twice_is_a_mistake_of_the_program() {
    run(2, |comm| comm.sparse_exchange(&[(1, &[1]), (1, &[2])]));
}
