//! How much memory a run takes: `memory_figures POINTS RANKS STEPS [list] [TwoPhase]`; two f32 variables, a box of points a rank (or a
//! list of them, named by their ids).
//!
//! Prints the largest resident memory (`VmHWM`) before the writer is opened, after, and at the end.

use afflux_collective::Path;
use afflux_comm::{Communicator, threads};
use afflux_series::{Existing, PointGrid, ProbeSet, SeriesWriter, SetId, Variable};

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| arguments.get(index).map_or(Ok(default), |text| text.parse());
    let (points, ranks, steps) = (number(0, 100_000)?, number(1, 1)?, number(2, 20)?);
    let listed = arguments.iter().any(|argument| argument == "list");
    let path = if arguments.iter().any(|argument| argument == "TwoPhase") { Path::TwoPhase } else { Path::Independent };
    let file = std::env::temp_dir().join(format!("memory_figures_{}.nc", std::process::id()));
    let slab = points / ranks;
    let before = peak_kib();
    let peaks = threads::run(usize::try_from(ranks)?, |comm| {
        let rank = comm.rank() as u64;
        let grid = PointGrid::spread([0.0; 3], [1.0; 3], [slab * ranks, 1, 1]);
        let block = grid.block([rank * slab..(rank + 1) * slab, 0..1, 0..1]);
        let set = ProbeSet::new("");
        let set = if listed {
            let own = usize::try_from(rank * slab).unwrap_or(0)..usize::try_from((rank + 1) * slab).unwrap_or(0);
            set.points(grid.points().skip(own.start).take(own.len()))
        } else {
            set.grid(block)
        };
        let mut run = SeriesWriter::at(&file)
            .set(set.variable(Variable::f32("u")).variable(Variable::f32("v")))
            .existing(Existing::Replace)
            .window_steps(10)
            .chunk_steps(10)
            .write_path(path)
            .open(&comm)
            .map_err(|error| error.to_string())?;
        comm.barrier().map_err(|error| error.to_string())?;
        let opened = peak_kib();
        let row = vec![1.0_f32; usize::try_from(slab).unwrap_or(0)];
        for step in 0..steps {
            run.append(SetId(0), step, 0.0, &[(&row).into(), (&row).into()]).map_err(|error| error.to_string())?;
        }
        run.close().map_err(|error| error.to_string())?;
        Ok::<_, String>(opened)
    });
    let opened = peaks.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().max().unwrap_or(0);
    println!("VmHWM in KiB: {before} before, {opened} opened, {} at the end", peak_kib());
    std::fs::remove_file(&file)?;
    Ok(())
}
