//! A flush under way: from rows in memory to sealed steps in the file, in stages that never wait unless asked to.
//!
//! 1. *Opening.* Every rank says what it is about to flush. Rank 0 has made HDF5 take the columns of chunks that the rows need, in
//!    memory, and tells where they lie. One reduction.
//! 2. *Writing.* Each rank makes whole blocks of its rows (those not sampled yet as zeros, which no reader sees) and writes them;
//!    a helper thread does where the window is worth one. Where pieces are small, aggregators write them after an exchange
//!    instead; the exchange is the calling thread's, and is waited for.
//! 3. *Agreeing.* Whether all have written, and the checksums of the columns. One reduction; an exchange brings its own.
//! 4. *Sealing.* Rank 0 makes the rows visible: a few small writes, by a helper thread too. The other ranks do not wait for that:
//!    should it fail, the next flush (`checkpoint`, `close`) tells all of them.
//!
//! Between stages a flush stands still until it is looked at: by `append` and [`SeriesWriter::progress`], which never wait, and by
//! whoever needs the flush done, who does. Stages follow in the same order on all ranks, each at its own time; but what came of a flush is
//! told in [`SeriesWriter::land`] alone, which all ranks call at the same place of the run: so a failure is one error in one
//! call on all of them, and no rank leaves the others waiting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use afflux_collective::{Part as Carried, Path, WriteOptions};
use afflux_comm::agree::agree;
use afflux_comm::{PendingReduce, Reduce};
use afflux_container::{ColumnChecksum, ContainerWriter, Seal, WriteError};

use crate::background::{Helpers, Ticket};
use crate::buffer::Buffer;
use crate::job::{Done, Job, JobError};
use crate::local_set::LocalSet;
use crate::opening::{self, Intent};
use crate::replay::Settlement;
use crate::state::Event;
use crate::{FlushError, SeriesWriter};

/// Between two looks at a reduction that is waited for with a time limit: at first about what a message takes, later little beside
/// the limit.
const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// One flush under way.
pub(crate) struct Flight {
    pub intent: Intent,
    pub stage: Stage,
    /// This rank's own failure.
    pub failure: Option<FlushError>,
    /// Whether rows go into the second window.
    pub set_aside: bool,
    /// Whether the caller goes on meanwhile, and a helper thread may work for it.
    pub in_background: bool,
}

/// How far a flush is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Not at all.
    Never,
    /// Until the ranks have told one another what they flush.
    ForOpening,
    ToTheEnd,
}

/// Where a flush stands.
pub(crate) enum Stage {
    Opening(Box<dyn PendingReduce>),
    Writing(Ticket<Done>),
    Agreeing {
        pending: Box<dyn PendingReduce>,
        columns: Vec<(usize, u64)>,
    },
    Sealing(Ticket<Sealed>),
    /// What came of it is known here, and not told yet.
    Over {
        succeeded: bool,
    },
}

/// The container comes back with what became of the seal.
pub(crate) struct Sealed {
    container: ContainerWriter,
    outcome: Result<(), WriteError>,
    seconds: f64,
}

impl Flight {
    /// Whether it is known here that it fails: rows appended meanwhile will not be kept.
    pub fn is_doomed(&self) -> bool {
        self.failure.is_some() || matches!(self.stage, Stage::Over { succeeded: false })
    }

    fn fail(&mut self, error: impl Into<FlushError>) -> Stage {
        self.failure.get_or_insert(error.into());
        Stage::Over { succeeded: false }
    }
}

impl SeriesWriter {
    /// Takes the flush under way as far as it goes, or as far as is waited for. Whether there is none, or it is over.
    pub(crate) fn move_flight(&mut self, wait: Wait) -> bool {
        let Some(mut flight) = self.flight.take() else { return true };
        let (opening, wait) = (wait != Wait::Never, wait == Wait::ToTheEnd);
        loop {
            let stage = std::mem::replace(&mut flight.stage, Stage::Over { succeeded: false });
            let next = match stage {
                Stage::Opening(pending) => match self.result_of(pending, opening) {
                    Err(pending) => Err(Stage::Opening(pending)),
                    Ok(Err(error)) => Ok(flight.fail(error)),
                    Ok(Ok(elements)) => Ok(self.opened(&mut flight, &elements)),
                },
                Stage::Writing(ticket) if !wait && !ticket.is_done() => Err(Stage::Writing(ticket)),
                Stage::Writing(ticket) => Ok(self.helper_wrote(&mut flight, ticket.wait())),
                Stage::Agreeing { pending, columns } => match self.result_of(pending, wait) {
                    Err(pending) => Err(Stage::Agreeing { pending, columns }),
                    Ok(Err(error)) => Ok(flight.fail(error)),
                    Ok(Ok(elements)) => Ok(self.agreed(&mut flight, &columns, &elements)),
                },
                Stage::Sealing(ticket) if !wait && !ticket.is_done() => Err(Stage::Sealing(ticket)),
                Stage::Sealing(ticket) => Ok(self.helper_sealed(ticket.wait())),
                over @ Stage::Over { .. } => Err(over),
            };
            match next {
                Ok(stage) => flight.stage = stage,
                Err(stage) => {
                    flight.stage = stage;
                    break;
                }
            }
        }
        let is_over = matches!(flight.stage, Stage::Over { .. });
        self.flight = Some(flight);
        is_over
    }

