//! Writes a file as a busy run does, one row a seal, and closes or drops and resumes it now and then: something to poll with plain
//! readers. Every value of a row is its step.
//!
//! `cargo run --release -p afflux-container --example live_file -- FILE SECONDS [SEAL_MICROSECONDS [SEALS_BETWEEN_RESUMES]]`

use afflux_container::checksum::ColumnHasher;
use afflux_container::{
    ColumnChecksum, ContainerWriter, DatasetIndex, ElementType, Existing, FileSpec, NewColumn, PointTable, Seal,
    SetSpec, VariableSpec,
};
use afflux_storage::{PosixStorage, StorageFileExt};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CHUNK_STEPS: u64 = 50;
const POINTS: u32 = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("give the name of the file")?);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (seconds, pause_micros, between) = (number(10)?, number(1000)?, number(u64::MAX)?);
    let spec = file_spec();
    let storage = Arc::new(PosixStorage);
    let mut writer = ContainerWriter::create(storage.clone(), &path, &spec, Existing::Replace)?;
    let start = Instant::now();
    let (mut rows, mut resumes) = (0, 0);
    let mut column = Vec::new();
    while start.elapsed() < Duration::from_secs(seconds) {
        append(&mut writer, &spec.sets[0], &mut column, rows)?;
        rows += 1;
        std::thread::sleep(Duration::from_micros(pause_micros));
        if rows % between == 0 {
            resumes += 1;
            // A close and a kill (as far as the file can tell) in turn.
            if resumes % 2 == 0 {
                drop(writer);
            } else {
                writer.close()?;
            }
            let resumed = ContainerWriter::resume(storage.clone(), &path, &spec)?;
            writer = resumed.writer;
            assert_eq!(resumed.sets[0].rows, rows);
            if rows % CHUNK_STEPS != 0 {
                column = writer.column_chunks(0, rows / CHUNK_STEPS)?;
            }
        }
    }
    writer.close()?;
    println!("{rows} seals, {resumes} resumes");
    Ok(())
}

/// Writes row `row` and seals it.
fn append(
    writer: &mut ContainerWriter,
    set: &SetSpec,
    column: &mut Vec<NewColumn>,
    row: u64,
) -> Result<(), Box<dyn Error>> {
    let number = row / CHUNK_STEPS;
    let within = row % CHUNK_STEPS;
    if within == 0 {
        *column = writer.grow(&[(0, number + 1)])?;
    }
    let mut checksum = 0_u64;
    let first = number * CHUNK_STEPS;
    for dataset in column.iter() {
        let (points, components, element) = match dataset.dataset {
            DatasetIndex::Variable(variable) => {
                let variable = &set.variables[variable];
                (POINTS, variable.components.unwrap_or(1), variable.element)
            }
            DatasetIndex::Step => (1, 1, ElementType::I64),
            DatasetIndex::Time => (1, 1, ElementType::F64),
        };
        let hasher = ColumnHasher::new(0, dataset.dataset, number);
        let run: Vec<u8> = (first..=row).flat_map(|step| encode(step, element)).collect();
        let run_bytes = CHUNK_STEPS * element.bytes() as u64;
        for (run_number, (point, component)) in
            (0..).zip((0..points).flat_map(|point| (0..components).map(move |component| (point, component))))
        {
            checksum = checksum.wrapping_add(hasher.run(component, u64::from(point), &run));
            let new = usize::try_from(within)? * element.bytes();
            let offset = dataset.chunk_offsets[0] + run_bytes * run_number + within * element.bytes() as u64;
            writer.file().write_all_at(&run[new..], offset)?;
        }
    }
    let columns = vec![ColumnChecksum { set: 0, column: number, rows: within + 1, checksum }];
    writer.seal(&Seal { watermark: Some(row), rows: vec![row + 1], columns })?;
    Ok(())
}

fn encode(step: u64, element: ElementType) -> Vec<u8> {
    match element {
        ElementType::F32 => (step as f32).to_le_bytes().to_vec(),
        ElementType::F64 => (step as f64).to_le_bytes().to_vec(),
        _ => step.to_le_bytes().to_vec(),
    }
}

fn file_spec() -> FileSpec {
    let variable = |name: &str, element, components| VariableSpec {
        name: name.into(),
        element,
        components,
        units: "V m-1".into(),
        long_name: Some("a quantity that counts steps".into()),
        standard_name: None,
    };
    let coordinate: Vec<f64> = (0..POINTS).map(f64::from).collect();
    let points = PointTable {
        ids: (0..i64::from(POINTS)).collect(),
        x: coordinate.clone(),
        y: coordinate.clone(),
        z: coordinate,
        names: (0..POINTS).map(|id| format!("P{id}")).collect(),
    };
    let variables = vec![
        variable("Ez", ElementType::F64, None),
        variable("J", ElementType::F32, Some(3)),
        variable("charge", ElementType::F32, None),
    ];
    let set = SetSpec { name: String::new(), points, variables, cadence_steps: 1, chunk_steps: CHUNK_STEPS };
    FileSpec {
        sets: vec![set],
        time_units: "s".into(),
        length_units: "m".into(),
        attributes: vec![("title".into(), "a file to poll".into())],
        chunk_bytes: 1 << 20,
    }
}
