//! Flushes in the background: the same file, no waiting while a window is free, nothing lost.

mod common;
#[path = "common/gate.rs"]
mod gate;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use afflux_collective::Path as WritePath;
use afflux_comm::{Communicator, SelfCommunicator, threads};
use afflux_container::{ElementType, SeriesFile};
use afflux_series::state::WriterState;
use afflux_series::{
    AppendError, FlushError, Point, ProbeSet, SeriesBuilder, SeriesWriter, SetId, Statistics, Variable,
};
use afflux_storage::{Fault, FaultyStorage, FileSystemKind, Lasting, Operation, PosixStorage};
use common::{Owners, Row, Shape, Workload, check};
use gate::GatedStorage;

/// Writes the workload with what `change` asks for; helpers write windows of any size.
fn write(
    path: &Path,
    ranks: usize,
    workload: &Workload,
    change: impl Fn(SeriesBuilder) -> SeriesBuilder + Sync,
) -> Vec<Statistics> {
    threads::run(ranks, |comm| {
        let mut builder = SeriesWriter::at(path)
            .window_steps(workload.window_steps)
            .chunk_steps(workload.chunk_steps)
            .chunk_bytes(workload.chunk_bytes)
            .helper_bytes_min(0);
        if let Some(path) = workload.path {
            builder = builder.write_path(path);
        }
        let mut ids = Vec::new();
        for shape in &workload.sets {
            let (set, local) = common::probe_set(shape, workload.owners, &comm);
            builder = builder.set(set);
            ids.push(local);
        }
        let mut run = change(builder).open(&comm).unwrap();
        for step in workload.steps.clone() {
            for (set, shape) in workload.sets.iter().enumerate() {
                if run.is_due(SetId(set), step) {
                    let row = Row::of(set, shape, &ids[set], step);
                    run.append(SetId(set), step, common::time(step), &row.values()).unwrap();
                }
            }
            if workload.checkpoints.contains(&step) {
                run.checkpoint().unwrap();
                assert_eq!(run.watermark(), Some(step));
            }
        }
        run.close().unwrap()
    })
}

fn two_sets(points: u64) -> Vec<Shape> {
    let variables = vec![("Ex", ElementType::F64, None), ("J", ElementType::F32, Some(3))];
    let fields = Shape { name: String::new(), points, variables, cadence: 1 };
    let other = vec![("n", ElementType::I64, None)];
    vec![fields, Shape { name: "slow".to_owned(), points: 5, variables: other, cadence: 3 }]
}

#[test]
fn the_file_is_the_same_with_and_without() {
    let directory = tempfile::tempdir().unwrap();
    for path in [WritePath::Independent, WritePath::TwoPhase] {
        for window_steps in [1, 7, 10, 50] {
            let checkpoints = vec![4, 5, 22];
            let owners = Owners::Scattered;
            let base = Workload { window_steps, owners, path: Some(path), checkpoints, ..Workload::of(two_sets(17)) };
            let mut files = Vec::new();
            for (ranks, in_background) in [(1, false), (1, true), (2, true), (3, true), (4, false), (7, true)] {
                let file = directory.path().join("run.nc");
                write(&file, ranks, &base, |builder| builder.background(in_background));
                check(&file, &base);
                files.push(std::fs::read(&file).unwrap());
                std::fs::remove_file(&file).unwrap();
            }
            assert!(files.iter().all(|file| *file == files[0]), "{path:?}, window {window_steps}");
        }
    }
}

fn probes(comm: &dyn Communicator) -> ProbeSet {
    let id = i64::try_from(comm.rank()).unwrap();
    ProbeSet::new("").points([Point::new(id, 0.0, 0.0, 0.0)]).variable(Variable::f64("u"))
}

