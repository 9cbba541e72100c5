//! One verdict: failures of one rank are the same error on all, nothing hangs, and nothing outside the extents changes.

mod common;

use std::io;
use std::path::Path as FilePath;
use std::sync::Arc;

use afflux_collective::{CollectiveError, CollectiveFile, Hints, Part, Path, ReadOptions, Toggle, WriteOptions};
use afflux_comm::{Communicator, Reduce, threads};
use afflux_plan::Extents;
use afflux_storage::{
    Fault, FaultyStorage, Lasting, MemoryStorage, OpenMode, Operation, Roughness, Storage, StorageFileExt,
};
use common::{SENTINEL, Workload, dealt, end, expected, payload};

const NAME: &str = "shared";
const PATHS: [Path; 3] = [Path::Auto, Path::Independent, Path::TwoPhase];

fn open(comm: &dyn Communicator, storage: &dyn Storage) -> CollectiveFile {
    let mut hints = Hints::default();
    hints.set("cb_buffer_size", "700").unwrap();
    CollectiveFile::new(comm, storage.open(FilePath::new(NAME), OpenMode::ReadWrite).unwrap(), hints).unwrap()
}

fn options(path: Path) -> WriteOptions {
    WriteOptions { path, ..WriteOptions::default() }
}

fn small_run() -> Workload {
    dealt("small", 3, (0..60).map(|k| (k % 4, 41, usize::try_from(k).unwrap())))
}

fn prepared(workload: &Workload) -> MemoryStorage {
    let memory = MemoryStorage::new();
    let file = memory.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
    file.write_all_at(&vec![SENTINEL; usize::try_from(end(workload)).unwrap() + 9], 0).unwrap();
    memory
}

#[test]
fn the_kth_write_fails_for_every_k() {
    let workload = small_run();
    for path in PATHS {
        for lasting in [Lasting::Once, Lasting::ForGood] {
            for k in 1.. {
                let memory = prepared(&workload);
                let storage = FaultyStorage::new(Arc::new(memory.clone()));
                storage.inject(Fault::disk_full(Operation::Write, k, lasting).torn());
                let errors = threads::run(3, |comm| {
                    let shared = open(&comm, &storage);
                    let own = &workload.ranks[comm.rank()];
                    let first = shared.write_all(own, &[&payload(own)], &options(path), Part::none()).err();
                    let second = shared.write_all(own, &[&payload(own)], &options(path), Part::none()).err();
                    (first, second)
                });
                let found = memory.contents(FilePath::new(NAME)).unwrap();
                let complete = expected(&workload, found.len());
                if storage.failures() == 0 {
                    assert!(errors.iter().all(|error| *error == (None, None)));
                    assert_eq!(found, complete);
                    assert!(k > 3, "every rank wrote something");
                    break;
                }
                assert!(errors.windows(2).all(|pair| pair[0] == pair[1]), "{path:?} {k}: {errors:?}");
                // With a late fault the first call has succeeded and the second fails.
                let (first, second) = &errors[0];
                let failed = first.as_ref().or(second.as_ref()).expect("a write failed");
                assert_eq!(failed.io_kind(), Some(io::ErrorKind::StorageFull), "{failed}");
                if first.is_some() {
                    let Some(CollectiveError::Failed { cause }) = second else {
                        panic!("the file works on: {second:?}")
                    };
                    assert_eq!(Some(&**cause), first.as_ref());
                }
                for (at, (&found, &complete)) in found.iter().zip(&complete).enumerate() {
                    assert!(found == complete || found == SENTINEL, "{path:?} {k}: byte {at}");
                }
            }
        }
    }
}

#[test]
fn the_kth_read_fails_for_every_k() {
    let workload = small_run();
    for path in PATHS {
        for k in 1.. {
            let memory = MemoryStorage::new();
            let file = memory.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
            file.write_all_at(&expected(&workload, usize::try_from(end(&workload)).unwrap()), 0).unwrap();
            let storage = FaultyStorage::new(Arc::new(memory.clone()));
            storage.inject(Fault::medium(Operation::Read, k, Lasting::Once));
            let errors = threads::run(3, |comm| {
                let shared = open(&comm, &storage);
                let own = &workload.ranks[comm.rank()];
                let mut back = vec![0; usize::try_from(own.bytes()).unwrap()];
                let result = shared.read_all(own, &mut [&mut back], &ReadOptions { path }, Part::none());
                assert!(result.is_err() || back == payload(own));
                result.err()
            });
            assert!(errors.windows(2).all(|pair| pair[0] == pair[1]), "{path:?} {k}: {errors:?}");
            if storage.failures() == 0 {
                assert!(errors[0].is_none() && k > 3);
                break;
            }
            let Some(CollectiveError::Io { errno, .. }) = errors[0] else { panic!("{path:?} {k}: {errors:?}") };
            assert_eq!(errno, io::Error::from_raw_os_error(5).raw_os_error());
        }
    }
}

#[test]
fn short_and_interrupted_transfers_are_completed() {
    let workload = small_run();
    for path in PATHS {
        let memory = prepared(&workload);
        let storage = FaultyStorage::new(Arc::new(memory.clone()));
        storage.set_roughness(Some(Roughness { transfer_bytes_max: 17, interrupt_every: 3 }));
        threads::run(3, |comm| {
            let shared = open(&comm, &storage);
            let own = &workload.ranks[comm.rank()];
            shared.write_all(own, &[&payload(own)], &options(path), Part::none()).unwrap();
        });
        let found = memory.contents(FilePath::new(NAME)).unwrap();
        assert_eq!(found, expected(&workload, found.len()));
    }
}

