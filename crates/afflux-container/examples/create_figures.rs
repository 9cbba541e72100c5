//! What the container costs a file, without samples: `create_figures [POINTS] [REPETITIONS] [DIRECTORY]`.
//!
//! Create, four times grow and seal (a column each; the times are those of all four), close.

use afflux_container::{
    ColumnChecksum, ContainerWriter, ElementType, Existing, FileSpec, PointTable, Seal, SetSpec, VariableSpec,
};
use afflux_storage::PosixStorage;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CHUNK_STEPS: u64 = 50;
const COLUMNS: u64 = 4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let points: i64 = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let repetitions: usize = arguments.next().map_or(Ok(200), |text| text.parse())?;
    let directory = arguments.next().unwrap_or_else(|| ".".to_owned());
    let variables = ["Ex", "Ey", "Ez", "Hz"].map(|name| VariableSpec {
        name: name.to_owned(),
        element: ElementType::F64,
        components: None,
        units: "V m-1".to_owned(),
        long_name: None,
        standard_name: None,
    });
    let ids: Vec<i64> = (0..points).collect();
    let coordinate = vec![0.5; ids.len()];
    let names = ids.iter().map(ToString::to_string).collect();
    let points = PointTable { ids, x: coordinate.clone(), y: coordinate.clone(), z: coordinate, names };
    let set = SetSpec {
        name: String::new(),
        points,
        variables: variables.to_vec(),
        cadence_steps: 1,
        chunk_steps: CHUNK_STEPS,
    };
    let spec = FileSpec {
        sets: vec![set],
        time_units: "s".to_owned(),
        length_units: "m".to_owned(),
        attributes: Vec::new(),
        chunk_bytes: 1 << 20,
    };
    let storage = Arc::new(PosixStorage::new());
    let path = std::path::Path::new(&directory).join("create_figures.nc");
    let mut create = Vec::with_capacity(repetitions);
    let (mut grow, mut seal) = (Vec::new(), Vec::new());
    let mut close = Vec::with_capacity(repetitions);
    for _ in 0..repetitions {
        // A file that is replaced costs its removal, and on ext4 the writing of the new one.
        let _ = std::fs::remove_file(&path);
        let begin = Instant::now();
        let mut writer = ContainerWriter::create(storage.clone(), &path, &spec, Existing::Replace)?;
        create.push(begin.elapsed());
        let (mut growing, mut sealing) = (Duration::ZERO, Duration::ZERO);
        for column in 0..COLUMNS {
            let begin = Instant::now();
            writer.grow(&[(0, column + 1)])?;
            growing += begin.elapsed();
            let begin = Instant::now();
            writer.seal(&whole_column(column))?;
            sealing += begin.elapsed();
        }
        grow.push(growing);
        seal.push(sealing);
        let begin = Instant::now();
        writer.close()?;
        close.push(begin.elapsed());
    }
    std::fs::remove_file(&path)?;
    for (name, mut times) in [("create", create), ("grow", grow), ("seal", seal), ("close", close)] {
        times.sort_unstable();
        println!("{name}: median {:?}, least {:?}", times[times.len() / 2], times[0]);
    }
    Ok(())
}

fn whole_column(column: u64) -> Seal {
    let rows = (column + 1) * CHUNK_STEPS;
    let columns = vec![ColumnChecksum { set: 0, column, rows: CHUNK_STEPS, checksum: 1 }];
    Seal { watermark: Some(rows - 1), rows: vec![rows], columns }
}
