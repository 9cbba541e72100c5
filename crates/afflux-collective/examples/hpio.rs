//! HPIO's access patterns through the engine: what `tests/bench/mpiio_hpio.c` does through MPI-IO.
//!
//! `mpirun -n 4 hpio FILE PATTERNS REGION_BYTES REGION_COUNTS SPACE_BYTES REPETITIONS [NAME=VALUE ...]`
//!
//! (built with the feature `mpi`; without it, or with `ranks=N`, N thread ranks). Lists have commas; bytes and counts of
//! regions belong together. A pattern is memory-file: c-c, nc-c, c-nc or nc-nc.
//! Each repetition writes a new file of the full length and reads it back, timed between barriers, the slowest rank counts;
//! every byte is compared, holes included. Besides hints, NAME may be `path` (auto, two-phase, independent), `gap` (the longest hole
//! that is filled; 65536), `same` (1: all repetitions write one file, opened once) and `work` (print where the time went). One line a repetition and operation:
//!
//! `operation pattern ranks region_bytes region_count region_space_bytes bytes seconds method copied_bytes description_bytes messages`
//!
//! The last three are sums over the ranks: bytes copied in memory (the system call's own copy aside), bytes of requests on the
//! wire, and data messages.

use std::error::Error;
use std::path::{Path as FilePath, PathBuf};
use std::time::Instant;

use afflux_collective::{AccessReport, CollectiveFile, Hints, Holes, Part, Path, ReadOptions, WriteOptions};
use afflux_comm::{Communicator, Reduce, threads};
use afflux_plan::{Extents, Run};
use afflux_storage::{OpenMode, PosixStorage, Storage};

/// What the arguments ask for.
#[derive(Debug, Clone)]
struct Setup {
    file: PathBuf,
    pattern: String,
    region_bytes: u64,
    region_count: u64,
    space_bytes: u64,
    repetitions: usize,
    hints: Hints,
    path: Path,
    gap_bytes_max: u64,
    ranks: Option<usize>,
    same: bool,
    work: bool,
}

impl Setup {
    /// One for each pattern, space and region.
    fn parse_all(arguments: &[String]) -> Result<Vec<Self>, Box<dyn Error>> {
        let usage = "hpio FILE PATTERNS REGION_BYTES REGION_COUNTS SPACE_BYTES REPETITIONS [NAME=VALUE ...]";
        let [file, patterns, regions, counts, spaces, repetitions, rest @ ..] = arguments else {
            return Err(usage.into());
        };
        let mut setups = Vec::new();
        for pattern in patterns.split(',') {
            for space in spaces.split(',') {
                // Without gaps anywhere the space means nothing.
                if pattern == "c-c" && space != "0" && spaces.contains(',') {
                    continue;
                }
                for (region, count) in regions.split(',').zip(counts.split(',')) {
                    let one = [file, pattern, region, count, space, repetitions];
                    setups.push(Self::parse(one, rest).map_err(|error| format!("{usage}: {error}"))?);
                }
            }
        }
        Ok(setups)
    }

    fn parse(
        [file, pattern, region, count, space, repetitions]: [&str; 6],
        rest: &[String],
    ) -> Result<Self, Box<dyn Error>> {
        let usage = "what follows the repetitions is NAME=VALUE";
        let mut setup = Self {
            file: file.into(),
            pattern: pattern.to_owned(),
            region_bytes: region.parse()?,
            region_count: count.parse()?,
            space_bytes: space.parse()?,
            repetitions: repetitions.parse()?,
            hints: Hints::default(),
            path: Path::Auto,
            gap_bytes_max: 64 << 10,
            ranks: if cfg!(feature = "mpi") { None } else { Some(4) },
            same: false,
            work: false,
        };
        for pair in rest {
            match pair.split_once('=').ok_or(usage)? {
                ("path", "auto") => setup.path = Path::Auto,
                ("path", "two-phase") => setup.path = Path::TwoPhase,
                ("path", "independent") => setup.path = Path::Independent,
                ("gap", bytes) => setup.gap_bytes_max = bytes.parse()?,
                ("ranks", ranks) => setup.ranks = Some(ranks.parse()?),
                ("same", value) => setup.same = value != "0",
                ("work", value) => setup.work = value != "0",
                (name, value) => setup.hints.set(name, value)?,
            }
        }
        Ok(setup)
    }

