//! The process that spawns: small and with one thread, so that a fork copies little.
//!
//! It starts what it is asked to, several at once if so asked, waits for the first byte of each with one time limit for all, kills
//! what is late, and reaps everything before it answers.

use super::method::Method;
use crate::communication::rpc::{Client, PROCEDURE_SPAWN};
use crate::helper::command;
use crate::sys::children::{Program, clone3_saying, fork_exec, fork_saying, vfork_exec};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The role of the helper process.
pub const ROLE: &str = "spawner";
/// What a child says that stays this program.
const HELLO: &[u8] = b"h";
/// How long a child may take to end once it has said its byte.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// What is kept of a child's words.
const WORDS_BYTES_MAX: u64 = 4096;

/// What to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// How.
    pub method: Method,
    /// The words of the command: for methods that become another program, and for launchers, the launcher's own included.
    pub words: Vec<String>,
    /// Where the RPC server waits.
    pub server: Option<(String, u16)>,
    /// How many at once.
    pub at_once: usize,
    /// Seconds that all of them have to say their first byte.
    pub patience_seconds: f64,
}

/// What became of one child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Child {
    /// It spoke, this many seconds after the call that started it had begun; where it says that it is.
    Spoke {
        /// The time.
        seconds: f64,
        /// Its words, less white space at the ends; empty where it said one byte only.
        words: String,
    },
    /// It did not start, or ended without a word.
    Failed(String),
    /// It had said nothing when the time was up.
    Late,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Of every child.
    pub children: Vec<Child>,
    /// From the first call until the last first byte (or until the time was up).
    pub seconds: f64,
}

/// The spawner's state: the program that it last laid out, and connections to RPC servers.
#[derive(Debug, Default)]
pub struct Spawner {
    client: Option<((String, u16), Client)>,
}

/// A child that was started, or not.
struct Started {
    called: Instant,
    outcome: Result<(Pid, PipeReader, Option<File>), String>,
}

impl Spawner {
    /// Starts children and waits for their first bytes.
    pub fn answer(&mut self, request: &Request) -> Reply {
        let patience = Duration::try_from_secs_f64(request.patience_seconds).unwrap_or(Duration::from_secs(1));
        if request.method == Method::Rpc {
            return self.by_rpc(request, patience).unwrap_or_else(|error| {
                self.client = None;
                all_failed(request.at_once, &error.to_string())
            });
        }
        let starter = match Starter::new(request) {
            Ok(starter) => starter,
            Err(error) => return all_failed(request.at_once, &error.to_string()),
        };
        let began = Instant::now();
        let started: Vec<Started> = (0..request.at_once).map(|_| starter.start()).collect();
        let (arrivals, ended) = first_bytes(&started, began + patience);
        let children = started.into_iter().zip(arrivals).map(|(child, arrival)| settle(child, arrival)).collect();
        Reply { children, seconds: (ended - began).as_secs_f64() }
    }

    /// Calls the server; each reply is a child's first byte.
    fn by_rpc(&mut self, request: &Request, patience: Duration) -> io::Result<Reply> {
        let server = request.server.clone().ok_or_else(|| io::Error::other("no server"))?;
        if self.client.as_ref().is_none_or(|(known, _)| *known != server) {
            self.client = Some((server.clone(), Client::connect(Some(&server.0), server.1)?));
        }
        let Some((_, client)) = &mut self.client else { return Err(io::Error::other("no client")) };
        client.stream().set_read_timeout(Some(patience))?;
        let began = Instant::now();
        let mut called = Vec::with_capacity(request.at_once);
        for _ in 0..request.at_once {
            let now = Instant::now();
            called.push((client.call(PROCEDURE_SPAWN, None)?, now));
        }
        let mut children = vec![Child::Late; request.at_once];
        for _ in 0..request.at_once {
            let id = match client.reply(Some(&mut [0])) {
                Ok(id) => id,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    // Later replies would be taken for those of the next calls.
                    self.client = None;
                    break;
                }
                Err(error) => return Err(error),
            };
            let now = Instant::now();
            if let Some(at) = called.iter().position(|(known, _)| *known == id) {
                children[at] = Child::Spoke { seconds: (now - called[at].1).as_secs_f64(), words: String::new() };
            }
        }
        Ok(Reply { children, seconds: began.elapsed().as_secs_f64() })
    }
}

fn all_failed(count: usize, message: &str) -> Reply {
    Reply { children: vec![Child::Failed(message.to_owned()); count], seconds: 0.0 }
}

/// A method made ready, so that nothing is laid out while the clock runs.
enum Starter {
    Fork,
    Namespaces,
    ForkExec(Program),
    VforkExec(Program),
    PosixSpawn { path: CString, arguments: Vec<CString>, environment: Vec<CString> },
    Command(Vec<String>),
}

