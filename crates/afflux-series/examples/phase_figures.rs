//! Where the time of a run goes on one rank: `phase_figures [POINTS] [RUNS] [DIRECTORY] [BACKGROUND: yes or no]`; 350 steps, four f64 variables, window 100.
//!
//! Medians over the runs, of each phase and of one plain write of the same bytes made in alternation.

use afflux_comm::SelfCommunicator;
use afflux_series::{Existing, Point, ProbeSet, SeriesWriter, SetId, Statistics, Variable};
use std::time::Instant;

const STEPS: u64 = 350;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn run(file: &std::path::Path, points: usize, row: &[f64], background: bool) -> Outcome<(f64, Statistics)> {
    let begin = Instant::now();
    let list = (0..i64::try_from(points)?).map(|id| Point::new(id, 0.0, 0.0, 0.0));
    let set = ["Ex", "Ey", "Ez", "Hz"]
        .iter()
        .fold(ProbeSet::new("").points(list), |set, name| set.variable(Variable::f64(*name)));
    let mut run = SeriesWriter::at(file)
        .set(set)
        .existing(Existing::Replace)
        .background(background)
        .open(&SelfCommunicator::new())?;
    for step in 0..STEPS {
        run.append(SetId(0), step, 0.0, &[row.into(); 4])?;
    }
    let statistics = run.close()?;
    Ok((begin.elapsed().as_secs_f64(), statistics))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2] * 1e3
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let points: usize = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    let runs: usize = arguments.next().map_or(Ok(21), |text| text.parse())?;
    let directory = arguments.next().unwrap_or_else(|| ".".to_owned());
    let background = arguments.next().as_deref() != Some("no");
    let file = std::path::Path::new(&directory).join("phase_figures.nc");
    let row = vec![1.5; points];
    let bytes = vec![1_u8; 32 * points * usize::try_from(STEPS)?];
    let mut measured = Vec::new();
    let mut plain = Vec::new();
    for _ in 0..runs {
        measured.push(run(&file, points, &row, background)?);
        std::fs::remove_file(&file)?;
        let begin = Instant::now();
        std::fs::write(&file, &bytes)?;
        plain.push(begin.elapsed().as_secs_f64());
        std::fs::remove_file(&file)?;
    }
    let of = |phase: fn(&Statistics) -> f64| median(measured.iter().map(|(_, statistics)| phase(statistics)).collect());
    println!(
        "ms: total {:.2}, create {:.2}, transpose {:.2}, write {:.2}, seal {:.2}, wait {:.2}, close {:.2}, the rest is appending; \
         helper: transpose {:.2}, write {:.2}, seal {:.2}; one plain write {:.2}",
        median(measured.iter().map(|&(total, _)| total).collect()),
        of(|s| s.seconds.create),
        of(|s| s.seconds.transpose),
        of(|s| s.seconds.write),
        of(|s| s.seconds.seal),
        of(|s| s.seconds.wait),
        of(|s| s.seconds.close),
        of(|s| s.helper_seconds.transpose),
        of(|s| s.helper_seconds.write),
        of(|s| s.helper_seconds.seal),
        median(plain)
    );
    Ok(())
}
