//! Whether to exchange at all, and why: the rule behind automatic paths, and the words that explain a plan.
//!
//! The input is what one reduction tells every rank, so that all decide alike without a list of all ranks' accesses.

use std::fmt;

use crate::{AggregatorIndex, AggregatorLayout, ByteRange, FileDomains};

/// From this mean length of a piece on, ranks write their own pieces: see the table at the head of `afflux-collective`.
/// Local file systems let one writer into a file at a time, so that interleaved short writes of several ranks cost about
/// 8 microseconds each (on a disk; in tmpfs the two paths meet at 2 to 4 KiB already, but lose less by an exchange).
pub const INDEPENDENT_WRITE_PIECE_BYTES_MIN: u64 = 32 << 10;

/// The same for reads, which do not exclude one another: a read call costs about as much as copying these bytes once more.
pub const INDEPENDENT_READ_PIECE_BYTES_MIN: u64 = 2 << 10;

/// How bytes reach the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Every rank moves its own pieces.
    Independent,
    /// Aggregators move file domains, in rounds, after an exchange.
    TwoPhase,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Independent => "independent",
            Self::TwoPhase => "two-phase",
        })
    }
}

/// What all ranks access together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessSummary {
    /// First byte and one past the last of all ranks; empty when nobody accesses anything.
    pub range: ByteRange,
    /// Payload of all ranks, in bytes.
    pub bytes: u64,
    /// Pieces of all ranks.
    pub piece_count: u64,
    /// The ranks' own spans (first byte to last) added up: more than the range when they interleave.
    pub span_bytes: u64,
    /// Ranks with something to access.
    pub active_ranks: u64,
}

/// Chooses the method by mean piece length (independent from `independent_piece_bytes_min` on) and number of active ranks;
/// the second part says why.
#[must_use]
pub fn choose_method(access: &AccessSummary, independent_piece_bytes_min: u64) -> (Method, &'static str) {
    if access.active_ranks <= 1 {
        return (Method::Independent, "at most one rank has something to move");
    }
    if access.bytes / access.piece_count.max(1) >= independent_piece_bytes_min {
        return (Method::Independent, "the pieces are long enough to be moved one by one");
    }
    if access.piece_count <= access.active_ranks {
        return (Method::Independent, "no rank has more than one piece");
    }
    if access.span_bytes <= access.range.bytes() && access.piece_count <= 2 * access.active_ranks {
        return (Method::Independent, "the ranks do not interleave and have few pieces");
    }
    (Method::TwoPhase, "the pieces are short and many")
}

/// What was chosen for one call, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The method, and the reason for it.
    pub method: (Method, &'static str),
    /// What all ranks access together, where the ranks asked one another.
    pub access: Option<AccessSummary>,
    /// The domains of a two-phase access, and the reason for their partition.
    pub domains: Option<(FileDomains, &'static str)>,
    /// Aggregators, and the reason for their number.
    pub aggregators: (usize, &'static str),
}

impl Explanation {
    /// Puts the parts of a plan together.
    #[must_use]
    pub fn new(
        method: (Method, &'static str),
        access: Option<AccessSummary>,
        domains: Option<(FileDomains, &'static str)>,
        layout: &AggregatorLayout,
    ) -> Self {
        Self { method, access, domains, aggregators: (layout.count(), layout.reason()) }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "method       {} ({})", self.method.0, self.method.1)?;
        if let Some(access) = &self.access {
            writeln!(f, "range        {} of {} bytes", access.range, access.range.bytes())?;
            writeln!(f, "payload      {} bytes in {} pieces", access.bytes, access.piece_count)?;
            writeln!(f, "active ranks {}", access.active_ranks)?;
        }
        if let Some((domains, reason)) = &self.domains {
            let lengths = || (0..domains.aggregator_count()).map(|at| domains.domain_bytes(AggregatorIndex(at)));
            let (shortest, longest) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
            writeln!(f, "aggregators  {} ({})", self.aggregators.0, self.aggregators.1)?;
            writeln!(f, "file domains {} ({reason}), {shortest} to {longest} bytes", domains.partition())?;
            writeln!(
                f,
                "rounds       {}, windows of up to {} bytes",
                domains.round_count(),
                domains.window_bytes_max()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_follows_piece_length_and_activity() {
        let access = |piece_bytes: u64, piece_count: u64, active_ranks| AccessSummary {
            range: ByteRange::new(0, piece_bytes * piece_count),
            bytes: piece_bytes * piece_count,
            piece_count,
            span_bytes: active_ranks * piece_bytes * piece_count,
            active_ranks,
        };
        let writes = |access| choose_method(&access, INDEPENDENT_WRITE_PIECE_BYTES_MIN).0;
        assert_eq!(writes(access(400, 65_536, 4)), Method::TwoPhase);
        assert_eq!(writes(access(16 << 10, 1000, 4)), Method::TwoPhase);
        assert_eq!(writes(access(100_000, 260, 4)), Method::Independent);
        assert_eq!(writes(access(400, 65_536, 1)), Method::Independent);
        assert_eq!(writes(access(400, 4, 4)), Method::Independent);
        assert_eq!(writes(AccessSummary::default()), Method::Independent);
        assert_eq!(choose_method(&access(4096, 1000, 4), INDEPENDENT_READ_PIECE_BYTES_MIN).0, Method::Independent);
    }
}
