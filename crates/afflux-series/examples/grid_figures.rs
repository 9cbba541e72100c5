//! What a large grid costs in memory and time: `grid_figures [NX] [NY] [NZ] [RANKS] [list]`. Three variables, one step in four, few steps,
//! a row a column; each rank has a slab. With `list` the points are given one by one instead of as boxes of the grid.

use std::time::Instant;

use afflux_comm::{Communicator, threads};
use afflux_series::{PointGrid, ProbeSet, SeriesWriter, SetId, Variable};

/// The most memory that the process has had, in MiB.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(f64::NAN) / 1024.0
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let counts = [number(0, 363)?, number(1, 232)?, number(2, 30)?];
    let ranks = usize::try_from(number(3, 8)?)?;
    let is_listed = arguments.get(4).is_some_and(|text| text == "list");
    let grid = PointGrid::spread([0.0; 3], [1.0; 3], counts);
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("grid.nc");
    let before = peak_mib();
    let results = threads::run(ranks, |comm| {
        let border = |rank: usize| counts[0] * rank as u64 / comm.size() as u64;
        let block = grid.block([border(comm.rank())..border(comm.rank() + 1), 0..counts[1], 0..counts[2]]);
        let points = usize::try_from(block.len()).expect("a slab fits in memory");
        let set =
            ["u", "v", "w"].into_iter().fold(ProbeSet::new("").every(4), |set, name| set.variable(Variable::f32(name)));
        let set = if is_listed { set.points((0..block.len()).map(|k| block.point(k))) } else { set.grid(block) };
        let begin = Instant::now();
        let builder = SeriesWriter::at(&path).set(set).chunk_steps(1).window_steps(4);
        let mut run = builder.open(&comm).map_err(|error| error.to_string())?;
        let opened = (begin.elapsed().as_secs_f64(), peak_mib());
        let row = vec![1.0_f32; points];
        for step in 0..9 {
            run.append(SetId(0), step, 0.0, &[(&row).into(), (&row).into(), (&row).into()])
                .map_err(|error| error.to_string())?;
        }
        let statistics = run.close().map_err(|error| error.to_string())?;
        Ok::<_, String>((opened, statistics))
    });
    for (rank, result) in results.into_iter().enumerate() {
        let ((seconds, opened_mib), statistics) = result?;
        if rank == 0 {
            println!("{} points on {ranks} ranks: open {seconds:.2} s", grid.len());
            println!(
                "peak of the process: {before:.0} MiB before, {opened_mib:.0} MiB when open, {:.0} MiB at the end",
                peak_mib()
            );
            println!("file {} bytes, payload {} bytes", statistics.file_bytes, statistics.payload_bytes);
        }
        println!("rank {rank}: windows, staging and points {:.1} MiB", statistics.memory_bytes as f64 / 1048576.0);
    }
    Ok(())
}
