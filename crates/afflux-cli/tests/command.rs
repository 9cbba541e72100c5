//! The command from outside: exit codes, results on standard output, one line on standard error.

mod common;

use common::{afflux, fails, json, text, works};
use serde_json::Value;
use std::fs;
use std::process::Command;
use tempfile::TempDir;

/// A directory with a small made-up file, `a.nc`.
fn with_file() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    works(
        directory.path(),
        &["synth", "--points", "10", "--steps", "60", "--variables", "2", "--window", "25", "--out", "a.nc"],
    );
    directory
}

/// The place in the file of a made-up value, found by its bytes.
fn place_of(bytes: &[u8], point: i64, variable: u64, step: u64) -> usize {
    use afflux_measure::synth::{SeriesKey, SynthValue};
    let value = f64::from_hash(SeriesKey::new(0, point, variable, 0).at(step)).to_le_bytes();
    let places: Vec<usize> = (0..bytes.len() - 8).filter(|&at| bytes[at..at + 8] == value).collect();
    assert_eq!(places.len(), 1, "a hash stands in the file once");
    places[0]
}

#[test]
fn every_command_has_help_with_an_example() {
    let here = tempfile::tempdir().unwrap();
    for command in [
        "demo",
        "fdtd",
        "synth",
        "info",
        "verify",
        "repair",
        "plan",
        "plot",
        "watch",
        "export",
        "bench",
        "bench sampling",
        "bench storage",
        "profile",
    ] {
        let arguments: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = works(here.path(), &arguments);
        assert!(help.contains("Example"), "{command}: {help}");
    }
    assert!(works(here.path(), &["--help"]).contains("Exit codes"));
}

#[test]
fn a_plan_is_explained_for_a_machine_that_is_not_there() {
    let here = tempfile::tempdir().unwrap();
    let machine = ["plan", "--ranks", "24576", "--ranks-per-node", "16", "--bytes", "96g", "--piece", "1k"];
    let file = ["--stripe-size", "1m", "--stripe-count", "48", "--hint", "requests_per_ost=2"];
    let arguments = [&machine[..], &file].concat();
    let text = works(here.path(), &arguments);
    assert!(text.contains("two-phase") && text.contains("each storage target has one aggregator"), "{text}");
    let plan = json(&works(here.path(), &[&arguments[..], &["--json"]].concat()));
    let aggregators = plan["aggregators"].as_array().unwrap();
    assert_eq!(aggregators.len(), 48);
    let served: u64 = aggregators.iter().map(|row| row["domain_bytes"].as_u64().unwrap()).sum();
    assert_eq!(served, 96 << 30);
    assert_eq!(plan["token_rings"], 96);
    let error =
        fails(here.path(), 2, &["plan", "--ranks", "4", "--bytes", "1m", "--piece", "8", "--hint", "cb_nodes=x"]);
    assert!(error.contains("cb_nodes"), "{error}");
}

#[test]
fn repair_says_what_it_did_and_does_it_once() {
    let here = with_file();
    assert!(works(here.path(), &["repair", "a.nc"]).contains("nothing to repair"));
    // Another program left the file open for writing.
    let path = here.path().join("a.nc");
    let mut bytes = fs::read(&path).unwrap();
    bytes[11] = 5;
    fs::write(&path, &bytes).unwrap();
    let repaired = json(&works(here.path(), &["repair", "a.nc", "--json"]));
    assert_eq!((&repaired["changed"], &repaired["superblock_written"]), (&Value::Bool(true), &Value::Bool(true)));
    assert_eq!(json(&works(here.path(), &["repair", "a.nc", "--json"]))["changed"], Value::Bool(false));
    works(here.path(), &["verify", "a.nc", "--synth"]);
    fails(here.path(), 1, &["repair", "missing.nc"]);
}

