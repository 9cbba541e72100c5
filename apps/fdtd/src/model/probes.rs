//! The probe sets of a model, as data; `crate::probes` places their points into cells.

use std::path::PathBuf;

use serde::Deserialize;

use crate::grid::Component;

/// Probes with common fields and cadence. Exactly one of `points`, `grid`, `stations` says where they are.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeSetModel {
    /// Name of the set; the empty name is the main set.
    #[serde(default)]
    pub name: String,
    /// A list.
    pub points: Option<Vec<PointModel>>,
    /// Counts along x, y, z, spread evenly: `[8, 8, 16]` or `"8x8x16"`.
    pub grid: Option<GridCounts>,
    /// The part of the domain that `grid` fills, metres; all of it when left out.
    pub region: Option<RegionModel>,
    /// A text file of lines `name x y z` ([`afflux::parse_stations`]), relative to the model file.
    pub stations: Option<PathBuf>,
    /// What is sampled, in the order of the columns.
    pub fields: Vec<Component>,
    /// Type of the samples.
    #[serde(default, rename = "type")]
    pub sample_type: SampleType,
    /// A row every so many steps.
    #[serde(default = "default_every")]
    pub every: u64,
    /// What becomes of points outside the domain.
    #[serde(default)]
    pub outside: Outside,
    /// The points of the `stations` file, read when the model is.
    #[serde(skip)]
    pub station_points: Vec<PointModel>,
}

fn default_every() -> u64 {
    1
}

/// One point of a list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointModel {
    /// Its name, unique in the set; `p` and its number from 0 when left out.
    pub name: Option<String>,
    /// Metres.
    pub x: f64,
    /// Metres.
    pub y: f64,
    /// Metres.
    pub z: f64,
}

/// A part of the domain.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionModel {
    /// Lower corner, metres.
    pub min: [f64; 3],
    /// Upper corner, metres.
    pub max: [f64; 3],
}

/// Counts along x, y, z.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected counts such as [8, 8, 16] or \"8x8x16\"")]
pub enum GridCounts {
    /// `[8, 8, 16]`.
    List([u64; 3]),
    /// `"8x8x16"`.
    Text(String),
}

impl GridCounts {
    /// Along x, y, z; `None` where the text is not three numbers with `x` between them.
    #[must_use]
    pub fn each(&self) -> Option<[u64; 3]> {
        match self {
            Self::List(counts) => Some(*counts),
            Self::Text(text) => {
                let counts: Vec<u64> = text.split('x').map(|n| n.trim().parse().ok()).collect::<Option<_>>()?;
                counts.try_into().ok()
            }
        }
    }
}

/// Type of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SampleType {
    /// As computed.
    #[default]
    F64,
    /// Rounded to the nearest.
    F32,
}

/// What becomes of points outside the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outside {
    /// The run is refused; the points are named.
    #[default]
    Error,
    /// They are left out; the points are named. The others keep their ids.
    Warn,
}
