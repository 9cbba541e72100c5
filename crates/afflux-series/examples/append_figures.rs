//! What keeping a row costs beside copying it: `append_figures [ROUNDS]`.
//!
//! For each row length the same rows are appended to a writer (window long enough that no flush falls due while the clock runs) and
//! copied, row by row, into a buffer as long as the window, in alternation; both buffers were touched before. Prints the medians
//! over the rounds of the time a row, and their ratio.

use afflux_comm::SelfCommunicator;
use afflux_series::{Existing, Point, ProbeSet, SeriesWriter, SetId, Variable};
use std::hint::black_box;
use std::time::Instant;

/// Rows timed in a round.
const ROWS: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(31), |text| text.parse())?;
    let directory = tempfile::tempdir()?;
    println!("row bytes    append ns      copy ns    ratio");
    for points in [4_usize, 128, 512, 2_048, 8_192] {
        let file = directory.path().join("run.nc");
        let list = (0..i64::try_from(points)?).map(|id| Point::new(id, 0.0, 0.0, 0.0));
        let set = ["Ex", "Ey", "Ez", "Hz"]
            .iter()
            .fold(ProbeSet::new("").points(list), |set, name| set.variable(Variable::f64(*name)));
        let mut run = SeriesWriter::at(&file)
            .set(set)
            .window_steps(u64::try_from(ROWS)?)
            .chunk_steps(u64::try_from(ROWS)?)
            .existing(Existing::Replace)
            .open(&SelfCommunicator::new())?;
        let row = vec![1.5_f64; points];
        let mut window = vec![0.0_f64; 4 * points * ROWS];
        let (mut append, mut copy) = (Vec::new(), Vec::new());
        let mut step = 0;
        for round in 0..rounds {
            // The first row of a window flushes the last one, and is not timed.
            run.append(SetId(0), step, 0.0, &[(&row).into(); 4])?;
            step += 1;
            let begin = Instant::now();
            for _ in 1..ROWS {
                run.append(SetId(0), step, 0.0, black_box(&[(&row).into(); 4]))?;
                step += 1;
            }
            let appended = begin.elapsed();
            let begin = Instant::now();
            for target in window.chunks_exact_mut(4 * points).skip(1) {
                for part in black_box(&mut *target).chunks_exact_mut(points) {
                    part.copy_from_slice(black_box(&row));
                }
            }
            let copied = begin.elapsed();
            if round > 0 {
                append.push(appended.as_secs_f64());
                copy.push(copied.as_secs_f64());
            }
        }
        run.close()?;
        let [append, copy] = [append, copy].map(|mut times| {
            times.sort_unstable_by(f64::total_cmp);
            times[times.len() / 2] / (ROWS - 1) as f64 * 1e9
        });
        println!("{:9} {append:12.1} {copy:12.1} {:8.2}", 32 * points, append / copy);
    }
    Ok(())
}
