//! Random lives of a file against a naive oracle: runs that append, seal, change owners, are closed, dropped or killed at some operation
//! of the storage, and are followed by others with other ranks, owners and windows that skip, compare or rewrite what they repeat.
//! At the end every dataset and attribute is that of one run which nobody interrupted.
//!
//! A solver's rows carry its *version*, so that rows of different lives differ. The oracle is a list: for each step the version
//! that the file must hold.

mod common;

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use afflux_collective::Path as WritePath;
use afflux_comm::{Communicator, threads};
use afflux_container::{Block, ElementType, SeriesFile};
use afflux_series::{Appended, Existing, Replay, SetId};
use afflux_storage::{Fault, FaultyStorage, PosixStorage, Storage};
use common::{Owners, Row, RunError, Shape, Workload, differences, id_of, time, value};
use proptest::prelude::*;

/// How a life ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Close,
    Drop,
    /// From this operation of the storage on, of any kind and by any rank, nothing happens any more.
    Death(u64),
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Checkpoint,
    Rebalance(Owners),
}

/// One run on the file.
#[derive(Debug, Clone)]
struct Life {
    ranks: usize,
    owners: Owners,
    window_steps: u64,
    path: Option<WritePath>,
    replay: Replay,
    /// Where it begins, from the file's first step (0) to the step behind the watermark (100).
    begin: u64,
    steps: u64,
    /// Behind the rows of a step, counted from its beginning.
    events: Vec<(u64, Event)>,
    end: End,
}

/// All of it.
#[derive(Debug, Clone)]
struct Schedule {
    sets: Vec<Shape>,
    chunk_steps: u64,
    chunk_bytes: u64,
    first_step: u64,
    steps: u64,
    lives: Vec<Life>,
}

fn owners() -> impl Strategy<Value = Owners> {
    prop_oneof![
        Just(Owners::Blocks),
        Just(Owners::RoundRobin),
        Just(Owners::Scattered),
        (0_usize..7).prop_map(Owners::OnlyRank),
    ]
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let variable = prop_oneof![
        Just(("a", ElementType::F64, None)),
        Just(("b", ElementType::F32, Some(3))),
        Just(("c", ElementType::I32, None)),
        Just(("d", ElementType::I64, Some(2))),
    ];
    let shape = (1_u64..14, proptest::collection::vec(variable, 1..3), 1_u64..6).prop_map(
        |(points, mut variables, cadence)| {
            variables.sort_by_key(|variable| variable.0);
            variables.dedup();
            Shape { name: String::new(), points, variables, cadence }
        },
    );
    proptest::collection::vec(shape, 1..4).prop_map(|mut shapes| {
        for (index, shape) in shapes.iter_mut().enumerate().skip(1) {
            shape.name = format!("set{index}");
        }
        shapes
    })
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let event = prop_oneof![Just(Event::Checkpoint), owners().prop_map(Event::Rebalance)];
    let end = prop_oneof![1 => Just(End::Close), 1 => Just(End::Drop), 3 => (1_u64..250).prop_map(End::Death)];
    let path = prop_oneof![Just(None), Just(Some(WritePath::TwoPhase))];
    let replay = prop_oneof![Just(Replay::Skip), Just(Replay::Compare), Just(Replay::Rewrite)];
    let run = (1_usize..8, owners(), 1_u64..20, path);
    let course = (replay, 0_u64..=100, 0_u64..40, proptest::collection::vec((0_u64..40, event), 0..4), end);
    let life = (run, course).prop_map(|((ranks, owners, window_steps, path), (replay, begin, steps, events, end))| {
        Life { ranks, owners, window_steps, path, replay, begin, steps, events, end }
    });
    proptest::collection::vec(life, 1..5)
}

fn schedules() -> impl Strategy<Value = Schedule> {
    (shapes(), 1_u64..10, 64_u64..600, 0_u64..30, 1_u64..60, lives()).prop_map(
        |(sets, chunk_steps, chunk_bytes, first_step, steps, lives)| Schedule {
            sets,
            chunk_steps,
            chunk_bytes,
            first_step,
            steps,
            lives,
        },
    )
}

/// What the file must hold, as far as that is certain.
struct Oracle {
    first_step: u64,
    /// By step from the first one: who gave the row that is sealed.
    versions: Vec<u64>,
    /// A life that rewrote did not come to its end: rows from here on may be its own or the older ones, until all are rewritten.
    torn_from: Option<u64>,
}

impl Oracle {
    fn end(&self) -> u64 {
        self.first_step + self.versions.len() as u64
    }

    fn version(&self, step: u64) -> u64 {
        self.versions[usize::try_from(step - self.first_step).unwrap()]
    }

