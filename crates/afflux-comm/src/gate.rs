//! A counter in shared memory on which ranks sleep until it has reached a certain value.
//!
//! No wake-up is lost: whoever will sleep first counts itself as a sleeper and then lets the kernel compare the counter;
//! whoever changes the counter does so before it looks for sleepers.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use crate::futex::{self, Reach};

/// One counter. A cache line of its own: ranks that count on another must not disturb those who look at this. Zeros are a
/// gate at 0 without sleepers. A process that dies while it sleeps leaves its mark as a sleeper, which costs the others a
/// system call and no more.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Gate {
    value: AtomicU32,
    sleepers: AtomicU32,
}

impl Gate {
    /// The counter. What was written before it got there may be read then.
    #[must_use]
    pub fn value(&self) -> u32 {
        self.value.load(Ordering::Acquire)
    }

    /// Whether the counter, which only grows, modulo 2^32, is at `target` or beyond. The two are never 2^31 apart. What was
    /// written before the counter got there may be read then.
    #[must_use]
    pub fn is_reached(&self, target: u32) -> bool {
        is_beyond(self.value(), target)
    }

    /// Adds one and wakes the sleepers if the result is `target`.
    pub fn add(&self, target: u32) {
        if self.value.fetch_add(1, Ordering::SeqCst).wrapping_add(1) == target {
            self.wake();
        }
    }

    /// Adds `count`, modulo 2^32, and returns the result, without waking anyone.
    pub fn count(&self, count: u32) -> u32 {
        self.value.fetch_add(count, Ordering::SeqCst).wrapping_add(count)
    }

    /// Puts `new` in the place of `old`; false, and nothing done, where another value stands there. Wakes nobody.
    pub fn replace(&self, old: u32, new: u32) -> bool {
        self.value.compare_exchange(old, new, Ordering::SeqCst, Ordering::Acquire).is_ok()
    }

    /// Sets the value, which nobody else changes meanwhile, and wakes the sleepers.
    pub fn set(&self, value: u32) {
        self.value.store(value, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes the sleepers, if any.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            futex::wake_all(&self.value, Reach::Memory);
        }
    }

    /// Sleeps until woken, or for `time`, or not at all when `target` is reached already. May return early.
    pub fn sleep(&self, target: u32, time: Duration) {
        self.sleep_unless(time, |value| is_beyond(value, target));
    }

    /// Sleeps until woken, or for `time`, or not at all when `awake` is true of the value. May return early.
    pub fn sleep_unless(&self, time: Duration, awake: impl FnOnce(u32) -> bool) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let seen = self.value();
        if !awake(seen) {
            futex::sleep(&self.value, seen, Some(time), Reach::Memory);
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
