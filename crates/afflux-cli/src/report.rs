//! What a run wrote, in words and as JSON.

use crate::quantity;
use afflux::Statistics;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// Figures of a run that wrote a file, as rank 0 saw them.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// The file.
    pub file: String,
    /// Points over all sets.
    pub points: u64,
    /// Steps run.
    pub steps: u64,
    /// Ranks.
    pub ranks: usize,
    /// What carried messages between ranks.
    pub backend: &'static str,
    /// Rows that this run has added to the file, over all sets.
    pub rows: u64,
    /// Rows that the file had already, over all sets.
    pub replayed_rows: u64,
    /// Bytes of them that were other than the file's, and were rewritten.
    pub rewritten_bytes: u64,
    /// Times that points changed owner.
    pub rebalances: u64,
    /// Bytes of samples.
    pub payload_bytes: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// `file_bytes` over `payload_bytes`; none where the file has rows of an earlier run too.
    pub file_bytes_per_payload_byte: Option<f64>,
    /// Windows flushed.
    pub flushes: u64,
    /// Write calls for samples, over all ranks.
    pub data_writes: u64,
    /// Write calls for the file's structure.
    pub structure_writes: u64,
    /// Whether a signal ended the run before its time.
    pub ended_by_signal: bool,
    /// The last sealed step.
    pub watermark: Option<u64>,
    /// Memory of this rank's windows and buffers.
    pub memory_bytes: u64,
    /// Wall time of the run.
    pub seconds_total: f64,
    /// Of that, spent on samples: opening, appending, flushing, closing.
    pub seconds_sampling: f64,
    /// `payload_bytes` over `seconds_sampling`.
    pub bytes_per_second: f64,
    /// Where the writer's time went.
    pub phases: Phases,
    /// What was odd though it did not stop the run.
    pub warnings: Vec<String>,
}

/// Seconds by phase of the writer.
#[derive(Debug, Clone, Serialize)]
pub struct Phases {
    create_seconds: f64,
    transpose_seconds: f64,
    exchange_seconds: f64,
    write_seconds: f64,
    seal_seconds: f64,
    close_seconds: f64,
}

/// What a command knows besides the writer's statistics.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// The file.
    pub file: &'a Path,
    /// Points over all sets.
    pub points: u64,
    /// Steps run.
    pub steps: u64,
    /// Ranks.
    pub ranks: usize,
    /// What carried messages between ranks.
    pub backend: &'static str,
    /// Wall time of the run.
    pub seconds_total: f64,
    /// Of that, spent on samples.
    pub seconds_sampling: f64,
    /// Whether the file may have been there before.
    pub resumed: bool,
    /// Whether a signal ended it.
    pub ended_by_signal: bool,
    /// What was odd.
    pub warnings: Vec<String>,
}

impl RunReport {
    /// Puts a run and the writer's statistics together.
    #[must_use]
    pub fn new(run: Run<'_>, statistics: &Statistics) -> Self {
        let ratio = |over: f64, under: f64| if under > 0.0 { over / under } else { 0.0 };
        let seconds = &statistics.seconds;
        Self {
            file: run.file.display().to_string(),
            points: run.points,
            steps: run.steps,
            ranks: run.ranks,
            backend: run.backend,
            rows: statistics.rows,
            replayed_rows: statistics.replayed_rows,
            rewritten_bytes: statistics.rewritten_bytes,
            rebalances: statistics.rebalances,
            payload_bytes: statistics.payload_bytes,
            file_bytes: statistics.file_bytes,
            file_bytes_per_payload_byte: (!run.resumed)
                .then(|| ratio(statistics.file_bytes as f64, statistics.payload_bytes as f64)),
            flushes: statistics.flushes,
            data_writes: statistics.data_writes,
            structure_writes: statistics.structure_writes,
            ended_by_signal: run.ended_by_signal,
            watermark: statistics.watermark,
            memory_bytes: statistics.memory_bytes,
            seconds_total: run.seconds_total,
            seconds_sampling: run.seconds_sampling,
            bytes_per_second: ratio(statistics.payload_bytes as f64, run.seconds_sampling),
            phases: Phases {
                create_seconds: seconds.create,
                transpose_seconds: seconds.transpose,
                exchange_seconds: seconds.exchange,
                write_seconds: seconds.write,
                seal_seconds: seconds.seal,
                close_seconds: seconds.close,
            },
            warnings: run.warnings,
        }
    }

    /// A few lines for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<10} {value}");
        };
        line("file", self.file.clone());
        line(
            "samples",
            format!(
                "{} points, {} steps, {} rows, {}",
                quantity::count(self.points),
                quantity::count(self.steps),
                quantity::count(self.rows),
                quantity::bytes(self.payload_bytes)
            ),
        );
        if self.replayed_rows > 0 {
            let rows = quantity::count_of(self.replayed_rows, "row was", "rows were");
            line(
                "resumed",
                format!("{rows} in the file already; {} of them rewritten", quantity::bytes(self.rewritten_bytes)),
            );
        }
        let ratio = self
            .file_bytes_per_payload_byte
            .map_or_else(String::new, |ratio| format!(", {ratio:.3} times the samples"));
        line("file size", quantity::bytes(self.file_bytes) + &ratio);
        line(
            "writes",
            format!(
                "{} of samples, {} of structure, in {} flushes",
                quantity::count(self.data_writes),
                quantity::count(self.structure_writes),
                quantity::count(self.flushes)
            ),
        );
        line(
            "time",
            format!(
                "{}, {} of it for sampling ({:.1} %), on {} ranks ({})",
                quantity::seconds(self.seconds_total),
                quantity::seconds(self.seconds_sampling),
                if self.seconds_total > 0.0 { 100.0 * self.seconds_sampling / self.seconds_total } else { 0.0 },
                self.ranks,
                self.backend
            ),
        );
        line("bandwidth", format!("{} while sampling", quantity::bandwidth(self.bytes_per_second)));
        if self.ended_by_signal {
            let sealed =
                self.watermark.map_or_else(|| "nothing".to_owned(), |step| format!("everything up to step {step}"));
            line("ended", format!("by a signal; {sealed} is sealed"));
        }
        for warning in &self.warnings {
            line("warning", warning.clone());
        }
        text
    }
}
