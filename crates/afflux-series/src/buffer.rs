//! Memory for windows and staging: zeroed, and in huge pages where it is large.
//!
//! A window of some megabytes is touched once, page by page, at the beginning of a run: with pages of 4 KiB the faults of a short
//! run cost as much as its transposition, and its strided reads miss the translation cache ever after.

use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::{Advice, MmapMut};

/// A huge page.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// From half a huge page on, a mapping of whole ones is worth its padding.
const MAPPED_BYTES_MIN: usize = HUGE_PAGE_BYTES / 2;

/// A zeroed buffer, at least as long as asked for.
#[derive(Debug)]
pub(crate) enum Buffer {
    Heap(Vec<u8>),
    Mapped(MmapMut),
}

impl Buffer {
    /// A buffer of at least `bytes` bytes, or the system's reason why there is none.
    pub fn zeroed(bytes: usize) -> io::Result<Self> {
        if bytes < MAPPED_BYTES_MIN {
            return Ok(Self::Heap(vec![0; bytes]));
        }
        let bytes = bytes.checked_next_multiple_of(HUGE_PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = MmapMut::map_anon(bytes)?;
        // Advice only: without huge pages the buffer is as good as any.
        let _ = map.advise(Advice::HugePage);
        Ok(Self::Mapped(map))
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}
