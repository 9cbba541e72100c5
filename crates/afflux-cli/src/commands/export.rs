//! `afflux export`: to other tools, as comma-separated values.
//!
//! A column a variable, component and point; a row a step. The file is read in pieces of bounded size, so that any file can be
//! exported; a file with very many points makes very long lines, which is the nature of the format.

use super::{open, read_failure, selection, set_label};
use crate::failure::Failure;
use crate::new_file::{self, NewFile, Older};
use crate::{output, progress};
use afflux::file::{Block, SeriesFile, SetInfo};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Values held in memory at once.
const BLOCK_VALUES: u64 = 1 << 22;

/// Write the samples in another format.
#[derive(Debug, Args)]
#[command(after_help = "The header names each column VARIABLE@POINT (units), or VARIABLE[COMPONENT]@POINT.\n\n\
                  The file is checked before the first row is written, which reads it once more.\n\n\
                  Examples:\n  afflux export run.nc --format csv | head\n  afflux export run.nc --format csv -o run.csv")]
pub struct Export {
    /// The file.
    file: PathBuf,
    /// The format.
    #[arg(long)]
    format: Format,
    /// The set; every set, one after another, unless given.
    #[arg(long, value_name = "S")]
    set: Option<String>,
    /// Write to this file, which must not exist, instead of standard output.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Do not read the file once before to hold it against its checksums; for what is left of a damaged one.
    #[arg(long)]
    unchecked: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Comma-separated values.
    Csv,
}

