//! The corpus of the tests, carried out by MPI ranks: written by the oracle and by every path, compared, and read back.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use afflux_collective::{CollectiveFile, Hints, Holes, Part, Path, ReadOptions, WriteOptions, oracle};
use afflux_comm::Communicator;
use afflux_comm::mpi::MpiWorld;
use afflux_storage::{OpenMode, PosixStorage, Storage, StorageFile, StorageFileExt};

use crate::common::{SENTINEL, Workload, corpus, end, expected, payload};
use crate::watched::{WatchedFile, remove_locks};

/// How a workload is written: path, policy for holes, hints by name and value.
type Setup = (Path, Holes, &'static [(&'static str, &'static str)]);

const SETUPS: [Setup; 11] = [
    (Path::Auto, Holes::Forbidden, &[]),
    (Path::Independent, Holes::Forbidden, &[]),
    (Path::TwoPhase, Holes::Forbidden, &[]),
    (Path::TwoPhase, Holes::Forbidden, &[("cb_buffer_size", "997"), ("cb_nodes", "2")]),
    (Path::TwoPhase, Holes::Fill { gap_bytes_max: 16 }, &[("cb_buffer_size", "8192"), ("striping_unit", "512")]),
    // Plain messages instead of memory, at every depth and by every method; few aggregators receive at a time.
    (
        Path::TwoPhase,
        Holes::Forbidden,
        &[("afflux_node_memory", "disable"), ("cb_buffer_size", "2000"), ("cb_nodes", "3"), ("afflux_cb_depth", "1")],
    ),
    (
        Path::TwoPhase,
        Holes::Fill { gap_bytes_max: 16 },
        &[
            ("afflux_node_memory", "disable"),
            ("afflux_partition", "even"),
            ("afflux_cb_depth", "3"),
            ("cb_buffer_size", "3000"),
            ("cb_nodes", "4"),
            ("afflux_step_aggregators", "1"),
        ],
    ),
    (
        Path::TwoPhase,
        Holes::Forbidden,
        &[
            ("afflux_partition", "static-cyclic"),
            ("cb_nodes", "5"),
            ("cb_buffer_size", "1500"),
            ("afflux_cb_depth", "2"),
        ],
    ),
    // At most so many requests at a target: watched by whoever makes them.
    (Path::TwoPhase, Holes::Forbidden, &[("requests_per_ost", "1"), ("cb_nodes", "7"), ("cb_buffer_size", "2048")]),
    (
        Path::Auto,
        Holes::Fill { gap_bytes_max: 40 },
        &[("requests_per_ost", "2"), ("cb_nodes", "6"), ("cb_buffer_size", "1024"), ("afflux_cb_depth", "2")],
    ),
    (
        Path::TwoPhase,
        Holes::Fill { gap_bytes_max: 16 },
        &[
            ("requests_per_ost", "1"),
            ("afflux_node_memory", "disable"),
            ("afflux_partition", "group-cyclic"),
            ("cb_nodes", "5"),
            ("cb_buffer_size", "1024"),
        ],
    ),
];

/// Returns 1 on a rank that found a difference; the launcher makes that the exit code of the job.
pub fn main() -> ExitCode {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".to_owned()));
    let world = match MpiWorld::init() {
        Ok(world) => world,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let comm = world.communicator().expect("a duplicate of the world");
    let path = directory.join("afflux-oracle-mpi.tmp");
    let workloads = corpus(comm.size());
    let mut differences = 0;
    // With very many ranks the workloads in which another one is empty each time are as many: some of them stand for all.
    let far = |k: usize| k >= 12 && k + 2 < workloads.len();
    for (_, workload) in workloads.iter().enumerate().filter(|(k, _)| !far(*k)) {
        // The oracle itself is the first to be checked.
        differences += check(&comm, &path, workload, None);
        for setup in &SETUPS {
            differences += check(&comm, &path, workload, Some(setup));
        }
    }
    if comm.rank() == 0 {
        println!(
            "{differences} differences in {} workloads on {} ranks, {}",
            workloads.len(),
            comm.size(),
            afflux_comm::mpi::library_version()
        );
    }
    if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Collective: writes the workload (by the oracle without a setup), compares the file on rank 0 and reads it back.
/// Returns the number of differences that this rank saw.
fn check(comm: &dyn Communicator, path: &std::path::Path, workload: &Workload, setup: Option<&Setup>) -> u32 {
    let storage = PosixStorage::new();
    let length = usize::try_from(end(workload)).expect("small") + 50;
    if comm.rank() == 0 {
        let file = storage.open(path, OpenMode::CreateNew).expect("a new file");
        file.write_all_at(&vec![SENTINEL; length], 0).expect("write");
    }
    comm.barrier().expect("barrier");
    let mut file = storage.open(path, OpenMode::ReadWrite).expect("open");
    let own = &workload.ranks[comm.rank()];
    let data = payload(own);
    let mut differences = 0;
    if let Some((choice, holes, hints)) = setup {
        let hints = Hints::from_pairs(hints.iter().copied()).expect("hints");
        let watched = hints.requests_per_target.map(|requests| {
            let watched = Arc::new(WatchedFile::new(Arc::clone(&file), path, requests.get()));
            file = Arc::clone(&watched) as Arc<dyn StorageFile>;
            watched
        });
        let shared = CollectiveFile::new(comm, file, hints).expect("new");
        let options = WriteOptions { path: *choice, holes: *holes };
        shared.write_all(own, &[&data], &options, Part::none()).expect("write_all");
        let neighbour = &workload.ranks[(comm.rank() + 1) % comm.size()];
        let mut back = vec![0; usize::try_from(neighbour.bytes()).expect("small")];
        let mut buffers: Vec<&mut [u8]> = back.chunks_mut(99).collect();
        shared.read_all(neighbour, &mut buffers, &ReadOptions { path: *choice }, Part::none()).expect("read_all");
        differences += u32::from(back != payload(neighbour));
        // The same again, begun now and completed later, a write and a read under way at a time.
        let write = shared.start_write_all(own.clone(), data.clone(), options).expect("start_write_all");
        let read = shared.start_read_all(own.clone(), ReadOptions { path: *choice }).expect("start_read_all");
        write.wait().expect("a write under way");
        differences += u32::from(read.wait().expect("a read under way").0 != data);
        if let Some(watched) = watched {
            let excess = watched.excess.load(Ordering::Relaxed);
            if excess > 0 {
                eprintln!("rank {}: {excess} requests beyond the bound at a storage target", comm.rank());
                differences += 1;
            }
        }
    } else {
        oracle::write_all(comm, &*file, own, &[&data]).expect("oracle");
    }
    comm.barrier().expect("barrier");
    if comm.rank() == 0 {
        differences += u32::from(std::fs::read(path).expect("read") != expected(workload, length));
        storage.remove(path).expect("remove");
        remove_locks(path, 2);
    }
    if differences > 0 {
        eprintln!("rank {}: {} differs with {setup:?}", comm.rank(), workload.name);
    }
    comm.barrier().expect("barrier");
    differences
}
