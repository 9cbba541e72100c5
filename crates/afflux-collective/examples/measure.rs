//! Measures `write_all` on thread ranks: the figures behind the rule that chooses between the paths.
//!
//! `cargo run --release -p afflux-collective --example measure -- DIRECTORY [RANKS] [NAME=VALUE ...]`
//!
//! Each line is one pattern: the payload in bytes, the median of the repetitions in milliseconds for one process writing
//! the same bytes plainly, for both paths, and what `Auto` chose. The file exists and is full before the first repetition,
//! so that every write overwrites; nothing is synchronised to the disk.

use std::error::Error;
use std::path::{Path as FilePath, PathBuf};
use std::time::Instant;

use afflux_collective::{CollectiveFile, Hints, Part, Path, ReadOptions, Work, WriteOptions};
use afflux_comm::{Communicator, threads};
use afflux_plan::{Extents, Run};
use afflux_storage::{OpenMode, PosixStorage, Storage, StorageFileExt};

const CALL_BYTES: u64 = 26 << 20;
const REPETITIONS: usize = 15;

/// Rank `rank` of `ranks` has every `ranks`-th piece.
fn round_robin(rank: u64, ranks: u64, piece_bytes: u64, gap_bytes: u64) -> Extents {
    let mut extents = Extents::new();
    let pitch = piece_bytes + gap_bytes;
    let count = (CALL_BYTES / ranks / piece_bytes).max(1);
    let stride = if count == 1 { piece_bytes } else { pitch * ranks };
    extents.push_run(Run { offset: rank * pitch, length: piece_bytes, stride, count });
    extents
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2] * 1e3
}

/// One process writes the payload as one block.
fn plain(path: &FilePath, bytes: usize) -> Result<f64, Box<dyn Error>> {
    let file = PosixStorage::new().open(path, OpenMode::ReadWrite)?;
    let data = vec![7; bytes];
    let mut seconds = Vec::new();
    for _ in 0..REPETITIONS {
        let begin = Instant::now();
        file.write_all_at(&data, 0)?;
        seconds.push(begin.elapsed().as_secs_f64());
    }
    Ok(median(seconds))
}

/// Median milliseconds of a collective access, from a barrier to the end on rank 0, and rank 0's report.
fn collective(path: &FilePath, extents: &[Extents], choice: Path, hints: &Hints, reads: bool) -> (f64, String, Work) {
    let mut results = threads::run(extents.len(), |comm| {
        let file = PosixStorage::new().open(path, OpenMode::ReadWrite).expect("open");
        let shared = CollectiveFile::new(&comm, file, hints.clone()).expect("new");
        let own = &extents[comm.rank()];
        let mut data = vec![9; usize::try_from(own.bytes()).expect("fits")];
        let (mut seconds, mut last) = (Vec::new(), None);
        for _ in 0..REPETITIONS {
            comm.barrier().expect("barrier");
            let begin = Instant::now();
            let report = if reads {
                shared.read_all(own, &mut [&mut data], &ReadOptions { path: choice }, Part::none())
            } else {
                let options = WriteOptions { path: choice, ..WriteOptions::default() };
                shared.write_all(own, &[&data], &options, Part::none())
            };
            seconds.push(begin.elapsed().as_secs_f64());
            last = Some(report.expect("access"));
        }
        let report = last.expect("repetitions");
        (median(seconds), report.explanation.method.0.to_string(), report.work)
    });
    results.swap_remove(0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| ".".to_owned()));
    let ranks: usize = arguments.next().map_or(Ok(4), |ranks| ranks.parse())?;
    let mut hints = Hints::default();
    for pair in arguments {
        let (name, value) = pair.split_once('=').ok_or("hints are NAME=VALUE")?;
        hints.set(name, value)?;
    }
    let path = directory.join("afflux-measure.tmp");
    let count = ranks as u64;
    let patterns = [
        ("one block a rank", CALL_BYTES / count, 0),
        ("round robin", 100_000, 0),
        ("round robin", 16_384, 0),
        ("round robin", 4096, 0),
        ("round robin", 1024, 0),
        ("round robin", 400, 0),
        ("round robin", 64, 0),
        ("gaps as long", 4096, 4096),
        ("gaps as long", 400, 400),
    ];
    println!(
        "operation pattern piece_bytes bytes plain_ms independent_ms two_phase_ms auto auto_ms exchange_ms file_ms"
    );
    for reads in [false, true] {
        for (name, piece_bytes, gap_bytes) in patterns {
            let extents: Vec<Extents> =
                (0..count).map(|rank| round_robin(rank, count, piece_bytes, gap_bytes)).collect();
            let bytes: u64 = extents.iter().map(Extents::bytes).sum();
            let end = extents.iter().filter_map(Extents::span).map(|span| span.1).max().unwrap_or(0);
            let file = PosixStorage::new().open(&path, OpenMode::CreateNew)?;
            file.write_all_at(&vec![1; usize::try_from(end)?], 0)?;
            let plain = plain(&path, usize::try_from(bytes)?)?;
            let (independent, _, _) = collective(&path, &extents, Path::Independent, &hints, reads);
            let (two_phase, _, work) = collective(&path, &extents, Path::TwoPhase, &hints, reads);
            let (auto, chosen, _) = collective(&path, &extents, Path::Auto, &hints, reads);
            println!(
                "{} {name:?} {piece_bytes} {bytes} {plain:.2} {independent:.2} {two_phase:.2} {chosen} {auto:.2} {:.2} {:.2}",
                if reads { "read" } else { "write" },
                work.exchange_nanoseconds as f64 / 1e6,
                work.file_nanoseconds as f64 / 1e6,
            );
            PosixStorage::new().remove(&path)?;
        }
    }
    Ok(())
}
