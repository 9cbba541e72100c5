//! What the file consists of, decided before HDF5 hears of it: groups, dimensions, datasets, attributes.
//!
//! Pure: a function from [`FileSpec`] to a description that `create` carries out. The shape follows netCDF-4 (every dimension
//! is an HDF5 dimension scale) and the discrete sampling geometries of the CF conventions 1.11 (chapter 9, time series).

use crate::spec::{FILL_F32, FILL_F64, FILL_I32, FILL_I64};
use crate::{DatasetIndex, ElementType, FileSpec, PointSource, SetGeometry, SetSpec, VariableSpec};

/// Version of the file format, in the attribute `format_version` of the group `afflux`.
pub(crate) const FORMAT_VERSION: i32 = 1;
/// The bookkeeping group.
pub(crate) const BOOKKEEPING: &str = "afflux";
/// The dataset of seal slots.
pub(crate) const SEAL: &str = "seal";
/// The dataset of column checksums.
pub(crate) const COLUMN_CHECKSUM: &str = "column_checksum";

/// Types of datasets and attributes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileType {
    Element(ElementType),
    U64,
    /// Variable-length UTF-8.
    Text,
    /// What netCDF gives dimensions that have no variable: big-endian 32-bit float, never written.
    Dimension,
}

/// Values of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// A fixed-length string.
    Text(String),
    /// An array of variable-length strings.
    Texts(Vec<String>),
    /// One number, in an array of one element as netCDF writes them.
    F32(f32),
    F64(f64),
    I32(i32),
    I64(i64),
}

/// First contents of a dataset.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    None,
    U64(&'a [u64]),
    /// The contents of datasets of other files; the dataset has none of its own.
    Virtual(&'a [VirtualPart]),
    /// The step of every row.
    Steps(&'a [i64]),
    /// The time of every row.
    Times(&'a [f64]),
    /// Something of every point of a set; its datasets come together, in the order of [`PointField::ALL`].
    Points(PointField, &'a dyn PointSource),
}

/// What a dataset has of every point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointField {
    Id,
    /// Along x, y or z.
    Coordinate(usize),
    Name,
}

impl PointField {
    /// In the order of their datasets.
    pub(crate) const ALL: [Self; 5] =
        [Self::Id, Self::Coordinate(0), Self::Coordinate(1), Self::Coordinate(2), Self::Name];
}

/// What a virtual dataset shows of one dataset of another file: all its points and so many rows as the virtual dataset has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VirtualPart {
    /// Name of the file, relative to the folder of the virtual dataset's.
    pub file: String,
    /// Path of the dataset within it.
    pub dataset: String,
    /// Points of that dataset; the strides hold as many.
    pub points: u64,
    /// Where these points stand in the virtual dataset, ascending.
    pub strides: Vec<Stride>,
}

/// Positions at equal distances: `count` blocks of `block` positions each, `stride` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stride {
    pub start: u64,
    pub stride: u64,
    pub count: u64,
    pub block: u64,
}

/// A dimension of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dimension {
    pub name: String,
    pub length: u64,
    pub unlimited: bool,
    /// Index in the group's datasets of the dimension scale.
    pub scale: usize,
}

/// A dataset of a group.
#[derive(Debug, Clone)]
pub(crate) struct Dataset<'a> {
    pub name: String,
    pub file_type: FileType,
    /// Indices in the group's dimensions.
    pub dimensions: Vec<usize>,
    /// Shape of its chunks; contiguous without.
    pub chunk: Option<Vec<u64>>,
    pub content: Content<'a>,
    pub attributes: Vec<(&'static str, Value)>,
    /// The role in its set, if it grows.
    pub grows: Option<DatasetIndex>,
}

/// A group; the one named `""` is the root.
#[derive(Debug, Clone)]
pub(crate) struct Group<'a> {
    pub name: String,
    pub attributes: Vec<(String, Value)>,
    pub dimensions: Vec<Dimension>,
    pub datasets: Vec<Dataset<'a>>,
    /// The set it holds.
    pub set: Option<usize>,
}

/// What lies in the root group whatever the sets are: the global attributes.
pub(crate) fn global_attributes(spec: &FileSpec) -> Vec<(String, Value)> {
    [("Conventions", "CF-1.11"), ("featureType", "timeSeries")]
        .into_iter()
        .map(|(name, text)| (name.to_owned(), Value::Text(text.to_owned())))
        .chain(spec.attributes.iter().map(|(name, text)| (name.clone(), Value::Text(text.clone()))))
        .collect()
}

