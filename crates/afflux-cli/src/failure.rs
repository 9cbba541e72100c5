//! How a command ends: the documented exit codes, and one clear line on standard error.

use afflux::file::{CreateError, ResumeError};
use afflux::{AppendError, OpenError};
use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit codes, a contract with scripts: `afflux --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Something could not be done.
    Failed = 1,
    /// The command was called wrongly.
    Usage = 2,
    /// The file is damaged.
    Damaged = 3,
    /// A check found differences.
    Different = 4,
}

impl Code {
    /// The code as a number, to travel between ranks.
    #[must_use]
    pub fn number(self) -> u32 {
        u32::from(self as u8)
    }

    /// The inverse of [`Code::number`]; what is unknown has failed.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        [Self::Usage, Self::Damaged, Self::Different]
            .into_iter()
            .find(|code| code.number() == number)
            .unwrap_or(Self::Failed)
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Why a command did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the process exits with.
    pub code: Code,
    /// What is said: what went wrong and what to do about it. Empty when the result on standard output says it all.
    pub message: String,
    /// Whether the reader of standard output has gone (`afflux export | head`): not an error, but there is no point in going on.
    pub reader_gone: bool,
    /// Whether it befell this rank alone, in a call that is not collective: the others go on, and wait for it in vain.
    pub alone: bool,
}

impl Failure {
    fn new(code: Code, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), reader_gone: false, alone: false }
    }

    /// Something could not be done.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::new(Code::Failed, message)
    }

    /// The command was called wrongly.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(Code::Usage, message)
    }

    /// The file is damaged.
    pub fn damaged(message: impl fmt::Display) -> Self {
        Self::new(Code::Damaged, message)
    }

    /// A check found differences.
    pub fn different(message: impl fmt::Display) -> Self {
        Self::new(Code::Different, message)
    }

    /// A file could not be opened for writing: in the words of the command line, where the library's would be of its own.
    pub fn open(path: &Path, error: &OpenError) -> Self {
        match error {
            OpenError::Create(CreateError::Exists { path }) => Self::failed(format!(
                "{} exists already; give --resume to go on with it, --replace to put the new file in its place, or choose another \
                 name",
                path.display()
            )),
            OpenError::Damaged { count, columns } => Self::damaged(format!(
                "{}: {count} sealed columns are damaged: {columns}; restart at a step at or before the first of them with \
                 --resume rewrite",
                path.display()
            )),
            OpenError::Resume(ResumeError::Damaged { .. }) => Self::damaged(error),
            error => Self::in_file(path, error),
        }
    }

    /// A row was refused.
    pub fn append(path: &Path, error: &AppendError) -> Self {
        let shown = path.display();
        match error {
            AppendError::ResumeHole { step, watermark, due, .. } => Self::failed(format!(
                "{shown} is sealed up to step {watermark}, and the run goes on at step {step}: the row of step {due} would be \
                 missing; restart at step {due} or before (--checkpoint-every keeps file and solver together)"
            )),
            AppendError::CountsAnew { step, time, in_file, next, .. } => Self::failed(format!(
                "{shown} has the time {in_file} at step {step}, and the run gives it {time}: where the run counts its steps anew \
                 behind the file, say so with --step-offset {next}"
            )),
            // Each rank compares, reads and rewrites the rows of its own points.
            AppendError::Differs(_) => Self { code: Code::Different, alone: true, ..Self::in_file(path, error) },
            AppendError::Replay { .. } => Self { alone: true, ..Self::in_file(path, error) },
            AppendError::Damaged { .. } => Self { code: Code::Damaged, ..Self::in_file(path, error) },
            error => Self::in_file(path, error),
        }
    }

    /// Something could not be done with a file, which is named whatever the error knows of it.
    pub fn in_file(path: &Path, error: impl fmt::Display) -> Self {
        let (name, message) = (path.display().to_string(), error.to_string());
        if message.contains(&name) { Self::failed(message) } else { Self::failed(format!("{name}: {message}")) }
    }

    /// The reader of standard output has gone.
    pub fn reader_gone() -> Self {
        Self { reader_gone: true, ..Self::new(Code::Failed, "") }
    }

    /// Says what there is to say on standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        if self.reader_gone {
            return ExitCode::SUCCESS;
        }
        self.say();
        self.code.into()
    }

    /// Says what there is to say and ends the process, other ranks in it included. What is sealed is in the file, as after a
    /// kill.
    pub fn end_process(&self) -> ! {
        static ENDING: AtomicBool = AtomicBool::new(false);
        // One rank of the process speaks; another that fails at the same moment waits for its end.
        while ENDING.swap(true, Ordering::Relaxed) {
            std::thread::park();
        }
        self.say();
        std::process::exit(i32::from(self.code as u8))
    }

    fn say(&self) {
        if !self.message.is_empty() {
            // In one write, as other ranks' lines may come in between. Nobody is left to tell if standard error is gone too.
            let line = format!("afflux: {}\n", self.message);
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        }
    }
}
