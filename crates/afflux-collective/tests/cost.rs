//! What an access costs: synchronising calls, messages, file calls and work, counted rather than timed.

mod common;

use std::path::Path as FilePath;
use std::sync::Arc;

use afflux_collective::{CollectiveFile, Hints, Holes, Part, Path, ReadOptions, Work, WriteOptions};
use afflux_comm::{Communicator, CountingCommunicator, threads};
use afflux_plan::{Extents, Run};
use afflux_storage::{CountingStorage, Counts, MemoryStorage, OpenMode, Storage};
use common::{Workload, dealt, payload};

/// One rank's collective calls by name, and its work.
type RankCost = (Vec<(&'static str, u64)>, Work);
/// Writes the workload twice, ranks on the nodes named: each rank's collective calls and work in the second write (in which
/// nothing is set up any more), and the file calls of all in it.
fn run_on(
    nodes: &[u32],
    workload: &Workload,
    options: WriteOptions,
    hints: &[(&str, &str)],
) -> (Vec<RankCost>, Counts) {
    let storage = CountingStorage::new(Arc::new(MemoryStorage::new()));
    storage.open(FilePath::new("f"), OpenMode::CreateNew).unwrap();
    let hints = Hints::from_pairs(hints.iter().copied()).unwrap();
    let reports = threads::run_on_nodes(nodes, |comm| {
        let own = &workload.ranks[comm.rank()];
        let counted = CountingCommunicator::new(comm.duplicate().unwrap());
        let file = storage.open(FilePath::new("f"), OpenMode::ReadWrite).unwrap();
        let shared = CollectiveFile::new(&counted, file, hints.clone()).unwrap();
        shared.write_all(own, &[&payload(own)], &options, Part::none()).unwrap();
        comm.barrier().unwrap();
        if comm.rank() == 0 {
            storage.reset();
        }
        comm.barrier().unwrap();
        counted.interceptor().reset();
        let report = shared.write_all(own, &[&payload(own)], &options, Part::none()).unwrap();
        let mut calls: Vec<_> = counted.counts().operations.iter().map(|(call, &count)| (call.name(), count)).collect();
        calls.sort_unstable();
        (calls, report.work)
    });
    (reports, storage.total())
}

fn run(workload: &Workload, options: WriteOptions, hints: &[(&str, &str)]) -> (Vec<RankCost>, Counts) {
    run_on(&vec![0; workload.ranks.len()], workload, options, hints)
}

fn with(path: Path) -> WriteOptions {
    WriteOptions { path, ..WriteOptions::default() }
}

#[test]
fn an_independent_write_costs_one_reduction() {
    let workload = dealt("rows", 4, (0..40).map(|k| (0, 400, usize::try_from(k).unwrap())));
    let (reports, counts) = run(&workload, with(Path::Independent), &[]);
    for (calls, _) in &reports {
        assert_eq!(calls, &[("all_reduce", 1)]);
    }
    assert_eq!(counts.writes, 40);
}

/// Sum of a figure over all ranks.
fn sum(reports: &[RankCost], of: impl Fn(&Work) -> u64) -> u64 {
    reports.iter().map(|(_, work)| of(work)).sum()
}

/// Everyone gathers what everyone accesses, places it where it is written from, and agrees.
#[test]
fn a_two_phase_write_on_one_node_costs_two_calls_one_copy_and_no_message() {
    let workload = dealt("rows", 4, (0..4000).map(|k| (0, 100, usize::try_from(k).unwrap())));
    let (reports, counts) = run(&workload, with(Path::TwoPhase), &[]);
    for (calls, work) in &reports {
        assert_eq!(calls, &[("all_gather", 1), ("all_reduce", 1)]);
        assert!(work.description_bytes <= 16, "a regular access travels as a few bytes: {}", work.description_bytes);
        assert_eq!(work.messages, 0, "what stays on a node does not travel");
    }
    assert_eq!(sum(&reports, |work| work.copied_bytes), 400_000, "each byte is copied once, then written");
    assert!(sum(&reports, |work| work.description_bytes) * 1000 < 400_000, "one byte of description for 1,000 of data");
    assert_eq!((counts.writes, counts.write_bytes, counts.reads), (2, 400_000, 0), "two windows of 256 KiB");
}

/// Between nodes there is one message a pair of rank and aggregator, and one more copy of what travels.
#[test]
fn a_two_phase_write_on_two_nodes_sends_each_byte_once_at_most() {
    let workload = dealt("rows", 4, (0..4000).map(|k| (0, 100, usize::try_from(k).unwrap())));
    let (reports, counts) = run_on(&[0, 0, 1, 1], &workload, with(Path::TwoPhase), &[]);
    for (calls, work) in &reports {
        assert_eq!(calls, &[("all_gather", 1), ("all_reduce", 1), ("exchange", 1)]);
        assert_eq!(work.messages, 1, "one aggregator a node: one of them is away");
    }
    let sent = sum(&reports, |work| work.message_bytes);
    assert!(sent.abs_diff(200_000) < 4096, "half of the bytes, up to a page, are another node's: {sent}");
    assert_eq!(sum(&reports, |work| work.copied_bytes), 400_000);
    assert_eq!((counts.writes, counts.write_bytes, counts.reads), (2, 400_000, 0));
}

/// Irregular accesses are described to the aggregators alone: one more collective call.
#[test]
fn long_descriptions_go_to_those_whom_they_concern() {
    let workload = dealt("irregular", 4, (0..4000).map(|k| (0, 50 + k * 7 % 13, usize::try_from(k).unwrap())));
    let (reports, counts) = run(&workload, with(Path::TwoPhase), &[]);
    for (calls, work) in &reports {
        assert_eq!(calls, &[("all_gather", 1), ("all_reduce", 1), ("sparse_exchange", 1)]);
        assert_eq!(work.messages, 0);
    }
    assert_eq!(counts.writes, 4);
}

/// CASES E2: one block a rank makes no needless exchange.
#[test]
fn e2_one_block_a_rank_exchanges_nothing() {
    let workload = dealt("blocks", 4, (0..4).map(|k| (0, 100_000, usize::try_from(k).unwrap())));
    let (reports, counts) = run(&workload, with(Path::Auto), &[]);
    for (calls, work) in &reports {
        assert_eq!(calls, &[("all_gather", 1), ("all_reduce", 1)]);
        assert_eq!((work.messages, work.copied_bytes), (0, 0));
    }
    assert_eq!(counts.writes, 4);
}

#[test]
fn touching_pieces_are_written_in_one_call_and_holes_never() {
    let workload = dealt("holes", 2, (0..100).map(|k| (u64::from(k % 10 == 0) * 7, 50, usize::try_from(k).unwrap())));
    let (_, counts) = run(&workload, with(Path::TwoPhase), &[("cb_nodes", "1")]);
    assert_eq!((counts.writes, counts.write_bytes, counts.reads), (10, 5000, 0));
    let fill = WriteOptions { path: Path::TwoPhase, holes: Holes::Fill { gap_bytes_max: 7 } };
    let (_, counts) = run(&workload, fill, &[("cb_nodes", "1")]);
    assert_eq!((counts.writes, counts.write_bytes, counts.reads.min(1)), (1, 5000 + 9 * 7, 1));
}

/// CASES E13.
#[test]
fn e13_work_is_linear_in_the_pieces() {
    for pieces in [2_000_u64, 180_000] {
        let ranks = 4;
        let lengths = (0..pieces * ranks).map(|k| (0, 1 + k * 7 % 13, usize::try_from(k % ranks).unwrap()));
        let workload = dealt("many", 4, lengths);
        let bytes: u64 = workload.ranks.iter().map(Extents::bytes).sum();
        let (reports, counts) = run(&workload, with(Path::Auto), &[]);
        let merged = sum(&reports, |work| work.merge_steps);
        assert!(merged <= 2 * pieces * ranks, "{merged} steps for {} pieces", pieces * ranks);
        assert_eq!(counts.write_bytes, bytes);
        assert!(counts.writes <= bytes / (256 << 10) + 8, "{} writes of {bytes} bytes", counts.writes);
        let described = sum(&reports, |work| work.description_bytes);
        assert!(described <= 4 * pieces * ranks, "{described} bytes describe {} pieces", pieces * ranks);
    }
}

#[test]
fn an_access_of_mostly_holes_does_not_loop_through_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sparse");
    let storage = afflux_storage::PosixStorage::new();
    storage.open(&path, OpenMode::CreateNew).unwrap();
    let reports = threads::run(2, |comm| {
        let file = storage.open(&path, OpenMode::ReadWrite).unwrap();
        let shared = CollectiveFile::new(&comm, file, Hints::default()).unwrap();
        let mut own = Extents::new();
        own.push(comm.rank() as u64 * 8, 8);
        own.push((1 << 42) + comm.rank() as u64 * 8, 8);
        shared.write_all(&own, &[&[1; 16]], &with(Path::TwoPhase), Part::none()).unwrap()
    });
    for report in reports {
        assert_eq!(report.explanation.method.1, "the access is too sparse for bounded rounds");
    }
}

/// Memory in short pieces passes through a stage: a call for 128 KiB, not one for each piece; long pieces are not copied.
#[test]
fn memory_in_short_pieces_costs_few_calls() {
    for (piece_bytes, copies, writes, reads) in [(8_u64, 1, 3, 3), (100_000, 0, 1, 3)] {
        let bytes = 300_000 / piece_bytes * piece_bytes;
        let storage = CountingStorage::new(Arc::new(MemoryStorage::new()));
        let file = storage.open(FilePath::new("f"), OpenMode::CreateNew).unwrap();
        let mut layout = Extents::new();
        layout.push_run(Run { offset: 3, length: piece_bytes, stride: piece_bytes + 5, count: bytes / piece_bytes });
        let memory: Vec<u8> = (0..layout.span().unwrap().1).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let mut extents = Extents::new();
        extents.push(7, bytes);
        let [result] = threads::run(1, |comm| {
            let shared = CollectiveFile::new(&comm, file.clone(), Hints::default()).unwrap();
            storage.reset();
            let options = with(Path::Independent);
            let written = shared.write_all_from(&extents, &memory, &layout, &options, Part::none()).unwrap();
            let mut back = vec![0; memory.len()];
            let options = ReadOptions { path: Path::Independent };
            let read = shared.read_all_into(&extents, &mut back, &layout, &options, Part::none()).unwrap();
            for (at, length) in layout.pieces() {
                let piece = usize::try_from(at).unwrap()..usize::try_from(at + length).unwrap();
                assert_eq!(back[piece.clone()], memory[piece]);
            }
            assert_eq!(back.iter().filter(|&&byte| byte != 0).count(), memory_without_zeros(&memory, &layout));
            (written.work, read.work)
        })
        .try_into()
        .unwrap();
        let (written, read) = result;
        assert_eq!((written.copied_bytes, read.copied_bytes), (copies * bytes, copies * bytes));
        assert_eq!((written.file_calls, read.file_calls), (writes, reads));
        assert_eq!((storage.total().writes, storage.total().reads), (writes, reads));
    }
}

/// Bytes of the layout's pieces that are not zero: what is between them must stay as it was.
fn memory_without_zeros(memory: &[u8], layout: &Extents) -> usize {
    let bytes = layout.pieces().flat_map(|(at, length)| at..at + length);
    bytes.filter(|&at| memory[usize::try_from(at).unwrap()] != 0).count()
}
