//! Power failures: at the level that asks for it, every sealed row is in the file whatever part of the rest the medium has.

use crate::support::{Engine, check_plainly, two_sets};
use afflux_container::{ContainerWriter, Durability, Existing, ResumeCheck, WriteError};
use afflux_storage::{OpenMode, PosixStorage, Storage, SyncedOnly};
use std::path::Path;
use std::sync::Arc;

const FLUSHES: [[u64; 2]; 4] = [[3, 3], [4, 4], [9, 9], [21, 21]];

/// Runs until the power fails; what was sealed is in `sealed`, once the file's name is durable.
fn run(storage: &SyncedOnly, path: &Path, sealed: &mut Option<[u64; 2]>) -> Result<(), WriteError> {
    let Ok(mut writer) = ContainerWriter::create(Arc::new(storage.clone()), path, &two_sets(), Existing::Refuse) else {
        return Ok(());
    };
    writer.set_durability(storage, Durability::PowerLoss)?;
    *sealed = Some([0, 0]);
    let mut engine = Engine::new(two_sets());
    for rows in FLUSHES {
        // Samples are written by this process: the seal's own sync covers them.
        let file = writer.file().clone();
        engine.try_flush(&mut writer, file.as_ref(), &rows)?;
        *sealed = Some(rows);
    }
    writer.close().map(drop)
}

/// A medium that has any part of what was not synced.
fn arbitrary(seed: u64) -> impl FnMut() -> bool {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed + 1);
    move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 63 == 0
    }
}

#[test]
fn sealed_rows_survive_a_power_failure_after_any_operation() {
    let whole = {
        let directory = tempfile::tempdir().unwrap();
        let storage = SyncedOnly::new(Arc::new(PosixStorage));
        run(&storage, &directory.path().join("run.nc"), &mut None).unwrap();
        storage.operations()
    };
    let mut cuts = 0;
    // Samples are most of the operations and much alike: a stride without a pattern.
    for operations in (0..whole).filter(|number| number * 7 % 5 < 2) {
        let directory = tempfile::tempdir().unwrap();
        let storage = SyncedOnly::new(Arc::new(PosixStorage));
        storage.cut_power_after(operations);
        let mut sealed = None;
        let _ = run(&storage, &directory.path().join("run.nc"), &mut sealed);
        let Some(sealed) = sealed else { continue };
        for seed in 0..2 {
            let after = tempfile::tempdir().unwrap();
            storage.after_power_loss(&PosixStorage, after.path(), arbitrary(seed + operations)).unwrap();
            let path = after.path().join("run.nc");
            check_plainly(&path, &two_sets(), &sealed)
                .unwrap_or_else(|error| panic!("operation {operations}: {error}"));
            let mut resumed = ContainerWriter::resume(Arc::new(PosixStorage), &path, &two_sets()).unwrap();
            assert!(resumed.sets[0].rows >= sealed[0]);
            assert_eq!(resumed.writer.check(ResumeCheck::All, &mut |_| {}).unwrap(), [], "operation {operations}");
            cuts += 1;
        }
    }
    assert!(cuts > 100, "only {cuts} power failures");
}

/// The other level makes no such promise: the harness can tell.
#[test]
fn without_syncs_a_power_failure_may_take_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let storage = SyncedOnly::new(Arc::new(PosixStorage));
    let mut writer = ContainerWriter::create(Arc::new(storage.clone()), &path, &two_sets(), Existing::Refuse).unwrap();
    storage.sync_directory(directory.path()).unwrap();
    Engine::new(two_sets()).flush(&mut writer, &[9, 9]);
    let after = tempfile::tempdir().unwrap();
    storage.after_power_loss(&PosixStorage, after.path(), || false).unwrap();
    assert!(check_plainly(&after.path().join("run.nc"), &two_sets(), &[9, 9]).is_err());
    assert_eq!(writer.counters().syncs, 0);
    assert!(PosixStorage.open(&path, OpenMode::Read).is_ok());
}
