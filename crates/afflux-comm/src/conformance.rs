//! The suite that every communicator must pass.
//!
//! [`run_all`] is collective: all ranks of the communicator call it. It panics with what was expected and found; under
//! MPI let the panic end the process, so that the launcher ends the others. Adapters run it on 1, 2, 3, 4, 7 ranks.
//!
//! Every check works on any number of ranks. Bytes come from [`pattern`], so that a message that lands at the wrong
//! place, or is cut, or is that of an earlier call, is noticed.

mod collectives;
mod failures;
mod groups;
mod memory;
mod messages;
mod mixed;
mod pending;
mod verdicts;

use crate::Communicator;

/// How much to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Length of the long messages in bytes.
    pub long_bytes: usize,
    /// How many consecutive calls where order matters.
    pub repetitions: usize,
}

impl Default for Effort {
    fn default() -> Self {
        // Beyond every eager limit, and not a multiple of a page.
        Self { long_bytes: (1 << 20) + 5, repetitions: 30 }
    }
}

/// Collective: every check.
///
/// # Panics
/// When the communicator breaks its contract.
pub fn run_all(comm: &dyn Communicator, effort: Effort) {
    run_basic(comm);
    messages::run(comm, effort);
    collectives::run_long(comm, effort);
    pending::run_long(comm, effort);
    groups::run(comm);
    verdicts::run(comm);
    mixed::run(comm, effort.repetitions);
}

/// Collective: what becomes of ranks that wait when another fails, leaves or makes another call.
///
/// # Panics
/// When the communicator breaks its contract.
pub fn run_failures(comm: &dyn Communicator) {
    failures::run(comm);
}

/// Collective: one call of each kind with small messages, for very many ranks.
///
/// # Panics
/// When the communicator breaks its contract.
pub fn run_basic(comm: &dyn Communicator) {
    assert!(comm.rank() < comm.size(), "rank {} of {}", comm.rank(), comm.size());
    collectives::run(comm);
    pending::run(comm);
    messages::ring(comm);
    groups::node_map(comm);
    memory::run(comm);
}

/// Collective: one broadcast and one exchange of `bytes` (meant for 2 GiB and more) between rank 0 and the last rank.
///
/// Needs about three times `bytes` of memory.
///
/// # Panics
/// When the communicator breaks its contract.
pub fn run_huge(comm: &dyn Communicator, bytes: usize) {
    collectives::huge_broadcast(comm, bytes);
    messages::huge_exchange(comm, bytes);
}

/// `length` bytes that depend on who sends to whom and in which call.
#[must_use]
pub fn pattern(source: usize, destination: usize, call: usize, length: usize) -> Vec<u8> {
    let mut state = (source as u64) << 40 ^ (destination as u64) << 20 ^ call as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        // splitmix64: each step is cheap and all bits change.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Asserts that bytes are as expected without printing megabytes.
#[track_caller]
fn assert_bytes(found: &[u8], expected: &[u8], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    if found == expected {
        return;
    }
    if let Some(at) = (0..found.len()).find(|&at| found[at] != expected[at]) {
        panic!("{what}: byte {at} of {} is {:#x}, not {:#x}", found.len(), found[at], expected[at]);
    }
}
