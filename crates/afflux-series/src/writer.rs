//! The writer as the simulation sees it: append rows, checkpoint, close.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use afflux_collective::CollectiveFile;
use afflux_container::ContainerWriter;
use afflux_storage::StorageFile;

use crate::background::Helpers;
use crate::buffer::Buffer;
use crate::builder::SeriesBuilder;
use crate::flight::{Flight, Wait};
use crate::groups::Group;
use crate::local_set::LocalSet;
use crate::replay::{GivenRow, Replaying, Settlement};
use crate::route::Route;
use crate::schedule::Schedule;
use crate::signal::Watch;
use crate::state::{Event, RowState, WriterState};
use crate::{AppendError, FlushError, MemoryBound, STEP_MAX, Statistics, Step, Values};

/// Which set a row belongs to: its index in the order in which the sets were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetId(pub usize);

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is in the window.
    Kept,
    /// The set's cadence does not ask for this step; nothing was kept.
    NotDue,
    /// The file has it already: the run was resumed and has not passed the last sealed step yet. It was skipped, compared or
    /// rewritten, as [`Replay`](crate::Replay) says.
    Replayed,
}

/// Whether a row is to be kept.
enum Due {
    Now,
    /// The set has none at this step.
    Later,
    /// The flush under way fails, which the next collective call tells; nothing is written any more.
    Never,
}

/// Writes the samples of a running simulation into one file; made by [`SeriesWriter::at`].
///
/// Rows stay in memory until the window is full; then the call that brings the first row of the next window begins to flush it, on
/// all ranks together. So `append` is local as a rule and collective at window ends: **every rank appends every due step**, with
/// empty slices where it has no point. While a window is on its way to the file, rows go into a second one; only when both are full is
/// there anything to wait for. A writer that is dropped unclosed leaves the file as of the last seal.
pub struct SeriesWriter {
    pub(crate) file: CollectiveFile,
    /// On rank 0; with the helper while it seals, and taken when closed.
    pub(crate) container: Option<ContainerWriter>,
    pub(crate) sets: Vec<LocalSet>,
    pub(crate) schedule: Schedule,
    pub(crate) state: WriterState,
    pub(crate) row_state: RowState,
    /// What the caller's steps lack to those of the file.
    pub(crate) step_offset: Step,
    /// The largest step seen.
    pub(crate) step: Option<Step>,
    /// Every due row up to here is sealed.
    pub(crate) watermark: Option<Step>,
    pub(crate) epoch: u64,
    /// The file as it was resumed, until the run has passed its watermark.
    pub(crate) replaying: Option<Box<Replaying>>,
    /// What the flush under way has to seal of a replay.
    pub(crate) settlement: Settlement,
    /// What made the writer fail.
    pub(crate) first_cause: Option<String>,
    /// A failure of rank 0 behind the verdict of a flush; told to all ranks by the next collective call.
    pub(crate) deferred: Option<String>,
    /// The flush under way.
    pub(crate) flight: Option<Flight>,
    /// Whether `append` goes on while a flush is under way.
    pub(crate) in_background: bool,
    /// Whether the medium is to have a window's samples before they are sealed.
    pub(crate) is_durable: bool,
    /// What listens to signals, where they ask for a seal.
    pub(crate) watch: Option<Watch>,
    /// Until when other ranks are waited for, once a signal is known.
    pub(crate) deadline: Option<Instant>,
    /// The last step sealed because of a signal.
    pub(crate) signalled: Option<Step>,
    /// The process's helper threads, where flushes are in the background.
    pub(crate) helpers: Option<Helpers>,
    /// Rows that a rank has at least for a helper to write them.
    pub(crate) helper_bytes_min: u64,
    /// This rank's handle on the file, for its own writes.
    pub(crate) own_file: Arc<dyn StorageFile>,
    pub(crate) file_path: PathBuf,
    /// The other groups, where the file is one of several.
    pub(crate) group: Option<Group>,
    /// Where blocks are put together; with the job while that is under way.
    pub(crate) staging: Buffer,
    pub(crate) path: afflux_collective::Path,
    pub(crate) memory_bound: MemoryBound,
    pub(crate) route: Route,
    /// When the last flush began, and at which step.
    pub(crate) last_flush: (Instant, Step),
    pub(crate) statistics: Statistics,
    pub(crate) warnings: Vec<String>,
}

