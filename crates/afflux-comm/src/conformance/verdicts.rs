//! Checks of [`agree`](crate::agree::agree()) on this communicator.

use crate::agree::{Failure, agree};
use crate::{Communicator, Reduce};

pub(super) fn run(comm: &dyn Communicator) {
    let (rank, size) = (comm.rank(), comm.size());
    let mut elements = [Reduce::sum(1), Reduce::max(rank as u64)];
    assert_eq!(agree(comm, Ok(()), &mut elements), Ok(Ok(())), "no rank fails");
    assert_eq!(elements.map(|element| element.value), [size as u64, size as u64 - 1], "elements travel along");

    for failing in 0..size.min(8) {
        let outcome = if rank == failing { Err((40, format!("disk of rank {rank} is full"))) } else { Ok(()) };
        let message = format!("disk of rank {failing} is full");
        let expected = Failure { rank: failing, failed_ranks: 1, code: 40, message };
        assert_eq!(agree(comm, outcome, &mut []), Ok(Err(expected)), "rank {failing} fails");
        // All but one fail, from this rank up: the lowest speaks, an empty message travels too.
        let outcome = if rank >= failing { Err((rank.try_into().unwrap(), String::new())) } else { Ok(()) };
        let code = failing.try_into().unwrap();
        let failed_ranks = (size - failing) as u64;
        let expected = Failure { rank: failing, failed_ranks, code, message: String::new() };
        assert_eq!(agree(comm, outcome, &mut []), Ok(Err(expected)), "ranks from {failing} fail");
    }
}
