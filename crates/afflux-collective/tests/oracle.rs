//! Every path writes the bytes that the oracle writes, and reads them back, whatever the ranks, hints and slices.

mod common;

use std::path::Path as FilePath;

use afflux_collective::{CollectiveFile, Hints, Holes, Part, Path, ReadOptions, WriteOptions, oracle};
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
    threads::run(ranks, |comm| {
        let file = storage.open(FilePath::new(NAME), OpenMode::ReadWrite).unwrap();
        let shared = CollectiveFile::new(&comm, file, setup.hints.clone()).unwrap();
        let rank = afflux_comm::Communicator::rank(&comm);
        let own = &workload.ranks[rank];
        let data = payload(own);
        let options = WriteOptions { path: setup.path, holes: setup.holes };
        let report = shared.write_all(own, &sliced(&data, setup.slice_bytes), &options, Part::none()).unwrap();
        let bound = 2 * setup.hints.collective_buffer_bytes.get();
        assert!(report.work.buffer_bytes_peak <= bound, "{} over {bound}", report.work.buffer_bytes_peak);
        // Some ranks read their neighbour's part, some everything at once.
        for wanted in [own, &workload.ranks[(rank + 1) % ranks], if rank % 2 == 0 { &everything } else { own }] {
            let mut back = vec![0; usize::try_from(wanted.bytes()).unwrap()];
            let mut buffers: Vec<&mut [u8]> = match setup.slice_bytes {
                0 => vec![&mut back],
                slice_bytes => back.chunks_mut(slice_bytes).collect(),
            };
            let report =
                shared.read_all(wanted, &mut buffers, &ReadOptions { path: setup.path }, Part::none()).unwrap();
            assert!(report.work.buffer_bytes_peak <= bound, "{} over {bound}", report.work.buffer_bytes_peak);
            assert!(back == payload(wanted), "{}: rank {rank} reads other bytes with {setup:?}", workload.name);
        }
    });
    let found = storage.contents(FilePath::new(NAME)).unwrap();
    assert!(found == expected(workload, length), "{}: other bytes with {setup:?}", workload.name);
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
            for (path, holes, hint_pairs, slice_bytes) in [
                (Path::Independent, Holes::Forbidden, vec![], 0),
                (Path::Auto, Holes::Forbidden, vec![], 100),
                (Path::TwoPhase, Holes::Forbidden, vec![], 0),
                (Path::TwoPhase, Holes::Forbidden, vec![("cb_buffer_size", "997"), ("cb_nodes", "2")], 64),
                (Path::TwoPhase, Holes::Fill { gap_bytes_max: 16 }, vec![("cb_buffer_size", "8192")], 37),
                (Path::Auto, Holes::Forbidden, vec![("romio_cb_write", "enable"), ("striping_unit", "512")], 0),
            ] {
                check(&workload, &Setup { path, holes, hints: hints(&hint_pairs), slice_bytes });
            }
        }
    }
}

#[test]
fn e4_thirty_one_uneven_ranks() {
    for workload in corpus(31) {
        let hints = hints(&[("cb_buffer_size", "4096"), ("cb_nodes", "5")]);
        check(&workload, &Setup { path: Path::TwoPhase, holes: Holes::Forbidden, hints, slice_bytes: 0 });
    }
}

#[test]
fn long_pieces_are_gathered_and_right() {
    let workload = dealt("long", 3, (0..30).map(|k| (0, 20_000 + k, usize::try_from(k).unwrap())));
    for slice_bytes in [0, 333] {
        let hints = hints(&[("cb_buffer_size", "65536")]);
        check(&workload, &Setup { path: Path::TwoPhase, holes: Holes::Forbidden, hints, slice_bytes });
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
    (path, holes, 1_u64..600, 1_usize..6, prop::option::of(1_u64..100), 0_usize..50).prop_map(
        |(path, holes, buffer, nodes, unit, slice_bytes)| {
            let mut hints = Hints::default();
            hints.set("cb_buffer_size", &buffer.to_string()).unwrap();
            hints.set("cb_nodes", &nodes.to_string()).unwrap();
            if let Some(unit) = unit {
                hints.set("striping_unit", &unit.to_string()).unwrap();
            }
            Setup { path, holes, hints, slice_bytes }
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
