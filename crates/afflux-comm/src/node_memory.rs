//! Memory that all ranks of a communicator see, where they share a node.
//!
//! Answers for: the mapping, and gates in it on which ranks sleep. Leaves to its users who may write where, and when: that
//! is their safety argument. It may be used from any thread, unlike the communicator it came from.

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::Gate;

/// A share in memory that the ranks of one node have in common; made by
/// [`Communicator::node_memory`](crate::Communicator::node_memory). All of it is zeros at first. It stays mapped until the last clone
/// is dropped, also when the communicator is gone.
#[derive(Clone)]
pub struct NodeMemory {
    start: NonNull<u8>,
    bytes: usize,
    _mapping: Arc<dyn Send + Sync>,
}

// SAFETY: the address of a mapping that lives as long as `_mapping`; what is done there is the user's safety argument.
unsafe impl Send for NodeMemory {}
// SAFETY: as above.
unsafe impl Sync for NodeMemory {}

impl fmt::Debug for NodeMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeMemory({} bytes)", self.bytes)
    }
}

impl NodeMemory {
    /// Memory of this process alone, for ranks that are threads of it.
    pub(crate) fn of_process(bytes: usize) -> Option<Self> {
        let mapping = Arc::new(Anonymous::map(bytes)?);
        Some(Self { start: mapping.start, bytes, _mapping: mapping })
    }

    /// The `bytes` from `start` on, page-aligned, which `mapping` keeps mapped.
    #[cfg(feature = "mpi")]
    pub(crate) fn of_mapping(start: NonNull<u8>, bytes: usize, mapping: Arc<dyn Send + Sync>) -> Self {
        Self { start, bytes, _mapping: mapping }
    }

    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its first byte, aligned to a page. Every byte from here to [`NodeMemory::bytes`] is mapped for reading and writing
    /// while `self` or a clone of it lives; other ranks may write there at any time.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The gate at `offset`. All who use these bytes use them as a gate.
    ///
    /// # Panics
    /// If it does not lie in the memory, or not on a cache line.
    #[must_use]
    pub fn gate(&self, offset: usize) -> &Gate {
        let end = offset.checked_add(size_of::<Gate>());
        assert!(end.is_some_and(|end| end <= self.bytes), "a gate at {offset} of {} bytes", self.bytes);
        assert!(offset.is_multiple_of(align_of::<Gate>()), "a gate lies on a cache line, not at {offset}");
        // SAFETY: within the mapping and aligned, as just checked; a gate is two atomic words, for which any bytes are
        // valid; it is mapped as long as `self` lives.
        unsafe { self.start.add(offset).cast::<Gate>().as_ref() }
    }
}

/// Memory of one process, in large pages where the system has them.
#[derive(Debug)]
struct Anonymous {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory that stays mapped while `self` lives.
unsafe impl Send for Anonymous {}
// SAFETY: as above.
unsafe impl Sync for Anonymous {}

impl Anonymous {
    fn map(bytes: usize) -> Option<Self> {
        // SAFETY: a new mapping; the kernel chooses the address.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), bytes.max(1), protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the mapping just made. Advice only: where there are no large pages nothing changes.
        unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
        Some(Self { start: NonNull::new(start.cast())?, bytes: bytes.max(1) })
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
