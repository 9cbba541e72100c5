//! Copies between a rank's own memory and memory that others write too.
//!
//! A region is never a `&mut [u8]` while several ranks use it: they copy through its address, each its own bytes.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use afflux_comm::NodeMemory;

use crate::copy::Step;

/// A part of shared memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region<'m> {
    start: NonNull<u8>,
    bytes: usize,
    _memory: PhantomData<&'m NodeMemory>,
}

impl<'m> Region<'m> {
    /// The `bytes` from `at` on.
    pub(super) fn new(memory: &'m NodeMemory, at: usize, bytes: usize) -> Self {
        assert!(at.checked_add(bytes).is_some_and(|end| end <= memory.bytes()), "a region lies in its memory");
        // SAFETY: within the mapping, as just checked.
        Self { start: unsafe { memory.start().add(at) }, bytes, _memory: PhantomData }
    }

    /// Copies the pieces of `from` that `step` names into the region.
    ///
    /// # Safety
    /// No other rank reads or writes the bytes of the region that the step names, before it is told that they are written.
    pub(super) unsafe fn scatter(&self, from: &[u8], step: Step) {
        assert!(fits(step.memory_at, step.memory_stride, step, from.len()), "{step:?} leaves the memory");
        assert!(fits(step.window_at, step.window_stride, step, self.bytes), "{step:?} leaves the window");
        let from = from.as_ptr().wrapping_add(step.memory_at);
        let to = self.start.as_ptr().wrapping_add(step.window_at);
        // SAFETY: both sides lie in their memory, as just checked; one is borrowed, the other the caller's by contract, and
        // they do not overlap because nobody borrows shared memory while ranks copy.
        unsafe { copy(from, step.memory_stride, to, step.window_stride, step.length, step.count) };
    }

    /// Copies the pieces of the region that `step` names into `to`.
    ///
    /// # Safety
    /// Nobody writes the bytes of the region that the step names meanwhile.
    pub(super) unsafe fn gather(&self, to: &mut [u8], step: Step) {
        assert!(fits(step.memory_at, step.memory_stride, step, to.len()), "{step:?} leaves the memory");
        assert!(fits(step.window_at, step.window_stride, step, self.bytes), "{step:?} leaves the window");
        let from = self.start.as_ptr().wrapping_add(step.window_at);
        let to = to.as_mut_ptr().wrapping_add(step.memory_at);
        // SAFETY: as in `scatter`.
        unsafe { copy(from, step.window_stride, to, step.memory_stride, step.length, step.count) };
    }

