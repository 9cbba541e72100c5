//! A directory under measurement: its own subdirectory, buffers that direct transfers accept, and what goes wrong with files.

use super::StorageError;
use crate::host::FileSystem;
use crate::janitor::Janitor;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::statvfs::statvfs;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Direct transfers need addresses, offsets and lengths that are multiples of the device's block; no device's is larger.
pub const DIRECT_ALIGNMENT_BYTES: usize = 4096;

/// A directory and the subdirectory in it that holds all files of the benchmark; dropped, it removes that.
#[derive(Debug)]
pub struct Place {
    /// As the user named it.
    pub directory: PathBuf,
    /// What it lies on.
    pub file_system: FileSystem,
    work: PathBuf,
}

impl Place {
    /// Makes the subdirectory, and tells the janitor of it, where there is one.
    ///
    /// # Errors
    ///
    /// Where it cannot be made.
    pub fn new(directory: &Path, janitor: Option<&mut Janitor>) -> Result<Self, StorageError> {
        let work = directory.join(format!(".afflux-bench-storage-{}", std::process::id()));
        let place = Self { directory: directory.to_owned(), file_system: FileSystem::of(directory), work };
        fs::create_dir(&place.work).map_err(|source| place.error("make a directory", source))?;
        if let Some(janitor) = janitor {
            janitor.remove(&place.work)?;
        }
        Ok(place)
    }

    /// Bytes that may still be written.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        statvfs(&self.directory).map_or(0, |found| found.blocks_available() * found.fragment_size())
    }

    /// The path of a file of the benchmark.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// An error that names this directory.
    pub fn error(&self, what: &'static str, source: io::Error) -> StorageError {
        StorageError::Io { what, directory: self.directory.clone(), source }
    }

    /// Opens a file of the benchmark.
    ///
    /// # Errors
    ///
    /// Those of open(2); `InvalidInput` where the file system knows no direct transfers.
    pub fn open(&self, name: &str, options: &mut OpenOptions, direct: bool) -> Result<File, StorageError> {
        let flags = if direct { nix::fcntl::OFlag::O_DIRECT.bits() } else { 0 };
        let opened = options.custom_flags(flags).open(self.path(name));
        opened.map_err(|source| {
            self.error(if direct { "open a file past the page cache" } else { "open a file" }, source)
        })
    }

    /// A new, empty file for writing.
    ///
    /// # Errors
    ///
    /// As [`Place::open`].
    pub fn create(&self, name: &str, direct: bool) -> Result<File, StorageError> {
        self.open(name, OpenOptions::new().write(true).create(true).truncate(true), direct)
    }

    /// Removes a file, if there is one.
    pub fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.work);
    }
}

/// Writes a file's changes to its device and drops it from the page cache.
///
/// # Errors
///
/// Those of fsync(2) and posix_fadvise(2).
pub fn drop_from_cache(file: &File) -> io::Result<()> {
    file.sync_all()?;
    posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    Ok(())
}

/// Bytes at an address that direct transfers accept.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// So many bytes that no file system can shorten: not all alike, and other ones for every `seed`.
    #[must_use]
    pub fn new(length: usize, seed: u64) -> Self {
        let mut bytes = vec![0; length + DIRECT_ALIGNMENT_BYTES];
        let start = bytes.as_ptr().align_offset(DIRECT_ALIGNMENT_BYTES).min(DIRECT_ALIGNMENT_BYTES);
        let mut state = seed;
        for piece in bytes[start..start + length].chunks_mut(8) {
            let value = splitmix(&mut state).to_le_bytes();
            piece.copy_from_slice(&value[..piece.len()]);
        }
        Self { bytes, start, length }
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }

    /// Marks them as those of a block of a file.
    pub fn mark(&mut self, block: u64) {
        self.bytes()[..8].copy_from_slice(&block.to_le_bytes());
    }

    /// Whether they are those of that block.
    pub fn has_mark(&mut self, block: u64) -> bool {
        self.bytes()[..8] == block.to_le_bytes()
    }
}

/// Steele, Lea and Flood's generator: the next number of a sequence.
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_lie_where_direct_transfers_want_them() {
        for length in [8, 4096, 5000, 1 << 20] {
            let mut buffer = Buffer::new(length, 7);
            assert_eq!(buffer.bytes().len(), length);
            assert_eq!(buffer.bytes().as_ptr().align_offset(DIRECT_ALIGNMENT_BYTES), 0);
            buffer.mark(3);
            assert!(buffer.has_mark(3) && !buffer.has_mark(4));
        }
    }

    #[test]
    fn a_place_leaves_nothing() {
        let here = tempfile::tempdir().unwrap();
        let place = Place::new(here.path(), None).unwrap();
        place.create("a", false).unwrap();
        assert!(place.free_bytes() > 0 && place.path("a").exists());
        assert!(Place::new(here.path(), None).is_err(), "not two at once");
        drop(place);
        assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0);
        assert!(Place::new(&here.path().join("missing"), None).is_err());
    }
}
