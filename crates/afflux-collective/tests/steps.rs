//! The exchange in steps: how many aggregators receive at a time is bounded, and what a step costs.

mod common;

use std::cell::Cell;
use std::path::Path as FilePath;
use std::rc::Rc;

use afflux_collective::{CollectiveFile, Hints, Part, Path, ReadOptions, WriteOptions};
use afflux_comm::{CommError, CommOperation, Communicator, Intercepted, InterceptedCommunicator, Interceptor, threads};
use afflux_storage::{MemoryStorage, OpenMode, Storage};
use common::{dealt, end, expected, payload};

const RANKS: usize = 7;

/// What the exchanges of a rank were like.
#[derive(Debug, Clone, Default)]
struct Watch {
    /// The most messages that the rank sent in one.
    sends_most: Rc<Cell<u64>>,
    exchanges: Rc<Cell<u64>>,
}

impl Interceptor for Watch {
    fn before(&self, call: &Intercepted, _rank: usize) -> Result<(), CommError> {
        if call.operation == CommOperation::Exchange {
            self.exchanges.set(self.exchanges.get() + 1);
            self.sends_most.set(self.sends_most.get().max(call.sends));
        }
        Ok(())
    }
}

/// Writes and reads rows that every aggregator has a part of in each round, all ranks on nodes of their own: for each rank the most
/// messages in an exchange of the write, the exchanges in it, its rounds and the peak of its message buffer.
fn run(step: Option<&str>) -> Vec<(u64, u64, u64, u64)> {
    let workload = dealt("rows", RANKS, (0..4000).map(|k| (0, 16, usize::try_from(k).unwrap())));
    let mut pairs = vec![("cb_nodes", "6"), ("cb_buffer_size", "4096"), ("afflux_cb_depth", "2")];
    pairs.extend(step.map(|step| ("afflux_step_aggregators", step)));
    let hints = Hints::from_pairs(pairs).unwrap();
    let storage = MemoryStorage::new();
    storage.open(FilePath::new("f"), OpenMode::CreateNew).unwrap();
    let node_of_rank: Vec<u32> = (0..).take(RANKS).collect();
    let seen = threads::run_on_nodes(&node_of_rank, |comm| {
        let watch = Watch::default();
        let watched = InterceptedCommunicator::with(comm.duplicate().unwrap(), watch.clone());
        let file = storage.open(FilePath::new("f"), OpenMode::ReadWrite).unwrap();
        let shared = CollectiveFile::new(&watched, file, hints.clone()).unwrap();
        let own = &workload.ranks[comm.rank()];
        let options = WriteOptions { path: Path::TwoPhase, ..WriteOptions::default() };
        let report = shared.write_all(own, &[&payload(own)], &options, Part::none()).unwrap();
        let written =
            (watch.sends_most.get(), watch.exchanges.get(), report.work.rounds, report.work.message_buffer_bytes_peak);
        let mut back = vec![0; usize::try_from(own.bytes()).unwrap()];
        shared.read_all(own, &mut [&mut back], &ReadOptions { path: Path::TwoPhase }, Part::none()).unwrap();
        assert_eq!(back, payload(own));
        written
    });
    let found = storage.contents(FilePath::new("f")).unwrap();
    assert_eq!(found, expected(&workload, usize::try_from(end(&workload)).unwrap()));
    seen
}

#[test]
fn no_more_aggregators_receive_at_a_time_than_asked() {
    for (step, steps_a_round) in [("1", 6), ("2", 3), ("4", 2), ("6", 1), ("100", 1)] {
        for (sends_most, exchanges, rounds, _) in run(Some(step)) {
            assert!(sends_most <= step.parse().unwrap(), "{sends_most} messages in a step of {step}");
            assert_eq!(exchanges, rounds * steps_a_round);
            assert!(rounds > 1, "the access takes several rounds");
        }
    }
}

/// A canary: without the hint a rank sends to all of them at once.
#[test]
fn without_the_hint_all_receive_at_once() {
    for (sends_most, exchanges, rounds, _) in run(None) {
        assert!((5..=6).contains(&sends_most), "{sends_most} messages");
        assert_eq!(exchanges, rounds);
    }
}

/// Messages wait in a buffer no longer than a window: an aggregator receives its own round and no more, in steps or not.
#[test]
fn messages_of_a_round_fit_a_window() {
    for step in [None, Some("1"), Some("3")] {
        for (_, _, _, message_bytes) in run(step) {
            assert!(message_bytes <= 4096 / 2, "{message_bytes} bytes of messages at a time");
        }
    }
}
