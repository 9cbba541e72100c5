//! Waiting for MPI without taking the core from the rank that is waited for.

use std::ffi::c_int;
use std::ptr;
use std::time::{Duration, Instant};

use mpi::ffi::{self, MPI_Request, MPI_Status};

use super::call::Call;
use super::{check, int, is_success};
use crate::CommError;
use crate::stall::StallWatch;

/// Polls before the first yield where every rank has a core: some ten microseconds, the time of a small collective.
const SPIN_TURNS: u32 = 100;
/// A wait of this length is one for a rank that does something else; until then sleeping would only add latency.
const SLEEP_AFTER: Duration = Duration::from_millis(5);
/// The same where ranks share cores: the rank that is waited for may be waiting for this core, and a rank that yields is
/// scheduled again and again in its stead (measured: rank 0's work in HDF5 took five times as long beside three such ranks).
const SLEEP_AFTER_SHARED: Duration = Duration::from_micros(200);
/// While much data moves and ranks share cores: a wait of this length is one for a rank that has not sent yet.
const NAP_AFTER: Duration = Duration::from_millis(2);
/// Sleep between two polls then: short beside a time slice, because polls drive a transfer that goes on.
const NAP: Duration = Duration::from_micros(50);
/// The part of the time waited so far that one sleep takes: latency grows by 1/16, the load falls to almost nothing.
const SLEEP_FRACTION: u32 = 16;
/// The longest sleep between two polls.
const SLEEP_MAX: Duration = Duration::from_millis(2);

/// How a rank passes the time between polls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// This node has no more of our ranks than cores.
    pub(super) own_core: bool,
    /// The rank that waits, for messages.
    pub(super) rank: usize,
}

/// Finds out whether a wait is in vain.
pub(super) trait Lookout {
    /// The wait is for these ranks from now on; each may be named more than once.
    fn wait_for(&self, peers: &mut dyn Iterator<Item = usize>);

    /// Fails when the wait is in vain. Asked every some ten microseconds at first, later at every sleep.
    fn look(&self) -> Result<(), CommError>;

    /// The wait has lasted so long that a person is told: whom it is for, in words.
    fn whom(&self) -> String;

    /// The call of ours that waits, where it is known.
    fn call(&self) -> Option<Call> {
        None
    }
}

/// For waits of which nobody can tell.
pub(super) struct Blind;

impl Lookout for Blind {
    fn wait_for(&self, _peers: &mut dyn Iterator<Item = usize>) {}

    fn look(&self) -> Result<(), CommError> {
        Ok(())
    }

    fn whom(&self) -> String {
        "ranks that have not entered it or not sent".to_owned()
    }
}

/// Polls between two looks of a rank that does not sleep yet.
const LOOK_TURNS: u32 = 64;

/// One wait.
pub(super) struct Poll<'a> {
    patience: Patience,
    call: &'static str,
    lookout: &'a dyn Lookout,
    /// Much data moves: polls drive the transfer, so none is put off by a long sleep.
    bulk: bool,
    turns: u32,
    started: Option<(Instant, StallWatch)>,
}

impl<'a> Poll<'a> {
    pub(super) fn new(patience: Patience, call: &'static str, bulk: bool, lookout: &'a dyn Lookout) -> Self {
        Self { patience, call, lookout, bulk, turns: 0, started: None }
    }

    /// Passes a little time after a poll in vain. Fails when the wait is in vain.
    pub(super) fn pause(&mut self) -> Result<(), CommError> {
        self.turns += 1;
        if self.patience.own_core && self.turns < SPIN_TURNS {
            std::hint::spin_loop();
            return Ok(());
        }
        let (started, watch) = self.started.get_or_insert_with(|| (Instant::now(), StallWatch::start()));
        let waited = started.elapsed();
        let (sleep_after, sleep_max) = match (self.patience.own_core, self.bulk) {
            (true, true) => (Duration::MAX, Duration::ZERO),
            (false, true) => (NAP_AFTER, NAP),
            (true, false) => (SLEEP_AFTER, SLEEP_MAX),
            (false, false) => (SLEEP_AFTER_SHARED, SLEEP_MAX),
        };
        let sleeps = waited >= sleep_after;
        if sleeps {
            std::thread::sleep((waited / SLEEP_FRACTION).min(sleep_max));
        } else {
            std::thread::yield_now();
        }
        if sleeps || self.turns.is_multiple_of(LOOK_TURNS) {
            self.lookout.look()?;
            if watch.is_due() {
                let call = self.lookout.call().map_or(self.call, |call| call.operation.name());
                watch.report(self.patience.rank, call, &self.lookout.whom());
            }
        }
        Ok(())
    }
}