impl Starter {
    fn new(request: &Request) -> io::Result<Self> {
        let words: Vec<&str> = request.words.iter().map(String::as_str).collect();
        let first = || words.first().copied().ok_or_else(|| io::Error::other("no command is given"));
        Ok(match request.method {
            Method::Fork => Self::Fork,
            Method::Namespaces => Self::Namespaces,
            Method::ForkExec => Self::ForkExec(Program::new(first()?, &words)?),
            Method::VforkExec => Self::VforkExec(Program::new(first()?, &words)?),
            Method::PosixSpawn => {
                let string = |text: &str| CString::new(text).map_err(io::Error::other);
                let environment = std::env::vars().map(|(name, value)| string(&format!("{name}={value}")));
                Self::PosixSpawn {
                    path: string(first()?)?,
                    arguments: words.iter().map(|word| string(word)).collect::<io::Result<_>>()?,
                    environment: environment.collect::<io::Result<_>>()?,
                }
            }
            Method::Rsh | Method::Ssh | Method::Launcher => {
                first()?;
                Self::Command(request.words.clone())
            }
            Method::Rpc | Method::MpiSpawn | Method::MpiSpawnMultiple => {
                return Err(io::Error::other(format!("{} is not done by a call of the system", request.method)));
            }
        })
    }

    fn start(&self) -> Started {
        let pipe = io::pipe();
        let called = Instant::now();
        let outcome = pipe.and_then(|(reader, writer)| {
            let (child, errors) = self.call(writer)?;
            Ok((child, reader, errors))
        });
        Started { called, outcome: outcome.map_err(|error| error.to_string()) }
    }

    /// Starts a child whose first byte comes out of `output`.
    fn call(&self, output: PipeWriter) -> io::Result<(Pid, Option<File>)> {
        let child = match self {
            Self::Fork => fork_saying(HELLO, output.as_fd())?,
            Self::Namespaces => clone3_saying(HELLO, output.as_fd())?,
            Self::ForkExec(program) => fork_exec(program, output.as_fd())?,
            Self::VforkExec(program) => vfork_exec(program, output.as_fd())?,
            Self::PosixSpawn { path, arguments, environment } => {
                let mut actions = PosixSpawnFileActions::init()?;
                actions.add_dup2(output.as_raw_fd(), 1)?;
                posix_spawn(path.as_c_str(), &actions, &PosixSpawnAttr::init()?, arguments, environment)?
            }
            Self::Command(words) => return start_command(words, output),
        };
        Ok((child, None))
    }
}

/// Starts a launcher, which has nobody to ask: its input is empty, and what it complains of is kept.
fn start_command(words: &[String], output: PipeWriter) -> io::Result<(Pid, Option<File>)> {
    let errors = tempfile::tempfile()?;
    let mut command = command(words);
    let child = command.stdin(Stdio::null()).stdout(output).stderr(errors.try_clone()?).spawn()?;
    // Waited for by its number, as those that the system calls start.
    Ok((Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?), Some(errors)))
}

/// Waits until something, if only its end, comes from every child: the instants, and when the wait was over.
fn first_bytes(started: &[Started], deadline: Instant) -> (Vec<Option<Instant>>, Instant) {
    let mut arrivals: Vec<Option<Instant>> = vec![None; started.len()];
    let mut ended = Instant::now();
    loop {
        let waiting: Vec<usize> =
            (0..started.len()).filter(|&at| started[at].outcome.is_ok() && arrivals[at].is_none()).collect();
        let left = deadline.saturating_duration_since(Instant::now());
        if waiting.is_empty() || left.is_zero() {
            return (arrivals, ended);
        }
        let mut sources: Vec<PollFd<'_>> = waiting
            .iter()
            .filter_map(|&at| started[at].outcome.as_ref().ok())
            .map(|(_, reader, _)| PollFd::new(reader.as_fd(), PollFlags::POLLIN))
            .collect();
        let milliseconds = u16::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        let ready = poll(&mut sources, PollTimeout::from(milliseconds)).unwrap_or(0);
        ended = Instant::now();
        if ready > 0 {
            for (&at, source) in waiting.iter().zip(&sources) {
                if source.any().unwrap_or(false) {
                    arrivals[at] = Some(ended);
                }
            }
        }
    }
}