    fn memory_has_gaps(&self) -> bool {
        self.pattern.starts_with("nc-")
    }

    fn file_has_gaps(&self) -> bool {
        self.pattern.ends_with("-nc")
    }

    fn pitch(&self) -> u64 {
        self.region_bytes + self.space_bytes
    }

    fn file_extents(&self, rank: u64, ranks: u64) -> Extents {
        let (length, count) = (self.region_bytes, self.region_count);
        let mut extents = Extents::new();
        if self.file_has_gaps() {
            let stride = if count * ranks == 1 { length } else { self.pitch() * ranks };
            if stride == length {
                extents.push(0, length * count);
            } else {
                let stride = if count == 1 { length } else { stride };
                extents.push_run(Run { offset: rank * self.pitch(), length, stride, count });
            }
        } else {
            extents.push(length * count * rank, length * count);
        }
        extents
    }

    fn memory_extents(&self) -> Extents {
        let mut extents = Extents::new();
        for region in 0..self.region_count {
            extents.push(
                region * if self.memory_has_gaps() { self.pitch() } else { self.region_bytes },
                self.region_bytes,
            );
        }
        extents
    }

    fn file_bytes(&self, ranks: u64) -> u64 {
        let regions = self.region_count * ranks;
        if self.file_has_gaps() { self.pitch() * regions - self.space_bytes } else { self.region_bytes * regions }
    }
}

impl Setup {
    fn print(&self, operation: &str, taken: &Taken, rank: u64, ranks: u64) {
        if self.work {
            let work = taken.report.work;
            let ms = |nanoseconds: u64| nanoseconds as f64 * 1e-6;
            eprintln!(
                "{operation} rank {rank} {}: copy {:.2} wait {:.2} file {:.2} exchange {:.2} ms, {} calls, cores {:.2} ms",
                taken.report.explanation.method.0,
                ms(work.copy_nanoseconds),
                ms(work.wait_nanoseconds),
                ms(work.file_nanoseconds),
                ms(work.exchange_nanoseconds),
                work.file_calls,
                taken.core_seconds * 1e3
            );
        }
        if rank == 0 {
            let bytes = self.region_bytes * self.region_count * ranks;
            println!(
                "{operation} {} {ranks} {} {} {} {bytes} {:.6} {} {} {} {}",
                self.pattern,
                self.region_bytes,
                self.region_count,
                self.space_bytes,
                taken.seconds,
                taken.report.explanation.method.0,
                taken.copied_bytes,
                taken.description_bytes,
                taken.messages
            );
        }
    }
}

/// The byte that belongs at an offset; never 0, which is what a hole reads as.
fn value(offset: u64) -> u8 {
    u8::try_from(offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57).expect("seven bits") + 1
}

/// How many bytes of the whole file, holes included, are not what they must be.
fn differences(setup: &Setup, ranks: u64) -> std::io::Result<usize> {
    let found = std::fs::read(&setup.file)?;
    assert_eq!(found.len() as u64, setup.file_bytes(ranks), "the file's length");
    let expected = |at: u64| {
        if setup.file_has_gaps() && at % setup.pitch() >= setup.region_bytes { 0 } else { value(at) }
    };
    Ok((0_u64..).zip(&found).filter(|&(at, &byte)| byte != expected(at)).count())
}

/// What one access took.
struct Taken {
    seconds: f64,
    /// Time on a core, of all ranks.
    core_seconds: f64,
    /// Of all ranks, as the two below.
    copied_bytes: u64,
    description_bytes: u64,
    messages: u64,
    /// This rank's own.
    report: AccessReport,
}

