//! The writer end to end: what it writes, and what is left of it at every instant and after every fault.

mod advance;
mod crash;
mod faults;
mod recording;
mod resume;
mod round_trip;
mod serial;
mod support;
