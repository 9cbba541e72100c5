//! Every path writes the bytes that the oracle writes, and reads them back, whatever the ranks, hints and slices.

mod common;

use std::path::Path as FilePath;

use afflux_collective::{CollectiveFile, Hints, Holes, Part, Path, ReadOptions, Work, WriteOptions, oracle};
use afflux_comm::threads;
use afflux_plan::Extents;
use afflux_storage::{MemoryStorage, OpenMode, Storage, StorageFileExt};
use common::{SENTINEL, Workload, corpus, dealt, end, expected, payload, sliced};
use proptest::prelude::*;

const NAME: &str = "shared";

#[derive(Debug, Clone)]
struct Setup {
    path: Path,
    holes: Holes,
    hints: Hints,
    slice_bytes: usize,
    /// The memory is one slice, in which the payload lies in pieces of so many bytes with so many between them.
    layout: Option<(u64, u64)>,
    /// So many ranks share a node.
    ranks_per_node: usize,
}

impl Setup {
    fn new(path: Path, hint_pairs: &[(&str, &str)]) -> Self {
        let hints = hints(hint_pairs);
        Self { path, holes: Holes::Forbidden, hints, slice_bytes: 0, layout: None, ranks_per_node: usize::MAX }
    }

    fn fill(self, gap_bytes_max: u64) -> Self {
        Self { holes: Holes::Fill { gap_bytes_max }, ..self }
    }

    fn sliced(self, slice_bytes: usize) -> Self {
        Self { slice_bytes, ..self }
    }

    fn in_pieces(self, length: u64, space: u64) -> Self {
        Self { layout: Some((length, space)), ..self }
    }

    fn on_nodes_of(self, ranks_per_node: usize) -> Self {
        Self { ranks_per_node, ..self }
    }

    fn node_of_rank(&self, ranks: usize) -> Vec<u32> {
        (0..ranks).map(|rank| u32::try_from(rank / self.ranks_per_node).unwrap()).collect()
    }
}

fn hints(pairs: &[(&str, &str)]) -> Hints {
    Hints::from_pairs(pairs.iter().copied()).unwrap()
}

fn prepared(workload: &Workload) -> (MemoryStorage, usize) {
    let storage = MemoryStorage::new();
    let length = usize::try_from(end(workload)).unwrap() + 50;
    let file = storage.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
    file.write_all_at(&vec![SENTINEL; length], 0).unwrap();
    (storage, length)
}

/// Writes the workload, compares the file, reads it back in the same and in another distribution.
fn check(workload: &Workload, setup: &Setup) {
    let (storage, length) = prepared(workload);
    let ranks = workload.ranks.len();
    let everything = union(workload);
    threads::run_on_nodes(&setup.node_of_rank(ranks), |comm| {
        let file = storage.open(FilePath::new(NAME), OpenMode::ReadWrite).unwrap();
        let shared = CollectiveFile::new(&comm, file, setup.hints.clone()).unwrap();
        let rank = afflux_comm::Communicator::rank(&comm);
        let own = &workload.ranks[rank];
        let data = payload(own);
        let options = WriteOptions { path: setup.path, holes: setup.holes };
        let report = match setup.layout {
            None => shared.write_all(own, &sliced(&data, setup.slice_bytes), &options, Part::none()).unwrap(),
            Some((length, space)) => {
                let layout = laid_out(own.bytes(), length, space);
                let memory = spread(&data, &layout);
                shared.write_all_from(own, &memory, &layout, &options, Part::none()).unwrap()
            }
        };
        assert_bounded(&report.work, &setup.hints);
        // Some ranks read their neighbour's part, some everything at once.
        for wanted in [own, &workload.ranks[(rank + 1) % ranks], if rank % 2 == 0 { &everything } else { own }] {
            let mut back = vec![0; usize::try_from(wanted.bytes()).unwrap()];
            let options = ReadOptions { path: setup.path };
            let report = match setup.layout {
                None => {
                    let mut buffers: Vec<&mut [u8]> = match setup.slice_bytes {
                        0 => vec![&mut back],
                        slice_bytes => back.chunks_mut(slice_bytes).collect(),
                    };
                    shared.read_all(wanted, &mut buffers, &options, Part::none()).unwrap()
                }
                Some((length, space)) => {
                    let layout = laid_out(wanted.bytes(), length, space);
                    let mut memory = spread(&vec![0; back.len()], &layout);
                    let report = shared.read_all_into(wanted, &mut memory, &layout, &options, Part::none()).unwrap();
                    back = collected(&memory, &layout);
                    assert_eq!(spread(&back, &layout), memory, "bytes between the pieces of memory");
                    report
                }
            };
            assert_bounded(&report.work, &setup.hints);
            assert!(back == payload(wanted), "{}: rank {rank} reads other bytes with {setup:?}", workload.name);
        }
    });
    let found = storage.contents(FilePath::new(NAME)).unwrap();
    assert!(found == expected(workload, length), "{}: other bytes with {setup:?}", workload.name);
}

