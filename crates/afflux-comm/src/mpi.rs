//! Ranks that are processes of an MPI program (Open MPI and MPICH are tested).
//!
//! [`MpiWorld::init`] starts MPI, or joins a host program that has started it, and gives communicators over all ranks;
//! [`MpiCommunicator::from_raw`] and [`MpiCommunicator::from_fortran`] take a communicator of the host program. In every
//! case Afflux works on a duplicate of its own, so that its messages never meet those of the host.
//!
//! MPI is asked for `MPI_THREAD_FUNNELED` and no more: handles are not `Send`, and all calls come from the thread that
//! made them.
//!
//! # Waiting
//!
//! Small collectives of ranks that all share one node go through its memory, and whoever waits there sleeps until it is
//! woken (the module `node`; `AFFLUX_NODE_COLLECTIVES=off` switches it off).
//!
//! All other waits are non-blocking calls polled with a yield of the core, because the blocking calls of both libraries may
//! keep a core busy while the rank they wait for has none: with more ranks than cores they cost a time slice of the
//! scheduler a call. A wait that lasts longer than some milliseconds (less where ranks share cores) starts to sleep
//! between polls; one for much data only in short naps, and never where each rank has a core.
//!
//! # When a rank dies
//!
//! Errors of MPI are returned ([`CommError::Transport`]), but a dead rank is not one that survivors can count on seeing.
//! See [the table](crate#when-a-rank-dies).

mod apart;
mod call;
mod collectives;
mod communicator;
mod cores;
mod environment;
mod errors;
mod exchange;
mod handle;
mod link;
mod node;
mod notices;
mod pieces;
mod poll;
mod reduction;
mod shared;
mod sparse;

pub use communicator::MpiCommunicator;
pub use environment::MpiWorld;
pub use link::{MpiChildren, MpiLink};
pub use mpi::ffi::MPI_Comm;

use std::ffi::c_int;

use mpi::ffi;

use crate::CommError;

/// The length beyond which one call or one piece of a type is not trusted with a message: well below the 2^31 - 1 that
/// an `int` counts, and round.
const PIECE_BYTES_MAX: usize = 1 << 30;

/// The result of an MPI call as one of ours.
fn check(code: c_int, call: &'static str, rank: usize) -> Result<(), CommError> {
    if is_success(code) { Ok(()) } else { Err(CommError::Transport { call, rank, message: error_text(code) }) }
}

fn is_success(code: c_int) -> bool {
    u32::try_from(code) == Ok(ffi::MPI_SUCCESS)
}

/// What MPI says about an error code.
fn error_text(code: c_int) -> String {
    // More than MPI_MAX_ERROR_STRING of both libraries (256 and 512).
    let mut text = [0_u8; 2_048];
    let mut length: c_int = 0;
    // SAFETY: the buffer is longer than any error string, and the call is allowed at any time in both libraries.
    let found = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &raw mut length) };
    match usize::try_from(length) {
        Ok(length) if is_success(found) && length > 0 => String::from_utf8_lossy(&text[..length]).into_owned(),
        _ => format!("MPI error {code}"),
    }
}

/// Whether the error says that a message was longer than its buffer.
fn is_truncation(code: c_int) -> bool {
    let mut class: c_int = 0;
    // SAFETY: plain query of an error code.
    let found = unsafe { ffi::MPI_Error_class(code, &raw mut class) };
    is_success(found) && u32::try_from(class) == Ok(ffi::MPI_ERR_TRUNCATE)
}

/// Some of `ranks`, of which there are any, in words.
fn names(ranks: &[usize]) -> String {
    let names: Vec<_> = ranks.iter().take(8).map(usize::to_string).collect();
    match ranks.len() - names.len() {
        0 => format!("rank {}", names.join(", ")),
        more => format!("rank {} and {more} more", names.join(", ")),
    }
}

/// An `int` of MPI from a count that was bounded before.
fn int(count: usize) -> c_int {
    c_int::try_from(count).expect("counts given to MPI are bounded by PIECE_BYTES_MAX or the rank count")
}

/// What the linked library calls itself, in one line.
#[must_use]
pub fn library_version() -> String {
    // More than MPI_MAX_LIBRARY_VERSION_STRING of both libraries (256 and 8,192).
    let mut text = vec![0_u8; 16_384];
    let mut length: c_int = 0;
    // SAFETY: the buffer is longer than any version string; the call is allowed before MPI_Init.
    let found = unsafe { ffi::MPI_Get_library_version(text.as_mut_ptr().cast(), &raw mut length) };
    let length = usize::try_from(length).unwrap_or(0);
    if !is_success(found) || length == 0 {
        return "an unknown MPI".to_owned();
    }
    let text = String::from_utf8_lossy(&text[..length]);
    let line = text.lines().next().unwrap_or_default().trim_end_matches('\0');
    line.split(", package").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}
