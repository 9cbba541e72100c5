//! Does it solve Maxwell's equations? Measured on recorded samples, as a user would.

mod common;

use afflux::comm::SelfCommunicator;
use afflux_fdtd::constants::SPEED_OF_LIGHT;
use afflux_fdtd::{Model, Simulation};
use common::{Recording, lag_steps, model, peaks, resonances};

/// The resonances around the first two, from the samples of all E columns of a probe.
fn measured_resonances(recording: &Recording, probe: &str, time_step_s: f64, theory: &[f64]) -> Vec<f64> {
    let band = 0.8 * theory[0]..(theory[1] + theory[2]) / 2.0;
    let columns: Vec<Vec<f64>> = (0..3).map(|column| recording.series(probe, column)).collect();
    peaks(&columns, time_step_s, band, 0.1)
}

fn assert_resonances(model: &Model, probe: &str) {
    let grid = model.grid();
    let theory = resonances(grid.extent_m());
    let recording = Recording::of(model, 1);
    let measured = measured_resonances(&recording, probe, grid.time_step_s, &theory);
    assert_eq!(measured.len(), 2, "{measured:?}, expected {:?}", &theory[..2]);
    for (measured, theory) in measured.iter().zip(&theory) {
        let error = measured / theory - 1.0;
        println!("resonance {measured:.4e} Hz, theory {theory:.4e} Hz, error {:.3} %", 100.0 * error);
        assert!(error.abs() < 0.005, "{measured} Hz instead of {theory} Hz");
    }
}

#[test]
fn a_small_cavity_rings_at_its_first_two_resonances() {
    assert_resonances(
        &model(
            r#"
            steps = 2500
            grid = { cells = [15, 12, 9], cell_size = 0.02 }
            [[sources]]
            position = [0.09, 0.07, 0.05]
            axis = "z"
            waveform = { kind = "ricker", frequency = 0.9e9 }
            [[sources]]
            position = [0.09, 0.07, 0.05]
            axis = "y"
            waveform = { kind = "ricker", frequency = 0.9e9 }
            [[probes]]
            points = [{ name = "corner", x = 0.21, y = 0.15, z = 0.11 }]
            fields = ["Ex", "Ey", "Ez"]
            "#,
        ),
        "corner",
    );
}

#[test]
#[ignore = "half a minute without optimisation; run with --release -- --ignored"]
fn the_built_in_cavity_rings_at_its_first_two_resonances() {
    assert_resonances(&Model::builtin("cavity").unwrap(), "corner");
}

#[test]
fn the_pulse_of_a_dipole_travels_at_the_speed_of_light() {
    // The built-in model, narrower so that it is quick without optimisation.
    let text = Model::builtin_text("dipole").unwrap();
    let narrow = text
        .replace("cells = [100, 50, 50]", "cells = [86, 22, 22]")
        .replace("0.1275", "0.0525")
        .replace("[[sources]]", "[cpml]\nthickness = 6\n[[sources]]");
    assert_speed(&model(&narrow));
}

#[test]
#[ignore = "half a minute without optimisation; run with --release -- --ignored"]
fn the_pulse_of_the_built_in_dipole_travels_at_the_speed_of_light() {
    assert_speed(&Model::builtin("dipole").unwrap());
}

fn assert_speed(model: &Model) {
    let grid = model.grid();
    let recording = Recording::of(model, 1);
    for (early, late) in [("x25", "x55"), ("x35", "x65"), ("x35", "x45")] {
        let cells = late[1..].parse::<f64>().unwrap() - early[1..].parse::<f64>().unwrap();
        let lag = lag_steps(&recording.series(early, 0), &recording.series(late, 0));
        let travelled = lag * grid.time_step_s * SPEED_OF_LIGHT / grid.cell_size_m[0];
        println!("{early} to {late}: {cells} cells, light went {travelled:.3} in the measured time");
        assert!((travelled - cells).abs() < 1.0, "{early} to {late}: {travelled} cells instead of {cells}");
    }
}

