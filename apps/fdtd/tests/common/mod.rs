//! What the tests share: runs on thread ranks with rows kept in memory, the spectrum of a series, and what theory
//! says of it.
#![allow(dead_code, reason = "each test crate uses a part")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::f64::consts::{PI, TAU};
use std::path::Path;
use std::rc::Rc;

use afflux::storage::PosixStorage;
use afflux_fdtd::constants::SPEED_OF_LIGHT;
use afflux_fdtd::{Column, Model, Row, RunOptions, Sampler, Simulation, run};

/// Everything at once: unequal cells, layers on some faces, materials across cuts, sets of several kinds.
pub const MIXED: &str = r#"
    steps = 60
    grid = { cells = [13, 11, 9], cell_size = [0.01, 0.012, 0.011] }
    boundaries = { all = "cpml", z_min = "pec", x_max = "pec" }
    cpml = { thickness = 3 }
    [[sources]]
    position = [0.06, 0.06, 0.05]
    axis = "z"
    waveform = { kind = "modulated", frequency = 2e9, width = 0.15e-9, delay = 0.3e-9 }
    [[sources]]
    position = [0.08, 0.06, 0.02]
    axis = "x"
    amplitude = 0.3
    waveform = { kind = "gaussian", width = 0.1e-9 }
    [[boxes]]
    min = [0.02, 0.02, 0.0]
    max = [0.07, 0.09, 0.06]
    permittivity = 4.0
    [[boxes]]
    min = [0.05, 0.05, 0.02]
    max = [0.09, 0.08, 0.08]
    permittivity = 2.0
    conductivity = 0.2
    [[probes]]
    grid = "5x4x6"
    fields = ["Ex", "Ey", "Ez", "Hx", "Hy", "Hz"]
    [[probes]]
    name = "coarse"
    points = [{ name = "a", x = 0.05, y = 0.06, z = 0.05 }, { name = "b", x = 0.13, y = 0.132, z = 0.099 }]
    fields = ["Hz", "Ez"]
    type = "f32"
    every = 7
"#;

/// The points of a rank: their numbers and names, indexed by set.
type Points = Vec<Vec<(i64, String)>>;

/// The rows of one rank, each with the points that it had then.
#[derive(Debug, Default)]
pub struct Recorder {
    points: Rc<Points>,
    rows: Vec<(usize, u64, Rc<Points>, Row)>,
    /// How often points changed hands.
    pub rebalanced: u64,
}

impl Recorder {
    fn new(simulation: &Simulation<'_>) -> Self {
        Self { points: points_of(simulation), ..Self::default() }
    }
}

fn points_of(simulation: &Simulation<'_>) -> Rc<Points> {
    let of_set =
        |set| simulation.probes(set).local.iter().map(|point| (point.id, point.name.clone())).collect::<Vec<_>>();
    Rc::new((0..simulation.model().probes.len()).map(of_set).collect())
}

impl Sampler for Recorder {
    type Error = Infallible;
    fn append(&mut self, set: usize, step: u64, _: f64, row: &Row) -> Result<(), Infallible> {
        self.rows.push((set, step, Rc::clone(&self.points), row.clone()));
        Ok(())
    }
    fn rebalance(&mut self, simulation: &Simulation<'_>) -> Result<(), Infallible> {
        let points = points_of(simulation);
        self.rebalanced += u64::from(points != self.points);
        self.points = points;
        Ok(())
    }
}

/// What a run left behind, put together from all ranks.
#[derive(Debug, Default, PartialEq)]
pub struct Recording {
    /// `(set, point id)` to `[column][row]`, values as bits.
    pub series: BTreeMap<(usize, i64), Vec<Vec<u64>>>,
    /// Names of the points.
    pub names: BTreeMap<(usize, i64), String>,
    /// Steps of the rows of each set.
    pub steps: BTreeMap<usize, Vec<u64>>,
    /// Energy at the end, as bits.
    pub energy: u64,
}

impl Recording {
    /// Runs a model on thread ranks.
    pub fn of(model: &Model, ranks: usize) -> Self {
        Self::with(model, ranks, None, &RunOptions::default()).0
    }

    /// Runs a model on thread ranks, from a checkpoint where one is given; also how often points changed hands.
    pub fn with(model: &Model, ranks: usize, checkpoint: Option<&Path>, options: &RunOptions) -> (Self, u64) {
        let parts = afflux::comm::threads::run(ranks, |comm| {
            let mut simulation = match checkpoint {
                None => Simulation::new(model, &comm).unwrap(),
                Some(path) => Simulation::restart(model, &comm, &PosixStorage::new(), path).unwrap(),
            };
            let mut recorder = Recorder::new(&simulation);
            run(&mut simulation, &mut recorder, options, &mut |_| ()).unwrap();
            let rows: Vec<(usize, u64, Points, Row)> =
                recorder.rows.into_iter().map(|(set, step, points, row)| (set, step, (*points).clone(), row)).collect();
            (rows, recorder.rebalanced, simulation.energy().unwrap())
        });
        let mut recording = Self::default();
        let mut rebalanced = 0;
        let mut rows: Vec<_> = Vec::new();
        for (rank, (of_rank, changes, energy)) in parts.into_iter().enumerate() {
            recording.energy = energy.to_bits();
            rebalanced += changes;
            rows.extend(of_rank.into_iter().map(|row| (rank, row)));
        }
        // By step: a point's rows may come from several ranks.
        rows.sort_by_key(|(_, (set, step, ..))| (*set, *step));
        for (rank, (set, step, points, row)) in &rows {
            if *rank == 0 {
                recording.steps.entry(*set).or_default().push(*step);
            }
            for (n, (id, name)) in points[*set].iter().enumerate() {
                recording.names.insert((*set, *id), name.clone());
                let series = recording.series.entry((*set, *id)).or_default();
                series.resize(row.columns.len(), Vec::new());
                for (column, values) in row.columns.iter().zip(series) {
                    values.push(match column {
                        Column::F64(values) => values[n].to_bits(),
                        Column::F32(values) => u64::from(values[n].to_bits()),
                    });
                }
            }
        }
        (recording, rebalanced)
    }

