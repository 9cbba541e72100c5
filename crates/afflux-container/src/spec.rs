//! What a file shall contain, before anything of it exists.

use crate::point_source::{PointRow, PointSource};
use std::ops::ControlFlow;

/// The type of a variable's values, little-endian in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// 32-bit IEEE float.
    F32,
    /// 64-bit IEEE float.
    F64,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
}

impl ElementType {
    /// Bytes of one value.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// The fill value, little-endian, in the first [`ElementType::bytes`] of the array: netCDF's default for the type, which
    /// is also a variable's `_FillValue`. A reader that meets a file as it grows may fill `time` and `step` up with it.
    #[must_use]
    pub fn fill_value_bytes(self) -> [u8; 8] {
        let narrow = |bytes: [u8; 4]| [bytes[0], bytes[1], bytes[2], bytes[3], 0, 0, 0, 0];
        match self {
            Self::F32 => narrow(FILL_F32.to_le_bytes()),
            Self::F64 => FILL_F64.to_le_bytes(),
            Self::I32 => narrow(FILL_I32.to_le_bytes()),
            Self::I64 => FILL_I64.to_le_bytes(),
        }
    }
}

/// `NC_FILL_FLOAT` of netcdf.h.
pub const FILL_F32: f32 = 9.969_21e36;
/// `NC_FILL_DOUBLE`.
pub const FILL_F64: f64 = 9.969_209_968_386_869e36;
/// `NC_FILL_INT`.
pub const FILL_I32: i32 = -2_147_483_647;
/// `NC_FILL_INT64`.
pub const FILL_I64: i64 = -9_223_372_036_854_775_806;

/// A quantity sampled at every point of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableSpec {
    /// Name of the dataset.
    pub name: String,
    /// Type of the values.
    pub element: ElementType,
    /// Length of the component dimension; `None` where there is no such dimension.
    pub components: Option<u32>,
    /// Units in UDUNITS notation; empty where not given (no attribute is written).
    pub units: String,
    /// A description for people.
    pub long_name: Option<String>,
    /// A CF standard name.
    pub standard_name: Option<String>,
}

impl VariableSpec {
    /// Values a point and step.
    #[must_use]
    pub fn values(&self) -> usize {
        self.components.map_or(1, |components| components as usize)
    }
    /// Bytes a point and step.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.values() * self.element.bytes()
    }
}

/// The points of a set in file order (ascending id); all vectors are indexed by position and equally long.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PointTable {
    /// Global ids, strictly ascending.
    pub ids: Vec<i64>,
    /// Coordinates in the file's length units.
    pub x: Vec<f64>,
    /// See `x`.
    pub y: Vec<f64>,
    /// See `x`.
    pub z: Vec<f64>,
    /// Names, unique within the set.
    pub names: Vec<String>,
}

impl PointTable {
    /// Number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }
    /// Whether there is no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

impl PointSource for PointTable {
    fn count(&self) -> u64 {
        self.len() as u64
    }

    fn visit(&self, see: &mut dyn FnMut(PointRow<'_>) -> ControlFlow<()>) {
        for (index, name) in self.names.iter().enumerate() {
            let at = [self.x[index], self.y[index], self.z[index]];
            if see(PointRow { id: self.ids[index], at, name: Some(name) }).is_break() {
                break;
            }
        }
    }
}

/// A set: points with common variables and cadence. The set named `""` lives in the root group, others in the group of their name.
#[derive(Debug, Clone, PartialEq)]
pub struct SetSpec {
    /// Name of the set.
    pub name: String,
    /// Its points.
    pub points: PointTable,
    /// Its variables, in file order.
    pub variables: Vec<VariableSpec>,
    /// A row every so many simulation steps.
    pub cadence_steps: u64,
    /// Rows in a column of chunks (T).
    pub chunk_steps: u64,
}

/// Everything decided before the file is created.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSpec {
    /// The sets, in file order.
    pub sets: Vec<SetSpec>,
    /// Units of the `time` variables: `"s"`, or `"seconds since ..."` where the user gives an epoch.
    pub time_units: String,
    /// Units of the coordinates, `"m"` as a rule.
    pub length_units: String,
    /// Global attributes of the user's (name, text), in order.
    pub attributes: Vec<(String, String)>,
    /// Whole-chunk target in bytes; a chunk is at most about this large.
    pub chunk_bytes: u64,
}

impl FileSpec {
    /// The tables of the sets' points.
    pub(crate) fn tables(&self) -> Vec<&dyn PointSource> {
        self.sets.iter().map(|set| &set.points as &dyn PointSource).collect()
    }
}
