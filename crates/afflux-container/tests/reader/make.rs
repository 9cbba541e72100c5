//! Makes files with HDF5 alone, following the format's contract by a second, naive hand.

use afflux_container::checksum::{RunPlace, run_checksum};
use afflux_container::{DatasetIndex, ElementType, SEAL_WORDS, slot_checksum};
use hdf5_metno::file::LibraryVersion;
use hdf5_metno::plist::group_create::LinkCreationOrder;
use hdf5_metno::types::{FixedUnicode, VarLenUnicode};
use hdf5_metno::{Dataset, Extent, Extents, File, Group, H5Type, SimpleExtents};
use std::path::Path;

/// A variable of a made file.
#[derive(Clone)]
pub struct MadeVariable {
    pub name: &'static str,
    pub element: ElementType,
    pub components: Option<u32>,
}

/// A set of a made file.
#[derive(Clone)]
pub struct MadeSet {
    pub name: &'static str,
    pub ids: Vec<i64>,
    pub variables: Vec<MadeVariable>,
    pub steps: Vec<i64>,
    pub chunk_steps: usize,
    pub points_per_chunk: usize,
}

/// Two sets of unlike cadence, types and shapes; 25 rows and 7 rows, 9 of the first set's unsealed.
pub fn two_sets() -> Vec<MadeSet> {
    let variable = |name, element, components| MadeVariable { name, element, components };
    vec![
        MadeSet {
            name: "",
            ids: vec![3, 5, 8, 13, 21],
            variables: vec![
                variable("pressure", ElementType::F64, None),
                variable("J", ElementType::F32, Some(3)),
                variable("count", ElementType::I32, None),
            ],
            steps: (0..25).map(|row| row * 4).collect(),
            chunk_steps: 8,
            points_per_chunk: 2,
        },
        MadeSet {
            name: "ground",
            ids: vec![-1, 0],
            variables: vec![variable("tick", ElementType::I64, Some(2))],
            steps: (0..7).map(|row| 5 + row * 10).collect(),
            chunk_steps: 4,
            points_per_chunk: 2,
        },
    ]
}

/// The watermark that goes with [`two_sets`]: 16 rows (steps 0 to 60) of the first set, 6 (5 to 55) of the second.
pub const WATERMARK: u64 = 62;

