//! Accesses that are begun now and completed later.
//!
//! Answers for: that an access under way moves its bytes on a helper thread where no exchange is needed, and never makes a rank
//! wait before it asks for the result. Leaves the exchange to the blocking access: what has to go through aggregators is agreed
//! on in the background and carried out by [`PendingAccess::wait`], since nothing advances an exchange but calls of all ranks.
//!
//! Invariants: each access under way has a communicator of its own, so that its two reductions meet those of no other; at most
//! [`IN_FLIGHT_MAX`] are under way; whichever way it ends, no rank waits for ever for one that gave it up.

use std::sync::Arc;
use std::thread::JoinHandle;

use afflux_comm::agree::agree;
use afflux_comm::{Communicator, PendingReduce, Reduce};
use afflux_plan::{AccessSummary, Explanation, Extents, Method};

use super::{CollectiveFile, hash_of};
use crate::error::{LocalFailure, from_verdict};
use crate::memory::{Source, Target, in_memory};
use crate::survey::{self, Statement, Survey};
use crate::{
    AccessReport, CollectiveError, IoOperation, Part, Path, ReadOptions, Toggle, Work, WriteOptions, transfer,
};

/// Accesses of a file that may be under way at a time: one that moves, one that is agreed on, and as many in reserve. Each owns the
/// caller's buffer and a thread.
pub const IN_FLIGHT_MAX: usize = 4;

/// Communicators of accesses under way, and those that wait for one.
#[derive(Default)]
pub(super) struct Lanes {
    idle: Vec<Box<dyn Communicator>>,
    made: usize,
}

/// What is left of an access when its bytes have moved.
struct Moved {
    data: Vec<u8>,
    outcome: Result<(), LocalFailure>,
    work: Work,
}

/// How far an access is.
enum Stage {
    /// Until all ranks have begun it.
    Survey(Box<dyn PendingReduce>, Moved),
    /// Its bytes move on a helper thread.
    Moving(JoinHandle<Moved>),
    /// Until all ranks have moved theirs.
    Verdict(Box<dyn PendingReduce>, Moved),
    /// It has to go through aggregators.
    Exchange(Vec<u8>),
    /// It has failed between the ranks, or is over.
    Over,
}

/// An access that [`CollectiveFile::start_write_all`] or [`CollectiveFile::start_read_all`] has begun, on one rank.
///
/// Dropped before [`PendingAccess::wait`] it fails on the other ranks.
#[must_use = "an access is complete when it has been waited for"]
pub struct PendingAccess<'f> {
    file: &'f CollectiveFile,
    lane: Option<Box<dyn Communicator>>,
    operation: IoOperation,
    write: WriteOptions,
    extents: Arc<Extents>,
    call_hash: u64,
    reason: &'static str,
    access: Option<AccessSummary>,
    stage: Stage,
}

impl CollectiveFile {
    /// Collective: begins what [`CollectiveFile::write_all`] does, with a buffer that the access owns until it is waited for, and
    /// returns without waiting for other ranks (but the first [`IN_FLIGHT_MAX`] of a file set communicators up). Ranks start and
    /// wait for their accesses, and make their other calls on this file, in the same order; which of several under way reaches the
    /// file first is not said.
    ///
    /// # Errors
    /// [`CollectiveError::Failed`], [`CollectiveError::Comm`]; [`CollectiveError::Arguments`] where [`IN_FLIGHT_MAX`] accesses are
    /// under way. What fails later is told by [`PendingAccess::wait`].
    pub fn start_write_all(
        &self,
        extents: Extents,
        data: Vec<u8>,
        options: WriteOptions,
    ) -> Result<PendingAccess<'_>, CollectiveError> {
        self.start(IoOperation::Write, extents, data, options)
    }

    /// Collective: begins what [`CollectiveFile::read_all`] does; [`PendingAccess::wait`] returns the bytes. Otherwise as
    /// [`CollectiveFile::start_write_all`].
    ///
    /// # Errors
    /// As [`CollectiveFile::start_write_all`].
    pub fn start_read_all(&self, extents: Extents, options: ReadOptions) -> Result<PendingAccess<'_>, CollectiveError> {
        let data = vec![0; in_memory(extents.bytes())];
        self.start(IoOperation::Read, extents, data, WriteOptions { path: options.path, ..WriteOptions::default() })
    }

    fn start(
        &self,
        operation: IoOperation,
        extents: Extents,
        data: Vec<u8>,
        write: WriteOptions,
    ) -> Result<PendingAccess<'_>, CollectiveError> {
        if let Some(cause) = &*self.failed.borrow() {
            return Err(CollectiveError::Failed { cause: cause.clone() });
        }
        let lane = self.lane()?;
        let call = self.calls.get() + 1;
        self.calls.set(call);
        let call_hash = hash_of(&("started", call, operation == IoOperation::Read, &write, &self.hints));
        let independent = self.independent_reason(operation, write.path);
        let outcome = match data.len() as u64 == extents.bytes() {
            true => Ok(()),
            false => {
                let (described, held) = (extents.bytes(), data.len());
                let message = format!("the extents describe {described} bytes, the memory holds {held}");
                Err(LocalFailure::Arguments(message))
            }
        };
        let moved = Moved { data, outcome, work: Work::default() };
        let mut pending = PendingAccess {
            file: self,
            lane: Some(lane),
            operation,
            write,
            extents: Arc::new(extents),
            call_hash,
            reason: independent.unwrap_or("not decided"),
            access: None,
            stage: Stage::Over,
        };
        pending.stage = match independent {
            Some(_) => pending.moving(moved)?,
            None => {
                let file = self.file_words();
                let failed = moved.outcome.is_err();
                let statement = Statement { extents: &pending.extents, failed, call_hash, file };
                Stage::Survey(survey::start(pending.lane(), &statement)?, moved)
            }
        };
        Ok(pending)
    }

    /// Collective where one has to be made: a communicator for one access.
    fn lane(&self) -> Result<Box<dyn Communicator>, CollectiveError> {
        let mut lanes = self.lanes.borrow_mut();
        if let Some(lane) = lanes.idle.pop() {
            return Ok(lane);
        }
        if lanes.made == IN_FLIGHT_MAX {
            let message = format!("{IN_FLIGHT_MAX} accesses are under way: one must be waited for first");
            return Err(CollectiveError::Arguments { rank: self.comm.rank(), message });
        }
        lanes.made += 1;
        Ok(self.comm.duplicate()?)
    }
}

