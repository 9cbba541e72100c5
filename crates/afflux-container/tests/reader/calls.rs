//! The series of one point costs one contiguous read for each column of chunks (CASES M12), counted by strace.

use crate::make::{MadeSet, MadeVariable, make};
use afflux_container::{ElementType, SeriesFile};
use std::process::Command;

const FILE_VARIABLE: &str = "AFFLUX_TEST_SERIES_FILE";
const ROWS: u64 = 1000;
const CHUNK_STEPS: usize = 100;

fn many_points() -> Vec<MadeSet> {
    let element = ElementType::F64;
    vec![MadeSet {
        name: "",
        ids: (0..64).collect(),
        variables: vec![MadeVariable { name: "Ez", element, components: None }],
        steps: (0..1000).collect(),
        chunk_steps: CHUNK_STEPS,
        points_per_chunk: 64,
    }]
}

/// What the traced process does; it does nothing when the tests run it themselves.
#[test]
fn series_of_the_traced_process() {
    let Some(path) = std::env::var_os(FILE_VARIABLE) else { return };
    let file = SeriesFile::open(path).expect("opens");
    let series = file.series(0, 0, 37, 0, 0..ROWS).expect("series");
    assert_eq!(series.len(), 1000);
}

#[test]
fn a_series_is_one_contiguous_read_a_column() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.nc");
    make(&path, &many_points(), Some(ROWS)).expect("made");
    let trace = directory.path().join("trace");
    let status = Command::new("strace")
        .args(["-f", "-e", "trace=pread64,preadv,read", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "calls::series_of_the_traced_process"])
        .env(FILE_VARIABLE, &path)
        .output();
    let Ok(output) = status else {
        eprintln!("strace is not installed: the reads are not counted");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let trace = std::fs::read_to_string(&trace).expect("a trace");
    let run_bytes = CHUNK_STEPS * 8;
    let runs = trace.lines().filter(|line| line.contains(&format!(", {run_bytes}, "))).count();
    let longest = trace.lines().filter_map(|line| line.rsplit("= ").next()?.trim().parse::<usize>().ok()).max();
    // `step` is read in runs of the same length: one column for the last sealed row, all ten for the cadence.
    assert_eq!(runs, 10 + 1 + 10, "{trace}");
    assert!(longest < Some(64 * run_bytes), "a whole chunk was read: {longest:?}");
}
