//! Does the file hold the physics? The samples are written through Afflux on several ranks and read back from the file alone:
//! resonances of a cavity, the speed of a dipole's pulse, the energy of a closed box.

mod common;

use std::path::Path;

use afflux::file::SeriesFile;
use afflux_fdtd::constants::{EPSILON_0, MU_0, SPEED_OF_LIGHT};
use afflux_fdtd::{Model, RecordOptions, Simulation, record};
use common::{lag_steps, model, peaks, resonances};
use tempfile::TempDir;

/// A file of a model's samples, in a directory that goes away with it.
struct Written {
    _directory: TempDir,
    file: SeriesFile,
    rows: u64,
}

impl Written {
    /// Runs a model on thread ranks into a file and opens that.
    fn by(model: &Model, ranks: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.nc");
        afflux::comm::threads::run(ranks, |comm| {
            let mut simulation = Simulation::new(model, &comm).unwrap();
            let options = RecordOptions::at(&path);
            record(&mut simulation, &options, &mut |_| ()).unwrap();
        });
        Self::open(directory, &path, model.steps)
    }

    fn open(directory: TempDir, path: &Path, steps: u64) -> Self {
        let file = SeriesFile::open(path).unwrap();
        let rows = file.sets()[0].rows_sealed;
        assert_eq!(rows, steps, "a row a step");
        Self { _directory: directory, file, rows }
    }

    /// One field at a point of the default set, by row.
    fn series(&self, point: &str, field: &str) -> Vec<f64> {
        let position = self.file.position_by_name(0, point).unwrap();
        let variable = self.file.variable_index(0, field).unwrap();
        self.file.series(0, variable, position, 0, 0..self.rows).unwrap()
    }

    /// One field at all points, indexed by point, then row.
    fn block(&self, field: &str) -> Vec<Vec<f64>> {
        let variable = self.file.variable_index(0, field).unwrap();
        let series = |position| self.file.series(0, variable, position, 0, 0..self.rows).unwrap();
        (0..self.file.sets()[0].points).map(series).collect()
    }

    /// Seconds between rows, from the file's own times.
    fn time_step_s(&self) -> f64 {
        let times = self.file.times(0, 0..self.rows).unwrap();
        (times[times.len() - 1] - times[0]) / (times.len() - 1) as f64
    }
}

#[test]
#[ignore = "half a minute without optimisation; run with --release -- --ignored"]
fn the_first_two_resonances_of_the_cavity_are_in_its_file() {
    let model = Model::builtin("cavity").unwrap();
    let theory = resonances(model.grid().extent_m());
    let written = Written::by(&model, 3);
    let columns = ["Ex", "Ey", "Ez"].map(|field| written.series("corner", field));
    let measured = peaks(&columns, written.time_step_s(), 0.8 * theory[0]..(theory[1] + theory[2]) / 2.0, 0.1);
    assert_eq!(measured.len(), 2, "{measured:?}, expected {:?}", &theory[..2]);
    for (measured, theory) in measured.iter().zip(&theory) {
        println!(
            "resonance {measured:.4e} Hz, theory {theory:.4e} Hz, error {:.3} %",
            100.0 * (measured / theory - 1.0)
        );
        assert!((measured / theory - 1.0).abs() < 0.005, "{measured} Hz instead of {theory} Hz");
    }
}

#[test]
#[ignore = "half a minute without optimisation; run with --release -- --ignored"]
fn the_pulse_in_the_dipoles_file_travels_at_the_speed_of_light() {
    let model = Model::builtin("dipole").unwrap();
    let cell_m = model.grid().cell_size_m[0];
    let written = Written::by(&model, 2);
    let points = written.file.points(0).unwrap();
    let x_of = |name: &str| points.x[points.names.iter().position(|known| known == name).unwrap()];
    for (early, late) in [("x25", "x55"), ("x35", "x65"), ("x35", "x45")] {
        let metres = x_of(late) - x_of(early);
        let lag = lag_steps(&written.series(early, "Ez"), &written.series(late, "Ez"));
        let travelled = lag * written.time_step_s() * SPEED_OF_LIGHT;
        println!("{early} to {late}: {metres:.3} m, light went {travelled:.5} m in the measured time");
        assert!((travelled - metres).abs() < cell_m, "{early} to {late}: {travelled} m instead of {metres} m");
    }
}

/// A closed box with a probe in every cell, so that its file holds all of the fields: the energy worked out from the file is
/// that of the whole box (what lies on its upper faces is zero there, as they conduct).
#[test]
fn energy_of_a_closed_cavity_is_steady_in_its_file() {
    let model = model(
        r#"
        steps = 600
        grid = { cells = [9, 8, 7], cell_size = [0.02, 0.025, 0.03] }
        [[sources]]
        position = [0.07, 0.09, 0.1]
        axis = "z"
        waveform = { kind = "ricker", frequency = 1.2e9 }
        [[probes]]
        grid = "9x8x7"
        fields = ["Ex", "Ey", "Ez", "Hx", "Hy", "Hz"]
        "#,
    );
    let written = Written::by(&model, 3);
    let volume: f64 = model.grid().cell_size_m.iter().product();
    let electric = ["Ex", "Ey", "Ez"].map(|field| written.block(field));
    let magnetic = ["Hx", "Hy", "Hz"].map(|field| written.block(field));
    // A row holds E at its step and H half a step before: the form that leapfrog keeps takes the next row's H too.
    let energy = |row: usize| {
        let e: f64 = electric.iter().flatten().map(|series| series[row] * series[row]).sum();
        let h: f64 = magnetic.iter().flatten().map(|series| series[row] * series[row + 1]).sum();
        0.5 * volume * (EPSILON_0 * e + MU_0 * h)
    };
    let times = written.file.times(0, 0..written.rows).unwrap();
    let end_s = model.sources[0].waveform.end_s();
    let quiet = times.iter().position(|&time| time > end_s).unwrap() + 1;
    let rows = quiet..times.len() - 1;
    assert!(rows.len() > 300, "most of the run is after the source: {rows:?}");
    let first = energy(rows.start);
    assert!(first > 0.0);
    let worst = rows.map(|row| (energy(row) / first - 1.0).abs()).fold(0.0, f64::max);
    println!("energy {first:.3e} J, largest change {worst:.1e}");
    assert!(worst < 0.01, "energy changed by {worst}");
}
