//! Half-open ranges of bytes and the numbers that must not be mistaken for one another.

use std::fmt;

/// Bytes `[start, end)`, of a file or of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte; never below `start`.
    pub end: u64,
}

impl ByteRange {
    /// The bytes from `start` up to, not including, `end`.
    ///
    /// # Panics
    /// If `end` lies before `start`.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Self {
        assert!(start <= end, "a range ends at {end}, before its start {start}");
        Self { start, end }
    }

    /// How many bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.end - self.start
    }

    /// Whether it holds no byte.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether `offset` lies in it.
    #[must_use]
    pub fn contains(self, offset: u64) -> bool {
        (self.start..self.end).contains(&offset)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

/// The number of an aggregator among the aggregators. It is not a rank: which rank it is, the
/// [`AggregatorLayout`](crate::AggregatorLayout) says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AggregatorIndex(pub usize);

/// The number of a rank in the communicator of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub usize);
