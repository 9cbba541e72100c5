//! Fault countdown: the k-th write, change of length, collective call or message of a small run fails, once or for good, for every
//! k. The file is never wrong, nobody waits for ever, and all ranks come to one verdict.

mod common;

use std::path::Path;
use std::sync::Arc;

use afflux_collective::Path as WritePath;
use afflux_comm::{CommFault, CommFaults, CommTarget, Communicator, FaultyCommunicator, threads};
use afflux_container::SeriesFile;
use afflux_series::{Durability, SeriesWriter, SetId};
use afflux_storage::{Fault, FaultyStorage, Lasting, Operation, PosixStorage};
use common::{Row, Workload, probe_set};

const RANKS: usize = 3;
const ONE_NODE: [u32; RANKS] = [0; RANKS];

/// How flushes are made.
#[derive(Debug, Clone, Copy)]
struct Way {
    background: bool,
    /// Whether helper threads write, in the background.
    helped: bool,
    path: WritePath,
    durability: Durability,
}

const WAYS: [Way; 4] = [
    Way { background: true, helped: true, path: WritePath::Independent, durability: Durability::ProcessCrash },
    Way { background: true, helped: false, path: WritePath::Independent, durability: Durability::ProcessCrash },
    Way { background: true, helped: true, path: WritePath::TwoPhase, durability: Durability::ProcessCrash },
    Way { background: false, helped: false, path: WritePath::Independent, durability: Durability::ProcessCrash },
];

fn workload() -> Workload {
    Workload { steps: 0..20, window_steps: 6, chunk_steps: 4, checkpoints: vec![13], ..Workload::one_set(9) }
}

/// One rank's run, to its end or its first error.
fn run(path: &Path, comm: &dyn Communicator, storage: &FaultyStorage, way: Way) -> Result<(), String> {
    let workload = workload();
    let (set, ids) = probe_set(&workload.sets[0], workload.owners, comm);
    let mut run = SeriesWriter::at(path)
        .set(set)
        .window_steps(workload.window_steps)
        .chunk_steps(workload.chunk_steps)
        .background(way.background)
        .helper_bytes_min(if way.helped { 0 } else { u64::MAX })
        .write_path(way.path)
        .durability(way.durability)
        .storage(Arc::new(storage.clone()))
        .open(comm)
        .map_err(|error| error.to_string())?;
    for step in workload.steps.clone() {
        let row = Row::of(0, &workload.sets[0], &ids, step);
        run.append(SetId(0), step, common::time(step), &row.values()).map_err(|error| error.to_string())?;
        if workload.checkpoints.contains(&step) {
            run.checkpoint().map_err(|error| error.to_string())?;
        }
    }
    run.close().map_err(|error| error.to_string()).map(|_| ())
}

/// What is left, if anything, opens and shows whole steps from the first one on; `all` of them if nothing failed.
fn judge(what: &str, path: &Path, all: bool) {
    if !path.exists() {
        assert!(!all, "{what}: there is no file");
        return;
    }
    let file = SeriesFile::open(path).unwrap_or_else(|error| panic!("{what}: {error}"));
    let verification = file.verify(&mut |_| {});
    assert!(verification.is_whole(), "{what}: {verification:?}");
    let rows = file.sets()[0].rows_sealed;
    assert!(rows <= 20 && (!all || rows == 20), "{what}: {rows} rows");
    assert_eq!(rows, file.state().watermark.map_or(0, |step| step + 1), "{what}");
    if rows > 0 {
        common::check(path, &Workload { steps: 0..rows, ..workload() });
    }
}

/// Counts a fault of the storage down until a run does not meet it. Returns how many there were.
fn storage_countdown(way: Way, fault: impl Fn(u64) -> Fault) -> u64 {
    for nth in 1.. {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.nc");
        let storage = FaultyStorage::new(Arc::new(PosixStorage::new()));
        storage.inject(fault(nth));
        let results = threads::run(RANKS, |comm| run(&path, &comm, &storage, way));
        let failed = results.iter().filter(|result| result.is_err()).count();
        assert!(failed == 0 || failed == RANKS, "{way:?}, {nth}: one verdict on all ranks: {results:?}");
        judge(&format!("{way:?}, operation {nth}"), &path, failed == 0);
        if storage.failures() == 0 {
            assert_eq!(failed, 0, "{results:?}");
            return nth - 1;
        }
        assert_eq!(failed, RANKS, "{way:?}, operation {nth}: a fault was lost silently");
    }
    unreachable!("a run has an end")
}