/// What ended an export.
enum Ended {
    Read(Failure),
    Write(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl Export {
    /// Writes the table.
    pub fn run(&self) -> Result<(), Failure> {
        if let Some(path) = &self.output {
            check_free(&self.file, path)?;
        }
        let file = open(&self.file)?;
        let sets: Vec<usize> = match &self.set {
            Some(name) => vec![selection::set(&file, name)?],
            None => (0..file.sets().len()).collect(),
        };
        let Format::Csv = self.format;
        if !self.unchecked {
            self.check(&file)?;
        }
        let rows: u64 = sets.iter().map(|&set| file.sets()[set].rows_sealed).sum();
        let bar = progress::bar(rows, "rows");
        let ended = match &self.output {
            None => write_all(&file, &sets, BufWriter::new(io::stdout().lock()), &bar),
            Some(path) => {
                let mut out = NewFile::create(path)
                    .map_err(|error| Failure::failed(format!("cannot create {}: {error}", path.display())))?;
                write_all(&file, &sets, &mut out, &bar).and_then(|()| Ok(out.finish(path, Older::Keep)?))
            }
        };
        bar.finish_and_clear();
        match (ended, &self.output) {
            (Ok(()), _) => Ok(()),
            (Err(Ended::Read(failure)), _) => Err(failure),
            (Err(Ended::Write(error)), None) => Err(output::write_failed(&error)),
            (Err(Ended::Write(error)), Some(path)) => {
                Err(Failure::failed(format!("cannot write {}: {error}; nothing is left of it", path.display())))
            }
        }
    }
}

impl Export {
    /// A damaged file is not exported as if it were whole.
    fn check(&self, file: &SeriesFile) -> Result<(), Failure> {
        let bar = progress::bar(1, "columns checked");
        let verification = file.verify(&mut |progress| {
            bar.set_length(progress.columns);
            bar.set_position(progress.columns_done);
        });
        bar.finish_and_clear();
        match verification.findings.first() {
            None => Ok(()),
            Some(first) => Err(Failure::damaged(format!(
                "{} is damaged and is not exported: {first} ({} findings); `afflux verify` lists them, --unchecked exports all \
                 the same",
                self.file.display(),
                verification.findings.len()
            ))),
        }
    }
}

/// The output must be no file that is there, least of all the one that is read.
fn check_free(input: &Path, output: &Path) -> Result<(), Failure> {
    new_file::check_apart(input, output)?;
    if output.symlink_metadata().is_ok() {
        return Err(Failure::failed(format!(
            "{} exists already and is not overwritten; remove it, or choose another name",
            output.display()
        )));
    }
    Ok(())
}

fn write_all(file: &SeriesFile, sets: &[usize], mut out: impl Write, bar: &ProgressBar) -> Result<(), Ended> {
    for (index, &set) in sets.iter().enumerate() {
        if index > 0 {
            out.write_all(b"\n")?;
        }
        write_set(file, set, &mut out, bar)?;
    }
    out.flush()?;
    Ok(())
}

fn write_set(file: &SeriesFile, set: usize, out: &mut impl Write, bar: &ProgressBar) -> Result<(), Ended> {
    let read = |error: &afflux::file::ReadError| Ended::Read(read_failure(error));
    let info = &file.sets()[set];
    let names = &file.points(set).map_err(|error| read(&error))?.names;
    write_header(info, names, out)?;
    let values_a_row = info.variables.iter().map(|variable| variable.spec.values() as u64).sum::<u64>() * info.points;
    let rows_at_once = (BLOCK_VALUES / values_a_row.max(1)).clamp(1, info.chunk_steps.max(1));
    let set_name = quoted(set_label(&info.name).trim_start_matches("the "));
    let mut first = 0;
    while first < info.rows_sealed {
        let rows = first..info.rows_sealed.min(first + rows_at_once);
        let steps = file.steps(set, rows.clone()).map_err(|error| read(&error))?;
        let times = file.times(set, rows.clone()).map_err(|error| read(&error))?;
        let blocks = (0..info.variables.len())
            .map(|variable| file.block(set, variable, 0..info.points, rows.clone()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| read(&error))?;
        for (row, (step, time)) in steps.iter().zip(&times).enumerate() {
            write!(out, "{set_name},{step},{time}")?;
            for block in &blocks {
                write_row(block, row, steps.len(), out)?;
            }
            out.write_all(b"\n")?;
        }
        bar.inc(rows_count(&rows));
        first = rows.end;
    }
    Ok(())
}

fn rows_count(rows: &Range<u64>) -> u64 {
    rows.end - rows.start
}

fn write_header(info: &SetInfo, names: &[String], out: &mut impl Write) -> io::Result<()> {
    write!(out, "set,step,{}", quoted(&format!("time ({})", info.time_units)))?;
    for variable in &info.variables {
        let spec = &variable.spec;
        let units = if spec.units.is_empty() { String::new() } else { format!(" ({})", spec.units) };
        for name in names {
            match spec.components {
                None => write!(out, ",{}", quoted(&format!("{}@{name}{units}", spec.name)))?,
                Some(count) => {
                    for component in 0..count {
                        write!(out, ",{}", quoted(&format!("{}[{component}]@{name}{units}", spec.name)))?;
                    }
                }
            }
        }
    }
    out.write_all(b"\n")
}

/// One row of a block indexed by (point, component, row), `rows` of them.
fn write_row(block: &Block, row: usize, rows: usize, out: &mut impl Write) -> io::Result<()> {
    fn each<V: std::fmt::Display>(values: &[V], row: usize, rows: usize, out: &mut impl Write) -> io::Result<()> {
        values.iter().skip(row).step_by(rows).try_for_each(|value| write!(out, ",{value}"))
    }
    match block {
        Block::F32(values) => each(values, row, rows, out),
        Block::F64(values) => each(values, row, rows, out),
        Block::I32(values) => each(values, row, rows, out),
        Block::I64(values) => each(values, row, rows, out),
    }
}

/// A field, in quotes where it holds what would part it (RFC 4180).
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(quoted("Ez@A1 (V m-1)"), "Ez@A1 (V m-1)");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }

    #[test]
    fn a_row_takes_every_series_once() {
        let mut out = Vec::new();
        write_row(&Block::I32(vec![1, 2, 3, 10, 20, 30]), 1, 3, &mut out).unwrap();
        assert_eq!(out, b",2,20");
    }
}