/// Memory of `bytes` in pieces of `length`, `space` apart.
fn laid_out(bytes: u64, length: u64, space: u64) -> Extents {
    let mut layout = Extents::new();
    let (whole, rest) = (bytes / length, bytes % length);
    (0..whole).for_each(|piece| layout.push(piece * (length + space), length));
    layout.push(whole * (length + space), rest);
    layout
}

/// The payload laid out in memory, sentinels between its pieces.
fn spread(payload: &[u8], layout: &Extents) -> Vec<u8> {
    let mut memory = vec![SENTINEL; usize::try_from(layout.span().map_or(0, |(_, end)| end)).unwrap()];
    let mut rest = payload;
    for (at, length) in layout.pieces() {
        let (at, length) = (usize::try_from(at).unwrap(), usize::try_from(length).unwrap());
        memory[at..at + length].copy_from_slice(&rest[..length]);
        rest = &rest[length..];
    }
    memory
}

/// The payload that is laid out in memory.
fn collected(memory: &[u8], layout: &Extents) -> Vec<u8> {
    let piece = |(at, length): (u64, u64)| &memory[usize::try_from(at).unwrap()..usize::try_from(at + length).unwrap()];
    layout.pieces().flat_map(piece).copied().collect()
}

/// The memory that an access takes is what the hints allow.
fn assert_bounded(work: &Work, hints: &Hints) {
    let buffers = hints.collective_buffer_bytes.get().max(hints.buffer_count.get());
    assert!(work.buffer_bytes_peak <= buffers, "{} bytes of buffers, {buffers} allowed", work.buffer_bytes_peak);
}

fn union(workload: &Workload) -> Extents {
    let mut pieces: Vec<(u64, u64)> =
        workload.ranks.iter().flat_map(|extents| extents.pieces().collect::<Vec<_>>()).collect();
    pieces.sort_unstable();
    let mut extents = Extents::new();
    pieces.into_iter().for_each(|(offset, length)| extents.push(offset, length));
    extents
}

#[test]
fn the_oracle_writes_what_is_expected() {
    for ranks in [1, 3] {
        for workload in corpus(ranks) {
            let (storage, length) = prepared(&workload);
            threads::run(ranks, |comm| {
                let file = storage.open(FilePath::new(NAME), OpenMode::ReadWrite).unwrap();
                let own = &workload.ranks[afflux_comm::Communicator::rank(&comm)];
                oracle::write_all(&comm, &*file, own, &[&payload(own)]).unwrap();
            });
            assert!(storage.contents(FilePath::new(NAME)).unwrap() == expected(&workload, length), "{}", workload.name);
        }
    }
}

