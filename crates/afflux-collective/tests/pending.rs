//! Accesses that are begun now and completed later: right bytes, one verdict, bounded, and nobody waits who does not ask to.

mod common;

use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use afflux_collective::{CollectiveError, CollectiveFile, Hints, IN_FLIGHT_MAX, Path, ReadOptions, WriteOptions};
use afflux_comm::{Communicator, threads};
use afflux_storage::{Fault, FaultyStorage, Lasting, MemoryStorage, OpenMode, Operation, Storage};
use common::{Workload, corpus, dealt, end, expected, payload};

const NAME: &str = "shared";
const PATHS: [Path; 3] = [Path::Auto, Path::Independent, Path::TwoPhase];

fn created() -> MemoryStorage {
    let storage = MemoryStorage::new();
    storage.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
    storage
}

fn open(comm: &dyn Communicator, storage: &dyn Storage) -> CollectiveFile {
    let hints = Hints::from_pairs([("cb_buffer_size", "2000")]).unwrap();
    CollectiveFile::new(comm, storage.open(FilePath::new(NAME), OpenMode::ReadWrite).unwrap(), hints).unwrap()
}

fn writing(path: Path) -> WriteOptions {
    WriteOptions { path, ..WriteOptions::default() }
}

fn rows() -> Workload {
    dealt("rows", 3, (0..60).map(|k| (k % 2, 41, usize::try_from(k).unwrap())))
}

/// The corpus, with as many accesses under way as may be, some of them looked after and some not.
#[test]
fn accesses_under_way_agree_with_the_oracle() {
    for ranks in [1, 2, 3, 4, 7] {
        for workload in corpus(ranks) {
            for path in PATHS {
                let storage = created();
                threads::run(ranks, |comm| {
                    let shared = open(&comm, &storage);
                    let own = &workload.ranks[comm.rank()];
                    let neighbour = &workload.ranks[(comm.rank() + 1) % ranks];
                    for _ in 0..2 {
                        let writes: Vec<_> = (0..IN_FLIGHT_MAX)
                            .map(|_| shared.start_write_all(own.clone(), payload(own), writing(path)).unwrap())
                            .collect();
                        for mut write in writes {
                            write.progress().unwrap();
                            let (data, report) = write.wait().unwrap();
                            assert!(data == payload(own), "the buffer comes back");
                            assert!(report.work.file_bytes <= end(&workload));
                        }
                        let wanted = [own, neighbour, own];
                        let reads =
                            wanted.map(|wanted| shared.start_read_all(wanted.clone(), ReadOptions { path }).unwrap());
                        for (read, wanted) in reads.into_iter().zip(wanted) {
                            assert!(read.wait().unwrap().0 == payload(wanted), "{} by {path:?}", workload.name);
                        }
                    }
                });
                let length = usize::try_from(end(&workload)).unwrap();
                let mut sentinels = expected(&workload, length);
                // What nobody wrote of a new file is zero.
                sentinels.iter_mut().filter(|byte| **byte == common::SENTINEL).for_each(|byte| *byte = 0);
                let found = storage.contents(FilePath::new(NAME)).unwrap();
                assert!(found == sentinels, "{} by {path:?}", workload.name);
            }
        }
    }
}

/// A rank that is far ahead starts, looks after its access and computes; only `wait` waits. An access of which all ranks have
/// moved their bytes is complete without anybody waiting.
#[test]
fn progress_never_waits_for_a_rank_that_is_late() {
    let workload = dealt("blocks", 2, [(0, 300_000, 0), (0, 300_000, 1)]);
    for path in [Path::Auto, Path::Independent] {
        let (storage, go) = (created(), AtomicBool::new(false));
        threads::run(2, |comm| {
            let shared = open(&comm, &storage);
            let own = &workload.ranks[comm.rank()];
            // Sets the communicators up.
            shared.start_write_all(own.clone(), payload(own), writing(path)).unwrap().wait().unwrap();
            while comm.rank() == 1 && !go.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let mut write = shared.start_write_all(own.clone(), payload(own), writing(path)).unwrap();
            if comm.rank() == 0 {
                let early = (0..100).any(|_| write.progress().unwrap());
                assert!(!early, "rank 1 has not begun");
                go.store(true, Ordering::Release);
            }
            while !write.progress().unwrap() {
                std::thread::yield_now();
            }
            write.wait().unwrap();
        });
    }
}

