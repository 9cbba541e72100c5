//! Resuming: after a close, after a kill at every instant, by a run that differs, while another writer is at work.

use crate::recording::{Change, Log, Recording, apply};
use crate::support::{CHUNK_STEPS, Engine, check_plainly, points, two_sets};
use afflux_container::{
    ContainerWriter, Existing, FileSpec, ResumeCheck, ResumeError, Resumed, SeriesFile, WriteError,
};
use afflux_storage::{MemoryStorage, PosixStorage};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

fn create(path: &Path) -> (ContainerWriter, Engine) {
    let writer = ContainerWriter::create(Arc::new(PosixStorage), path, &two_sets(), Existing::Refuse).unwrap();
    (writer, Engine::new(two_sets()))
}

fn resume(path: &Path) -> (Resumed, Engine) {
    let mut resumed = ContainerWriter::resume(Arc::new(PosixStorage), path, &two_sets()).unwrap();
    assert_eq!(resumed.writer.check(ResumeCheck::All, &mut |_| {}).unwrap(), []);
    let engine = Engine::resumed(two_sets(), &mut resumed);
    (resumed, engine)
}

fn refuse(path: &Path, change: impl FnOnce(&mut FileSpec)) -> ResumeError {
    let mut spec = two_sets();
    change(&mut spec);
    match ContainerWriter::resume(Arc::new(PosixStorage), path, &spec) {
        Ok(_) => panic!("resumed"),
        Err(error) => error,
    }
}

fn assert_whole(path: &Path) {
    let verification = SeriesFile::open(path).unwrap().verify(&mut |_| {});
    assert!(verification.is_whole(), "{verification:?}");
}

#[test]
fn a_closed_file_goes_on_where_it_ended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let (mut writer, mut engine) = create(&path);
    engine.flush(&mut writer, &[6, 6]);
    writer.close().unwrap();
    for (epoch, rows) in [(2, [9, 9]), (3, [30, 30]), (4, [47, 47])] {
        let before = std::fs::metadata(&path).unwrap().len();
        let (mut resumed, mut engine) = resume(&path);
        assert_eq!((resumed.closed, resumed.epoch), (true, epoch));
        engine.flush(&mut resumed.writer, &rows);
        resumed.writer.close().unwrap();
        check_plainly(&path, &two_sets(), &rows).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() >= before);
    }
    assert_whole(&path);
    assert_eq!(SeriesFile::open(&path).unwrap().state().epoch, 4);
}

#[test]
fn what_is_sealed_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let (mut writer, mut engine) = create(&path);
    drop(writer);
    let (resumed, _) = resume(&path);
    assert_eq!((resumed.watermark, resumed.closed, resumed.sets[0].last_time), (None, false, None));
    writer = resumed.writer;
    engine.flush(&mut writer, &[6, 4]);
    drop(writer);
    let (resumed, _) = resume(&path);
    let first = &resumed.sets[0];
    assert_eq!((resumed.watermark, resumed.closed, resumed.epoch), (Some(5), false, 3));
    assert_eq!((first.rows, first.first_step, first.last_step, first.last_time), (6, Some(0), Some(5), Some(10.0)));
    assert_eq!((resumed.sets[1].rows, resumed.sets[1].last_step), (4, Some(3)));
}

/// Copies a file without the sparse tail that a live one has.
fn copy_used(from: &Path, to: &Path) {
    const USED_BYTES_MAX: u64 = 256 * 1024;
    let length = std::fs::metadata(from).unwrap().len();
    let mut used = Vec::new();
    std::fs::File::open(from).unwrap().take(USED_BYTES_MAX).read_to_end(&mut used).unwrap();
    std::fs::write(to, &used).unwrap();
    std::fs::OpenOptions::new().write(true).open(to).unwrap().set_len(length).unwrap();
}

/// Bytes of a run that ends with these flushes without being killed.
fn uninterrupted_bytes(flushes: &[[u64; 2]]) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let (mut writer, mut engine) = create(&path);
    for rows in flushes {
        engine.flush(&mut writer, rows);
    }
    writer.close().unwrap().file_bytes
}

