//! A file that counts itself as striped, and watches over processes that each storage target has no more requests than allowed.
//!
//! For each request allowed at a target there is a lock on a file beside the data, which a request holds while it is under way. A
//! request that finds all of them held is one too many. (Requests of one process do not see one another: an aggregator makes them
//! one after the other.)

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use afflux_storage::{FileSystemKind, StorageFile, Striping};

const STRIPES: Striping = Striping { stripe_bytes: 512, stripe_count: 3, target_count: 3 };

/// One rank's handle.
pub struct WatchedFile {
    inner: Arc<dyn StorageFile>,
    /// Indexed by target, then by the requests allowed there.
    locks: Vec<Vec<File>>,
    /// Requests that were one too many at a target.
    pub excess: AtomicU64,
}

/// Where a lock is.
fn lock_path(path: &Path, target: u64, request: u64) -> PathBuf {
    path.with_extension(format!("lock-{target}-{request}"))
}

impl WatchedFile {
    /// Over `inner`, with locks beside `path` for `requests` at each target.
    pub fn new(inner: Arc<dyn StorageFile>, path: &Path, requests: u64) -> Self {
        let open = |path: PathBuf| {
            OpenOptions::new().create(true).truncate(false).write(true).open(path).expect("a lock beside the data")
        };
        let of_target = |target| (0..requests).map(|request| open(lock_path(path, target, request))).collect();
        Self { inner, locks: (0..STRIPES.target_count).map(of_target).collect(), excess: AtomicU64::new(0) }
    }

    /// Carries a request out, long enough that others would meet it.
    fn request<T>(&self, offset: u64, length: usize, carry_out: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let stripe = |byte: u64| byte / STRIPES.stripe_bytes;
        let (first, last) = (stripe(offset), stripe(offset + (length as u64).max(1) - 1));
        let mut held = Vec::new();
        // A long request goes to the targets of all its stripes.
        for stripe in (first..=last).take(self.locks.len()) {
            let target = usize::try_from(stripe % STRIPES.target_count).expect("few targets");
            match self.locks[target].iter().find(|lock| lock.try_lock().is_ok()) {
                Some(lock) => held.push(lock),
                None => drop(self.excess.fetch_add(1, Ordering::Relaxed)),
            }
        }
        std::thread::sleep(Duration::from_micros(100));
        let result = carry_out();
        held.into_iter().try_for_each(File::unlock)?;
        result
    }
}

/// Removes the locks beside `path`: those of up to `requests` requests.
pub fn remove_locks(path: &Path, requests: u64) {
    for target in 0..STRIPES.target_count {
        for request in 0..requests {
            // Absent where fewer were allowed.
            let _ = std::fs::remove_file(lock_path(path, target, request));
        }
    }
}

impl StorageFile for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.request(offset, buffer.len(), || self.inner.read_at(buffer, offset))
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.request(offset, bytes.len(), || self.inner.write_at(bytes, offset))
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.inner.set_len(length)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }
    fn try_lock_exclusive(&self) -> io::Result<bool> {
        self.inner.try_lock_exclusive()
    }
    fn file_system(&self) -> FileSystemKind {
        FileSystemKind::Lustre
    }
    fn striping(&self) -> io::Result<Option<Striping>> {
        Ok(Some(STRIPES))
    }
}
