//! What is run: made-up runs and a small box of the solver, small enough that a trial takes well under a second.

use std::path::{Path, PathBuf};

/// How the solver's or the made-up run is told where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `afflux synth`: begins at any step.
    Synth,
    /// `afflux fdtd`: begins at 0, or where its checkpoint was taken.
    Fdtd,
}

/// One run, of which every trial is an interrupted form.
#[derive(Debug, Clone)]
pub struct Workload {
    pub name: &'static str,
    pub kind: Kind,
    /// Steps `0..steps`.
    pub steps: u64,
    /// Arguments that define the samples.
    arguments: &'static [&'static str],
    /// Seconds that a step takes in trials that end by the clock, so that kills fall into the run and not only into its start.
    pub step_seconds: f64,
}

/// The workloads. Chunks are 50 rows: none of the runs ends with a full column but the third.
pub const WORKLOADS: [Workload; 5] = [
    Workload {
        name: "one set",
        kind: Kind::Synth,
        steps: 130,
        arguments: &["--points", "60", "--variables", "3"],
        step_seconds: 0.0008,
    },
    Workload {
        name: "three sets",
        kind: Kind::Synth,
        steps: 330,
        arguments: &["--points", "25", "--variables", "2", "--sets", "3", "--cadence", "4"],
        step_seconds: 0.0004,
    },
    Workload {
        name: "single precision",
        kind: Kind::Synth,
        steps: 200,
        arguments: &["--points", "301", "--variables", "2", "--type", "f32"],
        step_seconds: 0.0005,
    },
    Workload {
        name: "several chunks",
        kind: Kind::Synth,
        steps: 70,
        arguments: &["--points", "5500", "--variables", "1"],
        step_seconds: 0.0015,
    },
    Workload { name: "solver", kind: Kind::Fdtd, steps: 140, arguments: &["model.toml"], step_seconds: 0.0 },
];

/// A box with layers on some faces, two sets, one of them every third step.
pub const MODEL: &str = r#"
steps = 140
grid = { cells = [22, 20, 18], cell_size = 0.01 }
boundaries = { all = "cpml", z_min = "pec" }
cpml = { thickness = 4 }
output = { window_steps = 12 }
[[sources]]
position = [0.115, 0.095, 0.085]
axis = "y"
waveform = { kind = "ricker", frequency = 3e9 }
[[boxes]]
min = [0.06, 0.06, 0.06]
max = [0.12, 0.15, 0.14]
permittivity = 3.0
conductivity = 0.1
[[probes]]
grid = "4x4x4"
fields = ["Ex", "Ey", "Ez", "Hz"]
[[probes]]
name = "slow"
points = [{ name = "here", x = 0.05, y = 0.05, z = 0.06 }, { name = "there", x = 0.15, y = 0.15, z = 0.12 }]
fields = ["Hx", "Ey"]
type = "f32"
every = 3
"#;

impl Workload {
    /// The arguments of the command, up to those that say how the run goes. `start` is used by made-up runs alone.
    pub fn command(&self, file: &Path, start: u64) -> Vec<String> {
        let verb = match self.kind {
            Kind::Synth => "synth",
            Kind::Fdtd => "fdtd",
        };
        let mut arguments: Vec<String> = vec![verb.to_owned()];
        arguments.extend(self.arguments.iter().map(|&argument| argument.to_owned()));
        arguments.extend(["--out".to_owned(), file.display().to_string()]);
        if self.kind == Kind::Synth {
            arguments.extend(["--steps".to_owned(), (self.steps - start).to_string()]);
            if start > 0 {
                arguments.extend(["--start-step".to_owned(), start.to_string()]);
            }
        }
        arguments
    }

    /// Where the solver saves its fields.
    pub fn checkpoint(file: &Path) -> PathBuf {
        let mut name = file.as_os_str().to_owned();
        name.push(".checkpoint");
        name.into()
    }
}
