//! One verdict on all ranks.
//!
//! A collective call may fail on one rank alone (a full disk, a bad argument). Before it returns, the ranks agree: if any
//! failed, all return an error that names the lowest failing rank and its message. The good case costs one reduction,
//! which may carry other elements of the caller along.

use crate::{CommError, Communicator, Reduce};

/// The failure that all ranks agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The lowest rank that failed.
    pub rank: usize,
    /// How many ranks failed.
    pub failed_ranks: u64,
    /// A stable code of the caller's choosing, so that every rank can rebuild the same kind of error.
    pub code: u32,
    /// That rank's message.
    pub message: String,
}

/// Collective: reduces `elements` (as [`Communicator::all_reduce`]) and the verdict in one message.
///
/// `outcome` is this rank's part: `Err((code, message))` where it failed. Returns `Ok(Ok(()))` when no rank failed and
/// `Ok(Err(failure))`, the same on all ranks, when any did.
pub fn agree(
    comm: &dyn Communicator,
    outcome: Result<(), (u32, String)>,
    elements: &mut [Reduce],
) -> Result<Result<(), Failure>, CommError> {
    let mut all = Vec::with_capacity(elements.len() + 2);
    all.extend_from_slice(elements);
    all.push(Reduce::sum(u64::from(outcome.is_err())));
    all.push(Reduce::min(if outcome.is_err() { comm.rank() as u64 } else { u64::MAX }));
    comm.all_reduce(&mut all)?;
    let (caller, verdict) = all.split_at(elements.len());
    elements.copy_from_slice(caller);
    let (failed_ranks, lowest) = (verdict[0].value, verdict[1].value);
    if failed_ranks == 0 {
        return Ok(Ok(()));
    }
    let root = usize::try_from(lowest).expect("a rank fits in usize");
    let mut bytes = Vec::new();
    if comm.rank() == root
        && let Err((code, message)) = outcome
    {
        bytes.extend_from_slice(&code.to_le_bytes());
        bytes.extend_from_slice(message.as_bytes());
    }
    comm.broadcast(root, &mut bytes)?;
    let (code, message) = bytes.split_at(4);
    Ok(Err(Failure {
        rank: root,
        failed_ranks,
        code: u32::from_le_bytes(code.try_into().expect("four bytes")),
        message: String::from_utf8_lossy(message).into_owned(),
    }))
}
