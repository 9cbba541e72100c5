//! A seal that is prepared ahead: the same bytes as grown and sealed in one, from another thread, and dropped where it is not sealed.

use crate::support::{CHUNK_STEPS, Engine, check_plainly, two_sets};
use afflux_container::{ContainerWriter, Existing, Seal, SetGeometry};
use afflux_storage::PosixStorage;
use std::path::Path;
use std::sync::Arc;

const FLUSHES: [[u64; 2]; 7] = [[3, 0], [4, 2], [9, 5], [9, 5], [30, 31], [31, 31], [40, 44]];

fn create(path: &Path) -> ContainerWriter {
    ContainerWriter::create(Arc::new(PosixStorage), path, &two_sets(), Existing::Refuse).unwrap()
}

/// Prepares and writes the samples here, seals on another thread.
fn flush_ahead(engine: &mut Engine, mut writer: ContainerWriter, rows: &[u64]) -> ContainerWriter {
    let file = writer.file().clone();
    let new = writer.advance(rows).unwrap();
    engine.note(new);
    let geometry: Vec<SetGeometry> = (0..rows.len()).map(|set| writer.geometry(set).clone()).collect();
    let columns = engine.write(file.as_ref(), &geometry, rows).unwrap();
    let watermark = rows.iter().max().and_then(|rows| rows.checked_sub(1));
    let seal = Seal { watermark, rows: rows.to_vec(), columns };
    let helper = std::thread::spawn(move || writer.seal(&seal).map(|()| writer));
    helper.join().unwrap().unwrap()
}

#[test]
fn the_same_bytes_after_every_seal() {
    let directory = tempfile::tempdir().unwrap();
    let [at_once, ahead] = ["at-once.nc", "ahead.nc"].map(|name| directory.path().join(name));
    let mut plain = create(&at_once);
    let mut plain_engine = Engine::new(two_sets());
    let mut writer = create(&ahead);
    let mut engine = Engine::new(two_sets());
    for rows in FLUSHES {
        plain_engine.flush(&mut plain, &rows);
        writer = flush_ahead(&mut engine, writer, &rows);
        assert!(std::fs::read(&at_once).unwrap() == std::fs::read(&ahead).unwrap(), "{rows:?}");
        check_plainly(&ahead, &two_sets(), &rows).unwrap();
    }
    plain.close().unwrap();
    writer.close().unwrap();
    assert!(std::fs::read(&at_once).unwrap() == std::fs::read(&ahead).unwrap());
}

#[test]
fn what_was_prepared_and_not_sealed_is_dropped_at_close() {
    let directory = tempfile::tempdir().unwrap();
    // One more row of the last column, or a column more.
    for more in [1, CHUNK_STEPS] {
        let path = directory.path().join(format!("{more}.nc"));
        let mut engine = Engine::new(two_sets());
        let mut writer = flush_ahead(&mut engine, create(&path), &[2, 2]);
        writer.advance(&[2 + more, 2]).unwrap();
        writer.close().unwrap();
        let shown = check_plainly(&path, &two_sets(), &[2, 2]).unwrap();
        assert!(shown.iter().flatten().all(|&rows| rows == 2), "{shown:?}");
    }
}
