//! An operation of the storage fails, once or for good, in every call that touches the file: all ranks come to one verdict, none
//! hangs, the file holds what was sealed and nothing else, and a later run goes on with it.

mod common;

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use afflux_container::{Block, SeriesFile};
use afflux_series::{Existing, Replay};
use afflux_storage::{Fault, FaultyStorage, Lasting, Operation, PosixStorage};
use common::{Owners, Workload, attempt, check, id_of, value, write};

const STEPS: u64 = 15;

fn workload() -> Workload {
    Workload { window_steps: 4, chunk_steps: 3, chunk_bytes: 256, ..Workload::one_set(5) }
}

/// The first part of a run: created, filled, sealed, rebalanced, sealed again.
fn first() -> Workload {
    let rebalances = vec![(1, Owners::RoundRobin), (6, Owners::OnlyRank(1))];
    Workload { steps: 0..9, rebalances, checkpoints: vec![4], ..workload() }
}

/// The second: resumed by other ranks, replayed, rebalanced while that goes on, and behind it.
fn second(replay: Replay, drift: u64) -> Workload {
    let rebalances = vec![(4, Owners::Scattered), (10, Owners::Blocks)];
    Workload {
        steps: 3..STEPS,
        existing: Existing::Resume(replay),
        rebalances,
        checkpoints: vec![6, 12],
        drift,
        ..workload()
    }
}

/// Runs on other threads; a run that does not end is a failure of its own.
fn in_time<T: Send + 'static>(what: String, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(body()));
    receiver.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{what}: hangs, or a rank panicked"))
}

/// Whether the run failed, by one verdict of all ranks.
fn fails(path: &Path, ranks: usize, workload: &Workload, fault: &Fault) -> bool {
    let faulty = FaultyStorage::new(Arc::new(PosixStorage::new()));
    faulty.inject(fault.clone());
    let workload = Workload { storage: Some(Arc::new(faulty)), ..workload.clone() };
    let path = path.to_owned();
    let results = in_time(format!("{fault:?}"), move || attempt(&path, ranks, &workload));
    let failed = results.iter().filter(|result| result.is_err()).count();
    assert!(failed == 0 || failed == results.len(), "{fault:?}: one verdict on all ranks: {results:?}");
    failed > 0
}

/// What the file shows is sealed, and each value is one that the solver has given for its step: of `drifts`.
fn shows_only_what_was_given(path: &Path, drifts: &[u64]) {
    let file = SeriesFile::open(path).unwrap();
    let set = &file.sets()[0];
    let rows = set.rows_sealed;
    assert_eq!(rows, file.state().watermark.map_or(0, |watermark| watermark + 1));
    let workload = workload();
    let points = workload.sets[0].points;
    let mut ids: Vec<i64> = (0..points).map(|index| id_of(index, points)).collect();
    ids.sort_unstable();
    for (variable, &(name, element, components)) in workload.sets[0].variables.iter().enumerate() {
        let block = file.block(0, variable, 0..points, 0..rows).unwrap();
        let mut bytes = Vec::new();
        Block::bytes_into(&block, 0..block.len(), &mut bytes);
        let mut found = bytes.chunks_exact(element.bytes());
        for &id in &ids {
            for component in 0..u64::from(components.unwrap_or(1)) {
                for step in 0..rows {
                    let found = found.next().unwrap();
                    let given = |&drift: &u64| {
                        let words = [0, id.cast_unsigned(), variable as u64, component, step + (drift << 32)];
                        value(words, element)[..element.bytes()] == *found
                    };
                    assert!(drifts.iter().any(given), "{name} of {id} at {step}");
                }
            }
        }
    }
    if drifts.len() == 1 {
        assert!(file.verify(&mut |_| {}).is_whole());
    }
}

