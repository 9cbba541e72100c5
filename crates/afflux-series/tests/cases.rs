//! Situations that users of other systems reported; the names of the tests are those of the cases.

mod common;

use std::sync::Arc;

use afflux_collective::Path as WritePath;
use afflux_comm::{Communicator, CountingCommunicator, threads};
use afflux_container::{ElementType, SeriesFile};
use afflux_series::{Duplicates, Existing, Orphans, Point, PointGrid, ProbeSet, SeriesWriter, SetId, Variable};
use afflux_storage::{CountingStorage, PosixStorage};
use common::{Owners, Shape, Workload, check, run_rank, write};

const F64: &[(&str, ElementType, Option<u32>)] = &[("u", ElementType::F64, None)];

fn shape(name: &str, points: u64, cadence: u64) -> Shape {
    Shape { name: name.to_owned(), points, variables: F64.to_vec(), cadence }
}

/// HDF5's objects: a line each of `h5ls -r`.
fn objects(path: &std::path::Path) -> usize {
    let output =
        std::process::Command::new("h5ls").arg("-r").arg(path).output().expect("h5ls of hdf5-tools is installed");
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().count()
}

#[test]
fn m1_the_number_of_objects_does_not_follow_the_points() {
    let directory = tempfile::tempdir().unwrap();
    let mut counts = Vec::new();
    for points in [4, 40_000] {
        let file = directory.path().join(format!("{points}.nc"));
        let variables = vec![("J", ElementType::F32, Some(3))];
        let set = Shape { name: String::new(), points, variables, cadence: 1 };
        let workload = Workload { steps: 0..2, chunk_steps: 2, chunk_bytes: 1 << 20, ..Workload::of(vec![set]) };
        write(&file, 2, &workload);
        check(&file, &workload);
        counts.push(objects(&file));
    }
    assert_eq!(counts[0], counts[1]);
}

#[test]
fn m2_a_cadence_that_does_not_divide_the_window() {
    let directory = tempfile::tempdir().unwrap();
    for (cadence, window_steps) in [(4, 40), (4, 10), (3, 10), (7, 5), (50, 10)] {
        let file = directory.path().join(format!("{cadence}-{window_steps}.nc"));
        let workload = Workload { steps: 0..201, window_steps, ..Workload::of(vec![shape("", 6, cadence)]) };
        write(&file, 2, &workload);
        check(&file, &workload);
    }
}

#[test]
fn m3_registration_takes_the_same_collectives_for_any_number_of_points() {
    let directory = tempfile::tempdir().unwrap();
    let mut calls = Vec::new();
    for points in [3, 13_000, 100_000] {
        let file = directory.path().join(format!("{points}.nc"));
        let counted = threads::run(3, |comm| {
            let comm = CountingCommunicator::new(&comm);
            let workload = Workload { owners: Owners::Scattered, ..Workload::of(vec![shape("", points, 1)]) };
            let (run, _) = common::open(&file, &workload, &comm).unwrap();
            let calls = comm.counts().collective_calls();
            run.close().unwrap();
            calls
        });
        calls.push(counted[0]);
    }
    assert!(calls.iter().all(|&count| count == calls[0] && count < 20), "{calls:?}");
}

#[test]
fn m5_no_operation_a_step_on_a_long_run_of_one_point() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let storage = Arc::new(CountingStorage::new(Arc::new(PosixStorage::new())));
    let steps = 60_000_u64;
    threads::run(1, |comm| {
        let set = ProbeSet::new("").points([Point::new(1, 0.0, 0.0, 0.0)]).variable(Variable::f64("u"));
        let mut run = SeriesWriter::at(&file)
            .set(set)
            .window_steps(1000)
            .chunk_steps(1000)
            .storage(storage.clone())
            .open(&comm)
            .unwrap();
        for step in 0..steps {
            run.append(SetId(0), step, step as f64, &[(&[step as f64]).into()]).unwrap();
        }
        run.close().unwrap();
    });
    let writes = storage.total().writes;
    assert!(writes < steps / 10, "{writes} writes for {steps} steps in 60 windows");
    let read = SeriesFile::open(&file).unwrap();
    assert_eq!(read.series(0, 0, 0, 0, 0..steps).unwrap(), (0..steps).map(|step| step as f64).collect::<Vec<_>>());
}

