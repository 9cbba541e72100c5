//! Makes another storage fail when told to: the k-th operation of a kind, once or for good, with a chosen error; and,
//! separately, short transfers and `Interrupted`, which are no failures but what the world may do at any time.
//!
//! A failing operation has no effect on the storage below, unless the fault is *torn*: then a write leaves its first half
//! before it fails, as a disk that fills up does. Counting starts at 1 and at the moment of injection; operations are
//! counted over all files (or over those that the fault's filter names) and over all threads.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{FileSystemKind, OpenMode, Storage, StorageFile, Striping, StripingRequest};

/// What kind of call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// `open` in any mode.
    Open,
    /// `read_at`.
    Read,
    /// `write_at` and `write_vectored_at`.
    Write,
    /// `set_len`.
    SetLen,
    /// `sync_data`.
    Sync,
    /// `sync_directory`.
    SyncDirectory,
    /// Both renames.
    Rename,
    /// `remove`.
    Remove,
    /// `try_lock_exclusive`.
    Lock,
}

/// How long a fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// Only the k-th operation fails.
    Once,
    /// The k-th and all later ones fail.
    ForGood,
}

/// A fault to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// `None`: operations of all kinds count.
    operation: Option<Operation>,
    countdown: u64,
    lasting: Lasting,
    errno: i32,
    torn: bool,
    only: Option<PathBuf>,
}

impl Fault {
    /// The `nth` (from 1) operation of this kind fails with the operating system's error number `errno`.
    ///
    /// # Panics
    /// If `nth` is 0.
    #[must_use]
    pub fn nth(operation: Operation, nth: u64, lasting: Lasting, errno: i32) -> Self {
        assert!(nth > 0, "operations are counted from 1");
        Self { operation: Some(operation), countdown: nth, lasting, errno, torn: false, only: None }
    }

    /// The process is gone: the `nth` (from 1) operation of any kind and all later ones fail.
    ///
    /// # Panics
    /// If `nth` is 0.
    #[must_use]
    pub fn death(nth: u64) -> Self {
        Self { operation: None, ..Self::medium(Operation::Write, nth, Lasting::ForGood) }
    }

    /// `ENOSPC`: the disk is full.
    #[must_use]
    pub fn disk_full(operation: Operation, nth: u64, lasting: Lasting) -> Self {
        Self::nth(operation, nth, lasting, libc::ENOSPC)
    }

    /// `EIO`: the medium failed.
    #[must_use]
    pub fn medium(operation: Operation, nth: u64, lasting: Lasting) -> Self {
        Self::nth(operation, nth, lasting, libc::EIO)
    }

    /// A failing write leaves the first half of its bytes.
    #[must_use]
    pub fn torn(mut self) -> Self {
        self.torn = true;
        self
    }

    /// Only operations on this path count and fail (as it was given to `open`; for renames, the old name).
    #[must_use]
    pub fn only(mut self, path: impl Into<PathBuf>) -> Self {
        self.only = Some(path.into());
        self
    }
}

/// What transfers do although nothing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roughness {
    /// Every transfer moves at most this many bytes.
    pub transfer_bytes_max: usize,
    /// Every n-th transfer answers `Interrupted` instead of moving anything; 0 for never.
    pub interrupt_every: u64,
}

#[derive(Debug, Default)]
struct State {
    faults: Mutex<Vec<Fault>>,
    roughness: Mutex<Option<Roughness>>,
    transfers: AtomicU64,
    failures: AtomicU64,
}

/// What a failing call has to do before it returns its error.
struct Failing {
    errno: i32,
    torn: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Counts one operation on `path` down; tells whether it is to fail.
    fn failing(&self, operation: Operation, path: &Path) -> Option<Failing> {
        let mut faults = locked(&self.faults);
        let mut failing = None;
        faults.retain_mut(|fault| {
            if fault.operation.is_some_and(|kind| kind != operation)
                || fault.only.as_deref().is_some_and(|only| only != path)
            {
                return true;
            }
            fault.countdown = fault.countdown.saturating_sub(1);
            if fault.countdown > 0 {
                return true;
            }
            failing = Some(Failing { errno: fault.errno, torn: fault.torn });
            fault.lasting == Lasting::ForGood
        });
        if failing.is_some() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        failing
    }

    fn check(&self, operation: Operation, path: &Path) -> io::Result<()> {
        self.failing(operation, path).map_or(Ok(()), |failing| Err(io::Error::from_raw_os_error(failing.errno)))
    }

