//! Bad input ends in one clear error on every rank, and never in half a file.

mod common;

use std::path::Path;
use std::sync::Arc;

use afflux_comm::{Communicator, SelfCommunicator, threads};
use afflux_container::{Fault as Damage, Finding, SeriesFile};
use afflux_series::{AppendError, Point, ProbeSet, SeriesWriter, SetId, Values, Variable};
use afflux_storage::{Fault, FaultyStorage, Lasting, Operation, PosixStorage, Storage};
use common::{Workload, check, run_rank};

fn probes(rank: usize) -> ProbeSet {
    let id = i64::try_from(rank).unwrap();
    ProbeSet::new("").points([Point::new(id, 0.0, 0.0, 0.0)]).variable(Variable::f64("u"))
}

/// Opens on three ranks with `change` applied to the set of rank 1; all must refuse, and no file may be there.
fn refused(change: impl Fn(ProbeSet) -> ProbeSet + Sync, needle: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let results = threads::run(3, |comm| {
        let set = if comm.rank() == 1 { change(probes(1)) } else { probes(comm.rank()) };
        SeriesWriter::at(&path).set(set).open(&comm).map(|_| ()).map_err(|error| error.to_string())
    });
    for (rank, result) in results.into_iter().enumerate() {
        let message = result.expect_err("every rank refuses");
        assert!(message.contains(needle), "rank {rank}: {message}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing stays behind");
}

#[test]
fn coordinates_must_be_finite() {
    refused(|set| set.points([Point::new(7, f64::NAN, 0.0, 0.0).named("loose")]), "loose");
}

#[test]
fn a_point_registered_twice_is_named() {
    refused(|set| set.points([Point::new(0, 0.0, 0.0, 0.0)]), "0 (ranks 0 and 1)");
}

#[test]
fn ranks_must_describe_the_same_file() {
    refused(|set| set.variable(Variable::f32("v")), "rank 0 lacks variable VariableSpec { name: \"v\"");
    refused(|set| set.every(2), "every 2 steps");
    refused(|set| set.every(0), "cadence");
}

#[test]
fn names_must_suit_the_file() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["time", "a/b", "", "point"] {
        let path = directory.path().join("run.nc");
        let results = threads::run(2, |comm| {
            let id = i64::try_from(comm.rank()).unwrap();
            let set = ProbeSet::new("").points([Point::new(id, 0.0, 0.0, 0.0)]).variable(Variable::f64(name));
            SeriesWriter::at(&path).set(set).open(&comm).map(|_| ()).map_err(|error| error.to_string())
        });
        assert!(results.iter().all(Result::is_err), "`{name}` is refused");
        assert!(!path.exists());
    }
}

#[test]
fn a_directory_that_is_not_there() {
    let results = threads::run(2, |comm| {
        let writer = SeriesWriter::at("/nonexistent/run.nc").set(probes(comm.rank())).open(&comm);
        writer.map(|_| ()).map_err(|error| error.to_string())
    });
    assert!(results.iter().all(|result| result.as_ref().is_err_and(|message| message.contains("/nonexistent"))));
}

