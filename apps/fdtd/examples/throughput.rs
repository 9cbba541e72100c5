//! Cells a second of the solver: `cargo run --release -p afflux-fdtd --example throughput [CELLS_A_SIDE [RANKS]]`.
//!
//! A cube in vacuum, closed by conductors and then by ten absorbing layers on all faces; three runs each, all printed. By
//! the clock, and by the time the slowest rank had a processor (Linux), which is the figure on a machine that others share.

use std::path::Path;
use std::time::Instant;

use afflux::comm::threads;
use afflux_fdtd::{Model, Simulation};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let side: u64 = arguments.next().map_or(Ok(100), |text| text.parse())?;
    let ranks: usize = arguments.next().map_or(Ok(1), |text| text.parse())?;
    // About 10^8 cell updates: a second or so each.
    let steps = (100_000_000 / side.pow(3)).clamp(10, 2000);
    for faces in ["pec", "cpml"] {
        let text = format!(
            "steps = {steps}\ngrid = {{ cells = [{side}, {side}, {side}], cell_size = 0.001 }}\nboundaries = {{ all = \"{faces}\" }}"
        );
        let model = Model::from_toml(&text, Path::new(""))?;
        for _ in 0..3 {
            let times = threads::run(ranks, |comm| {
                let mut simulation = Simulation::new(&model, &comm).map_err(|error| error.to_string())?;
                let (clock, processor) = (Instant::now(), processor_seconds());
                for _ in 0..steps {
                    simulation.step().map_err(|error| error.to_string())?;
                }
                Ok((clock.elapsed().as_secs_f64(), processor_seconds() - processor))
            })
            .into_iter()
            .collect::<Result<Vec<(f64, f64)>, String>>()?;
            let updates = side.pow(3) as f64 * steps as f64 / 1e6;
            let slowest = times.into_iter().fold((0.0, 0.0), |a: (f64, f64), b| (a.0.max(b.0), a.1.max(b.1)));
            println!(
                "{side}^3 cells, {faces}, {ranks} ranks, {steps} steps: {:.1} million cells a second by the clock, {:.1} by the processor",
                updates / slowest.0,
                updates / slowest.1
            );
        }
    }
    Ok(())
}

/// Seconds that this thread has had a processor; NaN where the system does not tell.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|word| word.parse::<f64>().ok())
        .map_or(f64::NAN, |nanoseconds| nanoseconds / 1e9)
}
