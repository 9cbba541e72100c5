//! The conformance suite on every storage of this crate, alone and wrapped.

use std::path::Path;
use std::sync::Arc;

use afflux_storage::{CountingStorage, FaultyStorage, MemoryStorage, PosixStorage, Roughness, SyncedOnly, conformance};

#[test]
fn posix_conforms() {
    let directory = tempfile::tempdir().unwrap();
    conformance::run_all(&PosixStorage::new(), directory.path());
}

#[test]
fn memory_conforms() {
    conformance::run_all(&MemoryStorage::new(), Path::new("anywhere"));
}

#[test]
fn counting_over_posix_and_memory_conforms() {
    let directory = tempfile::tempdir().unwrap();
    conformance::run_all(&CountingStorage::new(Arc::new(PosixStorage::new())), directory.path());
    conformance::run_all(&CountingStorage::new(Arc::new(MemoryStorage::new())), Path::new(""));
}

#[test]
fn faulty_without_a_fault_conforms() {
    let directory = tempfile::tempdir().unwrap();
    conformance::run_all(&FaultyStorage::new(Arc::new(PosixStorage::new())), directory.path());
}

#[test]
fn synced_only_conforms() {
    conformance::run_all(&SyncedOnly::new(Arc::new(MemoryStorage::new())), Path::new("anywhere"));
}

#[test]
fn short_and_interrupted_transfers_conform() {
    let storage = FaultyStorage::new(Arc::new(MemoryStorage::new()));
    storage.set_roughness(Some(Roughness { transfer_bytes_max: 3, interrupt_every: 4 }));
    conformance::run_all(&storage, Path::new(""));
}

/// A canary: the suite notices a storage whose completion would lose the tail of short writes.
#[test]
#[should_panic(expected = "assertion")]
fn the_suite_notices_a_storage_that_drops_bytes() {
    use afflux_storage::{OpenMode, Storage, StorageFile};
    use std::io;

    struct Dropping(Arc<dyn StorageFile>);
    impl StorageFile for Dropping {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            self.0.read_at(buffer, offset)
        }
        fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
            self.0.write_at(&bytes[..bytes.len() / 2], offset)?;
            Ok(bytes.len())
        }
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }
        fn set_len(&self, length: u64) -> io::Result<()> {
            self.0.set_len(length)
        }
        fn sync_data(&self) -> io::Result<()> {
            self.0.sync_data()
        }
        fn try_lock_exclusive(&self) -> io::Result<bool> {
            self.0.try_lock_exclusive()
        }
    }
    struct DroppingStorage(MemoryStorage);
    impl Storage for DroppingStorage {
        fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
            Ok(Arc::new(Dropping(self.0.open(path, mode)?)))
        }
        fn rename_no_clobber(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.0.rename_no_clobber(from, to)
        }
        fn rename_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.0.rename_replace(from, to)
        }
        fn remove(&self, path: &Path) -> io::Result<()> {
            self.0.remove(path)
        }
        fn exists(&self, path: &Path) -> io::Result<bool> {
            self.0.exists(path)
        }
        fn sync_directory(&self, directory: &Path) -> io::Result<()> {
            self.0.sync_directory(directory)
        }
    }
    conformance::run_all(&DroppingStorage(MemoryStorage::new()), Path::new(""));
}
