//! `cargo run -p xtask -- tidy`: checks of the house that no lint covers.
//!
//! Answers for the command line only; each rule lives in a module of [`tidy`] with tests that show it failing.
#![forbid(unsafe_code)]

mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["tidy"] {
        eprintln!("usage: cargo run -p xtask -- tidy");
        return ExitCode::from(2);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    match tidy::run(root) {
        Ok(problems) if problems.is_empty() => {
            println!("tidy");
            ExitCode::SUCCESS
        }
        Ok(problems) => {
            for problem in &problems {
                println!("{problem}");
            }
            println!("{} to tidy", problems.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("cannot read the workspace: {error}");
            ExitCode::FAILURE
        }
    }
}
