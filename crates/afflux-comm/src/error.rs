//! What can go wrong between ranks.

/// An error of a communicator call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// The layer below (MPI) reported an error.
    #[error("{call} failed on rank {rank}: {message}")]
    Transport {
        /// The call that failed, by its MPI name or ours.
        call: &'static str,
        /// The rank that saw the failure.
        rank: usize,
        /// What the layer below said.
        message: String,
    },
    /// Another rank left (panicked or returned) while this one waited for it.
    #[error("rank {peer} left the communicator while rank {rank} waited for it in {call}")]
    PeerLeft {
        /// The call that waited.
        call: &'static str,
        /// The rank that waited.
        rank: usize,
        /// The rank that left.
        peer: usize,
    },
    /// Another rank's call on this communicator failed, or it gave the communicator up ([`crate::Communicator::fail`]).
    #[error("rank {peer} failed while rank {rank} was in {call}: {message}")]
    PeerFailed {
        /// The call as this rank saw it.
        call: &'static str,
        /// The rank that was told.
        rank: usize,
        /// The rank that failed.
        peer: usize,
        /// Its error, or the cause that it gave.
        message: String,
    },
    /// Ranks disagree about the collective call or its arguments.
    #[error("ranks disagree in {call}: {message}")]
    Mismatch {
        /// The call as this rank saw it.
        call: &'static str,
        /// Which ranks, and what differed.
        message: String,
    },
    /// The process was started by another MPI's launcher, or the launcher's environment is contradictory.
    #[error("{0}")]
    Launcher(String),
}