#[test]
fn m7_small_sets_share_their_flushes() {
    let directory = tempfile::tempdir().unwrap();
    let mut flushes = Vec::new();
    for sets in [1, 45] {
        let file = directory.path().join(format!("{sets}.nc"));
        let shapes = (0..sets).map(|set| shape(&format!("s{set:03}"), 2, 1)).collect();
        let workload = Workload { steps: 0..40, path: Some(WritePath::TwoPhase), ..Workload::of(shapes) };
        let counted = threads::run(2, |comm| {
            let comm = CountingCommunicator::new(&comm);
            let statistics = run_rank(&file, &workload, &comm).unwrap();
            (statistics.flushes, comm.counts().collective_calls())
        });
        check(&file, &workload);
        flushes.push(counted[0]);
    }
    assert_eq!(flushes[0], flushes[1], "flushes and collective calls are those of one set");
}

#[test]
fn m8_no_value_changes_places_among_sets_and_labels() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let variables =
        vec![("p", ElementType::F64, None), ("q", ElementType::F64, None), ("v", ElementType::F64, Some(2))];
    let shapes = (0..4)
        .map(|set| Shape {
            name: format!("s{set}"),
            points: 160 + set,
            variables: variables.clone(),
            cadence: 1 + set % 2,
        })
        .collect();
    let workload = Workload { owners: Owners::Scattered, steps: 0..21, ..Workload::of(shapes) };
    write(&file, 160, &workload);
    check(&file, &workload);
}

#[test]
fn m9_the_file_is_hardly_larger_than_its_samples() {
    let directory = tempfile::tempdir().unwrap();
    for steps in [350, 503] {
        let file = directory.path().join(format!("{steps}.nc"));
        let statistics = threads::run(2, |comm| {
            let names = ["Ex", "Ey", "Ez", "Hz"];
            let half = PointGrid::spread([0.0; 3], [1.0; 3], [8, 8, 8]);
            let points = PointGrid { first_id: 512 * i64::try_from(comm.rank()).unwrap(), ..half };
            let set = names
                .iter()
                .fold(ProbeSet::new("").points(points.points()), |set, name| set.variable(Variable::f64(*name)));
            let mut run = SeriesWriter::at(&file).set(set).open(&comm).unwrap();
            let row = vec![1.25; 512];
            for step in 0..steps {
                run.append(SetId(0), step, step as f64, &[(&row).into(); 4]).unwrap();
            }
            run.close().unwrap()
        });
        let ratio = statistics[0].file_bytes as f64 / statistics[0].payload_bytes as f64;
        assert_eq!(statistics[0].payload_bytes, steps * 1024 * 32);
        assert_eq!(std::fs::metadata(&file).unwrap().len(), statistics[0].file_bytes);
        assert!(ratio <= 1.1, "{steps} steps: {ratio}");
    }
}

#[test]
fn m10_one_rank_with_forty_thousand_scattered_points() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let workload = Workload {
        owners: Owners::OnlyRank(1),
        steps: 0..3,
        chunk_bytes: 1 << 18,
        ..Workload::of(vec![shape("", 40_000, 1)])
    };
    write(&file, 3, &workload);
    check(&file, &workload);
}

#[test]
fn m11_ranks_without_points_and_windows_just_full() {
    let directory = tempfile::tempdir().unwrap();
    for owner in 0..4 {
        for steps in [7, 8, 9, 16, 17] {
            let file = directory.path().join(format!("{owner}-{steps}.nc"));
            let workload = Workload {
                owners: Owners::OnlyRank(owner),
                steps: 0..steps,
                window_steps: 8,
                ..Workload::of(vec![shape("", 3, 1)])
            };
            write(&file, 4, &workload);
            check(&file, &workload);
        }
    }
}

