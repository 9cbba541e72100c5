//! What every [`Storage`] must do, as one suite that any implementation runs in its tests.
//!
//! Each check makes its own file in the directory given and asserts; the suite is a test harness, so it panics where a
//! storage breaks the contract. Transfers go through [`StorageFileExt`], so that a storage that makes short transfers or
//! answers `Interrupted` passes too.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use crate::{OpenMode, Storage, StorageFile, StorageFileExt};

/// Runs every check; `directory` exists, is writable and empty.
///
/// # Panics
/// If the storage breaks the contract.
pub fn run_all(storage: &dyn Storage, directory: &Path) {
    names(storage, directory);
    renames(storage, directory);
    growth_and_holes(storage, directory);
    vectored_writes(storage, directory);
    handles_share_a_file(storage, directory);
    reading_handles_do_not_write(storage, directory);
    locks(storage, directory);
    disjoint_writes_of_threads(storage, directory);
    random_operations_match_a_vector(storage, directory);
}

fn create(storage: &dyn Storage, path: &Path) -> Arc<dyn StorageFile> {
    storage.open(path, OpenMode::CreateNew).expect("a new file can be created")
}

fn contents(file: &dyn StorageFile) -> Vec<u8> {
    let length = usize::try_from(file.len().expect("length")).expect("test files are small");
    let mut bytes = vec![0xAA; length + 3];
    let read = file.read_full_at(&mut bytes, 0).expect("read");
    assert_eq!(read, length, "reading stops at the end of the file");
    bytes.truncate(length);
    bytes
}

fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

fn names(storage: &dyn Storage, directory: &Path) {
    let path = directory.join("names");
    assert!(!storage.exists(&path).expect("exists"));
    assert_eq!(kind(storage.open(&path, OpenMode::Read)), Some(io::ErrorKind::NotFound));
    assert_eq!(kind(storage.open(&path, OpenMode::ReadWrite)), Some(io::ErrorKind::NotFound));
    assert_eq!(kind(storage.remove(&path)), Some(io::ErrorKind::NotFound));
    let file = create(storage, &path);
    assert!(storage.exists(&path).expect("exists"));
    assert!(file.is_empty().expect("length"));
    assert_eq!(kind(storage.open(&path, OpenMode::CreateNew)), Some(io::ErrorKind::AlreadyExists));
    file.write_all_at(b"kept", 0).expect("write");
    storage.remove(&path).expect("remove");
    assert!(!storage.exists(&path).expect("exists"));
    assert_eq!(contents(&*file), b"kept", "an open handle outlives the name");
    file.sync_data().expect("sync");
    storage.sync_directory(directory).expect("sync of the directory");
}

fn renames(storage: &dyn Storage, directory: &Path) {
    let (from, to) = (directory.join("from"), directory.join("to"));
    assert_eq!(kind(storage.rename_no_clobber(&from, &to)), Some(io::ErrorKind::NotFound));
    create(storage, &from).write_all_at(b"first", 0).expect("write");
    storage.rename_no_clobber(&from, &to).expect("the name is free");
    assert!(!storage.exists(&from).expect("exists"));
    create(storage, &from).write_all_at(b"second", 0).expect("write");
    assert_eq!(kind(storage.rename_no_clobber(&from, &to)), Some(io::ErrorKind::AlreadyExists));
    assert_eq!(contents(&*storage.open(&to, OpenMode::Read).expect("open")), b"first");
    storage.rename_replace(&from, &to).expect("replacing is asked for");
    assert!(!storage.exists(&from).expect("exists"));
    assert_eq!(contents(&*storage.open(&to, OpenMode::Read).expect("open")), b"second");
}

fn growth_and_holes(storage: &dyn Storage, directory: &Path) {
    let file = create(storage, &directory.join("holes"));
    file.write_all_at(b"end", 1000).expect("write");
    assert_eq!(file.len().expect("length"), 1003);
    let mut expected = vec![0; 1000];
    expected.extend_from_slice(b"end");
    assert_eq!(contents(&*file), expected, "a hole reads as zeros");
    assert_eq!(file.read_full_at(&mut [0; 8], 1003).expect("read"), 0);
    assert_eq!(file.read_full_at(&mut [0; 8], 1_000_000).expect("read"), 0);
    file.write_all_at(b"", 5000).expect("an empty write");
    assert_eq!(file.len().expect("length"), 1003, "an empty write does not grow the file");
    file.set_len(1001).expect("cut");
    file.set_len(1003).expect("grow");
    assert_eq!(&contents(&*file)[1000..], b"e\0\0", "what was cut off comes back as zeros");
}

