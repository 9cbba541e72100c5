//! `bench sampling`: the same samples stored in six ways, the workloads of Figures 4 and 5 of Cao and Luo.
//!
//! For each number of points the methods run in alternation under the rule of [`crate::timing`]. The clock runs from before the
//! files are created until after they are closed, on the slowest rank. Nobody asks for durability (no fsync): every method
//! leaves its bytes in the page cache or wherever the file system puts them. Every method's files are read back and compared
//! value by value after its first run of a configuration, outside the timed part, and removed.

mod aggregated;
mod direct;
mod gather;
mod limit;
mod measurement;
mod method;
mod phases;
mod run;
mod summary;
mod workload;

pub use measurement::Measurement;
pub use method::Method;
pub use phases::Phases;
pub use run::{BenchError, Options, Progress, run};
pub use summary::{Goal, goals, table};
pub use workload::{Owners, Workload};

/// Compares a variable's values, indexed by (point, step), with what the ranks wrote; `Err` names the first that differs.
fn verify_values(workload: &Workload, variable: usize, values: &[f64]) -> Result<(), String> {
    let steps = usize::try_from(workload.steps).map_err(|_| "more steps than memory")?;
    for (rank, points) in workload.points_by_rank().into_iter().enumerate() {
        let rows = workload.rows(rank, points);
        for step in 0..steps {
            let expected = rows.row(variable, step as u64);
            for (&point, expected) in rows.points.iter().zip(expected) {
                let index = usize::try_from(point).map_err(|_| "more points than memory")? * steps + step;
                if values.get(index) != Some(expected) {
                    return Err(format!("variable {variable} of point {point} is wrong at step {step}"));
                }
            }
        }
    }
    Ok(())
}