/// Counts the fault down through the first part of a run. What is left is resumed, by a solver that begins anew.
fn countdown_first(fault: impl Fn(u64) -> Fault) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    for k in 1.. {
        let failed = fails(&path, 3, &first(), &fault(k));
        if path.exists() {
            shows_only_what_was_given(&path, &[0]);
        }
        if k % 3 == 0 || !failed {
            let again = Workload { steps: 0..STEPS, existing: Existing::Resume(Replay::Compare), ..workload() };
            write(&path, 2, &again);
            check(&path, &again);
        }
        if path.exists() {
            std::fs::remove_file(&path).unwrap();
        }
        if !failed {
            return k - 1;
        }
    }
    unreachable!("a run has an end")
}

/// Counts the fault down through a run that resumes; what is left is resumed once more, with the same policy.
fn countdown_second(replay: Replay, fault: impl Fn(u64) -> Fault) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let (path, origin) = (directory.path().join("run.nc"), directory.path().join("origin.nc"));
    let drift = u64::from(replay == Replay::Rewrite);
    write(&origin, 2, &Workload { is_killed: true, drift, ..first() });
    // Rewriting starts anew, so that no row of the old solver stays.
    let start = if replay == Replay::Rewrite { 0 } else { 3 };
    let resumed = Workload { steps: start..STEPS, ..second(replay, 0) };
    for k in 1.. {
        std::fs::copy(&origin, &path).unwrap();
        let failed = fails(&path, 4, &resumed, &fault(k));
        shows_only_what_was_given(&path, if drift == 0 { &[0] } else { &[0, 1] });
        if k % 3 == 0 || !failed {
            write(&path, 3, &resumed);
            check(&path, &Workload { steps: 0..STEPS, ..workload() });
        }
        if !failed {
            return k - 1;
        }
    }
    unreachable!("a run has an end")
}

#[test]
fn the_kth_write_of_a_run_that_is_rebalanced() {
    assert!(countdown_first(|k| Fault::disk_full(Operation::Write, k, Lasting::ForGood)) > 20);
}

#[test]
fn the_kth_write_of_a_run_that_resumes_and_skips() {
    assert!(countdown_second(Replay::Skip, |k| Fault::disk_full(Operation::Write, k, Lasting::Once)) > 20);
}

#[test]
fn the_kth_write_of_a_run_that_rewrites() {
    assert!(countdown_second(Replay::Rewrite, |k| Fault::disk_full(Operation::Write, k, Lasting::ForGood)) > 20);
}

#[test]
fn the_kth_other_operation() {
    for operation in [Operation::Open, Operation::SetLen, Operation::Rename] {
        let countdown = countdown_first(|k| Fault::medium(operation, k, Lasting::ForGood));
        assert!(countdown > 0, "{operation:?}");
    }
    for operation in [Operation::Open, Operation::SetLen] {
        let countdown = countdown_second(Replay::Rewrite, |k| Fault::medium(operation, k, Lasting::Once));
        assert!(countdown > 0, "{operation:?}");
    }
}

/// The process is gone from some operation on, of whatever kind.
#[test]
fn the_kth_operation_is_the_last() {
    assert!(countdown_first(Fault::death) > 20);
}

#[test]
#[ignore = "a minute"]
fn long_the_kth_operation_of_a_run_that_resumes_is_the_last() {
    for replay in [Replay::Skip, Replay::Compare, Replay::Rewrite] {
        assert!(countdown_second(replay, Fault::death) > 20, "{replay:?}");
    }
}

#[test]
#[ignore = "a minute"]
fn long_the_kth_read_of_a_run_that_resumes() {
    for replay in [Replay::Skip, Replay::Compare, Replay::Rewrite] {
        for lasting in [Lasting::Once, Lasting::ForGood] {
            assert!(countdown_second(replay, |k| Fault::medium(Operation::Read, k, lasting)) > 5, "{replay:?}");
        }
    }
}

#[test]
#[ignore = "a minute"]
fn long_the_kth_write_once_and_for_good() {
    for lasting in [Lasting::Once, Lasting::ForGood] {
        assert!(countdown_first(|k| Fault::disk_full(Operation::Write, k, lasting)) > 20);
        for replay in [Replay::Skip, Replay::Compare, Replay::Rewrite] {
            assert!(countdown_second(replay, |k| Fault::disk_full(Operation::Write, k, lasting)) > 20, "{replay:?}");
        }
    }
}
