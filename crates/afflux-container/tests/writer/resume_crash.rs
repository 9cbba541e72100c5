//! Kills of a run that was killed before: the file opens, and shows what was sealed, after every change of all its lives.

use crate::recording::{Change, Log, Recording, apply};
use crate::support::{Engine, check_plainly, two_sets};
use afflux_container::{ContainerWriter, Existing, ResumeCheck, ResumeError, SeriesFile, WriteError};
use afflux_storage::{Fault, FaultyStorage, Lasting, MemoryStorage, OpenMode, Operation, PosixStorage, Storage};
use std::path::Path;
use std::sync::Arc;

const PATH: &str = "run.nc";

/// A storage in memory with a log of its changes, and faults in front of it.
struct World {
    log: Log,
    recording: Arc<Recording>,
    faulty: FaultyStorage,
}

impl World {
    fn new() -> Self {
        let log = Log::default();
        let recording = Arc::new(Recording { inner: MemoryStorage::new(), log: log.clone() });
        Self { log, faulty: FaultyStorage::new(recording.clone()), recording }
    }

    fn create(&self) -> (ContainerWriter, Engine) {
        let storage = Arc::new(self.faulty.clone());
        let writer = ContainerWriter::create(storage, Path::new(PATH), &two_sets(), Existing::Refuse);
        (writer.unwrap(), Engine::new(two_sets()))
    }

    fn resume(&self) -> Result<(ContainerWriter, Engine), ResumeError> {
        let storage = Arc::new(self.faulty.clone());
        let mut resumed = ContainerWriter::resume(storage, Path::new(PATH), &two_sets())?;
        assert_eq!(resumed.writer.check(ResumeCheck::All, &mut |_| {}).unwrap(), []);
        let engine = Engine::resumed(two_sets(), &mut resumed);
        Ok((resumed.writer, engine))
    }

    /// A flush whose samples pass by the faults.
    fn flush(&self, writer: &mut ContainerWriter, engine: &mut Engine, rows: [u64; 2]) -> Result<(), WriteError> {
        let samples = self.recording.open(Path::new(PATH), OpenMode::ReadWrite).unwrap();
        engine.try_flush(writer, samples.as_ref(), &rows)?;
        self.log.lock().unwrap().push(Change::Sealed(rows.to_vec()));
        Ok(())
    }

    fn changes(&self) -> Vec<Change> {
        self.log.lock().unwrap().clone()
    }
}

/// The lives of a file that is killed at the `nth` write of its second seal, then goes on, is killed between seals, goes on, is
/// closed, goes on, is closed; and how many changes came before that seal. `None` if the seal has fewer writes.
fn lives(nth: u64) -> Option<(Vec<Change>, usize)> {
    let world = World::new();
    let (mut writer, mut engine) = world.create();
    world.flush(&mut writer, &mut engine, [3, 3]).unwrap();
    let before = world.changes().len();
    world.faulty.inject(Fault::medium(Operation::Write, nth, Lasting::ForGood));
    let killed = world.flush(&mut writer, &mut engine, [9, 9]).is_err();
    drop(writer);
    world.faulty.clear();
    for rows in [[9, 9], [13, 13], [14, 14]] {
        let (mut writer, mut engine) = world.resume().unwrap();
        world.flush(&mut writer, &mut engine, rows).unwrap();
        if rows == [13, 13] {
            writer.close().unwrap();
        }
    }
    let (writer, _) = world.resume().unwrap();
    writer.close().unwrap();
    killed.then(|| (world.changes(), before))
}

