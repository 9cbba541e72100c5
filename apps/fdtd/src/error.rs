//! What can go wrong: reading a model, setting a simulation up or stepping it, and running it into a sampler.

use std::path::PathBuf;

use crate::checkpoint::CheckpointError;
use crate::comm::CommError;

/// A model that cannot be used. The message names the key and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The text is not TOML, or has an unknown key or a value of the wrong type; the message shows the line.
    #[error("{origin}: {message}")]
    Syntax {
        /// The file, or the name of the built-in model.
        origin: String,
        /// What the TOML parser says, with line and column.
        message: String,
    },
    /// A value is out of its range or contradicts another.
    #[error("`{key}`: {problem}")]
    Invalid {
        /// The key, as a path from the root of the model.
        key: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A file of the model cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A stations file cannot be understood; the message names the line.
    #[error("{path}: {source}")]
    Stations {
        /// The file.
        path: PathBuf,
        /// What is wrong with which line.
        source: afflux::StationsError,
    },
    /// There is no built-in model of that name.
    #[error("there is no built-in model `{name}`; there are: {known}")]
    UnknownBuiltin {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
}

/// A simulation that could not be set up or stepped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The model is wrong.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Probe points lie outside the domain, and their set says `outside = "error"`.
    #[error(
        "probe set `{set}`: {count} of its points lie outside the domain [0, {}] x [0, {}] x [0, {}] m: {names}; \
         move them, or set `outside = \"warn\"` to leave them out",
        extent_m[0], extent_m[1], extent_m[2]
    )]
    PointsOutside {
        /// Name of the set.
        set: String,
        /// How many points.
        count: usize,
        /// Names and positions of the first of them.
        names: String,
        /// Size of the domain.
        extent_m: [f64; 3],
    },
    /// The fields would take more memory than the model allows or the system gives.
    #[error(
        "rank {rank} needs {needed_bytes} bytes for its fields, {limit}; use more ranks, fewer cells, or raise `limits.memory_gib`"
    )]
    Memory {
        /// The rank.
        rank: usize,
        /// Bytes needed.
        needed_bytes: u64,
        /// Which limit refused it.
        limit: String,
    },
    /// The ranks were given different models.
    #[error("the ranks were given different models; let all read the same file")]
    ModelsDiffer,
    /// Another rank could not set its part up.
    #[error("rank {rank} could not set up its part: {message}")]
    OtherRank {
        /// The lowest rank that failed.
        rank: usize,
        /// Its message.
        message: String,
    },
    /// Ranks could not exchange.
    #[error(transparent)]
    Comm(#[from] CommError),
}

/// A run that stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E: std::error::Error + 'static> {
    /// The solver failed.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A checkpoint could not be written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The sampler refused a row.
    #[error("step {step}: {source}")]
    Sampler {
        /// The step of the row.
        step: u64,
        /// What it said.
        source: E,
    },
}
