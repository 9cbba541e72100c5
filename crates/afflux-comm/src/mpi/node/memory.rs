//! Memory that the ranks of one node share: an anonymous file of the kernel, mapped by each.
//!
//! Rank 0 makes it (`memfd_create`), the others open it through `/proc/PID/fd`, and all close it once it is mapped: it has
//! no name, so nothing is left behind whoever dies when. Its length is sealed, so that no rank can make another fault.
//! A rank that cannot see rank 0's processes (another container), or sees another process of that number, notices by a
//! random number at the start of the memory, and all go on without.
//!
//! Not a window of MPI (`MPI_Win_allocate_shared`): `MPI_Win_free` waits for all ranks, and a communicator is dropped
//! by each rank when it likes; and making one costs more (`docs/decisions/0006-node-local-collectives.md`).

use std::ffi::{CString, c_int};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use crate::CommError;

/// Words that ranks exchange to set up the memory.
pub(in crate::mpi) type SetupWords = [u64; 4];

/// What the other ranks need to open rank 0's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) process: u64,
    pub(super) descriptor: u64,
    /// Never 0 and 0, which is what fresh memory holds.
    pub(super) token: [u64; 2],
}

/// Where the token is kept: the first 16 bytes.
const TOKEN_BYTES: usize = size_of::<[u64; 2]>();

/// A mapping. All of it is zeros at first, but for the token.
#[derive(Debug)]
pub(in crate::mpi) struct Memory {
    start: NonNull<u8>,
    bytes: usize,
    /// Open until every rank has mapped the memory, or given up.
    file: Option<OwnedFd>,
}

// SAFETY: plain memory that stays mapped while `self` lives; what happens in it is the business of those who get addresses.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Collective: memory of `bytes` for ranks on one node, this one being `rank`, or `None` on all when any rank cannot have
    /// it or does not want it. `all_gather` is collective over the same ranks.
    pub(in crate::mpi) fn share(
        bytes: usize,
        rank: usize,
        wanted: bool,
        all_gather: impl Fn(SetupWords) -> Result<Vec<SetupWords>, CommError>,
    ) -> Result<Option<Self>, CommError> {
        let made = if wanted && rank == 0 { Self::create(bytes) } else { None };
        let words = made
            .as_ref()
            .map_or([0; 4], |(_, ticket)| [ticket.process, ticket.descriptor, ticket.token[0], ticket.token[1]]);
        let [process, descriptor, high, low] = all_gather(words)?[0];
        let memory = if rank == 0 {
            made.map(|(memory, _)| memory)
        } else if wanted && process != 0 {
            Self::open(Ticket { process, descriptor, token: [high, low] }, bytes)
        } else {
            None
        };
        // Also tells rank 0 that it may close the descriptor.
        let answers = all_gather([u64::from(memory.is_some()), 0, 0, 0])?;
        let Some(mut memory) = memory.filter(|_| answers.iter().all(|answer| answer[0] == 1)) else {
            return Ok(None);
        };
        memory.file = None;
        Ok(Some(memory))
    }

    /// New memory of `bytes` and how to open it; `None` when the system refuses.
    pub(super) fn create(bytes: usize) -> Option<(Self, Ticket)> {
        let token = random()?;
        // SAFETY: the name is a C string; the flags are valid.
        let descriptor =
            unsafe { libc::memfd_create(c"afflux-node".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if descriptor < 0 {
            return None;
        }
        // SAFETY: just opened, owned by nobody else.
        let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // SAFETY: plain calls on an open file. The length is accounted for here, so that touching it later does not fail.
        let sized = unsafe {
            libc::ftruncate(descriptor, libc::off_t::try_from(bytes).ok()?) == 0
                && libc::fcntl(descriptor, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW) == 0
        };
        if !sized {
            return None;
        }
        let memory = Self::map(file, bytes)?;
        // SAFETY: the mapping is longer than the token and page-aligned; nobody else has it yet.
        unsafe { memory.start.cast::<[u64; 2]>().write(token) };
        let ticket =
            Ticket { process: u64::from(std::process::id()), descriptor: u64::try_from(descriptor).ok()?, token };
        Some((memory, ticket))
    }

    /// The memory of rank 0, which has not closed it yet; `None` when this rank cannot reach it.
    pub(super) fn open(ticket: Ticket, bytes: usize) -> Option<Self> {
        let path = CString::new(format!("/proc/{}/fd/{}", ticket.process, ticket.descriptor)).ok()?;
        // SAFETY: a C string. Not blocking: in another process namespace the path may lead to anything.
        let descriptor = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK) };
        if descriptor < 0 {
            return None;
        }
        // SAFETY: just opened, owned by nobody else.
        let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // SAFETY: plain query; only memory files have seals.
        let seals = unsafe { libc::fcntl(descriptor, libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 || length(&file) != Some(bytes) {
            return None;
        }
        let memory = Self::map(file, bytes)?;
        // SAFETY: the mapping is longer than the token and page-aligned. If the file is rank 0's, it was written before
        // the ticket was sent; if not, whatever is read does not equal the token.
        let found = unsafe { memory.start.cast::<[u64; 2]>().read_volatile() };
        (found == ticket.token).then_some(memory)
    }

    fn map(file: OwnedFd, bytes: usize) -> Option<Self> {
        assert!(bytes > TOKEN_BYTES, "shared memory has room for its token");
        // SAFETY: a new mapping of a file that is that long; the kernel chooses the address.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        Some(Self { start: NonNull::new(start.cast())?, bytes, file: Some(file) })
    }

    /// The address at `offset`, from which `bytes` lie in the mapping. Page-aligned for offset 0.
    pub(in crate::mpi) fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "an address in the shared memory");
        // SAFETY: within the mapping, as just checked.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, unmapped once; references into it are bound to `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The length of an open file.
fn length(file: &OwnedFd) -> Option<usize> {
    // SAFETY: a struct of integers, for which zeros are valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: an open file and room for the answer.
    let code: c_int = unsafe { libc::fstat(file.as_raw_fd(), &raw mut stat) };
    (code == 0).then(|| usize::try_from(stat.st_size).ok()).flatten()
}

/// Sixteen random bytes, not all zero.
fn random() -> Option<[u64; 2]> {
    let mut token = [0_u64; 2];
    // SAFETY: the buffer has the length given.
    let filled = unsafe { libc::getrandom(token.as_mut_ptr().cast(), TOKEN_BYTES, 0) };
    (usize::try_from(filled) == Ok(TOKEN_BYTES) && token != [0; 2]).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_mapping_writes_the_other_reads() {
        let (memory, ticket) = Memory::create(8_192).expect("memory");
        let other = Memory::open(ticket, 8_192).expect("the same process may open it");
        // SAFETY: both addresses are in their mappings; one thread.
        unsafe {
            memory.at(8_191, 1).write(7);
            assert_eq!(other.at(8_191, 1).read(), 7);
        }
    }

    #[test]
    fn another_token_length_or_file_is_refused() {
        let (memory, ticket) = Memory::create(8_192).expect("memory");
        assert!(Memory::open(Ticket { token: [1, 2], ..ticket }, 8_192).is_none());
        assert!(Memory::open(ticket, 4_096).is_none());
        assert!(Memory::open(Ticket { descriptor: 0, ..ticket }, 8_192).is_none());
        drop(memory);
        assert!(Memory::open(ticket, 8_192).is_none(), "closed by its maker");
    }
}
