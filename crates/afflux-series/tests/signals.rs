//! A signal asks for a seal: the ranks agree on a step, seal everything before it, and say so.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use afflux_collective::Path as WritePath;
use afflux_comm::{Communicator, CountingCommunicator, threads};
use afflux_container::SeriesFile;
use afflux_series::{SealOnSignal, SeriesBuilder, SeriesWriter, SetId};
use common::{Row, Workload, check, probe_set};
use signal_hook::consts::{SIGTERM, SIGUSR1};

const RANKS: usize = 3;

fn open(path: &Path, comm: &dyn Communicator, settings: SealOnSignal) -> (SeriesWriter, Vec<i64>) {
    open_with(path, comm, settings, |builder| builder)
}

fn open_with(
    path: &Path,
    comm: &dyn Communicator,
    settings: SealOnSignal,
    change: impl Fn(SeriesBuilder) -> SeriesBuilder,
) -> (SeriesWriter, Vec<i64>) {
    let workload = Workload::one_set(7);
    let (set, ids) = probe_set(&workload.sets[0], workload.owners, comm);
    let builder = SeriesWriter::at(path).set(set).window_steps(1_000).chunk_steps(16).seal_on_signal(settings);
    (change(builder).open(comm).unwrap(), ids)
}

fn append(run: &mut SeriesWriter, ids: &[i64], step: u64) {
    let row = Row::of(0, &Workload::one_set(7).sets[0], ids, step);
    run.append(SetId(0), step, common::time(step), &row.values()).unwrap();
}

fn sealed(path: &Path) -> Option<u64> {
    SeriesFile::open(path).unwrap().state().watermark
}

/// One rank is signalled at step 33: all seal at one step, at most twice `agree_every` later, long before the window is full.
#[test]
fn one_rank_is_signalled_and_all_seal_at_one_step() {
    let directory = tempfile::tempdir().unwrap();
    for (background, path_choice) in
        [(true, WritePath::Independent), (false, WritePath::Independent), (true, WritePath::TwoPhase)]
    {
        let path = directory.path().join(format!("{background}-{path_choice:?}.nc"));
        let told = threads::run(RANKS, |comm| {
            let flag = Arc::new(AtomicBool::new(false));
            let settings = SealOnSignal::new().signals([]).flag(flag.clone()).agree_every(5);
            let (mut run, ids) =
                open_with(&path, &comm, settings, |builder| builder.background(background).write_path(path_choice));
            for step in 0..60 {
                if step == 33 && comm.rank() == 1 {
                    flag.store(true, Ordering::SeqCst);
                }
                append(&mut run, &ids, step);
                if let Some(last) = run.signalled() {
                    return (step, last);
                }
            }
            panic!("the signal is never heeded");
        });
        assert!(told.iter().all(|&both| both == told[0]), "{told:?}");
        // Noticed at 35, acted upon at 40: everything before that step is sealed, though the writers were dropped unclosed.
        assert_eq!(told[0], (40, 39));
        assert_eq!(sealed(&path), Some(39));
        let file = SeriesFile::open(&path).unwrap();
        assert_eq!(file.sets()[0].rows_sealed, 40);
        check(&path, &Workload { steps: 0..40, ..Workload::one_set(7) });
    }
}

/// After a seal the run may as well go on, and the file is that of any run.
#[test]
fn the_run_may_go_on_and_be_signalled_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    threads::run(RANKS, |comm| {
        let flag = Arc::new(AtomicBool::new(false));
        let settings = SealOnSignal::new().signals([]).flag(flag.clone()).agree_every(4);
        let (mut run, ids) = open(&path, &comm, settings);
        let mut told = Vec::new();
        for step in 0..35 {
            if [9, 22].contains(&step) && comm.rank() == 2 {
                flag.store(true, Ordering::SeqCst);
            }
            append(&mut run, &ids, step);
            if run.signalled() != told.last().copied() {
                told.push(run.signalled().unwrap());
            }
        }
        assert_eq!(told, [15, 27]);
        run.close().unwrap();
    });
    check(&path, &Workload { steps: 0..35, ..Workload::one_set(7) });
}

