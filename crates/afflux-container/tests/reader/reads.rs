//! What is in a file is shown, up to the watermark and not a step further.

use crate::make::{MadeSet, WATERMARK, make, sealed_rows, time, two_sets, value};
use afflux_container::{Block, ElementType, ReadError, SeriesFile, VerifyProgress};
use std::path::PathBuf;

fn made(sets: &[MadeSet], watermark: Option<u64>) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.nc");
    make(&path, sets, watermark).expect("made");
    (directory, path)
}

#[test]
fn sets_points_and_variables_are_described() {
    let (_directory, path) = made(&two_sets(), Some(WATERMARK));
    let file = SeriesFile::open(&path).expect("opens");
    assert_eq!(file.state().watermark, Some(WATERMARK));
    assert_eq!((file.state().sequence, file.state().epoch, file.state().closed), (2, 1, false));
    let sets = file.sets();
    assert_eq!(sets.iter().map(|set| set.name.as_str()).collect::<Vec<_>>(), ["", "ground"]);
    let first = &sets[0];
    assert_eq!((first.points, first.rows_sealed, first.rows_on_disk, first.chunk_steps), (5, 16, 25, 8));
    assert_eq!((first.cadence_steps, first.steps_sealed), (Some(4), Some((0, 60))));
    assert_eq!((first.time_units.as_str(), first.length_units.as_str()), ("s", "m"));
    let names: Vec<_> = first.variables.iter().map(|variable| variable.spec.name.as_str()).collect();
    assert_eq!(names, ["pressure", "J", "count"], "creation order, not the alphabet's");
    let current = &first.variables[1];
    assert_eq!((current.spec.element, current.spec.components), (ElementType::F32, Some(3)));
    assert_eq!((current.spec.units.as_str(), current.points_per_chunk, current.rows_on_disk), ("V m-1", 2, 25));
    assert_eq!((sets[1].rows_sealed, sets[1].steps_sealed), (6, Some((5, 55))));
    let points = file.points(0).expect("points");
    assert_eq!(points.ids, [3, 5, 8, 13, 21]);
    assert_eq!(points.names[2], "probe \u{e9} 8");
    assert_eq!(file.position(0, 13).expect("there"), 3);
    assert_eq!(file.position_by_name(1, "probe \u{e9} 0").expect("there"), 1);
    assert_eq!(file.attributes(), [("Conventions".to_owned(), "CF-1.11".to_owned())]);
}

#[test]
fn every_sealed_value_is_the_one_written() {
    let sets = two_sets();
    let (_directory, path) = made(&sets, Some(WATERMARK));
    let file = SeriesFile::open(&path).expect("opens");
    for (index, set) in sets.iter().enumerate() {
        let sealed = sealed_rows(set, Some(WATERMARK));
        let rows = 0..sealed as u64;
        assert_eq!(file.steps(index, rows.clone()).expect("steps"), set.steps[..sealed]);
        let times: Vec<f64> = set.steps[..sealed].iter().map(|&step| time(step)).collect();
        assert_eq!(file.times(index, rows.clone()).expect("times"), times);
        for (number, variable) in set.variables.iter().enumerate() {
            let mut flat = Vec::new();
            for position in 0..set.ids.len() {
                for component in 0..variable.components.unwrap_or(1) {
                    let series = file.series(index, number, position as u64, component, rows.clone()).expect("series");
                    let steps = set.steps[..sealed].iter();
                    let expected: Vec<f64> =
                        steps.map(|&step| f64::from(value(index, number, position, component, step))).collect();
                    assert_eq!(series, expected);
                    flat.extend(expected);
                }
            }
            let block = file.block(index, number, 0..set.ids.len() as u64, rows.clone()).expect("block");
            let (element, values) = widened(block);
            assert_eq!((element, values), (variable.element, flat));
        }
    }
}

/// Values as `f64`; those of the tests are small.
fn widened(block: Block) -> (ElementType, Vec<f64>) {
    match block {
        Block::F32(values) => (ElementType::F32, values.into_iter().map(f64::from).collect()),
        Block::F64(values) => (ElementType::F64, values),
        Block::I32(values) => (ElementType::I32, values.into_iter().map(f64::from).collect()),
        Block::I64(values) => {
            let narrow = |value| f64::from(i32::try_from(value).expect("small"));
            (ElementType::I64, values.into_iter().map(narrow).collect())
        }
    }
}

