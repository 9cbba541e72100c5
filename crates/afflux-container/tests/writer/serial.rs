//! The baseline writes the same values.

use crate::support::{check_plainly, two_sets, value};
use afflux_container::{DatasetIndex, ElementType, SerialWindow, SerialWriter};

#[test]
fn the_baseline_writes_the_same_values() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gather.nc");
    let spec = two_sets();
    let mut writer = SerialWriter::create(&path, &spec).unwrap();
    for (set, windows) in [(0, vec![(0, 3), (3, 10), (10, 11)]), (1, vec![(0, 6)])] {
        for (first, end) in windows {
            let rows = first..end;
            let set_spec = &spec.sets[set];
            let buffers: Vec<Vec<u8>> = (0..set_spec.variables.len())
                .map(|variable| {
                    let mut bytes = Vec::new();
                    for position in 0..set_spec.points.len() as u64 {
                        for component in 0..set_spec.variables[variable].values() as u64 {
                            for row in rows.clone() {
                                let number = value(set, DatasetIndex::Variable(variable), position, component, row);
                                match set_spec.variables[variable].element {
                                    ElementType::F32 => bytes.extend((number as f32).to_le_bytes()),
                                    ElementType::F64 => bytes.extend((number as f64).to_le_bytes()),
                                    ElementType::I32 => bytes.extend(i32::try_from(number).unwrap().to_le_bytes()),
                                    ElementType::I64 => bytes.extend(number.to_le_bytes()),
                                }
                            }
                        }
                    }
                    bytes
                })
                .collect();
            let variables: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
            let steps: Vec<i64> = rows.clone().map(|row| i64::try_from(row).unwrap()).collect();
            let times: Vec<f64> = rows.clone().map(|row| (row * 2) as f64).collect();
            writer.write_window(set, SerialWindow { steps: &steps, times: &times, variables: &variables }).unwrap();
        }
    }
    writer.close().unwrap();
    assert_eq!(check_plainly(&path, &spec, &[11, 6]).unwrap(), [vec![11; 5], vec![6; 4]]);
}