    /// Collective: waits for the flush under way, if there is one, and tells what came of it: the same on all ranks.
    pub(crate) fn land(&mut self) -> Result<(), FlushError> {
        if self.flight.is_none() {
            return Ok(());
        }
        let in_background = self.flight.as_ref().is_some_and(|flight| flight.in_background);
        let waited = self.timed_move(Wait::ToTheEnd);
        *(if in_background { &mut self.statistics.seconds.wait } else { &mut self.statistics.seconds.exchange }) +=
            waited;
        let Some(Flight { intent, stage, failure, .. }) = self.flight.take() else { return Ok(()) };
        if let Stage::Over { succeeded: true } = stage {
            self.state = self.state.after(Event::FlushEnds).expect("flushing ends");
            self.statistics.flushes += 1;
            // A replay may stand before it.
            self.watermark = self.watermark.max(intent.flush_step.checked_sub(1));
            return Ok(());
        }
        let error = self.verdict_of(failure);
        Err(self.fail(error))
    }

    /// As [`Self::move_flight`]; returns the seconds that this thread waited. What it did itself is counted where it belongs.
    pub(crate) fn timed_move(&mut self, wait: Wait) -> f64 {
        let begin = Instant::now();
        let before = self.statistics.seconds.total();
        self.move_flight(wait);
        (begin.elapsed().as_secs_f64() - (self.statistics.seconds.total() - before)).max(0.0)
    }

    /// Collective: the failure of the lowest rank that failed, as every rank returns it.
    fn verdict_of(&self, own: Option<FlushError>) -> FlushError {
        let comm = self.file.communicator();
        match own {
            // Nothing can be said to the others, who see it too.
            Some(FlushError::Comm(_)) => return own.expect("just seen"),
            // Those who are still there need not wait for this rank.
            Some(FlushError::GaveUp { .. }) => {
                let error = own.expect("just seen");
                comm.fail(&error.to_string());
                return error;
            }
            _ => {}
        }
        let outcome = own.as_ref().map_or(Ok(()), |error| Err(error.to_verdict()));
        match agree(comm, outcome, &mut []) {
            Err(error) => error.into(),
            Ok(Err(failure)) if failure.rank == comm.rank() => own.expect("this rank has failed"),
            Ok(Err(failure)) => FlushError::from_verdict(failure),
            // Ranks that mean different flushes differ from rank 0, and those have failed.
            Ok(Ok(())) => FlushError::Elsewhere { rank: 0, message: "the ranks flush different rows".to_owned() },
        }
    }

    /// The ranks have told one another what they are about to flush.
    fn opened(&mut self, flight: &mut Flight, elements: &[Reduce]) -> Stage {
        let opening = opening::decode(elements, self.sets.len());
        if flight.failure.is_none()
            && let Err(error) = self.check_agreement(&flight.intent, &opening)
        {
            return flight.fail(error);
        }
        if opening.failed_ranks > 0 || !opening.agreed {
            return Stage::Over { succeeded: false };
        }
        self.schedule.agree(opening.directions.window_steps);
        self.add_columns(&flight.intent.row_ends, &opening.directions.chunk_offsets);
        if self.path != Path::Independent {
            let job = self.job(&flight.intent.row_ends);
            return self.exchange(flight, job);
        }
        if let Some(helpers) = self.helpers_for(flight) {
            self.set_rows_aside(flight);
            let job = self.job(&flight.intent.row_ends);
            let file = Arc::clone(&self.own_file);
            return Stage::Writing(helpers.submit(move || job.write(&*file)));
        }
        let done = self.job(&flight.intent.row_ends).write(&*self.own_file);
        let phase = &mut self.statistics.seconds;
        phase.transpose += done.transposing.as_secs_f64();
        phase.write += done.writing.as_secs_f64();
        self.wrote(flight, done)
    }

