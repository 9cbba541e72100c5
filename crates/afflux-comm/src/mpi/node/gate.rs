//! A counter in shared memory on which ranks sleep until it has reached a certain value.
//!
//! A rank sleeps by the kernel's futex, shared between processes. No wake-up is lost: whoever will sleep first counts
//! itself as a sleeper and then lets the kernel compare the counter; whoever changes the counter does so before it looks for sleepers.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// One counter. A cache line of its own: ranks that count on another must not disturb those who look at this.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Gate {
    value: AtomicU32,
    sleepers: AtomicU32,
}

impl Gate {
    /// Whether the counter, which only grows, modulo 2^32, is at `target` or beyond. The two are never 2^31 apart. What was
    /// written before the counter got there may be read then.
    pub(super) fn is_reached(&self, target: u32) -> bool {
        is_beyond(self.value.load(Ordering::Acquire), target)
    }

    /// Adds one and wakes the sleepers if the result is `target`.
    pub(super) fn add(&self, target: u32) {
        if self.value.fetch_add(1, Ordering::SeqCst).wrapping_add(1) == target {
            self.wake();
        }
    }

    /// Sets the value, which nobody else changes meanwhile, and wakes the sleepers.
    pub(super) fn set(&self, value: u32) {
        self.value.store(value, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // SAFETY: wakes whoever waits on this address; the kernel reads nothing of it.
            unsafe { libc::syscall(libc::SYS_futex, self.value.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
        }
    }

    /// Sleeps until woken, or for `time`, or not at all when `target` is reached already. May return early.
    pub(super) fn sleep(&self, target: u32, time: Duration) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let seen = self.value.load(Ordering::Acquire);
        if !is_beyond(seen, target) {
            let time = libc::timespec {
                tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: time.subsec_nanos().into(),
            };
            // SAFETY: the counter is mapped while `self` lives, `time` lives through the call. Whatever it returns (woken,
            // timed out, interrupted, changed already) the caller looks at the value again.
            unsafe {
                libc::syscall(libc::SYS_futex, self.value.as_ptr(), libc::FUTEX_WAIT, seen, ptr::from_ref(&time))
            };
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

fn is_beyond(value: u32, target: u32) -> bool {
    value.wrapping_sub(target) < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(value: u32) -> Gate {
        Gate { value: AtomicU32::new(value), sleepers: AtomicU32::new(0) }
    }

    #[test]
    fn counters_pass_the_end_of_32_bits() {
        assert!(gate(3).is_reached(u32::MAX) && !gate(u32::MAX).is_reached(3));
        assert!(gate(5).is_reached(5) && !gate(4).is_reached(5));
    }

    #[test]
    fn a_sleeper_is_woken_long_before_its_time() {
        let gate = gate(u32::MAX);
        let started = std::time::Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !gate.is_reached(1) {
                    gate.sleep(1, Duration::from_secs(60));
                }
            });
            while gate.sleepers.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            gate.add(1);
            gate.add(1);
        });
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
        assert_eq!(gate.sleepers.load(Ordering::SeqCst), 0);
    }
}