#[test]
fn every_path_agrees_with_the_oracle_on_the_corpus() {
    for ranks in [1, 2, 3, 4, 7] {
        for workload in corpus(ranks) {
            for setup in [
                Setup::new(Path::Independent, &[]),
                Setup::new(Path::Auto, &[]).sliced(100),
                Setup::new(Path::Independent, &[]).in_pieces(10, 3),
                Setup::new(Path::TwoPhase, &[]).in_pieces(8, 5),
                Setup::new(Path::TwoPhase, &[("cb_buffer_size", "2000")]).in_pieces(33, 1).on_nodes_of(2),
                Setup::new(Path::TwoPhase, &[]),
                Setup::new(Path::TwoPhase, &[("cb_buffer_size", "997"), ("cb_nodes", "2")]).sliced(64),
                Setup::new(Path::TwoPhase, &[("cb_buffer_size", "8192")]).fill(16).sliced(37),
                Setup::new(Path::Auto, &[("romio_cb_write", "enable"), ("striping_unit", "512")]),
            ] {
                check(&workload, &setup);
            }
        }
    }
}

/// Every method of cutting file domains, at every depth, on one node and on several.
#[test]
fn every_partition_depth_and_node_count_agrees_with_the_oracle() {
    for ranks in [2, 5] {
        for workload in corpus(ranks) {
            for method in ["even", "aligned", "static-cyclic", "group-cyclic"] {
                for (depth, ranks_per_node) in [("1", usize::MAX), ("2", 1), ("3", 2), ("5", 3)] {
                    let pairs = [
                        ("afflux_partition", method),
                        ("afflux_cb_depth", depth),
                        ("cb_buffer_size", "1500"),
                        ("striping_unit", "256"),
                        ("cb_nodes", "3"),
                    ];
                    let setup = Setup::new(Path::TwoPhase, &pairs).on_nodes_of(ranks_per_node).sliced(50);
                    check(&workload, &setup);
                    check(&workload, &setup.fill(20));
                }
            }
        }
    }
}

/// Between ranks that share no memory everything travels in messages; and of the aggregators a few receive at a time.
#[test]
fn every_step_and_plain_messages_agree_with_the_oracle() {
    for ranks in [1, 3, 4, 7] {
        for workload in corpus(ranks) {
            for (method, step, depth, memory, ranks_per_node) in [
                ("even", "1", "1", "automatic", 1),
                ("aligned", "2", "2", "disable", usize::MAX),
                ("static-cyclic", "1", "3", "disable", 2),
                ("group-cyclic", "3", "2", "automatic", 2),
            ] {
                let pairs = [
                    ("afflux_partition", method),
                    ("afflux_cb_depth", depth),
                    ("afflux_step_aggregators", step),
                    ("afflux_node_memory", memory),
                    ("cb_buffer_size", "1500"),
                    ("striping_unit", "256"),
                    ("cb_nodes", "5"),
                ];
                check(&workload, &Setup::new(Path::TwoPhase, &pairs).on_nodes_of(ranks_per_node).fill(20));
            }
        }
    }
}

/// More ranks than cores: nothing hangs, and every byte is right.
#[test]
fn sixteen_thirty_one_and_sixty_four_ranks_agree_with_the_oracle() {
    for ranks in [16, 31, 64] {
        let workloads = corpus(ranks);
        let (first, last) = (workloads.iter().take(if ranks == 64 { 6 } else { 9 }), workloads.iter().rev().take(2));
        for workload in first.chain(last) {
            for (nodes, ranks_per_node, step) in [("5", usize::MAX, "64"), ("16", 8, "3")] {
                let pairs = [("cb_buffer_size", "4096"), ("cb_nodes", nodes), ("afflux_step_aggregators", step)];
                check(workload, &Setup::new(Path::TwoPhase, &pairs).on_nodes_of(ranks_per_node));
            }
        }
    }
}

/// Descriptions too long to travel with the survey: only the aggregators know, and each has a helper that writes.
#[test]
fn long_descriptions_agree_with_the_oracle() {
    let irregular = dealt("irregular", 4, (0..6000).map(|k| (k % 7 % 2, 1 + k * 11 % 17, usize::try_from(k).unwrap())));
    for ranks_per_node in [usize::MAX, 2, 1] {
        for depth in ["1", "3"] {
            let pairs = [("cb_buffer_size", "3000"), ("afflux_cb_depth", depth), ("cb_nodes", "2")];
            let setup = Setup::new(Path::TwoPhase, &pairs).on_nodes_of(ranks_per_node);
            check(&irregular, &setup);
            check(&irregular, &setup.fill(1));
        }
    }
}

