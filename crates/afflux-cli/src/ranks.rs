//! Starts the ranks of a command: those that an MPI launcher started, or threads of this process.

use crate::failure::{Code, Failure};
use afflux::comm::agree::agree;
use afflux::comm::launch::{self, Launch};
use afflux::comm::{Communicator, threads};

/// Ranks that one process may have as threads: each needs a stack, of which systems allow some ten thousand.
const THREADS_MAX: usize = 4096;

/// Reads the argument of `--ranks`.
pub fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=THREADS_MAX) => Ok(count),
        _ => Err(format!("a process runs 1 to {THREADS_MAX} ranks; start more with mpirun, without --ranks")),
    }
}

/// Runs `body` on all ranks and returns the result of rank 0 (under MPI: this rank's).
///
/// Under an MPI launcher the ranks are its processes and `wanted`, where given, must be their number; else `wanted` threads are
/// started, `otherwise` if nothing is wanted. Where ranks fail, the lowest one's failure is reported, once; all processes exit
/// with its code. A rank that failed alone ends its process at once, since the others wait for it (a launcher ends those of
/// other processes). A launcher that does not fit this program is refused: its processes would all write the same file.
pub fn run<T: Send>(
    wanted: Option<usize>,
    otherwise: usize,
    body: impl Fn(&dyn Communicator) -> Result<T, Failure> + Sync,
) -> Result<T, Failure> {
    match launch::detect().map_err(Failure::failed)? {
        Launch::Alone => on_threads(wanted.unwrap_or(otherwise), body),
        Launch::Mpi { ranks } => match wanted {
            Some(wanted) if wanted != ranks => Err(Failure::usage(format!(
                "--ranks {wanted} under a launcher that started {ranks}: leave --ranks out, or start as many"
            ))),
            _ => on_mpi(body),
        },
    }
}

fn on_threads<T: Send>(
    count: usize,
    body: impl Fn(&dyn Communicator) -> Result<T, Failure> + Sync,
) -> Result<T, Failure> {
    let results = threads::try_run(count, |comm| together(&comm, not_alone(body(&comm))))
        .map_err(|error| Failure::failed(format!("{error}; fewer ranks may do")))?;
    let mut first = None;
    for result in results {
        let value = result?;
        first.get_or_insert(value);
    }
    first.ok_or_else(|| Failure::failed("no rank has run"))
}

#[cfg(feature = "mpi")]
fn on_mpi<T>(body: impl Fn(&dyn Communicator) -> Result<T, Failure>) -> Result<T, Failure> {
    let world = afflux::comm::mpi::MpiWorld::init().map_err(Failure::failed)?;
    let comm = world.communicator().map_err(Failure::failed)?;
    let result = not_alone(body(&comm));
    match agreed(&comm, result) {
        // One rank speaks for all.
        Err((failure, Some(rank))) if rank != comm.rank() => Err(Failure { message: String::new(), ..failure }),
        Err((failure, _)) => Err(failure),
        Ok(value) => Ok(value),
    }
}

#[cfg(not(feature = "mpi"))]
fn on_mpi<T>(_: impl Fn(&dyn Communicator) -> Result<T, Failure>) -> Result<T, Failure> {
    Err(Failure::failed("this program is built without MPI; start it without a launcher, with --ranks"))
}

/// Does not return where this rank failed alone.
fn not_alone<T>(result: Result<T, Failure>) -> Result<T, Failure> {
    match result {
        Err(failure) if failure.alone => failure.end_process(),
        result => result,
    }
}

/// Collective: settles a step that each rank did by itself, before the ranks depend on each other again. A rank that failed
/// takes the others along, with its message.
pub fn together<T>(comm: &dyn Communicator, result: Result<T, Failure>) -> Result<T, Failure> {
    agreed(comm, result).map_err(|(failure, _)| failure)
}

/// Collective: one verdict on all ranks, and the rank it comes from where the ranks could agree on it.
fn agreed<T>(comm: &dyn Communicator, result: Result<T, Failure>) -> Result<T, (Failure, Option<usize>)> {
    let verdict = result.as_ref().map(|_| ()).map_err(|failure| (failure.code.number(), failure.message.clone()));
    match agree(comm, verdict, &mut []) {
        Ok(Ok(())) => result.map_err(|failure| (failure, None)),
        Ok(Err(first)) => {
            let failure = Failure { code: Code::from_number(first.code), ..Failure::failed(&first.message) };
            Err((failure, Some(first.rank)))
        }
        // Ranks have gone: what happened here says more than that.
        Err(error) => Err((result.err().unwrap_or_else(|| Failure::failed(error)), None)),
    }
}

/// Processors, for commands that compute.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}

/// The MPI that the ranks speak through, in its own words; `None` for threads.
pub fn mpi_version() -> Option<String> {
    match (launch::detect(), launch::Build::this()) {
        (Ok(Launch::Mpi { .. }), launch::Build::Mpi { version, .. }) => Some(version),
        _ => None,
    }
}
