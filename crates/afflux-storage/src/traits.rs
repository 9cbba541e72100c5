//! The two traits, and the completions of short transfers that every caller needs.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use crate::{FileSystemKind, Striping, StripingRequest};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Existing, for reading.
    Read,
    /// Existing, for reading and writing.
    ReadWrite,
    /// New, for reading and writing; an existing one is an error (`AlreadyExists`).
    CreateNew,
}

/// A place where files live.
pub trait Storage: Send + Sync {
    /// Opens or creates a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>>;

    /// Creates a file for reading and writing with the striping asked for, as far as the file system has any; an existing one
    /// is an error (`AlreadyExists`) and stays as it is. What took effect, [`StorageFile::striping`] says.
    fn create_striped(&self, path: &Path, request: &StripingRequest) -> io::Result<Arc<dyn StorageFile>> {
        let _ = request;
        self.open(path, OpenMode::CreateNew)
    }

    /// Gives a file another name; fails with `AlreadyExists` if the name is taken. Atomic.
    fn rename_no_clobber(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file another name, replacing what had it. Atomic.
    fn rename_replace(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Whether something has this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Whether what has this name (behind a symbolic link: what that points to) is a regular file, so that a new file may take
    /// its place. Asked only where something has the name. The default is for storages that have nothing else.
    fn is_regular_file(&self, path: &Path) -> io::Result<bool> {
        let _ = path;
        Ok(true)
    }

    /// Makes the directory entries of `directory` durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
}

/// An open file. Positions are explicit, so one handle serves many threads.
pub trait StorageFile: Send + Sync {
    /// Reads at most `buffer.len()` bytes at `offset`; 0 at and past the end. May be short.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at most `bytes.len()` bytes at `offset`, growing the file as needed. May be short.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Writes the slices one after another at `offset`. May be short, and may take only the first slices.
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        match slices.iter().find(|slice| !slice.is_empty()) {
            Some(slice) => self.write_at(slice, offset),
            None => Ok(0),
        }
    }

    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no byte.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts or grows (with zeros) the file.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Makes what was written durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Tries to take the whole-file writer's lock (an open-file-description lock) for the life of this handle: `Ok(false)`
    /// when another holds it, an error when this file system has no locks.
    fn try_lock_exclusive(&self) -> io::Result<bool>;

    /// The kind of the file system that the file lies on.
    fn file_system(&self) -> FileSystemKind {
        FileSystemKind::Unknown
    }

    /// How the file is striped over storage targets; `None` where it is not, or the file system does not tell. An error where
    /// it tells what is not understood.
    fn striping(&self) -> io::Result<Option<Striping>> {
        Ok(None)
    }

    /// The operating system's file descriptor, where there is one (HDF5 drivers must hand one out on request).
    fn raw_fd(&self) -> Option<i32> {
        None
    }
}

/// Complete transfers over the possibly short ones.
pub trait StorageFileExt: StorageFile {
    /// Writes all bytes: short writes and `Interrupted` are continued; a write of 0 bytes is `WriteZero`.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all bytes of the slices, one after another: as [`StorageFileExt::write_all_at`]. The slices are used up.
    fn write_all_vectored_at(&self, mut slices: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        // Empty slices in front would make a write of 0 bytes look like a file that takes no more.
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match self.write_vectored_at(slices, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    IoSlice::advance_slices(&mut slices, written);
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads until the buffer is full or the file ends; returns the number of bytes read.
    fn read_full_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl<T: StorageFile + ?Sized> StorageFileExt for T {}
