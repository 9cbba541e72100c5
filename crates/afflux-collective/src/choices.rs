//! What the engine chooses for an access, from hints, file and nodes alone: the same for a file that is there and for one that is
//! foreseen.

use std::num::NonZeroU64;

use afflux_plan::{
    AccessSummary, AggregatorIndex, ByteRange, FileDomains, FileTraits, INDEPENDENT_READ_PIECE_BYTES_MIN,
    INDEPENDENT_WRITE_PIECE_BYTES_MIN, Method, Partition, PartitionMethod, Throttle, choose_method, even_counts_below,
};

use crate::memory::in_memory;
use crate::{Hints, IoOperation, Path, Toggle};

/// Rounds that are allowed beyond those a dense access of the same payload takes, and how many times those: an access
/// that is mostly holes would pass through empty windows without end.
const SPARSE_ROUNDS_MAX: u64 = 64;

/// The longest window: its bytes are counted in 32 bits.
const WINDOW_BYTES_MAX: u64 = 1 << 30;

/// The longest window where nothing of the file system asks for long writes: it stays in a core's cache between the ranks that
/// fill it and the one that writes it, and a write of it is long enough that calls do not count. (Measured with 4 MPI ranks on 2
/// cores, 16 MiB in regions of 8 bytes, time on cores of a write to a new file in memory: 1 MiB windows 21 ms, 512 KiB 13 ms,
/// 256 KiB 12 ms, 128 KiB 14 ms. Every rank has to map the pages of every window, too.)
const WINDOW_BYTES_MAX_ON_ONE_NODE: u64 = 256 << 10;

/// What choices follow from.
#[derive(Clone, Copy)]
pub(crate) struct Choices<'a> {
    pub hints: &'a Hints,
    pub file: FileTraits,
    pub rank_count: usize,
    pub node_count: u32,
}

impl Choices<'_> {
    /// The longest window of an aggregator.
    pub fn window_bytes(&self) -> NonZeroU64 {
        let share = self.hints.collective_buffer_bytes.get() / self.hints.buffer_count;
        let max = match (self.node_count, self.file.stripe_bytes) {
            (1, None) => WINDOW_BYTES_MAX_ON_ONE_NODE,
            _ => WINDOW_BYTES_MAX,
        };
        NonZeroU64::new(share.min(max)).unwrap_or(NonZeroU64::MIN)
    }

    /// Whether the bound on requests at a storage target, if there is one, holds for accesses through aggregators.
    pub fn is_throttled(&self) -> bool {
        let by_stripes = !matches!(self.hints.partition, PartitionMethod::Even | PartitionMethod::Aligned);
        self.hints.requests_per_target.is_some() && self.file.stripe_count.is_some() && by_stripes
    }

    /// The turns that aggregators take at storage targets, where requests are bounded and a ring is within a node.
    pub fn throttle(&self, domains: &FileDomains, node_of: impl Fn(AggregatorIndex) -> u32) -> Option<Throttle> {
        let targets = self.file.stripe_count?;
        domains.partition().stripe_bytes()?;
        let throttle = Throttle::new(targets, self.hints.requests_per_target?);
        throttle.is_within_nodes(domains, node_of).then_some(throttle)
    }

    fn toggle(&self, operation: IoOperation) -> Toggle {
        match operation {
            IoOperation::Read => self.hints.collective_read,
            IoOperation::Write | IoOperation::Open => self.hints.collective_write,
        }
    }

    /// Why an access needs no agreement, if it is so.
    pub fn independent_reason(&self, operation: IoOperation, path: Path) -> Option<&'static str> {
        match (path, self.toggle(operation)) {
            (Path::Independent, _) => Some("asked for"),
            (Path::Auto, Toggle::Disable) => Some("the hints disable collective buffering"),
            (Path::Auto, Toggle::Automatic) if self.rank_count == 1 => Some("there is one rank"),
            _ => None,
        }
    }

    /// How an access on which the ranks have agreed is made, and why.
    pub fn method(&self, operation: IoOperation, path: Path, access: &AccessSummary) -> (Method, &'static str) {
        let piece_bytes_min = match operation {
            IoOperation::Read => INDEPENDENT_READ_PIECE_BYTES_MIN,
            IoOperation::Write | IoOperation::Open => INDEPENDENT_WRITE_PIECE_BYTES_MIN,
        };
        let piece_bytes_min = self.hints.independent_piece_bytes_min.map_or(piece_bytes_min, NonZeroU64::get);
        match (path, self.toggle(operation)) {
            (Path::TwoPhase, _) => (Method::TwoPhase, "asked for"),
            (_, Toggle::Enable) => (Method::TwoPhase, "the hints enable collective buffering"),
            _ if self.is_throttled() => (Method::TwoPhase, "requests at storage targets are bounded"),
            _ => choose_method(access, piece_bytes_min),
        }
    }

    /// The method and, of a two-phase access, the file domains: independent after all where rounds would pass through endless holes.
    pub fn bounded(
        &self,
        method: (Method, &'static str),
        access: &AccessSummary,
        domains: Option<(FileDomains, &'static str)>,
    ) -> ((Method, &'static str), Option<(FileDomains, &'static str)>) {
        let dense_rounds = access.bytes / self.window_bytes() + 1;
        let is_bounded =
            |domains: &FileDomains| domains.round_count() <= dense_rounds.saturating_mul(SPARSE_ROUNDS_MAX);
        match domains {
            Some((domains, _)) if !is_bounded(&domains) => {
                ((Method::Independent, "the access is too sparse for bounded rounds"), None)
            }
            domains => (method, domains),
        }
    }

    /// The domains of `count` aggregators; of fewer, where requests are bounded and turns would have to be passed on between
    /// nodes. (Only helper threads access the file, and they send no message: so that a token travels in memory.)
    pub fn cut(
        &self,
        range: ByteRange,
        count: usize,
        node_of: impl Fn(AggregatorIndex) -> u32 + Copy,
    ) -> (FileDomains, &'static str) {
        let cut = |count| {
            let (partition, reason) = Partition::choose(range, count, self.hints.partition, &self.file);
            (FileDomains::new(range, count, partition, self.window_bytes()), reason)
        };
        let (domains, reason) = cut(count);
        let Some(targets) = self.file.stripe_count.filter(|_| self.is_throttled()) else {
            return (domains, reason);
        };
        if self.throttle(&domains, node_of).is_some() {
            return (domains, reason);
        }
        let mut fewer = even_counts_below(count, in_memory(targets.get())).map(|count| cut(count).0);
        let domains = fewer.find(|domains| self.throttle(domains, node_of).is_some());
        let domains = domains.expect("a single aggregator shares its turns with nobody");
        (domains, "so many aggregators that turns at a storage target are taken within a node")
    }
}
