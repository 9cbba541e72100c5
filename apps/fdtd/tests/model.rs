//! Models that must be read, and damaged ones that must be refused with the key and the way out.

use std::fs;
use std::path::Path;

use afflux_fdtd::Model;

const GOOD: &str = r#"
steps = 10
[grid]
cells = [20, 20, 20]
cell_size = 0.01
courant = 0.9
[boundaries]
all = "cpml"
[cpml]
thickness = 5
[[sources]]
position = [0.1, 0.1, 0.1]
axis = "z"
waveform = { kind = "gaussian", width = 1e-10 }
[[boxes]]
min = [0.0, 0.0, 0.0]
max = [0.1, 0.1, 0.1]
permittivity = 2.0
[[probes]]
points = [{ name = "a", x = 0.1, y = 0.1, z = 0.1 }]
fields = ["Ez"]
every = 2
"#;

fn error_of(text: &str) -> String {
    match Model::from_toml(text, Path::new("")) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn built_in_models_are_good() {
    for name in Model::builtin_names() {
        let model = Model::builtin(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!model.title.is_empty());
    }
    let known = Model::builtin("sphere").unwrap_err().to_string();
    assert!(known.contains("box, cavity, dipole"), "{known}");
}

#[test]
fn the_box_is_that_of_the_source_paper() {
    let model = Model::builtin("box").unwrap();
    assert_eq!((model.grid.cells, model.steps, model.output.window_steps), ([60; 3], 350, 100));
    let set = &model.probes[0];
    assert_eq!(set.grid.as_ref().unwrap().each(), Some([8, 8, 16]));
    let names: Vec<&str> = set.fields.iter().map(|field| field.name()).collect();
    assert_eq!((names.as_slice(), set.every), (["Ex", "Ey", "Ez", "Hz"].as_slice(), 1));
}

#[test]
fn damaged_models_are_refused_with_the_key_and_the_way_out() {
    Model::from_toml(GOOD, Path::new("")).unwrap();
    for (from, to, expected) in [
        ("steps = 10", "steps = 0", "`steps`: 0 must be in 1..="),
        ("steps = 10", "steps = -1", "steps"),
        ("steps = 10", "", "missing field `steps`"),
        ("steps = 10", "stepz = 10", "unknown field `stepz`"),
        ("cells = [20, 20, 20]", "cells = [20, 0, 20]", "`grid.cells[1]`: 0"),
        ("cells = [20, 20, 20]", "cells = [20, 20]", "3"),
        ("cells = [20, 20, 20]", "cells = [2000000000, 2000000000, 2000000000]", "`grid.cells`: more than"),
        ("cells = [20, 20, 20]", "cells = [9000000000000000000, 20, 20]", "`grid.cells[0]`"),
        ("cells = [20, 20, 20]", "cells = [10, 20, 20]", "`cpml.thickness`: 2 x 5 layers leave no cell of the 10"),
        ("cell_size = 0.01", "cell_size = nan", "`grid.cell_size[0]`: NaN is not a finite number"),
        ("cell_size = 0.01", "cell_size = inf", "`grid.cell_size[0]`"),
        ("cell_size = 0.01", "cell_size = -0.01", "`grid.cell_size[0]`: -0.01 is outside"),
        ("cell_size = 0.01", "cell_size = [0.01, 0.01, 0]", "`grid.cell_size[2]`"),
        ("cell_size = 0.01", "cell_size = \"wide\"", "expected a length in metres"),
        ("courant = 0.9", "courant = 1.1", "`grid.courant`: 1.1 is outside"),
        ("courant = 0.9", "courant = nan", "`grid.courant`"),
        ("all = \"cpml\"", "all = \"open\"", "unknown variant `open`"),
        ("thickness = 5", "thickness = 0", "`cpml.thickness`: 0 layers absorb nothing"),
        ("thickness = 5", "thickness = 18446744073709551615", "thickness"),
        ("thickness = 5", "kappa_max = 0.5", "`cpml.kappa_max`: 0.5 is outside"),
        ("position = [0.1, 0.1, 0.1]", "position = [0.3, 0.1, 0.1]", "`sources[0].position`: outside the domain"),
        ("position = [0.1, 0.1, 0.1]", "position = [0.01, 0.1, 0.1]", "lies in the absorbing layers along axis 0"),
        ("position = [0.1, 0.1, 0.1]", "position = [nan, 0.1, 0.1]", "`sources[0].position[0]`"),
        ("width = 1e-10", "width = 0", "`sources[0].waveform.width`: 0 must be greater than 0"),
        ("width = 1e-10", "widht = 1e-10", "widht"),
        ("kind = \"gaussian\"", "kind = \"square\"", "unknown variant `square`"),
        ("max = [0.1, 0.1, 0.1]", "max = [0.1, 0.0, 0.1]", "`boxes[0].max[1]`: 0 is not greater than `min`"),
        ("permittivity = 2.0", "permittivity = 0.5", "`boxes[0].permittivity`"),
        ("permittivity = 2.0", "conductivity = -1.0", "`boxes[0].conductivity`"),
        ("x = 0.1", "x = nan", "`probes[0].points[0].x`: NaN"),
        ("fields = [\"Ez\"]", "fields = []", "`probes[0].fields`: samples nothing"),
        ("fields = [\"Ez\"]", "fields = [\"Ez\", \"Ez\"]", "Ez is there twice"),
        ("fields = [\"Ez\"]", "fields = [\"Bz\"]", "unknown variant `Bz`"),
        ("every = 2", "every = 0", "`probes[0].every`"),
        ("every = 2", "grid = \"2x2x2\"", "exactly one of `points`, `grid` and `stations`"),
        ("every = 2", "region = { min = [0, 0, 0], max = [1, 1, 1] }", "`probes[0].region`: only goes with `grid`"),
        ("every = 2", "name = \"a/b\"", "`probes[0].name`"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let message = error_of(&GOOD.replace(from, to));
        assert!(message.contains(expected), "{to}: {message}");
    }
}

#[test]
fn names_must_be_unique() {
    let twice = GOOD.replace("points = [", "points = [{ name = \"a\", x = 0, y = 0, z = 0 }, ");
    assert!(error_of(&twice).contains("a point named `a` exists already"));
    let default_taken = GOOD.replace(
        "points = [{ name = \"a\"",
        "points = [{ name = \"p1\", x = 0, y = 0, z = 0 }, { x = 0.1, y = 0.1, z = 0.1 }, { name = \"a\"",
    );
    assert!(error_of(&default_taken).contains("`p1`"));
    let sets = format!("{GOOD}[[probes]]\ngrid = \"1x1x1\"\nfields = [\"Ex\"]\n");
    assert!(error_of(&sets).contains("`probes[1].name`: a set named `` exists already"));
}

#[test]
fn probe_grids_are_bounded() {
    let points = "points = [{ name = \"a\", x = 0.1, y = 0.1, z = 0.1 }]";
    for (grid, expected) in [
        ("grid = \"8x8\"", "three counts"),
        ("grid = \"8x8xmany\"", "three counts"),
        ("grid = [0, 1, 1]", "must give 1 to"),
        ("grid = \"4000000000x4000000000x4000000000\"", "must give 1 to"),
        ("grid = 8", "expected counts such as"),
    ] {
        let message = error_of(&GOOD.replace(points, grid));
        assert!(message.contains(expected), "{grid}: {message}");
    }
}

#[test]
fn stations_are_read_beside_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let text = GOOD.replace("points = [{ name = \"a\", x = 0.1, y = 0.1, z = 0.1 }]", "stations = \"STATIONS\"");
    let path = folder.path().join("m.toml");
    fs::write(&path, text).unwrap();
    let missing = Model::from_file(&path).unwrap_err().to_string();
    assert!(missing.contains("cannot read") && missing.contains("STATIONS"), "{missing}");
    fs::write(folder.path().join("STATIONS"), "A 0.1 0.1 0.1\nB 0.1 0.1\n").unwrap();
    let line = Model::from_file(&path).unwrap_err().to_string();
    assert!(line.contains("STATIONS: station list, line 2: 3 fields"), "{line}");
    fs::write(folder.path().join("STATIONS"), "A 0.1 0.1 0.1\nB 0.1 0.1 0.2\n").unwrap();
    let model = Model::from_file(&path).unwrap();
    assert_eq!(model.probes[0].station_points[1].name.as_deref(), Some("B"));
    fs::write(folder.path().join("STATIONS"), "A 0.1 0.1 0.1\nA 0.1 0.1 0.2\n").unwrap();
    let twice = Model::from_file(&path).unwrap_err().to_string();
    assert!(twice.contains("the station A was there before"), "{twice}");
}

#[test]
fn syntax_errors_show_the_line() {
    let message = error_of(&GOOD.replace("courant = 0.9", "courant = = 0.9"));
    assert!(message.contains("line 6"), "{message}");
}