fn vectored_writes(storage: &dyn Storage, directory: &Path) {
    let file = create(storage, &directory.join("vectored"));
    // More slices than one call takes, some of them empty.
    let pieces: Vec<Vec<u8>> = (0..2500_usize).map(|k| vec![u8::try_from(k % 251).expect("small"); k % 4]).collect();
    let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    file.write_all_vectored_at(&mut slices, 7).expect("write");
    let mut expected = vec![0; 7];
    expected.extend(pieces.iter().flatten());
    assert_eq!(contents(&*file), expected);
    file.write_all_vectored_at(&mut [IoSlice::new(b""), IoSlice::new(b"")], 9999).expect("nothing to write");
    assert_eq!(file.len().expect("length"), expected.len() as u64);
}

fn handles_share_a_file(storage: &dyn Storage, directory: &Path) {
    let path = directory.join("shared");
    let first = create(storage, &path);
    let second = storage.open(&path, OpenMode::ReadWrite).expect("open");
    let reader = storage.open(&path, OpenMode::Read).expect("open");
    first.write_all_at(b"ab", 0).expect("write");
    second.write_all_at(b"cd", 2).expect("write");
    assert_eq!(contents(&*reader), b"abcd");
}

fn reading_handles_do_not_write(storage: &dyn Storage, directory: &Path) {
    let path = directory.join("read-only");
    create(storage, &path).write_all_at(b"safe", 0).expect("write");
    let reader = storage.open(&path, OpenMode::Read).expect("open");
    assert!(reader.write_all_at(b"x", 0).is_err());
    assert!(reader.set_len(0).is_err());
    assert_eq!(contents(&*reader), b"safe");
}

fn locks(storage: &dyn Storage, directory: &Path) {
    let path = directory.join("locked");
    let first = create(storage, &path);
    let second = storage.open(&path, OpenMode::ReadWrite).expect("open");
    assert!(first.try_lock_exclusive().expect("lock"));
    assert!(first.try_lock_exclusive().expect("lock"), "a lock already held is held");
    assert!(!second.try_lock_exclusive().expect("lock"), "another handle holds it");
    second.write_all_at(b"advisory", 0).expect("the lock is advisory");
    drop(first);
    assert!(second.try_lock_exclusive().expect("lock"), "the lock ends with its handle");
}

fn disjoint_writes_of_threads(storage: &dyn Storage, directory: &Path) {
    const THREADS: usize = 4;
    const PIECES: usize = 50;
    const PIECE_BYTES: usize = 37;
    let file = create(storage, &directory.join("threads"));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let file = &file;
            scope.spawn(move || {
                for piece in 0..PIECES {
                    let value = u8::try_from(thread * PIECES + piece).expect("200 pieces");
                    let offset = (piece * THREADS + thread) * PIECE_BYTES;
                    file.write_all_at(&[value; PIECE_BYTES], offset as u64).expect("write");
                }
            });
        }
    });
    let bytes = contents(&*file);
    assert_eq!(bytes.len(), THREADS * PIECES * PIECE_BYTES);
    for (at, chunk) in bytes.chunks(PIECE_BYTES).enumerate() {
        let value = u8::try_from(at % THREADS * PIECES + at / THREADS).expect("200 pieces");
        assert!(chunk.iter().all(|&byte| byte == value), "piece {at}");
    }
}

fn random_operations_match_a_vector(storage: &dyn Storage, directory: &Path) {
    let file = create(storage, &directory.join("random"));
    let mut model: Vec<u8> = Vec::new();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = |below: usize| {
        // xorshift64*: any fixed sequence will do.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        usize::try_from(state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).expect("31 bits") % below
    };
    for step in 0..300_usize {
        let offset = next(600);
        match next(4) {
            0 | 1 => {
                let bytes = vec![u8::try_from(step % 256).expect("a byte"); next(90)];
                file.write_all_at(&bytes, offset as u64).expect("write");
                if !bytes.is_empty() {
                    model.resize(model.len().max(offset + bytes.len()), 0);
                    model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
            }
            2 => {
                file.set_len(offset as u64).expect("set_len");
                model.resize(offset, 0);
            }
            _ => {
                let mut buffer = vec![0; next(90)];
                let read = file.read_full_at(&mut buffer, offset as u64).expect("read");
                let expected = model.get(offset..).unwrap_or(&[]);
                assert_eq!(buffer[..read], expected[..expected.len().min(buffer.len())], "step {step}");
            }
        }
        assert_eq!(file.len().expect("length"), model.len() as u64, "step {step}");
    }
    assert_eq!(contents(&*file), model);
}
