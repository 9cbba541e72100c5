//! Points change owner at any step; the file is the same as if they had not.

mod common;

use std::sync::Mutex;

use afflux_comm::{Communicator, CountingCommunicator, threads};
use afflux_container::{ElementType, SeriesFile};
use afflux_series::{
    Duplicates, LocalPoints, Orphans, Point, PointGrid, ProbeSet, RebalanceError, SeriesWriter, SetId, Statistics,
    Variable,
};
use common::{Owners, Shape, Workload, check, differences, write};

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

const STEPS: [u64; 5] = [0, 3, 9, 10, 27];

/// "Results are byte-identical with the run that was not rebalanced where flushes fall alike."
#[test]
fn any_number_of_ranks_any_owners_at_any_step() {
    let directory = tempfile::tempdir().unwrap();
    let (plain, file) = (directory.path().join("plain.nc"), directory.path().join("run.nc"));
    let still = Workload { checkpoints: STEPS.to_vec(), ..Workload::of(sets()) };
    write(&plain, 3, &still);
    check(&plain, &still);
    let expected = std::fs::read(&plain).unwrap();
    let maps = [Owners::RoundRobin, Owners::OnlyRank(1), Owners::Scattered, Owners::OnlyRank(0), Owners::Blocks];
    for ranks in [1, 2, 3, 4, 7] {
        for turn in 0..maps.len() {
            let owner = |index: usize| maps[(index + turn) % maps.len()];
            let rebalances = STEPS.iter().enumerate().map(|(index, &step)| (step, owner(index))).collect();
            write(&file, ranks, &Workload { owners: owner(4), rebalances, ..Workload::of(sets()) });
            let found = std::fs::read(&file).unwrap();
            let differing = expected.iter().zip(&found).position(|(left, right)| left != right);
            assert_eq!((differing, found.len()), (None, expected.len()), "{ranks} ranks, {turn}");
            std::fs::remove_file(&file).unwrap();
        }
    }
}

/// "... else every dataset and attribute outside the group `afflux`."
#[test]
fn flushes_that_fall_otherwise_leave_the_datasets_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let (plain, file) = (directory.path().join("plain.nc"), directory.path().join("run.nc"));
    write(&plain, 2, &Workload::of(sets()));
    let rebalances = vec![(4, Owners::Scattered), (5, Owners::RoundRobin), (21, Owners::OnlyRank(2))];
    let workload = Workload { rebalances, ..Workload::of(sets()) };
    write(&file, 4, &workload);
    check(&file, &workload);
    assert_eq!(differences(&plain, &file), "");
}

#[test]
fn many_points_go_through_the_directory_of_all_ranks() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let set = Shape { name: String::new(), points: 9_000, variables: vec![("u", ElementType::F32, None)], cadence: 1 };
    let rebalances = vec![(1, Owners::Scattered), (3, Owners::RoundRobin), (5, Owners::OnlyRank(3))];
    let workload = Workload { rebalances, steps: 0..7, chunk_bytes: 1 << 16, ..Workload::of(vec![set]) };
    write(&file, 5, &workload);
    check(&file, &workload);
}

fn at(id: i64) -> Point {
    Point::new(id, id as f64, 0.0, 0.0)
}

/// Three ranks with two points each; `body` gets the writer behind the row of step 3.
fn with_run<T: Send>(
    set: impl Fn(ProbeSet) -> ProbeSet + Sync,
    body: impl Fn(&dyn Communicator, &mut SeriesWriter) -> T + Sync,
) -> (Vec<T>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let results = threads::run(3, |comm| {
        let own = i64::try_from(2 * comm.rank()).unwrap();
        let points = [at(own), at(own + 1)];
        let described = set(ProbeSet::new("").points(points).variable(Variable::f64("u")));
        let mut run = SeriesWriter::at(&path).set(described).chunk_steps(4).window_steps(3).open(&comm).unwrap();
        for step in 0..=3_u64 {
            let row = [own, own + 1].map(|id| id as f64 + step as f64 / 16.0);
            run.append(SetId(0), step, step as f64, &[(&row).into()]).unwrap();
        }
        let result = body(&comm, &mut run);
        run.close().unwrap();
        result
    });
    (results, directory)
}

