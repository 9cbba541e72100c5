//! The heart: whatever instant the writer dies at, the file opens with plain HDF5 and shows what was sealed.
//!
//! A recording storage keeps every change of the file in order. Each prefix of that sequence, which is what a kill between
//! two writes leaves, is put into a file of its own and opened with HDF5's own driver.

use crate::recording::{Change, Log, Recording, apply};
use crate::support::{CHUNK_STEPS, Engine, check_plainly, two_sets};
use afflux_container::{ContainerWriter, Existing, SeriesFile};
use afflux_storage::MemoryStorage;
use std::path::Path;
use std::sync::Arc;

/// Runs the flushes; returns the changes and how many of them made the file before it got its name.
fn record(flushes: &[[u64; 2]], close: bool) -> (Vec<Change>, usize) {
    let log: Log = Arc::default();
    let storage = Arc::new(Recording { inner: MemoryStorage::new(), log: log.clone() });
    let path = Path::new("run.nc");
    let mut writer = ContainerWriter::create(storage, path, &two_sets(), Existing::Refuse).unwrap();
    let creation = log.lock().unwrap().len();
    let mut engine = Engine::new(two_sets());
    for rows in flushes {
        engine.flush(&mut writer, rows);
        log.lock().unwrap().push(Change::Sealed(rows.to_vec()));
    }
    if close {
        writer.close().unwrap();
    }
    (log.lock().unwrap().clone(), creation)
}

/// Checks every prefix; calls `also` with the path and the sealed rows. Returns the number of instants.
fn at_every_instant(changes: &[Change], creation: usize, mut also: impl FnMut(&Path, &[u64], &[Vec<u64>])) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.nc");
    let file = std::fs::File::create(&path).unwrap();
    let mut sealed = vec![0, 0];
    for (number, change) in changes.iter().enumerate() {
        apply(&file, change);
        if let Change::Sealed(rows) = change {
            sealed.clone_from(rows);
        }
        if number + 1 < creation {
            continue;
        }
        let shown = check_plainly(&path, &two_sets(), &sealed)
            .unwrap_or_else(|error| panic!("after change {number} of {}: {error}", changes.len()));
        also(&path, &sealed, &shown);
    }
    changes.len() - creation
}

#[test]
pub fn the_file_opens_and_shows_all_sealed_rows_at_every_instant() {
    let flushes = [[3, 0], [4, 2], [9, 5], [9, 9], [20, 30], [20, 30], [60, 58]];
    let (changes, creation) = record(&flushes, true);
    let instants = at_every_instant(&changes, creation, |_, _, shown| {
        // In a file this small the extents of a set lie close together and change in one write.
        for rows in shown {
            assert!(rows.iter().all(|other| other == &rows[0]), "datasets of one set differ: {rows:?}");
        }
    });
    assert!(instants > 300, "only {instants} instants");
}

#[test]
fn long_runs_open_at_every_instant_around_each_new_index_block() {
    // Columns 4, 20, 36, 68, ... begin new data blocks of the chunk index; super blocks come with the later ones.
    let flushes: Vec<[u64; 2]> = (1..=70).map(|column| [column * CHUNK_STEPS, column * CHUNK_STEPS]).collect();
    let (changes, creation) = record(&flushes, false);
    // Samples are the many changes and are not what moves the metadata: check the instants that follow other changes.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.nc");
    let file = std::fs::File::create(&path).unwrap();
    let mut sealed = vec![0, 0];
    let mut checked = 0;
    for (number, change) in changes.iter().enumerate() {
        apply(&file, change);
        match change {
            Change::Sealed(rows) => sealed.clone_from(rows),
            Change::Write { bytes, .. } if number >= creation && bytes[0].is_ascii_uppercase() => {
                checked += 1;
                check_plainly(&path, &two_sets(), &sealed).unwrap_or_else(|error| panic!("change {number}: {error}"));
            }
            _ => {}
        }
    }
    assert!(checked > 500, "only {checked} instants");
}

#[test]
fn our_reader_shows_the_sealed_rows_and_only_those_at_every_instant() {
    let flushes = [[3, 3], [4, 4], [9, 9], [13, 13]];
    let (changes, creation) = record(&flushes, true);
    let mut next = 0;
    at_every_instant(&changes, creation, |path, sealed, _| {
        let file = SeriesFile::open(path).unwrap();
        let rows = file.state().watermark.map_or(0, |step| step + 1);
        // The seal slot is the last write of a seal, and the promise to the caller follows at once.
        let promised = sealed[0];
        let in_flight = flushes.get(next).map_or(promised, |flush| flush[0]);
        assert!(rows == promised || rows == in_flight, "{rows} rows, {promised} promised");
        while next < flushes.len() && flushes[next][0] <= promised {
            next += 1;
        }
    });
}

/// A canary: the check must notice a file whose metadata runs ahead of its samples.
#[test]
fn the_check_notices_metadata_before_data() {
    let (changes, creation) = record(&[[9, 9]], false);
    let is_metadata = |change: &Change| matches!(change, Change::Write { bytes, .. } if [b"EA", b"OH", b"OC"].iter().any(|start| bytes.starts_with(*start)));
    let (first, rest): (Vec<Change>, Vec<Change>) = changes[creation..].iter().cloned().partition(is_metadata);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.nc");
    let file = std::fs::File::create(&path).unwrap();
    changes[..creation].iter().chain(&first).for_each(|change| apply(&file, change));
    assert!(check_plainly(&path, &two_sets(), &[0, 0]).is_err());
    rest.iter().for_each(|change| apply(&file, change));
    check_plainly(&path, &two_sets(), &[9, 9]).unwrap();
}