    /// How many of `wanted` bytes the next transfer may move.
    fn allowance(&self, wanted: usize) -> io::Result<usize> {
        let Some(roughness) = *locked(&self.roughness) else { return Ok(wanted) };
        let number = self.transfers.fetch_add(1, Ordering::Relaxed) + 1;
        if roughness.interrupt_every > 0 && number.is_multiple_of(roughness.interrupt_every) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(wanted.min(roughness.transfer_bytes_max))
    }
}

/// A storage that fails on demand; clones share faults and counts.
#[derive(Clone)]
pub struct FaultyStorage {
    inner: Arc<dyn Storage>,
    state: Arc<State>,
}

impl FaultyStorage {
    /// Passes everything to `inner` until a fault is injected.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner, state: Arc::default() }
    }

    /// Adds a fault; those already there remain.
    pub fn inject(&self, fault: Fault) {
        locked(&self.state.faults).push(fault);
    }

    /// From now on transfers are short and interrupted; `None` ends it.
    ///
    /// # Panics
    /// If transfers could never move a byte.
    pub fn set_roughness(&self, roughness: Option<Roughness>) {
        if let Some(roughness) = roughness {
            assert!(roughness.transfer_bytes_max > 0 && roughness.interrupt_every != 1, "nothing would ever move");
        }
        *locked(&self.state.roughness) = roughness;
    }

    /// Removes all faults and the roughness.
    pub fn clear(&self) {
        locked(&self.state.faults).clear();
        *locked(&self.state.roughness) = None;
    }

    /// How many operations failed by a fault so far: 0 tells a countdown loop that it has passed the last operation.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.state.failures.load(Ordering::Relaxed)
    }
}

impl Storage for FaultyStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        self.state.check(Operation::Open, path)?;
        let inner = self.inner.open(path, mode)?;
        Ok(Arc::new(FaultyFile { inner, path: path.to_owned(), state: Arc::clone(&self.state) }))
    }

    fn create_striped(&self, path: &Path, request: &StripingRequest) -> io::Result<Arc<dyn StorageFile>> {
        self.state.check(Operation::Open, path)?;
        let inner = self.inner.create_striped(path, request)?;
        Ok(Arc::new(FaultyFile { inner, path: path.to_owned(), state: Arc::clone(&self.state) }))
    }

    fn rename_no_clobber(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.state.check(Operation::Rename, from)?;
        self.inner.rename_no_clobber(from, to)
    }

    fn rename_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.state.check(Operation::Rename, from)?;
        self.inner.rename_replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.state.check(Operation::Remove, path)?;
        self.inner.remove(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn is_regular_file(&self, path: &Path) -> io::Result<bool> {
        self.inner.is_regular_file(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.state.check(Operation::SyncDirectory, directory)?;
        self.inner.sync_directory(directory)
    }
}

struct FaultyFile {
    inner: Arc<dyn StorageFile>,
    path: PathBuf,
    state: Arc<State>,
}

impl FaultyFile {
    /// The error of a failing write of `slices`, after its first half was left behind if it is torn.
    fn fail_write(&self, failing: &Failing, slices: &[IoSlice<'_>], offset: u64) -> io::Error {
        if failing.torn {
            let half = slices.iter().map(|slice| slice.len()).sum::<usize>() / 2;
            let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).take(half).collect();
            if let Err(error) = self.inner.write_at(&bytes, offset) {
                return error;
            }
        }
        io::Error::from_raw_os_error(failing.errno)
    }
}

impl StorageFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.state.check(Operation::Read, &self.path)?;
        let allowed = self.state.allowance(buffer.len())?;
        self.inner.read_at(&mut buffer[..allowed], offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if let Some(failing) = self.state.failing(Operation::Write, &self.path) {
            return Err(self.fail_write(&failing, &[IoSlice::new(bytes)], offset));
        }
        let allowed = self.state.allowance(bytes.len())?;
        self.inner.write_at(&bytes[..allowed], offset)
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        if let Some(failing) = self.state.failing(Operation::Write, &self.path) {
            return Err(self.fail_write(&failing, slices, offset));
        }
        let wanted = slices.iter().map(|slice| slice.len()).sum();
        let mut rest = self.state.allowance(wanted)?;
        if rest == wanted {
            return self.inner.write_vectored_at(slices, offset);
        }
        let mut allowed = Vec::new();
        for slice in slices {
            let take = slice.len().min(rest);
            allowed.push(IoSlice::new(&slice[..take]));
            rest -= take;
        }
        self.inner.write_vectored_at(&allowed, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.state.check(Operation::SetLen, &self.path)?;
        self.inner.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.state.check(Operation::Sync, &self.path)?;
        self.inner.sync_data()
    }

    fn try_lock_exclusive(&self) -> io::Result<bool> {
        self.state.check(Operation::Lock, &self.path)?;
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
