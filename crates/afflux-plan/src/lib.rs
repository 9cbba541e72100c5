//! Pure plans of collective I/O: which bytes of a file an access touches, who answers for them, in which rounds they move.
//!
//! No message, no file, no clock: the same functions run in the engine, in property tests and in explanations.
#![forbid(unsafe_code)]

mod extents;

pub use extents::{Extents, Run};
