//! Checkpoints and flushes by the clock: one watermark for all sets, and ranks that agree without a message a step.

mod common;

use std::path::Path;
use std::time::Duration;

use afflux_comm::{Communicator, CountingCommunicator, threads};
use afflux_container::{ElementType, SeriesFile};
use afflux_series::{Point, ProbeSet, SeriesWriter, SetId, Variable};
use common::{Row, Shape, Workload, check, probe_set};

fn shape(name: &str, cadence: u64) -> Shape {
    Shape { name: name.to_owned(), points: 5, variables: vec![("u", ElementType::F64, None)], cadence }
}

fn sealed(path: &Path) -> Option<u64> {
    SeriesFile::open(path).unwrap().state().watermark
}

/// "`checkpoint()` raises it to the last step appended, even where no row is due."
#[test]
fn a_checkpoint_raises_one_watermark_for_all_cadences() {
    let directory = tempfile::tempdir().unwrap();
    for background in [true, false] {
        let path = directory.path().join(format!("{background}.nc"));
        let sets = vec![shape("", 7), shape("often", 3), shape("seldom", 100)];
        let workload = Workload { steps: 0..60, ..Workload::of(sets) };
        threads::run(3, |comm| {
            let mut builder =
                SeriesWriter::at(&path).window_steps(25).chunk_steps(4).background(background).helper_bytes_min(0);
            let mut ids = Vec::new();
            for shape in &workload.sets {
                let (set, local) = probe_set(shape, workload.owners, &comm);
                builder = builder.set(set);
                ids.push(local);
            }
            let mut run = builder.open(&comm).unwrap();
            for step in workload.steps.clone() {
                for (set, shape) in workload.sets.iter().enumerate() {
                    let row = Row::of(set, shape, &ids[set], step);
                    run.append(SetId(set), step, common::time(step), &row.values()).unwrap();
                }
                // No set has a row at 10 or 11; at 12 and 50 one has, at 56 another; twice at one step changes nothing.
                if [10, 11, 12, 50, 56].contains(&step) {
                    for _ in 0..2 {
                        run.checkpoint().unwrap();
                        assert_eq!((run.watermark(), sealed(&path)), (Some(step), Some(step)));
                    }
                }
            }
            run.close().unwrap();
        });
        assert_eq!(sealed(&path), Some(59));
        check(&path, &workload);
    }
}

/// A checkpoint without a new row writes its seal and nothing else.
#[test]
fn a_checkpoint_without_rows_writes_no_samples() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let statistics = threads::run(2, |comm| {
        let id = i64::try_from(comm.rank()).unwrap();
        let set = ProbeSet::new("").points([Point::new(id, 0.0, 0.0, 0.0)]).variable(Variable::f64("u")).every(100);
        let mut run = SeriesWriter::at(&path).set(set).open(&comm).unwrap();
        for step in 0..90 {
            run.append(SetId(0), step, 0.0, &[(&[1.0]).into()]).unwrap();
            run.checkpoint().unwrap();
        }
        run.close().unwrap()
    });
    assert_eq!(sealed(&path), Some(89));
    // Two ranks write one row once: the pieces of one column.
    assert!(statistics[0].data_writes <= 3, "{} writes of samples", statistics[0].data_writes);
}

/// Seconds between flushes: rank 0's clock decides, every rank comes to the same steps, and no step costs a message.
#[test]
fn the_clock_of_rank_0_sets_the_windows_of_all() {
    let directory = tempfile::tempdir().unwrap();
    for background in [true, false] {
        let path = directory.path().join(format!("{background}.nc"));
        let workload = Workload { steps: 0..300, ..Workload::one_set(5) };
        let counted = threads::run(3, |comm| {
            let comm = CountingCommunicator::new(comm);
            let (set, ids) = probe_set(&workload.sets[0], workload.owners, &comm);
            let mut run = SeriesWriter::at(&path)
                .set(set)
                .window_steps(64)
                .flush_seconds(0.02)
                .background(background)
                .helper_bytes_min(0)
                .open(&comm)
                .unwrap();
            let before = comm.counts().collective_calls();
            for step in workload.steps.clone() {
                let row = Row::of(0, &workload.sets[0], &ids, step);
                run.append(SetId(0), step, common::time(step), &row.values()).unwrap();
                if comm.rank() == 0 {
                    std::thread::sleep(Duration::from_micros(300));
                }
            }
            let calls = comm.counts().collective_calls() - before;
            (run.close().unwrap().flushes, calls)
        });
        check(&path, &workload);
        let (flushes, calls) = counted[0];
        assert!(counted.iter().all(|(other, _)| *other == flushes));
        // 300 steps of 0.3 ms or more: 5 windows of 64 steps or more, and not one a step.
        assert!((6..150).contains(&flushes), "{flushes} flushes");
        assert!(calls <= 2 * flushes + 1, "{calls} collective calls in {flushes} flushes");
    }
}
