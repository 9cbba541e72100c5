//! What the benchmarks have in common: how results are shown and kept, and read again.

use crate::failure::Failure;
use crate::new_file::{NewFile, Older};
use crate::{output, progress};
use afflux_measure::host::Host;
use afflux_measure::report::{Page, Table};
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How `bench comm` and `bench spawn` show their results.
#[derive(Debug, Args)]
pub struct Shown {
    /// Print one JSON object a result, each on a line of its own.
    #[arg(long)]
    json: bool,
    /// Print Markdown in the form of the source's tables and figures instead.
    #[arg(long, conflicts_with = "json")]
    tables: bool,
    /// Write one HTML page with charts as well.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the charts as SVG files into an existing directory as well.
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
    /// Measure nothing: show results that --json has printed before; may be repeated.
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
}

/// What a benchmark makes of its results.
pub trait Kind {
    /// A result.
    type Record: Serialize + DeserializeOwned;
    /// The benchmark's name in its results.
    const NAME: &'static str;
    /// A page with charts.
    fn page(records: &[Self::Record]) -> Page;
    /// The charts, each with the name of its file.
    fn charts(records: &[Self::Record]) -> Vec<(String, String)>;
    /// The source's tables in Markdown.
    fn markdown(records: &[Self::Record]) -> String;
    /// The tables of the terminal.
    fn tables(records: &[Self::Record]) -> Vec<Table>;
    /// The machine of a result.
    fn host(record: &Self::Record) -> &Host;
}

impl Shown {
    /// Whether nothing is to be measured.
    pub fn is_of_earlier_results(&self) -> bool {
        !self.from.is_empty()
    }

    /// Shows what `measure` finds, or results that were kept. `measure` is given what to do with each as soon as it is there.
    pub fn show<K: Kind>(
        &self,
        measure: impl FnOnce(&ProgressBar, &mut dyn FnMut(&K::Record)) -> Result<Vec<K::Record>, Failure>,
    ) -> Result<(), Failure> {
        let records = if self.from.is_empty() { self.measured::<K>(measure)? } else { read(&self.from, K::NAME)? };
        if let Some(path) = &self.html {
            write(path, &K::page(&records).html())?;
        }
        if let Some(directory) = &self.pictures {
            K::charts(&records).iter().try_for_each(|(name, svg)| write(&directory.join(name), svg))?;
        }
        match (self.json, self.tables) {
            // Printed line by line while measuring.
            (true, _) if self.from.is_empty() => Ok(()),
            (true, _) => records.iter().try_for_each(output::print_json),
            (false, true) => output::print(&K::markdown(&records)),
            (false, false) => output::print(&text::<K>(&records)),
        }
    }

    /// Measures under a progress bar, and prints each result at once where JSON is wanted.
    fn measured<K: Kind>(
        &self,
        measure: impl FnOnce(&ProgressBar, &mut dyn FnMut(&K::Record)) -> Result<Vec<K::Record>, Failure>,
    ) -> Result<Vec<K::Record>, Failure> {
        let bar = progress::bar(1, "steps");
        let mut reader_gone = None;
        let records = measure(&bar, &mut |record| {
            if self.json && reader_gone.is_none() {
                reader_gone = bar.suspend(|| output::print_json(record)).err();
            }
        })?;
        bar.finish_and_clear();
        reader_gone.map_or(Ok(records), Err)
    }
}

fn text<K: Kind>(records: &[K::Record]) -> String {
    let mut text = records.first().map_or_else(String::new, |first| {
        let host = K::host(first);
        format!("{}; {}, {} processors; {}\n\n", host.name, host.cpu, host.cores, host.kernel)
    });
    let tables: Vec<String> = K::tables(records).iter().map(Table::text).collect();
    text.push_str(&tables.join("\n"));
    text
}

/// Reads the results of a benchmark from files that its `--json` has written; lines of other benchmarks are passed over.
fn read<T: DeserializeOwned>(paths: &[impl AsRef<Path>], benchmark: &str) -> Result<Vec<T>, Failure> {
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
fn write(path: &Path, text: &str) -> Result<(), Failure> {
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
