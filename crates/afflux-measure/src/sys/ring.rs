//! A ring of bytes in shared memory: one process (or thread) writes, one reads.
//!
//! Two positions count bytes modulo 2^32; the writer moves `head`, the reader `tail`, and `head - tail` bytes are full. Bytes from
//! `tail` to `head` are the reader's, all others the writer's; a side publishes its position (Release) after it has copied, and
//! the other takes it (Acquire) before it copies: no byte is touched by both at a time. Whoever must wait does so as
//! [`Waiting`] says.

use super::futex;
use super::memory::{Region, WORD_STRIDE_BYTES};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Capacity in bytes, a power of two so that positions may wrap: fits in the second-level cache of the processors we know.
pub const CAPACITY_BYTES: u32 = 256 << 10;
/// A side publishes its position at least this often, so that writer and reader copy at the same time.
const PIECE_BYTES: u32 = 32 << 10;
/// Words before the bytes: head, tail, whether the reader sleeps, whether the writer sleeps.
const WORDS: usize = 4;
/// Looks before a spinning side gives its processor away: some microseconds, more than a message between two cores takes.
const SPINS_MAX: u32 = 4096;

/// What a side does that must wait for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Looks again and again, and yields its processor every few microseconds in case the other one needs it.
    Spin,
    /// Sleeps in the kernel until it is woken.
    Futex,
}

/// One of the rings of a region.
#[derive(Debug, Clone)]
pub struct Ring {
    region: Arc<Region>,
    first_word: usize,
    data: usize,
    waiting: Waiting,
}

/// Bytes of a region with `rings` rings.
#[must_use]
pub fn region_bytes(rings: usize) -> usize {
    rings * (WORDS * WORD_STRIDE_BYTES + CAPACITY_BYTES as usize)
}

impl Ring {
    /// Ring number `index` of a region of at least [`region_bytes`] for all its rings.
    ///
    /// # Panics
    /// When the region is too short for `rings` rings, or there is no such ring.
    #[must_use]
    pub fn new(region: &Arc<Region>, index: usize, rings: usize, waiting: Waiting) -> Self {
        assert!(index < rings && region.bytes() >= region_bytes(rings), "ring {index} of {rings}");
        let first_word = index * WORDS;
        let data = rings * WORDS * WORD_STRIDE_BYTES + index * CAPACITY_BYTES as usize;
        Self { region: Arc::clone(region), first_word, data, waiting }
    }

    fn head(&self) -> &AtomicU32 {
        self.region.word(self.first_word)
    }

    fn tail(&self) -> &AtomicU32 {
        self.region.word(self.first_word + 1)
    }

    fn reader_sleeps(&self) -> &AtomicU32 {
        self.region.word(self.first_word + 2)
    }

    fn writer_sleeps(&self) -> &AtomicU32 {
        self.region.word(self.first_word + 3)
    }

