//! What transposing a window costs beside copying it: `transpose_figures [POINTS] [ROWS] [REPETITIONS]`.
#![allow(dead_code, reason = "the crate's private module is compiled in whole")]

#[path = "../src/transpose.rs"]
mod transpose;

use afflux_container::DatasetIndex;
use afflux_container::checksum::{RunPlace, run_checksum};
use std::time::Instant;
use transpose::{Places, Shape, transpose};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let points: usize = arguments.next().map_or(Ok(2048), |text| text.parse())?;
    let rows: usize = arguments.next().map_or(Ok(50), |text| text.parse())?;
    let repetitions: usize = arguments.next().map_or(Ok(101), |text| text.parse())?;
    let source: Vec<u8> = (0..=250_u8).cycle().take(points * rows * 8).collect();
    let mut destination = vec![0; source.len()];
    let places = Places::InARow { first: 0, count: points };
    let shape = Shape { columns: points, rows, block_rows: rows, element_bytes: 8, values: 1 };
    let mut sum = 0_u64;
    let mut measure = |name: &str, body: &mut dyn FnMut(&mut [u8])| {
        let mut times: Vec<f64> = (0..repetitions)
            .map(|_| {
                let begin = Instant::now();
                body(&mut destination);
                begin.elapsed().as_secs_f64()
            })
            .collect();
        times.sort_unstable_by(f64::total_cmp);
        let median = times[times.len() / 2];
        println!("{name}: {:.3} ms, {:.2} GB/s", median * 1e3, source.len() as f64 / median * 1e-9);
    };
    measure("memcpy", &mut |destination| destination.copy_from_slice(&source));
    measure("transpose", &mut |destination| transpose(shape, &source, places, destination, |_, _| {}));
    measure("checksum", &mut |_| {
        for (position, block) in source.chunks_exact(rows * 8).enumerate() {
            let place =
                RunPlace { set: 0, dataset: DatasetIndex::Step, position: position as u64, component: 0, column: 0 };
            sum = sum.wrapping_add(run_checksum(place, block));
        }
    });
    measure("transpose and checksum", &mut |destination| {
        transpose(shape, &source, places, destination, |position, block| {
            let place =
                RunPlace { set: 0, dataset: DatasetIndex::Step, position: position as u64, component: 0, column: 0 };
            sum = sum.wrapping_add(run_checksum(place, block));
        });
    });
    println!("(sum {sum:x})");
    Ok(())
}