#[test]
fn a_part_of_the_rows_is_that_part() {
    let (_directory, path) = made(&two_sets(), Some(WATERMARK));
    let file = SeriesFile::open(&path).expect("opens");
    let all = file.series(0, 1, 3, 2, 0..16).expect("series");
    for (start, end) in [(0, 0), (0, 1), (7, 9), (8, 16), (15, 16), (16, 16), (3, 13)] {
        let part = file.series(0, 1, 3, 2, start..end).expect("part");
        let range = usize::try_from(start).expect("small")..usize::try_from(end).expect("small");
        assert_eq!(part, all[range]);
    }
    // Second point of the block, third of three components, second of four rows.
    let Block::F32(block) = file.block(0, 1, 2..4, 6..10).expect("block") else { panic!("J is f32") };
    assert_eq!(block.len(), 2 * 3 * 4);
    assert_eq!(f64::from(block[(3 + 2) * 4 + 1]), all[7]);
}

#[test]
fn unsealed_rows_are_not_shown() {
    let (_directory, path) = made(&two_sets(), Some(WATERMARK));
    let file = SeriesFile::open(&path).expect("opens");
    for result in [
        file.series(0, 0, 0, 0, 0..17).map(drop),
        file.steps(0, 16..17).map(drop),
        file.times(0, 0..25).map(drop),
        file.block(0, 0, 0..5, 10..17).map(drop),
        file.block(0, 0, 0..6, 0..16).map(drop),
        file.series(0, 0, 5, 0, 0..1).map(drop),
        file.series(0, 0, u64::MAX, 0, 0..1).map(drop),
        file.series(0, 1, 0, 3, 0..1).map(drop),
        file.series(0, 0, 0, 1, 0..1).map(drop),
        file.series(0, 3, 0, 0, 0..1).map(drop),
        file.series(2, 0, 0, 0, 0..1).map(drop),
        file.points(2).map(drop),
        file.position(0, 4).map(drop),
        file.position_by_name(0, "nobody").map(drop),
        file.set_index("sky").map(drop),
        file.variable_index(0, "Ez").map(drop),
    ] {
        assert!(matches!(result, Err(ReadError::OutOfRange { .. })), "{result:?}");
    }
    let message = file.variable_index(0, "Ez").expect_err("not there").to_string();
    assert_eq!(message, "no variable Ez: the file has pressure, J, count");
}

#[test]
fn the_watermark_cuts_at_every_step() {
    let sets = two_sets();
    let directory = tempfile::tempdir().expect("a directory");
    for watermark in [None, Some(0), Some(3), Some(4), Some(5), Some(31), Some(32), Some(95), Some(96), Some(1000)] {
        let path = directory.path().join("run.nc");
        make(&path, &sets, watermark).expect("made");
        let file = SeriesFile::open(&path).expect("opens");
        for (set, info) in sets.iter().zip(file.sets()) {
            assert_eq!(info.rows_sealed, sealed_rows(set, watermark) as u64, "{watermark:?}");
        }
        let verification = file.verify(&mut |_| {});
        let tail_expected = watermark >= Some(75);
        assert_eq!(verification.is_whole(), !tail_expected, "{watermark:?}: {:?}", verification.findings);
    }
}

#[test]
fn a_whole_file_verifies_and_says_how_far_it_is() {
    let (_directory, path) = made(&two_sets(), Some(WATERMARK));
    let file = SeriesFile::open(&path).expect("opens");
    let mut progress = Vec::new();
    let verification = file.verify(&mut |VerifyProgress { columns_done, columns, .. }| {
        progress.push((columns_done, columns));
    });
    assert!(verification.is_whole(), "{:?}", verification.findings);
    assert_eq!(progress, [(1, 4), (2, 4), (3, 4), (4, 4)]);
    assert_eq!((verification.columns_checked, verification.rows_checked), (4, 22));
    assert_eq!(verification.bytes_checked, 16 * (16 + 5 * (8 + 12 + 4)) + 6 * (16 + 2 * 16));
}

#[test]
fn a_set_without_points_or_variables_is_read() {
    let mut sets = two_sets();
    sets[0].variables.clear();
    sets[1].steps.clear();
    let (_directory, path) = made(&sets, Some(WATERMARK));
    let file = SeriesFile::open(&path).expect("opens");
    assert_eq!((file.sets()[1].rows_sealed, file.sets()[1].cadence_steps), (0, None));
    assert!(file.verify(&mut |_| {}).is_whole());
}

#[test]
fn order_of_sets_is_that_of_creation() {
    let mut sets = two_sets();
    sets.insert(0, MadeSet { name: "sky", ..sets[1].clone() });
    sets.push(MadeSet { name: "air", ..sets[2].clone() });
    let (_directory, path) = made(&sets, Some(WATERMARK));
    let file = SeriesFile::open(&path).expect("opens");
    assert_eq!(file.sets().iter().map(|set| set.name.as_str()).collect::<Vec<_>>(), ["sky", "", "ground", "air"]);
    assert!(file.verify(&mut |_| {}).is_whole());
}
