//! A run goes on with the file of another, closed or killed: at the end the file is that of one run.

mod common;
#[path = "resume/damage.rs"]
mod damage;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use afflux_comm::{Communicator, threads};
use afflux_container::{ElementType, SeriesFile};
use afflux_series::state::RowState;
use afflux_series::{
    Appended, Existing, LocalPoints, Point, ProbeSet, Replay, ResumeCheck, SeriesWriter, SetId, Variable,
};
use afflux_storage::{CountingStorage, PosixStorage};
use common::{Owners, Row, Shape, Workload, attempt, check, differences, time, write};

fn sets() -> Vec<Shape> {
    let all = vec![
        ("a", ElementType::F64, None),
        ("b", ElementType::F32, Some(3)),
        ("c", ElementType::I32, None),
        ("d", ElementType::I64, Some(2)),
    ];
    vec![
        Shape { name: String::new(), points: 37, variables: all.clone(), cadence: 1 },
        Shape { name: "slow".to_owned(), points: 5, variables: all[..1].to_vec(), cadence: 4 },
        Shape { name: "one".to_owned(), points: 1, variables: all[1..2].to_vec(), cadence: 3 },
    ]
}

fn resume(replay: Replay, steps: std::ops::Range<u64>) -> Workload {
    Workload { existing: Existing::Resume(replay), steps, ..Workload::of(sets()) }
}

const POLICIES: [Replay; 3] = [Replay::Skip, Replay::Compare, Replay::Rewrite];

/// The file of a run that nobody interrupted.
fn uninterrupted(directory: &Path, workload: &Workload) -> PathBuf {
    let path = directory.join("uninterrupted.nc");
    write(&path, 3, &Workload { existing: Existing::Replace, ..workload.clone() });
    path
}

/// "Other rank count, other owner map, other window", closed and killed, restarted a little or far behind.
#[test]
fn r7_any_run_goes_on_with_the_file_of_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let whole = Workload { steps: 0..71, ..Workload::of(sets()) };
    let expected = uninterrupted(directory.path(), &whole);
    let owners = [Owners::Blocks, Owners::Scattered, Owners::RoundRobin, Owners::OnlyRank(1)];
    let mut case = 0;
    for first_end in [1, 8, 29, 40] {
        for replay in POLICIES {
            for is_killed in [false, true] {
                case += 1;
                let first = Workload {
                    is_killed,
                    owners: owners[case % 4],
                    checkpoints: vec![first_end / 2],
                    window_steps: [10, 3, 16][case % 3],
                    ..resume(replay, 0..first_end)
                };
                write(&file, [1, 2, 3, 4, 7][case % 5], &first);
                let watermark = SeriesFile::open(&file).unwrap().state().watermark.unwrap();
                let start = [watermark + 1, watermark, watermark / 2, 0][case % 4];
                let second = Workload {
                    owners: owners[(case / 2) % 4],
                    window_steps: [7, 10, 1, 40][case % 4],
                    ..resume(replay, start..71)
                };
                let statistics = write(&file, [4, 7, 1, 3, 2][case % 5], &second);
                check(&file, &whole);
                assert_eq!(differences(&expected, &file), "", "case {case}");
                let rows = |steps: std::ops::Range<u64>| -> u64 {
                    [1, 4, 3]
                        .map(|cadence| steps.clone().filter(|step| step % cadence == 0).count() as u64)
                        .iter()
                        .sum()
                };
                assert_eq!(statistics.replayed_rows, rows(start..watermark + 1));
                assert_eq!(statistics.rows, rows(watermark + 1..71));
                assert_eq!(statistics.rewritten_bytes, 0, "a solver that repeats itself changes nothing");
                std::fs::remove_file(&file).unwrap();
            }
        }
    }
}

#[test]
fn r1_sampled_every_tenth_step_and_restarted_from_a_checkpoint_at_100() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let every_tenth = |steps, existing| {
        let set = Shape { name: String::new(), points: 6, variables: vec![("u", ElementType::F64, None)], cadence: 10 };
        Workload { steps, existing, window_steps: 50, ..Workload::of(vec![set]) }
    };
    let whole = every_tenth(0..301, Existing::Refuse);
    let expected = uninterrupted(directory.path(), &whole);
    for is_killed in [false, true] {
        write(&file, 2, &Workload { is_killed, checkpoints: vec![100], ..every_tenth(0..143, Existing::Refuse) });
        write(&file, 3, &every_tenth(100..301, Existing::Resume(Replay::Skip)));
        check(&file, &whole);
        assert_eq!(differences(&expected, &file), "");
        std::fs::remove_file(&file).unwrap();
    }
}