#[test]
fn accesses_under_way_are_bounded() {
    let (workload, storage) = (rows(), created());
    threads::run(3, |comm| {
        let shared = open(&comm, &storage);
        let own = &workload.ranks[comm.rank()];
        let start = || shared.start_write_all(own.clone(), payload(own), writing(Path::Independent));
        let mut under_way: Vec<_> = (0..IN_FLIGHT_MAX).map(|_| start().unwrap()).collect();
        let error = start().map(|_| ()).unwrap_err();
        assert!(matches!(error, CollectiveError::Arguments { .. }), "{error}");
        assert!(error.to_string().contains("under way"), "{error}");
        under_way.remove(0).wait().unwrap();
        under_way.push(start().unwrap());
        under_way.into_iter().for_each(|write| drop(write.wait().unwrap()));
    });
}

#[test]
fn a_failure_is_one_verdict_and_the_file_refuses_work() {
    let workload = rows();
    for path in PATHS {
        let storage = FaultyStorage::new(Arc::new(created()));
        storage.inject(Fault::disk_full(Operation::Write, 4, Lasting::ForGood));
        let errors = threads::run(3, |comm| {
            let shared = open(&comm, &storage);
            let own = &workload.ranks[comm.rank()];
            let write = || shared.start_write_all(own.clone(), payload(own), writing(path));
            let (first, second) = (write().unwrap().wait().unwrap_err(), write().map(|_| ()).unwrap_err());
            assert!(matches!(second, CollectiveError::Failed { .. }), "{second}");
            first
        });
        assert!(errors.windows(2).all(|pair| pair[0] == pair[1]), "{path:?}: {errors:?}");
        assert_eq!(errors[0].io_kind(), Some(std::io::ErrorKind::StorageFull), "{path:?}");
    }
}

#[test]
fn memory_that_does_not_fit_is_named_and_nothing_else_fails() {
    let workload = rows();
    for path in PATHS {
        let storage = created();
        let errors = threads::run(3, |comm| {
            let shared = open(&comm, &storage);
            let own = &workload.ranks[comm.rank()];
            let mut data = payload(own);
            data.truncate(data.len() - usize::from(comm.rank() == 1));
            let error = shared.start_write_all(own.clone(), data, writing(path)).unwrap().wait().unwrap_err();
            shared.start_write_all(own.clone(), payload(own), writing(path)).unwrap().wait().unwrap();
            error
        });
        for error in errors {
            assert!(matches!(error, CollectiveError::Arguments { rank: 1, .. }), "{path:?}: {error}");
        }
    }
}

#[test]
fn ranks_that_begin_different_accesses_are_told() {
    let (workload, storage) = (rows(), created());
    for paths in [[Path::Independent, Path::Independent], [Path::TwoPhase, Path::Auto]] {
        threads::run(3, |comm| {
            let shared = open(&comm, &storage);
            let own = &workload.ranks[comm.rank()];
            let result = if comm.rank() == 2 {
                let options = ReadOptions { path: paths[1] };
                shared.start_read_all(own.clone(), options).unwrap().wait()
            } else {
                shared.start_write_all(own.clone(), payload(own), writing(paths[0])).unwrap().wait()
            };
            result.map(|_| ()).expect_err("rank 2 reads what the others write");
        });
    }
}

#[test]
fn an_access_that_is_given_up_fails_on_the_others() {
    let (workload, storage) = (rows(), created());
    let errors = threads::run(3, |comm| {
        let shared = open(&comm, &storage);
        let own = &workload.ranks[comm.rank()];
        let write = match shared.start_write_all(own.clone(), payload(own), writing(Path::TwoPhase)) {
            Ok(write) => write,
            // Rank 1 was quicker.
            Err(error) => return Some(error),
        };
        if comm.rank() == 1 {
            drop(write);
            return None;
        }
        Some(write.wait().map(|_| ()).unwrap_err())
    });
    for error in errors.into_iter().flatten() {
        assert!(matches!(error, CollectiveError::Comm(_)), "{error}");
        assert!(error.to_string().contains("rank 1") || error.to_string().contains("given up"), "{error}");
    }
}
