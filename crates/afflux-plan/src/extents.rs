//! The bytes of a file that one rank reads or writes, regular patterns kept as strided runs.

/// `count` pieces of `length` bytes, the first at `offset`, each next one `stride` bytes further.
///
/// Invariants: `length > 0`, `count > 0`, and `stride > length` when `count > 1` (touching pieces are one piece);
/// `stride == length` when `count == 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    /// Offset in the file of the first piece, in bytes.
    pub offset: u64,
    /// Length of each piece, in bytes.
    pub length: u64,
    /// Distance between the starts of neighbouring pieces, in bytes.
    pub stride: u64,
    /// Number of pieces.
    pub count: u64,
}

impl Run {
    /// One contiguous piece.
    #[must_use]
    pub fn contiguous(offset: u64, length: u64) -> Self {
        Self { offset, length, stride: length, count: 1 }
    }
    /// Payload in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.length * self.count
    }
    /// One past the last byte touched.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.stride * (self.count - 1) + self.length
    }
}

/// An ascending list of runs whose spans `[offset, end)` do not overlap; what it describes travels in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extents {
    runs: Vec<Run>,
    bytes: u64,
}

impl Extents {
    /// No bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a piece behind all others; touching pieces join and evenly spaced ones of equal length become one strided run.
    ///
    /// # Panics
    /// If the piece begins before the end of the last one.
    pub fn push(&mut self, offset: u64, length: u64) {
        if length == 0 {
            return;
        }
        self.bytes += length;
        let Some(last) = self.runs.last_mut() else {
            self.runs.push(Run::contiguous(offset, length));
            return;
        };
        assert!(offset >= last.end(), "extents are pushed in ascending order: {offset} lies before {}", last.end());
        if last.count == 1 && offset == last.end() {
            last.length += length;
            last.stride = last.length;
        } else if last.count == 1 && length == last.length {
            last.stride = offset - last.offset;
            last.count = 2;
        } else if last.count > 1 && length == last.length && offset == last.offset + last.stride * last.count {
            last.count += 1;
        } else {
            self.runs.push(Run::contiguous(offset, length));
        }
    }

    /// The runs, ascending.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Payload in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether no byte is described.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// First byte touched and one past the last; `None` when empty.
    #[must_use]
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.runs.first()?.offset, self.runs.last()?.end()))
    }

    /// Every piece as `(offset, length)`, ascending.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().flat_map(|run| (0..run.count).map(move |k| (run.offset + k * run.stride, run.length)))
    }
}
