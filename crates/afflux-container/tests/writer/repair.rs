//! Repair: whatever state the file is in, afterwards it shows its sealed rows, is as long as it must be, and needs no second repair.

use crate::recording::{Change, Log, Recording, apply};
use crate::support::{Engine, check_plainly, two_sets};
use afflux_container::{ContainerWriter, Existing, RepairError, SeriesFile, repair};
use afflux_storage::{MemoryStorage, PosixStorage};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

fn create(path: &Path) -> (ContainerWriter, Engine) {
    let writer = ContainerWriter::create(Arc::new(PosixStorage), path, &two_sets(), Existing::Refuse).unwrap();
    (writer, Engine::new(two_sets()))
}

#[test]
fn a_file_killed_at_any_instant_is_repaired_to_its_sealed_rows() {
    let log: Log = Arc::default();
    let storage = Arc::new(Recording { inner: MemoryStorage::new(), log: log.clone() });
    let mut writer = ContainerWriter::create(storage, Path::new("run.nc"), &two_sets(), Existing::Refuse).unwrap();
    let creation = log.lock().unwrap().len();
    let mut engine = Engine::new(two_sets());
    for rows in [[3, 3], [9, 9]] {
        engine.flush(&mut writer, &rows);
    }
    writer.close().unwrap();
    let changes: Vec<Change> = log.lock().unwrap().clone();
    for number in creation..=changes.len() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.nc");
        let file = std::fs::File::create(&path).unwrap();
        changes[..number].iter().for_each(|change| apply(&file, change));
        drop(file);
        let rows = SeriesFile::open(&path).unwrap().sets()[0].rows_sealed;
        repair(&PosixStorage, &path).unwrap();
        let shown = check_plainly(&path, &two_sets(), &[rows, rows]).unwrap();
        assert!(shown.iter().flatten().all(|&shown| shown == rows), "change {number}: {shown:?}, {rows} sealed");
        let file = SeriesFile::open(&path).unwrap();
        assert!(file.state().closed && file.verify(&mut |_| {}).is_whole(), "change {number}");
        assert_eq!(file.state().allocation_end_bytes, file.file_bytes());
        drop(file);
        assert!(repair(&PosixStorage, &path).unwrap().is_empty(), "change {number}");
        if number % 16 == 0 {
            let resumed = ContainerWriter::resume(Arc::new(PosixStorage), &path, &two_sets()).unwrap();
            assert_eq!(resumed.sets[1].rows, rows);
        }
    }
}

#[test]
fn flags_and_ends_that_another_program_left_are_set_right() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let (mut writer, mut engine) = create(&path);
    engine.flush(&mut writer, &[9, 9]);
    writer.close().unwrap();
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(repair(&PosixStorage, &path).unwrap().to_string(), "nothing to repair");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    // Open for writing, and a checksum that does not fit any more.
    file.write_all_at(&[5], 11).unwrap();
    assert!(check_plainly(&path, &two_sets(), &[9, 9]).is_err());
    let report = repair(&PosixStorage, &path).unwrap();
    assert!(report.superblock_written && report.rows_cut.is_empty() && report.length_changed.is_none(), "{report}");
    assert!(std::fs::read(&path).unwrap() == whole);
    // A copy that was cut lacks samples: the file opens, and verify says which.
    file.set_len(whole.len() as u64 - 40).unwrap();
    assert!(check_plainly(&path, &two_sets(), &[9, 9]).is_err());
    let report = repair(&PosixStorage, &path).unwrap();
    assert!(report.to_string().contains("samples are missing"), "{report}");
    let verification = SeriesFile::open(&path).unwrap().verify(&mut |_| {});
    assert!(!verification.is_whole());
}

/// HDF5 reads nothing behind the end of a file: without its length nobody could say what is left of it.
#[test]
fn a_tail_that_was_cut_off_is_said_to_be_and_given_back_as_zeros() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let (mut writer, mut engine) = create(&path);
    engine.flush(&mut writer, &[9, 9]);
    engine.flush(&mut writer, &[21, 21]);
    writer.close().unwrap();
    let whole = std::fs::read(&path).unwrap();
    let (mut repaired, mut left) = (0, 0);
    for cut in (8..whole.len()).step_by(whole.len() / 60) {
        std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let resumed = ContainerWriter::resume(Arc::new(PosixStorage), &path, &two_sets());
        let refused = resumed.err().expect("it lacks its tail").to_string();
        assert!(refused.contains("cut off") || whole.len() - cut < 48, "{cut} bytes less: {refused}");
        let Ok(report) = repair(&PosixStorage, &path) else {
            assert!(std::fs::read(&path).unwrap() == whole[..whole.len() - cut], "{cut} bytes less: left as it was");
            left += 1;
            continue;
        };
        let lengths = (whole.len() as u64 - cut as u64, whole.len() as u64);
        assert_eq!(report.length_changed, Some(lengths), "{report}");
        // Behind the last sealed row there are zeros anyway.
        let nothing_lost = std::fs::read(&path).unwrap() == whole;
        let is_whole = SeriesFile::open(&path).unwrap().verify(&mut |_| {}).is_whole();
        assert_eq!(is_whole, nothing_lost, "{cut} bytes less");
        repaired += 1;
    }
    assert!(repaired > 3 && left > 0, "{repaired} repaired, {left} left");
}

#[test]
fn a_file_in_use_is_refused_and_a_left_over_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    assert!(matches!(repair(&PosixStorage, &path), Err(RepairError::Missing { .. })));
    let left_over = directory.path().join("run.nc.afflux-new");
    std::fs::write(&left_over, b"half a file").unwrap();
    assert_eq!(repair(&PosixStorage, &path).unwrap().temporary_removed.as_deref(), Some(&*left_over));
    assert!(!left_over.exists());
    let (writer, _) = create(&path);
    assert!(matches!(repair(&PosixStorage, &path), Err(RepairError::Busy { .. })));
    drop(writer);
    assert!(repair(&PosixStorage, &path).unwrap().closed);
}
