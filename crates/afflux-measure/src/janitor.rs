//! What a benchmark must not leave behind, also when it is killed.
//!
//! A [`Janitor`] is a helper process that makes the things which outlive processes (a directory for names, System V queues), is told of
//! others (POSIX queues, processes), and removes all of them when its input ends: at the end of the benchmark, however that
//! comes. It blocks the signals that a terminal or a batch system sends to everybody, so that it is the last to go, and the benchmark never
//! kills it. Only who kills the janitor itself (SIGKILL) gets to see what it looks after.

use crate::helper::{Helper, HelperError, Program, serve as serve_lines};
use crate::sys::sysv;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg, sigprocmask};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The role of the helper process.
pub const ROLE: &str = "janitor";
/// A janitor only makes system calls that do not wait.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a benchmark waits for its janitor at the end; on a machine where that is too short, the janitor goes on alone.
const LAST_PATIENCE: Duration = Duration::from_secs(120);
/// How long processes may take to end when they are asked to.
const END_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize)]
enum Request {
    Directory,
    Remove(PathBuf),
    SysvQueue,
    PosixQueue(String),
    Process(u32),
}

#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    Path(PathBuf),
    Id(i32),
    Done,
    Failed(String),
}

/// The benchmark's end of the janitor; dropping it makes the janitor clean up, and waits until it has.
#[derive(Debug)]
pub struct Janitor {
    helper: Helper,
    directory: PathBuf,
}

/// What the janitor could not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JanitorError {
    /// The helper process is not there or does not answer.
    #[error(transparent)]
    Helper(#[from] HelperError),
    /// The system refused.
    #[error("{0}")]
    Refused(String),
}

impl Janitor {
    /// Starts a janitor, which makes a directory for this user only.
    ///
    /// # Errors
    /// [`JanitorError`].
    pub fn start(program: &Program) -> Result<Self, JanitorError> {
        let mut helper = Helper::start(&program.words(&[ROLE]), &[])?.spare(LAST_PATIENCE);
        match ask(&mut helper, &Request::Directory)? {
            Reply::Path(directory) => Ok(Self { helper, directory }),
            other => Err(JanitorError::Refused(format!("an unexpected answer: {other:?}"))),
        }
    }

    /// The directory, removed with all that is in it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Tells of a directory that is to be made, with all that will be in it.
    ///
    /// # Errors
    /// [`JanitorError`].
    pub fn remove(&mut self, directory: &Path) -> Result<(), JanitorError> {
        ask(&mut self.helper, &Request::Remove(directory.to_owned())).map(|_| ())
    }

    /// Makes a System V message queue and returns its number.
    ///
    /// # Errors
    /// [`JanitorError`].
    pub fn sysv_queue(&mut self) -> Result<i32, JanitorError> {
        match ask(&mut self.helper, &Request::SysvQueue)? {
            Reply::Id(id) => Ok(id),
            other => Err(JanitorError::Refused(format!("an unexpected answer: {other:?}"))),
        }
    }

    /// Tells of a POSIX message queue that is to be made.
    ///
    /// # Errors
    /// [`JanitorError`].
    pub fn posix_queue(&mut self, name: &str) -> Result<(), JanitorError> {
        ask(&mut self.helper, &Request::PosixQueue(name.to_owned())).map(|_| ())
    }

    /// Tells of a process that leads a group.
    ///
    /// # Errors
    /// [`JanitorError`].
    pub fn process(&mut self, process: u32) -> Result<(), JanitorError> {
        ask(&mut self.helper, &Request::Process(process)).map(|_| ())
    }
}

fn ask(helper: &mut Helper, request: &Request) -> Result<Reply, JanitorError> {
    helper.post(request)?;
    match helper.reply(PATIENCE)? {
        Reply::Failed(message) => Err(JanitorError::Refused(message)),
        reply => Ok(reply),
    }
}

/// A process that must not be there at the end: known by its start, as numbers are used again.
#[derive(Debug)]
struct Watched {
    process: i32,
    started: String,
}

impl Watched {
    fn is_there(&self) -> bool {
        started(self.process).as_ref() == Some(&self.started)
    }
}

