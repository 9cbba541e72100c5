//! What to simulate: the model file, its defaults, and the models that come with the crate.
//!
//! A [`Model`] is plain data as read from TOML (`README.md` describes every key); whoever holds one from
//! [`Model::from_toml`] or [`Model::from_file`] may rely on `check.rs` having accepted it. Stations files are read here too,
//! so that a model holds its points and needs no file later. Nothing here communicates: every rank reads the model, or
//! one rank reads the text and broadcasts it.

use std::fmt;
use std::path::Path;

use afflux::Point;
use serde::Deserialize;

use crate::error::ModelError;
use crate::grid::Grid;

mod check;
mod probes;
mod sources;

pub use probes::{GridCounts, Outside, PointModel, ProbeSetModel, RegionModel, SampleType};
pub use sources::{Axis, SourceModel, WaveformModel};

/// The largest model or stations file that is read: 100,000 stations take about 5 MB; more than this is a wrong path.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A whole model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// A line for people.
    #[serde(default)]
    pub title: String,
    /// Time steps of a run.
    pub steps: u64,
    /// Cells and time step.
    pub grid: GridModel,
    /// The outer faces.
    #[serde(default)]
    pub boundaries: BoundariesModel,
    /// The absorbing layers.
    #[serde(default)]
    pub cpml: CpmlModel,
    /// Currents.
    #[serde(default)]
    pub sources: Vec<SourceModel>,
    /// Materials; where boxes overlap the later one counts. All else is vacuum.
    #[serde(default)]
    pub boxes: Vec<BoxModel>,
    /// Probe sets.
    #[serde(default)]
    pub probes: Vec<ProbeSetModel>,
    /// How samples are written.
    #[serde(default)]
    pub output: OutputModel,
    /// Bounds against absurd models.
    #[serde(default)]
    pub limits: LimitsModel,
}

/// Cells, their size, and the time step.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridModel {
    /// Cells along x, y, z.
    pub cells: [u64; 3],
    /// Cell size in metres: one number, or one an axis.
    pub cell_size: Length,
    /// Time step as a fraction of the stability limit; in (0, 1].
    #[serde(default = "default_courant")]
    pub courant: f64,
}

fn default_courant() -> f64 {
    0.99
}

/// One length, or one an axis; metres.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a length in metres, or [dx, dy, dz]")]
pub enum Length {
    /// The same along x, y and z.
    Same(f64),
    /// Along x, y, z.
    Each([f64; 3]),
}

impl Length {
    /// Along x, y, z.
    #[must_use]
    pub fn each(self) -> [f64; 3] {
        match self {
            Self::Same(length) => [length; 3],
            Self::Each(lengths) => lengths,
        }
    }
}

/// What an outer face is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Boundary {
    /// A perfect electric conductor.
    #[default]
    Pec,
    /// Absorbing layers inside the domain, backed by a perfect conductor.
    Cpml,
}

/// The six faces.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoundariesModel {
    /// Faces that are not named.
    pub all: Boundary,
    /// Face at x = 0.
    pub x_min: Option<Boundary>,
    /// Face at the upper end of x.
    pub x_max: Option<Boundary>,
    /// Face at y = 0.
    pub y_min: Option<Boundary>,
    /// Face at the upper end of y.
    pub y_max: Option<Boundary>,
    /// Face at z = 0.
    pub z_min: Option<Boundary>,
    /// Face at the upper end of z.
    pub z_max: Option<Boundary>,
}

impl BoundariesModel {
    /// The faces `[axis][0 lower, 1 upper]`.
    #[must_use]
    pub fn faces(&self) -> [[Boundary; 2]; 3] {
        let named = [[self.x_min, self.x_max], [self.y_min, self.y_max], [self.z_min, self.z_max]];
        named.map(|axis| axis.map(|face| face.unwrap_or(self.all)))
    }
}

/// Grading of the absorbing layers (Roden and Gedney 2000). The defaults suit any cell size.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CpmlModel {
    /// Cells.
    pub thickness: u64,
    /// Order m of the polynomial grading of sigma and kappa.
    pub order: f64,
    /// Largest sigma, as a multiple of the optimum `0.8 (m + 1) / (eta0 d)`.
    pub sigma_factor: f64,
    /// Largest kappa, at least 1.
    pub kappa_max: f64,
    /// Largest alpha (at the inner face of the layers), as a multiple of the optimum sigma.
    pub alpha_factor: f64,
    /// Order of the grading of alpha.
    pub alpha_order: f64,
}

