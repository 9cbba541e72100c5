//! What flushes in the background and helper threads gain: `background_figures [POINTS] [RANKS] [COMPUTE_MICROSECONDS] [RUNS] [DIRECTORY]`.
//!
//! 350 steps, four f64 variables, window 100, thread ranks that compute so long a step. Each way to flush runs once in every
//! round, and is compared with the first of its round, flushes that are waited for; medians over the rounds. The figure
//! behind `HELPER_BYTES_MIN`.

use afflux_comm::{Communicator, threads};
use afflux_series::{Existing, Point, ProbeSet, SeriesBuilder, SeriesWriter, SetId, Variable};
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

const STEPS: u64 = 350;
const VARIABLES: [&str; 4] = ["Ex", "Ey", "Ez", "Hz"];

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A way to flush; `None` takes no samples at all.
type Way = Option<fn(SeriesBuilder) -> SeriesBuilder>;

const WAYS: [(&str, Way); 4] = [
    ("waited for", Some(|builder| builder.background(false))),
    ("background, own thread", Some(|builder| builder.helper_bytes_min(u64::MAX))),
    ("background, helper threads", Some(|builder| builder.helper_bytes_min(0))),
    ("no samples", None),
];

/// Processor time of this process in seconds, by ticks of 10 ms: too coarse for one run, fine for the sum of many.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Works for so many rounds: by count and not by the clock, so that what else the machine does does not shorten it.
fn compute(rounds: u64) -> u64 {
    (0..rounds).fold(1, |state: u64, round| black_box(state.wrapping_mul(6_364_136_223_846_793_005) ^ round))
}

/// One run from before the file is made until it is closed, in seconds.
fn run(file: &Path, row_points: usize, ranks: usize, rounds: u64, way: Way) -> Result<f64, String> {
    let row = vec![1.5; row_points];
    let begin = Instant::now();
    let outcomes = threads::run(ranks, |comm| {
        let first = i64::try_from(comm.rank() * row_points).map_err(|error| error.to_string())?;
        let points = (first..).take(row_points).map(|id| Point::new(id, 0.0, 0.0, 0.0));
        let set =
            VARIABLES.iter().fold(ProbeSet::new("").points(points), |set, name| set.variable(Variable::f64(*name)));
        let open = |change: fn(SeriesBuilder) -> SeriesBuilder| {
            let builder = SeriesWriter::at(file).set(set).existing(Existing::Replace);
            change(builder).open(&comm).map_err(|error| error.to_string())
        };
        let mut run = way.map(open).transpose()?;
        for step in 0..STEPS {
            black_box(compute(rounds));
            if let Some(run) = &mut run {
                let values = [(&row).into(); VARIABLES.len()];
                run.append(SetId(0), step, 0.0, &values).map_err(|error| error.to_string())?;
            }
        }
        run.map_or(Ok(()), |run| run.close().map(|_| ()).map_err(|error| error.to_string()))
    });
    let seconds = begin.elapsed().as_secs_f64();
    outcomes.into_iter().collect::<Result<Vec<()>, String>>()?;
    Ok(seconds)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let (points, ranks) = (usize::try_from(number(0, 1024)?)?, usize::try_from(number(1, 4)?)?);
    let (microseconds, runs) = (number(2, 0)?, number(3, 21)?);
    let directory = arguments.get(4).map_or(".", String::as_str);
    if runs == 0 || ranks == 0 || points < ranks {
        return Err("at least one run, one rank and one point a rank".into());
    }
    let file = Path::new(directory).join(format!("background_figures_{}.nc", std::process::id()));
    let begin = Instant::now();
    let calibration_rounds: u64 = 10_000_000;
    black_box(compute(calibration_rounds));
    let rounds = u128::from(calibration_rounds * microseconds) / begin.elapsed().as_micros().max(1);
    let rounds = u64::try_from(rounds)?;
    let mut walls = [(); WAYS.len()].map(|()| Vec::new());
    let mut processor = [0.0; WAYS.len()];
    for _ in 0..runs {
        for (index, &(_, way)) in WAYS.iter().enumerate() {
            let before = processor_seconds();
            walls[index].push(run(&file, points / ranks, ranks, rounds, way)?);
            processor[index] += processor_seconds() - before;
            if way.is_some() {
                std::fs::remove_file(&file)?;
            }
        }
    }
    let window_bytes = 100 * (points / ranks) * VARIABLES.len() * 8;
    println!(
        "{points} points, {ranks} thread ranks, {} KiB a window and rank, {microseconds} us a step",
        window_bytes >> 10
    );
    let reference = walls[0].clone();
    for (index, (name, _)) in WAYS.iter().enumerate() {
        let mut ratios: Vec<f64> = walls[index].iter().zip(&reference).map(|(wall, first)| wall / first).collect();
        println!(
            "{name}: {:.2} ms, {:.3} of the first; {:.2} ms of processors",
            median(&mut walls[index]) * 1e3,
            median(&mut ratios),
            processor[index] / runs as f64 * 1e3
        );
    }
    Ok(())
}