/// Run 0-100, checkpoint 50, killed at 60, restarted from 50.
#[test]
fn r2_nothing_is_written_again_until_the_watermark_is_passed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let set = Shape { name: String::new(), points: 9, variables: vec![("u", ElementType::F64, None)], cadence: 1 };
    let workload = Workload { window_steps: 5, ..Workload::of(vec![set.clone()]) };
    write(&file, 2, &Workload { steps: 0..61, checkpoints: vec![50, 60], is_killed: true, ..workload.clone() });
    let storage = Arc::new(CountingStorage::new(Arc::new(PosixStorage::new())));
    threads::run(2, |comm| {
        let resumed =
            Workload { existing: Existing::Resume(Replay::Skip), storage: Some(storage.clone()), ..workload.clone() };
        let (mut run, ids) = common::open(&file, &resumed, &comm).unwrap();
        assert_eq!((run.watermark(), run.epoch()), (Some(60), 2));
        assert_eq!(run.row_state(), RowState::Replaying { watermark: 60 });
        comm.barrier().unwrap();
        let writes = storage.total().writes;
        for step in 50..=60 {
            let row = Row::of(0, &set, &ids[0], step);
            assert_eq!(run.append(SetId(0), step, time(step), &row.values()).unwrap(), Appended::Replayed);
        }
        assert_eq!(storage.total().writes, writes);
        comm.barrier().unwrap();
        for step in 61..=100 {
            let row = Row::of(0, &set, &ids[0], step);
            assert_eq!(run.append(SetId(0), step, time(step), &row.values()).unwrap(), Appended::Kept);
            assert_eq!(run.row_state(), RowState::Filling);
        }
        run.close().unwrap();
    });
    check(&file, &Workload { steps: 0..101, ..workload });
}

/// A run of one point on one rank; `steps` are (step, time).
fn one_point(file: &Path, existing: Existing, offset: u64, steps: &[(u64, f64)]) -> Result<(), String> {
    let results = threads::run(1, |comm| {
        let set = ProbeSet::new("").points([Point::new(1, 0.0, 0.0, 0.0)]).variable(Variable::f64("u"));
        let builder = SeriesWriter::at(file).set(set).existing(existing).step_offset(offset).chunk_steps(4);
        let mut run = builder.open(&comm).map_err(|error| error.to_string())?;
        for &(step, time) in steps {
            let value = (step + offset) as f64;
            run.append(SetId(0), step, time, &[(&[value]).into()]).map_err(|error| error.to_string())?;
        }
        run.close().map(|_| ()).map_err(|error| error.to_string())
    });
    results.into_iter().next().unwrap()
}

fn series(file: &Path) -> Vec<(i64, f64, f64)> {
    let file = SeriesFile::open(file).unwrap();
    assert!(file.verify(&mut |_| {}).is_whole() || file.times(0, 0..file.sets()[0].rows_sealed).is_ok());
    let rows = 0..file.sets()[0].rows_sealed;
    let (steps, times) = (file.steps(0, rows.clone()).unwrap(), file.times(0, rows.clone()).unwrap());
    let values = file.series(0, 0, 0, 0, rows).unwrap();
    steps.into_iter().zip(times).zip(values).map(|((step, time), value)| (step, time, value)).collect()
}

