//! Writes a file with the container alone, one process, and says what each phase cost. For trying readers by hand.
//!
//! `cargo run --release -p afflux-container --example container_sample -- FILE [POINTS [SETS [COLUMNS]]]`

use afflux_container::{
    ContainerWriter, DatasetIndex, ElementType, Existing, FileSpec, PointTable, Seal, SetSpec, VariableSpec,
};
use afflux_storage::{PosixStorage, StorageFileExt};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const CHUNK_STEPS: u64 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("give the name of the file")?);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (points, sets, columns) = (number(1024)?, number(1)?, number(7)?);
    let spec = file_spec(points, sets)?;

    let start = Instant::now();
    let mut writer = ContainerWriter::create(Arc::new(PosixStorage), &path, &spec, Existing::Replace)?;
    println!("create {:.3} ms", start.elapsed().as_secs_f64() * 1e3);
    let (mut grow_seconds, mut seal_seconds) = (0.0, 0.0);
    for column in 0..columns {
        let start = Instant::now();
        let requests: Vec<(usize, u64)> = (0..spec.sets.len()).map(|set| (set, column + 1)).collect();
        let new = writer.grow(&requests)?;
        grow_seconds += start.elapsed().as_secs_f64();
        for chunks in &new {
            let bytes = usize::try_from(writer.geometry(chunks.set).chunk_bytes(chunks.dataset))?;
            let first = column * CHUNK_STEPS;
            let values: Vec<u8> = match chunks.dataset {
                DatasetIndex::Step => (first..first + CHUNK_STEPS).flat_map(u64::to_le_bytes).collect(),
                DatasetIndex::Time => {
                    (first..first + CHUNK_STEPS).flat_map(|step| (step as f64 * 1e-12).to_le_bytes()).collect()
                }
                DatasetIndex::Variable(_) => vec![0; bytes],
            };
            for &offset in &chunks.chunk_offsets {
                writer.file().write_all_at(&values, offset)?;
            }
        }
        let start = Instant::now();
        let rows = (column + 1) * CHUNK_STEPS;
        let rows = vec![rows; spec.sets.len()];
        writer.seal(&Seal { watermark: Some(rows[0] - 1), rows, columns: Vec::new() })?;
        seal_seconds += start.elapsed().as_secs_f64();
    }
    println!("grow {:.3} ms, seal {:.3} ms in all", grow_seconds * 1e3, seal_seconds * 1e3);
    let start = Instant::now();
    let report = writer.close()?;
    println!("close {:.3} ms", start.elapsed().as_secs_f64() * 1e3);
    println!("{} bytes; {:#?}", report.file_bytes, report.counters);
    Ok(())
}

fn file_spec(points: u64, sets: u64) -> Result<FileSpec, Box<dyn Error>> {
    let variable = |name: &str, element, components| VariableSpec {
        name: name.into(),
        element,
        components,
        units: "V m-1".into(),
        long_name: Some(format!("sampled {name}")),
        standard_name: None,
    };
    let set = |number: u64| -> Result<SetSpec, Box<dyn Error>> {
        let ids: Vec<i64> = (0..points).map(i64::try_from).collect::<Result<_, _>>()?;
        let x: Vec<f64> = (0..points).map(|point| point as f64).collect();
        let names = ids.iter().map(|id| format!("P{id}")).collect();
        let points = PointTable { ids, y: x.clone(), z: x.clone(), x, names };
        let variables = vec![variable("E", ElementType::F64, Some(3)), variable("Hz", ElementType::F64, None)];
        let name = if number == 0 { String::new() } else { format!("set_{number}") };
        Ok(SetSpec { name, points, variables, cadence_steps: 1, chunk_steps: CHUNK_STEPS })
    };
    Ok(FileSpec {
        sets: (0..sets).map(set).collect::<Result<_, _>>()?,
        time_units: "s".into(),
        length_units: "m".into(),
        attributes: vec![("title".into(), "made by container_sample".into())],
        chunk_bytes: 1 << 20,
    })
}