/// "Rows are appended while a window is on its way to the file; only when both are full is there anything to wait for."
#[test]
fn append_goes_on_while_a_window_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let storage = GatedStorage::default();
    let comm = SelfCommunicator::new();
    let mut run = SeriesWriter::at(&path)
        .set(probes(&comm))
        .window_steps(10)
        .chunk_steps(4)
        .helper_bytes_min(0)
        .storage(Arc::new(storage.clone()))
        .open(&comm)
        .unwrap();
    let row = |step: u64| [step as f64];
    for step in 0..10 {
        run.append(SetId(0), step, 0.0, &[(&row(step)).into()]).unwrap();
    }
    assert_eq!(run.state(), WriterState::Open);
    storage.gate.close();
    // The second window is filled to its last row while nothing of the first can reach the file.
    for step in 10..20 {
        run.append(SetId(0), step, 0.0, &[(&row(step)).into()]).unwrap();
        assert_eq!(run.state(), WriterState::Flushing);
        assert_eq!(run.watermark(), None);
    }
    let sealed = |path: &Path| SeriesFile::open(path).unwrap().state().watermark;
    assert_eq!(sealed(&path), None, "nothing was written");
    let gate = storage.gate.clone();
    let opener = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        gate.open();
    });
    // Both windows are full: this append waits until the gate opens.
    run.append(SetId(0), 20, 0.0, &[(&row(20)).into()]).unwrap();
    assert!(opener.join().is_ok());
    // The first window has made room; the second one may have reached the open gate's other side as well by now.
    assert!([Some(9), Some(19)].contains(&run.watermark()), "{:?}", run.watermark());
    run.checkpoint().unwrap();
    assert_eq!((run.watermark(), sealed(&path), run.state()), (Some(20), Some(20), WriterState::Open));
    run.close().unwrap();
    assert_eq!(
        SeriesFile::open(&path).unwrap().series(0, 0, 0, 0, 0..21).unwrap(),
        (0..21).map(|k| k as f64).collect::<Vec<_>>()
    );
}

/// A window becomes visible soon after it was written, not when the next one is full.
#[test]
fn a_window_is_sealed_while_the_next_is_filled() {
    let directory = tempfile::tempdir().unwrap();
    for helper_bytes_min in [0, u64::MAX] {
        let path = directory.path().join(format!("{helper_bytes_min}.nc"));
        threads::run(3, |comm| {
            let mut run = SeriesWriter::at(&path)
                .set(probes(&comm))
                .window_steps(10)
                .helper_bytes_min(helper_bytes_min)
                .open(&comm)
                .unwrap();
            for step in 0..11 {
                run.append(SetId(0), step, 0.0, &[(&[0.0]).into()]).unwrap();
            }
            // The simulation computes; now and then it lets the flush go on.
            for attempt in 0.. {
                run.progress();
                if SeriesFile::open(&path).unwrap().state().watermark == Some(9) {
                    break;
                }
                assert!(attempt < 2_000, "the first window is never sealed");
                std::thread::sleep(Duration::from_millis(1));
            }
            comm.barrier().unwrap();
            run.close().unwrap();
        });
    }
}

