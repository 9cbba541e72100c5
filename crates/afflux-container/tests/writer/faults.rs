//! Storage that fails at the k-th call, for every k: an error each time, and a file that shows what was sealed.

use crate::support::{Engine, check_plainly, two_sets};
use afflux_container::{ContainerWriter, CreateError, Existing, SeriesFile, WriteError};
use afflux_storage::{Fault, FaultyStorage, Lasting, OpenMode, Operation, PosixStorage, Roughness, Storage};
use std::path::Path;
use std::sync::Arc;

const FLUSHES: [[u64; 2]; 6] = [[3, 0], [4, 2], [9, 5], [30, 31], [31, 31], [40, 44]];

/// Runs until something fails; returns the rows that were sealed, or `None` if not even the file came to be.
fn run(storage: &FaultyStorage, path: &Path) -> Option<Vec<u64>> {
    let made = ContainerWriter::create(Arc::new(storage.clone()), path, &two_sets(), Existing::Refuse);
    let mut writer = match made {
        Ok(writer) => writer,
        Err(error) => {
            assert!(matches!(error, CreateError::Io { .. }), "{error}");
            return None;
        }
    };
    // Samples take their own way, so that the faults hit the container.
    let samples = PosixStorage.open(path, OpenMode::ReadWrite).unwrap();
    let mut engine = Engine::new(two_sets());
    let mut sealed = vec![0, 0];
    for rows in FLUSHES {
        if let Err(error) = engine.try_flush(&mut writer, samples.as_ref(), &rows) {
            assert!(matches!(error, WriteError::Io { .. }), "{error}");
            assert!(error.to_string().contains(&path.display().to_string()));
            let refused = writer.grow(&[(0, 20)]).unwrap_err();
            assert!(matches!(refused, WriteError::Failed { .. }), "{refused}");
            return Some(sealed);
        }
        sealed = rows.to_vec();
    }
    // A close that fails leaves all that was sealed.
    let _ = writer.close();
    Some(sealed)
}

fn at_every(operation: Operation) -> u64 {
    for nth in 1.. {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.nc");
        let storage = FaultyStorage::new(Arc::new(PosixStorage));
        storage.inject(Fault::disk_full(operation, nth, Lasting::ForGood));
        let sealed = run(&storage, &path);
        match &sealed {
            Some(rows) => {
                check_plainly(&path, &two_sets(), rows).unwrap_or_else(|error| panic!("{operation:?} {nth}: {error}"));
                SeriesFile::open(&path).unwrap();
            }
            None => assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0),
        }
        if storage.failures() == 0 {
            assert_eq!(sealed.as_deref(), Some(&FLUSHES[FLUSHES.len() - 1][..]));
            return nth - 1;
        }
    }
    unreachable!("the run ends")
}

#[test]
fn a_full_disk_at_any_write_leaves_the_sealed_rows() {
    let writes = at_every(Operation::Write);
    assert!(writes > 40, "only {writes} writes were made to fail");
}

#[test]
fn a_length_that_cannot_be_set_leaves_the_sealed_rows() {
    assert!(at_every(Operation::SetLen) >= 2);
}

#[test]
fn a_rename_that_fails_leaves_nothing() {
    assert_eq!(at_every(Operation::Rename), 1);
}

#[test]
fn a_replaced_file_is_kept_until_the_new_one_is_whole() {
    for operation in [Operation::Open, Operation::Write, Operation::SetLen, Operation::Rename] {
        for nth in 1.. {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("run.nc");
            std::fs::write(&path, b"what was there").unwrap();
            let storage = FaultyStorage::new(Arc::new(PosixStorage));
            storage.inject(Fault::disk_full(operation, nth, Lasting::ForGood));
            let made = ContainerWriter::create(Arc::new(storage.clone()), &path, &two_sets(), Existing::Replace);
            match made {
                Ok(_) => break,
                Err(error) => {
                    assert!(error.to_string().contains("run.nc"), "{error}");
                    assert_eq!(std::fs::read(&path).unwrap(), b"what was there", "{operation:?} {nth}");
                    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "{operation:?} {nth}");
                }
            }
        }
    }
}

#[test]
fn names_of_any_length_that_the_file_system_takes_are_created() {
    let directory = tempfile::tempdir().unwrap();
    for bytes in [243, 244, 245, 254, 255] {
        let path = directory.path().join(format!("{}\u{e9}.nc", "n".repeat(bytes - 5)));
        let mut writer = ContainerWriter::create(Arc::new(PosixStorage), &path, &two_sets(), Existing::Refuse).unwrap();
        Engine::new(two_sets()).flush(&mut writer, &[3, 3]);
        writer.close().unwrap();
        check_plainly(&path, &two_sets(), &[3, 3]).unwrap();
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 5);
}

#[test]
fn short_and_interrupted_transfers_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let bytes: Vec<Vec<u8>> = [None, Some(Roughness { transfer_bytes_max: 13, interrupt_every: 3 })]
        .into_iter()
        .map(|roughness| {
            let path = directory.path().join(format!("{}.nc", roughness.is_some()));
            let storage = FaultyStorage::new(Arc::new(PosixStorage));
            storage.set_roughness(roughness);
            assert_eq!(run(&storage, &path).as_deref(), Some(&FLUSHES[FLUSHES.len() - 1][..]));
            std::fs::read(&path).unwrap()
        })
        .collect();
    assert!(bytes[0] == bytes[1]);
}
