//! Files in the memory of this process, shared by its threads.
//!
//! Answers for: the same behaviour as a POSIX file system as far as [`Storage`] shows it (the conformance suite compares
//! them), removed files that live on while a handle is open included. Has no directories: any path is a name. Nothing is
//! durable, so that `sync` has nothing to do. Clones share one name space.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::{OpenMode, Storage, StorageFile};

/// A name space of files in memory; clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryStorage {
    names: Arc<Mutex<HashMap<PathBuf, Arc<Inode>>>>,
}

#[derive(Debug, Default)]
struct Inode {
    bytes: RwLock<Vec<u8>>,
    locked: AtomicBool,
}

impl MemoryStorage {
    /// An empty name space.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of the whole content of a file.
    ///
    /// # Errors
    /// `NotFound` when nothing has this name.
    pub fn contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        let inode = self.names().get(path).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(inode.bytes.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    // A thread that panicked inside these short sections leaves a map or a vector that is whole: poison is no news.
    fn names(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<Inode>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for MemoryStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let mut names = self.names();
        let inode = match (names.get(path), mode) {
            (Some(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(inode), _) => Arc::clone(inode),
            (None, OpenMode::CreateNew) => {
                let inode = Arc::new(Inode::default());
                names.insert(path.to_owned(), Arc::clone(&inode));
                inode
            }
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(MemoryFile { inode, writable: mode != OpenMode::Read, holds_lock: AtomicBool::new(false) }))
    }

    fn rename_no_clobber(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names();
        if !names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn rename_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names();
        let inode = names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.names().remove(path).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.names().contains_key(path))
    }

    fn sync_directory(&self, _directory: &Path) -> io::Result<()> {
        Ok(())
    }
}

struct MemoryFile {
    inode: Arc<Inode>,
    writable: bool,
    holds_lock: AtomicBool,
}

impl MemoryFile {
    /// What a POSIX descriptor opened for reading answers to a write.
    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EBADF)) }
    }
}

/// File offsets beyond what memory can index are what a file system calls too large.
fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

impl StorageFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = self.inode.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let Some(tail) = content.get(index(offset)?..) else { return Ok(0) };
        let count = tail.len().min(buffer.len());
        buffer[..count].copy_from_slice(&tail[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.write_vectored_at(&[IoSlice::new(bytes)], offset)
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.check_writable()?;
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        if total == 0 {
            return Ok(0);
        }
        let start = index(offset)?;
        let end = start.checked_add(total).ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))?;
        let mut content = self.inode.bytes.write().unwrap_or_else(PoisonError::into_inner);
        if content.len() < end {
            content.resize(end, 0);
        }
        let mut at = start;
        for slice in slices {
            content[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        Ok(total)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.inode.bytes.read().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.check_writable()?;
        self.inode.bytes.write().unwrap_or_else(PoisonError::into_inner).resize(index(length)?, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_lock_exclusive(&self) -> io::Result<bool> {
        self.check_writable()?;
        if self.holds_lock.load(Ordering::Acquire) {
            return Ok(true);
        }
        let taken = self.inode.locked.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if taken {
            self.holds_lock.store(true, Ordering::Release);
        }
        Ok(taken)
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if self.holds_lock.load(Ordering::Acquire) {
            self.inode.locked.store(false, Ordering::Release);
        }
    }
}
