//! Cases that users reported, by the numbers of the list of cases: those that are about right bytes or errors.
//!
//! (E2 and E13 are in `cost.rs`, E8 and E9 in `striped.rs`, E7 and E10 in the tests of `afflux-plan`.)

mod common;

use std::io;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use afflux_collective::{CollectiveError, CollectiveFile, Hints, Part, Path, ReadOptions, WriteOptions};
use afflux_comm::{Communicator, threads};
use afflux_plan::Extents;
use afflux_storage::{FileSystemKind, MemoryStorage, OpenMode, Storage, StorageFile};
use common::{Workload, dealt, end, expected, payload};

const NAME: &str = "shared";

fn options(path: Path) -> WriteOptions {
    WriteOptions { path, ..WriteOptions::default() }
}

fn open(comm: &dyn Communicator, storage: &MemoryStorage, pairs: &[(&str, &str)]) -> CollectiveFile {
    let hints = Hints::from_pairs(pairs.iter().copied()).unwrap();
    CollectiveFile::new(comm, storage.open(FilePath::new(NAME), OpenMode::ReadWrite).unwrap(), hints).unwrap()
}

/// Writes and reads the workload on all paths.
fn round_trip(workload: &Workload, pairs: &[(&str, &str)]) {
    for path in [Path::Auto, Path::Independent, Path::TwoPhase] {
        let storage = MemoryStorage::new();
        storage.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
        threads::run(workload.ranks.len(), |comm| {
            let shared = open(&comm, &storage, pairs);
            let own = &workload.ranks[comm.rank()];
            shared.write_all(own, &[&payload(own)], &options(path), Part::none()).unwrap();
            let mut back = vec![0; usize::try_from(own.bytes()).unwrap()];
            shared.read_all(own, &mut [&mut back], &ReadOptions { path }, Part::none()).unwrap();
            assert!(back == payload(own), "{} by {path:?}", workload.name);
        });
        let found = storage.contents(FilePath::new(NAME)).unwrap();
        assert!(found == expected(workload, usize::try_from(end(workload)).unwrap()), "{} by {path:?}", workload.name);
    }
}

/// 31 ranks share 1,428,480 elements: one has 27,648 of them, one 69,120, the others what is left.
#[test]
fn e04_thirty_one_uneven_ranks() {
    let mut counts = vec![(1_428_480 - 27_648 - 69_120) / 29; 31];
    (counts[0], counts[30]) = (27_648, 69_120);
    counts[15] += 1_428_480 - counts.iter().sum::<u64>();
    let blocks = counts.iter().zip(0..).map(|(&count, rank)| (0, count, rank));
    round_trip(&dealt("blocks of bytes", 31, blocks), &[("cb_nodes", "16"), ("cb_buffer_size", "65536")]);
    // The same elements in lines that the ranks take in turn, each until it has its share.
    let mut left = counts;
    let mut lines = Vec::new();
    while left.iter().any(|&left| left > 0) {
        for (rank, left) in left.iter_mut().enumerate().filter(|(_, left)| **left > 0) {
            let line = (*left).min(1000);
            *left -= line;
            lines.push((0, line, rank));
        }
    }
    round_trip(&dealt("lines of bytes", 31, lines), &[("cb_buffer_size", "65536")]);
}

/// A rank without data, another in each call, on a file that stays open.
#[test]
fn e05_a_rank_with_nothing_to_write_at_every_position() {
    let ranks = 5;
    for path in [Path::Auto, Path::Independent, Path::TwoPhase] {
        let storage = MemoryStorage::new();
        storage.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
        let workloads: Vec<Workload> = (0..ranks)
            .map(|empty| {
                let mut workload = dealt("rows", ranks, (0..200).map(|k| (0, 33, usize::try_from(k).unwrap())));
                workload.ranks[empty] = Extents::new();
                workload
            })
            .collect();
        threads::run(ranks, |comm| {
            let shared = open(&comm, &storage, &[("cb_buffer_size", "500"), ("cb_nodes", "3")]);
            for workload in &workloads {
                let own = &workload.ranks[comm.rank()];
                shared.write_all(own, &[&payload(own)], &options(path), Part::none()).unwrap();
                let mut back = vec![0; usize::try_from(own.bytes()).unwrap()];
                shared.read_all(own, &mut [&mut back], &ReadOptions { path }, Part::none()).unwrap();
                assert_eq!(back, payload(own));
            }
            // And nobody has anything.
            shared.write_all(&Extents::new(), &[], &options(path), Part::none()).unwrap();
        });
        let whole = dealt("rows", ranks, (0..200).map(|k| (0, 33, usize::try_from(k).unwrap())));
        let found = storage.contents(FilePath::new(NAME)).unwrap();
        assert_eq!(found, expected(&whole, usize::try_from(end(&whole)).unwrap()), "together the calls wrote all");
    }
}