    /// Puts the rows of a run that went on behind those of the run before it.
    pub fn followed_by(mut self, later: Self) -> Self {
        for (key, series) in later.series {
            for (column, values) in self.series.get_mut(&key).unwrap().iter_mut().zip(series) {
                column.extend(values);
            }
        }
        for (set, steps) in later.steps {
            self.steps.entry(set).or_default().extend(steps);
        }
        self.energy = later.energy;
        self
    }

    /// The f64 series of a point by name, in set 0.
    pub fn series(&self, name: &str, column: usize) -> Vec<f64> {
        let (key, _) =
            self.names.iter().find(|(key, known)| key.0 == 0 && *known == name).expect("a point of that name");
        self.series[key][column].iter().map(|&bits| f64::from_bits(bits)).collect()
    }
}

/// A model from its text.
pub fn model(text: &str) -> Model {
    Model::from_toml(text, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

/// Amplitude of a Hann-windowed series at a frequency (Goertzel's recurrence).
pub fn amplitude(series: &[f64], time_step_s: f64, frequency: f64) -> f64 {
    let len = series.len() as f64;
    let omega = TAU * frequency * time_step_s;
    let (mut one, mut two) = (0.0, 0.0);
    for (n, value) in series.iter().enumerate() {
        let window = (PI * n as f64 / len).sin().powi(2);
        let zero = value * window + 2.0 * omega.cos() * one - two;
        (two, one) = (one, zero);
    }
    (one * one + two * two - 2.0 * omega.cos() * one * two).max(0.0).sqrt()
}

/// Frequencies of the peaks in a band of the spectrum summed over several series of equal length, ascending: local maxima
/// above `threshold` of the largest, refined by a parabola through the logarithms.
pub fn peaks(series: &[Vec<f64>], time_step_s: f64, band: std::ops::Range<f64>, threshold: f64) -> Vec<f64> {
    let spacing = 0.25 / (series[0].len() as f64 * time_step_s);
    let mut frequencies = Vec::new();
    let mut frequency = band.start;
    while frequency < band.end {
        frequencies.push(frequency);
        frequency += spacing;
    }
    let spectrum: Vec<f64> =
        frequencies.iter().map(|&f| series.iter().map(|one| amplitude(one, time_step_s, f)).sum()).collect();
    let largest = spectrum.iter().copied().fold(0.0, f64::max);
    let mut found = Vec::new();
    for n in 1..spectrum.len() - 1 {
        let [before, here, after] = [spectrum[n - 1], spectrum[n], spectrum[n + 1]];
        if here > before && here >= after && here > threshold * largest {
            let [before, here, after] = [before, here, after].map(f64::ln);
            let shift = 0.5 * (before - after) / (before - 2.0 * here + after);
            found.push(frequencies[n] + shift * spacing);
        }
    }
    found
}

/// Resonances of a closed box with sides in metres, hertz, ascending; at most one index is 0.
pub fn resonances(sides: [f64; 3]) -> Vec<f64> {
    let mut found = Vec::new();
    for (m, n, p) in (0..4).flat_map(|m| (0..4).flat_map(move |n| (0..4).map(move |p| (m, n, p)))) {
        let index = [m, n, p].map(f64::from);
        if index.iter().filter(|&&i| i == 0.0).count() <= 1 {
            let square: f64 = (0..3).map(|axis| (index[axis] / sides[axis]).powi(2)).sum();
            found.push(SPEED_OF_LIGHT / 2.0 * square.sqrt());
        }
    }
    found.sort_by(f64::total_cmp);
    found
}

/// The lag, in steps, at which `late` correlates best with `early`, refined by a parabola.
pub fn lag_steps(early: &[f64], late: &[f64]) -> f64 {
    let correlation = |lag: usize| early.iter().zip(&late[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let all: Vec<f64> = (0..late.len()).map(correlation).collect();
    let best = (1..all.len() - 1).max_by(|&a, &b| all[a].total_cmp(&all[b])).unwrap();
    let [before, here, after] = [all[best - 1], all[best], all[best + 1]];
    best as f64 + 0.5 * (before - after) / (before - 2.0 * here + after)
}
