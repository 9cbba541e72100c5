//! Benchmarks under one timing rule, and the made-up values that tests and site trials write.
//!
//! [`timing`] holds the rule, [`host`] says where something was measured, [`report`] shows results to people, [`sampling`] is
//! `afflux bench sampling`, [`storage`] `afflux bench storage`, [`profile`]
//! `afflux profile`, [`synth`] the values of `afflux synth` and their check. This crate
//! speaks to the rest through the facade only, prints nothing and leaves arguments, progress bars and exit codes to the command
//! line.
#![forbid(unsafe_code)]

pub mod host;
pub mod profile;
pub mod report;
pub mod sampling;
pub mod storage;
pub mod synth;
pub mod timing;