#[test]
fn rows_that_do_not_fit_are_refused_and_the_run_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    threads::run(2, |comm| {
        let mut run = SeriesWriter::at(&path).set(probes(comm.rank())).open(&comm).unwrap();
        let set = run.set("").unwrap();
        assert_eq!(run.set("other"), None);
        let good: &[Values<'_>] = &[(&[1.0]).into()];
        run.append(set, 0, 0.0, good).unwrap();
        let cases: [(SetId, u64, f64, &[Values<'_>]); 8] = [
            (SetId(1), 1, 0.0, good),
            (set, 1, f64::NAN, good),
            (set, 0, 0.0, good),
            (set, 2, 0.0, good),
            (set, 1, 0.0, &[]),
            (set, 1, 0.0, &[(&[1.0_f32]).into()]),
            (set, 1, 0.0, &[(&[1.0, 2.0]).into()]),
            (set, 1, 0.0, &[(&[0.0; 0]).into()]),
        ];
        for (set, step, time, row) in cases {
            let error = run.append(set, step, time, row).unwrap_err();
            assert!(!error.to_string().is_empty() && !matches!(error, AppendError::Flush(_)), "{error}");
        }
        assert!(run.append_patch(set, 1, 1, 0.0, good).is_err());
        run.append(set, 1, 0.0, good).unwrap();
        run.close().unwrap();
    });
    assert_eq!(SeriesFile::open(&path).unwrap().sets()[0].rows_sealed, 2);
}

#[test]
fn a_window_beyond_memory_is_refused_on_every_rank() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    for window_steps in [1 << 40, u64::MAX] {
        let results = threads::run(2, |comm| {
            // Only rank 1 has the points.
            let points = (0..if comm.rank() == 1 { 1_000 } else { 0 }).map(|id| Point::new(id, 0.0, 0.0, 0.0));
            let set = ProbeSet::new("").points(points).variable(Variable::f64("u"));
            let writer = SeriesWriter::at(&path).set(set).window_steps(window_steps).open(&comm);
            writer.map(|_| ()).map_err(|error| error.to_string())
        });
        assert!(
            results.iter().all(|result| result.as_ref().is_err_and(|m| m.contains("smaller window"))),
            "{results:?}"
        );
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn steps_and_cadences_beyond_the_largest_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let mut run = SeriesWriter::at(&path).set(probes(0)).open(&SelfCommunicator::new()).unwrap();
    for step in [u64::MAX, (1 << 62) + 1] {
        assert!(matches!(run.append(SetId(0), step, 0.0, &[(&[1.0]).into()]), Err(AppendError::StepRange { .. })));
    }
    run.append(SetId(0), 1 << 62, 0.0, &[(&[1.0]).into()]).unwrap();
    run.close().unwrap();
    let other = directory.path().join("other.nc");
    let refused = SeriesWriter::at(&other).set(probes(0).every(u64::MAX)).open(&SelfCommunicator::new());
    assert!(refused.is_err_and(|error| error.to_string().contains("cadence")));
}

#[test]
fn ranks_with_other_rows_learn_of_it_together() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let results = threads::run(3, |comm| {
        let mut run = SeriesWriter::at(&path).set(probes(comm.rank())).open(&comm).unwrap();
        for step in 0..if comm.rank() == 2 { 4 } else { 5 } {
            run.append(SetId(0), step, 0.0, &[(&[1.0]).into()]).unwrap();
        }
        run.close().map_err(|error| error.to_string())
    });
    for result in results {
        let message = result.expect_err("all ranks fail");
        assert!(message.contains("rank 2"), "{message}");
    }
    assert_eq!(SeriesFile::open(&path).unwrap().state().watermark, None, "nothing was sealed");
}

/// Runs a small workload on faulty storage; every rank must come to the same verdict, and the file must hold what is sealed.
fn with_fault(path: &Path, fault: Fault) -> bool {
    let faulty = FaultyStorage::new(Arc::new(PosixStorage::new()));
    faulty.inject(fault);
    let storage: Arc<dyn Storage> = Arc::new(faulty);
    let workload = Workload { steps: 0..20, ..Workload::one_set(9) };
    let results = threads::run(3, |comm| {
        let mut builder = SeriesWriter::at(path).window_steps(6).chunk_steps(4).storage(storage.clone());
        let (set, ids) = common::probe_set(&workload.sets[0], workload.owners, &comm);
        builder = builder.set(set);
        let mut run = builder.open(&comm).map_err(|error| error.to_string())?;
        for step in workload.steps.clone() {
            let row = common::Row::of(0, &workload.sets[0], &ids, step);
            run.append(SetId(0), step, step as f64 * 0.25, &row.values()).map_err(|error| error.to_string())?;
        }
        run.close().map_err(|error| error.to_string())
    });
    let failed = results.iter().filter(|result| result.is_err()).count();
    assert!(failed == 0 || failed == results.len(), "one verdict on all ranks: {results:?}");
    failed > 0
}

/// Counts the fault down through a whole run, until a run ends without meeting it; `judge` looks at what is left.
fn countdown(fault: impl Fn(u64) -> Fault, judge: impl Fn(u64, &Path)) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    for k in 1.. {
        let path = directory.path().join("run.nc");
        let failed = with_fault(&path, fault(k));
        if path.exists() {
            judge(k, &path);
            std::fs::remove_file(&path).unwrap();
        }
        if !failed {
            return k - 1;
        }
    }
    unreachable!("a run has an end")
}

/// What is left opens, and all that it shows is sealed and whole.
fn whole(k: u64, path: &Path) {
    let verification = SeriesFile::open(path).unwrap().verify(&mut |_| {});
    assert!(verification.is_whole(), "operation {k} failed: {verification:?}");
}

#[test]
fn the_kth_write_fails_for_every_k() {
    for lasting in [Lasting::Once, Lasting::ForGood] {
        assert!(countdown(|k| Fault::disk_full(Operation::Write, k, lasting), whole) > 10);
    }
}

#[test]
fn the_kth_write_leaves_half_its_bytes_for_every_k() {
    // Half a block of metadata cannot be read; that must be said, and nothing wrong be shown.
    let whole_or_named = |k: u64, path: &Path| match SeriesFile::open(path) {
        Err(error) => assert!(error.is_damage(), "write {k}: {error}"),
        Ok(file) => {
            let verification = file.verify(&mut |_| {});
            let named =
                |finding: &Finding| matches!(finding.fault, Damage::SealSlot { .. } | Damage::Unreadable { .. });
            assert!(verification.findings.iter().all(named), "write {k}: {verification:?}");
        }
    };
    for lasting in [Lasting::Once, Lasting::ForGood] {
        assert!(countdown(|k| Fault::disk_full(Operation::Write, k, lasting).torn(), whole_or_named) > 10);
    }
}

#[test]
fn the_kth_other_operation_fails_for_every_k() {
    for operation in [Operation::Open, Operation::SetLen, Operation::Rename] {
        assert!(countdown(|k| Fault::medium(operation, k, Lasting::ForGood), whole) > 0, "{operation:?}");
    }
}

#[test]
fn the_same_run_without_a_fault_is_right() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let workload = Workload { steps: 0..20, window_steps: 6, chunk_steps: 4, ..Workload::one_set(9) };
    threads::run(3, |comm| run_rank(&path, &workload, &comm).unwrap());
    check(&path, &workload);
}
