//! The source's own way: every rank keeps a window, rank 0 gathers the windows and writes them through serial HDF5.
//!
//! Done with care, so that the comparison is fair: rows are copied once into the window, transposed by their own rank, sent in
//! one message a rank and window, and written as one hyperslab a variable into chunks of the shape that Afflux chooses.

use super::phases::{Phase, Stopwatch};
use super::workload::{Rows, STEP_SECONDS, VARIABLES, Workload};
use super::{aggregated, verify_values};
use afflux::comm::{CommError, Communicator};
use afflux::file::{FileSpec, PointTable, SerialWindow, SerialWriter, SetSpec, VariableSpec, read_plain_f64};
use afflux::{ElementType, Point};
use std::path::Path;

/// Rows and bytes of a chunk, as Afflux takes them unless told otherwise.
const CHUNK_STEPS: u64 = 50;
const CHUNK_BYTES: u64 = 1 << 20;

/// Collective: the outer error is the messages', the inner one rank 0's.
pub fn write(
    path: &Path,
    comm: &dyn Communicator,
    workload: &Workload,
    rows: &Rows,
    watch: &mut Stopwatch,
) -> Result<Result<(), String>, CommError> {
    let mut file = None;
    let mut outcome = Ok(());
    if comm.rank() == 0 {
        match SerialWriter::create(path, &file_spec(workload)) {
            Ok(created) => file = Some(created),
            Err(error) => outcome = Err(error.to_string()),
        }
    }
    watch.lap(Phase::Create);

    let owned = if comm.rank() == 0 { workload.points_by_rank() } else { Vec::new() };
    let points = rows.points.len();
    let mut window: Vec<f64> = Vec::new();
    let mut blocks: Vec<u8> = Vec::new();
    let mut first = 0;
    while first < workload.steps {
        let steps = first..workload.steps.min(first + workload.window_steps);
        window.clear();
        for step in steps.clone() {
            (0..VARIABLES.len()).for_each(|variable| window.extend_from_slice(rows.row(variable, step)));
        }
        transpose(&window, points, &mut blocks);
        watch.lap(Phase::Transpose);
        let received = comm.gather(0, &blocks)?;
        watch.lap(Phase::Exchange);
        if let Some(writer) = &mut file
            && outcome.is_ok()
        {
            let variables = in_file_order(&received, &owned, workload.points, steps.end - steps.start);
            watch.lap(Phase::Transpose);
            outcome = write_window(writer, steps.clone(), &variables);
        }
        watch.lap(Phase::Write);
        first = steps.end;
    }
    if let Some(writer) = file {
        let closed = writer.close().map_err(|error| error.to_string());
        outcome = outcome.and(closed);
    }
    watch.lap(Phase::Close);
    // Nobody is done before the file is.
    comm.barrier()?;
    Ok(outcome)
}

/// From `(step, variable, point)` to the bytes of `(variable, point, step)`.
fn transpose(window: &[f64], points: usize, blocks: &mut Vec<u8>) {
    let row = points * VARIABLES.len();
    blocks.clear();
    blocks.reserve(8 * window.len());
    for series in 0..row {
        for value in window[series..].iter().step_by(row.max(1)) {
            blocks.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// From each rank's `(variable, its points, step)` to `(point, step)` of each variable.
fn in_file_order(received: &[Vec<u8>], owned: &[Vec<u64>], points: u64, steps: u64) -> Vec<Vec<u8>> {
    let index = |number: u64| usize::try_from(number).expect("a window fits in memory");
    let run = index(8 * steps);
    let mut variables = vec![vec![0; index(points) * run]; VARIABLES.len()];
    for (blocks, ids) in received.iter().zip(owned) {
        let mut runs = blocks.chunks_exact(run);
        for variable in &mut variables {
            for (&id, bytes) in ids.iter().zip(&mut runs) {
                variable[index(id) * run..][..run].copy_from_slice(bytes);
            }
        }
    }
    variables
}

fn write_window(writer: &mut SerialWriter, steps: std::ops::Range<u64>, variables: &[Vec<u8>]) -> Result<(), String> {
    let times: Vec<f64> = steps.clone().map(|step| step as f64 * STEP_SECONDS).collect();
    let steps: Vec<i64> = steps.map(u64::cast_signed).collect();
    let variables: Vec<&[u8]> = variables.iter().map(Vec::as_slice).collect();
    let window = SerialWindow { steps: &steps, times: &times, variables: &variables };
    writer.write_window(0, window).map_err(|error| error.to_string())
}

/// The file that Afflux would make.
fn file_spec(workload: &Workload) -> FileSpec {
    let all = Rows::of_points((0..workload.points).collect());
    let points = aggregated::points(workload, &all);
    let coordinates = |of: fn(&Point) -> f64| points.iter().map(of).collect();
    let table = PointTable {
        ids: points.iter().map(|point| point.id).collect(),
        x: coordinates(|point| point.x),
        y: coordinates(|point| point.y),
        z: coordinates(|point| point.z),
        names: points.iter().map(Point::label).collect(),
    };
    let variable = |name: &str| VariableSpec {
        name: name.to_owned(),
        element: ElementType::F64,
        components: None,
        units: String::new(),
        long_name: None,
        standard_name: None,
    };
    let set = SetSpec {
        name: String::new(),
        points: table,
        variables: VARIABLES.iter().map(|name| variable(name)).collect(),
        cadence_steps: 1,
        chunk_steps: CHUNK_STEPS,
    };
    FileSpec {
        sets: vec![set],
        time_units: "s".to_owned(),
        length_units: "m".to_owned(),
        attributes: Vec::new(),
        chunk_bytes: CHUNK_BYTES,
    }
}

/// Reads every value back; `Err` names the first that differs.
pub fn verify(path: &Path, workload: &Workload) -> Result<(), String> {
    for (variable, name) in VARIABLES.iter().enumerate() {
        let values = read_plain_f64(path, name).map_err(|error| error.to_string())?;
        verify_values(workload, variable, &values)?;
    }
    Ok(())
}
