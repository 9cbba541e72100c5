//! How many cores the ranks of a node have.

use mpi::ffi::{self, MPI_Comm};

use super::{check, int};
use crate::CommError;

/// Words of a set of cores: 1,024 of them, as many as `sched_getaffinity` tells at once.
const SET_WORDS: usize = size_of::<libc::cpu_set_t>() / size_of::<u64>();

/// Collective over `node`, whose ranks share one: the cores that any of them may use. A launcher may have bound each rank to
/// a core of its own, so one rank's cores say little.
pub(super) fn of_ranks(node: MPI_Comm, rank: usize) -> Result<usize, CommError> {
    let mine = own_set();
    let mut all = [0_u64; SET_WORDS];
    // SAFETY: both arrays have as many words as the count says.
    let code = unsafe {
        ffi::MPI_Allreduce(
            mine.as_ptr().cast(),
            all.as_mut_ptr().cast(),
            int(SET_WORDS),
            ffi::RSMPI_UINT64_T,
            ffi::RSMPI_BOR,
            node,
        )
    };
    check(code, "MPI_Allreduce", rank)?;
    let cores = count(&all);
    // Fewer than this rank's set where a control group allows it only some of their time.
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(if allowed < count(&mine) { allowed.min(cores) } else { cores })
}

/// The cores of this rank, one bit each; none when the system does not say.
fn own_set() -> [u64; SET_WORDS] {
    let mut set = [0_u64; SET_WORDS];
    // SAFETY: room for the set, whose length is given; the process itself is asked about.
    let code = unsafe { libc::sched_getaffinity(0, size_of_val(&set), set.as_mut_ptr().cast()) };
    if code == 0 { set } else { [0; SET_WORDS] }
}

fn count(set: &[u64]) -> usize {
    set.iter().map(|word| word.count_ones() as usize).sum()
}