    /// Writes all of `bytes`; waits while the ring is full. Called by one side only.
    pub fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut head = self.head().load(Relaxed);
        while !bytes.is_empty() {
            let full =
                self.wait_while(self.tail(), self.writer_sleeps(), |tail| head.wrapping_sub(tail) == CAPACITY_BYTES)?;
            let free = CAPACITY_BYTES - head.wrapping_sub(full);
            let count = piece(head, free, bytes.len());
            let (now, rest) = bytes.split_at(count as usize);
            // SAFETY: `count` bytes from here to the ring's end at most, all between head and tail of the other side: the writer's.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), self.byte(head), now.len()) };
            head = head.wrapping_add(count);
            self.publish(self.head(), head, self.reader_sleeps())?;
            bytes = rest;
        }
        Ok(())
    }

    /// Fills all of `buffer`; waits while the ring is empty. Called by the other side only.
    pub fn read(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        let mut tail = self.tail().load(Relaxed);
        while !buffer.is_empty() {
            let head = self.wait_while(self.head(), self.reader_sleeps(), |head| head == tail)?;
            let count = piece(tail, head.wrapping_sub(tail), buffer.len());
            let (now, rest) = buffer.split_at_mut(count as usize);
            // SAFETY: `count` bytes from here to the ring's end at most, all between tail and head: the reader's.
            unsafe { std::ptr::copy_nonoverlapping(self.byte(tail), now.as_mut_ptr(), now.len()) };
            tail = tail.wrapping_add(count);
            self.publish(self.tail(), tail, self.writer_sleeps())?;
            buffer = rest;
        }
        Ok(())
    }

    /// The byte at a position.
    fn byte(&self, position: u32) -> *mut u8 {
        self.region.pointer(self.data + (position % CAPACITY_BYTES) as usize)
    }

    /// Moves a position of ours and wakes the other side if it sleeps for it.
    fn publish(&self, position: &AtomicU32, value: u32, sleeper: &AtomicU32) -> io::Result<()> {
        if self.waiting == Waiting::Spin {
            position.store(value, Release);
            return Ok(());
        }
        // SeqCst on both sides: either the sleeper sees the new position, or we see that it is about to sleep.
        position.store(value, SeqCst);
        if sleeper.load(SeqCst) != 0 {
            futex::wake(position)?;
        }
        Ok(())
    }

    /// Waits for a position of the other side that is not `blocked`.
    fn wait_while(&self, position: &AtomicU32, sleeps: &AtomicU32, blocked: impl Fn(u32) -> bool) -> io::Result<u32> {
        let mut looks = 0;
        loop {
            let value = position.load(Acquire);
            if !blocked(value) {
                return Ok(value);
            }
            match self.waiting {
                Waiting::Spin => {
                    looks += 1;
                    if looks < SPINS_MAX {
                        std::hint::spin_loop();
                    } else {
                        looks = 0;
                        std::thread::yield_now();
                    }
                }
                Waiting::Futex => {
                    sleeps.store(1, SeqCst);
                    let value = position.load(SeqCst);
                    let slept = if blocked(value) { futex::wait(position, value) } else { Ok(()) };
                    sleeps.store(0, SeqCst);
                    slept?;
                }
            }
        }
    }
}

/// How much to copy at once: what there is, what is wanted, and neither beyond the ring's end nor more than a piece.
fn piece(position: u32, available: u32, wanted: usize) -> u32 {
    let to_the_end = CAPACITY_BYTES - position % CAPACITY_BYTES;
    let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
    available.min(wanted).min(to_the_end).min(PIECE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends lengths around the capacity and around a wrap of the positions through both rings of a region.
    fn all_bytes_arrive(waiting: Waiting) {
        let file = tempfile::tempfile().unwrap();
        let region = Arc::new(Region::create(&file, region_bytes(2)).unwrap());
        let ring = Ring::new(&region, 1, 2, waiting);
        // Near the end of 32 bits, so that they wrap.
        ring.head().store(u32::MAX - 1000, SeqCst);
        ring.tail().store(u32::MAX - 1000, SeqCst);
        let lengths = [0, 1, 7, 4096, CAPACITY_BYTES as usize, 3 * CAPACITY_BYTES as usize + 5, 1];
        let content = |round: usize, at: usize| u8::try_from((round * 31 + at * 7) % 251).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (round, length) in lengths.into_iter().enumerate() {
                    let bytes: Vec<u8> = (0..length).map(|at| content(round, at)).collect();
                    ring.write(&bytes).unwrap();
                }
            });
            let reader = Ring::new(&region, 1, 2, waiting);
            for (round, length) in lengths.into_iter().enumerate() {
                let mut buffer = vec![0; length];
                reader.read(&mut buffer).unwrap();
                assert!(buffer.iter().enumerate().all(|(at, byte)| *byte == content(round, at)), "round {round}");
            }
        });
        assert_eq!(Ring::new(&region, 0, 2, waiting).head().load(SeqCst), 0, "the other ring was not touched");
    }

    #[test]
    fn all_bytes_arrive_by_spinning() {
        all_bytes_arrive(Waiting::Spin);
    }

    #[test]
    fn all_bytes_arrive_by_sleeping() {
        all_bytes_arrive(Waiting::Futex);
    }
}
