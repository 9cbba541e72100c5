//! What the ranks of a call sleep on until it is published.
//!
//! No wake-up is lost: a sleeper counts itself, and then the kernel compares the word; whoever opens or disturbs the gate
//! changes the word before it looks for sleepers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::futex::{self, Reach};

/// The bit of the word that says that the gate is open; the others count disturbances.
const OPEN: u32 = 1;

/// A gate that opens once, and may be disturbed before.
#[derive(Debug, Default)]
pub(super) struct Gate {
    word: AtomicU32,
    sleepers: AtomicU32,
}

impl Gate {
    /// What [`Self::sleep`] wants to know.
    pub(super) fn state(&self) -> u32 {
        self.word.load(Ordering::SeqCst)
    }

    /// Lets everyone pass, now and later.
    pub(super) fn open(&self) {
        self.word.fetch_or(OPEN, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes those who sleep, to look at what has happened.
    pub(super) fn disturb(&self) {
        self.word.fetch_add(2 * OPEN, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            futex::wake_all(&self.word, Reach::Process);
        }
    }

    /// Sleeps until the gate is opened, disturbed since it was in state `seen`, or `time` is over. May return early.
    pub(super) fn sleep(&self, seen: u32, time: Option<Duration>) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if self.word.load(Ordering::SeqCst) == seen && seen & OPEN == 0 {
            futex::sleep(&self.word, seen, time, Reach::Process);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}
