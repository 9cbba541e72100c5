//! A storage whose files are striped over targets, and that watches how many requests each target has at a time.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use afflux_storage::{FileSystemKind, MemoryStorage, OpenMode, Storage, StorageFile, Striping, StripingRequest};

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Requests under way, indexed by target.
    outstanding: Vec<AtomicU64>,
    /// The most at a time at any target.
    pub most: AtomicU64,
    /// Requests that concerned more than one target.
    pub wide: AtomicU64,
    pub requests: AtomicU64,
}

/// A storage in memory with stripes.
#[derive(Clone)]
pub struct StripedStorage {
    pub memory: MemoryStorage,
    /// What the site gives where nothing is asked, and what a file has that is there already.
    default: Striping,
    /// What new files have got.
    given: Arc<Mutex<Option<Striping>>>,
    pub seen: Arc<Seen>,
}

/// The most stripes that this file system gives.
pub const STRIPES_MAX: u64 = 10;

impl StripedStorage {
    pub fn new(stripe_bytes: u64, stripe_count: u64) -> Self {
        let outstanding = (0..stripe_count.max(STRIPES_MAX)).map(|_| AtomicU64::new(0)).collect();
        Self {
            memory: MemoryStorage::new(),
            default: Striping { stripe_bytes, stripe_count, target_count: stripe_count },
            given: Arc::default(),
            seen: Arc::new(Seen { outstanding, ..Seen::default() }),
        }
    }

    /// The same bytes, seen with other stripes.
    pub fn seen_as(&self, stripe_bytes: u64, stripe_count: u64) -> Self {
        Self { memory: self.memory.clone(), ..Self::new(stripe_bytes, stripe_count) }
    }

    fn wrap(&self, inner: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        let striping = self.given.lock().unwrap().unwrap_or(self.default);
        Arc::new(StripedFile { inner, striping, seen: Arc::clone(&self.seen) })
    }
}

impl Storage for StripedStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.wrap(self.memory.open(path, mode)?))
    }
    fn create_striped(&self, path: &Path, request: &StripingRequest) -> io::Result<Arc<dyn StorageFile>> {
        let inner = self.memory.open(path, OpenMode::CreateNew)?;
        let stripe_count = request.stripe_count.unwrap_or(self.default.stripe_count).min(STRIPES_MAX);
        let stripe_bytes = request.stripe_bytes.unwrap_or(self.default.stripe_bytes);
        *self.given.lock().unwrap() = Some(Striping { stripe_bytes, stripe_count, target_count: stripe_count });
        Ok(self.wrap(inner))
    }
    fn rename_no_clobber(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.memory.rename_no_clobber(from, to)
    }
    fn rename_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.memory.rename_replace(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.memory.remove(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.memory.exists(path)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.memory.sync_directory(directory)
    }
}

struct StripedFile {
    inner: Arc<dyn StorageFile>,
    striping: Striping,
    seen: Arc<Seen>,
}

impl StripedFile {
    /// Carries a request out, long enough that others would be seen beside it.
    fn request<T>(&self, offset: u64, length: usize, carry_out: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let stripe = offset / self.striping.stripe_bytes;
        let last = (offset + (length as u64).max(1) - 1) / self.striping.stripe_bytes;
        self.seen.requests.fetch_add(1, Ordering::SeqCst);
        if stripe != last {
            self.seen.wide.fetch_add(1, Ordering::SeqCst);
        }
        let target = &self.seen.outstanding[usize::try_from(stripe % self.striping.stripe_count).unwrap()];
        self.seen.most.fetch_max(target.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_micros(300));
        let result = carry_out();
        target.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

impl StorageFile for StripedFile {
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
        Ok(Some(self.striping))
    }
}