/// The heart: a kill after any change of the file, creation apart.
#[test]
fn a_run_that_is_killed_at_any_instant_resumes_and_ends_complete() {
    /// HDF5 takes metadata in pieces of 2 KiB; what a writer has not used of its last one is lost when it is killed.
    const LOST_BYTES_MAX: u64 = 2048;
    let flushes = [[3, 3], [4, 4], [9, 9], [9, 9], [20, 20]];
    let last = [26, 26];
    let log: Log = Arc::default();
    let storage = Arc::new(Recording { inner: MemoryStorage::new(), log: log.clone() });
    let mut writer = ContainerWriter::create(storage, Path::new("run.nc"), &two_sets(), Existing::Refuse).unwrap();
    let creation = log.lock().unwrap().len();
    let mut engine = Engine::new(two_sets());
    for rows in flushes {
        engine.flush(&mut writer, &rows);
        log.lock().unwrap().push(Change::Sealed(rows.to_vec()));
    }
    writer.close().unwrap();
    let changes = log.lock().unwrap().clone();
    let bytes_max = uninterrupted_bytes(&[&flushes[..], &[last]].concat()) + LOST_BYTES_MAX;
    let directory = tempfile::tempdir().unwrap();
    let (whole, cut) = (directory.path().join("whole.nc"), directory.path().join("cut.nc"));
    let file = std::fs::File::create(&whole).unwrap();
    let mut sealed = vec![0, 0];
    for (number, change) in changes.iter().enumerate() {
        apply(&file, change);
        if let Change::Sealed(rows) = change {
            sealed.clone_from(rows);
        }
        if number + 1 < creation {
            continue;
        }
        copy_used(&whole, &cut);
        let (mut resumed, mut engine) = resume(&cut);
        let rows: Vec<u64> = resumed.sets.iter().map(|set| set.rows).collect();
        assert!(rows >= sealed, "change {number}: {rows:?}, {sealed:?} were sealed");
        // The other flushes as they would have come, so that the sizes can be compared.
        for rows in flushes.iter().filter(|flush| flush[0] > rows[0]).chain([&last]) {
            engine.flush(&mut resumed.writer, rows);
        }
        let bytes = resumed.writer.close().unwrap().file_bytes;
        assert!(bytes <= bytes_max, "change {number}: {bytes} bytes, {bytes_max} at most");
        check_plainly(&cut, &two_sets(), &last).unwrap_or_else(|error| panic!("change {number}: {error}"));
        assert_whole(&cut);
    }
}

#[test]
fn a_second_writer_is_kept_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let (writer, _) = create(&path);
    assert!(matches!(refuse(&path, |_| {}), ResumeError::Busy { .. }));
    drop(writer);
    let (resumed, _) = resume(&path);
    assert!(matches!(refuse(&path, |_| {}), ResumeError::Busy { .. }));
    drop(resumed);
}

type SpecChange<'a> = &'a dyn Fn(&mut FileSpec);

#[test]
fn a_run_that_differs_is_refused_with_the_difference() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    assert!(matches!(refuse(&path, |_| {}), ResumeError::Missing { .. }));
    assert!(matches!(refuse(directory.path(), |_| {}), ResumeError::NotAFile { .. }));
    std::fs::write(&path, b"CDF\x01 and so on").unwrap();
    assert!(matches!(refuse(&path, |_| {}), ResumeError::NotAfflux { .. }));
    std::fs::remove_file(&path).unwrap();
    let (writer, _) = create(&path);
    writer.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    let cases: [(&str, SpecChange); 9] = [
        ("variables Ez, J, hits in the file, Ez, J in the run", &|spec| drop(spec.sets[0].variables.pop())),
        ("components of J: 3 in the file, none in the run", &|spec| spec.sets[0].variables[1].components = None),
        ("units of Ez: \"V m-1\" in the file, \"V\" in the run", &|spec| spec.sets[0].variables[0].units = "V".into()),
        ("steps from row to row: 1 in the file, 2 in the run", &|spec| spec.sets[1].cadence_steps = 2),
        ("(chunk_steps): 4 in the file, 8 in the run", &|spec| spec.sets[1].chunk_steps = 8),
        ("set line: point 13 named \"P0001\" at", &|spec| spec.sets[1].points.x[1] = 7.0),
        ("point 22 (P0004) is only in the file", &|spec| spec.sets[0].points = points(4)),
        ("units of time: \"s\" in the file, \"ns\" in the run", &|spec| spec.time_units = "ns".into()),
        ("the file has the sets \"\", \"line\"; the run \"line\", \"\"", &|spec| spec.sets.swap(0, 1)),
    ];
    for (words, change) in cases {
        let error = refuse(&path, change);
        assert!(matches!(error, ResumeError::Different { .. }));
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(std::fs::read(&path).unwrap() == before, "a refused run changes nothing");
    // What only describes may differ.
    let mut spec = two_sets();
    spec.attributes.clear();
    spec.sets[0].variables[0].long_name = None;
    spec.chunk_bytes = 1 << 20;
    let resumed = ContainerWriter::resume(Arc::new(PosixStorage), &path, &spec).unwrap();
    assert_eq!(
        resumed.writer.geometry(0).points_per_chunk,
        create(&path.with_extension("b")).0.geometry(0).points_per_chunk
    );
}