fn series_are_whole(directory: &tempfile::TempDir, rows: u64) {
    let file = SeriesFile::open(directory.path().join("run.nc")).unwrap();
    assert!(file.verify(&mut |_| {}).is_whole());
    for id in 0..6_u32 {
        let expected: Vec<f64> = (0..rows).map(|step| f64::from(id) + step as f64 / 16.0).collect();
        assert_eq!(file.series(0, 0, u64::from(id), 0, 0..rows).unwrap(), expected, "point {id}");
    }
}

/// "Points lost or doubled by the new map are refused by name and the old map stays in force (one verdict on all ranks)."
#[test]
fn a_map_that_loses_or_doubles_points_is_refused_by_name() {
    let maps: [(&str, [Vec<i64>; 3]); 5] = [
        ("1 point has no owner (no owner: 4)", [vec![0, 1], vec![2, 3], vec![5]]),
        ("1 point has several (several: 3 (ranks 0 and 1))", [vec![0, 1, 3], vec![2, 3], vec![4, 5]]),
        ("1 point has several (several: 3 (ranks 1 and 1))", [vec![0, 1], vec![2, 3, 3], vec![4, 5]]),
        ("1 id is not in the set (not in the set: 9 (rank 2))", [vec![0, 1], vec![2, 3], vec![4, 5, 9]]),
        ("6 points have no owner (no owner: 0, 1, 2, 3, 4, 5)", [vec![], vec![], vec![]]),
    ];
    let (errors, directory) = with_run(
        |set| set,
        |comm, run| {
            let errors: Vec<String> = maps
                .iter()
                .map(|(_, map)| {
                    let points = map[comm.rank()].iter().map(|&id| at(id)).collect::<Vec<_>>();
                    let error = run.rebalance(SetId(0), points).unwrap_err();
                    assert!(matches!(error, RebalanceError::Points { .. }) && !error.is_final(), "{error}");
                    error.to_string()
                })
                .collect();
            // The old owners are in force.
            let own = 2.0 * comm.rank() as f64;
            for step in 4..=6_u64 {
                run.append(
                    SetId(0),
                    step,
                    step as f64,
                    &[(&[own, own + 1.0].map(|id| id + step as f64 / 16.0)).into()],
                )
                .unwrap();
            }
            errors
        },
    );
    for errors in errors {
        for ((needle, _), error) in maps.iter().zip(errors) {
            assert!(error.contains(needle), "{error}\nlacks {needle}");
        }
    }
    series_are_whole(&directory, 7);
}

#[test]
fn calls_that_cannot_be_are_refused_on_every_rank_and_the_run_goes_on() {
    let (_, directory) = with_run(
        |set| set,
        |comm, run| {
            let own = i64::try_from(2 * comm.rank()).unwrap();
            let points = || [at(own), at(own + 1)];
            let odd = comm.rank() == 1;
            let error = run.rebalance(SetId(usize::from(odd)), points()).unwrap_err();
            assert!(error.to_string().contains("different sets, 0 and 1"), "{error}");
            let error = run.rebalance(SetId(7), points()).unwrap_err();
            assert!(error.to_string().contains("there is no set 7"), "{error}");
            let nowhere = Point::new(own, if odd { f64::NAN } else { 0.0 }, 0.0, 0.0);
            let error = run.rebalance(SetId(0), [nowhere, at(own + 1)]).unwrap_err();
            assert!(error.to_string().contains("point 2 has the coordinates"), "{error}");
            // One rank is a step ahead.
            let row = |step: u64| [own, own + 1].map(|id| id as f64 + step as f64 / 16.0);
            if odd {
                run.append(SetId(0), 4, 4.0, &[(&row(4)).into()]).unwrap();
            }
            let error = run.rebalance(SetId(0), points()).unwrap_err();
            assert!(error.to_string().contains("different steps, 3 and 4"), "{error}");
            if !odd {
                run.append(SetId(0), 4, 4.0, &[(&row(4)).into()]).unwrap();
            }
            run.rebalance(SetId(0), points()).unwrap();
            run.append(SetId(0), 5, 5.0, &[(&row(5)).into()]).unwrap();
        },
    );
    series_are_whole(&directory, 6);
}