/// What this thread has had of a core, in nanoseconds.
fn on_core() -> u64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedule.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Runs `access` between barriers; the slowest rank's seconds.
fn timed(comm: &dyn Communicator, access: impl FnOnce() -> AccessReport) -> Result<Taken, Box<dyn Error>> {
    let core = on_core();
    comm.barrier()?;
    let begin = Instant::now();
    let report = access();
    let elapsed = begin.elapsed();
    let mut all = [
        Reduce::max(u64::try_from(elapsed.as_nanos())?),
        Reduce::sum(on_core() - core),
        Reduce::sum(report.work.copied_bytes),
        Reduce::sum(report.work.description_bytes),
        Reduce::sum(report.work.messages),
    ];
    comm.all_reduce(&mut all)?;
    let [slowest, core, copied, described, messages] = all.map(|element| element.value);
    Ok(Taken {
        seconds: slowest as f64 * 1e-9,
        core_seconds: core as f64 * 1e-9,
        copied_bytes: copied,
        description_bytes: described,
        messages,
        report,
    })
}

fn run(comm: &dyn Communicator, setup: &Setup) -> Result<(), Box<dyn Error>> {
    let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
    let storage = PosixStorage::new();
    let extents = setup.file_extents(rank, ranks);
    let layout = setup.memory_extents();
    let memory_bytes = usize::try_from(layout.span().map_or(0, |(_, end)| end))?;
    let mut data = vec![0; memory_bytes];
    let bytes_of = |extents: &Extents| extents.pieces().flat_map(|(at, length)| at..at + length).collect::<Vec<u64>>();
    for (memory, file) in bytes_of(&layout).into_iter().zip(bytes_of(&extents)) {
        data[usize::try_from(memory)?] = value(file);
    }
    let mut opened = None;
    for repetition in 0..setup.repetitions {
        if repetition == 0 || !setup.same {
            opened = None;
            if rank == 0 {
                let _ = std::fs::remove_file(&setup.file);
                storage.open(&setup.file, OpenMode::CreateNew)?.set_len(setup.file_bytes(ranks))?;
            }
            comm.barrier()?;
        }
        let shared = match opened.take() {
            Some(shared) => shared,
            None => CollectiveFile::new(comm, storage.open(&setup.file, OpenMode::ReadWrite)?, setup.hints.clone())?,
        };
        let options = WriteOptions { path: setup.path, holes: Holes::Fill { gap_bytes_max: setup.gap_bytes_max } };
        let write = || shared.write_all_from(&extents, &data, &layout, &options, Part::none()).expect("write_all");
        let written = timed(comm, write)?;
        comm.barrier()?;
        if rank == 0 {
            assert_eq!(differences(setup, ranks)?, 0, "bytes of the file that are wrong");
        }
        comm.barrier()?;
        let mut back = vec![0; memory_bytes];
        let options = ReadOptions { path: setup.path };
        let read = timed(comm, || {
            shared.read_all_into(&extents, &mut back, &layout, &options, Part::none()).expect("read_all")
        })?;
        assert!(back == data, "rank {rank} read other bytes than it wrote");
        for (operation, taken) in [("write", written), ("read", read)] {
            setup.print(operation, &taken, rank, ranks);
        }
        opened = Some(shared);
    }
    if rank == 0 {
        storage.remove(FilePath::new(&setup.file))?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let setups = Setup::parse_all(&arguments)?;
    let run_all = |comm: &dyn Communicator| setups.iter().try_for_each(|setup| run(comm, setup));
    match setups.first().and_then(|setup| setup.ranks) {
        Some(ranks) => {
            threads::run(ranks, |comm| run_all(&comm).map_err(|error| error.to_string()))
                .into_iter()
                .collect::<Result<Vec<()>, String>>()?;
            Ok(())
        }
        #[cfg(feature = "mpi")]
        None => run_all(&afflux_comm::mpi::MpiWorld::init()?.communicator()?),
        #[cfg(not(feature = "mpi"))]
        None => unreachable!("without MPI the ranks are threads"),
    }
}
