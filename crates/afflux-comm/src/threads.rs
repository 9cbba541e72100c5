//! Ranks that are threads of one process.
//!
//! [`run`] starts the ranks, gives each its own [`ThreadCommunicator`] and returns their results in rank order. It is
//! the default of the embedded use and needs no MPI. It stands more ranks than a machine has cores (1,536 are tested):
//! a rank that waits sleeps in the kernel, after a short spin only where every rank has a core of its own.
//!
//! Three mechanisms carry all calls:
//!
//! * `calls`: the calls that not all ranks have entered yet. Each rank leaves its part, the last to enter, or the root,
//!   publishes the result, and whoever needs it picks it up: it sleeps at most once a call. Ranks that disagree about a
//!   call are told so.
//! * `port`: the messages that lie before a rank. `exchange` leaves only a reference to the sender's slices there, and
//!   the receiver copies straight from them: a single copy.
//! * leaving: dropping a handle, by return or by panic, marks the rank as gone in that communicator. Whoever waits for
//!   it, now or later, gets [`CommError::PeerLeft`](crate::CommError::PeerLeft), never a hang; and a call that fails on
//!   one rank ends the waits of all.
//!
//! Nothing here knows of files or samples.

mod calls;
mod communicator;
mod gate;
mod group;
mod port;
mod reduction;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

pub use communicator::ThreadCommunicator;
use group::Group;

use crate::NodeMap;

/// Stack of a rank in bytes when there are few ranks: as much as a main thread has.
const STACK_BYTES_FEW: usize = 8 << 20;
/// Stack of a rank in bytes when there are many: 1,536 of them reserve 1.5 GiB of addresses and touch little of it.
const STACK_BYTES_MANY: usize = 1 << 20;
/// Up to here ranks count as few.
const FEW_RANKS: usize = 64;

/// Why ranks did not all run to their end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The system gave no thread to a rank.
    #[error("cannot start the thread of rank {rank}: {source}")]
    Spawn {
        /// The rank that did not start.
        rank: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A rank panicked; the one that panicked first, where several did.
    #[error("rank {rank} panicked: {message}")]
    Panicked {
        /// The rank that panicked.
        rank: usize,
        /// Its message, where it is text.
        message: String,
        /// The payload of its panic.
        payload: Box<dyn Any + Send>,
    },
}

/// Runs `body` on `ranks` threads of this process, all on one node, and returns their results, indexed by rank.
///
/// Returns after every rank has ended.
///
/// # Panics
/// When `ranks` is 0, when a thread cannot be started and, with the payload of the first rank that panicked, when one
/// did ([`try_run`] returns these as errors).
pub fn run<T: Send>(ranks: usize, body: impl Fn(ThreadCommunicator) -> T + Sync) -> Vec<T> {
    run_on_nodes(&vec![0; ranks], body)
}

/// As [`run`], on made-up nodes: `node_of_rank[r]` is any number that ranks of one node share.
///
/// # Panics
/// As [`run`].
pub fn run_on_nodes<T: Send>(node_of_rank: &[u32], body: impl Fn(ThreadCommunicator) -> T + Sync) -> Vec<T> {
    match try_run_on_nodes(node_of_rank, body) {
        Ok(results) => results,
        Err(RunError::Panicked { payload, .. }) => resume_unwind(payload),
        Err(error) => panic!("{error}"),
    }
}

/// As [`run`], with errors instead of panics.
///
/// # Errors
/// [`RunError`]; the results of the other ranks are dropped.
///
/// # Panics
/// When `ranks` is 0.
pub fn try_run<T: Send>(ranks: usize, body: impl Fn(ThreadCommunicator) -> T + Sync) -> Result<Vec<T>, RunError> {
    try_run_on_nodes(&vec![0; ranks], body)
}

/// As [`run_on_nodes`], with errors instead of panics.
///
/// # Errors
/// [`RunError`]; the results of the other ranks are dropped.
///
/// # Panics
/// When `node_of_rank` is empty.
pub fn try_run_on_nodes<T: Send>(
    node_of_rank: &[u32],
    body: impl Fn(ThreadCommunicator) -> T + Sync,
) -> Result<Vec<T>, RunError> {
    let ranks = node_of_rank.len();
    assert!(ranks > 0, "a communicator has at least one rank");
    let stack_bytes = if ranks <= FEW_RANKS { STACK_BYTES_FEW } else { STACK_BYTES_MANY };
    let group = Group::world(NodeMap::from_labels(node_of_rank));
    let body = &body;
    let mut spawn_failure = None;
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(ranks);
        for comm in ThreadCommunicator::all_of(&group) {
            // After a failure the handles of the ranks that never started are dropped here, so that the ranks already
            // running learn that these have left.
            if spawn_failure.is_some() {
                continue;
            }
            let rank = threads.len();
            let thread = std::thread::Builder::new().name(format!("rank {rank}")).stack_size(stack_bytes);
            match thread.spawn_scoped(scope, move || catch_unwind(AssertUnwindSafe(|| body(comm)))) {
                Ok(thread) => threads.push(thread),
                Err(source) => spawn_failure = Some(RunError::Spawn { rank, source }),
            }
        }
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(Err)).collect()
    });
    if let Some(failure) = spawn_failure {
        return Err(failure);
    }
    collect_results(outcomes, group.first_panicked())
}

/// The results in rank order, or the panic to report: of `first_panicked` where it is known, else of the lowest rank.
fn collect_results<T>(
    outcomes: Vec<std::thread::Result<T>>,
    first_panicked: Option<usize>,
) -> Result<Vec<T>, RunError> {
    let mut results = Vec::with_capacity(outcomes.len());
    let mut panicked: Option<(usize, Box<dyn Any + Send>)> = None;
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(result) => results.push(result),
            Err(payload) if panicked.is_none() || first_panicked == Some(rank) => panicked = Some((rank, payload)),
            Err(_) => {}
        }
    }
    match panicked {
        None => Ok(results),
        Some((rank, payload)) => Err(RunError::Panicked { rank, message: panic_message(&*payload), payload }),
    }
}

/// Some of `ranks`, in words.
fn names_of(ranks: impl Iterator<Item = usize> + Clone) -> String {
    let names: Vec<_> = ranks.clone().take(8).map(|rank| rank.to_string()).collect();
    let more = ranks.count() - names.len();
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("rank {}{tail}", names.join(", "))
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a text".to_owned()
    }
}