/// "Times that are not multiples of the step; time going back at restart; two outputs at times that differ by rounding: the integer
/// step decides."
#[test]
fn r3_the_step_decides_never_the_time() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let resumed = Existing::Resume(Replay::Skip);
    one_point(&file, Existing::Refuse, 0, &[(0, 0.017), (1, 0.3), (2, 0.3), (3, 0.7), (4, 0.9)]).unwrap();
    // Replayed with times that differ by rounding, or that have gone back.
    one_point(&file, resumed, 0, &[(3, 0.7 + 1e-13), (4, 0.9 - 1e-13), (5, 1.1)]).unwrap();
    one_point(&file, resumed, 0, &[(2, 0.0), (3, 0.1), (4, 0.2), (5, 0.3), (6, 0.4)]).unwrap();
    let expected =
        [(0, 0.017, 0.0), (1, 0.3, 1.0), (2, 0.3, 2.0), (3, 0.7, 3.0), (4, 0.9, 4.0), (5, 1.1, 5.0), (6, 0.4, 6.0)];
    assert_eq!(series(&file), expected);
}

/// "The solver counts its steps from 0 again after restart: refused with the reason, or continued by a stated offset."
#[test]
fn r5_a_solver_that_counts_from_0_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let steps =
        |range: std::ops::Range<u64>, shift: u64| range.map(|step| (step, (step + shift) as f64)).collect::<Vec<_>>();
    for replay in POLICIES {
        one_point(&file, Existing::Replace, 0, &steps(0..10, 0)).unwrap();
        let error = one_point(&file, Existing::Resume(replay), 0, &steps(0..10, 10)).unwrap_err();
        assert!(
            error.contains("does the solver count its steps from 0 again") && error.contains("step_offset(10)"),
            "{error}"
        );
        assert_eq!(series(&file).len(), 10);
        one_point(&file, Existing::Resume(replay), 10, &steps(0..10, 10)).unwrap();
        // From a checkpoint at step 15: nothing twice.
        one_point(&file, Existing::Resume(replay), 15, &steps(0..10, 15)).unwrap();
        let expected: Vec<(i64, f64, f64)> = (0..25).map(|step: i64| (step, step as f64, step as f64)).collect();
        assert_eq!(series(&file), expected);
    }
}

#[test]
fn r6_a_window_of_2_seven_steps_then_to_14() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    for is_killed in [false, true] {
        let workload = Workload { window_steps: 2, is_killed, ..Workload::of(sets()) };
        write(&file, 2, &Workload { steps: 0..7, ..workload.clone() });
        let start = SeriesFile::open(&file).unwrap().state().watermark.unwrap() + 1;
        write(&file, 2, &Workload { window_steps: 2, ..resume(Replay::Skip, start..14) });
        check(&file, &Workload { steps: 0..14, ..workload });
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_missing_file_is_created_and_an_empty_one_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    write(&file, 2, &resume(Replay::Skip, 5..5));
    assert_eq!(SeriesFile::open(&file).unwrap().state().watermark, None);
    write(&file, 3, &resume(Replay::Skip, 7..40));
    check(&file, &Workload { steps: 7..40, ..Workload::of(sets()) });
    // Opened and closed again: nothing changes.
    write(&file, 2, &resume(Replay::Rewrite, 40..40));
    check(&file, &Workload { steps: 7..40, ..Workload::of(sets()) });
}

/// "r > w+1 is a hole: an error that says what to do."
#[test]
fn a_hole_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    write(&file, 2, &Workload { steps: 10..30, ..Workload::of(sets()) });
    for replay in POLICIES {
        for result in attempt(&file, 3, &resume(replay, 31..40)) {
            let error = result.unwrap_err();
            assert!(
                error.contains("sealed up to step 29")
                    && error.contains("restart the solver from a checkpoint at step 30"),
                "{error}"
            );
        }
        for result in attempt(&file, 3, &resume(replay, 9..40)) {
            let error = result.unwrap_err();
            assert!(error.contains("begins with the row of step 10"), "{error}");
        }
    }
    check(&file, &Workload { steps: 10..30, ..Workload::of(sets()) });
    // Steps at which nothing is due make no hole.
    let rare = |steps, existing| {
        let set = Shape { name: String::new(), points: 2, variables: vec![("u", ElementType::F64, None)], cadence: 10 };
        Workload { steps, existing, ..Workload::of(vec![set]) }
    };
    let rare_file = directory.path().join("rare.nc");
    write(&rare_file, 2, &rare(0..33, Existing::Refuse));
    write(&rare_file, 2, &rare(40..71, Existing::Resume(Replay::Skip)));
    check(&rare_file, &rare(0..71, Existing::Refuse));
    assert!(attempt(&rare_file, 2, &rare(81..91, Existing::Resume(Replay::Skip))).iter().all(Result::is_err));
}