    /// A life gave rows of `steps` and left the file sealed up to `sealed_end`.
    fn lived(&mut self, life: &Life, version: u64, steps: std::ops::Range<u64>, sealed_end: u64, is_settled: bool) {
        let old_end = self.end();
        if life.replay == Replay::Rewrite && steps.start < old_end {
            let end = steps.end.min(old_end);
            if is_settled {
                for step in steps.start..end {
                    self.versions[usize::try_from(step - self.first_step).unwrap()] = version;
                }
                if self.torn_from.is_some_and(|torn| steps.start <= torn) && end == old_end {
                    self.torn_from = None;
                }
            } else {
                self.torn_from = Some(self.torn_from.unwrap_or(u64::MAX).min(steps.start));
            }
        }
        self.versions.resize(usize::try_from(sealed_end - self.first_step).unwrap(), version);
    }
}

/// Runs one rank of a life; whether it closed the file.
fn live(
    path: &Path,
    workload: &Workload,
    life: &Life,
    version_of: &dyn Fn(u64) -> u64,
    comm: &dyn Communicator,
) -> Result<bool, RunError> {
    let (mut run, mut ids) = common::open(path, workload, comm).map_err(RunError::Open)?;
    for step in workload.steps.clone() {
        for (set, shape) in workload.sets.iter().enumerate() {
            let row = Row::of(set, shape, &ids[set], step + (version_of(step) << 32));
            let appended = run.append(SetId(set), step, time(step), &row.values()).map_err(RunError::Append)?;
            // (A writer that is about to learn of a failed flush takes rows and forgets them.)
            let may_be_doomed = matches!(life.end, End::Death(_));
            assert!(may_be_doomed || (appended == Appended::NotDue) == (step % shape.cadence != 0));
        }
        for &(_, event) in life.events.iter().filter(|(at, _)| workload.steps.start + at == step) {
            match event {
                Event::Checkpoint => run.checkpoint().map_err(RunError::Flush)?,
                Event::Rebalance(owners) => {
                    common::rebalance(&mut run, workload, owners, &mut ids, comm).map_err(RunError::Rebalance)?;
                }
            }
        }
    }
    match life.end {
        End::Drop => {
            // All ranks die at the same step: one that left earlier would take the flushes of the others with it.
            comm.barrier().expect("every rank comes here");
            Ok(false)
        }
        End::Close | End::Death(_) => run.close().map(|_| true).map_err(RunError::Flush),
    }
}

/// Runs a life on its ranks; whether all closed the file, and what went wrong: on all of them or on none.
fn live_all(path: &Path, workload: &Workload, life: &Life, oracle: &Oracle, version: u64) -> (bool, String) {
    let known: Vec<u64> = oracle.versions.clone();
    let (first_step, end) = (oracle.first_step, oracle.end());
    let (path, workload, life) = (path.to_owned(), workload.clone(), life.clone());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let version_of = |step: u64| {
            let is_repeated = life.replay == Replay::Compare && step < end;
            if is_repeated { known[usize::try_from(step - first_step).unwrap()] } else { version }
        };
        sender.send(threads::run(life.ranks, |comm| live(&path, &workload, &life, &version_of, &comm)))
    });
    let results = receiver.recv_timeout(Duration::from_secs(120)).expect("a life hangs, or a rank panicked");
    let text = format!("{results:?}");
    let closed = results.iter().filter(|result| matches!(result, Ok(true))).count();
    let failed = results.iter().filter(|result| result.is_err()).count();
    assert!([0, results.len()].contains(&closed) && [0, results.len()].contains(&failed), "one verdict: {text}");
    (closed > 0, if failed > 0 { text } else { String::new() })
}

/// The last sealed step of the file, if there is one, and there is one sealed.
fn sealed_end(path: &Path, first_step: u64) -> u64 {
    if !path.exists() {
        return first_step;
    }
    SeriesFile::open(path).unwrap().state().watermark.map_or(first_step, |watermark| watermark + 1)
}

/// The file's rows are those of the oracle.
fn check(path: &Path, schedule: &Schedule, oracle: &Oracle) {
    let file = SeriesFile::open(path).unwrap();
    let verification = file.verify(&mut |_| {});
    assert!(verification.is_whole(), "{:?}", verification.findings);
    for (set, shape) in schedule.sets.iter().enumerate() {
        let due: Vec<u64> =
            (oracle.first_step..oracle.end()).filter(|step| step.is_multiple_of(shape.cadence)).collect();
        let rows = 0..file.sets()[set].rows_sealed;
        let steps: Vec<u64> = file.steps(set, rows.clone()).unwrap().into_iter().map(i64::cast_unsigned).collect();
        assert_eq!(steps, due);
        assert_eq!(file.times(set, rows.clone()).unwrap(), due.iter().map(|&step| time(step)).collect::<Vec<_>>());
        let mut ids: Vec<i64> = (0..shape.points).map(|index| id_of(index, shape.points)).collect();
        ids.sort_unstable();
        assert_eq!(file.points(set).unwrap().ids, ids);
        for (variable, &(name, element, components)) in shape.variables.iter().enumerate() {
            let block = file.block(set, variable, 0..shape.points, rows.clone()).unwrap();
            let mut bytes = Vec::new();
            Block::bytes_into(&block, 0..block.len(), &mut bytes);
            let mut found = bytes.chunks_exact(element.bytes());
            for &id in &ids {
                for component in 0..u64::from(components.unwrap_or(1)) {
                    for &step in &due {
                        let row = step + (oracle.version(step) << 32);
                        let words = [set as u64, id.cast_unsigned(), variable as u64, component, row];
                        let expected = value(words, element);
                        assert_eq!(found.next().unwrap(), &expected[..element.bytes()], "{name} of {id} at {step}");
                    }
                }
            }
        }
    }
}