impl PendingAccess<'_> {
    /// Lets the access advance, and says whether [`PendingAccess::wait`] would return without waiting for anything. Never waits
    /// itself. Not collective. An access through aggregators is exchanged by `wait`, and never done before.
    ///
    /// # Errors
    /// [`CollectiveError::Comm`], [`CollectiveError::Disagreement`].
    pub fn progress(&mut self) -> Result<bool, CollectiveError> {
        let result = self.advance(false);
        self.note(result.as_ref().err());
        result
    }

    /// Collective: completes the access; returns its buffer (of a read: filled) and what was done.
    ///
    /// # Errors
    /// As [`CollectiveFile::write_all`] and [`CollectiveFile::read_all`].
    pub fn wait(mut self) -> Result<(Vec<u8>, AccessReport), CollectiveError> {
        let result = self.complete();
        self.note(result.as_ref().err());
        if !matches!(
            result,
            Err(CollectiveError::Comm(_) | CollectiveError::Disagreement { .. } | CollectiveError::Failed { .. })
        ) {
            self.stage = Stage::Over;
            self.file.lanes.borrow_mut().idle.extend(self.lane.take());
        }
        result
    }

    /// After some errors the file refuses work.
    fn note(&self, error: Option<&CollectiveError>) {
        if let Some(error) = error.filter(|error| error.is_final()) {
            self.file.failed.borrow_mut().get_or_insert_with(|| Box::new(error.clone()));
        }
    }

    fn lane(&self) -> &dyn Communicator {
        self.lane.as_deref().expect("an access has its communicator until it is over")
    }

    /// Goes on until there is something to wait for, or, where it `may_wait`, until the verdict or an exchange is due; whether the
    /// verdict is there.
    fn advance(&mut self, may_wait: bool) -> Result<bool, CollectiveError> {
        loop {
            let mut stage = std::mem::replace(&mut self.stage, Stage::Over);
            if let Stage::Survey(reduction, _) | Stage::Verdict(reduction, _) = &mut stage
                && !may_wait
                && reduction.test()?.is_none()
            {
                self.stage = stage;
                return Ok(false);
            }
            self.stage = match stage {
                Stage::Survey(mut reduction, moved) => {
                    let survey = survey::of_elements(reduction.complete()?);
                    self.decided(survey, moved)?
                }
                Stage::Moving(helper) if !may_wait && !helper.is_finished() => {
                    self.stage = Stage::Moving(helper);
                    return Ok(false);
                }
                Stage::Moving(helper) => {
                    self.verdict(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))?
                }
                Stage::Verdict(..) => {
                    self.stage = stage;
                    return Ok(true);
                }
                Stage::Exchange(_) => {
                    self.stage = stage;
                    return Ok(false);
                }
                Stage::Over => return Err(self.over()),
            };
        }
    }

    /// What comes after the survey.
    fn decided(&mut self, survey: Survey, moved: Moved) -> Result<Stage, CollectiveError> {
        let Survey { access, failed_ranks, call_hashes, file, .. } = survey;
        if call_hashes.0 != call_hashes.1 {
            return Err(self.disagreement());
        }
        self.file.settle(file);
        if failed_ranks > 0 {
            return self.verdict(moved);
        }
        let (method, reason) = self.file.method_for(self.operation, self.write.path, &access);
        (self.reason, self.access) = (reason, Some(access));
        match method {
            Method::TwoPhase => Ok(Stage::Exchange(moved.data)),
            Method::Independent => self.moving(moved),
        }
    }

    /// Moves the bytes on a helper thread, which calls the file and nothing else.
    fn moving(&self, mut moved: Moved) -> Result<Stage, CollectiveError> {
        if moved.outcome.is_err() || moved.data.is_empty() {
            return self.verdict(moved);
        }
        let (file, extents) = (Arc::clone(&self.file.file), Arc::clone(&self.extents));
        let operation = self.operation;
        let hints = &self.file.hints;
        let sieve_bytes = (hints.sieve_reads != Toggle::Disable).then(|| hints.sieve_buffer_bytes.get());
        let length_bytes = extents.bytes();
        let carry_out = move || {
            let Moved { data, outcome, work } = &mut moved;
            *outcome = match (operation, sieve_bytes) {
                (IoOperation::Read, None) => {
                    transfer::read_own(&*file, &extents, &mut Target::slices(&mut [data]), work)
                }
                (IoOperation::Read, Some(bytes)) => {
                    transfer::read_own_sieved(&*file, &extents, &mut Target::slices(&mut [data]), bytes, work)
                }
                _ => transfer::write_own(&*file, &extents, &Source::slices(&[data]), work),
            };
            std::mem::replace(&mut moved, Moved { data: Vec::new(), outcome: Ok(()), work: Work::default() })
        };
        match std::thread::Builder::new().name("afflux access".to_owned()).spawn(carry_out) {
            Ok(helper) => Ok(Stage::Moving(helper)),
            Err(error) => {
                let outcome = Err(LocalFailure::Io { operation, offset: 0, length_bytes, error });
                self.verdict(Moved { data: Vec::new(), outcome, work: Work::default() })
            }
        }
    }

    /// Begins the verdict.
    fn verdict(&self, moved: Moved) -> Result<Stage, CollectiveError> {
        let failed = Reduce::sum(u64::from(moved.outcome.is_err()));
        let elements = vec![failed, Reduce::min(self.call_hash), Reduce::max(self.call_hash)];
        Ok(Stage::Verdict(self.lane().start_all_reduce(elements)?, moved))
    }

    fn complete(&mut self) -> Result<(Vec<u8>, AccessReport), CollectiveError> {
        self.advance(true)?;
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Verdict(reduction, Moved { data, outcome, work }) => {
                let elements = reduction.wait()?;
                if elements[1].value != elements[2].value {
                    return Err(self.disagreement());
                }
                if elements[0].value > 0 {
                    let outcome = outcome.map_err(|failure| failure.to_verdict());
                    agree(self.lane(), outcome, &mut [])?.map_err(|failure| from_verdict(&failure))?;
                }
                let method = (Method::Independent, self.reason);
                let explanation = Explanation::new(method, self.access, None, self.file.layout());
                Ok((data, AccessReport { explanation, work }))
            }
            Stage::Exchange(data) => self.exchange(data),
            _ => Err(self.over()),
        }
    }

    /// Collective: what has to go through aggregators.
    fn exchange(&self, mut data: Vec<u8>) -> Result<(Vec<u8>, AccessReport), CollectiveError> {
        let report = match self.operation {
            IoOperation::Read => {
                let options = ReadOptions { path: Path::TwoPhase };
                self.file.read_all(&self.extents, &mut [&mut data], &options, Part::none())?
            }
            _ => {
                let options = WriteOptions { path: Path::TwoPhase, ..self.write };
                self.file.write_all(&self.extents, &[&data], &options, Part::none())?
            }
        };
        Ok((data, report))
    }

    /// The error of an access that has failed in `progress` already.
    fn over(&self) -> CollectiveError {
        let cause = self.file.failed.borrow().clone();
        cause.map_or_else(|| self.disagreement(), |cause| CollectiveError::Failed { cause })
    }

    fn disagreement(&self) -> CollectiveError {
        let what = "the hints, the kind of access, its options and the order of accesses under way";
        CollectiveError::Disagreement { call: self.file.calls.get(), what }
    }
}

impl Drop for PendingAccess<'_> {
    fn drop(&mut self) {
        if let Some(lane) = &self.lane {
            lane.fail("an access under way was given up");
        }
        if let Stage::Moving(helper) = std::mem::replace(&mut self.stage, Stage::Over) {
            // What came of it does not count any more, but the file is not to change after this.
            drop(helper.join());
        }
    }
}
