//! What the benchmarks have in common: results that were kept from earlier runs, and pages and pictures that are written.

use crate::failure::Failure;
use crate::new_file::{NewFile, Older};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

/// Reads the results of a benchmark from files that its `--json` has written; lines of other benchmarks are passed over.
pub fn read<T: DeserializeOwned>(paths: &[impl AsRef<Path>], benchmark: &str) -> Result<Vec<T>, Failure> {
    let mut records = Vec::new();
    for path in paths {
        let path = path.as_ref();
        let cannot =
            |error: &dyn std::fmt::Display| Failure::failed(format!("cannot read {}: {error}", path.display()));
        let file = File::open(path).map_err(|error| cannot(&error))?;
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(|error| cannot(&error))?;
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |error: serde_json::Error| {
                Failure::failed(format!("{}:{}: no result of a benchmark: {error}", path.display(), number + 1))
            };
            let value: serde_json::Value = serde_json::from_str(&line).map_err(wrong)?;
            if value["benchmark"] == benchmark {
                records.push(serde_json::from_value(value).map_err(wrong)?);
            }
        }
    }
    Ok(records)
}

/// Writes a text to a file: the whole of it, or nothing under that name.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written = NewFile::create(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.finish(path, Older::Replace)
    });
    written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

/// A time limit of the command line.
pub fn seconds(value: f64, name: &str) -> Result<Duration, Failure> {
    let duration = Duration::try_from_secs_f64(value).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| Failure::usage(format!("{name} takes a time above 0")))
}
