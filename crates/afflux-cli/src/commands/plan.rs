//! `afflux plan`: what a collective access would do on a machine that is described: method, aggregators, file domains, rounds,
//! tokens and hints, each with its reason.

use crate::failure::Failure;
use crate::output;
use crate::quantity::{bytes as in_words, count};
use afflux::Hints;
use afflux::collective::{
    AccessSummary, AggregatorIndex, ByteRange, FileDomains, FileTraits, Foresight, IoOperation, Locks, Machine, Path,
};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fmt::Write as _;
use std::num::NonZeroU64;

/// Aggregators that are listed unless more are asked for.
const ROWS_DEFAULT: usize = 16;

/// Explain a plan: who would write what, in how many rounds, and why. Opens nothing, and asks no other rank.
#[derive(Debug, Args)]
#[command(
    after_help = "The access is that of all ranks together: `--bytes` from `--offset` on, in pieces of `--piece` bytes that\n\
                  interleave (with --contiguous each rank has one part of the range).\n\n\
                  Examples:\n  afflux plan --ranks 24576 --ranks-per-node 16 --bytes 96g --piece 1k --stripe-size 1m \\\n      \
                  --stripe-count 48\n  afflux plan --ranks 64 --bytes 1g --piece 64 --hint cb_nodes=8 --hint requests_per_ost=2"
)]
pub struct Plan {
    /// Ranks.
    #[arg(long)]
    ranks: u32,
    /// Ranks on a node, which follow one another; all on one node unless given.
    #[arg(long, value_name = "K")]
    ranks_per_node: Option<u32>,
    /// Payload of all ranks; suffixes k, m, g, t of 1,024.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes: u64,
    /// Bytes of a piece.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    piece: u64,
    /// Bytes between one piece and the next, which nobody accesses.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0")]
    gap: u64,
    /// First byte of the access.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0")]
    offset: u64,
    /// The pieces of a rank follow one another, rather than those of all ranks in turn.
    #[arg(long)]
    contiguous: bool,
    /// Write or read.
    #[arg(long, value_enum, default_value_t = Operation::Write)]
    operation: Operation,
    /// Bytes of a stripe, or of what one lock covers.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    stripe_size: Option<u64>,
    /// Storage targets over which the file is striped.
    #[arg(long, value_name = "N")]
    stripe_count: Option<u64>,
    /// Who hands out the locks of the file.
    #[arg(long, value_enum, default_value_t = LockManager::Unknown)]
    locks: LockManager,
    /// A hint by its ROMIO name, such as cb_nodes=8; may be repeated.
    #[arg(long = "hint", value_name = "NAME=VALUE")]
    hints: Vec<String>,
    /// Aggregators to list.
    #[arg(long, value_name = "N", default_value_t = ROWS_DEFAULT)]
    rows: usize,
    /// Print one JSON object, with all aggregators.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    Write,
    Read,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LockManager {
    /// Not known.
    Unknown,
    /// Nobody: one kernel has the file.
    Free,
    /// One manager, ranges of the file (GPFS).
    Ranges,
    /// Each storage target for its own object (Lustre).
    Objects,
}

impl From<LockManager> for Locks {
    fn from(manager: LockManager) -> Self {
        match manager {
            LockManager::Unknown => Self::Unknown,
            LockManager::Free => Self::Free,
            LockManager::Ranges => Self::Ranges,
            LockManager::Objects => Self::Objects,
        }
    }
}

/// A number of bytes, with a suffix of 1,024 where there is one.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err("a number of bytes, or one with k, m, g or t behind it".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "not a number of bytes".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too many bytes".to_owned())
}

#[derive(Serialize)]
struct Report {
    method: String,
    method_reason: &'static str,
    range: [u64; 2],
    bytes: u64,
    piece_count: u64,
    partition: Option<String>,
    partition_reason: Option<&'static str>,
    aggregator_count: usize,
    aggregator_reason: &'static str,
    rounds: Option<u64>,
    window_bytes_max: Option<u64>,
    domain_bytes_max_per_mean: Option<f64>,
    token_rings: Option<u64>,
    aggregators: Vec<Row>,
    hints: Vec<Hint>,
}

#[derive(Serialize)]
struct Row {
    aggregator: usize,
    rank: usize,
    node: u32,
    domain_bytes: u64,
    first_byte: u64,
    end_byte: u64,
    targets: Option<Vec<u64>>,
}

#[derive(Serialize)]
struct Hint {
    name: String,
    asked: Option<String>,
    effective: String,
    warning: Option<String>,
}

impl Plan {
    /// Prints the plan.
    pub fn run(&self) -> Result<(), Failure> {
        let pairs = self.hints.iter().map(|hint| hint.split_once('=').unwrap_or((hint, "")));
        let hints = Hints::from_pairs(pairs).map_err(Failure::usage)?;
        let ranks_per_node = self.ranks_per_node.unwrap_or(self.ranks);
        if self.ranks == 0 || ranks_per_node == 0 || self.piece == 0 || self.bytes == 0 {
            return Err(Failure::usage("ranks, ranks per node, bytes and the piece must be at least 1"));
        }
        let not_zero = |value: Option<u64>, name: &str| match value {
            Some(0) => Err(Failure::usage(format!("{name} must be at least 1"))),
            value => Ok(value.and_then(NonZeroU64::new)),
        };
        let file = FileTraits {
            locks: self.locks.into(),
            stripe_bytes: not_zero(self.stripe_size, "--stripe-size")?,
            stripe_count: not_zero(self.stripe_count, "--stripe-count")?,
        };
        let node_of_rank: Vec<u32> = (0..self.ranks).map(|rank| rank / ranks_per_node).collect();
        let operation = match self.operation {
            Operation::Write => IoOperation::Write,
            Operation::Read => IoOperation::Read,
        };
        let access = self.access().ok_or_else(|| Failure::usage("the access ends beyond 2^64 bytes"))?;
        let machine = Machine { node_of_rank: &node_of_rank, file };
        let foresight = hints.foresee(operation, Path::Auto, &access, &machine);
        if self.json {
            return output::print_json(&report(&access, &foresight, &machine));
        }
        output::print(&self.text(&foresight, &machine))
    }

