//! `afflux info`: what is in a file.

use super::{open, set_label};
use crate::failure::Failure;
use crate::{output, quantity};
use afflux::ElementType;
use afflux::file::{GroupInfo, SeriesFile, SetInfo};
use clap::Args;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Show what is in a file: sets, points, variables, steps, and how far it is sealed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  afflux info run.nc")]
pub struct Info {
    /// The file.
    file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct FileReport {
    file: String,
    file_bytes: u64,
    payload_bytes: u64,
    watermark: Option<u64>,
    closed: bool,
    seals: u64,
    attributes: Vec<(String, String)>,
    groups: Vec<GroupReport>,
    sets: Vec<SetReport>,
}

/// The file of a group.
#[derive(Serialize)]
struct GroupReport {
    file: String,
    file_bytes: u64,
    watermark: Option<u64>,
    closed: bool,
    /// Points of each set.
    points: Vec<u64>,
}

#[derive(Serialize)]
struct SetReport {
    name: String,
    points: u64,
    rows: u64,
    rows_unsealed: u64,
    cadence_steps: Option<u64>,
    step_first: Option<i64>,
    step_last: Option<i64>,
    time_first: Option<f64>,
    time_last: Option<f64>,
    time_units: String,
    length_units: String,
    chunk_steps: u64,
    payload_bytes: u64,
    variables: Vec<VariableReport>,
}

#[derive(Serialize)]
struct VariableReport {
    name: String,
    #[serde(rename = "type")]
    element: &'static str,
    components: Option<u32>,
    units: String,
    points_per_chunk: u64,
}

impl Info {
    /// Reads the file and prints.
    pub fn run(&self) -> Result<(), Failure> {
        let file = open(&self.file)?;
        let sets = (0..file.sets().len()).map(|set| set_report(&file, set)).collect::<Result<Vec<_>, _>>()?;
        let report = FileReport {
            file: self.file.display().to_string(),
            file_bytes: file.file_bytes(),
            payload_bytes: sets.iter().map(|set| set.payload_bytes).sum(),
            watermark: file.state().watermark,
            closed: file.state().closed,
            seals: file.state().sequence,
            attributes: file.attributes(),
            groups: file.groups().into_iter().map(group_report).collect(),
            sets,
        };
        if self.json { output::print_json(&report) } else { output::print(&text(&report)) }
    }
}

fn group_report(group: GroupInfo) -> GroupReport {
    GroupReport {
        file: group.path.display().to_string(),
        file_bytes: group.file_bytes,
        watermark: group.watermark,
        closed: group.closed,
        points: group.points,
    }
}

/// How far something is sealed, in words.
fn sealed(watermark: Option<u64>) -> String {
    watermark.map_or_else(|| "nothing".to_owned(), |step| format!("up to step {step}"))
}

fn payload_bytes(set: &SetInfo) -> u64 {
    set.variables.iter().map(|variable| variable.spec.row_bytes() as u64).sum::<u64>() * set.points * set.rows_sealed
}

fn set_report(file: &SeriesFile, index: usize) -> Result<SetReport, Failure> {
    let set = &file.sets()[index];
    let time = |row: u64| match file.times(index, row..row + 1) {
        Ok(times) => Ok(times.first().copied()),
        Err(error) => Err(super::read_failure(&error)),
    };
    let (time_first, time_last) =
        if set.rows_sealed > 0 { (time(0)?, time(set.rows_sealed - 1)?) } else { (None, None) };
    Ok(SetReport {
        name: set.name.clone(),
        points: set.points,
        rows: set.rows_sealed,
        rows_unsealed: set.rows_on_disk.saturating_sub(set.rows_sealed),
        cadence_steps: set.cadence_steps,
        step_first: set.steps_sealed.map(|(first, _)| first),
        step_last: set.steps_sealed.map(|(_, last)| last),
        time_first,
        time_last,
        time_units: set.time_units.clone(),
        length_units: set.length_units.clone(),
        chunk_steps: set.chunk_steps,
        payload_bytes: payload_bytes(set),
        variables: set
            .variables
            .iter()
            .map(|variable| VariableReport {
                name: variable.spec.name.clone(),
                element: type_name(variable.spec.element),
                components: variable.spec.components,
                units: variable.spec.units.clone(),
                points_per_chunk: variable.points_per_chunk,
            })
            .collect(),
    })
}

/// The type as `synth --type` spells it.
pub fn type_name(element: ElementType) -> &'static str {
    match element {
        ElementType::F32 => "f32",
        ElementType::F64 => "f64",
        ElementType::I32 => "i32",
        ElementType::I64 => "i64",
    }
}

fn text(report: &FileReport) -> String {
    let mut text = String::new();
    let sealed_all = sealed(report.watermark);
    let state = if report.closed { "closed in good order" } else { "open: being written, or its writer was killed" };
    let _ = writeln!(text, "file       {}", report.file);
    let _ = writeln!(
        text,
        "size       {}, {} of it samples",
        quantity::bytes(report.file_bytes),
        quantity::bytes(report.payload_bytes)
    );
    let _ = writeln!(text, "sealed     {sealed_all}; {state}");
    for group in &report.groups {
        let points: u64 = group.points.iter().sum();
        let _ = writeln!(
            text,
            "group      {}: {} points, {}",
            group.file,
            quantity::count(points),
            sealed(group.watermark)
        );
    }
    for (name, value) in &report.attributes {
        let _ = writeln!(text, "attribute  {name} = {value}");
    }
    for set in &report.sets {
        let _ = writeln!(
            text,
            "\n{}: {} points, {} rows",
            set_label(&set.name),
            quantity::count(set.points),
            quantity::count(set.rows)
        );
        if let (Some(first), Some(last)) = (set.step_first, set.step_last) {
            let cadence = set.cadence_steps.map_or_else(String::new, |cadence| format!(", every {cadence}"));
            let _ = writeln!(text, "  steps      {first} to {last}{cadence}");
        }
        if let (Some(first), Some(last)) = (set.time_first, set.time_last) {
            let _ = writeln!(text, "  time       {first:.6e} to {last:.6e} {}", set.time_units);
        }
        for variable in &set.variables {
            let components = variable.components.map_or_else(String::new, |count| format!(" x {count}"));
            let _ = writeln!(
                text,
                "  variable   {:<12} {}{components}  {}",
                variable.name,
                variable.element,
                quantity::pretty_units(&variable.units)
            );
        }
    }
    text
}
