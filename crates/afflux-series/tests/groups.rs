//! Groups: several files that read as the one there would be without groups; resumed, killed, wrong.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use afflux_comm::{Communicator, threads};
use afflux_container::{ElementType, SeriesFile, group_path, write_master};
use afflux_series::{Existing, Point, ProbeSet, Replay, SeriesWriter, SetId, Variable};
use common::{Owners, Row, Shape, Workload, attempt, check, differences, open, probe_set, time, write};

/// Two sets of different cadence; few enough points for odd shares, enough for every group of seven ranks to have some.
fn workload(groups: usize) -> Workload {
    let set = |name: &str, points, cadence, variables| Shape { name: name.to_owned(), points, variables, cadence };
    let mut workload = Workload::of(vec![
        set("", 42, 1, vec![("Ex", ElementType::F64, None), ("J", ElementType::F32, Some(3))]),
        set("far", 28, 3, vec![("count", ElementType::I64, None)]),
    ]);
    workload.groups = groups;
    workload
}

fn assert_same(single: &Path, master: &Path) {
    assert_eq!(differences(single, master), "", "{}", master.display());
}

#[test]
fn any_groups_of_any_ranks_read_as_one_shared_file() {
    let folder = tempfile::tempdir().unwrap();
    let single = folder.path().join("single.nc");
    write(&single, 1, &workload(1));
    let cases = [
        (2, 2, Owners::Blocks),
        (3, 2, Owners::Scattered),
        (3, 3, Owners::RoundRobin),
        (4, 2, Owners::RoundRobin),
        (4, 3, Owners::Blocks),
        (7, 2, Owners::Scattered),
        (7, 7, Owners::RoundRobin),
    ];
    for (ranks, groups, owners) in cases {
        let master = folder.path().join(format!("{ranks}-{groups}.nc"));
        let workload = Workload { owners, ..workload(groups) };
        write(&master, ranks, &workload);
        check(&master, &workload);
        assert_same(&single, &master);
        let listed = SeriesFile::open(&master).unwrap().groups();
        let paths: Vec<PathBuf> = listed.iter().map(|group| group.path.clone()).collect();
        assert_eq!(paths, (0..groups).map(|group| group_path(&master, group)).collect::<Vec<_>>());
        assert!(listed.iter().all(|group| group.closed && group.watermark == Some(34)), "{listed:?}");
    }
}

#[test]
fn the_folder_can_be_moved() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    fs::create_dir(&before).unwrap();
    let single = folder.path().join("single.nc");
    write(&single, 1, &workload(1));
    write(&before.join("run.nc"), 2, &workload(2));
    fs::rename(&before, &after).unwrap();
    check(&after.join("run.nc"), &workload(2));
    assert_same(&single, &after.join("run.nc"));
}

#[test]
fn points_move_within_a_group_and_not_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let single = folder.path().join("single.nc");
    write(&single, 1, &workload(1));
    let master = folder.path().join("run.nc");
    // Two groups of one rank's neighbours: all points of a group are on its first rank for a while.
    let outcome = threads::run(4, |comm| {
        let workload = workload(2);
        let (mut run, mut ids) = open(&master, &workload, &comm).unwrap();
        for step in workload.steps.clone() {
            for (set, shape) in workload.sets.iter().enumerate() {
                if run.is_due(SetId(set), step) {
                    let row = Row::of(set, shape, &ids[set], step);
                    run.append(SetId(set), step, time(step), &row.values()).unwrap();
                }
            }
            if step == 13 {
                for (set, shape) in workload.sets.iter().enumerate() {
                    // Rank 2k + 1 gives its points to rank 2k.
                    let of_group = |index: &u64| Owners::Blocks.of(*index, shape.points, 4) / 2 == comm.rank() / 2;
                    let indices = (0..shape.points).filter(|index| comm.rank() % 2 == 0 && of_group(index));
                    let point = |index| Point::new(common::id_of(index, shape.points), 0.0, 0.0, 0.0);
                    let points: Vec<Point> = indices.map(point).collect();
                    ids[set] = points.iter().map(|point| point.id).collect();
                    run.rebalance(SetId(set), points).unwrap();
                }
                let wrong: Vec<Point> = (0..3).map(|id| Point::new(3 * id + 3, 0.0, 0.0, 0.0)).collect();
                let everywhere = if comm.rank() == 0 { wrong.clone() } else { Vec::new() };
                let refused = run
                    .rebalance(SetId(0), everywhere)
                    .map(drop)
                    .map_err(|error| (error.is_final(), error.to_string()));
                assert!(matches!(&refused, Err((false, _))), "{refused:?}");
            }
        }
        run.close().map(drop).map_err(|error| error.to_string())
    });
    assert_eq!(outcome, vec![Ok(()); 4]);
    check(&master, &workload(2));
    assert_same(&single, &master);
}

