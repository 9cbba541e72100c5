//! The one home of foreign calls in this crate: thin safe covers over what neither the standard library nor `nix` offers safely.
//!
//! A module a family: [`sysv`] message queues, [`memory`] shared between processes with a [`ring`] and a [`futex`] over it,
//! [`children`] that are started by bare system calls. Each cover returns the kernel's error and decides nothing; what is measured
//! with them is said elsewhere.
#![allow(unsafe_code)]

pub mod children;
pub mod futex;
pub mod memory;
pub mod ring;
pub mod sysv;

use std::io;

/// Allows every process of this user to read this one's memory, where the Yama module would allow its ancestors only
/// (`PR_SET_PTRACER` of prctl(2)). Without Yama there is nothing to allow, and the kernel says that it does not know the request.
pub fn allow_reading_our_memory() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// The result of a call that returns -1 and sets `errno`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
