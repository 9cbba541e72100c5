//! A small file description, made-up values, a stand-in for the collective engine, and plain-HDF5 checks.

use afflux_container::checksum::{RunPlace, run_checksum};
use afflux_container::{
    ColumnChecksum, ContainerWriter, DatasetIndex, ElementType, FileSpec, NewColumn, PointTable, Resumed, Seal,
    SetGeometry, SetSpec, VariableSpec, WriteError,
};
use afflux_storage::{StorageFile, StorageFileExt};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Rows in a column: small, so that a few rows make several columns.
pub const CHUNK_STEPS: u64 = 4;

pub fn variable(name: &str, element: ElementType, components: Option<u32>) -> VariableSpec {
    VariableSpec {
        name: name.into(),
        element,
        components,
        units: "V m-1".into(),
        long_name: Some(format!("the quantity {name}")),
        standard_name: None,
    }
}

pub fn points(count: i64) -> PointTable {
    let coordinates: Vec<f64> = (0..count).map(|id| id as f64 * 0.5).collect();
    PointTable {
        ids: (0..count).map(|id| 10 + 3 * id).collect(),
        x: coordinates.clone(),
        y: coordinates.clone(),
        z: coordinates,
        names: (0..count).map(|id| format!("P{id:04}")).collect(),
    }
}

pub fn set(name: &str, point_count: i64, variables: Vec<VariableSpec>) -> SetSpec {
    let points = points(point_count);
    SetSpec { name: name.into(), points, variables, cadence_steps: 1, chunk_steps: CHUNK_STEPS }
}

/// Two sets, four types, components.
pub fn two_sets() -> FileSpec {
    let root = vec![
        variable("Ez", ElementType::F64, None),
        variable("J", ElementType::F32, Some(3)),
        variable("hits", ElementType::I32, None),
    ];
    let line = vec![variable("Hz", ElementType::F64, Some(3)), variable("count", ElementType::I64, None)];
    FileSpec {
        sets: vec![set("", 5, root), set("line", 3, line)],
        time_units: "s".into(),
        length_units: "m".into(),
        attributes: vec![("title".into(), "a test".into())],
        chunk_bytes: 128,
    }
}

/// The value of everything, small enough for every type.
pub fn value(set: usize, dataset: DatasetIndex, position: u64, component: u64, row: u64) -> i64 {
    let dataset = match dataset {
        DatasetIndex::Step => return i64::try_from(row).unwrap(),
        DatasetIndex::Time => return i64::try_from(row * 2).unwrap(),
        DatasetIndex::Variable(variable) => 1 + variable as u64,
    };
    i64::try_from(1 + row + 100 * (component + 4 * (position + 10 * (dataset + 5 * set as u64)))).unwrap()
}

fn encode(value: i64, element: ElementType) -> Vec<u8> {
    match element {
        ElementType::F32 => (value as f32).to_le_bytes().to_vec(),
        ElementType::F64 => (value as f64).to_le_bytes().to_vec(),
        ElementType::I32 => i32::try_from(value).unwrap().to_le_bytes().to_vec(),
        ElementType::I64 => value.to_le_bytes().to_vec(),
    }
}

/// Shape of a dataset's values: element type, points, components.
fn shape(spec: &SetSpec, dataset: DatasetIndex) -> (ElementType, u64, u64) {
    match dataset {
        DatasetIndex::Step => (ElementType::I64, 1, 1),
        DatasetIndex::Time => (ElementType::F64, 1, 1),
        DatasetIndex::Variable(variable) => {
            let variable = &spec.variables[variable];
            (variable.element, spec.points.len() as u64, variable.values() as u64)
        }
    }
}

/// Writes rows where the writer says they belong, as the collective engine does; remembers the columns.
pub struct Engine {
    pub spec: FileSpec,
    columns: HashMap<(usize, u64, DatasetIndex), Vec<u64>>,
    rows: Vec<u64>,
}

impl Engine {
    pub fn new(spec: FileSpec) -> Self {
        let rows = vec![0; spec.sets.len()];
        Self { spec, columns: HashMap::new(), rows }
    }

    /// Goes on with a file: the sealed rows, and where the chunks of the unfinished columns are.
    pub fn resumed(spec: FileSpec, resumed: &mut Resumed) -> Self {
        Self::try_resumed(spec, resumed).unwrap()
    }

    /// As `resumed`, where the storage may fail.
    pub fn try_resumed(spec: FileSpec, resumed: &mut Resumed) -> Result<Self, WriteError> {
        let mut engine = Self::new(spec);
        engine.rows = resumed.sets.iter().map(|set| set.rows).collect();
        for (set, sealed) in resumed.sets.iter().enumerate() {
            if !sealed.rows.is_multiple_of(CHUNK_STEPS) {
                engine.note(resumed.writer.column_chunks(set, sealed.rows / CHUNK_STEPS)?);
            }
        }
        Ok(engine)
    }

    pub fn note(&mut self, new: Vec<NewColumn>) {
        for column in new {
            self.columns.insert((column.set, column.column, column.dataset), column.chunk_offsets);
        }
    }

