//! Checkpoints: a run that goes on from one, on other ranks, is the run that was not interrupted; what is damaged or foreign
//! is told so on all ranks; and whatever fails while one is written, the one before it stays.

mod common;

use std::path::Path;
use std::sync::Arc;

use afflux::comm::{Communicator, threads};
use afflux::storage::{
    Fault, FaultyStorage, Lasting, MemoryStorage, OpenMode, Operation, PosixStorage, Storage, StorageFileExt,
};
use afflux_fdtd::{CheckpointError, CheckpointOptions, Model, RunOptions, Simulation};
use common::{MIXED, Recording, model};

/// A model small enough to be run many times.
const SMALL: &str = r#"
    steps = 30
    grid = { cells = [7, 6, 5], cell_size = 0.01 }
    boundaries = { x_min = "cpml", z_max = "cpml" }
    cpml = { thickness = 2 }
    [[sources]]
    position = [0.045, 0.035, 0.025]
    axis = "y"
    waveform = { kind = "ricker", frequency = 5e9 }
"#;

/// Runs a model to a step on thread ranks and saves it.
fn save(model: &Model, ranks: usize, step: u64, storage: &dyn Storage, path: &Path) -> Vec<Result<(), String>> {
    threads::run(ranks, |comm| {
        let mut simulation = Simulation::new(model, &comm).unwrap();
        (0..step).for_each(|_| simulation.step().unwrap());
        simulation.save(storage, path).map(|saved| assert_eq!(saved.step, step)).map_err(|error| error.to_string())
    })
}

/// The step of a checkpoint, read on two ranks, or the message on each.
fn restart(model: &Model, storage: &dyn Storage, path: &Path) -> Vec<Result<u64, CheckpointError>> {
    threads::run(2, |comm| Simulation::restart(model, &comm, storage, path).map(|simulation| simulation.step_index()))
}

fn bytes_of(storage: &dyn Storage, path: &Path) -> Vec<u8> {
    let file = storage.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_full_at(&mut bytes, 0).unwrap();
    bytes
}

fn put(storage: &dyn Storage, path: &Path, bytes: &[u8]) {
    let _ = storage.remove(path);
    storage.open(path, OpenMode::CreateNew).unwrap().write_all_at(bytes, 0).unwrap();
}