/// A rank that makes fewer calls and leaves: the others get an error that names it, none waits for ever.
#[test]
fn e06_a_rank_that_makes_fewer_calls_is_named() {
    let workload = dealt("rows", 3, (0..90).map(|k| (0, 40, usize::try_from(k).unwrap())));
    for path in [Path::Auto, Path::Independent, Path::TwoPhase] {
        let storage = MemoryStorage::new();
        storage.open(FilePath::new(NAME), OpenMode::CreateNew).unwrap();
        let errors = threads::run(3, |comm| {
            let shared = open(&comm, &storage, &[]);
            let own = &workload.ranks[comm.rank()];
            let calls = if comm.rank() == 1 { 1 } else { 2 };
            let write = |_| shared.write_all(own, &[&payload(own)], &options(path), Part::none()).err();
            (0..calls).filter_map(write).next()
        });
        assert_eq!(errors[1], None, "its one call was right");
        for error in [&errors[0], &errors[2]] {
            let error = error.as_ref().unwrap_or_else(|| panic!("{path:?}: the second call is missing a rank"));
            assert!(matches!(error, CollectiveError::Comm(_)), "{error}");
            assert!(error.to_string().contains("rank 1"), "{path:?}: {error}");
        }
    }
}

/// Pieces of 1 to 4,097 bytes across the borders of blocks of 4,096, two ranks in most blocks.
#[test]
fn e11_pieces_of_every_length_across_block_borders() {
    // Odd multiples visit every length once, in an order that is not sorted.
    let lengths = (0..4097_u64).map(|k| (0, 1 + k * 1_001 % 4097, usize::try_from(k).unwrap()));
    let workload = dealt("every length", 2, lengths);
    round_trip(&workload, &[("striping_unit", "4096"), ("afflux_partition", "static-cyclic"), ("cb_nodes", "2")]);
}

/// A file of endless repetition, which checks what is written to it and keeps nothing: Linux' limit for one transfer holds.
struct Repetition {
    pattern: Vec<u8>,
    written_bytes: AtomicU64,
}

const PATTERN_BYTES: usize = 65_521;
const TRANSFER_BYTES_MAX: usize = 0x7FFF_F000;

impl Repetition {
    fn new() -> Self {
        Self { pattern: (0..PATTERN_BYTES as u64).map(common::value).collect(), written_bytes: AtomicU64::new(0) }
    }

    /// Visits the parts of a transfer and of the pattern that belong together.
    fn parts(&self, offset: u64, length: usize) -> impl Iterator<Item = (std::ops::Range<usize>, &[u8])> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let phase = usize::try_from((offset + at as u64) % PATTERN_BYTES as u64).unwrap();
            let part = (PATTERN_BYTES - phase).min(length - at);
            let here = at..at + part;
            at += part;
            (part > 0).then(|| (here, &self.pattern[phase..phase + part]))
        })
    }
}

impl StorageFile for Repetition {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = buffer.len().min(TRANSFER_BYTES_MAX);
        self.parts(offset, length).for_each(|(here, pattern)| buffer[here].copy_from_slice(pattern));
        Ok(length)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let length = bytes.len().min(TRANSFER_BYTES_MAX);
        let right = self.parts(offset, length).all(|(here, pattern)| bytes[here] == *pattern);
        self.written_bytes.fetch_add(length as u64, Ordering::Relaxed);
        if right { Ok(length) } else { Err(io::Error::other("other bytes than expected")) }
    }
    fn len(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }
    fn set_len(&self, _length: u64) -> io::Result<()> {
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn try_lock_exclusive(&self) -> io::Result<bool> {
        Ok(true)
    }
    fn file_system(&self) -> FileSystemKind {
        FileSystemKind::Local
    }
}

/// Accesses of about 2 GiB and 4 GiB by one of two ranks, at offsets as long.
fn around_two_gib(path: Path, lengths: &[u64]) {
    for &length in lengths {
        let file = Arc::new(Repetition::new());
        let mut whole = Extents::new();
        // Begins where the pattern does.
        whole.push(PATTERN_BYTES as u64 * 40_000, length);
        threads::run(2, |comm| {
            let shared =
                CollectiveFile::new(&comm, Arc::clone(&file) as Arc<dyn StorageFile>, Hints::default()).unwrap();
            let (mut own, mut slices) = (Extents::new(), Vec::new());
            if comm.rank() == 1 {
                own = whole.clone();
                let (full, rest) = (length / PATTERN_BYTES as u64, length % PATTERN_BYTES as u64);
                slices = vec![file.pattern.as_slice(); usize::try_from(full).unwrap()];
                slices.push(&file.pattern[..usize::try_from(rest).unwrap()]);
            }
            shared.write_all(&own, &slices, &options(path), Part::none()).unwrap();
        });
        assert_eq!(file.written_bytes.load(Ordering::Relaxed), length, "{path:?}");
    }
}

/// Bytes whose counts do not fit 32 bits, or just do.
#[test]
#[ignore = "dozens of gigabytes through memory"]
fn long_e12_transfers_around_two_and_four_gib() {
    let lengths = [(1 << 31) - 4096, (1 << 31) - 8, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) + 1];
    for path in [Path::TwoPhase, Path::Independent] {
        around_two_gib(path, &lengths);
    }
}
