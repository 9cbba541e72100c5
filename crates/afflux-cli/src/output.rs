//! Standard output: results only. A reader that goes away ends the command quietly.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{self, ErrorKind, Write};

/// Turns an error of a write to standard output into how the command ends.
pub fn write_failed(error: &io::Error) -> Failure {
    if error.kind() == ErrorKind::BrokenPipe {
        Failure::reader_gone()
    } else {
        Failure::failed(format!("cannot write to standard output: {error}"))
    }
}

/// Prints text.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| write_failed(&error))
}

/// Prints a value as one JSON object on a line of its own.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_string(value)
        .map_err(|error| Failure::failed(format!("cannot express the result as JSON: {error}")))?;
    line.push('\n');
    print(&line)
}
