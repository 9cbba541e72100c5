//! Whether a run fits into this machine's memory, asked before anything is allocated: Linux grants more than it has and kills
//! later, and a capacity beyond the address space ends a process without a word that helps.

use crate::failure::Failure;
use crate::quantity;
use afflux::comm::Communicator;
use afflux_measure::host;

/// Rows that the writer holds besides the window, in blocks being put together: a generous bound.
const STAGED_ROWS: u64 = 50;
/// Bytes of a point in lists and tables, its place and its name: a generous bound.
pub const POINT_BYTES: u64 = 160;

/// Bytes of a window of rows of so many points, and of what the writer needs to bring it into the file.
pub fn window_bytes(points: u128, row_bytes: u64, rows: u64) -> u128 {
    points.saturating_mul(u128::from(row_bytes)).saturating_mul(u128::from(rows) + u128::from(STAGED_ROWS))
}

/// How many of `points`, shared out evenly, the ranks on this rank's node have, rounded up.
pub fn points_on_node(points: u64, comm: &dyn Communicator) -> u128 {
    let nodes = &comm.nodes().node_of_rank;
    let here = nodes.iter().filter(|&&node| node == nodes[comm.rank()]).count();
    (u128::from(points) * here as u128).div_ceil(comm.size() as u128)
}

/// Refuses what needs more memory than this machine has to give; `advice` says what to change. Where the system does not tell
/// what it has, nothing is refused.
pub fn require(needed_bytes: u128, advice: &str) -> Result<(), Failure> {
    match host::memory_available_bytes() {
        Some(available) if needed_bytes > u128::from(available) => Err(Failure::failed(format!(
            "the run needs about {} of memory on this machine, which has {} available; {advice}",
            quantity::bytes(u64::try_from(needed_bytes).unwrap_or(u64::MAX)),
            quantity::bytes(available)
        ))),
        _ => Ok(()),
    }
}