/// Reads what a child says after its first byte, and sees to its end.
fn settle(child: Started, arrival: Option<Instant>) -> Child {
    let (process, reader, errors) = match child.outcome {
        Ok(started) => started,
        Err(message) => return Child::Failed(message),
    };
    let Some(arrival) = arrival else {
        end(process, Duration::ZERO);
        return Child::Late;
    };
    let words = read_words(&reader, Instant::now() + END_PATIENCE);
    drop(reader);
    let status = end(process, END_PATIENCE);
    if words.is_empty() {
        let complaint = errors.and_then(last_words).unwrap_or_default();
        let status = status.map_or_else(|| "nobody knows how".to_owned(), |status| format!("{status:?}"));
        return Child::Failed(if complaint.is_empty() {
            format!("it ended without a word: {status}")
        } else {
            complaint
        });
    }
    let words = String::from_utf8_lossy(&words).trim().to_owned();
    let words = if words.as_bytes() == HELLO { String::new() } else { words };
    Child::Spoke { seconds: (arrival - child.called).as_secs_f64(), words }
}

/// What comes out of a pipe until its end, the deadline, or more than anybody wants to know.
fn read_words(reader: &PipeReader, deadline: Instant) -> Vec<u8> {
    let mut words = Vec::new();
    let mut piece = [0; 512];
    while u64::try_from(words.len()).is_ok_and(|length| length < WORDS_BYTES_MAX)
        && crate::helper::wait_readable(reader, deadline).is_ok()
    {
        match (&mut &*reader).read(&mut piece) {
            Ok(count) if count > 0 => words.extend_from_slice(&piece[..count]),
            _ => break,
        }
    }
    words
}

/// The last line of a file of complaints.
fn last_words(mut errors: File) -> Option<String> {
    errors.seek(SeekFrom::Start(0)).ok()?;
    let mut text = Vec::new();
    errors.take(WORDS_BYTES_MAX).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// Waits for a child to end, kills it if that takes too long, and reaps it.
fn end(process: Pid, patience: Duration) -> Option<WaitStatus> {
    let deadline = Instant::now() + patience;
    let mut nap = Duration::from_micros(20);
    while Instant::now() < deadline {
        match waitpid(process, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {
                std::thread::sleep(nap);
                nap = (nap * 2).min(Duration::from_millis(5));
            }
            Ok(status) => return Some(status),
            Err(_) => return None,
        }
    }
    // Killed by force it ends at once, unless it is held in the kernel.
    let _ = kill(process, Signal::SIGKILL);
    waitpid(process, None).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, words: &[&str], at_once: usize, patience_seconds: f64) -> Request {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Request { method, words, server: None, at_once, patience_seconds }
    }

    #[test]
    fn children_of_every_call_speak_also_several_at_once() {
        for method in [Method::Fork, Method::ForkExec, Method::VforkExec, Method::PosixSpawn, Method::Launcher] {
            let reply = Spawner::default().answer(&request(method, &["/bin/echo", "here"], 3, 20.0));
            assert_eq!(reply.children.len(), 3);
            for child in &reply.children {
                let Child::Spoke { seconds, words } = child else { panic!("{method}: {child:?}") };
                assert!(*seconds > 0.0 && *seconds <= reply.seconds + 1e-3, "{method}: {seconds} of {}", reply.seconds);
                assert_eq!(words, if method == Method::Fork { "" } else { "here" });
            }
        }
    }

    #[test]
    fn a_child_that_says_nothing_is_late_and_killed() {
        let began = Instant::now();
        let reply = Spawner::default().answer(&request(Method::Launcher, &["/bin/sleep", "60"], 2, 0.1));
        assert_eq!(reply.children, [Child::Late, Child::Late]);
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_child_that_fails_is_quoted() {
        let script = ["/bin/sh", "-c", "echo first >&2; echo no route >&2; exit 255"];
        let reply = Spawner::default().answer(&request(Method::Ssh, &script, 1, 20.0));
        assert_eq!(reply.children, [Child::Failed("no route".to_owned())]);
        for method in [Method::ForkExec, Method::VforkExec, Method::PosixSpawn, Method::Rsh] {
            let reply = Spawner::default().answer(&request(method, &["/no/such/program"], 1, 20.0));
            assert!(matches!(reply.children[..], [Child::Failed(_)]), "{method}: {reply:?}");
        }
        let reply = Spawner::default().answer(&request(Method::MpiSpawn, &[], 2, 1.0));
        assert!(matches!(reply.children[..], [Child::Failed(_), Child::Failed(_)]));
    }

    #[test]
    fn nobody_is_left() {
        for method in [Method::Fork, Method::PosixSpawn] {
            Spawner::default().answer(&request(method, &["/bin/true"], 5, 20.0));
        }
        let this = Pid::from_raw(i32::try_from(std::process::id()).unwrap());
        let children = std::fs::read_to_string(format!("/proc/{this}/task/{this}/children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            assert_ne!(name.trim(), "true", "a child was left: {children}");
        }
    }
}
