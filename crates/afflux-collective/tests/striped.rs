//! Files with stripes: what is asked and given (E8, E9), who writes what, and how many requests a storage target sees.

mod common;
#[path = "common/striped.rs"]
mod striped;

use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use afflux_collective::{CollectiveError, CollectiveFile, Hints, Holes, Part, Path, ReadOptions, WriteOptions};
use afflux_comm::{Communicator, threads};
use afflux_plan::Partition;
use afflux_storage::{Fault, FaultyStorage, Lasting, OpenMode, Operation, Storage, StorageFileExt};
use common::{SENTINEL, Workload, dealt, end, expected, payload};
use striped::{STRIPES_MAX, StripedStorage};

const NAME: &str = "shared";

fn open(comm: &dyn Communicator, storage: &StripedStorage, mode: OpenMode, hints: &[(&str, &str)]) -> CollectiveFile {
    let hints = Hints::from_pairs(hints.iter().copied()).unwrap();
    CollectiveFile::open(comm, storage, FilePath::new(NAME), mode, hints).unwrap()
}

/// What the hint was reported as, after an access.
fn reported(storage: &StripedStorage, mode: OpenMode, hints: &[(&str, &str)], name: &str) -> (String, Option<String>) {
    let lines = threads::run(3, |comm| {
        let file = open(&comm, storage, mode, hints);
        let workload = dealt("some", 3, (0..30).map(|k| (0, 10, usize::try_from(k).unwrap())));
        let own = &workload.ranks[comm.rank()];
        let options = WriteOptions { path: Path::TwoPhase, ..WriteOptions::default() };
        file.write_all(own, &[&payload(own)], &options, Part::none()).unwrap();
        file.hints()
    });
    assert!(lines.windows(2).all(|pair| pair[0] == pair[1]), "all ranks report alike");
    let line = lines[0].iter().find(|line| line.name == name).expect("a line for the hint").clone();
    (line.effective, line.warning)
}

/// CASES E8.
#[test]
fn e8_striping_is_given_kept_or_left_to_the_site() {
    for (asked, given) in [("2", "2"), ("8", "8"), ("12", "10")] {
        let storage = StripedStorage::new(64, 4);
        let (effective, warning) =
            reported(&storage, OpenMode::CreateNew, &[("striping_factor", asked)], "striping_factor");
        assert_eq!(effective, given);
        assert_eq!(warning.is_some(), asked != given, "{warning:?}");
        assert!(given.parse::<u64>().unwrap() <= STRIPES_MAX);
    }
    // A file that is there keeps its stripes, and the report says so.
    let storage = StripedStorage::new(64, 4);
    storage.memory.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
    let (effective, warning) = reported(&storage, OpenMode::ReadWrite, &[("striping_factor", "8")], "striping_factor");
    assert_eq!(effective, "4");
    assert!(warning.unwrap().contains("was there before"));
    // Nothing asked: the site's choice.
    let storage = StripedStorage::new(64, 4);
    assert_eq!(reported(&storage, OpenMode::CreateNew, &[], "striping_factor"), ("4".to_owned(), None));
}

/// CASES E9: all ranks plan with what rank 0 sees, whatever the others see.
#[test]
fn e9_all_ranks_believe_in_rank_0s_stripes() {
    let workload = dealt("rows", 4, (0..400).map(|k| (0, 30, usize::try_from(k).unwrap())));
    let storages: Vec<StripedStorage> = {
        let first = StripedStorage::new(64, 4);
        // The others share the bytes but see other stripes.
        (0..4).map(|rank| first.seen_as(64 + 8 * rank, 4 + rank)).collect()
    };
    storages[0].memory.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
    let partitions = threads::run(4, |comm| {
        let file = open(&comm, &storages[comm.rank()], OpenMode::ReadWrite, &[]);
        let own = &workload.ranks[comm.rank()];
        let options = WriteOptions { path: Path::TwoPhase, ..WriteOptions::default() };
        let report = file.write_all(own, &[&payload(own)], &options, Part::none()).unwrap();
        report.explanation.domains.unwrap().0.partition()
    });
    for partition in partitions {
        assert!(
            matches!(partition, Partition::StaticCyclic { stripe_bytes } if stripe_bytes.get() == 64),
            "{partition}"
        );
    }
    let found = storages[0].memory.contents(FilePath::new(NAME)).unwrap();
    assert_eq!(found, expected(&workload, usize::try_from(end(&workload)).unwrap()));
}

