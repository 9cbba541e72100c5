//! `afflux profile`: what a job used, what it waited for, and what it did to its scratch disk.
//!
//! After the table of source 003: user, system and elapsed time, and idle time, which is elapsed less processor time. The
//! profile is complete for whole trees of processes, daemons included, and is there however the job ends.
//!
//! [`run`] starts a job and watches it; [`Profile`] is the result; [`table`] sets several side by side. Where a number comes from is
//! said in the result itself, since kernels and rights differ. Files, arguments and exit codes belong to the command line.

mod cgroup;
mod clock;
mod exits;
mod idle;
mod job;
pub mod kernel;
mod open_files;
mod places;
mod reaped;
mod reported;
mod result;
mod signals;
pub mod table;
mod tally;
mod text;
mod tree;

pub use job::run;
pub use result::{
    DeviceUse, Ended, FileSystemUse, How, Idle, Processes, Profile, Reported, Scratch, ThreadWaits, TimePoint,
};

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What to run and how to watch it.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// What the job is called in tables; the program's name where it is empty.
    pub name: String,
    /// Variables added to its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The scratch directory it is given, for the result.
    pub scratch: Option<Scratch>,
    /// Time between looks at its processes.
    pub interval_seconds: f64,
    /// After so long it is told to end,
    pub timeout_seconds: Option<f64>,
    /// and after so much more it is killed.
    pub grace_seconds: f64,
    /// Switch the kernel's delay accounting on while the job runs, where it is off (root).
    pub delay_accounting: bool,
    /// Wait for every process it started, not only for the first.
    pub follow: bool,
    /// A file into which the job's output goes and where in it that begins, to look for the program's own processor time.
    pub output: Option<(PathBuf, u64)>,
}

impl Options {
    /// Looks ten times a second, without a time limit.
    #[must_use]
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            name: String::new(),
            environment: Vec::new(),
            scratch: None,
            interval_seconds: 0.1,
            timeout_seconds: None,
            grace_seconds: 10.0,
            delay_accounting: false,
            follow: false,
            output: None,
        }
    }

    fn job_name(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        let program = self.command.first().map(Path::new).and_then(Path::file_name);
        program.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// Nothing to run.
    #[error("no command is given")]
    NoCommand,
    /// The program could not be started.
    #[error("cannot start {}: {source}", program.to_string_lossy())]
    Start {
        /// Its name.
        program: OsString,
        /// Why not.
        source: std::io::Error,
    },
    /// This process ignores the signal that tells of its children's end.
    #[error(
        "SIGCHLD is ignored, so that ended processes cannot be waited for; start the profiler from a shell that does not"
    )]
    ChildrenIgnored,
    /// The job could not be watched.
    #[error("cannot watch a job: {0}")]
    Watch(#[source] nix::Error),
}
