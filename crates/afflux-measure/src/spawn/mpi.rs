//! Processes that MPI starts: what is asked of rank 0 of a job, and what it answers.

use serde::{Deserialize, Serialize};
use std::io;

/// Processes to start at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// How many.
    pub count: usize,
    /// Whether by `MPI_Comm_spawn_multiple`, as so many commands, instead of `MPI_Comm_spawn`.
    pub separately: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spawned {
    /// From the call until the first byte of the last one had arrived.
    pub seconds: f64,
    /// Where each of them is.
    pub landings: Vec<Landing>,
}

/// Where a process is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Landing {
    /// Name of the machine.
    pub host: String,
    /// Processor at that moment.
    pub processor: usize,
}

impl Landing {
    /// Of this process.
    ///
    /// # Errors
    /// What the system says.
    pub fn here() -> io::Result<Self> {
        let host = nix::sys::utsname::uname()?.nodename().to_string_lossy().into_owned();
        Ok(Self { host, processor: nix::sched::sched_getcpu()? })
    }
}