type Change = fn(&mut Workload);

/// "New points or variables refused with the difference shown."
#[test]
fn another_description_is_refused_with_the_difference() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    write(&file, 2, &resume(Replay::Skip, 0..20));
    let before = std::fs::read(&file).unwrap();
    let changes: [(&str, Change); 5] = [
        ("38", |workload| workload.sets[0].points = 38),
        ("variables a in the file, a, e in the run", |workload| {
            workload.sets[1].variables.push(("e", ElementType::F64, None))
        }),
        ("4 in the file, 5 in the run", |workload| workload.sets[1].cadence = 5),
        ("9", |workload| workload.chunk_steps = 9),
        ("\"other\"", |workload| workload.sets[2].name = "other".to_owned()),
    ];
    for (needle, change) in changes {
        let mut workload = resume(Replay::Rewrite, 20..30);
        change(&mut workload);
        for result in attempt(&file, 3, &workload) {
            let error = result.unwrap_err();
            assert!(error.contains("cannot be resumed by a run that differs") && error.contains(needle), "{error}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), before, "the file is as it was");
    }
}

#[test]
fn a_second_writer_is_refused_on_every_rank() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let results = threads::run(2, |comm| {
        let workload = resume(Replay::Skip, 0..20);
        let (run, _) = common::open(&file, &workload, &comm).unwrap();
        let second = common::open(&file, &workload, &comm).map(|_| ()).map_err(|error| error.to_string());
        run.close().unwrap();
        second
    });
    for result in results {
        assert!(result.unwrap_err().contains("is being written by another process"));
    }
}

/// "Compared bit by bit with the file (difference = error naming set, point, variable, step)."
#[test]
fn compare_names_the_first_difference() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let points = || [Point::new(7, 0.0, 0.0, 0.0).named("north"), Point::new(3, 1.0, 0.0, 0.0)];
    let run = |existing, steps: std::ops::Range<u64>, odd: Option<(u64, usize)>| -> Result<(), String> {
        let results = threads::run(2, |comm| {
            let own = points().into_iter().filter(|point| (point.id == 7) == (comm.rank() == 1)).collect::<Vec<_>>();
            let set = ProbeSet::new("probes").points(own.clone()).variable(Variable::f32("J").components(2));
            let builder = SeriesWriter::at(&file).set(set).existing(existing).chunk_steps(4).window_steps(3);
            let mut run = builder.open(&comm).map_err(|error| error.to_string())?;
            for step in steps.clone() {
                let mut row: Vec<f32> = own.iter().flat_map(|p| [f32::from(p.id == 3), step as f32]).collect();
                if let Some((odd_step, component)) = odd
                    && odd_step == step
                    && comm.rank() == 1
                {
                    row[component] += 0.5;
                }
                run.append(SetId(0), step, step as f64, &[(&row).into()]).map_err(|error| error.to_string())?;
            }
            run.close().map(|_| ()).map_err(|error| error.to_string())
        });
        results.into_iter().nth(1).unwrap()
    };
    run(Existing::Refuse, 0..10, None).unwrap();
    // In a finished column of the file, and in the unfinished one.
    for (step, component, in_file) in [(5, 1, "5.0"), (9, 0, "0.0")] {
        let error = run(Existing::Resume(Replay::Compare), 0..12, Some((step, component))).unwrap_err();
        let expected = format!(
            "set `probes`, point north, variable `J`, component {component}, step {step}: the file has {in_file}"
        );
        assert!(error.starts_with(&expected), "{error}");
    }
    run(Existing::Resume(Replay::Skip), 0..12, Some((5, 0))).unwrap();
    run(Existing::Resume(Replay::Compare), 0..14, None).unwrap();
    let read = SeriesFile::open(&file).unwrap();
    assert!(read.verify(&mut |_| {}).is_whole());
    assert_eq!(read.series(0, 0, 1, 1, 0..14).unwrap(), (0..14).map(f64::from).collect::<Vec<_>>());
}

