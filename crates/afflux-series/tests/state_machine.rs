//! The table of `state.rs`, row by row, on a writer at work.

mod common;

use std::path::Path;
use std::sync::Arc;

use afflux_comm::{Communicator, threads};
use afflux_container::SeriesFile;
use afflux_series::state::{RowState, WriterState};
use afflux_series::{Appended, Existing, Point, ProbeSet, Replay, SeriesBuilder, SeriesWriter, SetId, Variable};
use afflux_storage::{Fault, FaultyStorage, Lasting, Operation, PosixStorage};

fn builder(path: &Path, rank: usize, existing: Existing) -> SeriesBuilder {
    let point = Point::new(i64::try_from(rank).unwrap(), 0.0, 0.0, 0.0);
    let set = ProbeSet::new("").points([point]).variable(Variable::f64("u"));
    SeriesWriter::at(path).set(set).existing(existing).window_steps(4).chunk_steps(3)
}

fn append(run: &mut SeriesWriter, step: u64) -> Appended {
    run.append(SetId(0), step, step as f64, &[(&[step as f64]).into()]).unwrap()
}

fn fill(run: &mut SeriesWriter, steps: std::ops::Range<u64>) {
    for step in steps {
        append(run, step);
    }
}

fn watermark(path: &Path) -> Option<u64> {
    SeriesFile::open(path).unwrap().state().watermark
}

/// On two ranks, with a file that is sealed up to step 9 where `resumed`.
fn on_two_ranks(existing: Existing, body: impl Fn(&dyn Communicator, &Path, SeriesWriter) + Sync) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    if existing != Existing::Refuse {
        threads::run(2, |comm| {
            let mut run = builder(&path, comm.rank(), Existing::Refuse).open(&comm).unwrap();
            fill(&mut run, 0..10);
            run.close().unwrap();
        });
    }
    threads::run(2, |comm| body(&comm, &path, builder(&path, comm.rank(), existing).open(&comm).unwrap()));
}

#[test]
fn filling() {
    on_two_ranks(Existing::Refuse, |comm, path, mut run| {
        assert_eq!((run.state(), run.row_state()), (WriterState::Open, RowState::Filling));
        for step in 0..4 {
            assert_eq!(append(&mut run, step), Appended::Kept);
        }
        assert_eq!((run.state(), run.watermark()), (WriterState::Open, None), "nothing is due yet");
        // Window full: flushed; with the next flush every rank knows that it is sealed.
        fill(&mut run, 4..9);
        assert_eq!(run.watermark(), Some(3));
        run.rebalance(SetId(0), [Point::new(i64::try_from(1 - comm.rank()).unwrap(), 0.0, 0.0, 0.0)]).unwrap();
        assert_eq!((run.state(), run.watermark()), (WriterState::Open, Some(8)));
        append(&mut run, 9);
        run.checkpoint().unwrap();
        assert_eq!((run.state(), run.watermark()), (WriterState::Open, Some(9)));
        comm.barrier().unwrap();
        assert_eq!(watermark(path), Some(9));
        assert_eq!(run.close().unwrap().watermark, Some(9));
    });
}