    /// Writes rows up to `rows` of each set, each unfinished column from its start, and returns the checksums.
    pub fn write(
        &mut self,
        file: &dyn StorageFile,
        geometry: &[SetGeometry],
        rows: &[u64],
    ) -> io::Result<Vec<ColumnChecksum>> {
        let mut checksums = Vec::new();
        for (set, &rows_end) in rows.iter().enumerate() {
            let geometry = &geometry[set];
            let steps = geometry.chunk_steps;
            if rows_end == self.rows[set] {
                continue;
            }
            for column in self.rows[set] / steps..rows_end.div_ceil(steps) {
                let first_row = column * steps;
                let count = (rows_end - first_row).min(steps);
                let mut checksum = 0_u64;
                for dataset in geometry.datasets() {
                    let (element, points, components) = shape(&self.spec.sets[set], dataset);
                    let chunks = &self.columns[&(set, column, dataset)];
                    let per_chunk = match dataset {
                        DatasetIndex::Variable(variable) => geometry.points_per_chunk[variable],
                        _ => 1,
                    };
                    for position in 0..points {
                        for component in 0..components {
                            let bytes: Vec<u8> = (first_row..first_row + count)
                                .flat_map(|row| encode(value(set, dataset, position, component, row), element))
                                .collect();
                            let place = RunPlace {
                                set,
                                dataset,
                                position,
                                component: u32::try_from(component).unwrap(),
                                column,
                            };
                            checksum = checksum.wrapping_add(run_checksum(place, &bytes));
                            let run = position % per_chunk * components + component;
                            let chunk = usize::try_from(position / per_chunk).unwrap();
                            let offset = chunks[chunk] + run * steps * element.bytes() as u64;
                            file.write_all_at(&bytes, offset)?;
                        }
                    }
                }
                checksums.push(ColumnChecksum { set, column, rows: count, checksum });
            }
        }
        self.rows = rows.to_vec();
        Ok(checksums)
    }

    /// One flush: grow, write, seal up to `rows` of each set.
    pub fn flush(&mut self, writer: &mut ContainerWriter, rows: &[u64]) {
        let file = writer.file().clone();
        self.try_flush(writer, file.as_ref(), rows).unwrap();
    }

    /// A flush whose samples go through `file` and whose container calls may fail.
    pub fn try_flush(
        &mut self,
        writer: &mut ContainerWriter,
        file: &dyn StorageFile,
        rows: &[u64],
    ) -> Result<(), WriteError> {
        let requests: Vec<(usize, u64)> =
            rows.iter().enumerate().map(|(set, &rows)| (set, rows.div_ceil(CHUNK_STEPS))).collect();
        let new = writer.grow(&requests)?;
        self.note(new);
        let geometry: Vec<SetGeometry> = (0..rows.len()).map(|set| writer.geometry(set).clone()).collect();
        let columns = self.write(file, &geometry, rows).map_err(|source| WriteError::Io {
            doing: "write samples to",
            path: "the file".into(),
            source,
        })?;
        let watermark = rows.iter().max().and_then(|rows| rows.checked_sub(1));
        writer.seal(&Seal { watermark, rows: rows.to_vec(), columns })
    }
}

/// Opens the file with HDF5's own driver and checks every value; returns the rows that each dataset shows, by set.
/// `sealed` rows at least must be there.
pub fn check_plainly(path: &Path, spec: &FileSpec, sealed: &[u64]) -> Result<Vec<Vec<u64>>, String> {
    let file = hdf5_metno::File::open(path).map_err(|error| format!("does not open: {error}"))?;
    let mut shown = Vec::new();
    for (index, set) in spec.sets.iter().enumerate() {
        let group = if set.name.is_empty() {
            file.as_group().map_err(|error| error.to_string())?
        } else {
            file.group(&set.name).map_err(|error| error.to_string())?
        };
        let names =
            (0..set.variables.len()).map(DatasetIndex::Variable).chain([DatasetIndex::Step, DatasetIndex::Time]);
        let mut rows_shown = Vec::new();
        for dataset in names {
            rows_shown.push(check_dataset(&group, index, set, dataset, sealed[index])?);
        }
        shown.push(rows_shown);
    }
    Ok(shown)
}

fn check_dataset(
    group: &hdf5_metno::Group,
    index: usize,
    set: &SetSpec,
    dataset: DatasetIndex,
    sealed: u64,
) -> Result<u64, String> {
    let name = match dataset {
        DatasetIndex::Variable(variable) => set.variables[variable].name.as_str(),
        DatasetIndex::Step => "step",
        DatasetIndex::Time => "time",
    };
    let (_, points, components) = shape(set, dataset);
    let handle = group.dataset(name).map_err(|error| format!("{name}: {error}"))?;
    let rows = *handle.shape().last().unwrap() as u64;
    if rows < sealed {
        return Err(format!("{name} shows {rows} rows, {sealed} were sealed"));
    }
    let values: Vec<f64> = handle.read_raw().map_err(|error| format!("{name}: {error}"))?;
    for position in 0..points {
        for component in 0..components {
            for row in 0..rows {
                let at = usize::try_from((position * components + component) * rows + row).unwrap();
                let expected = value(index, dataset, position, component, row) as f64;
                if values[at].to_bits() != expected.to_bits() {
                    return Err(format!("{name}[{position},{component},{row}] is {} and not {expected}", values[at]));
                }
            }
        }
    }
    Ok(rows)
}
