//! Sleeping on a word of memory and waking who sleeps there: the kernel's futex, in two calls.

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Who may sleep on the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Threads of this process: the kernel finds the sleepers by address alone, which is quicker.
    Process,
    /// Whoever has mapped the memory.
    Memory,
}

impl Reach {
    fn flag(self) -> libc::c_int {
        match self {
            Self::Process => libc::FUTEX_PRIVATE_FLAG,
            Self::Memory => 0,
        }
    }
}

/// Sleeps while `word` is `seen`, until woken, or for `time`. May return early: the caller looks again.
pub(crate) fn sleep(word: &AtomicU32, seen: u32, time: Option<Duration>, reach: Reach) {
    let time = time.map(|time| libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    // SAFETY: the word lives while it is borrowed and `time` through the call; a null time means for ever. Whatever it
    // returns (woken, timed out, interrupted, changed already) the caller looks at the word again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | reach.flag(),
            seen,
            time.as_ref().map_or(ptr::null(), ptr::from_ref),
        );
    }
}

/// Wakes everyone who sleeps on `word`.
pub(crate) fn wake_all(word: &AtomicU32, reach: Reach) {
    // SAFETY: wakes whoever waits on this address; the kernel reads nothing of it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | reach.flag(), i32::MAX) };
}
