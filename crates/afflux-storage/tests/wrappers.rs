//! What the counting and the faulty storage add to the one they wrap.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use afflux_storage::{
    CountingStorage, Fault, FaultyStorage, Lasting, MemoryStorage, OpenMode, Operation, PosixStorage, Roughness,
    Storage, StorageFileExt, SyncedOnly,
};

#[test]
fn counts_are_kept_by_file_and_in_total() {
    let storage = CountingStorage::new(Arc::new(MemoryStorage::new()));
    let (a, b) = (Path::new("a"), Path::new("b"));
    let first = storage.open(a, OpenMode::CreateNew).unwrap();
    let second = storage.open(b, OpenMode::CreateNew).unwrap();
    first.write_all_at(&[1; 10], 0).unwrap();
    first.write_all_vectored_at(&mut [IoSlice::new(&[2; 3]), IoSlice::new(&[3; 4])], 10).unwrap();
    second.write_all_at(&[4; 5], 0).unwrap();
    first.read_full_at(&mut [0; 4], 0).unwrap();
    second.sync_data().unwrap();
    let counts = storage.of(a);
    assert_eq!((counts.opens, counts.writes, counts.vectored_writes, counts.write_bytes), (1, 2, 1, 17));
    assert_eq!((counts.reads, counts.read_bytes, counts.syncs, counts.outstanding_writes_max), (1, 4, 0, 1));
    let total = storage.total();
    assert_eq!((total.opens, total.writes, total.write_bytes, total.syncs), (2, 3, 22, 1));
    storage.reset();
    assert_eq!(storage.total(), afflux_storage::Counts::default());
    first.write_all_at(&[9], 0).unwrap();
    assert_eq!(storage.by_file().iter().map(|(_, counts)| counts.writes).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn what_is_no_regular_file_is_told_through_the_wrappers() {
    let directory = tempfile::tempdir().unwrap();
    let storage = FaultyStorage::new(Arc::new(CountingStorage::new(Arc::new(PosixStorage::new()))));
    let name = |name| directory.path().join(name);
    std::fs::write(name("file"), b"").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(name("socket")).unwrap();
    for (link, target) in [("to file", "file"), ("to socket", "socket"), ("to nothing", "nothing")] {
        std::os::unix::fs::symlink(name(target), name(link)).unwrap();
    }
    for (path, regular) in [
        ("file", true),
        ("to file", true),
        ("socket", false),
        ("to socket", false),
        ("to nothing", false),
        (".", false),
    ] {
        assert_eq!(storage.is_regular_file(&name(path)).unwrap(), regular, "{path}");
    }
}

#[test]
fn the_kth_operation_fails_once_or_for_good() {
    for k in 1..=3_u64 {
        for lasting in [Lasting::Once, Lasting::ForGood] {
            let memory = MemoryStorage::new();
            let storage = FaultyStorage::new(Arc::new(memory.clone()));
            let file = storage.open(Path::new("f"), OpenMode::CreateNew).unwrap();
            storage.inject(Fault::disk_full(Operation::Write, k, lasting));
            let outcomes: Vec<Option<i32>> = (0..4_u64)
                .map(|at| file.write_all_at(&[7], at).err().map(|error| error.raw_os_error().unwrap()))
                .collect();
            for (outcome, number) in outcomes.iter().zip(1..) {
                let fails = if lasting == Lasting::Once { number == k } else { number >= k };
                assert_eq!(*outcome, fails.then_some(libc::ENOSPC), "write {number}, fault at {k} {lasting:?}");
            }
            assert_eq!(storage.failures(), if lasting == Lasting::Once { 1 } else { 5 - k });
            storage.clear();
            file.write_all_at(&[7], 0).unwrap();
        }
    }
}

#[test]
fn every_kind_of_operation_can_fail() {
    let storage = FaultyStorage::new(Arc::new(MemoryStorage::new()));
    let (path, other) = (Path::new("f"), Path::new("g"));
    let file = storage.open(path, OpenMode::CreateNew).unwrap();
    let check = |operation, call: &dyn Fn() -> std::io::Result<()>| {
        storage.inject(Fault::medium(operation, 1, Lasting::Once));
        assert_eq!(call().unwrap_err().raw_os_error(), Some(libc::EIO), "{operation:?}");
        call().unwrap_or_else(|error| panic!("{operation:?} works again: {error}"));
    };
    check(Operation::Open, &|| storage.open(path, OpenMode::Read).map(|_| ()));
    check(Operation::Read, &|| file.read_full_at(&mut [0], 0).map(|_| ()));
    check(Operation::Write, &|| file.write_all_vectored_at(&mut [IoSlice::new(b"x")], 0));
    check(Operation::SetLen, &|| file.set_len(1));
    check(Operation::Sync, &|| file.sync_data());
    check(Operation::SyncDirectory, &|| storage.sync_directory(Path::new("")));
    check(Operation::Lock, &|| file.try_lock_exclusive().map(|_| ()));
    check(Operation::Rename, &|| storage.rename_no_clobber(path, other));
    check(Operation::Remove, &|| storage.remove(other));
}

#[test]
fn from_the_death_of_the_process_on_nothing_happens() {
    let memory = MemoryStorage::new();
    let storage = FaultyStorage::new(Arc::new(memory.clone()));
    let file = storage.open(Path::new("f"), OpenMode::CreateNew).unwrap();
    storage.inject(Fault::death(3));
    file.write_all_at(b"1", 0).unwrap();
    file.set_len(2).unwrap();
    assert!(file.write_all_at(b"2", 0).is_err() && file.sync_data().is_err());
    assert!(storage.remove(Path::new("f")).is_err() && storage.open(Path::new("f"), OpenMode::Read).is_err());
    assert_eq!(memory.contents(Path::new("f")).unwrap(), b"1\0");
}

#[test]
fn a_fault_may_concern_one_file_and_may_be_torn() {
    let memory = MemoryStorage::new();
    let storage = FaultyStorage::new(Arc::new(memory.clone()));
    let good = storage.open(Path::new("good"), OpenMode::CreateNew).unwrap();
    let bad = storage.open(Path::new("bad"), OpenMode::CreateNew).unwrap();
    storage.inject(Fault::disk_full(Operation::Write, 1, Lasting::ForGood).only("bad").torn());
    good.write_all_at(b"whole", 0).unwrap();
    assert!(bad.write_all_at(b"in two", 0).is_err());
    assert_eq!(memory.contents(Path::new("good")).unwrap(), b"whole");
    assert_eq!(memory.contents(Path::new("bad")).unwrap(), b"in ");
}

#[test]
fn rough_transfers_are_short_and_interrupted() {
    let counting = CountingStorage::new(Arc::new(MemoryStorage::new()));
    let storage = FaultyStorage::new(Arc::new(counting.clone()));
    let file = storage.open(Path::new("f"), OpenMode::CreateNew).unwrap();
    storage.set_roughness(Some(Roughness { transfer_bytes_max: 4, interrupt_every: 3 }));
    file.write_all_vectored_at(&mut [IoSlice::new(&[1; 6]), IoSlice::new(&[2; 7])], 0).unwrap();
    assert_eq!(counting.total().writes, 4, "13 bytes in pieces of at most 4");
    let mut back = [0; 13];
    assert_eq!(file.read_full_at(&mut back, 0).unwrap(), 13);
    assert_eq!(back, [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2]);
}

/// Linux moves at most 0x7ffff000 bytes in one call.
#[test]
#[ignore = "writes 2 GiB; run with --release -- --ignored"]
fn writes_over_the_limit_of_one_call_are_completed() {
    let directory = tempfile::tempdir().unwrap();
    let storage = CountingStorage::new(Arc::new(PosixStorage::new()));
    let path = directory.path().join("large");
    let file = storage.open(&path, OpenMode::CreateNew).unwrap();
    let length = (1_usize << 31) + 1;
    let mut bytes = vec![0x5A; length];
    bytes[length - 1] = 0xA5;
    file.write_all_at(&bytes, 3).unwrap();
    assert_eq!(file.len().unwrap(), 3 + length as u64);
    assert_eq!(storage.total().writes, 2);
    let mut last = [0; 2];
    file.read_full_at(&mut last, 1 + length as u64).unwrap();
    assert_eq!(last, [0x5A, 0xA5]);
}

#[test]
fn a_power_failure_leaves_what_was_synced_and_any_part_of_the_rest() {
    let storage = SyncedOnly::new(Arc::new(MemoryStorage::new()));
    let (new, name) = (Path::new("new"), Path::new("name"));
    let left = |path: &Path, keeps: &mut dyn FnMut() -> bool| {
        let left = MemoryStorage::new();
        storage.after_power_loss(&left, Path::new(""), keeps).unwrap();
        left.contents(path).ok()
    };
    let file = storage.open(new, OpenMode::CreateNew).unwrap();
    file.write_all_at(b"abc", 0).unwrap();
    assert_eq!(left(new, &mut || true), None, "its name is not durable");
    storage.sync_directory(Path::new("")).unwrap();
    assert_eq!(left(new, &mut || false).unwrap(), b"");
    file.sync_data().unwrap();
    file.write_all_at(b"d", 3).unwrap();
    file.write_all_at(b"X", 0).unwrap();
    storage.rename_no_clobber(new, name).unwrap();
    assert_eq!(left(new, &mut || false).unwrap(), b"abc");
    storage.sync_directory(Path::new("")).unwrap();
    assert_eq!(left(name, &mut || true).unwrap(), b"Xbcd");
    let mut first = true;
    let later_only = left(name, &mut || !std::mem::take(&mut first)).unwrap();
    assert_eq!(later_only, b"Xbc", "the later change without the earlier one");
    storage.cut_power_after(1);
    file.write_all_at(b"Y", 0).unwrap();
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(left(name, &mut || false).unwrap(), b"abc");
}
