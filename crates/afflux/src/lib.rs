//! Aggregated parallel output of sampled simulation data.
//!
//! A parallel simulation watches thousands of points, a few dozen bytes each a step. Afflux keeps the rows of a window of steps in
//! memory, transposes them and writes them collectively into one netCDF-4/HDF5 file that opens at every instant and holds
//! every step exactly once. The method follows Cao and Luo's aggregated I/O of sampled data.
//!
//! ```
//! use afflux::{Point, ProbeSet, SeriesWriter, Variable, comm::threads};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("run.nc");
//! // Four ranks in this process; under MPI the communicator comes from `afflux::comm::mpi`.
//! threads::run(4, |comm| {
//!     let rank = afflux::comm::Communicator::rank(&comm) as i64;
//!     let points = (0..8).map(|k| Point::new(8 * rank + k, k as f64, rank as f64, 0.0));
//!     let set = ProbeSet::new("").points(points).variable(Variable::f64("Ez").units("V m-1"));
//!     let mut run = SeriesWriter::at(&path).set(set).window_steps(100).open(&comm)?;
//!     let probes = run.set("").expect("the set given above");
//!     for step in 0..350 {
//!         let time = step as f64 * 1e-12;
//!         let ez = [time.sin(); 8];
//!         run.append(probes, step, time, &[(&ez).into()])?;
//!     }
//!     run.close()?;
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! })
//! .into_iter()
//! .collect::<Result<(), _>>()
//! # .map_err(|error| error.to_string())?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

pub use afflux_collective::{Hints, Path as WritePath};
pub use afflux_container::{ElementType, PointTable, VariableSpec};
pub use afflux_series::{
    AppendError, Appended, Difference, Duplicates, Durability, Existing, FlushError, GridBlock, LocalPoints,
    MemoryBound, OpenError, Orphans, PhaseSeconds, Point, PointGrid, ProbeSet, RebalanceError, Rebalanced, Replay,
    ResumeCheck, STEP_MAX, SealOnSignal, SeriesBuilder, SeriesWriter, SetId, StationsError, Statistics, Step, Values,
    Variable, parse_stations, read_stations,
};

/// What a writer is doing, and what a rank does with its rows.
pub mod state {
    pub use afflux_series::state::*;
}

/// Ranks and messages.
pub mod comm {
    pub use afflux_comm::*;
}

/// Where files live.
pub mod storage {
    pub use afflux_storage::*;
}

/// Collective reads and writes of one shared file.
pub mod collective {
    pub use afflux_collective::*;
}

/// Reading and repairing files, and the plain-HDF5 writer that benchmarks compare with.
pub mod file {
    pub use afflux_container::*;
}

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