    fn access(&self) -> Option<AccessSummary> {
        let piece_count = self.bytes.div_ceil(self.piece);
        let end = self.offset.checked_add(self.bytes)?.checked_add(self.gap.checked_mul(piece_count - 1)?)?;
        let range = ByteRange::new(self.offset, end);
        let active_ranks = u64::from(self.ranks).min(piece_count);
        let span_bytes = if self.contiguous { range.bytes() } else { range.bytes().saturating_mul(active_ranks) };
        Some(AccessSummary { range, bytes: self.bytes, piece_count, span_bytes, active_ranks })
    }

    fn text(&self, foresight: &Foresight, machine: &Machine<'_>) -> String {
        let mut text = foresight.explanation.to_string();
        if let Some((domains, _)) = &foresight.explanation.domains {
            let _ = writeln!(text, "balance      the longest domain is {:.3} of the mean", balance(domains));
            match &foresight.throttle {
                Some(throttle) => {
                    let rings = throttle.ring_count();
                    let _ = writeln!(text, "tokens       {} of requests_per_ost", count(rings));
                }
                None => text.push_str("tokens       none: any number of requests at a storage target\n"),
            }
            text.push_str("\naggregator       rank   node       domain  hull\n");
            let all = rows(foresight, machine);
            for row in all.iter().take(self.rows) {
                let Row { aggregator, rank, node, domain_bytes, first_byte, end_byte, .. } = row;
                let domain = in_words(*domain_bytes);
                let _ = writeln!(text, "{aggregator:>10} {rank:>10} {node:>6} {domain:>12}  {first_byte}..{end_byte}");
            }
            if all.len() > self.rows {
                let _ = writeln!(
                    text,
                    "... and {} more; --rows N or --json lists them",
                    count((all.len() - self.rows) as u64)
                );
            }
        }
        text.push_str("\nhint                          asked         effective\n");
        for hint in &foresight.hints {
            let asked = hint.asked.as_deref().unwrap_or("-");
            let _ = write!(text, "{:<29} {asked:<13} {}", hint.name, hint.effective);
            text.push_str(&hint.warning.as_ref().map_or(String::new(), |warning| format!("  ({warning})")));
            text.push('\n');
        }
        text
    }
}

/// The longest domain by the mean of those that an even deal would give.
fn balance(domains: &FileDomains) -> f64 {
    let lengths = (0..domains.aggregator_count()).map(|at| domains.domain_bytes(AggregatorIndex(at)));
    let (longest, all) = lengths.fold((0, 0), |(longest, all): (u64, u64), length| (longest.max(length), all + length));
    longest as f64 * domains.aggregator_count() as f64 / all.max(1) as f64
}

fn rows(foresight: &Foresight, machine: &Machine<'_>) -> Vec<Row> {
    let Some((domains, _)) = &foresight.explanation.domains else { return Vec::new() };
    let aggregators = (0..domains.aggregator_count()).map(AggregatorIndex);
    aggregators
        .map(|at| {
            let (rank, hull) = (foresight.layout.rank(at), domains.hull(at));
            let striped = domains.partition().stripe_bytes().and(machine.file.stripe_count);
            Row {
                aggregator: at.0,
                rank: rank.0,
                node: machine.node_of_rank[rank.0],
                domain_bytes: domains.domain_bytes(at),
                first_byte: hull.start,
                end_byte: hull.end,
                targets: striped.map(|targets| domains.targets_of(at, targets)),
            }
        })
        .collect()
}

fn report(access: &AccessSummary, foresight: &Foresight, machine: &Machine<'_>) -> Report {
    let explanation = &foresight.explanation;
    let domains = explanation.domains.as_ref();
    Report {
        method: explanation.method.0.to_string(),
        method_reason: explanation.method.1,
        range: [access.range.start, access.range.end],
        bytes: access.bytes,
        piece_count: access.piece_count,
        partition: domains.map(|(domains, _)| domains.partition().to_string()),
        partition_reason: domains.map(|(_, reason)| *reason),
        aggregator_count: explanation.aggregators.0,
        aggregator_reason: explanation.aggregators.1,
        rounds: domains.map(|(domains, _)| domains.round_count()),
        window_bytes_max: domains.map(|(domains, _)| domains.window_bytes_max()),
        domain_bytes_max_per_mean: domains.map(|(domains, _)| balance(domains)),
        token_rings: foresight.throttle.as_ref().map(afflux::collective::Throttle::ring_count),
        aggregators: rows(foresight, machine),
        hints: foresight
            .hints
            .iter()
            .map(|hint| Hint {
                name: hint.name.clone(),
                asked: hint.asked.clone(),
                effective: hint.effective.clone(),
                warning: hint.warning.clone(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_take_suffixes_of_1024() {
        assert_eq!(size("7"), Ok(7));
        assert_eq!(size("3K"), Ok(3 << 10));
        assert_eq!(size("96g"), Ok(96 << 30));
        for wrong in ["", "k", "1.5m", "-1", "1kb", "99999999999t"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