/// The value of every sample, small enough to be exact in every type.
pub fn value(set: usize, variable: usize, position: usize, component: u32, step: i64) -> u16 {
    let mut word = 17_u64;
    for part in [set as u64, variable as u64, position as u64, u64::from(component), step.unsigned_abs()] {
        word = (word ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
    }
    let [low, high, ..] = word.to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// Time of a step.
pub fn time(step: i64) -> f64 {
    f64::from(u32::try_from(step).expect("small steps")) * 0.5e-12
}

/// Writes a file with these sets, sealed up to `watermark`.
pub fn make(path: &Path, sets: &[MadeSet], watermark: Option<u64>) -> hdf5_metno::Result<()> {
    let file = File::with_options()
        .with_fapl(|list| list.libver_bounds(LibraryVersion::V110, LibraryVersion::V110))
        .with_fcpl(|list| list.link_creation_order(LinkCreationOrder::Indexed))
        .create(path)?;
    file.new_attr_builder().with_data(&[fixed_text("CF-1.11")]).create("Conventions")?;
    let bookkeeping = file.create_group("afflux")?;
    bookkeeping.new_attr::<i32>().create("format_version")?.write_scalar(&1)?;
    let names: Vec<VarLenUnicode> = sets.iter().map(|set| text(set.name)).collect();
    bookkeeping.new_attr_builder().with_data(&names).create("sets")?;
    for (index, set) in sets.iter().enumerate() {
        let group = match set.name {
            "" => file.as_group()?,
            name => file
                .create_group_builder()
                .with_gcpl(|list| list.link_creation_order(LinkCreationOrder::Indexed))
                .create(name)?,
        };
        make_set(&group, index, set)?;
    }
    let sealed: Vec<usize> = sets.iter().map(|set| sealed_rows(set, watermark)).collect();
    make_seal(&bookkeeping, watermark)?;
    make_checksums(&bookkeeping, sets, &sealed)
}

/// Rows of a set that a watermark seals.
pub fn sealed_rows(set: &MadeSet, watermark: Option<u64>) -> usize {
    set.steps.iter().filter(|&&step| watermark.is_some_and(|mark| step.unsigned_abs() <= mark)).count()
}

fn text(text: &str) -> VarLenUnicode {
    text.parse().expect("no zero byte")
}

fn fixed_text(text: &str) -> FixedUnicode<16> {
    text.parse().expect("short")
}

fn make_set(group: &Group, index: usize, set: &MadeSet) -> hdf5_metno::Result<()> {
    let points = set.ids.len();
    let fixed = |name: &str, values: &[f64]| group.new_dataset_builder().with_data(values).create(name);
    group.new_dataset_builder().with_data(&set.ids).create("point")?;
    let positions: Vec<f64> = set.ids.iter().map(|&id| id.to_string().parse().expect("a number")).collect();
    for name in ["x", "y", "z"] {
        let dataset = fixed(name, &positions)?;
        dataset.new_attr_builder().with_data(&[fixed_text("m")]).create("units")?;
    }
    let names: Vec<VarLenUnicode> = set.ids.iter().map(|id| text(&format!("probe \u{e9} {id}"))).collect();
    group.new_dataset_builder().with_data(&names).create("point_name")?;
    group.new_dataset_builder().with_data(&[0.0_f32, 0.0, 0.0]).create("component")?;
    grown(group, "step", &[], set, &set.steps)?;
    let times: Vec<f64> = set.steps.iter().map(|&step| time(step)).collect();
    grown(group, "time", &[], set, &times)?.new_attr_builder().with_data(&[fixed_text("s")]).create("units")?;
    for (number, variable) in set.variables.iter().enumerate() {
        let mut shape = vec![points];
        shape.extend(variable.components.map(|components| usize::try_from(components).expect("few")));
        let values = values(index, set, number, 0..set.steps.len());
        let name = variable.name;
        let dataset = match variable.element {
            ElementType::F32 => grown(group, name, &shape, set, &cast::<f32>(&values))?,
            ElementType::F64 => grown(group, name, &shape, set, &cast::<f64>(&values))?,
            ElementType::I32 => grown(group, name, &shape, set, &cast::<i32>(&values))?,
            ElementType::I64 => grown(group, name, &shape, set, &cast::<i64>(&values))?,
        };
        dataset.new_attr_builder().with_data(&[fixed_text("V m-1")]).create("units")?;
    }
    Ok(())
}

/// A chunked dataset that grows along its last dimension.
fn grown<T: H5Type>(
    group: &Group,
    name: &str,
    fixed: &[usize],
    set: &MadeSet,
    values: &[T],
) -> hdf5_metno::Result<Dataset> {
    let mut extents: Vec<Extent> = fixed.iter().map(|&length| Extent::fixed(length)).collect();
    extents.push(Extent::resizable(set.steps.len()));
    let mut chunk = fixed.to_vec();
    if let Some(points) = chunk.first_mut() {
        *points = set.points_per_chunk;
    }
    chunk.push(set.chunk_steps);
    let dataset =
        group.new_dataset::<T>().chunk(chunk).shape(Extents::Simple(SimpleExtents::from_vec(extents))).create(name)?;
    dataset.write_raw(values)?;
    Ok(dataset)
}

/// Values indexed by (point, component, row) for a range of rows.
fn values(index: usize, set: &MadeSet, variable: usize, rows: std::ops::Range<usize>) -> Vec<u16> {
    let components = set.variables[variable].components.unwrap_or(1);
    let mut values = Vec::new();
    for position in 0..set.ids.len() {
        for component in 0..components {
            values
                .extend(set.steps[rows.clone()].iter().map(|&step| value(index, variable, position, component, step)));
        }
    }
    values
}

fn cast<T: From<u16>>(values: &[u16]) -> Vec<T> {
    values.iter().map(|&value| T::from(value)).collect()
}

/// Slot 0 has the seal before (nothing sealed), slot 1 the one that counts.
fn make_seal(bookkeeping: &Group, watermark: Option<u64>) -> hdf5_metno::Result<()> {
    let slot = |sequence, step_end| {
        let mut slot = [sequence, step_end, 1, 0, 0, 0, 0, 0];
        slot[SEAL_WORDS - 1] = slot_checksum(&slot);
        slot
    };
    let words = [slot(1, 0), slot(2, watermark.map_or(0, |watermark| watermark + 1))].concat();
    bookkeeping.new_dataset::<u64>().shape((2, SEAL_WORDS)).create("seal")?.write_raw(&words)
}

fn make_checksums(bookkeeping: &Group, sets: &[MadeSet], sealed: &[usize]) -> hdf5_metno::Result<()> {
    let columns = sets.iter().map(|set| set.steps.len().div_ceil(set.chunk_steps)).max().unwrap_or(0) + 1;
    let mut words = vec![0_u64; sets.len() * columns * 4];
    for (index, (set, &sealed)) in sets.iter().zip(sealed).enumerate() {
        for column in 0..sealed.div_ceil(set.chunk_steps) {
            let rows = column * set.chunk_steps..sealed.min((column + 1) * set.chunk_steps);
            let at = (index * columns + column) * 4 + 2 * (column % 2);
            words[at] = rows.len() as u64;
            words[at + 1] = column_checksum(index, set, column, rows);
        }
    }
    let dataset = bookkeeping.new_dataset::<u64>().shape((sets.len(), columns, 2, 2)).create("column_checksum")?;
    dataset.write_raw(&words)
}

fn column_checksum(index: usize, set: &MadeSet, column: usize, rows: std::ops::Range<usize>) -> u64 {
    let place = |dataset, position: usize, component| RunPlace {
        set: index,
        dataset,
        position: position as u64,
        component,
        column: column as u64,
    };
    let steps: Vec<u8> = set.steps[rows.clone()].iter().flat_map(|step| step.to_le_bytes()).collect();
    let times: Vec<u8> = set.steps[rows.clone()].iter().flat_map(|&step| time(step).to_le_bytes()).collect();
    let mut sum = run_checksum(place(DatasetIndex::Step, 0, 0), &steps);
    sum = sum.wrapping_add(run_checksum(place(DatasetIndex::Time, 0, 0), &times));
    for (number, variable) in set.variables.iter().enumerate() {
        for position in 0..set.ids.len() {
            for component in 0..variable.components.unwrap_or(1) {
                let run = set.steps[rows.clone()].iter().map(|&step| value(index, number, position, component, step));
                let bytes: Vec<u8> = match variable.element {
                    ElementType::F32 => run.flat_map(|value| f32::from(value).to_le_bytes()).collect(),
                    ElementType::F64 => run.flat_map(|value| f64::from(value).to_le_bytes()).collect(),
                    ElementType::I32 => run.flat_map(|value| i32::from(value).to_le_bytes()).collect(),
                    ElementType::I64 => run.flat_map(|value| i64::from(value).to_le_bytes()).collect(),
                };
                let place = place(DatasetIndex::Variable(number), position, component);
                sum = sum.wrapping_add(run_checksum(place, &bytes));
            }
        }
    }
    sum
}