#[test]
fn a_row_of_several_sets_or_patches_must_be_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    threads::run(2, |comm| {
        let id = i64::try_from(comm.rank()).unwrap();
        let set = |name: &str| ProbeSet::new(name).points([at(id)]).variable(Variable::f64("u"));
        let mut run =
            SeriesWriter::at(&path).set(set("a")).set(set("b").points([at(id + 2)]).every(2)).open(&comm).unwrap();
        let row: [f64; 1] = [1.0];
        run.append(SetId(0), 0, 0.0, &[(&row).into()]).unwrap();
        let error = run.rebalance(SetId(0), [at(id)]).unwrap_err();
        assert!(error.to_string().contains("set `b` has no whole row for step 0"), "{error}");
        run.append_patch(SetId(1), 0, 0, 0.0, &[(&row).into()]).unwrap();
        assert!(run.rebalance(SetId(0), [at(id)]).is_err());
        run.append_patch(SetId(1), 1, 0, 0.0, &[(&row).into()]).unwrap();
        run.rebalance(SetId(0), [at(1 - id)]).unwrap();
        run.append(SetId(0), 1, 0.0, &[(&row).into()]).unwrap();
        run.rebalance(SetId(1), [at(1 - id), at(3 - id)]).unwrap();
        run.close().unwrap();
    });
    assert!(SeriesFile::open(&path).unwrap().verify(&mut |_| {}).is_whole());
}

/// "Also patch by patch as at registration; duplicates policy as at registration; a rank may end with no points."
#[test]
fn patches_shared_faces_and_points_that_nobody_had() {
    let (results, directory) = with_run(
        |set| set.duplicates(Duplicates::LowestRank).expected((0..8).map(at), Orphans::Fill),
        |comm, run| {
            // Point 3 lies on the face between ranks 0 and 1; point 7 moves into the domain, point 6 stays outside.
            let patches: [&[i64]; 2] =
                [[&[5, 0, 3][..], &[3, 1], &[]][comm.rank()], [&[4][..], &[7, 2], &[]][comm.rank()]];
            let points =
                patches.iter().fold(LocalPoints::new(), |points, ids| points.points(ids.iter().map(|&id| at(id))));
            let rebalanced = run.rebalance(SetId(0), points).unwrap();
            for step in 4..=9_u64 {
                for patch in if step % 2 == 0 { [0, 1] } else { [1, 0] } {
                    let wrong = if comm.rank() == 1 { 100.0 } else { 0.0 };
                    let value = |id: i64| id as f64 + step as f64 / 16.0 + if id == 3 { wrong } else { 0.0 };
                    let row: Vec<f64> = patches[patch].iter().map(|&id| value(id)).collect();
                    run.append_patch(SetId(0), patch, step, step as f64, &[(&row).into()]).unwrap();
                }
            }
            rebalanced
        },
    );
    series_are_whole(&directory, 10);
    assert_eq!(results.iter().map(|r| r.points_doubled).collect::<Vec<_>>(), [1, 1, 1]);
    // Rank 0 had 0 and 1, and fills 6 and 7; rank 1 had 2 and 3; rank 2 had 4 and 5 and ends with none.
    assert_eq!(results.iter().map(|r| r.points_sent).collect::<Vec<_>>(), [2, 1, 2]);
    assert_eq!(results.iter().map(|r| r.points_received).collect::<Vec<_>>(), [3, 2, 0]);
    let file = SeriesFile::open(directory.path().join("run.nc")).unwrap();
    let fill = f64::from_le_bytes(ElementType::F64.fill_value_bytes());
    assert_eq!(file.series(0, 0, 6, 0, 0..10).unwrap(), [fill; 10]);
    let expected: Vec<f64> = (0..10).map(|step| if step < 4 { fill } else { 7.0 + f64::from(step) / 16.0 }).collect();
    assert_eq!(file.series(0, 0, 7, 0, 0..10).unwrap(), expected);
}

