//! Memory that two processes share: a file of memory only, mapped by both.
//!
//! [`Region`] gives out nothing but atomic words; bytes between them belong to [`super::ring`], whose protocol says who may touch
//! which bytes when.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Words that two processes write in turn stand this far apart, so that they do not share a line of the cache (or the pair of
/// lines that some processors fetch together).
pub const WORD_STRIDE_BYTES: usize = 128;

/// A mapping of a shared file.
#[derive(Debug)]
pub struct Region {
    map: MmapRaw,
}

impl Region {
    /// Gives the file `bytes` (zeros where it had fewer) and maps it.
    pub fn create(file: &File, bytes: usize) -> io::Result<Self> {
        file.set_len(u64::try_from(bytes).map_err(io::Error::other)?)?;
        Self::open(file)
    }

    /// Maps the whole file, which must not shrink from now on.
    pub fn open(file: &File) -> io::Result<Self> {
        Ok(Self { map: MmapOptions::new().map_raw(file)? })
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.map.len()
    }

    /// Word number `index`, one every [`WORD_STRIDE_BYTES`].
    ///
    /// # Panics
    /// When it lies beyond the end.
    #[must_use]
    pub fn word(&self, index: usize) -> &AtomicU32 {
        let offset = index * WORD_STRIDE_BYTES;
        assert!(offset + size_of::<AtomicU32>() <= self.bytes(), "word {index} of {} bytes", self.bytes());
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned since maps begin at a page; every access to these
        // bytes by either process is an atomic one of this size or of `long` at the same place.
        unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }

    /// Long word number `index`, one every [`WORD_STRIDE_BYTES`]; a place is used as a word or as a long word, never as both.
    ///
    /// # Panics
    /// When it lies beyond the end.
    #[must_use]
    pub fn long(&self, index: usize) -> &AtomicU64 {
        let offset = index * WORD_STRIDE_BYTES;
        assert!(offset + size_of::<AtomicU64>() <= self.bytes(), "word {index} of {} bytes", self.bytes());
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
    }

    /// The address of byte `offset`, for whoever knows who may touch it.
    pub(super) fn pointer(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.bytes(), "byte {offset} of {}", self.bytes());
        self.map.as_mut_ptr().wrapping_add(offset)
    }
}