/// Waits for one request, which is of a small collective unless `bulk`. After a failure of the lookout the request is
/// still under way.
pub(super) fn wait(
    patience: Patience,
    request: &mut MPI_Request,
    call: &'static str,
    bulk: bool,
    lookout: &dyn Lookout,
) -> Result<(), CommError> {
    let mut poll = Poll::new(patience, call, bulk, lookout);
    while !test(patience.rank, request, call)? {
        poll.pause()?;
    }
    Ok(())
}

/// Whether one request is complete.
pub(super) fn test(rank: usize, request: &mut MPI_Request, call: &'static str) -> Result<bool, CommError> {
    let mut done: c_int = 0;
    // SAFETY: the request came from MPI; its buffers are kept by the caller, who waits for it before it returns.
    let code = unsafe { ffi::MPI_Test(request, &raw mut done, ffi::RSMPI_STATUS_IGNORE) };
    check(code, call, rank)?;
    Ok(done != 0)
}

/// Whether all `requests` are complete.
pub(super) fn test_all(rank: usize, requests: &mut [MPI_Request], call: &'static str) -> Result<bool, CommError> {
    let mut done: c_int = 0;
    // SAFETY: as in `test`; the slice gives the count.
    let code = unsafe {
        ffi::MPI_Testall(int(requests.len()), requests.as_mut_ptr(), &raw mut done, ffi::RSMPI_STATUSES_IGNORE)
    };
    check(code, call, rank)?;
    Ok(done != 0)
}

/// What became of a request: its error code, and what was received.
pub(super) type Outcome = (c_int, MPI_Status);

/// Waits for every request, also after one has failed; `outcomes` gets what became of each, indexed like `requests`, of which
/// `peers` says with whom it is. After a failure of the lookout those without an outcome are still under way.
/// (`MPI_Waitall` would say only that something failed, and may leave the others pending.)
pub(super) fn wait_each(
    patience: Patience,
    requests: &mut [MPI_Request],
    outcomes: &mut [Option<Outcome>],
    call: &'static str,
    peers: &dyn Fn(usize) -> usize,
    lookout: &dyn Lookout,
) -> Result<(), CommError> {
    let mut pending: Vec<usize> = (0..requests.len()).collect();
    let mut poll = Poll::new(patience, call, true, lookout);
    let mut told = usize::MAX;
    while !pending.is_empty() {
        if test_each(requests, outcomes, &mut pending) {
            continue;
        }
        if told != pending.len() {
            told = pending.len();
            lookout.wait_for(&mut pending.iter().map(|&index| peers(index)));
        }
        poll.pause()?;
    }
    Ok(())
}

/// Tests the requests that are `pending` once and takes those that are over from the list; whether there were any.
pub(super) fn test_each(
    requests: &mut [MPI_Request],
    outcomes: &mut [Option<Outcome>],
    pending: &mut Vec<usize>,
) -> bool {
    let before = pending.len();
    pending.retain(|&index| {
        let mut done: c_int = 0;
        let mut status = empty_status();
        // SAFETY: as in `test`.
        let code = unsafe { ffi::MPI_Test(&raw mut requests[index], &raw mut done, &raw mut status) };
        // A request whose test fails is over: MPI completes it with the error.
        let over = done != 0 || !is_success(code);
        if over {
            outcomes[index] = Some((code, status));
        }
        !over
    });
    pending.len() < before
}

/// A status for MPI to fill.
pub(super) fn empty_status() -> MPI_Status {
    // SAFETY: a struct of integers in both libraries, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

/// The bytes of a received message, of any length.
pub(super) fn received_bytes(status: &MPI_Status, rank: usize) -> Result<usize, CommError> {
    let mut count: ffi::MPI_Count = 0;
    // SAFETY: the status was filled by MPI for a message of bytes.
    let code = unsafe { ffi::MPI_Get_elements_x(ptr::from_ref(status), ffi::RSMPI_UINT8_T, &raw mut count) };
    check(code, "MPI_Get_elements_x", rank)?;
    usize::try_from(count).map_err(|_| CommError::Transport {
        call: "MPI_Get_elements_x",
        rank,
        message: format!("a message of {count} bytes"),
    })
}