#[test]
fn energy_in_a_closed_cavity_is_steady() {
    // A dielectric block and unequal cells, so that nothing cancels by symmetry.
    let model = model(
        r#"
        steps = 1000
        grid = { cells = [12, 10, 9], cell_size = [0.02, 0.025, 0.03] }
        [[sources]]
        position = [0.09, 0.11, 0.1]
        axis = "z"
        waveform = { kind = "ricker", frequency = 1e9 }
        [[boxes]]
        min = [0.1, 0.1, 0.1]
        max = [0.2, 0.2, 0.2]
        permittivity = 3.0
        "#,
    );
    let comm = SelfCommunicator::new();
    let mut simulation = Simulation::new(&model, &comm).unwrap();
    while simulation.time() < model.sources[0].waveform.end_s() {
        simulation.step().unwrap();
    }
    let first = simulation.energy().unwrap();
    assert!(first > 0.0);
    let mut worst = 0.0_f64;
    for _ in 0..1000 {
        simulation.step().unwrap();
        worst = worst.max((simulation.energy().unwrap() / first - 1.0).abs());
    }
    println!("energy {first:.3e} J, largest change {worst:.1e}");
    assert!(worst < 0.01, "energy changed by {worst}");
}

#[test]
fn a_conductor_takes_energy_away() {
    let text = r#"
        steps = 300
        grid = { cells = [10, 10, 10], cell_size = 0.02 }
        [[sources]]
        position = [0.05, 0.05, 0.05]
        axis = "x"
        waveform = { kind = "ricker", frequency = 1.5e9 }
        [[boxes]]
        min = [0.1, 0.0, 0.0]
        max = [0.2, 0.2, 0.2]
        conductivity = 0.05
        "#;
    let model = model(text);
    let comm = SelfCommunicator::new();
    let mut simulation = Simulation::new(&model, &comm).unwrap();
    while simulation.time() < model.sources[0].waveform.end_s() {
        simulation.step().unwrap();
    }
    let mut before = simulation.energy().unwrap();
    let first = before;
    for _ in 0..150 {
        simulation.step().unwrap();
        let now = simulation.energy().unwrap();
        assert!(now > 0.0 && now < before * 1.001, "energy went from {before} to {now}");
        before = now;
    }
    assert!(before < 0.2 * first, "from {first} only to {before}");
}

/// A source near the middle of a cube of `inner` open cells with `layers` of CPML and `margin` more open cells around, and a
/// probe two cells from the edge of the inner cube, over `steps`.
fn open_cube(inner: u64, layers: u64, margin: u64, steps: u64) -> Vec<f64> {
    let all = inner + 2 * (layers + margin);
    let at = |cell: f64| 0.01 * (cell + (layers + margin) as f64 + 0.5);
    let (source, probe) = (at((inner / 2) as f64), at(2.0));
    let model = model(&format!(
        r#"
        steps = {steps}
        grid = {{ cells = [{all}, {all}, {all}], cell_size = 0.01 }}
        boundaries = {{ all = "{}" }}
        cpml = {{ thickness = {layers} }}
        [[sources]]
        position = [{source}, {source}, {source}]
        axis = "z"
        waveform = {{ kind = "ricker", frequency = 2e9 }}
        [[probes]]
        points = [{{ name = "edge", x = {probe}, y = {probe}, z = {source} }}]
        fields = ["Ez"]
        "#,
        if layers > 0 { "cpml" } else { "pec" },
    ));
    Recording::of(&model, 1).series("edge", 0)
}

/// Largest deviation from the open reference, dB of the reference's peak.
fn reflection_db(inner: u64, layers: u64, reference_margin: u64, steps: u64) -> f64 {
    let absorbed = open_cube(inner, layers, 0, steps);
    let reference = open_cube(inner, 0, reference_margin, steps);
    let peak = reference.iter().map(|value| value.abs()).fold(0.0, f64::max);
    let error = absorbed.iter().zip(&reference).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    20.0 * (error / peak).log10()
}

#[test]
fn the_layers_reflect_little() {
    // The reference's walls are 20 cells further out: nothing comes back within the 80 steps (46 cells at c).
    let reflection = reflection_db(10, 8, 20, 80);
    println!("8 layers: {reflection:.1} dB");
    assert!(reflection < -65.0, "{reflection} dB");
}

#[test]
#[ignore = "a minute without optimisation; run with --release -- --ignored"]
fn ten_layers_reflect_less() {
    let reflection = reflection_db(20, 10, 50, 180);
    println!("10 layers: {reflection:.1} dB");
    assert!(reflection < -75.0, "{reflection} dB");
}

#[test]
fn no_walls_without_layers_is_not_absorbing() {
    // The canary of the test above: a conducting wall instead of the layers must show.
    let walls = open_cube(10, 0, 0, 80);
    let reference = open_cube(10, 0, 20, 80);
    let peak = reference.iter().map(|value| value.abs()).fold(0.0, f64::max);
    assert!(walls.iter().zip(&reference).any(|(a, b)| (a - b).abs() > 0.1 * peak));
}