    /// The helpers, if the flush is worth one on this rank.
    fn helpers_for(&self, flight: &Flight) -> Option<Helpers> {
        let bytes: u64 = self.sets.iter().map(LocalSet::flushing_bytes).sum();
        self.helpers.clone().filter(|_| flight.in_background && bytes >= self.helper_bytes_min)
    }

    /// From now on rows are appended to the second windows.
    pub(crate) fn set_rows_aside(&mut self, flight: &mut Flight) {
        if !std::mem::replace(&mut flight.set_aside, true) {
            self.sets.iter_mut().for_each(LocalSet::set_aside);
        }
    }

    /// What is to be written for rows up to `row_ends`.
    fn job(&mut self, row_ends: &[u64]) -> Job {
        // From the rows that all ranks agree on, so that all list the same.
        let columns = self.sets.iter().zip(row_ends).enumerate();
        let columns = columns
            .flat_map(|(set, (local, &row_end))| local.columns_to_write(row_end).map(move |column| (set, column)))
            .collect();
        let mut segments = Vec::new();
        let sets = self.sets.iter_mut().zip(row_ends).enumerate();
        let parts = sets.map(|(set, (local, &row_end))| local.give(set, row_end, &mut segments)).collect();
        segments.sort_unstable_by_key(|segment| segment.offset);
        let staging = std::mem::replace(&mut self.staging, Buffer::Heap(Vec::new()));
        Job { parts, segments, columns, staging, is_durable: self.is_durable }
    }

    /// Collective: what the path with aggregators does instead of writing and agreeing.
    fn exchange(&mut self, flight: &mut Flight, job: Job) -> Stage {
        let begin = Instant::now();
        let (mut done, extents) = job.stage();
        let outcome = std::mem::replace(&mut done.outcome, Ok(())).map_err(|error| self.job_error(error));
        let mut checksums: Vec<Reduce> = done.checksums.iter().map(|&sum| Reduce::sum(sum)).collect();
        let staged = &done.job.staging[..usize::try_from(extents.bytes()).expect("it is in memory")];
        let options = WriteOptions { path: self.path, ..WriteOptions::default() };
        let carried =
            Carried { outcome: outcome.as_ref().map(|_| ()).map_err(FlushError::to_verdict), elements: &mut checksums };
        let written = self.file.write_all(&extents, &[staged], &options, carried);
        let phase = &mut self.statistics.seconds;
        phase.transpose += done.transposing.as_secs_f64();
        let writing = written.as_ref().map_or(0.0, |report| report.work.file_nanoseconds as f64 * 1e-9);
        phase.write += writing;
        phase.exchange += ((begin.elapsed() - done.transposing).as_secs_f64() - writing).max(0.0);
        match outcome.and(written.map_err(FlushError::from)) {
            Err(error) => {
                self.take_back(flight, done);
                flight.fail(error)
            }
            Ok(report) if self.is_durable => {
                // An aggregator has written the rows of others, and each has to hear of a sync that failed.
                done.file_calls = report.work.file_calls;
                done.outcome = done.sync(&*self.own_file);
                self.wrote(flight, done)
            }
            Ok(report) => {
                self.statistics.data_writes += report.work.file_calls;
                let columns = self.take_back(flight, done);
                self.all_wrote(flight, &columns, &checksums)
            }
        }
    }

    fn job_error(&self, error: JobError) -> FlushError {
        FlushError::of_job(self.file_path.clone(), self.file.communicator().rank(), error)
    }

    fn helper_wrote(&mut self, flight: &mut Flight, done: Done) -> Stage {
        let phase = &mut self.statistics.helper_seconds;
        phase.transpose += done.transposing.as_secs_f64();
        phase.write += done.writing.as_secs_f64();
        self.wrote(flight, done)
    }

    /// This rank's rows are in the file, or are not: the ranks agree.
    fn wrote(&mut self, flight: &mut Flight, mut done: Done) -> Stage {
        self.statistics.data_writes += done.file_calls;
        if let Err(error) = std::mem::replace(&mut done.outcome, Ok(())) {
            flight.failure.get_or_insert(self.job_error(error));
        }
        let failed = Reduce::sum(u64::from(flight.failure.is_some()));
        let elements = std::iter::once(failed).chain(done.checksums.iter().map(|&sum| Reduce::sum(sum))).collect();
        let columns = self.take_back(flight, done);
        match self.file.communicator().start_all_reduce(elements) {
            Ok(pending) => Stage::Agreeing { pending, columns },
            Err(error) => flight.fail(error),
        }
    }

