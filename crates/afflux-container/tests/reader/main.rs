//! The reader on files made by HDF5 alone: what it shows, what it refuses, what it finds, and how it reads.

mod calls;
mod damage;
mod make;
mod reads;
#[path = "../writer/support.rs"]
#[allow(dead_code, reason = "the writer's tests use all of it")]
mod support;
mod written;
