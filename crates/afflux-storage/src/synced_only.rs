//! Shows what a power failure leaves: of all that was written, what was synced, and of the rest any part.
//!
//! Wraps another storage, which behaves as ever. Beside it a record is kept of each file's durable bytes and of the changes since its last
//! `sync_data`, and of the names that a `sync_directory` has made durable. [`SyncedOnly::after_power_loss`] makes files of
//! what is durable and of those later changes that the caller picks: a medium may have written any of them.
//! [`SyncedOnly::cut_power_after`] lets the power fail in the middle of a run.
//!
//! A single write is kept whole or not at all. Contents that were not synced before their file was renamed are no more durable for the
//! rename.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{FileSystemKind, OpenMode, Storage, StorageFile, StorageFileExt, Striping};

/// A change that is not durable yet.
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Length(u64),
}

/// What is known of a file, whatever its names are.
#[derive(Default)]
struct Shadow {
    durable: Contents,
    pending: Vec<Change>,
}

/// A file's bytes; those behind `bytes` and before `length` are zeros, of which a sparse file has many.
#[derive(Default)]
struct Contents {
    bytes: Vec<u8>,
    length: u64,
}

impl Contents {
    fn apply(&mut self, change: Change) -> io::Result<()> {
        let index = |offset: u64| usize::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG));
        match change {
            Change::Write { offset, bytes } => {
                let start = index(offset)?;
                let end = start + bytes.len();
                if self.bytes.len() < end {
                    self.bytes.resize(end, 0);
                }
                self.bytes[start..end].copy_from_slice(&bytes);
                self.length = self.length.max(end as u64);
            }
            Change::Length(length) => {
                self.bytes.truncate(index(length)?);
                self.length = length;
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct State {
    files: Vec<Shadow>,
    /// Index in `files` by name, as the names are now.
    names: HashMap<PathBuf, usize>,
    /// And as they would be after a power failure.
    durable_names: HashMap<PathBuf, usize>,
    /// Changing operations so far, and after how many the power fails.
    operations: u64,
    limit: Option<u64>,
}

impl State {
    /// Counts an operation; fails where the power is off.
    fn operate(&mut self) -> io::Result<()> {
        if self.limit.is_some_and(|limit| self.operations >= limit) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.operations += 1;
        Ok(())
    }
}

/// A storage that knows what a power failure would leave; clones share it.
#[derive(Clone)]
pub struct SyncedOnly {
    inner: Arc<dyn Storage>,
    state: Arc<Mutex<State>>,
}

impl SyncedOnly {
    /// Keeps the record of what goes through to `inner`, which must have no files yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After this many changing operations (writes, lengths, syncs, and all that changes names), counted from now, every further one
    /// fails with `EIO` and changes nothing.
    pub fn cut_power_after(&self, operations: u64) {
        let mut state = self.state();
        state.limit = Some(state.operations + operations);
    }

    /// Changing operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Makes the files as a power failure at this moment leaves them, new ones of their names in `directory` of `storage`. `keeps` is
    /// asked for each change that is not durable, file by file in the order of the changes, whether the medium has it all the same.
    ///
    /// # Errors
    /// Those of `storage`.
    pub fn after_power_loss(
        &self,
        storage: &dyn Storage,
        directory: &Path,
        mut keeps: impl FnMut() -> bool,
    ) -> io::Result<()> {
        let state = self.state();
        let mut names: Vec<(&PathBuf, &usize)> = state.durable_names.iter().collect();
        names.sort();
        for (name, &file) in names {
            let shadow = &state.files[file];
            let copy = storage.open(&directory.join(name.file_name().unwrap_or_default()), OpenMode::CreateNew)?;
            copy.write_all_at(&shadow.durable.bytes, 0)?;
            copy.set_len(shadow.durable.length)?;
            for change in shadow.pending.iter().filter(|_| keeps()) {
                match change {
                    Change::Write { offset, bytes } => copy.write_all_at(bytes, *offset)?,
                    Change::Length(length) => copy.set_len(*length)?,
                }
            }
        }
        Ok(())
    }
}

impl Storage for SyncedOnly {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let mut state = self.state();
        if mode == OpenMode::CreateNew {
            state.operate()?;
        }
        let inner = self.inner.open(path, mode)?;
        let file = match state.names.get(path) {
            Some(&file) if mode != OpenMode::CreateNew => file,
            _ => {
                state.files.push(Shadow::default());
                let file = state.files.len() - 1;
                state.names.insert(path.to_owned(), file);
                file
            }
        };
        Ok(Arc::new(SyncedFile { inner, file, state: Arc::clone(&self.state) }))
    }

    fn rename_no_clobber(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        self.inner.rename_no_clobber(from, to)?;
        if let Some(file) = state.names.remove(from) {
            state.names.insert(to.to_owned(), file);
        }
        Ok(())
    }

    fn rename_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        self.inner.rename_replace(from, to)?;
        if let Some(file) = state.names.remove(from) {
            state.names.insert(to.to_owned(), file);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        self.inner.remove(path)?;
        state.names.remove(path);
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn is_regular_file(&self, path: &Path) -> io::Result<bool> {
        self.inner.is_regular_file(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        self.inner.sync_directory(directory)?;
        let State { names, durable_names, .. } = &mut *state;
        durable_names.retain(|name, _| name.parent() != Some(directory));
        let here = names.iter().filter(|(name, _)| name.parent() == Some(directory));
        durable_names.extend(here.map(|(name, &file)| (name.clone(), file)));
        Ok(())
    }
}

struct SyncedFile {
    inner: Arc<dyn StorageFile>,
    file: usize,
    state: Arc<Mutex<State>>,
}

impl SyncedFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageFile for SyncedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.write_vectored_at(&[IoSlice::new(bytes)], offset)
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        state.operate()?;
        let written = self.inner.write_vectored_at(slices, offset)?;
        let bytes = slices.iter().flat_map(|slice| slice.iter().copied()).take(written).collect();
        if written > 0 {
            state.files[self.file].pending.push(Change::Write { offset, bytes });
        }
        Ok(written)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        self.inner.set_len(length)?;
        state.files[self.file].pending.push(Change::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        self.inner.sync_data()?;
        let Shadow { durable, pending } = &mut state.files[self.file];
        pending.drain(..).try_for_each(|change| durable.apply(change))?;
        Ok(())
    }

    fn file_system(&self) -> FileSystemKind {
        self.inner.file_system()
    }

    fn striping(&self) -> io::Result<Option<Striping>> {
        self.inner.striping()
    }

    fn try_lock_exclusive(&self) -> io::Result<bool> {
        self.inner.try_lock_exclusive()
    }
}
