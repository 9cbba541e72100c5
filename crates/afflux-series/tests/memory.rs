//! Memory: stated before the run, refused over a limit, and never exceeded, however long the run.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use afflux_collective::Path as WritePath;
use afflux_comm::{Communicator, threads};
use afflux_series::{
    Existing, OpenError, Orphans, Point, PointGrid, ProbeSet, SeriesBuilder, SeriesWriter, SetId, Variable,
};
use afflux_storage::{OpenMode, PosixStorage, Storage, StorageFile};

const MIB: u64 = 1 << 20;

/// Points of one rank.
fn probes(rank: usize, count: usize) -> ProbeSet {
    let ids = (0..count).map(|k| i64::try_from(rank * 1_000_000 + k).unwrap());
    ProbeSet::new("").points(ids.map(|id| Point::new(id, 0.0, 0.0, 0.0))).variable(Variable::f64("u"))
}

/// "Where its bound is larger on any rank, `open` refuses on all of them, before there is a file."
#[test]
fn a_bound_over_the_limit_is_refused_on_every_rank() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let open = |limit: u64, window_steps: u64| {
        threads::run(3, |comm| {
            // Rank 1 has nearly all points.
            let set = probes(comm.rank(), if comm.rank() == 1 { 20_000 } else { 10 });
            let builder = SeriesWriter::at(&path).set(set).window_steps(window_steps).memory_limit_bytes(limit);
            let stated = builder.memory_bound();
            builder.open(&comm).map(|run| (stated, run.memory_bound()))
        })
    };
    // Two windows of 549 rows of 160,000 bytes.
    let results = open(150 * MIB, 500);
    for (rank, result) in results.into_iter().enumerate() {
        let error = result.map(|_| ()).expect_err("every rank refuses");
        assert_eq!(matches!(error, OpenError::Memory { rank: 1, .. }), rank == 1, "{error:?}");
        let message = error.to_string();
        let parts = ["rank 1", "the limit is 150.0 MiB", "windows 16", "points", "smaller window"];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing stays behind");
    // With a smaller window the same limit is enough, and the bound of the open writer is no more than was stated.
    for (rank, result) in open(150 * MIB, 50).into_iter().enumerate() {
        let (stated, bound) = result.unwrap();
        let root = bound.registration_bytes + bound.container_bytes;
        assert_eq!(root > 0, rank == 0);
        assert!(bound.total_bytes() - root <= stated.total_bytes() && bound.total_bytes() <= 150 * MIB, "{bound}");
    }
}

/// What rank 0 takes for registration and for points that it fills counts too.
#[test]
fn rank_0_counts_what_it_does_for_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let fails = |limit: u64, expected: u64| {
        let results = threads::run(2, |comm| {
            let expected = PointGrid::spread([0.0; 3], [1.0; 3], [expected, 1, 1]);
            let set = probes(0, if comm.rank() == 1 { 50 } else { 0 }).expected_grid(expected, Orphans::Fill);
            let builder = SeriesWriter::at(&path).set(set).existing(Existing::Replace).memory_limit_bytes(limit);
            builder.open(&comm).map(|_| ()).map_err(|error| error.to_string())
        });
        assert!(results.iter().all(|result| result.is_err() == results[0].is_err()), "{results:?}");
        results[0].clone().err()
    };
    assert_eq!(fails(100 * MIB, 50), None);
    // 200,000 points that nobody has are 149 rows of 1.6 MB, twice, on rank 0 alone.
    let message = fails(100 * MIB, 200_000).unwrap();
    assert!(message.contains("rank 0") && message.contains("registration"), "{message}");
    let message = fails(60 * MIB, 50).unwrap();
    assert!(message.contains("the file's structure 40.0"), "{message}");
}

/// Files whose samples go nowhere, so that a run of any length fits the disk: large writes are samples, small ones are not.
struct WithoutSamples;

struct FileWithoutSamples(Arc<dyn StorageFile>);

const SAMPLES_BYTES_MIN: usize = 48 << 10;

impl Storage for WithoutSamples {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(FileWithoutSamples(PosixStorage.open(path, mode)?)))
    }
    fn rename_no_clobber(&self, from: &Path, to: &Path) -> io::Result<()> {
        PosixStorage.rename_no_clobber(from, to)
    }
    fn rename_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        PosixStorage.rename_replace(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        PosixStorage.remove(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        PosixStorage.exists(path)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        PosixStorage.sync_directory(directory)
    }
}

impl StorageFile for FileWithoutSamples {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        // The new file itself begins at 0.
        if bytes.len() >= SAMPLES_BYTES_MIN && offset > 0 { Ok(bytes.len()) } else { self.0.write_at(bytes, offset) }
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn try_lock_exclusive(&self) -> io::Result<bool> {
        self.0.try_lock_exclusive()
    }
}