/// What a helper meets is one verdict on all ranks, in one call, and names the file, the operation and the rank.
#[test]
fn a_failure_of_a_helper_is_told_in_the_next_collective_call_on_every_rank() {
    let directory = tempfile::tempdir().unwrap();
    for ends in ["append", "checkpoint", "close"] {
        let path = directory.path().join(format!("{ends}.nc"));
        let results = threads::run(3, |comm| {
            // The disk of rank 1 is full.
            let storage = FaultyStorage::new(Arc::new(PosixStorage::new()));
            let mut run = SeriesWriter::at(&path)
                .set(probes(&comm))
                .window_steps(10)
                .helper_bytes_min(0)
                .storage(Arc::new(storage.clone()))
                .open(&comm)
                .unwrap();
            if comm.rank() == 1 {
                storage.inject(Fault::disk_full(Operation::Write, 1, Lasting::ForGood));
            }
            let append = |run: &mut SeriesWriter, step| run.append(SetId(0), step, 0.0, &[(&[0.0]).into()]);
            for step in 0..15 {
                append(&mut run, step).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            let error = match ends {
                "append" => (15..20).find_map(|step| append(&mut run, step).err()).map_or_else(
                    || match append(&mut run, 20) {
                        Err(AppendError::Flush(error)) => error,
                        other => panic!("{other:?}"),
                    },
                    |early| panic!("not before both windows are full: {early}"),
                ),
                "checkpoint" => run.checkpoint().unwrap_err(),
                _ => return run.close().unwrap_err().to_string(),
            };
            let FlushError::Write { source, .. } = &error else { panic!("{error:?}") };
            assert_eq!(source.io_kind(), Some(std::io::ErrorKind::StorageFull));
            assert_eq!(run.state(), WriterState::Failed);
            let refused = run.checkpoint().unwrap_err().to_string();
            assert!(refused.contains(&error.to_string()), "{refused}");
            assert_eq!(run.close().unwrap_err().to_string(), refused, "close names the first cause too");
            error.to_string()
        });
        for message in &results {
            assert_eq!(message, &results[0], "{ends}");
            let named = [&*path.display().to_string(), "rank 1", "write of"];
            assert!(named.iter().all(|part| message.contains(part)), "{ends}: {message}");
        }
        assert_eq!(SeriesFile::open(&path).unwrap().state().watermark, None, "nothing was sealed");
    }
}

/// A seal that fails after all ranks have written: rank 0 alone knows, and the next flush tells.
#[test]
fn a_seal_that_fails_behind_the_verdict_is_told_by_the_next_flush() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let results = threads::run(3, |comm| {
        let storage = FaultyStorage::new(Arc::new(PosixStorage::new()));
        let mut run = SeriesWriter::at(&path)
            .set(probes(&comm))
            .window_steps(10)
            .helper_bytes_min(0)
            .storage(Arc::new(storage.clone()))
            .open(&comm)
            .unwrap();
        if comm.rank() == 0 {
            // The first write of rank 0 is samples; the seal follows.
            storage.inject(Fault::disk_full(Operation::Write, 4, Lasting::ForGood));
        }
        let failed_at =
            (0..100).find_map(|step| run.append(SetId(0), step, 0.0, &[(&[0.0]).into()]).err().map(|e| (step, e)));
        let (step, error) = failed_at.unwrap();
        (step, error.to_string())
    });
    assert!(results.iter().all(|(step, _)| *step == results[0].0), "the same call on all ranks: {results:?}");
    assert!(results[0].0 <= 30, "two windows later at most: {results:?}");
    assert!(results.iter().all(|(_, message)| message.contains("No space left")), "{results:?}");
}

/// A writer that is dropped waits for its helper: nothing is written on behalf of one that is gone.
#[test]
fn a_dropped_writer_leaves_no_writes_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let storage = GatedStorage::default();
    let comm = SelfCommunicator::new();
    let mut run = SeriesWriter::at(&path)
        .set(probes(&comm))
        .window_steps(10)
        .helper_bytes_min(0)
        .storage(Arc::new(storage.clone()))
        .open(&comm)
        .unwrap();
    for step in 0..10 {
        run.append(SetId(0), step, 0.0, &[(&[1.0]).into()]).unwrap();
    }
    storage.gate.close();
    run.append(SetId(0), 10, 0.0, &[(&[1.0]).into()]).unwrap();
    let gate = storage.gate.clone();
    let opener = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        gate.open();
    });
    drop(run);
    let after_drop = std::fs::read(&path).unwrap();
    opener.join().unwrap();
    std::thread::sleep(Duration::from_millis(30));
    assert!(std::fs::read(&path).unwrap() == after_drop);
    assert_eq!(SeriesFile::open(&path).unwrap().state().watermark, None);
}

#[test]
fn a_file_system_whose_clients_cache_is_warned_of_on_every_rank() {
    let directory = tempfile::tempdir().unwrap();
    for (kind, says) in [
        (FileSystemKind::Nfs, Some("lies on NFS")),
        (FileSystemKind::Cached, Some("clients cache")),
        (FileSystemKind::Local, None),
        (FileSystemKind::Unknown, None),
    ] {
        let storage = GatedStorage { kind, ..GatedStorage::default() };
        let workload = Workload { storage: Some(Arc::new(storage)), ..Workload::one_set(4) };
        let path = directory.path().join(format!("{kind:?}.nc"));
        let warnings = threads::run(2, |comm| common::open(&path, &workload, &comm).unwrap().0.warnings().to_vec());
        for warnings in warnings {
            assert_eq!(warnings.len(), usize::from(says.is_some()), "{warnings:?}");
            assert!(says.is_none_or(|says| warnings[0].contains(says)), "{warnings:?}");
        }
    }
}
