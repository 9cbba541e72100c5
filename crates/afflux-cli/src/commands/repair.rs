//! `afflux repair`: what something else than a kill left of a file becomes a closed file with its sealed rows.

use crate::failure::Failure;
use crate::output;
use afflux::file::{RepairError, RepairReport, listed_groups, repair, write_master};
use afflux::storage::PosixStorage;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Make a file openable and drop unsealed data: superblock and length right, datasets cut to their sealed rows, left-overs removed.
/// After a kill this is not needed: such files open and resume as they are.
#[derive(Debug, Args)]
#[command(
    after_help = "Refuses a file that is being written. Whether the samples are whole is for `afflux verify` to say.\n\n\
                  Example:\n  afflux repair run.nc"
)]
pub struct Repair {
    /// The file. Of a master of groups the files of all groups are repaired (with --json an object each), and the master is written
    /// anew from them.
    file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    file: String,
    changed: bool,
    temporary_removed: Option<String>,
    rows_cut: Vec<RowsCut>,
    superblock_written: bool,
    bytes_before: Option<u64>,
    bytes_now: Option<u64>,
    closed: bool,
}

#[derive(Serialize)]
struct RowsCut {
    dataset: String,
    rows_before: u64,
    rows_now: u64,
}

impl Repair {
    /// Repairs the file and prints what was done.
    pub fn run(&self) -> Result<(), Failure> {
        let groups = listed_groups(&self.file).ok().flatten();
        let files = groups.clone().unwrap_or_else(|| vec![self.file.clone()]);
        for file in &files {
            let repaired = repair(&PosixStorage, file).map_err(|error| match error {
                RepairError::Read(error) if error.is_damage() => Failure::damaged(error),
                error => Failure::failed(error),
            })?;
            if self.json {
                output::print_json(&Self::report(file, &repaired))?;
            } else {
                output::print(&format!("{}: {repaired}\n", file.display()))?;
            }
        }
        if groups.is_some() {
            write_master(&self.file, &files).map_err(Failure::failed)?;
            if !self.json {
                output::print(&format!("{}: wrote the master of {} groups\n", self.file.display(), files.len()))?;
            }
        }
        Ok(())
    }

    fn report(file: &Path, repaired: &RepairReport) -> Report {
        let rows_cut = repaired.rows_cut.iter().map(|(dataset, before, now)| RowsCut {
            dataset: dataset.clone(),
            rows_before: *before,
            rows_now: *now,
        });
        Report {
            file: file.display().to_string(),
            changed: !repaired.is_empty(),
            temporary_removed: repaired.temporary_removed.as_ref().map(|path| path.display().to_string()),
            rows_cut: rows_cut.collect(),
            superblock_written: repaired.superblock_written,
            bytes_before: repaired.length_changed.map(|(before, _)| before),
            bytes_now: repaired.length_changed.map(|(_, now)| now),
            closed: repaired.closed,
        }
    }
}