#[test]
fn replaying() {
    for replay in [Replay::Skip, Replay::Compare, Replay::Rewrite] {
        on_two_ranks(Existing::Resume(replay), |comm, path, mut run| {
            let replaying = RowState::Replaying { watermark: 9 };
            assert_eq!((run.state(), run.row_state(), run.watermark()), (WriterState::Open, replaying, Some(9)));
            // More rows than a window has: none is flushed before the watermark is passed.
            for step in 0..6 {
                assert_eq!(append(&mut run, step), Appended::Replayed);
                assert_eq!((run.state(), run.row_state()), (WriterState::Open, replaying));
            }
            let mine = |rank: usize| [Point::new(i64::try_from(rank).unwrap(), 0.0, 0.0, 0.0)];
            run.rebalance(SetId(0), mine(1 - comm.rank())).unwrap();
            append(&mut run, 6);
            run.checkpoint().unwrap();
            assert_eq!((run.row_state(), run.watermark()), (replaying, Some(9)), "the watermark stays");
            (7..10).for_each(|step| assert_eq!(append(&mut run, step), Appended::Replayed));
            assert_eq!(append(&mut run, 10), Appended::Kept);
            assert_eq!(run.row_state(), RowState::Filling);
            let statistics = run.close().unwrap();
            assert_eq!((statistics.rows, statistics.replayed_rows, statistics.watermark), (1, 10, Some(10)));
            assert_eq!(watermark(path), Some(10));
        });
        // Closed while it replays: the file is as it was.
        on_two_ranks(Existing::Resume(replay), |comm, path, mut run| {
            append(&mut run, 0);
            assert_eq!(run.close().unwrap().watermark, Some(9));
            comm.barrier().unwrap();
            let file = SeriesFile::open(path).unwrap();
            assert!(file.verify(&mut |_| {}).is_whole() && file.sets()[0].rows_sealed == 10);
        });
    }
}

/// (That appends go on into the second window while the first is written: `background.rs`.)
#[test]
fn flushing() {
    on_two_ranks(Existing::Refuse, |comm, _, mut run| {
        fill(&mut run, 0..4);
        // The append that begins a flush, and those behind it, are taken whether it is over or not.
        for step in 4..8 {
            assert_eq!(append(&mut run, step), Appended::Kept);
            assert!([WriterState::Open, WriterState::Flushing].contains(&run.state()));
        }
        // Both windows are full: the next one waits. So do rebalance, checkpoint and close.
        append(&mut run, 8);
        run.rebalance(SetId(0), [Point::new(i64::try_from(comm.rank()).unwrap(), 0.0, 0.0, 0.0)]).unwrap();
        assert_eq!((run.state(), run.watermark()), (WriterState::Open, Some(8)));
        fill(&mut run, 9..13);
        run.checkpoint().unwrap();
        assert_eq!((run.state(), run.watermark()), (WriterState::Open, Some(12)));
        fill(&mut run, 13..17);
        assert_eq!(run.close().unwrap().watermark, Some(16));
    });
}

#[test]
fn rebalancing() {
    on_two_ranks(Existing::Refuse, |comm, _, mut run| {
        append(&mut run, 0);
        let nothing: [Point; 0] = [];
        assert!(!run.rebalance(SetId(0), nothing).unwrap_err().is_final());
        assert_eq!(run.state(), WriterState::Open, "a refused map leaves the writer as it was");
        run.rebalance(SetId(0), [Point::new(i64::try_from(1 - comm.rank()).unwrap(), 0.0, 0.0, 0.0)]).unwrap();
        assert_eq!(run.state(), WriterState::Open);
        run.close().unwrap();
    });
}

#[test]
fn failed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let faulty = Arc::new(FaultyStorage::new(Arc::new(PosixStorage::new())));
    threads::run(2, |comm| {
        let mut run = builder(&path, comm.rank(), Existing::Refuse).storage(faulty.clone()).open(&comm).unwrap();
        append(&mut run, 0);
        run.checkpoint().unwrap();
        append(&mut run, 1);
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            faulty.inject(Fault::disk_full(Operation::Write, 1, Lasting::ForGood));
        }
        comm.barrier().unwrap();
        let cause = run.checkpoint().unwrap_err().to_string();
        assert!(cause.contains("No space left"), "{cause}");
        assert_eq!(run.state(), WriterState::Failed);
        let named =
            |error: String| assert!(error.contains("failed earlier") && error.contains("No space left"), "{error}");
        named(run.append(SetId(0), 2, 2.0, &[(&[2.0]).into()]).unwrap_err().to_string());
        named(run.rebalance(SetId(0), [Point::new(0, 0.0, 0.0, 0.0)]).unwrap_err().to_string());
        named(run.checkpoint().unwrap_err().to_string());
        named(run.close().unwrap_err().to_string());
    });
    assert_eq!(watermark(&path), Some(0), "what was sealed stays, and nothing else is");
}
