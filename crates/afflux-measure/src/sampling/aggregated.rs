//! Afflux itself, through the facade as any code would use it.

use super::phases::Phases;
use super::workload::{Rows, STEP_SECONDS, VARIABLES, Workload};
use afflux::comm::Communicator;
use afflux::file::{Block, SeriesFile};
use afflux::{Hints, Point, PointGrid, ProbeSet, SeriesWriter, Values, Variable};
use std::path::Path;

/// Cells of the source's box along each axis, and the size of one in metres; only coordinates depend on it.
const BOX_METRES: f64 = 60.0 * 1.0e-3;

/// This rank's points, with coordinates.
#[must_use]
pub fn points(workload: &Workload, rows: &Rows) -> Vec<Point> {
    let grid = PointGrid::spread([0.0; 3], [BOX_METRES; 3], workload.grid());
    let mut mine = rows.points.iter().peekable();
    (0_u64..).zip(grid.points()).filter(|(id, _)| mine.next_if_eq(&id).is_some()).map(|(_, point)| point).collect()
}

/// Collective: writes the rows of all ranks into `path`; returns where the writer says its time went.
pub fn write(
    path: &Path,
    comm: &dyn Communicator,
    workload: &Workload,
    hints: &Hints,
    points: &[Point],
    rows: &Rows,
) -> Result<Phases, String> {
    let set = VARIABLES
        .iter()
        .fold(ProbeSet::new("").points(points.iter().cloned()), |set, name| set.variable(Variable::f64(*name)));
    let builder = SeriesWriter::at(path).set(set).window_steps(workload.window_steps).hints(hints.clone());
    let mut writer = builder.open(comm).map_err(|error| error.to_string())?;
    let set = writer.set("").ok_or("the writer has lost its set")?;
    for step in 0..workload.steps {
        let row: [Values<'_>; VARIABLES.len()] = std::array::from_fn(|variable| rows.row(variable, step).into());
        writer.append(set, step, step as f64 * STEP_SECONDS, &row).map_err(|error| error.to_string())?;
    }
    let seconds = writer.close().map_err(|error| error.to_string())?.seconds;
    Ok(Phases {
        create_seconds: seconds.create,
        transpose_seconds: seconds.transpose,
        exchange_seconds: seconds.exchange,
        write_seconds: seconds.write,
        seal_seconds: seconds.seal,
        close_seconds: seconds.close,
    })
}

/// Reads every value back; `Err` names the first that differs.
pub fn verify(path: &Path, workload: &Workload) -> Result<(), String> {
    let file = SeriesFile::open(path).map_err(|error| error.to_string())?;
    let info = file.sets().first().ok_or("the file has no set")?;
    if (info.points, info.rows_sealed) != (workload.points, workload.steps) {
        return Err(format!("{} points and {} rows in the file", info.points, info.rows_sealed));
    }
    for (variable, name) in VARIABLES.iter().enumerate() {
        let block =
            file.block(0, variable, 0..workload.points, 0..workload.steps).map_err(|error| error.to_string())?;
        let Block::F64(values) = block else { return Err(format!("{name} is not of doubles")) };
        super::verify_values(workload, variable, &values)?;
    }
    Ok(())
}