/// The run that nobody interrupted, with the versions that the file has ended up with.
fn uninterrupted(path: &Path, schedule: &Schedule, oracle: &Oracle) {
    let whole = Workload {
        steps: oracle.first_step..oracle.end(),
        chunk_steps: schedule.chunk_steps,
        chunk_bytes: schedule.chunk_bytes,
        ..Workload::of(schedule.sets.clone())
    };
    let life = Life {
        ranks: 2,
        owners: Owners::Blocks,
        window_steps: 11,
        path: None,
        replay: Replay::Skip,
        begin: 0,
        steps: 0,
        events: Vec::new(),
        end: End::Close,
    };
    let results = threads::run(2, |comm| live(path, &whole, &life, &|step| oracle.version(step), &comm));
    assert!(results.iter().all(|result| matches!(result, Ok(true))), "{results:?}");
}

fn play(directory: &Path, schedule: &Schedule) {
    let path: PathBuf = directory.join("run.nc");
    let mut oracle = Oracle { first_step: schedule.first_step, versions: Vec::new(), torn_from: None };
    let last_step = schedule.first_step + schedule.steps;
    // The last life goes to the end, and closes.
    let last =
        Life { begin: 100, steps: u64::MAX / 4, end: End::Close, ..schedule.lives[schedule.lives.len() - 1].clone() };
    for (life, version) in schedule.lives.iter().chain([&last]).zip(1..) {
        let mut life = life.clone();
        let old_end = oracle.end();
        let mut begin = schedule.first_step + (old_end - schedule.first_step) * life.begin / 100;
        if let Some(torn) = oracle.torn_from {
            // What a life that rewrote has left half done must be rewritten from there on.
            life.replay = Replay::Rewrite;
            begin = begin.min(torn);
            life.steps = life.steps.max(old_end - begin);
        }
        let end = begin.saturating_add(life.steps).min(last_step.max(old_end));
        let faulty = FaultyStorage::new(Arc::new(PosixStorage::new()));
        if let End::Death(nth) = life.end {
            faulty.inject(Fault::death(nth));
        }
        let storage: Arc<dyn Storage> = Arc::new(faulty);
        let workload = Workload {
            steps: begin..end,
            owners: life.owners,
            window_steps: life.window_steps,
            chunk_steps: schedule.chunk_steps,
            chunk_bytes: schedule.chunk_bytes,
            path: life.path,
            existing: Existing::Resume(life.replay),
            storage: Some(storage),
            ..Workload::of(schedule.sets.clone())
        };
        let (is_closed, errors) = live_all(&path, &workload, &life, &oracle, version);
        let sealed_end = sealed_end(&path, schedule.first_step);
        match life.end {
            End::Close => assert!(is_closed, "life {version}: {errors}"),
            End::Drop => assert_eq!(errors, "", "life {version}"),
            End::Death(_) => {}
        }
        assert!(sealed_end >= old_end, "what is sealed stays sealed");
        assert!(!is_closed || sealed_end == end.max(old_end), "life {version} ends at {sealed_end}, not {end}");
        oracle.lived(&life, version, begin..end, sealed_end, is_closed);
        if oracle.torn_from.is_none() && path.exists() {
            check(&path, schedule, &oracle);
        }
    }
    assert_eq!((oracle.end(), oracle.torn_from), (last_step, None));
    let whole = directory.join("whole.nc");
    uninterrupted(&whole, schedule, &oracle);
    assert_eq!(differences(&whole, &path), "");
}

fn play_in_a_directory(schedule: &Schedule) {
    let directory = tempfile::tempdir().unwrap();
    play(directory.path(), schedule);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_lives_leave_the_file_of_one_run(schedule in schedules()) {
        play_in_a_directory(&schedule);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    #[ignore = "minutes"]
    fn long_any_lives_leave_the_file_of_one_run(schedule in schedules()) {
        play_in_a_directory(&schedule);
    }
}