#[test]
fn wrong_calls_are_usage_errors() {
    let here = tempfile::tempdir().unwrap();
    for arguments in [
        &["nonsense"][..],
        &["synth", "--nonsense"],
        &["synth", "--points", "many", "--steps", "1", "--variables", "1", "--out", "x.nc"],
        &["synth", "--points", "1", "--steps", "1", "--variables", "1", "--ranks", "0", "--out", "x.nc"],
        &["bench", "sampling", "--methods", "nonsense"],
        &["bench", "sampling", "--dir", "missing"],
        &["plot", "a.nc", "--var", "v0", "--point", "0", "-o", "picture.pdf"],
    ] {
        let output = afflux(here.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn synth_info_and_verify_agree() {
    let here = tempfile::tempdir().unwrap();
    let written = json(&works(
        here.path(),
        &[
            "synth",
            "--points",
            "7",
            "--steps",
            "41",
            "--variables",
            "2",
            "--sets",
            "3",
            "--cadence",
            "4",
            "--type",
            "i32",
            "--ranks",
            "3",
            "--window",
            "10",
            "--start-step",
            "100",
            "--checkpoint-every",
            "15",
            "--out",
            "b.nc",
            "--json",
        ],
    ));
    assert_eq!((&written["points"], &written["ranks"], &written["watermark"]), (&21.into(), &3.into(), &140.into()));
    assert_eq!(written["payload_bytes"], 3 * 7 * 2 * 4 * 11);
    let info = json(&works(here.path(), &["info", "b.nc", "--json"]));
    assert_eq!(info["sets"].as_array().unwrap().len(), 3);
    assert_eq!((&info["sets"][1]["step_first"], &info["sets"][1]["rows"]), (&100.into(), &11.into()));
    assert_eq!(info["sets"][2]["variables"][1]["type"], "i32");
    let verified = json(&works(here.path(), &["verify", "b.nc", "--synth", "--json"]));
    assert_eq!(verified["synth"]["values_checked"], 3 * 7 * 2 * 11);
    assert_eq!((&verified["whole"], &verified["synth"]["values_wrong"]), (&true.into(), &0.into()));
}

#[test]
fn an_existing_file_is_replaced_only_when_asked() {
    let here = with_file();
    let before = fs::read(here.path().join("a.nc")).unwrap();
    let run = ["synth", "--points", "3", "--steps", "5", "--variables", "1", "--out", "a.nc"];
    fails(here.path(), 1, &run);
    assert_eq!(fs::read(here.path().join("a.nc")).unwrap(), before);
    works(here.path(), &[&run[..], &["--replace"]].concat());
    assert_ne!(fs::read(here.path().join("a.nc")).unwrap(), before);
}

#[test]
fn existing_files_are_told_in_the_words_of_the_command() {
    let here = with_file();
    let line = fails(here.path(), 1, &["synth", "--points", "3", "--steps", "5", "--variables", "1", "--out", "a.nc"]);
    assert!(line.contains("--replace") && line.contains("--resume"), "{line}");
    let scalar = fails(here.path(), 1, &["plot", "a.nc", "--var", "v0[0]", "--point", "0", "-o", "x.png"]);
    assert!(scalar.contains("no components; write v0"), "{scalar}");
}

#[test]
fn sizes_that_cannot_be_are_refused_before_anything_is_allocated() {
    let here = tempfile::tempdir().unwrap();
    for points in ["500000000", "1000000000000", "9223372036854775807"] {
        let line = fails(
            here.path(),
            1,
            &[
                "synth",
                "--points",
                points,
                "--steps",
                "100000",
                "--window",
                "100000",
                "--variables",
                "4096",
                "--out",
                "x.nc",
            ],
        );
        assert!(line.contains("available") && line.contains("--points"), "{line}");
        let line = fails(here.path(), 1, &["bench", "sampling", "--points", points, "--steps", "1000000000"]);
        assert!(line.contains("available") && line.contains("--points"), "{line}");
    }
    let run = ["synth", "--points", "1", "--steps", "2", "--variables", "1", "--out", "x.nc"];
    for more in [
        ["--ranks", "1000000"],
        ["--step-seconds", "1e300"],
        ["--step-seconds", "nan"],
        ["--start-step", "4611686018427387903"],
        ["--start-step", "18446744073709551615"],
        ["--sets", "4097"],
    ] {
        let output = afflux(here.path(), &[&run[..], &more].concat());
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {errors}");
        assert!(!errors.contains("panicked"), "{more:?}: {errors}");
    }
    for arguments in [
        &["synth", "--points", "1", "--steps", "2", "--variables", "4097", "--out", "x.nc"][..],
        &["fdtd", "model.toml", "--out", "x.nc", "--ranks", "4097"],
        &["bench", "sampling", "--ranks", "2,4097"],
    ] {
        assert_eq!(afflux(here.path(), arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0);
    works(here.path(), &[&run[..], &["--start-step", "4611686018427387902"]].concat());
}

/// A limit on the size of files stands for a full disk.
#[test]
fn a_full_disk_leaves_no_half_file_and_the_older_one() {
    let here = with_file();
    fs::write(here.path().join("x.png"), "an older picture").unwrap();
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"";
    for arguments in [
        &["plot", "a.nc", "--var", "v0", "--point", "0", "-o", "x.png"][..],
        &["export", "a.nc", "--format", "csv", "-o", "x.csv"],
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_afflux")]).args(arguments).current_dir(here.path());
        let output = command.env("AFFLUX_IGNORE_LAUNCHER", "1").output().expect("a shell");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(errors.starts_with("afflux: cannot write x."), "{errors}");
    }
    assert_eq!(fs::read(here.path().join("x.png")).unwrap(), b"an older picture");
    let mut left: Vec<_> = fs::read_dir(here.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a.nc", "x.png"]);
}

#[test]
fn what_is_read_is_not_written_over() {
    let here = with_file();
    let before = fs::read(here.path().join("a.nc")).unwrap();
    std::os::unix::fs::symlink("a.nc", here.path().join("a.png")).unwrap();
    fails(here.path(), 2, &["plot", "a.nc", "--var", "v0", "--point", "0", "-o", "a.png"]);
    fails(here.path(), 2, &["export", "a.nc", "--format", "csv", "-o", "./a.nc"]);
    assert_eq!(fs::read(here.path().join("a.nc")).unwrap(), before);
}

#[test]
fn what_is_not_there_is_named() {
    let here = with_file();
    assert!(
        fails(here.path(), 1, &["plot", "a.nc", "--var", "nonsense", "--point", "0", "-o", "x.png"]).contains("v0")
    );
    fails(here.path(), 1, &["plot", "a.nc", "--var", "v0", "--point", "77", "-o", "x.png"]);
    fails(here.path(), 1, &["plot", "a.nc", "--var", "v0", "--point", "0", "--set", "other", "-o", "x.png"]);
    assert!(!here.path().join("x.png").exists());
    fails(here.path(), 1, &["plot", "a.nc", "--var", "v0", "--point", "0", "-o", "missing/x.png"]);
    fails(here.path(), 1, &["info", "missing.nc"]);
    fails(here.path(), 1, &["synth", "--points", "3", "--steps", "5", "--variables", "1", "--out", "missing/a.nc"]);
    fs::write(here.path().join("broken.toml"), "[grid\ncells = oops").unwrap();
    fails(here.path(), 1, &["fdtd", "broken.toml", "--out", "b.nc", "--ranks", "2"]);
    assert!(!here.path().join("b.nc").exists());
}

#[test]
fn a_tampered_value_and_a_cut_file_are_found() {
    let here = with_file();
    let (whole, bent) = (here.path().join("a.nc"), here.path().join("bent.nc"));
    let mut bytes = fs::read(&whole).unwrap();
    let place = place_of(&bytes, 6, 1, 33);
    bytes[place] ^= 1;
    fs::write(&bent, &bytes).unwrap();
    fails(here.path(), 3, &["verify", "bent.nc"]);
    let line = afflux(here.path(), &["verify", "bent.nc", "--synth", "--json"]);
    assert_eq!(line.status.code(), Some(4));
    let report = json(&text(&line.stdout));
    assert_eq!((&report["whole"], &report["synth"]["values_wrong"]), (&false.into(), &1.into()));
    assert!(report["synth"]["differences"][0].as_str().unwrap().contains("point 6, v1, component 0, step 33"));

    let refused = fails(here.path(), 3, &["export", "bent.nc", "--format", "csv"]);
    assert!(refused.contains("column 0") && refused.contains("--unchecked"), "{refused}");
    works(here.path(), &["export", "bent.nc", "--format", "csv", "--unchecked"]);

    bytes.truncate(bytes.len() / 2);
    fs::write(&bent, &bytes).unwrap();
    fails(here.path(), 3, &["verify", "bent.nc"]);
    fs::write(&bent, b"").unwrap();
    assert!(fails(here.path(), 3, &["info", "bent.nc"]).contains("it is empty"));
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let here = tempfile::tempdir().unwrap();
    let made = Command::new("mkfifo").arg(here.path().join("pipe")).status().expect("mkfifo is there");
    assert!(made.success());
    for command in ["info", "verify"] {
        assert!(fails(here.path(), 1, &[command, "pipe"]).contains("no regular file"), "{command}");
    }
}

#[test]
fn pictures_are_drawn_in_both_formats() {
    let here = with_file();
    works(here.path(), &["plot", "a.nc", "--var", "v0", "--point", "0", "5", "-o", "x.png"]);
    assert_eq!(&fs::read(here.path().join("x.png")).unwrap()[..4], b"\x89PNG");
    works(here.path(), &["plot", "a.nc", "--var", "v1", "--point", "3", "--spectrum", "-o", "x.svg"]);
    let drawing = fs::read_to_string(here.path().join("x.svg")).unwrap();
    assert!(drawing.contains("frequency") && drawing.contains("width=\"1600\""));
}

#[test]
fn a_frame_of_the_live_view_goes_into_a_pipe() {
    let here = with_file();
    let frame = works(here.path(), &["watch", "a.nc", "--var", "v1", "--point", "3", "5", "--once"]);
    let lines: Vec<&str> = frame.lines().collect();
    assert_eq!((lines.len(), lines[0]), (30, "v1  3  5"));
    assert_eq!(lines[29], "a.nc  sealed up to step 59, 60 rows, closed");
    let frames =
        works(here.path(), &["watch", "a.nc", "--point", "9", "--frames", "2", "--interval", "0.01", "--json"]);
    let frames: Vec<Value> = frames.lines().map(json).collect();
    assert_eq!((frames.len(), &frames[0]), (2, &frames[1]));
    assert_eq!((&frames[0]["step_last"], &frames[0]["points"][0]), (&59.into(), &"9".into()));
    fails(here.path(), 1, &["watch", "missing.nc", "--once"]);
    fails(here.path(), 1, &["watch", "a.nc", "--var", "nonsense", "--once"]);
    fails(here.path(), 2, &["watch", "a.nc"]);
    fails(here.path(), 2, &["watch", "a.nc", "--once", "--interval", "0"]);
}

/// The view outlives the end of one run and the beginning of the next.
#[test]
fn the_live_view_goes_on_over_a_close_and_a_resume() {
    let here = tempfile::tempdir().unwrap();
    let synth = |more: &[&'static str]| {
        let run = ["synth", "--points", "4", "--variables", "1", "--window", "5", "--steps", "30", "--out", "a.nc"];
        works(here.path(), &[&run[..], more].concat());
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_afflux"));
    command.args(["watch", "a.nc", "--frames", "60", "--interval", "0.05", "--json"]).current_dir(here.path());
    let watch = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    synth(&["--step-seconds", "0.01"]);
    synth(&["--start-step", "30", "--resume", "--step-seconds", "0.01"]);
    let output = watch.wait_with_output().unwrap();
    let frames: Vec<Value> = text(&output.stdout).lines().map(json).collect();
    assert_eq!((output.status.code(), frames.len()), (Some(0), 60));
    assert!(!frames[0]["problem"].is_null(), "the file was not there: {}", frames[0]);
    let steps: Vec<i64> = frames.iter().filter_map(|frame| frame["step_last"].as_i64()).collect();
    assert!(steps.is_sorted() && steps.last() == Some(&59), "{steps:?}");
    assert!(steps.iter().any(|step| (5..25).contains(step)), "it was seen growing: {steps:?}");
}

#[test]
fn csv_holds_every_value() {
    use afflux_measure::synth::{SeriesKey, SynthValue};
    let here = with_file();
    let table = works(here.path(), &["export", "a.nc", "--format", "csv"]);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 61);
    assert_eq!(&lines[0][..4], ["set", "step", "time (s)", "v0@0"]);
    let value: f64 = lines[1 + 47][3 + 10 + 4].parse().unwrap();
    assert_eq!(lines[0][3 + 10 + 4], "v1@4");
    assert_eq!(value, f64::from_hash(SeriesKey::new(0, 4, 1, 0).at(47)));
    works(here.path(), &["export", "a.nc", "--format", "csv", "-o", "a.csv"]);
    assert_eq!(fs::read_to_string(here.path().join("a.csv")).unwrap(), table);
    fails(here.path(), 1, &["export", "a.nc", "--format", "csv", "-o", "a.csv"]);
}

#[test]
fn the_benchmark_prints_one_object_a_line_and_cleans_up() {
    let here = tempfile::tempdir().unwrap();
    let lines = works(
        here.path(),
        &[
            "bench",
            "sampling",
            "--points",
            "4,30",
            "--ranks",
            "3",
            "--steps",
            "60",
            "--window",
            "20",
            "--repetitions",
            "2",
            "--json",
        ],
    );
    let results: Vec<Value> = lines.lines().map(json).collect();
    assert_eq!(results.len(), 12);
    for result in &results {
        for key in "method points ranks backend steps window bytes seconds_median seconds_min repetitions".split(' ') {
            assert!(!result[key].is_null(), "{key}: {result}");
        }
        assert_eq!(result["bytes"].as_u64().unwrap(), result["points"].as_u64().unwrap() * 60 * 32);
        assert_ne!(result["file_system"]["kind"], "");
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "what was measured has been removed");
}
