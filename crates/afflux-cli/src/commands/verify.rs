//! `afflux verify`: is a file whole, and for made-up runs, is every value right?

use super::{open, read_failure};
use crate::failure::Failure;
use crate::{output, progress, quantity};
use afflux::file::{Finding, Verification};
use afflux_measure::synth;
use clap::Args;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Read every sealed byte and check it: checksums; steps that ascend by the cadence, without gap or double; times that never go
/// back (they may repeat).
#[derive(Debug, Args)]
#[command(after_help = "Exits with 3 when the file is damaged, with 4 when values differ from what `synth` wrote.\n\n\
                  Examples:\n  afflux verify run.nc\n  afflux verify trial.nc --synth --json")]
pub struct Verify {
    /// The file.
    file: PathBuf,
    /// Check also that every value is the one `afflux synth` writes there.
    #[arg(long)]
    synth: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    file: String,
    whole: bool,
    rows_checked: u64,
    columns_checked: u64,
    columns_unchecked: u64,
    bytes_checked: u64,
    findings: Vec<FindingReport>,
    synth: Option<SynthReport>,
}

#[derive(Serialize)]
struct FindingReport {
    set: Option<String>,
    column: Option<u64>,
    row: Option<u64>,
    message: String,
}

#[derive(Serialize)]
struct SynthReport {
    values_checked: u64,
    values_wrong: u64,
    differences: Vec<String>,
}

impl Verify {
    /// Checks the file and prints what was found.
    pub fn run(&self) -> Result<(), Failure> {
        let file = open(&self.file)?;
        let bar = progress::bar(1, "columns");
        let verification = file.verify(&mut |progress| {
            bar.set_length(progress.columns);
            bar.set_position(progress.columns_done);
        });
        bar.finish_and_clear();

        let checked = if self.synth {
            let bar = progress::bar(1, "values");
            let checked = synth::check(&file, &mut |done, all| {
                bar.set_length(all);
                bar.set_position(done);
            });
            bar.finish_and_clear();
            Some(checked)
        } else {
            None
        };
        // Where the file is damaged, values that cannot be read are part of the damage.
        let checked = match checked.transpose() {
            Ok(checked) => checked,
            Err(_) if !verification.is_whole() => None,
            Err(error) => return Err(read_failure(&error)),
        };
        let report = self.report(&verification, checked.as_ref());
        if self.json {
            output::print_json(&report)?
        } else {
            output::print(&text(&report))?
        }

        let shown = self.file.display();
        match &report.synth {
            Some(synth) if synth.values_wrong > 0 => {
                Err(Failure::different(format!("{shown}: {} values are wrong", synth.values_wrong)))
            }
            _ if !report.whole => {
                Err(Failure::damaged(format!("{shown} is damaged: {} findings", report.findings.len())))
            }
            _ => Ok(()),
        }
    }

    fn report(&self, verification: &Verification, checked: Option<&synth::Check>) -> Report {
        Report {
            file: self.file.display().to_string(),
            whole: verification.is_whole(),
            rows_checked: verification.rows_checked,
            columns_checked: verification.columns_checked,
            columns_unchecked: verification.columns_unchecked,
            bytes_checked: verification.bytes_checked,
            findings: verification.findings.iter().map(finding_report).collect(),
            synth: checked.map(|checked| SynthReport {
                values_checked: checked.values,
                values_wrong: checked.wrong,
                differences: checked.described.clone(),
            }),
        }
    }
}

fn finding_report(finding: &Finding) -> FindingReport {
    FindingReport { set: finding.set.clone(), column: finding.column, row: finding.row, message: finding.to_string() }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: {} rows in {} columns, {} checked: {}",
        report.file,
        quantity::count(report.rows_checked),
        quantity::count(report.columns_checked),
        quantity::bytes(report.bytes_checked),
        if report.whole { "whole" } else { "damaged" }
    );
    if report.columns_unchecked > 0 {
        let columns = quantity::count_of(report.columns_unchecked, "column", "columns");
        let _ = writeln!(text, "  {columns} unchecked: a writer was sealing all the while; verify again for a verdict");
    }
    for finding in &report.findings {
        let _ = writeln!(text, "  {}", finding.message);
    }
    if let Some(synth) = &report.synth {
        let _ = writeln!(
            text,
            "{} values compared with what synth writes: {}",
            quantity::count(synth.values_checked),
            if synth.values_wrong == 0 { "all right".to_owned() } else { format!("{} wrong", synth.values_wrong) }
        );
        for difference in &synth.differences {
            let _ = writeln!(text, "  {difference}");
        }
    }
    text
}