/// The group of a set with these points; the table in `spec` is not looked at.
pub(crate) fn set_group<'a>(
    spec: &'a FileSpec,
    index: usize,
    points: &'a dyn PointSource,
    geometry: &SetGeometry,
) -> Group<'a> {
    let set = &spec.sets[index];
    let mut group = Group {
        name: set.name.clone(),
        attributes: if set.name.is_empty() { global_attributes(spec) } else { Vec::new() },
        dimensions: Vec::new(),
        datasets: Vec::new(),
        set: Some(index),
    };
    let point = add_dimension(&mut group, "point", geometry.points, false);
    let time = add_dimension(&mut group, "time", 0, true);
    for variable in &set.variables {
        if let Some(length) = variable.components {
            component_dimension(&mut group, length);
        }
    }
    add_coordinates(&mut group, spec, points, point);
    add_clock(&mut group, spec, set, time);
    for (number, variable) in set.variables.iter().enumerate() {
        let dataset = variable_dataset(&mut group, variable, number, geometry, point, time);
        group.datasets.push(dataset);
    }
    add_pure_scales(&mut group);
    group
}

/// The bookkeeping group. `columns_per_chunk` and `sets_per_chunk` shape the chunks of the checksums.
pub(crate) fn bookkeeping_group<'a>(spec: &FileSpec, chunk: (u64, u64), seal: &'a [u64]) -> Group<'a> {
    let mut group = Group {
        name: BOOKKEEPING.into(),
        attributes: vec![
            ("format_version".into(), Value::I32(FORMAT_VERSION)),
            ("sets".into(), Value::Texts(spec.sets.iter().map(|set| set.name.clone()).collect())),
        ],
        dimensions: Vec::new(),
        datasets: Vec::new(),
        set: None,
    };
    let set = add_dimension(&mut group, "set", spec.sets.len() as u64, false);
    let column = add_dimension(&mut group, "column", 0, true);
    let slot = add_dimension(&mut group, "slot", 2, false);
    let word = add_dimension(&mut group, "word", 2, false);
    let seal_word = add_dimension(&mut group, "seal_word", 8, false);
    let (sets_per_chunk, columns_per_chunk) = chunk;
    group.datasets.push(Dataset {
        name: COLUMN_CHECKSUM.into(),
        file_type: FileType::U64,
        dimensions: vec![set, column, slot, word],
        chunk: Some(vec![sets_per_chunk, columns_per_chunk, 2, 2]),
        content: Content::None,
        attributes: vec![text("units", "1"), text("long_name", "rows and checksum of each column, two slots")],
        grows: None,
    });
    group.datasets.push(Dataset {
        name: SEAL.into(),
        file_type: FileType::U64,
        dimensions: vec![slot, seal_word],
        chunk: None,
        content: Content::U64(seal),
        attributes: Vec::new(),
        grows: None,
    });
    add_pure_scales(&mut group);
    group
}

/// netCDF's default fill values (`NC_FILL_*` of netcdf.h).
pub(crate) fn fill_value(element: ElementType) -> Value {
    match element {
        ElementType::F32 => Value::F32(FILL_F32),
        ElementType::F64 => Value::F64(FILL_F64),
        ElementType::I32 => Value::I32(FILL_I32),
        ElementType::I64 => Value::I64(FILL_I64),
    }
}

/// The text by which netCDF knows a dimension without a variable.
pub(crate) fn pure_dimension_text(length: u64) -> String {
    format!("This is a netCDF dimension but not a netCDF variable.{length:10}")
}

/// Marks a dimension whose scale is not there yet.
const NO_SCALE: usize = usize::MAX;

fn add_dimension(group: &mut Group<'_>, name: &str, length: u64, unlimited: bool) -> usize {
    group.dimensions.push(Dimension { name: name.into(), length, unlimited, scale: NO_SCALE });
    group.dimensions.len() - 1
}

/// One dimension for each distinct number of components.
fn component_dimension(group: &mut Group<'_>, length: u32) -> usize {
    let name = component_dimension_name(length);
    match group.dimensions.iter().position(|dimension| dimension.name == name) {
        Some(index) => index,
        None => add_dimension(group, &name, u64::from(length), false),
    }
}

/// Name of the dimension of `length` components.
pub(crate) fn component_dimension_name(length: u32) -> String {
    format!("component_{length}")
}

fn text(name: &'static str, value: &str) -> (&'static str, Value) {
    (name, Value::Text(value.to_owned()))
}

