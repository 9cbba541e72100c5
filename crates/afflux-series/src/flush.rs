//! Flushes as the calls that need them see them: begun and left under way, or waited for; and the end of the run.
//!
//! What a flush does is told in [`crate::flight`].

use std::time::Instant;

use afflux_collective::Path;
use afflux_comm::Reduce;
use afflux_comm::agree::agree;

use crate::flight::{Flight, Stage, Wait};
use crate::local_set::LocalSet;
use crate::opening::{self, Directions, Intent, Opening};
use crate::signal::Watch;
use crate::state::{Event, WriterState};
use crate::{FlushError, SeriesWriter, Statistics, Step};

impl SeriesWriter {
    /// Collective: brings all rows before `flush_step` into the file and seals them; `step` is the step at which the
    /// simulation stands. When it returns, all ranks have written; rank 0 has sealed.
    pub(crate) fn flush(&mut self, flush_step: Step, step: Step) -> Result<(), FlushError> {
        self.begin_flush(flush_step, step, false)?;
        self.land()
    }

    /// Collective: begins to bring all rows before `flush_step` into the file, and goes on where flushes may be in the background.
    /// An error is that of the flush before.
    pub(crate) fn start_flush(&mut self, flush_step: Step, step: Step) -> Result<(), FlushError> {
        // What is rewritten in a replay is settled by all ranks together.
        if !self.in_background || self.replaying.is_some() {
            return self.flush(flush_step, step);
        }
        self.begin_flush(flush_step, step, true)
    }