    /// All of it.
    ///
    /// # Safety
    /// Nobody writes the region while the slice lives.
    pub(super) unsafe fn bytes(&self) -> &'m [u8] {
        // SAFETY: in the mapping, which lives as long as 'm; not written, by contract.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// All of it, to be written.
    ///
    /// # Safety
    /// Nobody else reads or writes the region while the slice lives.
    pub(super) unsafe fn bytes_mut(&self) -> &'m mut [u8] {
        // SAFETY: in the mapping, which lives as long as 'm; nobody else's, by contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

/// Whether the pieces lie in `bytes`.
fn fits(at: usize, stride: usize, step: Step, bytes: usize) -> bool {
    step.count > 0
        && stride
            .checked_mul(step.count - 1)
            .and_then(|span| span.checked_add(at)?.checked_add(step.length))
            .is_some_and(|end| end <= bytes)
}

/// Copies `count` pieces of `length` bytes. The lengths of numbers and small structs have loops of their own, in which a piece
/// is a few moves; a call of `memcpy` for each would take longer than the copy.
///
/// # Safety
/// All pieces lie in memory valid for reads and writes, those written are nobody else's, and no two of a source and a
/// destination overlap.
unsafe fn copy(from: *const u8, from_stride: usize, to: *mut u8, to_stride: usize, length: usize, count: usize) {
    // SAFETY: passed on.
    unsafe {
        if count == 1 || (from_stride == length && to_stride == length) {
            ptr::copy_nonoverlapping(from, to, length * count);
            return;
        }
        match length {
            1 => copy_pieces::<1>(from, from_stride, to, to_stride, count),
            2 => copy_pieces::<2>(from, from_stride, to, to_stride, count),
            4 => copy_pieces::<4>(from, from_stride, to, to_stride, count),
            8 => copy_pieces::<8>(from, from_stride, to, to_stride, count),
            12 => copy_pieces::<12>(from, from_stride, to, to_stride, count),
            16 => copy_pieces::<16>(from, from_stride, to, to_stride, count),
            20 => copy_pieces::<20>(from, from_stride, to, to_stride, count),
            24 => copy_pieces::<24>(from, from_stride, to, to_stride, count),
            32 => copy_pieces::<32>(from, from_stride, to, to_stride, count),
            40 => copy_pieces::<40>(from, from_stride, to, to_stride, count),
            48 => copy_pieces::<48>(from, from_stride, to, to_stride, count),
            56 => copy_pieces::<56>(from, from_stride, to, to_stride, count),
            64 => copy_pieces::<64>(from, from_stride, to, to_stride, count),
            96 => copy_pieces::<96>(from, from_stride, to, to_stride, count),
            128 => copy_pieces::<128>(from, from_stride, to, to_stride, count),
            _ => {
                for k in 0..count {
                    ptr::copy_nonoverlapping(
                        from.wrapping_add(k * from_stride),
                        to.wrapping_add(k * to_stride),
                        length,
                    );
                }
            }
        }
    }
}

/// # Safety
/// As [`copy`].
unsafe fn copy_pieces<const N: usize>(
    from: *const u8,
    from_stride: usize,
    to: *mut u8,
    to_stride: usize,
    count: usize,
) {
    for k in 0..count {
        let (from, to) = (from.wrapping_add(k * from_stride), to.wrapping_add(k * to_stride));
        // SAFETY: by contract of `copy`; arrays of bytes have no alignment.
        unsafe { to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use afflux_comm::{Communicator, SelfCommunicator};

    #[test]
    fn pieces_of_every_length_are_scattered_and_gathered() {
        let memory = SelfCommunicator::new().node_memory(8192).unwrap().unwrap();
        let region = Region::new(&memory, 64, 8000);
        for length in (1..140).chain([256, 1000]) {
            for (memory_space, window_space) in [(0, 0), (0, 3), (5, 0), (5, 3)] {
                let count = 7;
                let step = Step {
                    memory_at: 2,
                    memory_stride: length + memory_space,
                    window_at: 11,
                    window_stride: length + window_space,
                    length,
                    count,
                };
                let from: Vec<u8> = (0..2 + (length + 5) * count).map(|at| u8::try_from(at % 251).unwrap()).collect();
                let mut back = vec![0; from.len()];
                // SAFETY: one thread.
                unsafe {
                    region.bytes_mut().fill(0xEE);
                    region.scatter(&from, step);
                    region.gather(&mut back, step);
                }
                // SAFETY: as above.
                let window = unsafe { region.bytes() };
                for k in 0..count {
                    let (here, there) = (2 + k * step.memory_stride, 11 + k * step.window_stride);
                    assert_eq!(window[there..there + length], from[here..here + length]);
                    assert_eq!(back[here..here + length], from[here..here + length]);
                    assert!(k == 0 || window[there - window_space..there].iter().all(|&byte| byte == 0xEE));
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "leaves the window")]
    fn a_step_beyond_the_window_is_refused() {
        let memory = SelfCommunicator::new().node_memory(128).unwrap().unwrap();
        let step = Step { memory_at: 0, memory_stride: 8, window_at: 0, window_stride: 64, length: 8, count: 2 };
        // SAFETY: one thread; the step is refused.
        unsafe { Region::new(&memory, 0, 70).scatter(&[0; 16], step) };
    }
}
