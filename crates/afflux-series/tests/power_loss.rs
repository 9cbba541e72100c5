//! Power failures of whole runs: at `Durability::PowerLoss` every row that a rank was told is sealed is in the file, whatever part of
//! the rest the medium has; HDF5's own writes and those of all ranks go through the same storage.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use afflux_collective::Path as WritePath;
use afflux_comm::{Communicator, threads};
use afflux_container::SeriesFile;
use afflux_series::{Durability, Existing, Replay, SeriesWriter, SetId};
use afflux_storage::{PosixStorage, SyncedOnly};
use common::{Row, Workload, probe_set};

const RANKS: usize = 3;
const STEPS: u64 = 26;

fn workload() -> Workload {
    Workload { steps: 0..STEPS, window_steps: 5, chunk_steps: 4, checkpoints: vec![7, 18], ..Workload::one_set(9) }
}

/// One rank's run into what there is at `path`. `sealed` learns the rows that `checkpoint` and `close` have promised.
fn run(
    path: &Path,
    comm: &dyn Communicator,
    storage: &SyncedOnly,
    write_path: WritePath,
    durability: Durability,
    sealed: &AtomicU64,
) -> Result<(), String> {
    let workload = workload();
    let (set, ids) = probe_set(&workload.sets[0], workload.owners, comm);
    let mut run = SeriesWriter::at(path)
        .set(set)
        .window_steps(workload.window_steps)
        .chunk_steps(workload.chunk_steps)
        .helper_bytes_min(if write_path == WritePath::Independent { 0 } else { u64::MAX })
        .write_path(write_path)
        .durability(durability)
        .existing(Existing::Resume(Replay::Skip))
        .storage(Arc::new(storage.clone()))
        .open(comm)
        .map_err(|error| error.to_string())?;
    for step in workload.steps.clone() {
        let row = Row::of(0, &workload.sets[0], &ids, step);
        run.append(SetId(0), step, common::time(step), &row.values()).map_err(|error| error.to_string())?;
        if workload.checkpoints.contains(&step) {
            run.checkpoint().map_err(|error| error.to_string())?;
            sealed.fetch_max(step + 1, Ordering::Relaxed);
        }
    }
    run.close().map_err(|error| error.to_string())?;
    sealed.fetch_max(STEPS, Ordering::Relaxed);
    Ok(())
}

/// A medium that has any part of what was not synced.
fn arbitrary(seed: u64) -> impl FnMut() -> bool {
    let mut count = 0;
    move || {
        count += 1;
        common::hash(&[seed, count]) & 1 == 0
    }
}

/// Lets the power fail after so many operations, and looks at what the medium may have. Whether a name was durable by then.
fn fail_after(operations: u64, write_path: WritePath) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let storage = SyncedOnly::new(Arc::new(PosixStorage::new()));
    let sealed = AtomicU64::new(0);
    storage.cut_power_after(operations);
    let path = directory.path().join("run.nc");
    let results = threads::run(RANKS, |comm| run(&path, &comm, &storage, write_path, Durability::PowerLoss, &sealed));
    let sealed = sealed.load(Ordering::Relaxed);
    let what = format!("{write_path:?}, operation {operations}");
    assert!(results.iter().all(Result::is_err) || sealed == STEPS, "{what}: {results:?}");
    let after = tempfile::tempdir().unwrap();
    storage.after_power_loss(&PosixStorage::new(), after.path(), arbitrary(operations)).unwrap();
    let path = after.path().join("run.nc");
    if !path.exists() {
        assert_eq!(sealed, 0, "{what}: the name is gone");
        return false;
    }
    let file = SeriesFile::open(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
    let verification = file.verify(&mut |_| {});
    assert!(verification.is_whole(), "{what}: {verification:?}");
    let rows = file.sets()[0].rows_sealed;
    assert!(rows >= sealed, "{what}: {rows} rows of {sealed}");
    drop(file);
    // The next run goes on with it, on another number of ranks, and the file is that of one run.
    let rest = Workload { existing: Existing::Resume(Replay::Compare), ..workload() };
    common::write(&path, 2, &rest);
    common::check(&path, &workload());
    true
}

fn operations_of(write_path: WritePath, durability: Durability) -> (u64, SyncedOnly, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let storage = SyncedOnly::new(Arc::new(PosixStorage::new()));
    let sealed = AtomicU64::new(0);
    let path = directory.path().join("run.nc");
    for result in threads::run(RANKS, |comm| run(&path, &comm, &storage, write_path, durability, &sealed)) {
        result.unwrap();
    }
    (storage.operations(), storage, directory)
}

#[test]
fn sealed_rows_of_a_run_survive_a_power_failure_after_any_operation() {
    for write_path in [WritePath::Independent, WritePath::TwoPhase] {
        let (whole, ..) = operations_of(write_path, Durability::PowerLoss);
        // A stride without a pattern: neighbours are much alike.
        let tried = (0..whole).filter(|number| number * 7 % 5 < 2);
        let named = tried.filter(|&operations| fail_after(operations, write_path)).count();
        assert!(named > 20, "{write_path:?}: only {named} of {whole} power failures found a file");
    }
}

/// The other level makes no such promise: the harness can tell.
#[test]
fn without_the_setting_a_power_failure_may_take_rows() {
    let (_, storage, _directory) = operations_of(WritePath::Independent, Durability::ProcessCrash);
    let after = tempfile::tempdir().unwrap();
    storage.after_power_loss(&PosixStorage::new(), after.path(), || false).unwrap();
    let path = after.path().join("run.nc");
    let kept = path.exists() && SeriesFile::open(&path).is_ok_and(|file| file.sets()[0].rows_sealed == STEPS);
    assert!(!kept, "nothing was synced");
}
