//! What the tests of the command share: how it is run, and what is expected of its exit code and its output.
#![allow(dead_code, reason = "each test crate uses a part")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the command in `directory`.
pub fn afflux(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_afflux"));
    command.args(arguments).current_dir(directory).env("AFFLUX_IGNORE_LAUNCHER", "1");
    command.output().expect("the command starts")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it and expects success; returns standard output.
pub fn works(directory: &Path, arguments: &[&str]) -> String {
    let output = afflux(directory, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs it and expects an exit code and one clear line; returns the line.
pub fn fails(directory: &Path, code: i32, arguments: &[&str]) -> String {
    let output = afflux(directory, arguments);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    assert!(errors.starts_with("afflux: ") && !errors.contains("panicked"), "{arguments:?}: {errors}");
    errors
}

pub fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}
