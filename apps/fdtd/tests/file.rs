//! What reaches the file: the samples themselves, and the same bytes for any number of ranks.

mod common;

use std::fs;
use std::path::Path;

use afflux::file::{Block, SeriesFile};
use afflux_fdtd::{Model, RecordOptions, Recorded, Simulation, record};
use common::{Recording, model};

const MODEL: &str = r#"
    title = "A small box"
    steps = 43
    grid = { cells = [12, 10, 9], cell_size = 0.01 }
    boundaries = { all = "cpml" }
    cpml = { thickness = 3 }
    output = { window_steps = 10 }
    [[sources]]
    position = [0.055, 0.045, 0.045]
    axis = "z"
    waveform = { kind = "ricker", frequency = 4e9 }
    [[probes]]
    grid = "4x3x2"
    fields = ["Ex", "Ey", "Ez", "Hz"]
    [[probes]]
    name = "slow"
    points = [{ name = "here", x = 0.05, y = 0.05, z = 0.06 }, { name = "there", x = 0.12, y = 0.1, z = 0.09 }]
    fields = ["Hx", "Ez"]
    type = "f32"
    every = 4
"#;

fn write(model: &Model, ranks: usize, path: &Path) -> Vec<Recorded> {
    afflux::comm::threads::run(ranks, |comm| {
        let mut simulation = Simulation::new(model, &comm).unwrap();
        let options = RecordOptions::at(path);
        record(&mut simulation, &options, &mut |_| ()).unwrap()
    })
}

#[test]
fn the_file_holds_every_sample() {
    let model = model(MODEL);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.nc");
    let recorded = write(&model, 3, &path);
    assert_eq!(recorded[0].statistics.rows, 43 + 11);
    assert_eq!(recorded[0].statistics.payload_bytes, 43 * 24 * 32 + 11 * 2 * 8);
    let expected = Recording::of(&model, 1);
    let reader = SeriesFile::open(&path).unwrap();
    for (set, name, fields, rows) in [(0, "", vec!["Ex", "Ey", "Ez", "Hz"], 43), (1, "slow", vec!["Hx", "Ez"], 11)] {
        let index = reader.set_index(name).unwrap();
        let steps = reader.steps(index, 0..rows).unwrap();
        assert!(steps.iter().map(|&step| step.cast_unsigned()).eq(expected.steps[&set].iter().copied()));
        for ((_, id), columns) in expected.series.iter().filter(|((of, _), _)| *of == set) {
            let position = reader.position(index, *id).unwrap();
            for (field, column) in fields.iter().zip(columns) {
                let variable = reader.variable_index(index, field).unwrap();
                let bits: Vec<u64> = match reader.block(index, variable, position..position + 1, 0..rows).unwrap() {
                    Block::F64(values) => values.iter().map(|value| value.to_bits()).collect(),
                    Block::F32(values) => values.iter().map(|value| u64::from(value.to_bits())).collect(),
                    other => panic!("{other:?}"),
                };
                assert_eq!(&bits, column, "{name} {id} {field}");
            }
        }
    }
}

#[test]
fn the_file_is_the_same_for_any_number_of_ranks() {
    let model = model(MODEL);
    let folder = tempfile::tempdir().unwrap();
    let bytes = |ranks: usize| {
        let path = folder.path().join(format!("{ranks}.nc"));
        write(&model, ranks, &path);
        fs::read(path).unwrap()
    };
    let alone = bytes(1);
    for ranks in [2, 3, 4, 7] {
        assert!(bytes(ranks) == alone, "{ranks} ranks differ from one");
    }
}

#[test]
fn the_file_is_the_same_whether_borders_move_or_not() {
    let model = model(MODEL);
    let folder = tempfile::tempdir().unwrap();
    let still = folder.path().join("still.nc");
    write(&model, 1, &still);
    for (ranks, every) in [(2, 1), (3, 4), (4, 10), (7, 3)] {
        let path = folder.path().join(format!("{ranks}.nc"));
        let moves = afflux::comm::threads::run(ranks, |comm| {
            let mut simulation = Simulation::new(&model, &comm).unwrap();
            let mut options = RecordOptions::at(&path);
            options.run.rebalance_every = Some(every);
            record(&mut simulation, &options, &mut |_| ()).unwrap().run.moves
        });
        assert_eq!(moves[0], 42 / every, "{ranks} ranks");
        let difference =
            std::process::Command::new("h5diff").arg("--exclude-path=/afflux").args([&still, &path]).output();
        let difference = difference.expect("h5diff is installed");
        assert!(difference.status.success(), "{ranks} ranks: {}", String::from_utf8_lossy(&difference.stdout));
    }
}

#[test]
fn an_existing_file_is_refused_on_all_ranks() {
    let model = model(MODEL);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.nc");
    fs::write(&path, "precious").unwrap();
    let refused = afflux::comm::threads::run(2, |comm| {
        let mut simulation = Simulation::new(&model, &comm).unwrap();
        let options = RecordOptions::at(&path);
        record(&mut simulation, &options, &mut |_| ()).is_err()
    });
    assert_eq!(refused, [true; 2]);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}
