//! Files of the operating system.
//!
//! Answers for: positioned transfers, `pwritev`, renaming without replacing, the open-file-description lock. Leaves short
//! transfers and `EINTR` to [`StorageFileExt`](crate::StorageFileExt). Linux moves at most 0x7ffff000 bytes in one call;
//! that too is only a short transfer here.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, RenameFlags};

use crate::{OpenMode, Storage, StorageFile};

/// Linux refuses more slices in one vectored call (`UIO_MAXIOV`).
const SLICES_PER_CALL_MAX: usize = 1024;

/// The file systems mounted on this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct PosixStorage;

impl PosixStorage {
    /// A storage whose paths are those of the operating system.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl Storage for PosixStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => {}
            OpenMode::ReadWrite => {
                options.write(true);
            }
            OpenMode::CreateNew => {
                options.write(true).create_new(true);
            }
        }
        Ok(Arc::new(PosixFile { file: options.open(path)? }))
    }

    fn rename_no_clobber(&self, from: &Path, to: &Path) -> io::Result<()> {
        match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            // NFS and older kernels and file systems do not know the flag.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
                link_then_unlink(from, to)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn rename_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        // A dangling symbolic link has the name too.
        match std::fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_regular_file(&self, path: &Path) -> io::Result<bool> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(metadata.is_file()),
            // A symbolic link to nothing, or nothing at all.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        match File::open(directory)?.sync_all() {
            // Some file systems have nothing to synchronise for a directory and say so.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            result => result,
        }
    }
}

/// Atomic in what matters: the new name either refers to the whole file or is not taken. A crash between the two calls
/// leaves both names on the one file.
fn link_then_unlink(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

struct PosixFile {
    file: File,
}

impl StorageFile for PosixFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let slices = &slices[..slices.len().min(SLICES_PER_CALL_MAX)];
        Ok(rustix::io::pwritev(&self.file, slices, offset)?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn try_lock_exclusive(&self) -> io::Result<bool> {
        let mut request = libc::flock {
            l_type: i16::try_from(libc::F_WRLCK).expect("lock types are small"),
            l_whence: i16::try_from(libc::SEEK_SET).expect("whence values are small"),
            l_start: 0,
            // 0 means to the end of the file, however far it grows.
            l_len: 0,
            // The kernel asks for 0 here for open-file-description locks.
            l_pid: 0,
        };
        // SAFETY: the descriptor is open for as long as `self` lives, and `request` is a valid `flock` that the call only
        // reads (F_OFD_SETLK) and does not keep.
        let status = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut request) };
        if status == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(false),
            _ => Err(error),
        }
    }

    fn raw_fd(&self) -> Option<i32> {
        Some(self.file.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fallback_rename_does_not_clobber() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        std::fs::write(&from, b"new").unwrap();
        std::fs::write(&to, b"old").unwrap();
        assert_eq!(link_then_unlink(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&to).unwrap(), b"old");
        std::fs::remove_file(&to).unwrap();
        link_then_unlink(&from, &to).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), b"new");
        assert!(!from.exists());
    }
}