/// "It costs a comparison a step and, every few steps, a reduction that nobody waits for."
#[test]
fn agreements_are_as_many_as_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let calls = threads::run(RANKS, |comm| {
        let comm = CountingCommunicator::new(comm);
        let (mut run, ids) = open(&path, &comm, SealOnSignal::new().signals([]).agree_every(10));
        let before = comm.counts().collective_calls();
        for step in 0..300 {
            append(&mut run, &ids, step);
        }
        let calls = comm.counts().collective_calls() - before;
        run.close().unwrap();
        calls
    });
    assert_eq!(calls, [30; RANKS]);
}

/// "If other ranks do not come to it within the time limit, they are given up, and nothing is sealed."
#[test]
fn a_rank_that_does_not_come_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    static GAVE_UP: AtomicU64 = AtomicU64::new(0);
    let begin = Instant::now();
    threads::run(RANKS, |comm| {
        let flag = Arc::new(AtomicBool::new(false));
        let limit = Duration::from_millis(200);
        let settings = SealOnSignal::new().signals([]).flag(flag.clone()).agree_every(5).time_limit(limit);
        let (mut run, ids) = open(&path, &comm, settings);
        for step in 0..8 {
            append(&mut run, &ids, step);
        }
        flag.store(true, Ordering::SeqCst);
        if comm.rank() == 2 {
            // It hangs in its solver until the others are gone.
            while GAVE_UP.load(Ordering::SeqCst) < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            return;
        }
        let error = (8..30).find_map(|step| {
            let row = Row::of(0, &Workload::one_set(7).sets[0], &ids, step);
            run.append(SetId(0), step, common::time(step), &row.values()).err()
        });
        let message = error.expect("the others are not waited for without end").to_string();
        GAVE_UP.fetch_add(1, Ordering::SeqCst);
        // The first to give up tells the other.
        assert!(message.contains("gave up without sealing"), "{message}");
        assert!(run.close().is_err());
    });
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_eq!(sealed(&path), None);
}

/// The child of the next test: a run without an end on three ranks.
#[test]
fn child_that_is_signalled() {
    let Ok(path) = std::env::var("AFFLUX_SIGNALLED_FILE") else { return };
    threads::run(RANKS, |comm| {
        let (mut run, ids) = open(Path::new(&path), &comm, SealOnSignal::new().agree_every(5));
        for step in 0..1_000_000 {
            append(&mut run, &ids, step);
            std::thread::sleep(Duration::from_millis(1));
            if step == 50 && comm.rank() == 0 {
                std::fs::write(format!("{path}.begun"), "").unwrap();
            }
            if let Some(last) = run.signalled() {
                if comm.rank() == 0 {
                    std::fs::write(format!("{path}.sealed"), last.to_string()).unwrap();
                }
                break;
            }
        }
        // Not closed: as a job that is about to be killed.
    });
    // The writers are gone: the signal kills again.
    std::thread::sleep(Duration::from_secs(30));
    std::fs::write(format!("{path}.survived"), "").unwrap();
}

/// C2: "wall-time kill between two flushes: everything up to the last seal; with SIGTERM first, everything".
#[test]
fn c2_a_signal_before_the_kill_saves_everything() {
    let directory = tempfile::tempdir().unwrap();
    for signal in [SIGTERM, SIGUSR1] {
        let path = directory.path().join(format!("{signal}.nc"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child_that_is_signalled", "--exact", "--test-threads=1"])
            .env("AFFLUX_SIGNALLED_FILE", &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let note = |name: &str| path.with_extension(format!("nc.{name}"));
        let wait_for = |name: &str| {
            let begin = Instant::now();
            while !note(name).exists() {
                assert!(begin.elapsed() < Duration::from_secs(50), "the child has not {name}");
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        let send = |signal: i32| {
            let status = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
            assert!(status.success());
        };
        wait_for("begun");
        assert_eq!(sealed(&path), None, "the window is far from full");
        send(signal);
        wait_for("sealed");
        // Written and renamed in one go? A short file: read until it is there.
        let last = std::iter::repeat_with(|| std::fs::read_to_string(note("sealed")).unwrap())
            .find_map(|text| text.parse::<u64>().ok())
            .unwrap();
        assert!(last >= 50);
        assert_eq!(sealed(&path), Some(last));
        check(&path, &Workload { steps: 0..last + 1, ..Workload::one_set(7) });
        // Nobody listens any more: the second one ends the process, as it would have ended without us.
        std::thread::sleep(Duration::from_millis(100));
        send(signal);
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(signal), "{status}");
        assert!(!note("survived").exists());
    }
}