impl Default for CpmlModel {
    fn default() -> Self {
        Self { thickness: 10, order: 3.0, sigma_factor: 0.8, kappa_max: 2.0, alpha_factor: 0.01, alpha_order: 1.0 }
    }
}

/// A box of one material: cells whose centre it holds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxModel {
    /// Lower corner, metres.
    pub min: [f64; 3],
    /// Upper corner, metres.
    pub max: [f64; 3],
    /// Relative permittivity, at least 1.
    #[serde(default = "default_permittivity")]
    pub permittivity: f64,
    /// Conductivity, S/m.
    #[serde(default)]
    pub conductivity: f64,
}

fn default_permittivity() -> f64 {
    1.0
}

/// How samples are written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutputModel {
    /// Simulation steps between flushes.
    pub window_steps: u64,
    /// Rows of a chunk in the file; the writer chooses when left out.
    pub chunk_steps: Option<u64>,
}

impl Default for OutputModel {
    fn default() -> Self {
        Self { window_steps: 100, chunk_steps: None }
    }
}

/// Bounds against damaged or absurd models.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsModel {
    /// Memory for the fields of one rank, GiB.
    pub memory_gib: f64,
}

impl Default for LimitsModel {
    fn default() -> Self {
        Self { memory_gib: 16.0 }
    }
}

/// The models that come with the crate: name and text.
const BUILTIN: [(&str, &str); 3] = [
    ("box", include_str!("../models/box.toml")),
    ("cavity", include_str!("../models/cavity.toml")),
    ("dipole", include_str!("../models/dipole.toml")),
];

impl Model {
    /// Reads and checks a model file; stations files are looked for beside it.
    pub fn from_file(path: &Path) -> Result<Self, ModelError> {
        let text = read_text(path)?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        Self::parse(&text, folder, &path.display())
    }

    /// Reads and checks a model; stations files are looked for in `folder`.
    pub fn from_toml(text: &str, folder: &Path) -> Result<Self, ModelError> {
        Self::parse(text, folder, &"model")
    }

    /// One of [`Self::builtin_names`].
    pub fn builtin(name: &str) -> Result<Self, ModelError> {
        let text = Self::builtin_text(name).ok_or_else(|| ModelError::UnknownBuiltin {
            name: name.to_owned(),
            known: Self::builtin_names().collect::<Vec<_>>().join(", "),
        })?;
        Self::parse(text, Path::new(""), &format_args!("built-in model `{name}`"))
    }

    /// The text of a built-in model.
    #[must_use]
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Names of the built-in models.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// Grid and time step.
    ///
    /// # Panics
    /// If the model was changed so that it no longer passes [`Self::check`].
    #[must_use]
    pub fn grid(&self) -> Grid {
        let cells =
            self.grid.cells.map(|n| usize::try_from(n).expect("a checked model has at most 2^31 cells an axis"));
        Grid::new(cells, self.grid.cell_size.each(), self.grid.courant)
    }

    fn parse(text: &str, folder: &Path, origin: &dyn fmt::Display) -> Result<Self, ModelError> {
        let mut model: Self = toml::from_str(text).map_err(|error| ModelError::Syntax {
            origin: origin.to_string(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        for set in &mut model.probes {
            if let Some(stations) = &set.stations {
                let path = folder.join(stations);
                set.station_points = read_stations(&path)?;
            }
        }
        model.check()?;
        Ok(model)
    }
}

/// The points of a stations file, in the order of its lines.
fn read_stations(path: &Path) -> Result<Vec<PointModel>, ModelError> {
    let points = afflux::parse_stations(&read_text(path)?)
        .map_err(|source| ModelError::Stations { path: path.to_owned(), source })?;
    Ok(points.into_iter().map(|Point { x, y, z, name, .. }| PointModel { name, x, y, z }).collect())
}

/// The text of a file; refuses what is too large to be meant.
fn read_text(path: &Path) -> Result<String, ModelError> {
    let fail = |source| ModelError::Read { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(fail)?.len();
    if bytes > FILE_BYTES_MAX {
        let problem = format!("{bytes} bytes is more than the {FILE_BYTES_MAX} a model or stations file may have");
        return Err(fail(std::io::Error::other(problem)));
    }
    std::fs::read_to_string(path).map_err(fail)
}
