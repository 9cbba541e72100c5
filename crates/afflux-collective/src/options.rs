//! What a caller chooses for one access, and what it is told afterwards.

use afflux_comm::Reduce;
use afflux_plan::Explanation;

/// How bytes are to reach the file. The same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Path {
    /// The ranks decide by one reduction; the hints `romio_cb_write` and `romio_cb_read` may decide for them.
    #[default]
    Auto,
    /// Every rank moves its own pieces at once; the verdict is the only reduction.
    Independent,
    /// Exchange, then write (or read, then exchange). An access so sparse that it would take thousands of empty rounds
    /// is made independently all the same.
    TwoPhase,
}

/// What an aggregator may do with the bytes between the pieces it writes. The same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Holes {
    /// Nothing: they are neither read nor written.
    #[default]
    Forbidden,
    /// Read and written back unchanged where that joins two writes: for files that nobody else writes meanwhile. Rules
    /// only two-phase writes; independent ones never touch a hole, since it may be another rank's.
    Fill {
        /// Longest hole that is filled.
        gap_bytes_max: u64,
    },
}

/// Choices for one collective write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct WriteOptions {
    /// How bytes reach the file.
    pub path: Path,
    /// What happens between the pieces.
    pub holes: Holes,
}

/// Choices for one collective read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ReadOptions {
    /// How bytes reach the ranks.
    pub path: Path,
}

/// What the caller lets the verdict carry, so that its own agreement costs no message of its own.
#[derive(Debug)]
pub struct Part<'a> {
    /// The caller's own preparation on this rank: a code and a message where it failed. Then this rank writes nothing
    /// and all ranks return [`CollectiveError::Caller`](crate::CollectiveError::Caller). With [`Path::Auto`] and
    /// [`Path::TwoPhase`] no rank writes anything; with [`Path::Independent`] the others learn of it from the verdict,
    /// when they have written their pieces.
    pub outcome: Result<(), (u32, String)>,
    /// Elements combined over the ranks along with the verdict; the same number and operations on all ranks.
    pub elements: &'a mut [Reduce],
}

impl Part<'_> {
    /// Nothing failed, nothing to combine.
    #[must_use]
    pub fn none() -> Self {
        Self { outcome: Ok(()), elements: &mut [] }
    }
}

/// What one rank did in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Work {
    /// Complete transfers to or from the file (each is one system call unless it is short).
    pub file_calls: u64,
    /// Bytes moved to or from the file.
    pub file_bytes: u64,
    /// Bytes copied between the caller's memory, collective buffers and messages. Divided by the payload of all ranks: how many
    /// copies a byte makes, that of the system call aside.
    pub copied_bytes: u64,
    /// Data messages sent to other ranks.
    pub messages: u64,
    /// Bytes in them.
    pub message_bytes: u64,
    /// Bytes of requests sent to other ranks.
    pub description_bytes: u64,
    /// Steps of this rank's merging of requests: pieces looked at one by one, and entries of regular patterns, however many
    /// pieces those have.
    pub merge_steps: u64,
    /// Rounds of the exchange.
    pub rounds: u64,
    /// Bytes of collective buffers that this rank answers for as an aggregator; at most `cb_buffer_size`.
    pub buffer_bytes_peak: u64,
    /// Largest size of the messages of one round that reach this rank, in bytes. An aggregator's are at most a window, so that with
    /// the above it stays below twice `cb_buffer_size`.
    pub message_buffer_bytes_peak: u64,
    /// Nanoseconds in planning and in messages, waiting for those included.
    pub exchange_nanoseconds: u64,
    /// Nanoseconds in copying between the caller's memory and collective buffers of this node.
    pub copy_nanoseconds: u64,
    /// Nanoseconds of waiting for a collective buffer of this node.
    pub wait_nanoseconds: u64,
    /// Nanoseconds in the file, those of a helper thread included.
    pub file_nanoseconds: u64,
}

impl Work {
    /// Adds what a helper thread did for this rank.
    pub(crate) fn add(&mut self, other: &Self) {
        self.file_calls += other.file_calls;
        self.file_bytes += other.file_bytes;
        self.file_nanoseconds += other.file_nanoseconds;
    }
}

/// What a collective access did, seen from one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessReport {
    /// What was chosen, and why; the same on all ranks.
    pub explanation: Explanation,
    /// What this rank did.
    pub work: Work,
}

/// The report of a write.
pub type WriteReport = AccessReport;
/// The report of a read.
pub type ReadReport = AccessReport;
