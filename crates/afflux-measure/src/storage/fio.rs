//! The same transfers by fio (Axboe), where it is installed: an outside check of our own figures.

use super::place::Place;
use super::sample::Sample;
use super::test::Test;
use super::work::{DATA, SMALL_BYTES};
use super::{Options, StorageError};
use serde::Deserialize;
use std::process::{Command, Stdio};

/// Whether fio can be started.
#[must_use]
pub fn is_installed() -> bool {
    let version =
        Command::new("fio").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Whether fio does this test as we do.
#[must_use]
pub fn knows(test: Test) -> bool {
    mode(test).is_some()
}

fn mode(test: Test) -> Option<&'static str> {
    match test {
        Test::SequentialWrite | Test::SequentialWriteFsync | Test::SequentialWriteDirect => Some("write"),
        Test::SequentialReadCached | Test::SequentialReadCold | Test::SequentialReadDirect => Some("read"),
        Test::RandomRead | Test::RandomReadDirect => Some("randread"),
        Test::RandomWriteDirect => Some("randwrite"),
        _ => None,
    }
}

/// Runs fio once; the file that is read is there, and in the page cache or not as the test wants it.
///
/// # Errors
///
/// Where fio fails or says something that is not as its manual has it.
pub fn run(test: Test, place: &Place, options: &Options) -> Result<Sample, StorageError> {
    let mode = mode(test).ok_or_else(|| StorageError::Fio(format!("it has no {test}")))?;
    let name = if mode == "write" { "new" } else { DATA };
    place.remove("new");
    let is_random = mode.starts_with("rand");
    let block = if is_random { SMALL_BYTES } else { options.block_bytes };
    let keeps_cache = test == Test::SequentialReadCached;
    let mut command = Command::new("fio");
    command.args([
        "--name=afflux",
        "--ioengine=psync",
        "--output-format=json",
        "--fallocate=none",
        "--thread",
        "--randrepeat=1",
        // As we: no advice to the kernel on what follows (fio's doubles read-ahead), no time spent on new bytes for each block.
        "--fadvise_hint=0",
        "--scramble_buffers=0",
    ]);
    command.arg(format!("--filename={}", place.path(name).display()));
    command.arg(format!("--rw={mode}"));
    command.arg(format!("--size={}", options.size_bytes)).arg(format!("--bs={block}"));
    command.arg(format!("--direct={}", u8::from(test.is_direct())));
    command.arg(format!("--end_fsync={}", u8::from(test.has_fsync())));
    command.arg(format!("--invalidate={}", u8::from(!keeps_cache)));
    if is_random {
        command.arg(format!("--number_ios={}", options.operations)).arg("--norandommap");
    }
    let output = command.stdin(Stdio::null()).output().map_err(|error| StorageError::Fio(error.to_string()))?;
    if mode == "write" {
        place.remove("new");
    } else if mode == "randwrite" {
        place.remove(DATA);
    }
    if !output.status.success() {
        return Err(StorageError::Fio(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    parse(&String::from_utf8_lossy(&output.stdout), mode.ends_with("write"))
        .ok_or_else(|| StorageError::Fio("its output is not as expected".to_owned()))
}

#[derive(Deserialize)]
struct Report {
    jobs: Vec<JobReport>,
}

#[derive(Deserialize)]
struct JobReport {
    read: Direction,
    write: Direction,
    usr_cpu: f64,
    sys_cpu: f64,
}

#[derive(Deserialize)]
struct Direction {
    io_bytes: u64,
    total_ios: u64,
    /// In milliseconds.
    runtime: u64,
}

/// fio may print warnings before its JSON.
fn parse(output: &str, writes: bool) -> Option<Sample> {
    let report: Report = serde_json::from_str(&output[output.find('{')?..]).ok()?;
    let job = report.jobs.first()?;
    let direction = if writes { &job.write } else { &job.read };
    let elapsed_seconds = direction.runtime as f64 * 1e-3;
    if elapsed_seconds <= 0.0 {
        return None;
    }
    Some(Sample {
        elapsed_seconds,
        user_seconds: job.usr_cpu * 0.01 * elapsed_seconds,
        system_seconds: job.sys_cpu * 0.01 * elapsed_seconds,
        bytes: direction.io_bytes,
        operations: direction.total_ios,
        device_read_bytes: 0,
        device_written_bytes: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = "fio: a warning\n{\"jobs\": [{\"jobname\": \"a\", \"usr_cpu\": 1.0, \"sys_cpu\": 50.0, \
                    \"read\": {\"io_bytes\": 0, \"total_ios\": 0, \"runtime\": 0}, \
                    \"write\": {\"io_bytes\": 1000, \"total_ios\": 4, \"runtime\": 2000, \"bw\": 1}}]}";
        let sample = parse(text, true).unwrap();
        assert_eq!((sample.elapsed_seconds, sample.bytes, sample.operations), (2.0, 1000, 4));
        assert_eq!(sample.system_seconds, 1.0);
        assert_eq!(parse(text, false), None, "nothing was read");
        assert_eq!(parse("no report", true), None);
        assert!(knows(Test::RandomRead) && !knows(Test::Fsync));
    }
}
