//! A 3-D solver for Maxwell's equations that hands its probe samples to Afflux as any simulation code would.
//!
//! The scheme is Yee's (IEEE Trans. Antennas Propag. 14, 1966): E at whole steps on the edges of the cells, H at half
//! steps on their faces, leapfrog in time. Outer faces are perfect conductors or convolutional PMLs (Roden and Gedney,
//! Microw. Opt. Technol. Lett. 27, 2000). The grid is split into boxes of cells over the ranks of a
//! [`Communicator`](comm::Communicator); fields, samples and energies are bit for bit the same for any number of ranks.
//!
//! - [`Model`]: what to simulate, read from TOML and checked before anything is allocated;
//! - [`Simulation`]: the fields of this rank, stepped together with the other ranks;
//! - [`Simulation::save`] and [`Simulation::restart`]: checkpoints that any number of ranks reads;
//! - [`run`]: the loop that steps a simulation and gives due rows to a [`Sampler`];
//! - [`record`]: the same into a netCDF-4 file, through the public interface of Afflux and nothing else.
//!
//! Everything is in SI units.

use afflux::comm;

mod checkpoint;
mod coefficients;
mod cpml;
mod energy;
mod error;
mod exact_sum;
mod fields;
mod grid;
mod halo;
mod layout;
mod migrate;
pub mod model;
mod probes;
mod record;
mod run;
mod simulation;
mod source;
mod state;

pub use checkpoint::{CheckpointError, Saved, check_writable};
pub use error::{ModelError, RunError, SimulationError};
pub use grid::{Component, Grid};
pub use layout::{Block, Layout};
pub use model::Model;
pub use probes::{Column, Placement, ProbePoint, Row};
pub use record::{RecordError, RecordOptions, Recorded, SampleError, record};
pub use run::{CheckpointOptions, Progress, RunOptions, RunReport, Sampler, run};
pub use simulation::Simulation;

/// Constants of the vacuum, SI units (CODATA 2018; c is exact).
pub mod constants {
    /// Speed of light, m/s.
    pub const SPEED_OF_LIGHT: f64 = 299_792_458.0;
    /// Permeability, H/m.
    pub const MU_0: f64 = 1.256_637_062_12e-6;
    /// Permittivity, F/m; from c and the permeability, so that the three agree to the last bit that matters.
    pub const EPSILON_0: f64 = 1.0 / (MU_0 * SPEED_OF_LIGHT * SPEED_OF_LIGHT);
    /// Wave impedance, ohm.
    pub const ETA_0: f64 = MU_0 * SPEED_OF_LIGHT;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
