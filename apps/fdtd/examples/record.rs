//! Runs a built-in model and writes its probes: `cargo run --release -p afflux-fdtd --example record box run.nc 4`.

use afflux::comm::threads;
use afflux_fdtd::{Model, RecordOptions, Simulation, record};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, path, ranks] = arguments.as_slice() else {
        return Err("usage: record box|cavity|dipole FILE RANKS".into());
    };
    let model = Model::builtin(name)?;
    let options = RecordOptions::at(path);
    let reports = threads::run(ranks.parse()?, |comm| {
        let mut simulation = Simulation::new(&model, &comm).map_err(|error| error.to_string())?;
        record(&mut simulation, &options, &mut |_| ()).map_err(|error| error.to_string())
    })
    .into_iter()
    .collect::<Result<Vec<_>, String>>()?;
    let (run, file) = (&reports[0].run, &reports[0].statistics);
    println!(
        "{}: {} steps of {} cells in {:.2} s, of which {:.3} s sampling; {} bytes of samples in a file of {}",
        model.title, run.steps, run.cells, run.seconds, run.sampling_seconds, file.payload_bytes, file.file_bytes
    );
    Ok(())
}
