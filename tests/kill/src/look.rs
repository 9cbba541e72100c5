//! What is left of a run, seen by our own reader: sealed steps, all of them right, and nothing else.

use std::ops::Range;
use std::path::Path;

use afflux::file::{Block, ReadError, SeriesFile};
use afflux_measure::synth;

use crate::workload::Kind;

/// Step of the rows of a checkpoint's header, and where it stands (see `apps/fdtd/src/checkpoint/header.rs`).
const CHECKPOINT_STEP_AT: usize = 40;

/// What our reader shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub watermark: Option<u64>,
    pub closed: bool,
    /// Writers of the file's life.
    pub epoch: u64,
    pub file_bytes: u64,
}

/// Looks at a file; what is wrong with it is added to `findings`. `None` where there is no file.
pub fn look(path: &Path, reference: &Path, kind: Kind, findings: &mut Vec<String>) -> Option<Seen> {
    if !path.exists() {
        return None;
    }
    let file = match SeriesFile::open(path) {
        Ok(file) => file,
        Err(error) => {
            findings.push(format!("our reader cannot open the file: {error}"));
            return None;
        }
    };
    let state = file.state();
    let seen =
        Seen { watermark: state.watermark, closed: state.closed, epoch: state.epoch, file_bytes: file.file_bytes() };
    for finding in file.verify(&mut |_| ()).findings {
        findings.push(format!("verify: {finding}"));
    }
    let compared = SeriesFile::open(reference).and_then(|whole| compare(&file, &whole, seen.watermark, findings));
    if let Err(error) = compared {
        findings.push(format!("our reader cannot read the file: {error}"));
    }
    if kind == Kind::Synth {
        match synth::check(&file, &mut |_, _| ()) {
            Ok(checked) if checked.wrong == 0 => {}
            Ok(checked) => findings.push(format!("{} wrong values: {:?}", checked.wrong, checked.described)),
            Err(error) => findings.push(format!("our reader cannot read the values: {error}")),
        }
    }
    Some(seen)
}

/// Holds every sealed row against the uninterrupted run's; no row behind the watermark may be shown, none before it may miss.
fn compare(
    file: &SeriesFile,
    whole: &SeriesFile,
    watermark: Option<u64>,
    findings: &mut Vec<String>,
) -> Result<(), ReadError> {
    if file.sets().len() != whole.sets().len() {
        findings.push(format!("{} sets instead of {}", file.sets().len(), whole.sets().len()));
        return Ok(());
    }
    for (set, (found, expected)) in file.sets().iter().zip(whole.sets()).enumerate() {
        let due = |steps: Vec<i64>| {
            let sealed = |step: &i64| watermark.is_some_and(|last| step.cast_unsigned() <= last);
            steps.iter().take_while(|step| sealed(step)).count() as u64
        };
        let rows = due(whole.steps(set, 0..expected.rows_sealed)?);
        if found.rows_sealed != rows {
            let name = &found.name;
            findings.push(format!("set `{name}` shows {} rows; {rows} are sealed", found.rows_sealed));
            continue;
        }
        let same_lines = file.steps(set, 0..rows)? == whole.steps(set, 0..rows)?
            && bits(file.times(set, 0..rows)?) == bits(whole.times(set, 0..rows)?)
            && file.points(set)? == whole.points(set)?;
        if !same_lines {
            findings.push(format!("steps, times or points of set `{}` differ", found.name));
        }
        for variable in 0..expected.variables.len() {
            let block = |from: &SeriesFile, rows: Range<u64>| from.block(set, variable, 0..expected.points, rows);
            if !equal(&block(file, 0..rows)?, &block(whole, 0..rows)?) {
                let name = &expected.variables[variable].spec.name;
                findings.push(format!("sealed values of {name} in set `{}` are wrong", found.name));
            }
        }
    }
    Ok(())
}

fn bits(values: Vec<f64>) -> Vec<u64> {
    values.into_iter().map(f64::to_bits).collect()
}

/// Bit by bit, so that no NaN and no sign of zero passes for another.
fn equal(found: &Block, expected: &Block) -> bool {
    match (found, expected) {
        (Block::F32(a), Block::F32(b)) => a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits())),
        (Block::F64(a), Block::F64(b)) => a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits())),
        (Block::I32(a), Block::I32(b)) => a == b,
        (Block::I64(a), Block::I64(b)) => a == b,
        _ => false,
    }
}

/// The step of the solver's checkpoint, if there is one.
pub fn checkpoint_step(path: &Path) -> Option<u64> {
    let bytes = std::fs::read(path).ok()?;
    bytes.get(CHECKPOINT_STEP_AT..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}
