//! Opens a file that `live_file` writes as fast as it can, with plain HDF5, reads the last rows of it and checks every value. Counts
//! what goes wrong.
//!
//! `cargo run --release -p afflux-container --example poll_file -- FILE SECONDS [ROWS]`

use hdf5_metno::{File, Hyperslab, SliceOrIndex};
use ndarray::IxDyn;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("give the name of the file")?);
    let seconds: u64 = arguments.next().ok_or("give a number of seconds")?.parse()?;
    let rows: usize = arguments.next().map_or(Ok(usize::MAX), |text| text.parse())?;
    let start = Instant::now();
    let mut opens = 0_u64;
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    while start.elapsed() < Duration::from_secs(seconds) {
        opens += 1;
        if let Err(error) = look(&path, rows) {
            *errors.entry(error.to_string()).or_default() += 1;
        }
    }
    println!("{opens} opens, {} errors", errors.values().sum::<u64>());
    for (error, count) in errors {
        println!("  {count} x {error}");
    }
    Ok(())
}

/// Every value of a row is its step.
fn look(path: &Path, rows_max: usize) -> Result<(), Box<dyn Error>> {
    let file = File::with_options().with_fapl(|list| list.file_locking(false)).open(path)?;
    for name in ["Ez", "J", "charge", "step", "time"] {
        let dataset = file.dataset(name)?;
        let shape = dataset.shape();
        let rows = shape.last().copied().unwrap_or(0);
        let first = rows.saturating_sub(rows_max);
        if first == rows {
            continue;
        }
        let mut selection: Vec<SliceOrIndex> = shape.iter().map(|&length| (0..length).into()).collect();
        selection[shape.len() - 1] = (first..rows).into();
        let values = dataset.read_slice::<f64, _, IxDyn>(Hyperslab::from(selection))?;
        for run in values.rows() {
            if let Some(row) = (first..rows).find(|&row| run[row - first] != row as f64) {
                return Err(format!("a wrong value in {name}, {} rows short of the end", rows - row).into());
            }
        }
    }
    Ok(())
}