/// "Rewritten in place with the checksums of the columns kept right", whoever owns what.
#[test]
fn rewrite_puts_the_new_rows_in_the_place_of_the_old() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let old = Workload { drift: 1, ..resume(Replay::Skip, 0..45) };
    let whole = Workload { steps: 0..60, ..Workload::of(sets()) };
    let expected = uninterrupted(directory.path(), &whole);
    for (ranks, checkpoints) in [(1, vec![]), (3, vec![7, 20, 44]), (4, vec![0, 43, 52])] {
        write(&file, 2, &old);
        let size = std::fs::metadata(&file).unwrap().len();
        let statistics =
            write(&file, ranks, &Workload { checkpoints, owners: Owners::Scattered, ..resume(Replay::Rewrite, 0..60) });
        assert!(statistics.rewritten_bytes > 0);
        check(&file, &whole);
        assert_eq!(differences(&expected, &file), "");
        assert!(std::fs::metadata(&file).unwrap().len() < size * 2);
        std::fs::remove_file(&file).unwrap();
    }
}

/// "... so that a kill between leaves what a later `Resume(Rewrite)` can redo."
#[test]
fn a_rewrite_that_was_cut_short_is_noticed_and_redone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let whole = Workload { steps: 0..60, ..Workload::of(sets()) };
    write(&file, 2, &Workload { drift: 1, ..resume(Replay::Skip, 0..45) });
    // Dropped while it rewrites; and closed in the middle, which is no damage.
    write(&file, 3, &Workload { is_killed: true, ..resume(Replay::Rewrite, 0..21) });
    for result in attempt(&file, 2, &resume(Replay::Skip, 45..60)) {
        let error = result.unwrap_err();
        assert!(
            error.contains("damaged") && error.contains("column 0 (steps 0 to 7)") && error.contains("Replay::Rewrite"),
            "{error}"
        );
    }
    for result in attempt(&file, 2, &resume(Replay::Rewrite, 8..60)) {
        assert!(result.unwrap_err().contains("restart the solver from step 0"));
    }
    write(&file, 4, &Workload { owners: Owners::RoundRobin, ..resume(Replay::Rewrite, 0..21) });
    let read = SeriesFile::open(&file).unwrap();
    assert!(read.verify(&mut |_| {}).is_whole(), "{:?}", read.verify(&mut |_| {}).findings);
    drop(read);
    write(&file, 1, &resume(Replay::Rewrite, 0..60));
    check(&file, &whole);
}

/// Where the bytes of `pattern` are in the file.
fn find(bytes: &[u8], pattern: &[u8]) -> u64 {
    bytes.windows(pattern.len()).position(|window| window == pattern).expect("the samples are there") as u64
}

/// "Filling and Replaying are per rank: one rank replaying while others go on is a test."
#[test]
fn one_rank_replays_while_the_others_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let whole = Workload { steps: 0..80, ..Workload::of(sets()) };
    for replay in POLICIES {
        for late in 0..3 {
            write(&file, 2, &resume(replay, 0..40));
            threads::run(3, |comm| {
                let workload = resume(replay, 0..80);
                let (mut run, ids) = common::open(&file, &workload, &comm).unwrap();
                let start = if comm.rank() == late { 13 } else { 40 };
                for step in start..80 {
                    assert_eq!(run.row_state() == RowState::Filling, step > 40);
                    // Where rows are rewritten, this rank's are others than before.
                    let drift = u64::from(replay == Replay::Rewrite && step < 40) << 32;
                    for (set, shape) in workload.sets.iter().enumerate() {
                        if run.is_due(SetId(set), step) {
                            let row = Row::of(set, shape, &ids[set], step + drift);
                            let appended = run.append(SetId(set), step, time(step), &row.values()).unwrap();
                            assert_eq!(appended, if step < 40 { Appended::Replayed } else { Appended::Kept });
                        }
                    }
                }
                run.close().unwrap();
            });
            let read = SeriesFile::open(&file).unwrap();
            assert!(read.verify(&mut |_| {}).is_whole(), "{:?}", read.verify(&mut |_| {}).findings);
            drop(read);
            // What one rank has rewritten can be written again by all.
            write(&file, 4, &resume(replay, if replay == Replay::Rewrite { 0 } else { 80 }..80));
            check(&file, &whole);
            std::fs::remove_file(&file).unwrap();
        }
    }
}