#[test]
fn killed_and_resumed_on_other_ranks_it_is_the_uninterrupted_run() {
    let folder = tempfile::tempdir().unwrap();
    let single = folder.path().join("single.nc");
    write(&single, 3, &workload(1));
    for (case, replay) in [Replay::Skip, Replay::Compare, Replay::Rewrite].into_iter().enumerate() {
        let master = folder.path().join(format!("run-{case}.nc"));
        write(&master, 4, &Workload { steps: 0..25, is_killed: true, ..workload(2) });
        let file = SeriesFile::open(&master).unwrap();
        assert!(file.groups().iter().all(|group| !group.closed));
        let watermark = file.state().watermark.unwrap();
        drop(file);
        let steps = watermark.saturating_sub(5)..35;
        let resumed = Workload { steps, existing: Existing::Resume(replay), ..workload(2) };
        write(&master, 2, &resumed);
        check(&master, &workload(2));
        assert_same(&single, &master);
    }
}

/// Runs to step 20 on 2 ranks of a group each; group 0 then seals and group 1 does not.
fn one_group_ahead(master: &Path) {
    threads::run(2, |comm| {
        let workload = workload(2);
        let (mut run, ids) = open(master, &workload, &comm).unwrap();
        for step in 0..20 {
            for (set, shape) in workload.sets.iter().enumerate().filter(|(_, shape)| step % shape.cadence == 0) {
                let row = Row::of(set, shape, &ids[set], step);
                run.append(SetId(set), step, time(step), &row.values()).unwrap();
            }
            if step == 6 || (step == 19 && comm.rank() == 0) {
                run.checkpoint().unwrap();
            }
        }
        comm.barrier().unwrap();
    });
}

#[test]
fn readers_cut_at_the_smallest_watermark_and_a_resume_begins_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let (single, master) = (folder.path().join("single.nc"), folder.path().join("run.nc"));
    write(&single, 1, &workload(1));
    one_group_ahead(&master);
    let file = SeriesFile::open(&master).unwrap();
    let watermarks: Vec<_> = file.groups().iter().map(|group| group.watermark).collect();
    assert_eq!(watermarks[0], Some(19));
    let smallest = watermarks[1].unwrap();
    assert!(smallest < 19);
    assert_eq!(file.state().watermark, Some(smallest));
    assert_eq!(file.sets()[0].rows_sealed, smallest + 1);
    assert_eq!(file.sets()[1].steps_sealed.unwrap().1, (smallest / 3 * 3).cast_signed());
    assert_eq!(file.series(0, 0, 41, 0, 0..smallest + 1).unwrap().len() as u64, smallest + 1);
    assert!(file.series(0, 0, 41, 0, 0..smallest + 2).is_err());
    assert!(file.verify(&mut |_| {}).is_whole());
    let files: Vec<PathBuf> = file.groups().into_iter().map(|group| group.path).collect();
    drop(file);
    // A master made now shows the same to everybody.
    assert_eq!(write_master(&master, &files).unwrap(), [smallest + 1, smallest / 3 + 1]);
    let hole = Workload { steps: smallest + 4..35, existing: Existing::Resume(Replay::Skip), ..workload(2) };
    let failed = attempt(&master, 2, &hole);
    assert!(
        failed.iter().any(|result| result.as_ref().is_err_and(|error| error.contains("would be missing"))),
        "{failed:?}"
    );
    write(&master, 2, &Workload { steps: smallest + 1..35, ..hole });
    check(&master, &workload(2));
    assert_same(&single, &master);
}

