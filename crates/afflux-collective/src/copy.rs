//! Copies between memory and a window, in as few steps as the two patterns allow.
//!
//! On either side pieces lie at even distances, but their lengths need not match: eight-byte regions may come from one
//! contiguous buffer, from regions with gaps, or from pieces of twelve bytes. [`Zip`] goes through both at once and names
//! copies of many equal pieces where it can; what copies them is the caller's.

/// Pieces of a window: the first at `at`, each next one `stride` further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pieces {
    pub(crate) at: usize,
    pub(crate) length: usize,
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

/// One step: `count` copies of `length` bytes at even distances on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Offset of the first in the span of the memory's stretch.
    pub(crate) memory_at: usize,
    pub(crate) memory_stride: usize,
    /// Offset of the first in the window.
    pub(crate) window_at: usize,
    pub(crate) window_stride: usize,
    pub(crate) length: usize,
    pub(crate) count: usize,
}

/// Goes through the pieces of a window as memory for them comes up.
pub(crate) struct Zip {
    window: Pieces,
    /// Pieces of the window that are done, and bytes of the next.
    done: usize,
    within: usize,
}

impl Zip {
    pub(crate) fn new(window: Pieces) -> Self {
        Self { window, done: 0, within: 0 }
    }

    /// The memory goes on with `count` pieces of `length` bytes, `stride` apart: the steps that copy them.
    pub(crate) fn advance(&mut self, length: usize, stride: usize, count: usize, mut step: impl FnMut(Step)) {
        let window = self.window;
        // Pieces of the stretch that are done, and bytes of the next.
        let (mut taken, mut inside) = (0, 0);
        while taken < count {
            let (rest, room) = (length - inside, window.length - self.within);
            let mut next = Step {
                memory_at: taken * stride + inside,
                memory_stride: stride,
                window_at: window.at + self.done * window.stride + self.within,
                window_stride: window.stride,
                length: rest.min(room),
                count: 1,
            };
            if inside == 0 && self.within == 0 && length == window.length {
                next.count = (count - taken).min(window.count - self.done);
                taken += next.count;
                self.done += next.count;
            } else if self.within == 0 && rest >= window.length {
                // One piece of memory fills several of the window.
                next.count = (rest / window.length).min(window.count - self.done);
                next.memory_stride = window.length;
                self.done += next.count;
                inside += next.count * window.length;
            } else if inside == 0 && room >= length {
                // One piece of the window takes several of the memory.
                next.count = (room / length).min(count - taken);
                next.window_stride = length;
                taken += next.count;
                self.within += next.count * length;
            } else {
                inside += next.length;
                self.within += next.length;
            }
            step(next);
            if inside == length {
                (taken, inside) = (taken + 1, 0);
            }
            if self.within == window.length {
                (self.done, self.within) = (self.done + 1, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte of the memory lands at its place, and steps are few where the patterns fit.
    #[test]
    fn all_pairs_of_patterns_are_copied_byte_by_byte_right() {
        for (window_length, memory_length) in (1..7).flat_map(|a| (1..7).map(move |b| (a, b))) {
            for (window_space, memory_space) in [(0, 0), (3, 0), (0, 2), (3, 2)] {
                let bytes = window_length * memory_length * 4;
                let window = Pieces {
                    at: 5,
                    length: window_length,
                    stride: window_length + window_space,
                    count: bytes / window_length,
                };
                let (stride, count) = (memory_length + memory_space, bytes / memory_length);
                let mut zip = Zip::new(window);
                let mut pairs = Vec::new();
                let mut steps = 0;
                // The memory comes as two stretches, the first of one piece.
                for (base, count) in [(0, 1), (stride, count - 1)] {
                    zip.advance(memory_length, stride, count, |step| {
                        steps += 1;
                        for k in 0..step.count {
                            for byte in 0..step.length {
                                let memory = base + step.memory_at + k * step.memory_stride + byte;
                                pairs.push((memory, step.window_at + k * step.window_stride + byte));
                            }
                        }
                    });
                }
                let place = |n: usize, length: usize, stride: usize| n / length * stride + n % length;
                let expected: Vec<(usize, usize)> = (0..bytes)
                    .map(|n| (place(n, memory_length, stride), 5 + place(n, window_length, window.stride)))
                    .collect();
                assert_eq!(pairs, expected);
                if window_length == memory_length {
                    assert_eq!(steps, 2);
                }
            }
        }
    }
}
