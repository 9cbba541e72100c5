//! Restarts through the command: the solver's checkpoint, and the samples of the run that goes on from it.

mod common;

use common::{afflux, fails, json, works};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
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

/// `h5diff` of two files but for the bookkeeping.
fn same_samples(directory: &Path, one: &str, other: &str) {
    let mut command = Command::new("h5diff");
    let output = command.args(["--exclude-path=/afflux", one, other]).current_dir(directory).output();
    let output = output.expect("h5diff is installed");
    assert!(output.status.success() && output.stdout.is_empty(), "{one} {other}: {output:?}");
}

#[test]
fn a_solver_restarted_from_its_checkpoint_goes_on_with_its_file() {
    let here = with_model();
    let here = here.path();
    works(here, &["fdtd", "model.toml", "--out", "whole.nc", "--ranks", "1"]);
    fs::write(here.join("short.toml"), MODEL.replace("steps = 40", "steps = 29")).unwrap();
    for (how, ranks) in [("skip", "3"), ("compare", "1"), ("rewrite", "4")] {
        let out = format!("{how}.nc");
        let first = ["fdtd", "short.toml", "--out", &out, "--ranks", "2", "--checkpoint-every", "12"];
        works(here, &[&first[..], &["--rebalance-every", "5"]].concat());
        let checkpoint = format!("{out}.checkpoint");
        let again =
            ["fdtd", "model.toml", "--out", &out, "--ranks", ranks, "--restart-from", &checkpoint, "--resume", how];
        let report = json(&works(here, &[&again[..], &["--window", "7", "--rebalance-every", "3", "--json"]].concat()));
        // Steps 24 to 28 of both sets come again: five rows of the one, two (24 and 27) of the other.
        assert_eq!((&report["step_first"], &report["replayed_rows"]), (&24.into(), &7.into()), "{how}");
        assert_eq!((&report["rewritten_bytes"], &report["watermark"]), (&0.into(), &39.into()), "{how}");
        same_samples(here, "whole.nc", &out);
    }
    // A signal ends a run with samples and fields in step with each other.
    fs::write(here.join("long.toml"), MODEL.replace("steps = 40", "steps = 400000")).unwrap();
    let long =
        ["fdtd", "long.toml", "--out", "long.nc", "--ranks", "2", "--checkpoint-every", "1000000", "--seal-on-signal"];
    let ended = signalled(here, "-TERM", &[&long[..], &["--json"]].concat())["ended_at"].as_u64().unwrap();
    let more = MODEL.replace("steps = 40", &format!("steps = {}", ended + 5));
    fs::write(here.join("more.toml"), more).unwrap();
    let again =
        ["fdtd", "more.toml", "--out", "long.nc", "--restart-from", "long.nc.checkpoint", "--resume", "compare"];
    let report = json(&works(here, &[&again[..], &["--json"]].concat()));
    assert_eq!((&report["step_first"], &report["watermark"]), (&ended.into(), &(ended + 4).into()));
    // Without a checkpoint the solver begins anew, and its rows come again from the first on.
    let report = json(&works(here, &["fdtd", "model.toml", "--out", "skip.nc", "--resume", "--json"]));
    assert_eq!(report["rows"], 0);
    same_samples(here, "whole.nc", "skip.nc");
    // Another model gives other values: compared, they differ.
    fs::write(here.join("other.toml"), MODEL.replace("5e9", "6e9")).unwrap();
    let line = fails(here, 4, &["fdtd", "other.toml", "--out", "skip.nc", "--resume", "compare"]);
    assert!(line.contains("skip.nc") && line.contains("variable `E"), "{line}");
}

#[test]
fn a_made_up_run_goes_on_with_its_file() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let synth = |out: &'static str, more: &[&'static str]| {
        [&["synth", "--points", "9", "--variables", "2", "--window", "7", "--out", out][..], more].concat()
    };
    works(here, &synth("whole.nc", &["--steps", "90", "--ranks", "1"]));
    works(here, &synth("a.nc", &["--steps", "60", "--resume"]));
    // A hole is refused with what to do; nothing changes.
    let line = fails(here, 1, &synth("a.nc", &["--steps", "5", "--start-step", "62", "--resume"]));
    assert!(line.contains("restart at step 60 or before"), "{line}");
    works(here, &synth("a.nc", &["--steps", "40", "--start-step", "50", "--ranks", "7", "--resume"]));
    same_samples(here, "whole.nc", "a.nc");
    // Counted from 0 again behind the file: refused with the reason, or continued by a stated offset.
    works(here, &synth("b.nc", &["--steps", "60", "--ranks", "2"]));
    works(here, &synth("b.nc", &["--steps", "30", "--step-offset", "60", "--resume", "skip"]));
    same_samples(here, "whole.nc", "b.nc");
    works(here, &["verify", "b.nc", "--synth"]);
    // Other points, variables and types are not what the file holds.
    for (name, value, words) in [
        ("--points", "8", "point"),
        ("--variables", "3", "v2"),
        ("--type", "f32", "v0"),
        ("--cadence", "2", "from row to row"),
    ] {
        let mut arguments =
            vec!["synth", "--points", "9", "--variables", "2", "--steps", "9", "--out", "b.nc", "--resume"];
        match arguments.iter().position(|argument| *argument == name) {
            Some(at) => arguments[at + 1] = value,
            None => arguments.extend([name, value]),
        }
        let line = fails(here, 1, &arguments);
        assert!(line.contains(words), "{name}: {line}");
    }
    same_samples(here, "whole.nc", "b.nc");
    let both = afflux(here, &synth("b.nc", &["--steps", "1", "--resume", "--replace"]));
    assert_eq!(both.status.code(), Some(2));
}

/// Starts the command, gives it a moment, and sends it a signal; what it printed.
fn signalled(directory: &Path, signal: &str, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afflux"));
    command.args(arguments).current_dir(directory).env("AFFLUX_IGNORE_LAUNCHER", "1");
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success(), "the run was still there");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    json(&String::from_utf8_lossy(&output.stdout))
}

#[test]
fn c2_a_signal_seals_everything_before_the_end() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let run = ["synth", "--points", "9", "--variables", "2", "--steps", "3000", "--out", "a.nc", "--window", "2000"];
    let paced = ["--step-seconds", "0.002", "--seal-on-signal", "--json"];
    for (signal, how) in [("-TERM", "--replace"), ("-USR1", "--replace")] {
        let report = signalled(here, signal, &[&run[..], &paced, &[how]].concat());
        let (steps, watermark) = (report["steps"].as_u64().unwrap(), report["watermark"].as_u64().unwrap());
        assert!(steps > 10 && steps < 3000 && watermark == steps - 1, "{signal}: {report}");
        assert_eq!(report["ended_by_signal"], true);
        let verified = json(&works(here, &["verify", "a.nc", "--synth", "--json"]));
        assert_eq!(verified["rows_checked"], steps);
    }
    // It goes on from there; nobody listens to signals that were not asked for.
    works(here, &[&run[..], &["--resume"]].concat());
    let whole: Vec<&str> = run.iter().map(|&argument| if argument == "a.nc" { "whole.nc" } else { argument }).collect();
    works(here, &whole);
    same_samples(here, "whole.nc", "a.nc");
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