#[test]
fn the_end_of_the_file_is_an_error_on_all_ranks() {
    for path in PATHS {
        let memory = MemoryStorage::new();
        memory.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap().write_all_at(&[1; 100], 0).unwrap();
        let errors = threads::run(2, |comm| {
            let shared = open(&comm, &memory);
            let mut own = Extents::new();
            own.push(90 * comm.rank() as u64, 20);
            shared.read_all(&own, &mut [&mut [0; 20]], &ReadOptions { path }, Part::none()).unwrap_err()
        });
        assert_eq!(errors[0], errors[1]);
        assert_eq!(errors[0].io_kind(), Some(io::ErrorKind::UnexpectedEof), "{}", errors[0]);
    }
}

#[test]
fn a_caller_that_failed_keeps_everyone_from_writing() {
    let workload = small_run();
    for path in PATHS {
        let memory = prepared(&workload);
        let before = memory.contents(FilePath::new(NAME)).unwrap();
        let results = threads::run(3, |comm| {
            let shared = open(&comm, &memory);
            let own = &workload.ranks[comm.rank()];
            let outcome = if comm.rank() == 1 { Err((42, "no room\nfor a row".to_owned())) } else { Ok(()) };
            let mut elements = [Reduce::sum(comm.rank() as u64), Reduce::max(comm.rank() as u64)];
            let part = Part { outcome, elements: &mut elements };
            let error = shared.write_all(own, &[&payload(own)], &options(path), part).unwrap_err();
            assert_eq!(elements.map(|element| element.value), [3, 2], "the caller's elements are combined");
            let unwritten = memory.contents(FilePath::new(NAME)).unwrap() == before;
            // The file did not fail: the next call works.
            shared.write_all(own, &[&payload(own)], &options(path), Part::none()).unwrap();
            (error, unwritten)
        });
        for (rank, (error, unwritten)) in results.into_iter().enumerate() {
            let message = "no room\nfor a row".to_owned();
            assert_eq!(error, CollectiveError::Caller { rank: 1, code: 42, message });
            assert!(unwritten || path == Path::Independent || rank != 1, "{path:?}");
        }
        let found = memory.contents(FilePath::new(NAME)).unwrap();
        assert_eq!(found, expected(&workload, found.len()));
    }
}

#[test]
fn overlapping_writes_are_named() {
    for (starts, expected) in [
        // More bytes than the range holds, and a small overlap hidden by a hole.
        ([0_u64, 30, 60], (30, 0, 1)),
        ([0, 200, 299], (299, 1, 2)),
    ] {
        let memory = MemoryStorage::new();
        memory.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
        let errors = threads::run(3, |comm| {
            let mut hints = Hints::default();
            hints.set("cb_nodes", "1").unwrap();
            let file = memory.open(FilePath::new(NAME), OpenMode::ReadWrite).unwrap();
            let shared = CollectiveFile::new(&comm, file, hints).unwrap();
            let mut own = Extents::new();
            own.push(starts[comm.rank()], 100);
            shared.write_all(&own, &[&[7; 100]], &options(Path::TwoPhase), Part::none()).unwrap_err()
        });
        for error in errors {
            let (offset, first, second) = expected;
            assert_eq!(error, CollectiveError::Overlap { offset, first, second });
        }
        assert_eq!(memory.contents(FilePath::new(NAME)).unwrap(), [0; 0], "nothing was written");
    }
}

#[test]
fn memory_that_does_not_fit_the_extents_is_named() {
    for path in PATHS {
        let memory = prepared(&small_run());
        let errors = threads::run(2, |comm| {
            let shared = open(&comm, &memory);
            let mut own = Extents::new();
            own.push(10 * comm.rank() as u64, 10);
            let data = vec![1; if comm.rank() == 1 { 9 } else { 10 }];
            shared.write_all(&own, &[&data], &options(path), Part::none()).unwrap_err()
        });
        for error in errors {
            let text = error.to_string();
            assert_eq!(text, "rank 1: the extents describe 10 bytes, the memory holds 9");
        }
    }
}

#[test]
fn ranks_that_disagree_are_told() {
    let memory = prepared(&small_run());
    let errors = threads::run(3, |comm| {
        let shared = open(&comm, &memory);
        let path = if comm.rank() == 2 { Path::Auto } else { Path::TwoPhase };
        let call = shared.write_all(&Extents::new(), &[], &options(path), Part::none()).unwrap_err();
        let mut hints = Hints::default();
        if comm.rank() == 0 {
            hints.collective_read = Toggle::Disable;
        }
        let file = memory.open(FilePath::new(NAME), OpenMode::ReadWrite).unwrap();
        (call, CollectiveFile::new(&comm, file, hints).map(|_| ()).unwrap_err())
    });
    for (call, new) in errors {
        assert!(matches!(call, CollectiveError::Disagreement { call: 1, .. }), "{call}");
        assert!(matches!(new, CollectiveError::Disagreement { call: 0, what: "the hints" }), "{new}");
    }
}
