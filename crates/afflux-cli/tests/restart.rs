//! Restarts through the command: the solver's checkpoint, and the samples of the run that goes on from it.

mod common;

use common::{fails, json, works};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A small box with layers on some faces, a set every step and one every third.
const MODEL: &str = r#"
steps = 40
grid = { cells = [9, 8, 7], cell_size = 0.01 }
boundaries = { x_min = "cpml", z_max = "cpml" }
cpml = { thickness = 2 }
output = { window_steps = 6 }
[[sources]]
position = [0.045, 0.035, 0.025]
axis = "y"
waveform = { kind = "ricker", frequency = 5e9 }
[[probes]]
grid = "3x2x3"
fields = ["Ex", "Ey", "Hz"]
[[probes]]
name = "slow"
points = [{ name = "here", x = 0.05, y = 0.05, z = 0.06 }]
fields = ["Ey"]
every = 3
"#;

fn with_model() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("model.toml"), MODEL).unwrap();
    directory
}

fn csv(directory: &Path, file: &str) -> Vec<String> {
    works(directory, &["export", file, "--format", "csv", "--set", ""]).lines().map(str::to_owned).collect()
}

#[test]
fn a_checkpoint_goes_on_where_the_run_was() {
    let here = with_model();
    let here = here.path();
    works(here, &["fdtd", "model.toml", "--out", "whole.nc", "--ranks", "1"]);
    let run = ["fdtd", "model.toml", "--out", "first.nc", "--ranks", "3", "--checkpoint-every", "16", "--json"];
    let first = json(&works(here, &run));
    assert_eq!((&first["checkpoints"], &first["step_first"], &first["steps"]), (&2.into(), &0.into(), &40.into()));
    let run =
        ["fdtd", "model.toml", "--out", "second.nc", "--ranks", "2", "--restart-from", "first.nc.checkpoint", "--json"];
    let second = json(&works(here, &run));
    assert_eq!((&second["step_first"], &second["steps"]), (&32.into(), &8.into()));
    let (whole, second) = (csv(here, "whole.nc"), csv(here, "second.nc"));
    assert_eq!(second[1..], whole[1 + 32..], "every value from step 32 on");
    // Sampling or not, moving borders or not, the fields are the same.
    let run =
        ["fdtd", "model.toml", "--no-sampling", "--ranks", "4", "--checkpoint-every", "16", "--checkpoint", "bare"];
    let bare = json(&works(here, &[&run[..], &["--rebalance-every", "5", "--json"]].concat()));
    assert_eq!((&bare["checkpoints"], &bare["border_moves"]), (&2.into(), &7.into()));
    assert!(fs::read(here.join("bare")).unwrap() == fs::read(here.join("first.nc.checkpoint")).unwrap());
}

#[test]
fn checkpoints_that_do_not_fit_are_refused() {
    let here = with_model();
    let here = here.path();
    let model = ["fdtd", "model.toml", "--out", "a.nc", "--ranks", "2"];
    let with = |more: &[&'static str]| [&model[..], more].concat();
    works(here, &with(&["--checkpoint-every", "10", "--checkpoint", "state"]));
    fs::remove_file(here.join("a.nc")).unwrap();
    fails(here, 1, &with(&["--restart-from", "absent"]));
    assert!(fails(here, 1, &with(&["--restart-from", "model.toml"])).contains("not a checkpoint of this solver"));
    let mut bytes = fs::read(here.join("state")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(here.join("bent"), &bytes).unwrap();
    assert!(fails(here, 3, &with(&["--restart-from", "bent"])).contains("bent is damaged"));
    fs::write(here.join("cut"), &bytes[..middle]).unwrap();
    fails(here, 3, &with(&["--restart-from", "cut"]));
    fs::write(here.join("other.toml"), MODEL.replace("5e9", "6e9")).unwrap();
    let run = ["fdtd", "other.toml", "--out", "a.nc", "--restart-from", "state"];
    assert!(fails(here, 1, &run).contains("`sources` differs"));
    // Where it cannot be written is told before the run, not in its middle.
    fails(here, 1, &with(&["--checkpoint-every", "30", "--checkpoint", "missing/state"]));
    fails(here, 1, &with(&["--checkpoint-every", "30", "--checkpoint", "."]));
    fails(here, 2, &with(&["--checkpoint-every", "30", "--checkpoint", "a.nc"]));
    fails(here, 2, &["fdtd", "model.toml", "--no-sampling", "--checkpoint-every", "30"]);
    assert!(!here.join("a.nc").exists(), "no run has begun");
}
