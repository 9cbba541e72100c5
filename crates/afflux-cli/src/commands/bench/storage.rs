//! `afflux bench storage`: the arguments of the benchmark, and its results as a table, a page or JSON.

use super::worker::this_program;
use crate::failure::Failure;
use crate::{new_file, output, progress};
use afflux_measure::storage::{self, Options, StorageError, Test, source};
use afflux_measure::timing::Rule;
use clap::Args;
use std::path::PathBuf;

/// Measure directories: sequential and random transfers with and without the page cache, metadata, fsync, and the scratch load
/// of quantum chemistry.
#[derive(Debug, Args)]
#[command(
    after_help = "A file is left in each directory while it is measured, and removed. Times are elapsed; user, system and idle \
                  time (elapsed less both) are those of the run nearest the median. A cold read is one of a file that the page \
                  cache was told to drop; how much came from the device is in the table.\n\n\
                  Examples:\n  afflux bench storage /scratch /dev/shm\n  \
                  afflux bench storage --tests scratch --scratch-size 40g --compute 23 /scratch\n  \
                  afflux bench storage --html disks.html --labels SATA,SAS /mnt/sata /mnt/sas\n  \
                  afflux bench storage --source-model"
)]
pub struct Storage {
    /// Existing directories, one on each file system to compare.
    #[arg(value_name = "DIR", required_unless_present = "source_model")]
    directories: Vec<PathBuf>,
    /// What they are called; their devices' names unless given.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    labels: Vec<String>,
    /// Tests; all but the source's small jobs (scratch-test415, -test567, -test637, -test653) unless given.
    #[arg(long, value_name = "T,..", value_delimiter = ',')]
    tests: Vec<Test>,
    /// Length of the files of the sequential and random tests; more than the memory shows the device rather than the cache.
    #[arg(long, value_name = "BYTES", default_value = "256m", value_parser = bytes)]
    size: u64,
    /// Scratch of the load `scratch`; the source's small jobs keep their proportion to it.
    #[arg(long, value_name = "BYTES", default_value = "256m", value_parser = bytes)]
    scratch_size: u64,
    /// Length of sequential transfers, a multiple of 4 KiB.
    #[arg(long, value_name = "BYTES", default_value = "1m", value_parser = bytes)]
    block: u64,
    /// Times the scratch load reads its files; the source's large job about 15.
    #[arg(long, value_name = "N", default_value_t = 15)]
    passes: u32,
    /// Computing of the scratch load in milliseconds for each MiB read; the source's large job about 23.
    #[arg(long, value_name = "MS", default_value_t = 1.0, value_parser = compute)]
    compute: f64,
    /// Random transfers, and files of the metadata tests.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    operations: u64,
    /// Appends of 4 KiB with fsync.
    #[arg(long, value_name = "N", default_value_t = 50)]
    fsync_operations: u64,
    /// Run fio as well, where it can do the same, in turns with our own.
    #[arg(long)]
    fio: bool,
    /// Samples of each test and directory.
    #[arg(long, value_name = "K", default_value_t = Rule::default().repetitions)]
    repetitions: usize,
    /// Runs before those, not counted.
    #[arg(long, value_name = "K", default_value_t = Rule::default().warmups)]
    warmups: usize,
    /// A test that has used up this many seconds in a directory is not run again.
    #[arg(long, value_name = "T", default_value_t = Rule::default().seconds_max)]
    seconds_max: f64,
    /// Print one JSON object a result, each on a line of its own.
    #[arg(long)]
    json: bool,
    /// Print the table in Markdown.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Also write one HTML page with charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Measure nothing: print the figures of Gaussian jobs on six scratch disks that the load is modelled on, and the fit of
    /// idle time against bandwidth with its residuals.
    #[arg(long, conflicts_with_all = ["directories", "html"])]
    source_model: bool,
}

/// `256m`, `40g`, `4096`.
fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(['k', 'm', 'g', 't', 'i', 'b']);
    let shift = match lower[digits.len()..].trim_end_matches("ib") {
        "" | "b" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err("a number of bytes, with k, m, g or t for powers of 1,024".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|error| format!("{error}"))?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(|| "out of range".to_owned())
}

fn compute(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|milliseconds| (0.0..=1e4).contains(milliseconds));
    found.ok_or_else(|| "not a time from 0 to 10,000 ms".to_owned())
}

impl Storage {
    /// Measures and prints.
    pub fn run(&self) -> Result<(), Failure> {
        if self.source_model {
            return self.print_model();
        }
        if let Some(missing) = self.directories.iter().find(|directory| !directory.is_dir()) {
            return Err(Failure::usage(format!("{} is no directory", missing.display())));
        }
        let options = self.options()?;
        let bar = progress::bar(options.tests.len() as u64, "tests");
        let outcomes = storage::run(&options, &mut |progress| {
            bar.set_position(progress.tests_done as u64);
            bar.set_message(progress.test.name());
        });
        bar.finish_and_clear();
        let outcomes = outcomes.map_err(|error| failure(&error))?;
        if let Some(path) = &self.html {
            new_file::write_text(path, &storage::page(&outcomes))?;
        }
        if self.json {
            return outcomes.iter().try_for_each(output::print_json);
        }
        let table = storage::table(&outcomes);
        output::print(&if self.markdown { table.markdown() } else { table.text() })
    }

    fn options(&self) -> Result<Options, Failure> {
        let block_bytes = usize::try_from(self.block).map_err(Failure::usage)?;
        Ok(Options {
            labels: self.labels.clone(),
            tests: if self.tests.is_empty() { Test::usual() } else { self.tests.clone() },
            size_bytes: self.size,
            scratch_bytes: self.scratch_size,
            block_bytes,
            passes: self.passes,
            compute_ms_per_mib: self.compute,
            operations: self.operations,
            fsync_operations: self.fsync_operations,
            fio: self.fio,
            program: Some(this_program().map_err(Failure::failed)?),
            rule: Rule { warmups: self.warmups, repetitions: self.repetitions, seconds_max: self.seconds_max },
            command: std::env::args().collect::<Vec<_>>().join(" "),
            ..Options::new(self.directories.clone())
        })
    }

    fn print_model(&self) -> Result<(), Failure> {
        let fits: Vec<source::Fit> = [&["XFS"][..], &["ext2", "XFS"]].into_iter().filter_map(source::fit).collect();
        if self.json {
            return fits.iter().try_for_each(output::print_json);
        }
        let show = |table: &afflux_measure::report::Table| if self.markdown { table.markdown() } else { table.text() };
        let tables = std::iter::once(source::jobs_table()).chain(fits.iter().map(source::fit_table));
        output::print(&tables.map(|table| show(&table)).collect::<Vec<_>>().join("\n"))
    }
}

fn failure(error: &StorageError) -> Failure {
    match error {
        StorageError::Options(_) => Failure::usage(error),
        StorageError::Wrong { .. } => Failure::different(error),
        _ => Failure::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("256m"), Ok(256 << 20));
        assert_eq!(bytes("40G"), Ok(40 << 30));
        assert_eq!(bytes("1MiB"), Ok(1 << 20));
        for wrong in ["", "m", "1q", "-1", "0", "99999999t", "1mm", "bib"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
