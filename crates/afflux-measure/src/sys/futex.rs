//! Sleeping on a word of memory that processes share: `futex(2)`.

use std::io;
use std::sync::atomic::AtomicU32;

/// Sleeps while `word` holds `value`, until [`wake`]; may return early, so the caller looks again.
pub fn wait(word: &AtomicU32, value: u32) -> io::Result<()> {
    // SAFETY: the word lives through the call; no time-out, and the last two arguments are not used by this operation.
    let result = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, std::ptr::null::<libc::timespec>())
    };
    if result == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // The word had changed already, or a signal came: look again.
        error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(()),
        error => Err(error),
    }
}

/// Wakes one sleeper of `word`.
pub fn wake(word: &AtomicU32) -> io::Result<()> {
    // SAFETY: the word lives through the call, and the kernel only takes its address.
    let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::{Acquire, Release};

    #[test]
    fn a_sleeper_is_woken() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Acquire) == 0 {
                    wait(&word, 0).unwrap();
                }
            });
            word.store(1, Release);
            wake(&word).unwrap();
        });
        wait(&word, 7).unwrap();
    }
}
