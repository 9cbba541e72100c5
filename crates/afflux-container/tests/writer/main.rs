//! The writer end to end: what it writes, and what is left of it at every instant and after every fault.

mod advance;
#[cfg(feature = "canary-broken-seal-order")]
mod canary;
mod crash;
mod faults;
mod power_loss;
mod recording;
mod repair;
mod resume;
mod resume_crash;
mod round_trip;
mod serial;
mod support;
