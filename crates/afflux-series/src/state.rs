//! The state machine of a writer, as one table.
//!
//! Cao and Luo's automaton of the aggregated buffer (append, flush, load balance, restart), made complete. A rank's rows are
//! in a [`RowState`] of that rank's own; the writer as a whole is in one [`WriterState`], the same on all ranks between
//! collective calls. Nothing here acts: the writer asks [`WriterState::after`] and [`RowState::of`] and does what they say.
//!
//! What the calls do in each state (`tests/state_machine.rs` has a test a row):
//!
//! | | append | window full | rebalance | checkpoint, close | a failure |
//! |---|---|---|---|---|---|
//! | Filling (Open) | row kept | -> Flushing | flush; owners change, unfinished columns move with their points | all sealed | -> Failed |
//! | Replaying (Open) | skipped, compared or rewritten, by policy, and counted; the step behind the watermark: -> Filling | cannot be: windows begin behind the watermark | owners change; no flush | the watermark stays; what was rewritten gets its checksums | -> Failed |
//! | Flushing | into the second window; waits where that is full too | waits | waits | waits | -> Failed, told by the next collective call |
//! | Rebalancing | cannot be: the call returns when it is over | | | | -> Failed; a refused map leaves Open |
//! | Failed | an error that names the first cause | | the same error | the same error; close seals nothing | Failed |
//! | Closed | cannot be: close takes the writer | | | | |
//!
//! A resume finds the file sealed up to a step and opens it Replaying; a file that is new, or holds nothing yet, Filling.

use crate::Step;

/// What a rank does with the rows it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// Rows go into the window.
    Filling,
    /// The run repeats steps up to `watermark`, which the file holds already: rows up to there are not written again.
    Replaying {
        /// The last sealed step when the file was resumed.
        watermark: Step,
    },
}

impl RowState {
    /// The state in which a rank opens a file that is sealed up to `watermark`.
    #[must_use]
    pub fn resumed(watermark: Option<Step>) -> Self {
        watermark.map_or(Self::Filling, |watermark| Self::Replaying { watermark })
    }

    /// The state for a row of `step`: replaying ends with the first step behind the watermark, and does not come again.
    ///
    /// | | step <= watermark | step > watermark |
    /// |---|---|---|
    /// | Replaying | Replaying | Filling |
    /// | Filling | Filling | Filling |
    #[must_use]
    pub fn of(self, step: Step) -> Self {
        match self {
            Self::Replaying { watermark } if step <= watermark => self,
            Self::Replaying { .. } | Self::Filling => Self::Filling,
        }
    }
}

/// What the writer as a whole is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriterState {
    /// Rows may be appended.
    Open,
    /// A window is on its way to the file.
    Flushing,
    /// Points are changing owners.
    Rebalancing,
    /// The file is closed.
    Closed,
    /// Something failed; nothing more is written, and every call names the first cause.
    Failed,
}

/// What can happen to a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A row arrives.
    Append,
    /// A flush begins: the window is full, or a checkpoint, rebalance or close needs an empty one.
    FlushBegins,
    /// The window is in the file and sealed.
    FlushEnds,
    /// Owners begin to change (behind a flush).
    RebalanceBegins,
    /// Owners have changed.
    RebalanceEnds,
    /// The file has been closed (behind a flush).
    Close,
    /// A call failed, on whichever rank.
    Failure,
}

impl WriterState {
    /// Every state, for tables and tests.
    pub const ALL: [Self; 5] = [Self::Open, Self::Flushing, Self::Rebalancing, Self::Closed, Self::Failed];

    /// The state after `event`; `None` where the event cannot happen (the caller's call is refused).
    ///
    /// | | append | flush begins | flush ends | rebalance begins | ends | close | failure |
    /// |---|---|---|---|---|---|---|---|
    /// | Open | Open | Flushing | - | Rebalancing | - | Closed | Failed |
    /// | Flushing | Flushing | - | Open | - | - | - | Failed |
    /// | Rebalancing | - | - | - | - | Open | - | Failed |
    /// | Closed | - | - | - | - | - | - | - |
    /// | Failed | - | - | - | - | - | Closed | Failed |
    ///
    /// An append while a window is flushed goes into the second window (flushing in the background); closing a failed writer
    /// releases what it holds and seals nothing.
    #[must_use]
    pub fn after(self, event: Event) -> Option<Self> {
        match (self, event) {
            (Self::Open, Event::Append)
            | (Self::Flushing, Event::FlushEnds)
            | (Self::Rebalancing, Event::RebalanceEnds) => Some(Self::Open),
            (Self::Open, Event::FlushBegins) | (Self::Flushing, Event::Append) => Some(Self::Flushing),
            (Self::Open, Event::RebalanceBegins) => Some(Self::Rebalancing),
            (Self::Open | Self::Failed, Event::Close) => Some(Self::Closed),
            (Self::Open | Self::Flushing | Self::Rebalancing | Self::Failed, Event::Failure) => Some(Self::Failed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Event::{Append, Close, Failure, FlushBegins, FlushEnds, RebalanceBegins, RebalanceEnds};
    use super::WriterState::{Closed, Failed, Flushing, Open, Rebalancing};
    use super::*;

    #[test]
    fn every_transition_is_as_the_table_says() {
        let events = [Append, FlushBegins, FlushEnds, RebalanceBegins, RebalanceEnds, Close, Failure];
        let table = [
            (Open, [Some(Open), Some(Flushing), None, Some(Rebalancing), None, Some(Closed), Some(Failed)]),
            (Flushing, [Some(Flushing), None, Some(Open), None, None, None, Some(Failed)]),
            (Rebalancing, [None, None, None, None, Some(Open), None, Some(Failed)]),
            (Closed, [None; 7]),
            (Failed, [None, None, None, None, None, Some(Closed), Some(Failed)]),
        ];
        assert_eq!(table.map(|(state, _)| state), WriterState::ALL);
        for (state, row) in table {
            for (event, expected) in events.into_iter().zip(row) {
                assert_eq!(state.after(event), expected, "{state:?} on {event:?}");
            }
        }
    }

    #[test]
    fn replaying_ends_behind_the_watermark() {
        let replaying = RowState::Replaying { watermark: 9 };
        assert_eq!(replaying.of(0), replaying);
        assert_eq!(replaying.of(9), replaying);
        assert_eq!(replaying.of(10), RowState::Filling);
        assert_eq!(RowState::Filling.of(3), RowState::Filling);
    }
}
