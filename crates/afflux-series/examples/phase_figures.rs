//! Where the time of a run goes on one rank: `phase_figures [POINTS] [RUNS] [DIRECTORY]`; 350 steps, four f64 variables, window 100.
//!
//! Medians over the runs, of each phase and of one plain write of the same bytes made in alternation.

use afflux_comm::SelfCommunicator;
use afflux_series::{Existing, PhaseSeconds, Point, ProbeSet, SeriesWriter, SetId, Variable};
use std::time::Instant;

const STEPS: u64 = 350;

fn run(file: &std::path::Path, points: usize, row: &[f64]) -> Result<(f64, PhaseSeconds), Box<dyn std::error::Error>> {
    let begin = Instant::now();
    let list = (0..i64::try_from(points)?).map(|id| Point::new(id, 0.0, 0.0, 0.0));
    let set = ["Ex", "Ey", "Ez", "Hz"]
        .iter()
        .fold(ProbeSet::new("").points(list), |set, name| set.variable(Variable::f64(*name)));
    let mut run = SeriesWriter::at(file).set(set).existing(Existing::Replace).open(&SelfCommunicator::new())?;
    for step in 0..STEPS {
        run.append(SetId(0), step, 0.0, &[row.into(); 4])?;
    }
    let seconds = run.close()?.seconds;
    Ok((begin.elapsed().as_secs_f64(), seconds))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2] * 1e3
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let points: usize = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    let runs: usize = arguments.next().map_or(Ok(21), |text| text.parse())?;
    let directory = arguments.next().unwrap_or_else(|| ".".to_owned());
    let file = std::path::Path::new(&directory).join("phase_figures.nc");
    let row = vec![1.5; points];
    let bytes = vec![1_u8; 32 * points * usize::try_from(STEPS)?];
    let mut measured = Vec::new();
    let mut plain = Vec::new();
    for _ in 0..runs {
        measured.push(run(&file, points, &row)?);
        std::fs::remove_file(&file)?;
        let begin = Instant::now();
        std::fs::write(&file, &bytes)?;
        plain.push(begin.elapsed().as_secs_f64());
        std::fs::remove_file(&file)?;
    }
    let of = |phase: fn(&PhaseSeconds) -> f64| median(measured.iter().map(|(_, seconds)| phase(seconds)).collect());
    let total = median(measured.iter().map(|&(total, _)| total).collect());
    println!(
        "ms: total {total:.2}, create {:.2}, transpose {:.2}, write {:.2}, seal {:.2}, close {:.2}, the rest is appending; one plain write {:.2}",
        of(|s| s.create),
        of(|s| s.transpose),
        of(|s| s.write),
        of(|s| s.seal),
        of(|s| s.close),
        median(plain)
    );
    Ok(())
}