#[test]
fn a_file_that_cannot_be_created_is_one_error_on_all_ranks() {
    let storage = StripedStorage::new(64, 4);
    storage.memory.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
    let errors = threads::run(3, |comm| {
        CollectiveFile::open(&comm, &storage, FilePath::new(NAME), OpenMode::CreateNew, Hints::default())
            .map(|_| ())
            .unwrap_err()
    });
    for error in &errors {
        assert_eq!(error, &errors[0]);
        assert_eq!(error.io_kind(), Some(std::io::ErrorKind::AlreadyExists), "{error}");
        assert!(matches!(error, CollectiveError::Io { rank: 0, .. }));
    }
}

/// Writes and reads the workload with the hints; what the storage has seen.
fn throttled(workload: &Workload, ranks_per_node: usize, hints: &[(&str, &str)], holes: Holes) -> StripedStorage {
    throttled_by(workload, ranks_per_node, hints, &WriteOptions { path: Path::TwoPhase, holes })
}

fn throttled_by(
    workload: &Workload,
    ranks_per_node: usize,
    hints: &[(&str, &str)],
    options: &WriteOptions,
) -> StripedStorage {
    let storage = StripedStorage::new(64, 3);
    let length = usize::try_from(end(workload)).unwrap() + 9;
    let file = storage.memory.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
    file.write_all_at(&vec![SENTINEL; length], 0).unwrap();
    let ranks = workload.ranks.len();
    let node_of_rank: Vec<u32> = (0..ranks).map(|rank| u32::try_from(rank / ranks_per_node).unwrap()).collect();
    threads::run_on_nodes(&node_of_rank, |comm| {
        let file = open(&comm, &storage, OpenMode::ReadWrite, hints);
        let own = &workload.ranks[comm.rank()];
        for _ in 0..2 {
            file.write_all(own, &[&payload(own)], options, Part::none()).unwrap();
            let mut back = vec![0; usize::try_from(own.bytes()).unwrap()];
            file.read_all(own, &mut [&mut back], &ReadOptions { path: options.path }, Part::none()).unwrap();
            assert_eq!(back, payload(own));
        }
    });
    assert_eq!(storage.memory.contents(FilePath::new(NAME)).unwrap(), expected(workload, length));
    storage
}

/// At most `requests_per_ost` requests, the reads of read-modify-write included, at a target: whatever the aggregators, the
/// method, holes, and aggregators with nothing to do.
#[test]
fn requests_at_a_storage_target_are_bounded() {
    let dense = dealt("dense", 6, (0..500).map(|k| (0, 20, usize::try_from(k).unwrap())));
    let holes = dealt("holes", 6, (0..300).map(|k| (k % 5, 20, usize::try_from(k).unwrap())));
    let corner =
        dealt("a corner of the file", 6, (0..40).map(|k| (u64::from(k == 0) * 3000, 20, usize::try_from(k).unwrap())));
    for workload in [&dense, &holes, &corner] {
        for (requests, nodes) in [("1", "6"), ("2", "6"), ("1", "5"), ("2", "2")] {
            for (partition, policy) in [
                ("automatic", Holes::Forbidden),
                ("static-cyclic", Holes::Fill { gap_bytes_max: 40 }),
                ("group-cyclic", Holes::Fill { gap_bytes_max: 3 }),
            ] {
                let hints = [
                    ("requests_per_ost", requests),
                    ("cb_nodes", nodes),
                    ("afflux_partition", partition),
                    ("cb_buffer_size", "256"),
                    ("afflux_cb_depth", "2"),
                ];
                let storage = throttled(workload, 6, &hints, policy);
                let most = storage.seen.most.load(Ordering::SeqCst);
                assert!(
                    most <= requests.parse().unwrap(),
                    "{most} requests at once, {requests} allowed: {}",
                    workload.name
                );
                assert_eq!(storage.seen.wide.load(Ordering::SeqCst), 0, "a request concerns one target");
            }
        }
    }
}