#[test]
fn r4_an_existing_file_is_replaced_only_when_asked() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    std::fs::write(&file, "precious").unwrap();
    let attempt = |existing| {
        let results = threads::run(3, |comm| {
            let set = ProbeSet::new("").points((comm.rank() == 1).then(|| Point::new(0, 0.0, 0.0, 0.0)));
            let writer = SeriesWriter::at(&file).set(set.variable(Variable::f64("u"))).existing(existing).open(&comm);
            writer.map(|run| run.close().unwrap()).map_err(|error| error.to_string())
        });
        results.into_iter().map(|result| result.map(|_| ())).collect::<Vec<_>>()
    };
    for result in attempt(Existing::Refuse) {
        assert!(result.unwrap_err().contains("run.nc"));
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    assert!(attempt(Existing::Replace).into_iter().all(|result| result.is_ok()));
    SeriesFile::open(&file).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file stays");
}

#[test]
fn r9_shared_faces_outside_points_and_patches() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let at = |id: i64| Point::new(id, id as f64, 0.0, 0.0);
    let warnings = threads::run(2, |comm| {
        // Point 5 lies on the face between the ranks, points 6 and 7 in one cell, point 9 nowhere.
        let patches =
            if comm.rank() == 0 { [vec![at(5), at(1)], vec![at(3)]] } else { [vec![at(5)], vec![at(7), at(6)]] };
        let set = ProbeSet::new("")
            .points(patches[0].clone())
            .points(patches[1].clone())
            .variable(Variable::f64("u"))
            .duplicates(Duplicates::LowestRank)
            .expected([1, 3, 5, 6, 7, 9].map(at), Orphans::Fill);
        let mut run = SeriesWriter::at(&file).set(set).chunk_steps(4).window_steps(3).open(&comm).unwrap();
        for step in 0..11_u64 {
            // Patches in either order; rank 1 disagrees about point 5, and is not asked.
            for patch in if step % 2 == 0 { [0, 1] } else { [1, 0] } {
                let row: Vec<f64> = patches[patch]
                    .iter()
                    .map(|point| 100.0 * comm.rank() as f64 + point.x + step as f64 / 16.0)
                    .collect();
                run.append_patch(SetId(0), patch, step, step as f64, &[(&row).into()]).unwrap();
            }
        }
        let warnings = run.warnings().to_vec();
        run.close().unwrap();
        warnings
    });
    assert_eq!(warnings[0], warnings[1]);
    assert!(warnings[0][0].contains("5 (ranks 0 and 1)") && warnings[0][1].contains('9'), "{warnings:?}");
    let read = SeriesFile::open(&file).unwrap();
    assert!(read.verify(&mut |_| {}).is_whole());
    assert_eq!(read.points(0).unwrap().ids, [1, 3, 5, 6, 7, 9]);
    for (position, base) in [(0, 1.0), (1, 3.0), (2, 5.0), (3, 106.0), (4, 107.0)] {
        let expected: Vec<f64> = (0..11).map(|step| base + f64::from(step) / 16.0).collect();
        assert_eq!(read.series(0, 0, position, 0, 0..11).unwrap(), expected);
    }
    assert_eq!(read.series(0, 0, 5, 0, 0..11).unwrap(), [f64::from_le_bytes(ElementType::F64.fill_value_bytes()); 11]);
}

#[test]
fn r10_two_sets_of_one_name_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let results = threads::run(2, |comm| {
        let set = |name: &str| {
            ProbeSet::new(name)
                .points([Point::new(i64::try_from(comm.rank()).unwrap(), 0.0, 0.0, 0.0)])
                .variable(Variable::f64("u"))
        };
        SeriesWriter::at(&file).set(set("a")).set(set("a")).open(&comm).map(|_| ()).map_err(|error| error.to_string())
    });
    for result in results {
        let message = result.unwrap_err();
        assert!(message.contains("twice") || message.contains("more than once"), "{message}");
        assert!(message.contains("\"a\"") || message.contains("`a`"), "{message}");
    }
    assert!(!file.exists());
}