fn status_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// What a run measured in a process of its own, in bytes.
#[derive(Debug)]
struct Measured {
    /// Largest resident memory before the writers were opened.
    before: u64,
    /// Resident memory after a tenth of the steps, and not before every rank has had both of its windows full: a rank is at most
    /// two windows of 100 steps behind another.
    early: u64,
    /// Largest resident memory of the whole run.
    peak: u64,
    /// The bounds of all ranks.
    bound: u64,
}

/// A run in this process: M4's points on `ranks` thread ranks.
fn run_here(path: &Path, ranks: usize, steps: u64, write_path: WritePath) -> Measured {
    let fields = ["Ex", "Ey", "Ez", "Hx", "Hy", "Hz"];
    let before = status_kib("VmHWM:");
    let measured = threads::run(ranks, |comm| {
        let own = |rank: usize| rank * 3_969 / ranks;
        let points =
            (own(comm.rank())..own(comm.rank() + 1)).map(|k| Point::new(i64::try_from(k).unwrap(), 0.0, 0.0, 0.0));
        let count = own(comm.rank() + 1) - own(comm.rank());
        let set = fields.iter().fold(ProbeSet::new("").points(points), |set, name| set.variable(Variable::f64(*name)));
        let builder: SeriesBuilder = SeriesWriter::at(path).set(set).write_path(write_path);
        let mut run = builder.storage(Arc::new(WithoutSamples)).open(&comm).unwrap();
        let row = vec![1.0; count];
        let mut early = 0;
        let early_step = (steps / 10).max(400);
        for step in 0..steps {
            run.append(SetId(0), step, step as f64, &[(&row).into(); 6]).unwrap();
            if step == early_step {
                early = status_kib("VmRSS:");
            }
        }
        let bound = run.memory_bound().total_bytes();
        run.close().unwrap();
        (early, bound)
    });
    Measured {
        before: before * 1024,
        early: measured[0].0 * 1024,
        peak: status_kib("VmHWM:") * 1024,
        bound: measured.iter().map(|(_, bound)| bound).sum(),
    }
}

/// The child of the tests below: one run, told by the environment.
#[test]
fn child_that_is_measured() {
    let Ok(text) = std::env::var("AFFLUX_MEASURED_RUN") else { return };
    let mut words = text.split(' ');
    let mut word = || words.next().unwrap();
    let (path, ranks, steps) = (word(), word().parse().unwrap(), word().parse().unwrap());
    let write_path = if word() == "TwoPhase" { WritePath::TwoPhase } else { WritePath::Independent };
    let Measured { before, early, peak, bound } = run_here(Path::new(path), ranks, steps, write_path);
    println!("figures: {before} {early} {peak} {bound}");
}

/// Measures a run in a process of its own.
fn measure(ranks: usize, steps: u64, write_path: WritePath) -> Measured {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["child_that_is_measured", "--exact", "--nocapture", "--test-threads=1"])
        .env("AFFLUX_MEASURED_RUN", format!("{} {ranks} {steps} {write_path:?}", path.display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers =
        text.split("figures: ").nth(1).unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    let numbers: Vec<u64> = numbers.lines().next().unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
    Measured { before: numbers[0], early: numbers[1], peak: numbers[2], bound: numbers[3] }
}

/// Peak within the bound, and no more after all steps than after a tenth of them.
fn flat_and_bounded(ranks: usize, steps: u64, write_path: WritePath) {
    let measured = measure(ranks, steps, write_path);
    let what = format!("{ranks} ranks, {steps} steps, {write_path:?}: {measured:?}");
    assert!(measured.peak - measured.before <= measured.bound, "{what}");
    // What is left are HDF5's cache and the index of chunks, which grow with the logarithm of the file, if at all.
    assert!(measured.peak <= measured.early + 8 * MIB, "{what}");
    // A bound that says nothing would be no bound.
    assert!(measured.bound <= 40 * MIB + 4 * (measured.peak - measured.before), "{what}");
    println!("{what}");
}

/// M4 in short: "3,969 points x 6 fields: resident memory flat after the first window", within the stated bound.
#[test]
fn m4_memory_is_flat_and_within_the_bound() {
    flat_and_bounded(1, 3_000, WritePath::Independent);
    flat_and_bounded(4, 1_500, WritePath::Independent);
    flat_and_bounded(3, 1_500, WritePath::TwoPhase);
}

#[test]
#[ignore = "minutes: for ./dev test --full"]
fn long_m4_memory_is_flat_over_100_000_steps() {
    flat_and_bounded(4, 100_000, WritePath::Independent);
}