    /// The windows and the staging buffer are free again.
    fn take_back(&mut self, flight: &Flight, done: Done) -> Vec<(usize, u64)> {
        let Job { parts, columns, staging, .. } = done.job;
        let held = self.sets.iter().map(LocalSet::memory_bytes).sum::<u64>()
            + parts.iter().map(|part| part.window.bytes()).sum::<u64>()
            + staging.len() as u64;
        self.statistics.memory_bytes = self.statistics.memory_bytes.max(held);
        self.staging = staging;
        for (local, part) in self.sets.iter_mut().zip(parts) {
            local.take_back(part.window, flight.set_aside);
        }
        columns
    }

    /// All ranks have told whether they wrote.
    fn agreed(&mut self, flight: &mut Flight, columns: &[(usize, u64)], elements: &[Reduce]) -> Stage {
        match elements.split_first() {
            Some((failed, checksums)) if failed.value == 0 => self.all_wrote(flight, columns, checksums),
            _ => Stage::Over { succeeded: false },
        }
    }

    /// All rows are in the file: rank 0 seals them.
    fn all_wrote(&mut self, flight: &Flight, columns: &[(usize, u64)], sums: &[Reduce]) -> Stage {
        let Some(mut container) = self.container.take() else { return Stage::Over { succeeded: true } };
        let Settlement { columns: rewritten, still_damaged } = std::mem::take(&mut self.settlement);
        let rows = &flight.intent.row_ends;
        let checksums = columns.iter().zip(sums).map(|(&(set, column), sum)| {
            let chunk_steps = self.sets[set].layout.geometry.chunk_steps;
            let rows = (rows[set] - column * chunk_steps).min(chunk_steps);
            // Damaged rows that have not come again must not look whole.
            let off = u64::from(still_damaged.contains(&(set, column)));
            ColumnChecksum { set, column, rows, checksum: sum.value.wrapping_add(off) }
        });
        let columns = checksums.chain(rewritten).collect();
        // A replay may stand before it.
        let watermark = self.watermark.max(flight.intent.flush_step.checked_sub(1));
        let seal = Seal { watermark, rows: rows.clone(), columns };
        let work = move || {
            let begin = Instant::now();
            let outcome = container.seal(&seal);
            Sealed { container, outcome, seconds: begin.elapsed().as_secs_f64() }
        };
        match self.helpers_for(flight) {
            Some(helpers) => Stage::Sealing(helpers.submit(work)),
            None => {
                let sealed = work();
                self.statistics.seconds.seal += sealed.seconds;
                self.sealed(sealed)
            }
        }
    }

    fn helper_sealed(&mut self, sealed: Sealed) -> Stage {
        self.statistics.helper_seconds.seal += sealed.seconds;
        self.sealed(sealed)
    }

    fn sealed(&mut self, sealed: Sealed) -> Stage {
        self.container = Some(sealed.container);
        if let Err(error) = sealed.outcome {
            self.deferred = Some(error.to_string());
        }
        Stage::Over { succeeded: true }
    }

    /// The result of a reduction, or the reduction where it has none yet and is not waited for.
    fn result_of(
        &mut self,
        mut pending: Box<dyn PendingReduce>,
        wait: bool,
    ) -> Result<Result<Vec<Reduce>, FlushError>, Box<dyn PendingReduce>> {
        if wait {
            return Ok(self.wait_for(pending));
        }
        match pending.test() {
            Ok(None) => Err(pending),
            Ok(Some(elements)) => Ok(Ok(elements)),
            Err(error) => Ok(Err(error.into())),
        }
    }

    /// The result of a reduction. Once a signal is known that asks for a seal, no longer than its time limit is waited for.
    pub(crate) fn wait_for(&mut self, mut pending: Box<dyn PendingReduce>) -> Result<Vec<Reduce>, FlushError> {
        let Some(watch) = &self.watch else { return Ok(pending.wait()?) };
        let mut pause = PAUSE_MIN;
        loop {
            if let Some(elements) = pending.test()? {
                return Ok(elements);
            }
            if self.deadline.is_none() && watch.is_signalled() {
                self.deadline = Some(Instant::now() + watch.time_limit);
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(FlushError::GaveUp { seconds: watch.time_limit.as_secs_f64() });
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}