impl SeriesWriter {
    /// Begins the description of a file.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> SeriesBuilder {
        SeriesBuilder::new(path.into())
    }

    /// The set of this name.
    #[must_use]
    pub fn set(&self, name: &str) -> Option<SetId> {
        self.sets.iter().position(|set| set.name == name).map(SetId)
    }

    /// What was odd about the points (several owners, none) though the policy let it pass; the same on all ranks.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The last sealed step as the collective calls of this run have told it: every due row up to it is in the file and visible. The
    /// same on all ranks. A flush in the background counts once the next one begins.
    #[must_use]
    pub fn watermark(&self) -> Option<Step> {
        self.watermark
    }

    /// The step up to which everything was sealed because of a signal, if one came: the simulation may end now. The same on
    /// all ranks, from the same append on; see [`SeriesBuilder::seal_on_signal`].
    #[must_use]
    pub fn signalled(&self) -> Option<Step> {
        self.signalled
    }

    /// The most memory that this writer comes to take on this rank, part by part, if owners stay as they are.
    #[must_use]
    pub fn memory_bound(&self) -> MemoryBound {
        self.memory_bound
    }

    /// What the writer is doing.
    #[must_use]
    pub fn state(&self) -> WriterState {
        self.state
    }

    /// What this rank does with the rows it is given.
    #[must_use]
    pub fn row_state(&self) -> RowState {
        self.row_state
    }

    /// Counts the writers of the file's life: 1 for that of a new file.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the set has a row at `step`.
    #[must_use]
    pub fn is_due(&self, set: SetId, step: Step) -> bool {
        let step = step.saturating_add(self.step_offset);
        self.sets.get(set.0).is_some_and(|set| step.is_multiple_of(set.cadence_steps))
    }

    /// Keeps one row: for each variable one slice, its points in registration order (patch after patch), the components of a
    /// point side by side. `time` is the simulated time of the step; rank 0's goes to the file.
    ///
    /// Local, without system call or allocation while no flush is due or under way. The first append of a new window begins the
    /// flush of the last one (collective); those after it look how far it has come. Steps ascend; a step at which the set has
    /// no row due is passed over.
    ///
    /// In a resumed run, rows up to the last sealed step are replayed ([`Appended::Replayed`]). Where they are compared or rewritten,
    /// this rank reads (and perhaps writes) its own part of a column of the file when they enter it; where they are rewritten, the
    /// first append is collective.
    ///
    /// # Errors
    /// [`AppendError`]; a row that is refused changes nothing. [`AppendError::Flush`] comes on all ranks in the same call, the first
    /// one of a window: with flushes in the background it tells of the flush before, and rows since then are lost with it.
    pub fn append(&mut self, set: SetId, step: Step, time: f64, row: &[Values<'_>]) -> Result<Appended, AppendError> {
        let step = self.file_step(step)?;
        match self.prepare(set, step, time)? {
            Due::Now => {}
            Due::Later => return Ok(Appended::NotDue),
            Due::Never => return Ok(Appended::Kept),
        }
        let local = &mut self.sets[set.0];
        let points = local.layout.holdings.roster.len();
        check_row(local, points, row)?;
        check_patches(local, step)?;
        if let Some(replaying) = self.replaying.as_mut().filter(|_| self.row_state != RowState::Filling) {
            replaying.row(set.0, local, &GivenRow { step, time, row, places: 0..points })?;
            finish_row(local);
            self.statistics.replayed_rows += 1;
            return Ok(Appended::Replayed);
        }
        local.window.begin_row(step, time);
        for (variable, &values) in row.iter().enumerate() {
            local.window.put(variable, 0, values);
        }
        finish_row(local);
        Ok(Appended::Kept)
    }

    /// Keeps one patch's part of a row: as [`SeriesWriter::append`], with the points of the `patch`-th call of
    /// [`ProbeSet::points`](crate::ProbeSet::points) alone. A step's row is complete when every patch has come once.
    pub fn append_patch(
        &mut self,
        set: SetId,
        patch: usize,
        step: Step,
        time: f64,
        row: &[Values<'_>],
    ) -> Result<Appended, AppendError> {
        let step = self.file_step(step)?;
        match self.prepare(set, step, time)? {
            Due::Now => {}
            Due::Later => return Ok(Appended::NotDue),
            Due::Never => return Ok(Appended::Kept),
        }
        let local = &mut self.sets[set.0];
        let count = local.layout.holdings.roster.patches.len();
        let Some(points) = local.layout.holdings.roster.patches.get(patch).cloned() else {
            return Err(AppendError::Unknown { what: "patch", index: patch, count });
        };
        check_row(local, points.len(), row)?;
        let is_replayed = self.row_state != RowState::Filling;
        if local.missing_count == 0 {
            if !is_replayed {
                local.window.begin_row(step, time);
            }
            local.missing.fill(true);
            local.missing_count = count;
        }
        if !local.missing[patch] {
            let problem = format!("patch {patch} came twice");
            return Err(AppendError::Patches { set: local.name.clone(), step, problem });
        }
        if let Some(replaying) = self.replaying.as_mut().filter(|_| is_replayed) {
            replaying.row(set.0, local, &GivenRow { step, time, row, places: points })?;
            local.missing[patch] = false;
            local.missing_count -= 1;
            if local.missing_count == 0 {
                finish_row(local);
                self.statistics.replayed_rows += 1;
            }
            return Ok(Appended::Replayed);
        }
        local.missing[patch] = false;
        local.missing_count -= 1;
        for (variable, &values) in row.iter().enumerate() {
            let first_column = points.start * local.layout.variables[variable].values();
            local.window.put(variable, first_column, values);
        }
        if local.missing_count == 0 {
            finish_row(local);
        }
        Ok(Appended::Kept)
    }

    /// The file's step of a step of the caller's.
    fn file_step(&self, step: Step) -> Result<Step, AppendError> {
        let in_file = step.checked_add(self.step_offset).filter(|&in_file| in_file <= STEP_MAX);
        in_file.ok_or(AppendError::StepRange { step })
    }

    /// What precedes every row: the step is checked, a flush begun where one is due.
    fn prepare(&mut self, set: SetId, step: Step, time: f64) -> Result<Due, AppendError> {
        if self.state.after(Event::Append).is_none() {
            return Err(self.refused().into());
        }
        if self.flight.is_some() {
            self.move_flight(Wait::Never);
        }
        let count = self.sets.len();
        if set.0 >= count {
            return Err(AppendError::Unknown { what: "set", index: set.0, count });
        }
        if !time.is_finite() {
            return Err(AppendError::Time { step, time });
        }
        if let Some(last) = self.step
            && step < last
        {
            return Err(AppendError::StepOrder { set: self.sets[set.0].name.clone(), step, last });
        }
        if self.flight.as_ref().is_some_and(Flight::is_doomed) {
            if let Some(boundary) = self.schedule.due(step) {
                self.start_flush(boundary, step)?;
            }
            return Ok(Due::Never);
        }
        let local = &self.sets[set.0];
        let due = step.is_multiple_of(local.cadence_steps);
        if due && let Some(expected) = local.next_due {
            match step.cmp(&expected) {
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Greater => {
                    return Err(AppendError::Hole { set: local.name.clone(), step, expected });
                }
                std::cmp::Ordering::Less => {
                    return Err(AppendError::StepOrder { set: local.name.clone(), step, last: step });
                }
            }
        }
        if self.step.is_none() {
            self.begin_replay(step)?;
        }
        if self.watch.as_mut().is_some_and(|watch| watch.is_due(step)) {
            self.heed_signals(step)?;
        }
        if let Some(boundary) = self.schedule.due(step) {
            self.start_flush(boundary, step)?;
            if self.flight.as_ref().is_some_and(Flight::is_doomed) {
                // It failed at once, so its rows are still in the window, which may have no room for another.
                return Ok(Due::Never);
            }
        }
        if self.step.is_none() {
            self.last_flush = (Instant::now(), step);
            for local in &mut self.sets {
                local.next_due = Some(step.next_multiple_of(local.cadence_steps));
            }
        }
        self.step = Some(step);
        self.row_state = self.row_state.of(step);
        Ok(if due { Due::Now } else { Due::Later })
    }

    /// Takes a flush that is under way further, as every append does: for a simulation that computes long between its rows. It
    /// never waits, and is no collective call.
    pub fn progress(&mut self) {
        self.move_flight(Wait::Never);
    }

    /// Collective: brings everything so far into the file and seals it. When it returns, every due row up to the last step
    /// appended is visible, and the watermark is that step. Call it with the solver's own checkpoint.
    pub fn checkpoint(&mut self) -> Result<(), FlushError> {
        self.land()?;
        if self.state != WriterState::Open {
            return Err(self.refused());
        }
        if let Some(step) = self.step {
            self.flush(step + 1, step)?;
        }
        self.settle()
    }

    /// Collective: seals everything, closes the file and says what it cost. After a failure it releases what the writer
    /// holds, seals nothing and returns the first cause.
    ///
    /// With groups this is where they meet: the failure of one is an error on the ranks of all.
    pub fn close(mut self) -> Result<Statistics, FlushError> {
        match self.group.take() {
            None => self.close_file(),
            Some(group) => group.close(self.close_file()),
        }
    }

    fn close_file(mut self) -> Result<Statistics, FlushError> {
        self.land()?;
        if self.state != WriterState::Open {
            return Err(self.refused());
        }
        if let Some(step) = self.step {
            self.flush(step + 1, step)?;
        }
        self.finish()
    }

    /// The error of a call that the state does not allow.
    pub(crate) fn refused(&self) -> FlushError {
        FlushError::Failed { first_cause: self.first_cause.clone().unwrap_or_else(|| "it is closed".to_owned()) }
    }
}

/// Checks a row (or a patch's part of one) against the set's variables.
fn check_row(local: &LocalSet, points: usize, row: &[Values<'_>]) -> Result<(), AppendError> {
    if row.len() != local.layout.variables.len() {
        return Err(AppendError::VariableCount {
            set: local.name.clone(),
            expected: local.layout.variables.len(),
            found: row.len(),
        });
    }
    for (variable, values) in local.layout.variables.iter().zip(row) {
        if values.element() != variable.element {
            return Err(AppendError::Type {
                variable: variable.name.clone(),
                expected: variable.element,
                found: values.element(),
            });
        }
        let expected = points * variable.values();
        if values.len() != expected {
            return Err(AppendError::Length { variable: variable.name.clone(), expected, found: values.len() });
        }
    }
    Ok(())
}

fn check_patches(local: &LocalSet, step: Step) -> Result<(), AppendError> {
    if local.missing_count > 0 {
        let problem = format!(
            "{} of {} patches have come, then a whole row",
            local.missing.len() - local.missing_count,
            local.missing.len()
        );
        return Err(AppendError::Patches { set: local.name.clone(), step, problem });
    }
    Ok(())
}

fn finish_row(local: &mut LocalSet) {
    let due = local.next_due.expect("set with the first step");
    local.next_due = Some(due + local.cadence_steps);
}