#[test]
fn what_cannot_be_is_refused_by_name_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let master = folder.path().join("run.nc");
    let says = |ranks, workload: &Workload, text: &str| {
        let results = attempt(&master, ranks, workload);
        assert!(
            results.iter().all(|result| result.as_ref().is_err_and(|error| error.contains(text))),
            "{text}: {results:?}"
        );
    };
    says(2, &workload(3), "3 groups of 2 ranks");
    says(3, &Workload { owners: Owners::OnlyRank(0), ..workload(3) }, "group 1 has none of its points");
    let doubled = threads::run(2, |comm| {
        let set = ProbeSet::new("").points([Point::new(5, 0.0, 0.0, 0.0)]).variable(Variable::f64("v"));
        SeriesWriter::at(&master).set(set).groups(2).open(&comm).map(drop).map_err(|error| error.to_string())
    });
    assert!(doubled.iter().all(|result| result.as_ref().is_err_and(|error| error.contains('5'))), "{doubled:?}");
    let disagree = threads::run(2, |comm| {
        let (set, _) = probe_set(&workload(1).sets[0], Owners::Blocks, &comm);
        let builder = SeriesWriter::at(&master).set(set).groups(1 + comm.rank());
        builder.open(&comm).map(drop).map_err(|error| error.to_string())
    });
    assert!(disagree.iter().all(|result| result.as_ref().is_err_and(|error| error.contains("groups"))), "{disagree:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");

    write(&master, 2, &workload(2));
    says(2, &workload(2), "exists already");
    let resume = |groups| Workload { existing: Existing::Resume(Replay::Skip), ..workload(groups) };
    says(3, &resume(3), "2 groups, not 3");
    says(2, &resume(1), "is the master of 2 groups");
    // Three ranks in two groups have other points.
    says(3, &resume(2), "cannot be resumed by a run that differs");
    check(&master, &workload(2));
    write(&master, 2, &Workload { existing: Existing::Replace, ..workload(2) });
    check(&master, &workload(2));

    let lost = group_path(&master, 1);
    fs::rename(&lost, folder.path().join("elsewhere")).unwrap();
    says(2, &resume(2), "run.group-1.nc");
    assert!(SeriesFile::open(&master).unwrap_err().to_string().contains("run.group-1.nc"));
    fs::write(&lost, b"no longer what it was").unwrap();
    assert!(SeriesFile::open(&master).unwrap_err().to_string().contains("run.group-1.nc"));
    says(2, &resume(2), "run.group-1.nc");
}

#[test]
fn a_group_that_gives_up_fails_the_others_at_their_close() {
    let folder = tempfile::tempdir().unwrap();
    let master = folder.path().join("run.nc");
    let results = threads::run(4, |comm| {
        let workload = workload(2);
        let (mut run, ids) = open(&master, &workload, &comm).unwrap();
        if comm.rank() < 2 {
            return Err("gave up".to_owned());
        }
        for step in workload.steps.clone() {
            for (set, shape) in workload.sets.iter().enumerate().filter(|(_, shape)| step % shape.cadence == 0) {
                let row = Row::of(set, shape, &ids[set], step);
                run.append(SetId(set), step, time(step), &row.values()).map_err(|error| error.to_string())?;
            }
        }
        run.close().map(drop).map_err(|error| error.to_string())
    });
    for result in &results[2..] {
        assert!(result.as_ref().is_err_and(|error| error.contains("group 0 was given up")), "{results:?}");
    }
    assert_eq!(SeriesFile::open(&master).unwrap().state().watermark, None);
    assert_eq!(SeriesFile::open(group_path(&master, 1)).unwrap().state().watermark, Some(34), "sealed all the same");
}