/// When a process started, in the kernel's ticks: field 22 of `/proc/PID/stat` (proc(5)).
fn started(process: i32) -> Option<String> {
    parse_started(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

fn parse_started(stat: &str) -> Option<String> {
    // The second field is a name in brackets, which may hold spaces and brackets itself.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19).map(str::to_owned)
}

/// What is looked after.
#[derive(Debug, Default)]
struct Things {
    directories: Vec<PathBuf>,
    sysv_queues: Vec<i32>,
    posix_queues: Vec<String>,
    processes: Vec<Watched>,
}

impl Things {
    fn answer(&mut self, request: Request) -> Reply {
        let done = |result: io::Result<Reply>| result.unwrap_or_else(|error| Reply::Failed(error.to_string()));
        match request {
            Request::Directory => done(tempfile::Builder::new().prefix("afflux-bench-").tempdir().map(|directory| {
                let path = directory.keep();
                self.directories.push(path.clone());
                Reply::Path(path)
            })),
            Request::Remove(directory) => {
                self.directories.push(directory);
                Reply::Done
            }
            Request::SysvQueue => done(sysv::create().map(|id| {
                self.sysv_queues.push(id);
                Reply::Id(id)
            })),
            Request::PosixQueue(name) => {
                self.posix_queues.push(name);
                Reply::Done
            }
            Request::Process(process) => {
                if let Ok(process) = i32::try_from(process)
                    && let Some(started) = started(process)
                {
                    self.processes.push(Watched { process, started });
                }
                Reply::Done
            }
        }
    }
}

impl Drop for Things {
    fn drop(&mut self) {
        // Processes first: they may still make what is removed after them.
        for (signal, patience) in [(Signal::SIGTERM, END_PATIENCE), (Signal::SIGKILL, END_PATIENCE)] {
            self.processes.retain(Watched::is_there);
            for watched in &self.processes {
                let _ = killpg(Pid::from_raw(watched.process), signal);
            }
            let deadline = Instant::now() + patience;
            while self.processes.iter().any(Watched::is_there) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        for id in &self.sysv_queues {
            let _ = sysv::remove(*id);
        }
        for name in &self.posix_queues {
            let _ = nix::mqueue::mq_unlink(name.as_str());
        }
        for directory in &self.directories {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// The janitor itself: runs until `input` ends, then cleans up.
///
/// # Errors
/// What the pipes say; it has cleaned up then too.
pub fn serve(input: impl BufRead, output: impl Write) -> io::Result<()> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGPIPE] {
        signals.add(signal);
    }
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&signals), None)?;
    let mut things = Things::default();
    serve_lines(input, output, |request| things.answer(request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn everything_goes_when_the_input_ends() {
        // A shell whose child ignores a polite end.
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; while :; do sleep 0.1; done"])
            .process_group(0)
            .spawn()
            .unwrap();
        let mut things = Things::default();
        let Reply::Path(directory) = things.answer(Request::Directory) else { panic!("a directory") };
        fs::write(directory.join("name"), "").unwrap();
        let Reply::Id(id) = things.answer(Request::SysvQueue) else { panic!("a queue") };
        assert!(matches!(things.answer(Request::Process(child.id())), Reply::Done));
        assert!(matches!(things.answer(Request::PosixQueue("/afflux-test-none".to_owned())), Reply::Done));
        let here = tempfile::tempdir().unwrap();
        let (told, never_made) = (here.path().join("told"), here.path().join("never made"));
        for directory in [&told, &never_made] {
            assert!(matches!(things.answer(Request::Remove(directory.clone())), Reply::Done));
        }
        fs::create_dir(&told).unwrap();
        let reaper = std::thread::spawn(move || child.wait().unwrap());
        drop(things);
        assert!(!directory.exists() && !told.exists() && !sysv::exists(id));
        assert!(!reaper.join().unwrap().success());
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let stat = "12 (a) b) (c) S 1 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3";
        assert_eq!(parse_started(stat).as_deref(), Some("987654"));
        assert_eq!(parse_started("12 (a"), None);
        let this = i32::try_from(std::process::id()).unwrap();
        assert!(Watched { process: this, started: started(this).unwrap() }.is_there());
        assert!(!Watched { process: this, started: "1".to_owned() }.is_there());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_start_or_none(text in ".*") {
            let _ = parse_started(&text);
        }
    }
}
