//! The plain readers: h5py and xarray in a Python process that lives as long as the trials do.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::tools::Tools;

/// The source of the server.
const SERVER: &str = include_str!("../plain_reader.py");

/// The server.
#[derive(Debug)]
pub struct PlainReaders {
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

/// What the readers make of a file: their answer, or what is wrong with it.
pub type Reply = Result<Value, String>;

impl PlainReaders {
    /// Starts the server.
    pub fn start(tools: &Tools) -> Result<Self, String> {
        let mut command = Command::new(&tools.python);
        command.args(["-c", SERVER]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start {}: {error}", tools.python.display()))?;
        let (Some(requests), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the plain readers have no pipes".to_owned());
        };
        Ok(Self { child, requests, replies: BufReader::new(replies) })
    }

    /// Learns an uninterrupted run; of a made-up one every value is checked by the hash.
    pub fn learn(&mut self, reference: &Path, synth: bool) -> Result<(), String> {
        self.ask(&json!({ "reference": reference, "synth": synth }))?.map(drop)
    }

    /// Whether every dataset is a right beginning of the reference's.
    pub fn check(&mut self, file: &Path, reference: &Path, rows_ahead: u64) -> Result<Reply, String> {
        self.ask(&json!({ "check": file, "reference": reference, "rows_ahead": rows_ahead }))
    }

    /// Whether everything outside the bookkeeping is the reference's.
    pub fn same(&mut self, file: &Path, reference: &Path) -> Result<Reply, String> {
        self.ask(&json!({ "same": file, "reference": reference }))
    }

    /// The outer error is one of the server's.
    fn ask(&mut self, request: &Value) -> Result<Reply, String> {
        let gone = |error: &dyn std::fmt::Display| format!("the plain readers have gone: {error}");
        writeln!(self.requests, "{request}").and_then(|()| self.requests.flush()).map_err(|error| gone(&error))?;
        let mut line = String::new();
        let length = self.replies.read_line(&mut line).map_err(|error| gone(&error))?;
        if length == 0 {
            return Err(gone(&"no answer"));
        }
        let reply: Value = serde_json::from_str(&line).map_err(|error| gone(&error))?;
        Ok(match (reply["ok"].as_bool(), reply["what"].as_str()) {
            (Some(true), _) => Ok(reply),
            (_, Some(what)) => Err(what.to_owned()),
            _ => Err(format!("an answer without words: {reply}")),
        })
    }
}

impl Drop for PlainReaders {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
