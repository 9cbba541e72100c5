//! What the writer of this crate writes, its reader shows: after every seal, while the writer goes on, and after the close.

use crate::damage::stride;
use crate::support::{Engine, two_sets, value};
use afflux_container::{ContainerWriter, DatasetIndex, Existing, Fault, ReadError, SeriesFile};
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

#[test]
fn a_damaged_object_header_is_damage_and_no_foreign_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.nc");
    let writer = ContainerWriter::create(Arc::new(PosixStorage), &path, &two_sets(), Existing::Refuse);
    writer.expect("created").close().expect("closed");
    let whole = std::fs::read(&path).expect("read");
    // The superblock of version 3 has the root group's address after its base, extension and end.
    let root = usize::try_from(u64::from_le_bytes(whole[36..44].try_into().expect("eight bytes"))).expect("small");
    assert_eq!(&whole[root..root + 4], b"OHDR");
    let headers: Vec<usize> = (0..whole.len() - 64).filter(|&at| whole[at..].starts_with(b"OHDR")).collect();
    assert!(headers.len() > 10, "{headers:?}");
    for header in headers {
        for at in (header..header + 64).step_by(if header == root { 1 } else { 9 }) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            std::fs::write(&path, &bytes).expect("written");
            // Old enough that nobody waits for a writer.
            let handle = std::fs::File::options().write(true).open(&path).expect("opens");
            handle.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("times can be set");
            match SeriesFile::open(&path) {
                Err(error) => assert!(matches!(error, ReadError::Damaged { .. }), "byte {at}: {error}"),
                Ok(_) => assert_ne!(header, root, "byte {at} goes unnoticed"),
            }
        }
    }
}

/// Opened with one row of a column sealed; by the time of the verification its slots speak of three rows and of two.
#[test]
fn a_column_that_a_writer_seals_on_is_judged_by_its_checksum_when_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.nc");
    let spec = two_sets();
    let mut writer = ContainerWriter::create(Arc::new(PosixStorage), &path, &spec, Existing::Refuse).expect("created");
    let mut engine = Engine::new(spec);
    engine.flush(&mut writer, &[5, 5]);
    let file = SeriesFile::open(&path).expect("opens");
    for rows in [6, 7] {
        engine.flush(&mut writer, &[rows, rows]);
    }
    let verification = file.verify(&mut |_| {});
    assert!(verification.is_whole(), "{:?}", verification.findings);
    let columns = (verification.columns_checked, verification.columns_unchecked, verification.rows_checked);
    assert_eq!(columns, (4, 0, 10));

    // A sealed value that changes is found all the same.
    let value = (value(0, DatasetIndex::Variable(0), 0, 0, 4) as f64).to_le_bytes();
    let bytes = std::fs::read(&path).expect("read");
    let at = bytes.windows(8).position(|window| window == value).expect("there");
    let changed = std::fs::File::options().write(true).open(&path).expect("opens");
    std::os::unix::fs::FileExt::write_all_at(&changed, &[0xFF; 4], at as u64).expect("written");
    let findings = file.verify(&mut |_| {}).findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(matches!(findings[0].fault, Fault::Checksum { .. }) && findings[0].column == Some(1), "{findings:?}");
}