/// "Bytes moved ~ bytes of the unfinished columns of the points that moved", and a constant number of collectives.
#[test]
fn what_moves_is_the_unfinished_columns_of_the_points_that_move() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let mut calls = Vec::new();
    for (slab, window_steps) in [(10_u64, 7_u64), (2_000, 7), (2_000, 40)] {
        let counted = threads::run(4, |comm| {
            let counting = CountingCommunicator::new(&comm);
            // A slab of a grid a rank; the borders move by one tenth of a slab.
            let grid = PointGrid::spread([0.0; 3], [1.0; 3], [4 * slab, 1, 3]);
            let block = |shift: u64| {
                let border = |rank: u64| if rank.is_multiple_of(4) { rank * slab } else { rank * slab + shift };
                let rank = comm.rank() as u64;
                grid.block([border(rank)..border(rank + 1), 0..1, 0..3])
            };
            let set = ProbeSet::new("").grid(block(0)).variable(Variable::f64("u")).variable(Variable::f32("v"));
            let mut run = SeriesWriter::at(&path)
                .set(set)
                .chunk_steps(16)
                .window_steps(window_steps)
                // Else a message of the flush before may fall into the rebalance.
                .background(false)
                .open(&counting)
                .unwrap();
            let append = |run: &mut SeriesWriter, shift: u64, steps: std::ops::Range<u64>| {
                let length = usize::try_from(block(shift).len()).unwrap();
                for step in steps {
                    run.append(
                        SetId(0),
                        step,
                        0.0,
                        &[(&vec![1.0_f64; length]).into(), (&vec![2.0_f32; length]).into()],
                    )
                    .unwrap();
                }
            };
            append(&mut run, 0, 0..37);
            let before = counting.counts().collective_calls();
            let rebalanced = run.rebalance(SetId(0), LocalPoints::new().grid(block(slab / 10))).unwrap();
            let calls = counting.counts().collective_calls() - before;
            append(&mut run, slab / 10, 37..50);
            (rebalanced, calls, run.close().unwrap())
        });
        // 37 rows are two columns of 16 and five rows more.
        let moved_points = 3 * 3 * (slab / 10);
        let sent: u64 = counted.iter().map(|(rebalanced, _, _)| rebalanced.bytes_sent).sum();
        assert_eq!(sent, moved_points * 5 * 12);
        let Statistics { rebalances, rebalance_bytes, .. } = counted[2].2;
        assert_eq!((rebalances, rebalance_bytes), (1, sent));
        calls.push(counted[0].1);
        assert!(SeriesFile::open(&path).unwrap().verify(&mut |_| {}).is_whole());
        std::fs::remove_file(&path).unwrap();
    }
    assert!(calls.iter().all(|&count| count == calls[0]), "{calls:?}");
}

#[test]
fn before_the_first_row_and_after_the_last() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.nc");
    let seen = Mutex::new(0);
    threads::run(3, |comm| {
        let mine = |shift: usize| (comm.rank() + shift).is_multiple_of(3);
        let points = |shift: usize| (0..4).filter(|_| mine(shift)).map(at).collect::<Vec<_>>();
        let set = ProbeSet::new("").points(points(0)).variable(Variable::f64("u"));
        let mut run = SeriesWriter::at(&path).set(set).open(&comm).unwrap();
        run.rebalance(SetId(0), points(1)).unwrap();
        let row: Vec<f64> = points(1).iter().map(|point| point.x).collect();
        run.append(SetId(0), 7, 0.0, &[(&row).into()]).unwrap();
        run.rebalance(SetId(0), points(2)).unwrap();
        *seen.lock().unwrap() += run.close().unwrap().rebalances;
    });
    assert_eq!(*seen.lock().unwrap(), 6);
    let file = SeriesFile::open(&path).unwrap();
    assert!(file.verify(&mut |_| {}).is_whole());
    assert_eq!(
        (0..4).map(|position| file.series(0, 0, position, 0, 0..1).unwrap()[0]).collect::<Vec<_>>(),
        [0.0, 1.0, 2.0, 3.0]
    );
}
