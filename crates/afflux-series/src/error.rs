//! What can go wrong: one enum a verb. Where a rank fails alone, it returns its own error and the others return
//! `Elsewhere` with the rank and its message, from the same call.

use std::path::PathBuf;

use afflux_comm::CommError;
use afflux_container::{ElementType, WriteError};

use crate::{MemoryBound, Step};

/// A set as messages call it: the default set has no name.
pub(crate) fn named(set: &str) -> String {
    if set.is_empty() { "the default set".to_owned() } else { format!("set `{set}`") }
}

/// Why a writer could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A setting cannot be.
    #[error("{0}")]
    Settings(String),
    /// The points of a set cannot be.
    #[error("{named}: {problem}", named = named(.set))]
    Points {
        /// Name of the set.
        set: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Ranks described different files.
    #[error("ranks 0 and {rank} describe different files: {difference}")]
    Disagree {
        /// The lowest rank that differs from rank 0.
        rank: usize,
        /// What differs.
        difference: String,
    },
    /// The file could not be created.
    #[error(transparent)]
    Create(#[from] afflux_container::CreateError),
    /// The file could not be resumed.
    #[error(transparent)]
    Resume(#[from] afflux_container::ResumeError),
    /// Where the columns of a resumed file lie, or what was sealed of them, could not be told; or a file could not be made durable.
    #[error(transparent)]
    Lookup(#[from] WriteError),
    /// Sealed columns of a resumed file are not what was sealed.
    #[error(
        "{count} sealed columns are damaged: {columns}; resume with Replay::Rewrite from a step at or before the first damaged one"
    )]
    Damaged {
        /// How many.
        count: usize,
        /// The first few, by set, column and steps.
        columns: String,
    },
    /// The master of a file in groups could not be written.
    #[error(transparent)]
    Master(#[from] afflux_container::MasterError),
    /// The collective engine refused.
    #[error(transparent)]
    Collective(#[from] afflux_collective::CollectiveError),
    /// The writer could come to take more memory than it may.
    #[error(
        "rank {rank} could come to need {bound}, the limit is {:.1} MiB; choose a smaller window, smaller columns of chunks, or more ranks",
        *limit_bytes as f64 / f64::from(1 << 20)
    )]
    Memory {
        /// The rank.
        rank: usize,
        /// The limit that was given.
        limit_bytes: u64,
        /// What it could come to need, part by part.
        bound: MemoryBound,
    },
    /// A rank failed alone: it refused its settings or points, has no memory for its windows, or cannot open the created file.
    #[error("{message} (rank {rank})")]
    Elsewhere {
        /// The rank that failed.
        rank: usize,
        /// Its message.
        message: String,
    },
    /// Messages between ranks failed.
    #[error(transparent)]
    Comm(#[from] CommError),
}

/// Why rows in memory could not be brought into the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlushError {
    /// Ranks hold different rows.
    #[error(
        "ranks disagree about the rows of {named}: rank 0 has {expected}, rank {rank} has {found}; every rank appends every due step", named = named(.set))]
    Disagree {
        /// Name of the set.
        set: String,
        /// The rank that differs.
        rank: usize,
        /// Rows on rank 0.
        expected: u64,
        /// Rows on this rank.
        found: u64,
    },
    /// Ranks flush up to different steps.
    #[error(
        "ranks disagree about the steps to flush: rank 0 flushes what comes before step {expected}, rank {rank} what comes before step {found}; every rank makes the same calls"
    )]
    DisagreeStep {
        /// The rank that differs.
        rank: usize,
        /// Step on rank 0.
        expected: Step,
        /// Step on this rank.
        found: Step,
    },
    /// A set misses a due row.
    #[error(
        "{named} has no row for step {step}, which was due before step {flush_step}: append every due step of every set", named = named(.set))]
    RowMissing {
        /// Name of the set.
        set: String,
        /// The missing step.
        step: Step,
        /// The step up to which rows were to be flushed.
        flush_step: Step,
    },
    /// The medium does not tell that it has what was written.
    #[error("{}: the samples are written, and could not be made durable: {source}", path.display())]
    Sync {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is no memory to put the window's blocks together.
    #[error(
        "there is no memory for {bytes} bytes of blocks on their way to the file: {source}; choose a smaller window"
    )]
    Memory {
        /// Bytes needed on this rank.
        bytes: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file could not be grown, sealed or closed.
    #[error(transparent)]
    Container(#[from] WriteError),
    /// Replayed rows could not be written over those of the file.
    #[error("cannot rewrite rows of {named}: {source}", named = named(.set))]
    Rewrite {
        /// Name of the set.
        set: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Samples could not be written.
    #[error("cannot write samples into {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Which rank could not write what.
        source: afflux_collective::CollectiveError,
    },
    /// The exchange of samples failed.
    #[error(transparent)]
    Collective(#[from] afflux_collective::CollectiveError),
    /// All groups are closed, but the master that shows them as one could not be written; `afflux repair` on it tries again.
    #[error("the files of all groups are closed, but not their master: {0}")]
    Master(#[from] afflux_container::MasterError),
    /// A signal asked for a seal, and other ranks did not come to it in time.
    #[error("after a signal, other ranks were waited for {seconds} s without an answer; gave up without sealing")]
    GaveUp {
        /// The time limit, in seconds.
        seconds: f64,
    },
    /// Another rank failed.
    #[error("{message} (rank {rank})")]
    Elsewhere {
        /// The rank that failed.
        rank: usize,
        /// Its message.
        message: String,
    },
    /// Messages between ranks failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// An earlier call failed; nothing has been written since.
    #[error("the writer failed earlier and writes no more: {first_cause}")]
    Failed {
        /// The first cause.
        first_cause: String,
    },
}

/// Why points did not change owner.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebalanceError {
    /// The call cannot be: no such set, a row that is not whole, points that cannot be, ranks that do not mean the same. The old owners stay.
    #[error("{problem}")]
    Refused {
        /// What is wrong and what to do.
        problem: String,
    },
    /// The new map loses points, gives them twice, or names some that the set does not have. The old owners stay.
    #[error("{named}: {problem}", named = named(.set))]
    Points {
        /// Name of the set.
        set: String,
        /// How many points, and which.
        problem: String,
    },
    /// There is no memory for the windows of the new points. The old owners stay.
    #[error("there is no memory for the windows of the new points: {source}; choose a smaller window")]
    Memory {
        /// What the system said.
        source: std::io::Error,
    },
    /// Another rank refused, or has no memory. The old owners stay.
    #[error("{message} (rank {rank})")]
    Elsewhere {
        /// The rank.
        rank: usize,
        /// Its message.
        message: String,
    },
    /// Rows were lost on their way between ranks. The writer has failed.
    #[error("rows did not reach their new owner: {message} (rank {rank})")]
    Lost {
        /// The rank that missed them.
        rank: usize,
        /// Its message.
        message: String,
    },
    /// The flush before the change failed, or the writer had failed before.
    #[error(transparent)]
    Flush(#[from] FlushError),
    /// Messages between ranks failed. The writer has failed.
    #[error(transparent)]
    Comm(#[from] CommError),
}

impl RebalanceError {
    /// Whether the writer has failed with it; else the old owners are in force and the run may go on.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Flush(_) | Self::Comm(_))
    }
}

/// A value that a restarted solver gives otherwise than the file has it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{named}, point {point}, variable `{variable}`{}, step {step}: the file has {in_file}, the run gives {given}",
    component.map_or(String::new(), |component| format!(", component {component}")), named = named(.set))]
#[non_exhaustive]
pub struct Difference {
    /// Name of the set.
    pub set: String,
    /// Name of the point.
    pub point: String,
    /// The variable.
    pub variable: String,
    /// The component, where the variable has any.
    pub component: Option<usize>,
    /// The step.
    pub step: Step,
    /// The file's value.
    pub in_file: String,
    /// The value given.
    pub given: String,
}

/// Why a row was not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// There is no such set or patch.
    #[error("there is no {what} {index}; there are {count}")]
    Unknown {
        /// `set` or `patch`.
        what: &'static str,
        /// What was asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The row has too few or too many variables.
    #[error("{named} has {expected} variables, the row has {found}", named = named(.set))]
    VariableCount {
        /// Name of the set.
        set: String,
        /// Variables of the set.
        expected: usize,
        /// Slices given.
        found: usize,
    },
    /// A slice has another type than its variable.
    #[error("variable `{variable}` holds {expected:?} values, the row gives {found:?}")]
    Type {
        /// The variable.
        variable: String,
        /// Its type.
        expected: ElementType,
        /// The slice's.
        found: ElementType,
    },
    /// A slice is too long or too short.
    #[error(
        "variable `{variable}` takes {expected} values a row (points of this rank x components), the row gives {found}"
    )]
    Length {
        /// The variable.
        variable: String,
        /// Values expected.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// Steps must ascend.
    #[error("step {step} of {named} comes after step {last}: steps ascend, and each is appended once", named = named(.set))]
    StepOrder {
        /// Name of the set.
        set: String,
        /// The step given.
        step: Step,
        /// The last step of the writer.
        last: Step,
    },
    /// The step is beyond [`STEP_MAX`](crate::STEP_MAX).
    #[error("step {step} is beyond {max}, the largest there is", max = crate::STEP_MAX)]
    StepRange {
        /// The step given.
        step: Step,
    },
    /// A due step was left out.
    #[error("{named}: step {step} leaves a hole, step {expected} is due before it", named = named(.set))]
    Hole {
        /// Name of the set.
        set: String,
        /// The step given.
        step: Step,
        /// The step that is due.
        expected: Step,
    },
    /// A resumed run begins too late.
    #[error(
        "{named}: the file is sealed up to step {watermark} and the run goes on at step {step}, so the row due at step {due} would \
         be missing; restart the solver from a checkpoint at step {due} or before (a checkpoint() with each of the solver's prevents this)", named = named(.set))]
    ResumeHole {
        /// Name of the set.
        set: String,
        /// The first step given.
        step: Step,
        /// The last sealed step.
        watermark: Step,
        /// The first step that would be missing.
        due: Step,
    },
    /// A resumed run begins before the file does.
    #[error(
        "{named}: the file begins with the row of step {begin}, and the run goes on at step {step} with a row due at step {due}: no \
         row can be put before the first; write another file, or give rows from step {begin} on", named = named(.set))]
    BeforeFile {
        /// Name of the set.
        set: String,
        /// The first step given.
        step: Step,
        /// The step that has no place.
        due: Step,
        /// Step of the first row that there is or could be.
        begin: Step,
    },
    /// A resumed run begins behind rows that are damaged.
    #[error(
        "{named}: column {column} (steps {first} to {last}) is damaged, and the run goes on at step {step}: restart the solver from \
         step {first} or before, so that all of it is written anew", named = named(.set))]
    Damaged {
        /// Name of the set.
        set: String,
        /// The first step given.
        step: Step,
        /// The damaged column.
        column: u64,
        /// Step of its first row.
        first: Step,
        /// Step of its last row.
        last: Step,
    },
    /// A resumed run gives a sealed step a later time than the file does.
    #[error(
        "{named}: step {step} is given the time {time}, in the file it has {in_file}: does the solver count its steps from 0 again? \
         Then say where it stands with step_offset (a run that goes on behind the file: step_offset({next}))", named = named(.set))]
    CountsAnew {
        /// Name of the set.
        set: String,
        /// The step given.
        step: Step,
        /// The time given.
        time: f64,
        /// The file's time of that step.
        in_file: f64,
        /// The first step that is not sealed.
        next: Step,
    },
    /// A replayed row is not what the file has ([`Replay::Compare`](crate::Replay::Compare)).
    #[error("{0}")]
    Differs(Box<Difference>),
    /// The file's own row could not be read, or written over, to replay one.
    #[error("{named}, step {step}: cannot replay: {source}", named = named(.set))]
    Replay {
        /// Name of the set.
        set: String,
        /// The step.
        step: Step,
        /// What the system said.
        source: std::io::Error,
    },
    /// A patch was left out or given twice.
    #[error("{named}, step {step}: {problem}", named = named(.set))]
    Patches {
        /// Name of the set.
        set: String,
        /// The step.
        step: Step,
        /// What is wrong.
        problem: String,
    },
    /// The time is not a number.
    #[error("the time of step {step} is {time}; give a finite one")]
    Time {
        /// The step.
        step: Step,
        /// The time given.
        time: f64,
    },
    /// The row made a flush due, and that failed.
    #[error(transparent)]
    Flush(#[from] FlushError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_without_a_name_is_called_the_default_set() {
        let problem =
            |set: &str| OpenError::Points { set: set.to_owned(), problem: "two points have one id".to_owned() };
        assert_eq!(problem("").to_string(), "the default set: two points have one id");
        assert_eq!(problem("far").to_string(), "set `far`: two points have one id");
    }
}
