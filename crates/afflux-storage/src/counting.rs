//! Counts what passes through to another storage: operations, bytes, and how many writes were under way at once.
//!
//! Counts are kept for each path as it was given to `open` (a renamed file goes on under its first name) and in total.
//! Failed calls are counted as operations; bytes are those that really moved. `len`, `exists` and
//! `is_regular_file` are not counted.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{FileSystemKind, OpenMode, Storage, StorageFile, Striping, StripingRequest};

/// Numbers of operations and bytes, of one file or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Calls of `open`.
    pub opens: u64,
    /// Calls of `read_at`.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Calls of `write_at` and `write_vectored_at`: one system call each on a POSIX storage.
    pub writes: u64,
    /// Of these, the vectored ones.
    pub vectored_writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Most writes under way at the same moment.
    pub outstanding_writes_max: u64,
    /// Calls of `set_len`.
    pub set_lens: u64,
    /// Calls of `sync_data`.
    pub syncs: u64,
    /// Calls of `try_lock_exclusive`.
    pub locks: u64,
    /// Renames of both kinds (in total only).
    pub renames: u64,
    /// Removals (in total only).
    pub removes: u64,
    /// Calls of `sync_directory` (in total only).
    pub directory_syncs: u64,
}

#[derive(Debug, Default)]
struct Counters {
    opens: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    vectored_writes: AtomicU64,
    write_bytes: AtomicU64,
    outstanding_writes: AtomicU64,
    outstanding_writes_max: AtomicU64,
    set_lens: AtomicU64,
    syncs: AtomicU64,
    locks: AtomicU64,
    renames: AtomicU64,
    removes: AtomicU64,
    directory_syncs: AtomicU64,
}

fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    fn snapshot(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            opens: get(&self.opens),
            reads: get(&self.reads),
            read_bytes: get(&self.read_bytes),
            writes: get(&self.writes),
            vectored_writes: get(&self.vectored_writes),
            write_bytes: get(&self.write_bytes),
            outstanding_writes_max: get(&self.outstanding_writes_max),
            set_lens: get(&self.set_lens),
            syncs: get(&self.syncs),
            locks: get(&self.locks),
            renames: get(&self.renames),
            removes: get(&self.removes),
            directory_syncs: get(&self.directory_syncs),
        }
    }

    /// Everything to zero but the writes now under way.
    fn reset(&self) {
        let zero = |counter: &AtomicU64| counter.store(0, Ordering::Relaxed);
        zero(&self.opens);
        zero(&self.reads);
        zero(&self.read_bytes);
        zero(&self.writes);
        zero(&self.vectored_writes);
        zero(&self.write_bytes);
        self.outstanding_writes_max.store(self.outstanding_writes.load(Ordering::Relaxed), Ordering::Relaxed);
        zero(&self.set_lens);
        zero(&self.syncs);
        zero(&self.locks);
        zero(&self.renames);
        zero(&self.removes);
        zero(&self.directory_syncs);
    }

    fn write_begins(&self) {
        increment(&self.writes);
        let now = self.outstanding_writes.fetch_add(1, Ordering::Relaxed) + 1;
        self.outstanding_writes_max.fetch_max(now, Ordering::Relaxed);
    }

    fn write_ends(&self, result: &io::Result<usize>) {
        self.outstanding_writes.fetch_sub(1, Ordering::Relaxed);
        if let Ok(written) = result {
            self.write_bytes.fetch_add(*written as u64, Ordering::Relaxed);
        }
    }
}

/// A storage that counts; clones share the counts.
#[derive(Clone)]
pub struct CountingStorage {
    inner: Arc<dyn Storage>,
    total: Arc<Counters>,
    files: Arc<Mutex<BTreeMap<PathBuf, Arc<Counters>>>>,
}

impl CountingStorage {
    /// Counts what goes through to `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner, total: Arc::default(), files: Arc::default() }
    }

    /// The counts of all files together.
    #[must_use]
    pub fn total(&self) -> Counts {
        self.total.snapshot()
    }

    /// The counts of the file opened under `path`; all zero when none was.
    #[must_use]
    pub fn of(&self, path: &Path) -> Counts {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(path).map(|counters| counters.snapshot()).unwrap_or_default()
    }

    /// The counts of each path, ascending by path.
    #[must_use]
    pub fn by_file(&self) -> Vec<(PathBuf, Counts)> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().map(|(path, counters)| (path.clone(), counters.snapshot())).collect()
    }

    /// Sets all counts to zero.
    pub fn reset(&self) {
        self.total.reset();
        for counters in self.files.lock().unwrap_or_else(PoisonError::into_inner).values() {
            counters.reset();
        }
    }
}

impl CountingStorage {
    /// Counts that `path` is opened; its counters.
    fn opening(&self, path: &Path) -> Arc<Counters> {
        let own = {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(files.entry(path.to_owned()).or_default())
        };
        increment(&own.opens);
        increment(&self.total.opens);
        own
    }
}

impl Storage for CountingStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let own = self.opening(path);
        let inner = self.inner.open(path, mode)?;
        Ok(Arc::new(CountingFile { inner, own, total: Arc::clone(&self.total) }))
    }

    fn create_striped(&self, path: &Path, request: &StripingRequest) -> io::Result<Arc<dyn StorageFile>> {
        let own = self.opening(path);
        let inner = self.inner.create_striped(path, request)?;
        Ok(Arc::new(CountingFile { inner, own, total: Arc::clone(&self.total) }))
    }

    fn rename_no_clobber(&self, from: &Path, to: &Path) -> io::Result<()> {
        increment(&self.total.renames);
        self.inner.rename_no_clobber(from, to)
    }

    fn rename_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        increment(&self.total.renames);
        self.inner.rename_replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        increment(&self.total.removes);
        self.inner.remove(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn is_regular_file(&self, path: &Path) -> io::Result<bool> {
        self.inner.is_regular_file(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        increment(&self.total.directory_syncs);
        self.inner.sync_directory(directory)
    }
}

struct CountingFile {
    inner: Arc<dyn StorageFile>,
    own: Arc<Counters>,
    total: Arc<Counters>,
}

impl CountingFile {
    fn both(&self, count: impl Fn(&Counters)) {
        count(&self.own);
        count(&self.total);
    }
}

impl StorageFile for CountingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.both(|counters| increment(&counters.reads));
        let result = self.inner.read_at(buffer, offset);
        if let Ok(read) = result {
            self.both(|counters| {
                counters.read_bytes.fetch_add(read as u64, Ordering::Relaxed);
            });
        }
        result
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.both(Counters::write_begins);
        let result = self.inner.write_at(bytes, offset);
        self.both(|counters| counters.write_ends(&result));
        result
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.both(|counters| {
            counters.write_begins();
            increment(&counters.vectored_writes);
        });
        let result = self.inner.write_vectored_at(slices, offset);
        self.both(|counters| counters.write_ends(&result));
        result
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.both(|counters| increment(&counters.set_lens));
        self.inner.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.both(|counters| increment(&counters.syncs));
        self.inner.sync_data()
    }

    fn try_lock_exclusive(&self) -> io::Result<bool> {
        self.both(|counters| increment(&counters.locks));
        self.inner.try_lock_exclusive()
    }

    fn file_system(&self) -> FileSystemKind {
        self.inner.file_system()
    }

    fn striping(&self) -> io::Result<Option<Striping>> {
        self.inner.striping()
    }

    fn raw_fd(&self) -> Option<i32> {
        self.inner.raw_fd()
    }
}