#[test]
fn the_kth_write_fails_for_every_k() {
    for way in WAYS {
        for lasting in [Lasting::Once, Lasting::ForGood] {
            let writes = storage_countdown(way, |nth| Fault::disk_full(Operation::Write, nth, lasting));
            assert!(writes > 30, "{way:?}: only {writes} writes were made to fail");
        }
    }
}

#[test]
fn the_kth_change_of_length_fails_for_every_k() {
    for way in WAYS {
        assert!(storage_countdown(way, |nth| Fault::medium(Operation::SetLen, nth, Lasting::ForGood)) >= 2);
    }
}

/// Every sync has to be met by somebody: the ranks' own before the verdict of a flush, the seal's behind it.
#[test]
fn the_kth_sync_fails_for_every_k() {
    for (way, lasting) in WAYS.into_iter().zip([Lasting::Once, Lasting::ForGood].into_iter().cycle()) {
        let way = Way { durability: Durability::PowerLoss, ..way };
        let syncs = storage_countdown(way, |nth| Fault::medium(Operation::Sync, nth, lasting));
        assert!(syncs > 20, "{way:?}: only {syncs} syncs were made to fail");
    }
}

/// Counts a fault of the communicator of `rank` down, with ranks on these nodes. Returns how many there were.
fn comm_countdown(way: Way, nodes: [u32; RANKS], rank: usize, fault: impl Fn(u64) -> CommFault + Sync) -> u64 {
    let storage = FaultyStorage::new(Arc::new(PosixStorage::new()));
    for nth in 1.. {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.nc");
        let results = threads::run_on_nodes(&nodes, |comm| {
            let faults = CommFaults::default();
            if comm.rank() == rank {
                faults.inject(fault(nth));
            }
            let comm = FaultyCommunicator::new(comm, &faults);
            (run(&path, &comm, &storage, way), faults.failures())
        });
        let met = results[rank].1 > 0;
        let what = format!("{way:?}, call {nth} of rank {rank}");
        // A call that fails on one rank when the others have left it with success is known to them no more, if it is the last.
        assert_eq!(results[rank].0.is_err(), met, "{what}: {results:?}");
        judge(&what, &path, !met);
        if !met {
            assert!(results.iter().all(|(result, _)| result.is_ok()), "{what}: {results:?}");
            return nth - 1;
        }
    }
    unreachable!("a run has an end")
}

#[test]
fn the_kth_collective_call_fails_for_every_k() {
    for way in WAYS {
        for rank in 0..RANKS {
            let calls = comm_countdown(way, ONE_NODE, rank, |nth| CommFault::nth(CommTarget::AnyCall, nth));
            assert!(calls > 10, "{way:?}: only {calls} calls were made to fail");
        }
    }
}

#[test]
fn the_kth_collective_call_fails_for_good_or_after_it_was_made() {
    for way in [WAYS[0], WAYS[2]] {
        for rank in [0, 2] {
            comm_countdown(way, ONE_NODE, rank, |nth| CommFault::nth(CommTarget::AnyCall, nth).for_good());
            comm_countdown(way, ONE_NODE, rank, |nth| CommFault::nth(CommTarget::AnyCall, nth).afterwards());
        }
    }
}

#[test]
fn the_kth_message_fails_for_every_k() {
    let way = WAYS[2];
    // Ranks of one node share the buffers of an exchange and send nothing.
    let count = |rank| comm_countdown(way, [0, 1, 2], rank, |nth| CommFault::nth(CommTarget::Send, nth));
    let messages: u64 = (0..RANKS).map(count).sum();
    assert!(messages > 5, "only {messages} messages were made to fail");
}
