//! Starts the ranks of a command: those that an MPI launcher started, or threads of this process.

use crate::failure::{Code, Failure};
use afflux::comm::agree::agree;
use afflux::comm::{Communicator, threads};

/// Runs `body` on all ranks and returns the result of rank 0 (under MPI: this rank's).
///
/// Under an MPI launcher the ranks are its processes and `wanted`, where given, must be their number; else `wanted` threads are
/// started, `otherwise` if nothing is wanted. Where ranks fail, the lowest one's failure is reported, once; all processes exit
/// with its code.
pub fn run<T: Send>(
    wanted: Option<usize>,
    otherwise: usize,
    body: impl Fn(&dyn Communicator) -> Result<T, Failure> + Sync,
) -> Result<T, Failure> {
    let count = wanted.unwrap_or(otherwise);
    if count == 0 {
        return Err(Failure::usage("a run needs at least 1 rank"));
    }
    let results = threads::try_run(count, |comm| settled(&comm, body(&comm)))
        .map_err(|error| Failure::failed(format!("{error}; fewer ranks may do")))?;
    let mut first = None;
    for result in results {
        let value = result?;
        first.get_or_insert(value);
    }
    first.ok_or_else(|| Failure::failed("no rank has run"))
}

/// Collective: one verdict on all ranks. A rank that failed alone takes the others along.
fn settled<T>(comm: &dyn Communicator, result: Result<T, Failure>) -> Result<T, Failure> {
    let verdict = result.as_ref().map(|_| ()).map_err(|failure| (failure.code.number(), failure.message.clone()));
    match agree(comm, verdict, &mut []) {
        Ok(Ok(())) => result,
        Ok(Err(failure)) => {
            let other = Failure::failed(&failure.message);
            Err(Failure { code: Code::from_number(failure.code), ..other })
        }
        // Ranks have gone: what happened here says more than that.
        Err(error) => Err(result.err().unwrap_or_else(|| Failure::failed(error))),
    }
}

/// Collective: settles a step that each rank did by itself, before the ranks depend on each other again.
pub fn together<T>(comm: &dyn Communicator, result: Result<T, Failure>) -> Result<T, Failure> {
    settled(comm, result)
}

/// Processors, for commands that compute.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The MPI that the ranks speak through, in its own words; `None` for threads.
pub fn mpi_version() -> Option<String> {
    None
}
