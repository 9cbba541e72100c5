//! Files of the operating system.
//!
//! Answers for: positioned transfers, `pwritev`, renaming without replacing, the open-file-description lock. Leaves short
//! transfers and `EINTR` to [`StorageFileExt`](crate::StorageFileExt). Linux moves at most 0x7ffff000 bytes in one call;
//! that too is only a short transfer here.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, RenameFlags};

use crate::{FileSystemKind, OpenMode, Storage, StorageFile, Striping, StripingRequest, lov_request, parse_lov};

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

    fn create_striped(&self, path: &Path, request: &StripingRequest) -> io::Result<Arc<dyn StorageFile>> {
        if request.is_empty() {
            return self.open(path, OpenMode::CreateNew);
        }
        let layout = lov_request(request)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let is_lustre = kind_of(rustix::fs::statfs(directory)?.f_type) == FileSystemKind::Lustre;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        if is_lustre {
            options.custom_flags(O_LOV_DELAY_CREATE);
        }
        let file = options.open(path)?;
        let set = if is_lustre { set_layout(&file, &layout) } else { offer_layout(&file, &layout) };
        if let Err(error) = set {
            // Without its layout nobody wants it, and it is ours: it was not there before.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(Arc::new(PosixFile { file }))
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

/// Keeps Lustre from choosing a layout when a file is opened: `O_NOCTTY | FASYNC`, which no other file wants.
const O_LOV_DELAY_CREATE: i32 = libc::O_NOCTTY | libc::O_ASYNC;

/// `LL_IOC_LOV_SETSTRIPE`, that is `_IOW('f', 154, long)`.
const SET_STRIPE: libc::c_ulong = 0x4008_669A;

/// The extended attribute with the layout of a file.
const LAYOUT_ATTRIBUTE: &str = "lustre.lov";

/// The longest extended attribute that Linux knows.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// Sets the layout of an empty file on Lustre.
fn set_layout(file: &File, layout: &[u8]) -> io::Result<()> {
    // SAFETY: an open file, and a structure of the kind that this request reads, which lives through the call.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), SET_STRIPE, layout.as_ptr()) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// As [`set_layout`] by the attribute, where a file system may or may not know of layouts.
fn offer_layout(file: &File, layout: &[u8]) -> io::Result<()> {
    use rustix::io::Errno;
    match rustix::fs::fsetxattr(file, LAYOUT_ATTRIBUTE, layout, rustix::fs::XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::ACCESS | Errno::INVAL) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The kind of a file system from its number in `statfs` (`linux/magic.h`; those of Lustre and GPFS are their own).
fn kind_of(magic: rustix::fs::FsWord) -> FileSystemKind {
    match u32::try_from(magic).unwrap_or(0) {
        0x0BD0_0BD0 => FileSystemKind::Lustre,
        0x4750_4653 => FileSystemKind::Gpfs,
        0x6969 => FileSystemKind::Nfs,
        // SMB1, SMB2 and later, AFS, 9P.
        0xFF53_4D42 | 0xFE53_4D42 | 0x5346_414F | 0x0102_1997 => FileSystemKind::Cached,
        // ext, XFS, Btrfs, F2FS, ZFS, tmpfs, ramfs, overlay.
        0xEF53 | 0x5846_5342 | 0x9123_683E | 0xF2F5_2010 | 0x2FC1_2FC1 | 0x0102_1994 | 0x8584_58F6 | 0x794C_7630 => {
            FileSystemKind::Local
        }
        _ => FileSystemKind::Unknown,
    }
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

    fn file_system(&self) -> FileSystemKind {
        rustix::fs::fstatfs(&self.file).map_or(FileSystemKind::Unknown, |found| kind_of(found.f_type))
    }

    fn striping(&self) -> io::Result<Option<Striping>> {
        use rustix::io::Errno;
        if self.file_system() == FileSystemKind::Local {
            return Ok(None);
        }
        let mut bytes = vec![0; ATTRIBUTE_BYTES_MAX];
        match rustix::fs::fgetxattr(&self.file, LAYOUT_ATTRIBUTE, &mut bytes) {
            Ok(length) => Ok(Some(parse_lov(&bytes[..length])?)),
            // Not Lustre, nor anything that behaves like it; or a file without a layout.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::INVAL) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
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
    fn a_local_file_has_no_stripes_and_takes_any_request() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let request = StripingRequest { stripe_count: Some(8), ..StripingRequest::default() };
        let file = PosixStorage::new().create_striped(&path, &request).unwrap();
        assert_eq!(file.striping().unwrap(), None);
        let again = PosixStorage::new().create_striped(&path, &request).map(|_| ()).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert!(path.exists(), "a file that was there stays");
    }

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

    #[test]
    fn file_systems_whose_clients_cache_are_known_by_their_numbers() {
        let numbers = [
            (0xEF53, FileSystemKind::Local, Some(true)),
            (0x0BD0_0BD0, FileSystemKind::Lustre, Some(true)),
            (0x6969, FileSystemKind::Nfs, Some(false)),
            (0xFE53_4D42, FileSystemKind::Cached, Some(false)),
            (0x0102_1997, FileSystemKind::Cached, Some(false)),
            (0x6573_5546, FileSystemKind::Unknown, None),
        ];
        for (number, kind, is_coherent) in numbers {
            assert_eq!((kind_of(number), kind.is_coherent()), (kind, is_coherent), "{number:#x}");
        }
    }
}
