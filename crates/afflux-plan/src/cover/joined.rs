//! The union so far. Pieces and runs come in ascending order of their offsets; touching and overlapping ones become one.
//!
//! Invariant: what is finished ends before the open stretch begins, with at least a byte between them.

use super::{Coverage, Overlap};
use crate::{Extents, Rank, Run};

#[derive(Default)]
pub(super) struct Joined {
    covered: Extents,
    /// Start, end and owner of the last stretch, which may still grow. The owner is the rank whose piece reaches the end.
    open: Option<(u64, u64, Rank)>,
    overlap: Option<Overlap>,
    step_count: u64,
}

impl Joined {
    /// Adds a piece that begins nowhere before the last one did.
    pub(super) fn add(&mut self, offset: u64, length: u64, rank: Rank) {
        self.step_count += 1;
        let end = offset + length;
        let Some((_, open_end, last)) = self.open.as_mut().filter(|open| offset <= open.1) else {
            self.close();
            self.open = Some((offset, end, rank));
            return;
        };
        let overlap = (offset < *open_end).then_some(Overlap { offset, first: *last, second: rank });
        if end > *open_end {
            (*open_end, *last) = (end, rank);
        }
        if let Some(overlap) = overlap {
            self.note(overlap);
        }
    }

    /// Adds a run that begins nowhere before what was added ends.
    pub(super) fn add_run(&mut self, run: Run, rank: Rank) {
        self.add(run.offset, run.length, rank);
        if run.count == 1 {
            return;
        }
        // All pieces but the outermost stand alone: they touch neither one another nor anything else.
        if run.count > 2 {
            self.close();
            let count = run.count - 2;
            let stride = if count == 1 { run.length } else { run.stride };
            self.covered.push_run(Run { offset: run.offset + run.stride, length: run.length, stride, count });
        }
        self.add(run.end() - run.length, run.length, rank);
    }

    /// The lowest overlap counts; of equal ones the first noted.
    pub(super) fn note(&mut self, overlap: Overlap) {
        if self.overlap.is_none_or(|noted| overlap.offset < noted.offset) {
            self.overlap = Some(overlap);
        }
    }

    /// Counts work that added nothing by itself.
    pub(super) fn count(&mut self, steps: u64) {
        self.step_count += steps;
    }

    fn close(&mut self) {
        if let Some((start, end, _)) = self.open.take() {
            self.covered.push(start, end - start);
        }
    }

    pub(super) fn finish(mut self) -> Coverage {
        self.close();
        Coverage { covered: self.covered, overlap: self.overlap, step_count: self.step_count }
    }
}