#[test]
fn owners_change_while_rows_are_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let whole = Workload { steps: 0..70, ..Workload::of(sets()) };
    for replay in POLICIES {
        let drift = u64::from(replay == Replay::Rewrite);
        write(&file, 2, &Workload { drift, ..resume(replay, 0..45) });
        let rebalances =
            vec![(3, Owners::Scattered), (11, Owners::OnlyRank(2)), (44, Owners::RoundRobin), (50, Owners::Blocks)];
        write(&file, 4, &Workload { rebalances, checkpoints: vec![30], ..resume(replay, 0..70) });
        check(&file, &whole);
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn patches_and_points_that_nobody_has_are_replayed_too() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let at = |id: i64| Point::new(id, id as f64, 0.0, 0.0);
    let run = |replay, steps: std::ops::Range<u64>, with_four: bool| {
        threads::run(2, |comm| {
            let patches: [Vec<i64>; 2] = if comm.rank() == 0 { [vec![5, 1], vec![3]] } else { [vec![], vec![2, 0]] };
            let mut points = LocalPoints::new();
            let mut patches = patches.to_vec();
            if with_four && comm.rank() == 1 {
                patches[0].push(4);
            }
            for ids in &patches {
                points = points.points(ids.iter().map(|&id| at(id)));
            }
            let mut set = ProbeSet::new("").variable(Variable::f64("u"));
            for ids in &patches {
                set = set.points(ids.iter().map(|&id| at(id)));
            }
            let set = set.expected((0..6).map(at), afflux_series::Orphans::Fill);
            let builder =
                SeriesWriter::at(&file).set(set).existing(Existing::Resume(replay)).chunk_steps(4).window_steps(3);
            let mut run = builder.open(&comm).unwrap();
            for step in steps.clone() {
                for patch in if step % 2 == 0 { [0, 1] } else { [1, 0] } {
                    let row: Vec<f64> = patches[patch].iter().map(|&id| id as f64 + step as f64 / 16.0).collect();
                    run.append_patch(SetId(0), patch, step, step as f64, &[(&row).into()]).unwrap();
                }
            }
            run.close().unwrap();
        });
    };
    let fill = f64::from_le_bytes(ElementType::F64.fill_value_bytes());
    for replay in POLICIES {
        run(replay, 0..10, true);
        run(replay, 3..18, false);
        let read = SeriesFile::open(&file).unwrap();
        assert!(read.verify(&mut |_| {}).is_whole());
        for id in 0..6_u32 {
            let value = |step: u32| f64::from(id) + f64::from(step) / 16.0;
            let lost = |step: u32| id == 4 && step >= if replay == Replay::Rewrite { 3 } else { 10 };
            let expected: Vec<f64> = (0..18).map(|step| if lost(step) { fill } else { value(step) }).collect();
            let found = read.series(0, 0, u64::from(id), 0, 0..18).unwrap();
            if replay == Replay::Rewrite && id == 4 {
                // What nobody gives stays as it is.
                assert_eq!(found[10..], expected[10..]);
            } else {
                assert_eq!(found, expected, "point {id}, {replay:?}");
            }
        }
        drop(read);
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn only_the_last_columns_are_checked_where_that_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    write(&file, 2, &resume(Replay::Skip, 0..28));
    let value = common::value([0, 30, 0, 0, 9], ElementType::F64);
    let offset = find(&std::fs::read(&file).unwrap(), &value);
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().write_all_at(&[value[2] ^ 0x40], offset + 2).unwrap();
    let open = |check, replay| {
        let results = threads::run(2, |comm| {
            let workload = resume(replay, 0..0);
            let mut builder = SeriesWriter::at(&file).existing(workload.existing).resume_check(check);
            builder = builder.window_steps(10).chunk_steps(8).chunk_bytes(2048);
            for shape in &workload.sets {
                builder = builder.set(common::probe_set(shape, Owners::Blocks, &comm).0);
            }
            builder.open(&comm).map(|run| run.close().unwrap()).map_err(|error| error.to_string())
        });
        results.into_iter().all(|result| result.is_ok())
    };
    assert!(!open(ResumeCheck::All, Replay::Skip));
    assert!(open(ResumeCheck::UnfinishedColumns, Replay::Skip));
}
