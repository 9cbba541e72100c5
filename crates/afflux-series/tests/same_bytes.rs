//! The file is the same, byte for byte, for any number of ranks, any owners and any way to the file; and the same in every
//! dataset for any window.

mod common;

use afflux_collective::Path as WritePath;
use afflux_container::ElementType;
use common::{Owners, Shape, Workload, check, write};

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

#[test]
fn any_number_of_ranks_any_owners_any_path() {
    let directory = tempfile::tempdir().unwrap();
    let mut reference: Option<Vec<u8>> = None;
    for ranks in [1, 2, 3, 4, 7] {
        for owners in [Owners::Blocks, Owners::RoundRobin, Owners::Scattered, Owners::OnlyRank(2)] {
            for path in [WritePath::Independent, WritePath::TwoPhase] {
                let file = directory.path().join("run.nc");
                let workload = Workload { owners, path: Some(path), ..Workload::of(sets()) };
                write(&file, ranks, &workload);
                let bytes = std::fs::read(&file).unwrap();
                match &reference {
                    None => {
                        check(&file, &workload);
                        reference = Some(bytes);
                    }
                    Some(reference) => {
                        let differing = reference.iter().zip(&bytes).position(|(left, right)| left != right);
                        assert_eq!(differing, None, "{ranks} ranks, {owners:?}, {path:?}");
                        assert_eq!(reference.len(), bytes.len());
                    }
                }
                std::fs::remove_file(&file).unwrap();
            }
        }
    }
}

#[test]
fn any_window_any_checkpoints() {
    let directory = tempfile::tempdir().unwrap();
    for (case, window_steps) in [1, 3, 7, 8, 9, 35, 100].into_iter().enumerate() {
        for checkpoints in [vec![], vec![0, 1, 12, 34]] {
            let file = directory.path().join(format!("run-{case}-{}.nc", checkpoints.len()));
            let workload = Workload { window_steps, checkpoints, ..Workload::of(sets()) };
            write(&file, 3, &workload);
            check(&file, &workload);
        }
    }
}

#[test]
fn steps_need_not_begin_at_zero() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.nc");
    let workload = Workload { steps: 101..163, ..Workload::of(sets()) };
    write(&file, 2, &workload);
    check(&file, &workload);
}
