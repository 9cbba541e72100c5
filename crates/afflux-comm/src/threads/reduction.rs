//! A reduction under way among thread ranks, as one of them holds it.

use std::sync::Arc;

use super::calls::{Calls, Entered, Failure, Parts};
use super::group::Group;
use crate::{CommError, PendingReduce, Reduce};

/// The call is entered; what is left is to look whether it is published. The group is kept alive, the rank's handle
/// need not be.
#[derive(Debug)]
pub(super) struct ThreadReduction {
    group: Arc<Group>,
    rank: usize,
    entered: Entered,
}

impl ThreadReduction {
    pub(super) fn new(group: Arc<Group>, rank: usize, entered: Entered) -> Self {
        Self { group, rank, entered }
    }

    fn calls(&self) -> &Calls {
        &self.group.calls
    }

    /// An error spends the group for all.
    fn checked<T>(&self, outcome: Result<T, CommError>) -> Result<T, CommError> {
        outcome.inspect_err(|error| self.group.fail(Failure::of_call(self.rank, error)))
    }
}

fn elements(parts: &Parts) -> Vec<Reduce> {
    parts.elements.clone()
}

impl PendingReduce for ThreadReduction {
    fn test(&mut self) -> Result<Option<Vec<Reduce>>, CommError> {
        if let Some(parts) = self.entered.meeting.published() {
            return Ok(Some(elements(parts)));
        }
        self.checked(self.calls().check(&self.entered))?;
        Ok(None)
    }

    fn complete(&mut self) -> Result<Vec<Reduce>, CommError> {
        self.checked(self.calls().wait(&self.entered).map(elements))
    }

    fn fail(&self, cause: &str) {
        self.group.fail(Failure::given_up(self.rank, cause));
    }
}
