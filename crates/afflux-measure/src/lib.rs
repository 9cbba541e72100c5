//! Benchmarks under one timing rule, and the made-up values that tests and site trials write.
//!
//! [`timing`] holds the rule, [`host`] says where something was measured, [`report`] shows results to people. [`sampling`],
//! [`communication`], [`spawn`] and [`storage`] are the benchmarks `afflux bench` has, [`profile`] is `afflux profile`, [`synth`] the values of
//! `afflux synth` and their check. [`helper`]s are other processes of a benchmark, and the [`janitor`] removes what they leave. This
//! crate speaks to the rest through the facade only, prints nothing and leaves arguments, progress bars and exit codes to the
//! command line.
// But for `sys`, the one home of foreign calls.
#![deny(unsafe_code)]

pub mod communication;
pub mod helper;
pub mod host;
pub mod janitor;
pub mod profile;
pub mod report;
pub mod sampling;
pub mod spawn;
pub mod storage;
pub mod synth;
mod sys;
pub mod timing;