/// The same where ranks are on several nodes, or may not share memory: turns stay within a node, with fewer aggregators where they
/// would have to leave it. Where two phases are not asked for, too.
#[test]
fn requests_at_a_storage_target_are_bounded_on_several_nodes() {
    let dense = dealt("dense", 7, (0..400).map(|k| (0, 20, usize::try_from(k).unwrap())));
    let holes = dealt("holes", 7, (0..240).map(|k| (k % 5, 20, usize::try_from(k).unwrap())));
    for (workload, holes) in [(&dense, Holes::Forbidden), (&holes, Holes::Fill { gap_bytes_max: 40 })] {
        for (ranks_per_node, memory) in [(3, "automatic"), (1, "automatic"), (7, "disable")] {
            for (requests, nodes, partition) in
                [("1", "7", "automatic"), ("2", "6", "static-cyclic"), ("1", "2", "group-cyclic")]
            {
                let hints = [
                    ("requests_per_ost", requests),
                    ("cb_nodes", nodes),
                    ("afflux_partition", partition),
                    ("afflux_node_memory", memory),
                    ("cb_buffer_size", "256"),
                    ("afflux_cb_depth", "2"),
                ];
                for path in [Path::TwoPhase, Path::Auto] {
                    let storage = throttled_by(workload, ranks_per_node, &hints, &WriteOptions { path, holes });
                    let most = storage.seen.most.load(Ordering::SeqCst);
                    assert!(most <= requests.parse().unwrap(), "{most} requests at once: {ranks_per_node} {hints:?}");
                }
            }
        }
    }
}

/// A request that fails while others wait for their turn: the same error on all ranks, and nobody waits for ever.
#[test]
fn the_kth_request_fails_while_aggregators_take_turns() {
    let holes = dealt("holes", 6, (0..90).map(|k| (k % 5, 20, usize::try_from(k).unwrap())));
    let hints = [("requests_per_ost", "1"), ("cb_nodes", "6"), ("cb_buffer_size", "256"), ("afflux_cb_depth", "2")];
    let hints = Hints::from_pairs(hints).unwrap();
    for operation in [Operation::Write, Operation::Read] {
        for nodes in [[0; 6], [0, 0, 0, 1, 1, 1]] {
            for k in (1..).step_by(3) {
                let striped = StripedStorage::new(64, 3);
                let length = usize::try_from(end(&holes)).unwrap();
                let file = striped.memory.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
                file.write_all_at(&vec![SENTINEL; length], 0).unwrap();
                let storage = FaultyStorage::new(Arc::new(striped.clone()));
                storage.inject(Fault::medium(operation, k, Lasting::Once));
                let errors = threads::run_on_nodes(&nodes, |comm| {
                    let file =
                        CollectiveFile::open(&comm, &storage, FilePath::new(NAME), OpenMode::ReadWrite, hints.clone());
                    let own = &holes.ranks[comm.rank()];
                    let options = WriteOptions { path: Path::TwoPhase, holes: Holes::Fill { gap_bytes_max: 40 } };
                    file.unwrap().write_all(own, &[&payload(own)], &options, Part::none()).err()
                });
                assert!(errors.windows(2).all(|pair| pair[0] == pair[1]), "{operation:?} {k}: {errors:?}");
                assert!(striped.seen.most.load(Ordering::SeqCst) <= 1);
                if storage.failures() == 0 {
                    assert!(errors[0].is_none() && k > 3, "{operation:?} {k}: {errors:?}");
                    assert_eq!(striped.memory.contents(FilePath::new(NAME)).unwrap(), expected(&holes, length));
                    break;
                }
                assert!(matches!(errors[0], Some(CollectiveError::Io { .. })), "{operation:?} {k}: {errors:?}");
            }
        }
    }
}

/// A canary: without the hint the same accesses meet at a target.
#[test]
fn without_the_hint_requests_meet() {
    let dense = dealt("dense", 6, (0..500).map(|k| (0, 20, usize::try_from(k).unwrap())));
    let met = (0..20).any(|_| {
        let hints = [("cb_nodes", "6"), ("cb_buffer_size", "256"), ("afflux_cb_depth", "2")];
        throttled(&dense, 6, &hints, Holes::Forbidden).seen.most.load(Ordering::SeqCst) > 1
    });
    assert!(met, "the storage would notice");
}