#[test]
fn a_damaged_column_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let (mut writer, mut engine) = create(&path);
    engine.flush(&mut writer, &[6, 6]);
    let chunk = writer.column_chunks(1, 0).unwrap()[0].chunk_offsets[0];
    drop(writer);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[usize::try_from(chunk).unwrap()] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let mut resumed = ContainerWriter::resume(Arc::new(PosixStorage), &path, &two_sets()).unwrap();
    assert_eq!(resumed.writer.check(ResumeCheck::UnfinishedColumns, &mut |_| {}).unwrap(), []);
    let damaged = resumed.writer.check(ResumeCheck::All, &mut |_| {}).unwrap();
    assert_eq!((damaged.len(), damaged[0].set, damaged[0].column, damaged[0].rows.clone()), (1, 1, 0, 0..CHUNK_STEPS));
    assert!(damaged[0].to_string().contains("set line, column 0 (steps 0 to 3): checksum"), "{}", damaged[0]);
}

#[test]
fn chunks_and_checksums_of_old_columns_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let (mut writer, _) = create(&path);
    let mut engine = Engine::new(two_sets());
    let mut grown = Vec::new();
    for columns in 1..=300 {
        grown.extend(writer.grow(&[(0, columns), (1, columns)]).unwrap());
        let rows = [columns * CHUNK_STEPS; 2];
        engine.note(grown.clone());
        engine.flush(&mut writer, &rows);
    }
    for set in 0..2 {
        for column in 0..300 {
            let expected: Vec<_> = grown.iter().filter(|grown| (grown.set, grown.column) == (set, column)).collect();
            assert_eq!(writer.column_chunks(set, column).unwrap().iter().collect::<Vec<_>>(), expected);
            let checksum = writer.column_checksum(set, column).unwrap().unwrap();
            assert_eq!(checksum.rows, CHUNK_STEPS);
        }
    }
    assert_eq!(writer.check(ResumeCheck::All, &mut |_| {}).unwrap(), []);
}

/// Where locks do not work: the writer that was believed dead finds the other's epoch and stops.
#[test]
fn a_writer_that_was_superseded_stops() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let (mut writer, mut engine) = create(&path);
    engine.flush(&mut writer, &[6, 4]);
    // A copy takes the first one's place, so that its lock is not in the way.
    let copy = directory.path().join("copy.nc");
    std::fs::copy(&path, &copy).unwrap();
    let (resumed, _) = resume(&copy);
    drop(resumed);
    let bytes = std::fs::read(&copy).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&std::fs::OpenOptions::new().write(true).open(&path).unwrap(), &bytes, 0)
        .unwrap();
    let requests = [(0, 3), (1, 2)];
    writer.grow(&requests).unwrap();
    let seal = afflux_container::Seal { watermark: Some(8), rows: vec![9, 5], columns: Vec::new() };
    let error = writer.seal(&seal).unwrap_err();
    assert!(matches!(error, WriteError::TakenOver { epoch: 1, found_epoch: 2, .. }), "{error}");
    assert!(writer.close().is_err());
    assert_eq!(SeriesFile::open(&path).unwrap().state().epoch, 2);
    check_plainly(&path, &two_sets(), &[6, 4]).unwrap();
}