#[test]
fn e4_thirty_one_uneven_ranks() {
    for workload in corpus(31) {
        check(&workload, &Setup::new(Path::TwoPhase, &[("cb_buffer_size", "4096"), ("cb_nodes", "5")]));
    }
}

#[test]
fn long_pieces_are_right_however_they_are_sliced() {
    let workload = dealt("long", 3, (0..30).map(|k| (0, 20_000 + k, usize::try_from(k).unwrap())));
    for slice_bytes in [0, 333] {
        check(&workload, &Setup::new(Path::TwoPhase, &[("cb_buffer_size", "65536")]).sliced(slice_bytes));
    }
}

fn workload() -> impl Strategy<Value = Workload> {
    let gap = prop_oneof![3 => Just(0_u64), 1 => 0_u64..40];
    let piece = (gap, 1_u64..70, 0_usize..7);
    (1_usize..=5, prop::collection::vec(piece, 0..80)).prop_map(|(ranks, pieces)| dealt("random", ranks, pieces))
}

fn setup() -> impl Strategy<Value = Setup> {
    let path = prop_oneof![Just(Path::Auto), Just(Path::Independent), Just(Path::TwoPhase), Just(Path::TwoPhase)];
    let holes =
        prop_oneof![Just(Holes::Forbidden), (0_u64..50).prop_map(|gap_bytes_max| Holes::Fill { gap_bytes_max })];
    let partition = prop::sample::select(vec!["automatic", "even", "aligned", "static-cyclic", "group-cyclic"]);
    let numbers = (1_u64..600, 1_u64..5, prop::option::of(1_usize..6), prop::option::of(1_u64..100));
    let memory = (0_usize..50, prop::option::of((1_u64..40, 0_u64..20)));
    (path, holes, partition, numbers, memory, prop_oneof![Just(usize::MAX), 1_usize..4]).prop_map(
        |(path, holes, partition, (buffer, depth, nodes, unit), (slice_bytes, layout), ranks_per_node)| {
            let mut hints = Hints::default();
            hints.set("afflux_partition", partition).unwrap();
            hints.set("cb_buffer_size", &buffer.to_string()).unwrap();
            hints.set("afflux_cb_depth", &depth.to_string()).unwrap();
            for (name, value) in [("cb_nodes", nodes.map(|nodes| nodes as u64)), ("striping_unit", unit)] {
                if let Some(value) = value {
                    hints.set(name, &value.to_string()).unwrap();
                }
            }
            Setup { path, holes, hints, slice_bytes, layout, ranks_per_node }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn every_path_agrees_on_made_up_workloads(workload in workload(), setup in setup()) {
        check(&workload, &setup);
    }
}

/// A canary: the comparison notices a single wrong byte in a hole.
#[test]
#[should_panic(expected = "other bytes")]
fn the_comparison_notices_a_byte_in_a_hole() {
    let mut workload = dealt("canary", 2, [(10, 5, 0), (10, 5, 1)]);
    let written = workload.clone();
    workload.ranks[1] = Extents::new();
    let (storage, length) = prepared(&written);
    threads::run(2, |comm| {
        let file = storage.open(FilePath::new(NAME), OpenMode::ReadWrite).unwrap();
        let shared = CollectiveFile::new(&comm, file, Hints::default()).unwrap();
        let own = &written.ranks[afflux_comm::Communicator::rank(&comm)];
        shared.write_all(own, &[&payload(own)], &WriteOptions::default(), Part::none()).unwrap();
    });
    assert!(storage.contents(FilePath::new(NAME)).unwrap() == expected(&workload, length), "other bytes");
}