    fn begin_flush(&mut self, flush_step: Step, step: Step, in_background: bool) -> Result<(), FlushError> {
        self.land()?;
        self.state = self.state.after(Event::FlushBegins).ok_or_else(|| self.refused())?;
        if self.replaying.is_some() {
            // Rows that the file has may have changed.
            self.sets.iter_mut().for_each(LocalSet::write_again);
            self.settlement = self.settle_replay(flush_step).map_err(|error| self.fail(error))?;
        }
        let begin = Instant::now();
        let row_ends = self.sets.iter().map(|local| local.window.row_end()).collect();
        let intent = Intent { number: self.statistics.flushes, flush_step, row_ends };
        let mut failure = self.check_rows(flush_step).err();
        let mut directions = None;
        if self.container.is_some() && failure.is_none() {
            match self.directions(&intent, step) {
                Ok(found) => directions = Some(found),
                Err(error) => failure = Some(error),
            }
        }
        self.statistics.seconds.seal += begin.elapsed().as_secs_f64();
        let comm = self.file.communicator();
        let is_root = comm.rank() == 0;
        let elements =
            opening::elements(&intent, failure.is_some(), is_root, directions.as_ref(), self.new_chunks_max());
        let pending = comm.start_all_reduce(elements).map_err(|error| self.fail(error.into()))?;
        self.schedule.advance(step);
        self.last_flush = (Instant::now(), step);
        let stage = Stage::Opening(pending);
        self.flight = Some(Flight { intent, stage, failure, set_aside: false, in_background });

        // An exchange is for all ranks at once, and so cannot wait for a later step.
        let opens_here = !in_background || self.path != Path::Independent;
        let waited = self.timed_move(if opens_here { Wait::ForOpening } else { Wait::Never });
        self.statistics.seconds.exchange += waited;
        if in_background && let Some(mut flight) = self.flight.take() {
            if matches!(flight.stage, Stage::Opening(_)) {
                self.set_rows_aside(&mut flight);
            }
            let is_over = matches!(flight.stage, Stage::Over { .. });
            self.flight = Some(flight);
            if is_over && self.file.communicator().size() == 1 {
                return self.land();
            }
        }
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

    /// On rank 0: has space taken for the rows, and their seal prepared.
    fn directions(&mut self, intent: &Intent, step: Step) -> Result<Directions, FlushError> {
        if let Some(first_cause) = self.deferred.take() {
            return Err(FlushError::Failed { first_cause });
        }
        let (since, from) = self.last_flush;
        let window_steps = self.schedule.wish(step.saturating_sub(from), since.elapsed().as_secs_f64());
        let container = self.container.as_mut().expect("rank 0 has the container between flushes");
        let columns = container.advance(&intent.row_ends)?;
        let chunk_offsets = columns.into_iter().flat_map(|column| column.chunk_offsets).collect();
        Ok(Directions { window_steps, chunk_offsets })
    }

    /// The most chunk addresses that a flush can need: the same on all ranks.
    fn new_chunks_max(&self) -> usize {
        let chunks = self.sets.iter().map(|local| local.new_columns_max() * local.chunks_per_column()).sum::<u64>();
        usize::try_from(chunks).expect("addresses of chunks fit in memory")
    }

    /// Takes note of where the columns lie that rows up to `row_ends` need.
    pub(crate) fn add_columns(&mut self, row_ends: &[u64], chunk_offsets: &[u64]) {
        let mut rest = chunk_offsets;
        for (local, &row_end) in self.sets.iter_mut().zip(row_ends) {
            for column in local.columns..local.columns_for(row_end) {
                for dataset in local.layout.geometry.datasets() {
                    let chunks = local.layout.geometry.chunks_per_column(dataset);
                    let (offsets, behind) = rest.split_at(usize::try_from(chunks).expect("chunks fit in memory"));
                    rest = behind;
                    local.add_column(column, dataset, offsets.to_vec());
                }
            }
        }
    }

    pub(crate) fn check_agreement(&self, intent: &Intent, opening: &Opening) -> Result<(), FlushError> {
        let rank = self.file.communicator().rank();
        for (local, (&found, &expected)) in self.sets.iter().zip(intent.row_ends.iter().zip(&opening.row_ends)) {
            if found != expected {
                return Err(FlushError::Disagree { set: local.name.clone(), rank, expected, found });
            }
        }
        if intent.flush_step != opening.flush_step {
            let (expected, found) = (opening.flush_step, intent.flush_step);
            return Err(FlushError::DisagreeStep { rank, expected, found });
        }
        Ok(())
    }

    /// Collective: whether rank 0 sealed what the last flush wrote.
    pub(crate) fn settle(&mut self) -> Result<(), FlushError> {
        if self.watch.is_some() {
            // So that the wait has a limit.
            let failed = Reduce::sum(u64::from(self.deferred.is_some()));
            let started = self.file.communicator().start_all_reduce(vec![failed]);
            let settled = started.map_err(FlushError::from).and_then(|pending| self.wait_for(pending));
            if settled.map_err(|error| self.fail(error))?[0].value == 0 {
                return Ok(());
            }
        }
        let outcome = match self.deferred.take() {
            Some(text) => Err((0, text)),
            None => Ok(()),
        };
        match agree(self.file.communicator(), outcome, &mut [])? {
            Ok(()) => Ok(()),
            Err(failure) => Err(self.fail(FlushError::Elsewhere { rank: failure.rank, message: failure.message })),
        }
    }

    /// Collective: what the ranks agreed on about signals is done before the first row of `step` is kept, and the next agreement begins.
    pub(crate) fn heed_signals(&mut self, step: Step) -> Result<(), FlushError> {
        let Some(pending) = self.watch.as_mut().map(Watch::take_pending) else { return Ok(()) };
        let signalled = match pending {
            Some(pending) => self.wait_for(pending).map_err(|error| self.give_up(error))?[0].value > 0,
            None => false,
        };
        if let Some(watch) = &self.watch
            && signalled
        {
            self.deadline.get_or_insert_with(|| Instant::now() + watch.time_limit);
            if self.watermark.is_none_or(|watermark| watermark + 1 < step) {
                self.flush(step, step)?;
            }
            self.settle()?;
            self.signalled = step.checked_sub(1);
        }
        self.deadline = None;
        let started = self.watch.as_mut().map_or(Ok(()), |watch| watch.start(step));
        started.map_err(|error| self.fail(error.into()))
    }

    /// Fails, and tells those who may still wait for this rank.
    fn give_up(&mut self, error: FlushError) -> FlushError {
        let cause = error.to_string();
        self.file.communicator().fail(&cause);
        if let Some(watch) = &self.watch {
            watch.fail(&cause);
        }
        self.fail(error)
    }

    /// Notes the first cause; nothing is written from here on.
    pub(crate) fn fail(&mut self, error: FlushError) -> FlushError {
        self.state = self.state.after(Event::Failure).unwrap_or(WriterState::Failed);
        self.first_cause.get_or_insert_with(|| error.to_string());
        error
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
            let layout = &local.layout;
            let row_bytes: usize = layout.variables.iter().map(afflux_container::VariableSpec::row_bytes).sum();
            let rows = local.window.row_end() - local.rows_resumed;
            self.statistics.rows += rows;
            self.statistics.payload_bytes += rows * layout.geometry.points * row_bytes as u64;
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
