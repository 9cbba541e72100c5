//! How windows reach the file: directly, or by exchange with aggregators. Decided from the layout of all ranks' points.

use afflux_collective::{Path, Toggle};

/// A rank whose contiguous pieces are this long on average writes them itself: an exchange would copy every byte once more to
/// save system calls that cost little beside the copy.
const INDEPENDENT_PIECE_BYTES: u64 = 32 << 10;

/// A rank with so few pieces a column writes them as they are: the calls cost less than the messages of an exchange. (Measured
/// on thread ranks and a local file system, from 24 ranks with 128 points to 768 with 4,096: directly 5, 42, 228 ms for a
/// run, by exchange 9, 52, 280 ms.)
const INDEPENDENT_PIECES: u64 = 16;

/// What the user says about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub choice: Option<Path>,
    pub collective_write: Toggle,
}

impl Route {
    /// The path for a layout: `[bytes, pieces, pieces of the rank with the most]` of one column of every set over all ranks.
    pub fn path(self, [bytes, pieces, pieces_max]: [u64; 3]) -> Path {
        let direct = match self.collective_write {
            Toggle::Enable => false,
            Toggle::Disable => true,
            _ => pieces_max <= INDEPENDENT_PIECES || bytes / pieces.max(1) >= INDEPENDENT_PIECE_BYTES,
        };
        self.choice.unwrap_or(if direct { Path::Independent } else { Path::TwoPhase })
    }
}
