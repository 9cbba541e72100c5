//! What the writer of this crate writes, its reader shows: after every seal, while the writer goes on, and after the close.

use crate::damage::stride;
use crate::support::{Engine, two_sets, value};
use afflux_container::{ContainerWriter, DatasetIndex, Existing, SeriesFile};
use afflux_storage::PosixStorage;
use std::path::Path;
use std::sync::Arc;

/// Both sets have equally many rows: cadence 1 and one watermark for the file.
fn check(path: &Path, rows: u64, closed: bool) {
    let file = SeriesFile::open(path).expect("opens");
    assert_eq!((file.state().watermark, file.state().closed), (rows.checked_sub(1), closed));
    for (set, (info, spec)) in file.sets().iter().zip(two_sets().sets).enumerate() {
        assert_eq!((info.name.as_str(), info.rows_sealed, info.cadence_steps), (spec.name.as_str(), rows, Some(1)));
        let specs: Vec<_> = info.variables.iter().map(|variable| variable.spec.clone()).collect();
        assert_eq!((specs, info.chunk_steps), (spec.variables.clone(), spec.chunk_steps));
        assert_eq!(file.points(set).expect("points"), &spec.points);
        for (number, variable) in spec.variables.iter().enumerate() {
            for (position, component) in [(0, 0), (2, variable.components.unwrap_or(1) - 1)] {
                let series = file.series(set, number, position, component, 0..rows).expect("series");
                let dataset = DatasetIndex::Variable(number);
                let expected = (0..rows).map(|row| value(set, dataset, position, u64::from(component), row));
                assert!(series.iter().copied().eq(expected.map(|value| value as f64)));
            }
        }
    }
    let verification = file.verify(&mut |_| {});
    assert!(verification.is_whole(), "{rows} rows: {:?}", verification.findings);
}

#[test]
fn every_seal_of_the_writer_is_shown_and_verifies() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.nc");
    let spec = two_sets();
    let mut writer = ContainerWriter::create(Arc::new(PosixStorage), &path, &spec, Existing::Refuse).expect("created");
    let mut engine = Engine::new(spec);
    check(&path, 0, false);
    for rows in [3, 4, 6, 8, 11, 18, 30, 31] {
        engine.flush(&mut writer, &[rows, rows]);
        check(&path, rows, false);
    }
    writer.close().expect("closed");
    check(&path, 31, true);
}

#[test]
fn windows_of_one_row_are_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.nc");
    let spec = two_sets();
    let mut writer = ContainerWriter::create(Arc::new(PosixStorage), &path, &spec, Existing::Refuse).expect("created");
    let mut engine = Engine::new(spec);
    for rows in 1..=13 {
        engine.flush(&mut writer, &[rows, rows]);
        check(&path, rows, false);
    }
}

#[test]
fn a_written_file_with_flipped_bits_never_brings_the_reader_down() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.nc");
    let spec = two_sets();
    let mut writer = ContainerWriter::create(Arc::new(PosixStorage), &path, &spec, Existing::Refuse).expect("created");
    let mut engine = Engine::new(spec);
    engine.flush(&mut writer, &[9, 9]);
    writer.close().expect("closed");
    let whole = std::fs::read(&path).expect("read");
    for (turn, at) in (0..whole.len()).step_by(stride(whole.len(), 300)).enumerate() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (turn % 8);
        std::fs::write(&path, &bytes).expect("written");
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        let handle = std::fs::File::options().write(true).open(&path).expect("opens");
        handle.set_modified(long_ago).expect("times can be set");
        if let Ok(file) = SeriesFile::open(&path) {
            file.verify(&mut |_| {});
        }
    }
}