/// Ids, coordinates and names of the points.
fn add_coordinates<'a>(group: &mut Group<'a>, spec: &FileSpec, points: &'a dyn PointSource, point: usize) {
    let mut add = |name: &str, file_type, field, attributes| {
        group.datasets.push(Dataset {
            name: name.into(),
            file_type,
            dimensions: vec![point],
            chunk: None,
            content: Content::Points(field, points),
            attributes,
            grows: None,
        });
    };
    let i64_type = FileType::Element(ElementType::I64);
    add("point", i64_type, PointField::Id, vec![text("long_name", "identifier of the point")]);
    for (number, (name, axis)) in [("x", "X"), ("y", "Y"), ("z", "Z")].into_iter().enumerate() {
        let mut attributes =
            vec![text("axis", axis), ("long_name", Value::Text(format!("{name} coordinate of the point")))];
        if !spec.length_units.is_empty() {
            attributes.insert(0, text("units", &spec.length_units));
        }
        if axis == "Z" {
            // CF 4.3 asks it of every vertical coordinate that is no pressure.
            attributes.push(text("positive", "up"));
        }
        add(name, FileType::Element(ElementType::F64), PointField::Coordinate(number), attributes);
    }
    let attributes = vec![text("cf_role", "timeseries_id"), text("long_name", "name of the point")];
    add("point_name", FileType::Text, PointField::Name, attributes);
    group.dimensions[point].scale = 0;
}

/// `time`, which is the scale, and `step`.
fn add_clock(group: &mut Group<'_>, spec: &FileSpec, set: &SetSpec, time: usize) {
    let mut attributes = vec![text("axis", "T"), text("units", &spec.time_units), text("standard_name", "time")];
    attributes.push(text("long_name", "simulation time"));
    if spec.time_units.contains(" since ") {
        attributes.push(text("calendar", "standard"));
    }
    group.dimensions[time].scale = group.datasets.len();
    let cadence = Value::I64(i64::try_from(set.cadence_steps).unwrap_or(i64::MAX));
    let step_attributes = vec![text("units", "1"), text("long_name", "simulation step"), ("cadence_steps", cadence)];
    for (name, element, role, attributes) in [
        ("time", ElementType::F64, DatasetIndex::Time, attributes),
        ("step", ElementType::I64, DatasetIndex::Step, step_attributes),
    ] {
        group.datasets.push(Dataset {
            name: name.into(),
            file_type: FileType::Element(element),
            dimensions: vec![time],
            chunk: Some(vec![set.chunk_steps]),
            content: Content::None,
            attributes,
            grows: Some(role),
        });
    }
}

fn variable_dataset<'a>(
    group: &mut Group<'a>,
    variable: &VariableSpec,
    number: usize,
    geometry: &SetGeometry,
    point: usize,
    time: usize,
) -> Dataset<'a> {
    let mut dimensions = vec![point];
    let mut chunk = vec![geometry.points_per_chunk[number]];
    if let Some(length) = variable.components {
        dimensions.push(component_dimension(group, length));
        chunk.push(u64::from(length));
    }
    dimensions.push(time);
    chunk.push(geometry.chunk_steps);
    let mut attributes = vec![("_FillValue", fill_value(variable.element))];
    if !variable.units.is_empty() {
        attributes.push(text("units", &variable.units));
    }
    // CF wants a long or a standard name of every variable.
    let long_name = variable.long_name.as_ref().or(variable.standard_name.is_none().then_some(&variable.name));
    if let Some(long_name) = long_name {
        attributes.push(text("long_name", long_name));
    }
    if let Some(standard_name) = &variable.standard_name {
        attributes.push(text("standard_name", standard_name));
    }
    attributes.push(text("coordinates", "x y z point_name"));
    Dataset {
        name: variable.name.clone(),
        file_type: FileType::Element(variable.element),
        dimensions,
        chunk: Some(chunk),
        content: Content::None,
        attributes,
        grows: Some(DatasetIndex::Variable(number)),
    }
}

/// A scale for each dimension that has no variable of its name.
fn add_pure_scales(group: &mut Group<'_>) {
    for index in 0..group.dimensions.len() {
        if group.dimensions[index].scale != NO_SCALE {
            continue;
        }
        group.dimensions[index].scale = group.datasets.len();
        let Dimension { name, unlimited, .. } = &group.dimensions[index];
        group.datasets.push(Dataset {
            name: name.clone(),
            file_type: FileType::Dimension,
            dimensions: vec![index],
            // An unlimited one must be chunked; it never gets a chunk.
            chunk: unlimited.then(|| vec![1024]),
            content: Content::None,
            attributes: Vec::new(),
            grows: None,
        });
    }
}