#[test]
fn a_run_that_goes_on_from_a_checkpoint_is_the_run_that_was_not_interrupted() {
    let model = model(MIXED);
    let whole = Recording::of(&model, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    for (before, after, step) in [(1, 1, 30), (1, 3, 1), (3, 1, 25), (4, 7, 21), (7, 2, 28), (2, 4, 59)] {
        let options = RunOptions {
            steps: Some(step),
            checkpoint: Some(CheckpointOptions { every: step, path: path.clone() }),
            ..RunOptions::default()
        };
        let (first, _) = Recording::with(&model, before, None, &options);
        let (second, _) = Recording::with(&model, after, Some(&path), &RunOptions::default());
        assert_eq!(second.steps[&0][0], step);
        assert!(first.followed_by(second) == whole, "{before} ranks to step {step}, then {after}");
    }
}

#[test]
fn borders_may_move_before_and_after_a_checkpoint() {
    let model = model(MIXED);
    let whole = Recording::of(&model, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let checkpoint = Some(CheckpointOptions { every: 12, path: path.clone() });
    let options = RunOptions { steps: Some(30), checkpoint, rebalance_every: Some(5), ..RunOptions::default() };
    let (first, _) = Recording::with(&model, 4, None, &options);
    assert_eq!(first.steps[&0].len(), 30);
    // The last of the checkpoints at steps 12 and 24.
    let options = RunOptions { rebalance_every: Some(7), ..RunOptions::default() };
    let (second, _) = Recording::with(&model, 3, Some(&path), &options);
    let options = RunOptions { steps: Some(24), ..RunOptions::default() };
    let (until, _) = Recording::with(&model, 2, None, &options);
    assert!(until.followed_by(second) == whole);
}

#[test]
fn a_checkpoint_has_the_same_bytes_for_any_number_of_ranks() {
    let model = model(MIXED);
    let storage = MemoryStorage::new();
    let bytes = |ranks: usize| {
        let name = ranks.to_string();
        assert!(save(&model, ranks, 20, &storage, Path::new(&name)).iter().all(Result::is_ok));
        bytes_of(&storage, Path::new(&name))
    };
    let alone = bytes(1);
    let layers = 3 * 11 * 9 + 2 * 13 * 3 * 9 + 13 * 11 * 3;
    assert_eq!(alone.len(), 4096 + 8 * (6 * 13 * 11 * 9 + 4 * layers), "six fields, four convolutions a layer");
    for ranks in [2, 3, 4, 7, 12] {
        assert!(bytes(ranks) == alone, "{ranks} ranks differ from one");
    }
    // What was read is written again as it was.
    let again = Path::new("again");
    threads::run(3, |comm| {
        let simulation = Simulation::restart(&model, &comm, &storage, Path::new("1")).unwrap();
        simulation.save(&storage, again).unwrap();
    });
    assert!(bytes_of(&storage, again) == alone);
}

#[test]
fn damage_is_noticed_wherever_it_is() {
    let model = model(SMALL);
    let storage = MemoryStorage::new();
    let path = Path::new("state");
    assert!(save(&model, 3, 9, &storage, path).iter().all(Result::is_ok));
    let whole = bytes_of(&storage, path);
    assert!(restart(&model, &storage, path).iter().all(|step| matches!(step, Ok(9))));
    // Every part of the file, and each value at one of its bits.
    for at in (0..whole.len()).step_by(197).chain([whole.len() - 1]) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        put(&storage, path, &damaged);
        for result in restart(&model, &storage, path) {
            let message = result.expect_err("damage is an error").to_string();
            assert!(message.contains("damaged") || at < 16, "byte {at}: {message}");
        }
    }
    for length in [0, 100, 4096, whole.len() - 8] {
        put(&storage, path, &whole[..length]);
        let results = restart(&model, &storage, path);
        assert!(matches!(&results[0], Err(error) if error.is_damage()), "{length} bytes: {results:?}");
        assert!(results[1].is_err());
    }
}

#[test]
fn foreign_files_and_other_models_are_told_on_all_ranks() {
    let small = model(SMALL);
    let storage = MemoryStorage::new();
    let message = |model: &Model, name: &str| {
        let messages: Vec<String> = restart(model, &storage, Path::new(name))
            .into_iter()
            .map(|result| result.unwrap_err().to_string())
            .collect();
        assert!(messages[1].ends_with(&messages[0]), "one verdict: {messages:?}");
        messages[0].clone()
    };
    put(&storage, Path::new("text"), b"A text of somebody's that has nothing to do with it.");
    assert!(message(&small, "text").contains("text is not a checkpoint of this solver"));
    assert!(message(&small, "absent").contains("absent: cannot open it"));
    assert!(save(&small, 1, 3, &storage, Path::new("state")).iter().all(Result::is_ok));
    let other = model(&SMALL.replace("frequency = 5e9", "frequency = 4e9"));
    let told = message(&other, "state");
    assert!(told.contains("another model: `sources` differs"), "{told}");
    let longer = model(&SMALL.replace("steps = 30", "steps = 40\ntitle = \"longer\""));
    assert!(restart(&longer, &storage, Path::new("state")).iter().all(|step| matches!(step, Ok(3))));
}

#[test]
fn whatever_fails_the_checkpoint_before_stays() {
    let model = model(SMALL);
    let (old, new) = (5, 8);
    let kinds = [
        Operation::Open,
        Operation::Write,
        Operation::Sync,
        Operation::Rename,
        Operation::SyncDirectory,
        Operation::SetLen,
        Operation::Remove,
    ];
    let mut failures = 0;
    for (kind, lasting) in kinds.into_iter().flat_map(|kind| [Lasting::Once, Lasting::ForGood].map(|l| (kind, l))) {
        for nth in 1.. {
            let memory = Arc::new(MemoryStorage::new());
            let path = Path::new("state");
            assert!(save(&model, 2, old, &*memory, path).iter().all(Result::is_ok));
            // One that a killed run left, which is in the way.
            put(&*memory, Path::new("state.new"), b"half a check");
            let faulty = FaultyStorage::new(Arc::clone(&memory) as Arc<dyn Storage>);
            faulty.inject(Fault::disk_full(kind, nth, lasting));
            let results = save(&model, 3, new, &faulty, path);
            let step = restart(&model, &*memory, path)[0].as_ref().map(|step| *step).unwrap();
            if results.iter().all(Result::is_ok) {
                assert_eq!(step, new);
                break;
            }
            failures += 1;
            assert!(results.iter().all(Result::is_err), "{kind:?} {nth}: one verdict: {results:?}");
            assert!(results[0].as_ref().is_err_and(|text| text.contains("state")), "names the file: {results:?}");
            // The directory is synced behind the rename: then the new one has its name already, whole.
            assert!(step == old || (step == new && kind == Operation::SyncDirectory), "{kind:?} {nth}: step {step}");
        }
    }
    assert!(failures >= 12, "the faults were met: {failures}");
}

#[test]
fn a_directory_in_the_place_of_a_checkpoint_is_refused_before_the_run() {
    let model = model(SMALL);
    let folder = tempfile::tempdir().unwrap();
    let messages = threads::run(2, |comm| {
        let check = |path: &Path| {
            afflux_fdtd::check_writable(&comm, &PosixStorage::new(), path).map_err(|error| error.to_string())
        };
        let absent = check(&folder.path().join("absent/state"));
        assert!(comm.rank() > 1 || absent.unwrap_err().contains("absent/state"));
        check(&folder.path().join("fine")).unwrap();
        let simulation = Simulation::new(&model, &comm).unwrap();
        let refused = simulation.save(&PosixStorage::new(), folder.path()).unwrap_err().to_string();
        (check(folder.path()).unwrap_err(), refused)
    });
    for (checked, refused) in messages {
        assert!(
            checked.contains("not a regular file") && refused.contains("not a regular file"),
            "{checked} {refused}"
        );
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "nothing is left: {left:?}");
}
