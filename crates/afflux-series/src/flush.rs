//! A flush, from rows in memory to sealed steps in the file. Collective.
//!
//! 1. Rank 0 grows the file by the columns of chunks that the rows need and tells all ranks where they lie, how many rows it
//!    has, and how long the next window is.
//! 2. Each rank transposes its window into whole blocks (rows not sampled yet as zeros, which no reader sees), in file order.
//! 3. One collective write; its verdict carries the checksums of the columns along.
//! 4. Rank 0 seals. The other ranks do not wait for that: should it fail, the next collective call tells all of them.
//!
//! So a flush costs one broadcast, the exchange (if any) and one reduction, however many sets, variables and columns it has.

use std::time::Instant;

use afflux_collective::{Part, WriteOptions};
use afflux_comm::Reduce;
use afflux_comm::agree::agree;
use afflux_container::{ColumnChecksum, Seal};
use afflux_plan::Extents;

use crate::buffer::Buffer;
use crate::layout::Segment;
use crate::opening::{Opening, decode_opening, encode_failure, encode_opening};
use crate::replay::Settlement;
use crate::state::{Event, WriterState};
use crate::{FlushError, SeriesWriter, Statistics, Step};

impl SeriesWriter {
    /// Collective: brings all rows before `flush_step` into the file and seals them; `step` is the step at which the
    /// simulation stands.
    pub(crate) fn flush(&mut self, flush_step: Step, step: Step) -> Result<(), FlushError> {
        self.state = self.state.after(Event::FlushBegins).ok_or_else(|| self.refused())?;
        let settled = self.settle_replay(flush_step).map(|settlement| self.settlement = settlement);
        match settled.and_then(|()| self.flush_window(flush_step, step)) {
            Ok(()) => {
                self.state = self.state.after(Event::FlushEnds).expect("flushing ends");
                self.statistics.flushes += 1;
                Ok(())
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Notes the first cause; nothing is written from here on.
    pub(crate) fn fail(&mut self, error: FlushError) -> FlushError {
        self.state = self.state.after(Event::Failure).unwrap_or(WriterState::Failed);
        self.first_cause.get_or_insert_with(|| error.to_string());
        error
    }

    fn flush_window(&mut self, flush_step: Step, step: Step) -> Result<(), FlushError> {
        let begin = Instant::now();
        let checked = self.check_rows(flush_step);
        let opening = self.open_flush(checked.as_ref().err())?;
        let after_opening = Instant::now();

        let prepared = checked.and_then(|()| self.check_agreement(&opening));
        for (set, column, dataset, offsets) in &opening.columns {
            self.sets[*set].add_column(*column, *dataset, offsets.clone());
        }
        // Which columns are written follows from rank 0's rows, so that all ranks reduce the same elements even when they disagree.
        let columns: Vec<(usize, u64)> = self
            .sets
            .iter()
            .zip(&opening.row_ends)
            .enumerate()
            .flat_map(|(set, (local, &row_end))| local.columns_to_write(row_end).map(move |column| (set, column)))
            .collect();
        let mut checksums: Vec<Reduce> = columns.iter().map(|_| Reduce::sum(0)).collect();
        let mut extents = Extents::new();
        self.staged_bytes = 0;
        let prepared = prepared.and_then(|()| self.transpose(&columns, &mut extents, &mut checksums));
        let after_transpose = Instant::now();

        let outcome = prepared.as_ref().map(|_| ()).map_err(|error| (0, error.to_string()));
        let options = WriteOptions { path: self.path, ..WriteOptions::default() };
        let part = Part { outcome, elements: &mut checksums };
        let written = self.file.write_all(&extents, &[&self.staging[..self.staged_bytes]], &options, part);
        prepared?;
        let report = written?;
        let after_write = Instant::now();

        // A replay may stand before it.
        self.watermark = self.watermark.max(flush_step.checked_sub(1));
        let sealed = self.seal(&opening.row_ends, &columns, &checksums);
        let after_seal = Instant::now();
        if let Err(error) = sealed {
            self.deferred = Some(error.to_string());
        }
        for local in &mut self.sets {
            local.keep_unfinished();
        }
        self.schedule.advance(step, opening.window_steps);
        self.last_flush = Instant::now();

        let phase = &mut self.statistics.seconds;
        let opened = after_opening.duration_since(begin).as_secs_f64();
        // Rank 0 spends the opening in HDF5, the others wait for it.
        if self.container.is_some() {
            phase.seal += opened
        } else {
            phase.exchange += opened
        }
        phase.transpose += after_transpose.duration_since(after_opening).as_secs_f64();
        let writing = report.work.file_nanoseconds as f64 * 1e-9;
        phase.write += writing;
        phase.exchange += (after_write.duration_since(after_transpose).as_secs_f64() - writing).max(0.0);
        phase.seal += after_seal.duration_since(after_write).as_secs_f64();
        self.statistics.data_writes += report.work.file_calls;
        Ok(())
    }

    /// Every set must have all rows that are due before `flush_step`, whole.
    fn check_rows(&self, flush_step: Step) -> Result<(), FlushError> {
        for local in &self.sets {
            if let Some(step) = local.next_due
                && (step < flush_step || local.missing_count > 0)
            {
                return Err(FlushError::RowMissing { set: local.name.clone(), step, flush_step });
            }
        }
        Ok(())
    }

    /// Rank 0 grows the file and tells; the others listen.
    fn open_flush(&mut self, local_failure: Option<&FlushError>) -> Result<Opening, FlushError> {
        let mut message = Vec::new();
        let mut grown = Ok(());
        if let Some(container) = self.container.as_mut() {
            let row_ends: Vec<u64> = self.sets.iter().map(|local| local.window.row_end()).collect();
            let requests: Vec<(usize, u64)> = self
                .sets
                .iter()
                .zip(&row_ends)
                .enumerate()
                .map(|(set, (local, &row_end))| (set, local.columns_for(row_end)))
                .filter(|&(set, columns)| columns > self.sets[set].columns)
                .collect();
            let failure = self.deferred.take().or_else(|| local_failure.map(ToString::to_string));
            message = match failure {
                Some(text) => {
                    grown = Err(FlushError::Failed { first_cause: text.clone() });
                    encode_failure(&text)
                }
                None => match container.grow(&requests) {
                    Ok(columns) => {
                        let window_steps = self.schedule.next_window_steps(self.last_flush.elapsed().as_secs_f64());
                        encode_opening(&row_ends, window_steps, &columns)
                    }
                    Err(error) => {
                        let text = error.to_string();
                        grown = Err(error.into());
                        encode_failure(&text)
                    }
                },
            };
        }
        self.file.communicator().broadcast(0, &mut message)?;
        grown?;
        match decode_opening(&message) {
            Ok(Ok(opening)) => Ok(opening),
            Ok(Err(message)) => Err(FlushError::Elsewhere { rank: 0, message }),
            Err(damaged) => Err(FlushError::Elsewhere { rank: 0, message: damaged.to_string() }),
        }
    }

    fn check_agreement(&self, opening: &Opening) -> Result<(), FlushError> {
        for (local, &expected) in self.sets.iter().zip(&opening.row_ends) {
            let found = local.window.row_end();
            if found != expected {
                return Err(FlushError::Disagree {
                    set: local.name.clone(),
                    rank: self.file.communicator().rank(),
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }

    /// Fills the staging buffer with this rank's blocks in file order, and adds up their checksums by (set, column).
    fn transpose(
        &mut self,
        columns: &[(usize, u64)],
        extents: &mut Extents,
        checksums: &mut [Reduce],
    ) -> Result<(), FlushError> {
        let mut segments: Vec<Segment> = Vec::new();
        for (set, local) in self.sets.iter().enumerate() {
            local.segments(set, &mut segments);
        }
        segments.sort_unstable_by_key(|segment| segment.offset);
        let bytes = segments.iter().map(|segment| segment.bytes).sum();
        if self.staging.len() < bytes {
            self.staging =
                Buffer::zeroed(bytes).map_err(|source| FlushError::Memory { bytes: bytes as u64, source })?;
        }
        self.staged_bytes = bytes;
        let mut rest = &mut self.staging[..bytes];
        for segment in &segments {
            let (payload, behind) = rest.split_at_mut(segment.bytes);
            rest = behind;
            let local = &self.sets[segment.set()];
            local.layout.extents(segment, extents);
            let checksum = local.layout.fill(segment, &local.window, payload);
            let slot =
                columns.binary_search(&(segment.set(), segment.column())).expect("every column written is listed");
            checksums[slot].value = checksums[slot].value.wrapping_add(checksum);
        }
        let held: u64 = self.sets.iter().map(crate::local_set::LocalSet::memory_bytes).sum();
        self.statistics.memory_bytes = self.statistics.memory_bytes.max(held + self.staging.len() as u64);
        Ok(())
    }

    fn seal(&mut self, rows: &[u64], columns: &[(usize, u64)], sums: &[Reduce]) -> Result<(), FlushError> {
        let Some(container) = self.container.as_mut() else { return Ok(()) };
        let Settlement { columns: rewritten, still_damaged } = std::mem::take(&mut self.settlement);
        let checksums = columns
            .iter()
            .zip(sums)
            .map(|(&(set, column), sum)| {
                let chunk_steps = self.sets[set].layout.geometry.chunk_steps;
                let rows = (rows[set] - column * chunk_steps).min(chunk_steps);
                // Damaged rows that have not come again must not look whole.
                let off = u64::from(still_damaged.contains(&(set, column)));
                ColumnChecksum { set, column, rows, checksum: sum.value.wrapping_add(off) }
            })
            .chain(rewritten)
            .collect();
        container.seal(&Seal { watermark: self.watermark, rows: rows.to_vec(), columns: checksums })?;
        Ok(())
    }

    /// Collective: whether rank 0 sealed what the last flush wrote.
    pub(crate) fn settle(&mut self) -> Result<(), FlushError> {
        let outcome = match self.deferred.take() {
            Some(text) => Err((0, text)),
            None => Ok(()),
        };
        match agree(self.file.communicator(), outcome, &mut [])? {
            Ok(()) => Ok(()),
            Err(failure) => Err(self.fail(FlushError::Elsewhere { rank: failure.rank, message: failure.message })),
        }
    }

    /// Collective: closes the file behind the last flush, whose seal it answers for.
    pub(crate) fn finish(mut self) -> Result<Statistics, FlushError> {
        let begin = Instant::now();
        let container = self.container.take();
        let closed = match self.deferred.take() {
            Some(first_cause) => Err(FlushError::Failed { first_cause }),
            None => container.map(afflux_container::ContainerWriter::close).transpose().map_err(FlushError::from),
        };
        let (structure_writes, file_bytes) = match &closed {
            Ok(Some(report)) => (report.counters.total().writes, report.file_bytes),
            Ok(None) | Err(_) => (0, 0),
        };
        let outcome = closed.as_ref().map(|_| ()).map_err(|error| (0, error.to_string()));
        let mut totals = [
            Reduce::sum(self.statistics.data_writes),
            Reduce::max(structure_writes),
            Reduce::max(file_bytes),
            Reduce::sum(self.statistics.rebalance_bytes),
            Reduce::sum(self.statistics.rewritten_bytes),
            Reduce::max(self.statistics.replayed_rows),
        ];
        let verdict = agree(self.file.communicator(), outcome, &mut totals)?;
        if let Err(error) = closed {
            return Err(self.fail(error));
        }
        if let Err(failure) = verdict {
            return Err(self.fail(FlushError::Elsewhere { rank: failure.rank, message: failure.message }));
        }
        self.state = self.state.after(Event::Close).expect("an open writer closes");
        for local in &self.sets {
            let row_bytes: usize = local.layout.variables.iter().map(afflux_container::VariableSpec::row_bytes).sum();
            let rows = local.window.row_end() - local.rows_resumed;
            self.statistics.rows += rows;
            self.statistics.payload_bytes += rows * local.layout.geometry.points * row_bytes as u64;
        }
        self.statistics.data_writes = totals[0].value;
        self.statistics.structure_writes = totals[1].value;
        self.statistics.file_bytes = totals[2].value;
        self.statistics.rebalance_bytes = totals[3].value;
        self.statistics.rewritten_bytes = totals[4].value;
        self.statistics.replayed_rows = totals[5].value;
        self.statistics.watermark = self.watermark;
        self.statistics.seconds.close += begin.elapsed().as_secs_f64();
        Ok(std::mem::take(&mut self.statistics))
    }
}