/// The first instant after `before` changes at which plain HDF5 or our reader does not see what was sealed.
fn first_broken_instant(changes: &[Change], before: usize) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.nc");
    let file = std::fs::File::create(&path).unwrap();
    let mut sealed = vec![0, 0];
    for (number, change) in changes.iter().enumerate() {
        apply(&file, change);
        if let Change::Sealed(rows) = change {
            sealed.clone_from(rows);
        }
        if number + 1 < before {
            continue;
        }
        let instant = format!("after change {number} of {}", changes.len());
        if let Err(error) = check_plainly(&path, &two_sets(), &sealed) {
            return Some(format!("{instant}: {error}"));
        }
        match SeriesFile::open(&path) {
            Err(error) => return Some(format!("{instant}: {error}")),
            Ok(file) if file.sets().iter().zip(&sealed).any(|(set, &rows)| set.rows_sealed < rows) => {
                return Some(format!("{instant}: our reader shows fewer rows than {sealed:?}"));
            }
            Ok(_) => {}
        }
    }
    None
}

#[test]
pub fn a_file_with_several_lives_opens_at_every_instant() {
    let mut kills = 0;
    for nth in 1.. {
        let Some((changes, before)) = lives(nth) else { break };
        kills += 1;
        let broken = first_broken_instant(&changes, before);
        assert!(broken.is_none(), "kill at write {nth}, {}", broken.unwrap_or_default());
    }
    assert!(kills > 5, "only {kills} kills");
}

/// A full disk at any operation of a resume, of the seals after it and of the close: an error each time, and a file that can be
/// resumed.
#[test]
fn a_fault_at_any_operation_of_a_resume_leaves_a_file_that_resumes() {
    for operation in [Operation::Open, Operation::Read, Operation::Write, Operation::SetLen] {
        // Resuming a closed file takes a pause for its readers; reads are many.
        let closes = operation != Operation::Read;
        let mut faults = 0;
        for nth in 1.. {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(PATH);
            let mut sealed = [3, 3];
            let mut writer =
                ContainerWriter::create(Arc::new(PosixStorage), &path, &two_sets(), Existing::Refuse).unwrap();
            Engine::new(two_sets()).flush(&mut writer, &sealed);
            if closes {
                writer.close().unwrap();
            } else {
                drop(writer);
            }
            let faulty = FaultyStorage::new(Arc::new(PosixStorage));
            faulty.inject(Fault::disk_full(operation, nth, Lasting::ForGood));
            match resumed_life(&faulty, &path, &mut sealed) {
                Ok(()) => assert_eq!(faulty.failures(), 0, "{operation:?} {nth} failed unnoticed"),
                Err(error) => {
                    assert!(error.contains(&path.display().to_string()), "{error}");
                    faults += 1;
                }
            }
            check_plainly(&path, &two_sets(), &sealed).unwrap_or_else(|error| panic!("{operation:?} {nth}: {error}"));
            assert!(SeriesFile::open(&path).is_ok());
            resumed_life(&FaultyStorage::new(Arc::new(PosixStorage)), &path, &mut sealed).unwrap();
            check_plainly(&path, &two_sets(), &[13, 13]).unwrap();
            if faulty.failures() == 0 {
                break;
            }
        }
        assert!(faults > 0, "no {operation:?} was made to fail");
    }
}

/// Resumes, seals twice, closes; `sealed` follows. The error as text.
fn resumed_life(storage: &FaultyStorage, path: &Path, sealed: &mut [u64; 2]) -> Result<(), String> {
    let resumed = ContainerWriter::resume(Arc::new(storage.clone()), path, &two_sets());
    let mut resumed = resumed.map_err(|error| {
        assert!(matches!(error, ResumeError::Io { .. }), "{error}");
        error.to_string()
    })?;
    let samples = PosixStorage.open(path, OpenMode::ReadWrite).unwrap();
    let mut engine = Engine::try_resumed(two_sets(), &mut resumed).map_err(|error| error.to_string())?;
    for rows in [[9, 9], [13, 13]] {
        if rows[0] >= sealed[0] {
            let flushed = engine.try_flush(&mut resumed.writer, samples.as_ref(), &rows);
            flushed.map_err(|error| error.to_string())?;
            *sealed = rows;
        }
    }
    resumed.writer.close().map(drop).map_err(|error| error.to_string())
}
