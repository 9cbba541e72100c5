//! Starts a run and kills it: at a moment of the clock, or at a system call that changes a file.
//!
//! Every process of a run carries a mark in its environment, so that all of them are found, wherever the launcher has put them,
//! and none is left behind. A run is over when none of them lives.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::tools::{Backend, Tools};

/// Marks the processes of a run.
const MARK: &str = "AFFLUX_KILL_TRIAL";
/// The system calls by which a run changes files. At one of them strace kills.
const CHANGING_CALLS: &str =
    "pwrite64,pwritev,pwritev2,ftruncate,fallocate,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat";
/// How long a run may take, and its other ranks to go when one was killed: a hang, and as such a finding.
const RUN_SECONDS_MAX: f64 = 60.0;
const PAUSE: Duration = Duration::from_millis(2);

/// When a run is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Moment {
    /// So many seconds after its start.
    Clock { seconds: f64 },
    /// When a thread of this rank (of any, where ranks are threads) is about to make its `nth` call that changes a file.
    Call { rank: usize, nth: u64 },
}

/// Whom the clock kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victims {
    /// All ranks, and the launcher, at once.
    All,
    /// This rank; the others learn of it by themselves.
    One(usize),
}

/// A run to be started.
#[derive(Debug)]
pub struct Run<'a> {
    pub tools: &'a Tools,
    pub backend: Backend,
    pub ranks: usize,
    pub arguments: &'a [String],
    /// Where it runs, and where its traces go.
    pub directory: &'a Path,
    pub moment: Option<Moment>,
    pub victims: Victims,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code 0: the run came to its end.
    pub finished: bool,
    /// How it ended otherwise.
    pub status: String,
    /// What it said on standard error.
    pub errors: String,
    pub seconds: f64,
    /// It or a part of it had to be ended, since it took too long.
    pub hung: bool,
}

impl Run<'_> {
    /// Starts the run, kills it when it is time, and waits until nothing of it lives.
    pub fn carry_out(&self) -> Result<Ended, String> {
        let mark = format!("{}", self.directory.display());
        let failed = |what: &str, error: std::io::Error| format!("cannot {what}: {error}");
        let mut errors = tempfile::tempfile().map_err(|error| failed("make a temporary file", error))?;
        let to_errors = errors.try_clone().map_err(|error| failed("share a temporary file", error))?;
        let mut command = self.command();
        command.env(MARK, &mark).current_dir(self.directory).stdin(Stdio::null()).stdout(Stdio::null());
        self.keep_to_the_directory(&mut command);
        let begin = Instant::now();
        let mut child = command.stderr(to_errors).spawn().map_err(|error| failed("start the run", error))?;
        if let Some(Moment::Clock { seconds }) = self.moment {
            self.kill_after(&mut child, seconds, &mark)?;
        }
        let hung = !wait(&mut child, &mark, begin)?;
        let status = child.wait().map_err(|error| failed("wait for the run", error))?;
        Ok(Ended {
            finished: status.success(),
            status: status.to_string(),
            errors: text_of(&mut errors),
            seconds: begin.elapsed().as_secs_f64(),
            hung,
        })
    }

    /// The files that an MPI leaves in shared memory and temporary directories when it is killed go with the trial.
    fn keep_to_the_directory(&self, command: &mut Command) {
        command.env("TMPDIR", self.directory).env("OMPI_MCA_btl_vader_backing_directory", self.directory);
    }

    fn command(&self) -> Command {
        let program = self.tools.program(self.backend);
        let mut line: Vec<String> = Vec::new();
        if self.backend != Backend::Threads {
            line.extend([self.tools.launcher(self.backend).display().to_string(), "-n".into(), self.ranks.to_string()]);
        }
        match self.moment {
            Some(Moment::Call { nth, .. }) if self.backend == Backend::Threads => line.extend(self.strace(nth)),
            Some(Moment::Call { rank, nth }) => {
                // The shell asks which rank it is to become: $0 is the one to be traced, $1 how many of the arguments behind
                // it are strace's.
                let script = r#"traced=$0 count=$1; shift
                    [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = "$traced" ] || shift "$count"
                    exec "$@""#;
                let strace = self.strace(nth);
                line.extend(["sh".into(), "-c".into(), script.into(), rank.to_string(), strace.len().to_string()]);
                line.extend(strace);
            }
            _ => {}
        }
        line.push(program.display().to_string());
        line.extend_from_slice(self.arguments);
        if self.backend == Backend::Threads {
            line.extend(["--ranks".into(), self.ranks.to_string()]);
        }
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        command
    }

    fn strace(&self, nth: u64) -> Vec<String> {
        let trace = format!("trace={CHANGING_CALLS}");
        let inject = format!("inject={CHANGING_CALLS}:signal=KILL:when={nth}");
        let log = self.directory.join("trace.txt").display().to_string();
        ["strace", "-f", "-qq", "-o", &log, "-e", &trace, "-e", &inject].map(str::to_owned).to_vec()
    }

    fn kill_after(&self, child: &mut Child, seconds: f64, mark: &str) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        while Instant::now() < until {
            if matches!(child.try_wait(), Ok(Some(_))) {
                return Ok(());
            }
            std::thread::sleep((until - Instant::now().min(until)).min(PAUSE));
        }
        let Victims::One(rank) = self.victims else {
            return kill_all(child, mark);
        };
        if self.backend == Backend::Threads {
            return kill_all(child, mark);
        }
        let ranks = processes_of(mark, Some(self.tools.program(self.backend)));
        match ranks.get(rank % ranks.len().max(1)) {
            Some(&process) => kill(&[process]),
            // No rank has begun yet: then it is the launcher that dies.
            None => kill_all(child, mark),
        }
    }
}

/// Waits until nothing of the run lives; `false` if the rest had to be killed.
fn wait(child: &mut Child, mark: &str, begin: Instant) -> Result<bool, String> {
    let mut in_time = true;
    loop {
        let over = matches!(child.try_wait(), Ok(Some(_)));
        if over && processes_of(mark, None).is_empty() {
            return Ok(in_time);
        }
        if in_time && begin.elapsed().as_secs_f64() > RUN_SECONDS_MAX {
            in_time = false;
        }
        if !in_time {
            kill_all(child, mark)?;
        }
        std::thread::sleep(PAUSE);
    }
}

fn kill_all(child: &mut Child, mark: &str) -> Result<(), String> {
    // Ranks and launcher in one call; those that are born meanwhile in the next.
    kill(&processes_of(mark, None))?;
    let _ = child.kill();
    kill(&processes_of(mark, None))
}

/// SIGKILL by `kill`, since the standard library only kills children.
fn kill(processes: &[u32]) -> Result<(), String> {
    if processes.is_empty() {
        return Ok(());
    }
    // One that is gone already makes the command fail, which is no matter.
    let mut command = Command::new("kill");
    command.arg("-KILL").args(processes.iter().map(u32::to_string)).stderr(Stdio::null());
    command.status().map(drop).map_err(|error| format!("cannot start kill: {error}"))
}

/// The living processes with this mark, by number; with `program`, only those that execute it.
fn processes_of(mark: &str, program: Option<&PathBuf>) -> Vec<u32> {
    let program = program.and_then(|program| fs::canonicalize(program).ok());
    let entry = format!("{MARK}={mark}");
    let Ok(directory) = fs::read_dir("/proc") else { return Vec::new() };
    let mut found: Vec<u32> = directory
        .filter_map(|process| process.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process: &u32| {
            let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == entry.as_bytes())
        })
        .filter(|process| match &program {
            None => true,
            Some(program) => fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|path| path == *program),
        })
        .collect();
    found.sort_unstable();
    found
}

fn text_of(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    if let Err(error) = read {
        return format!("(its words cannot be read: {error})");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Counts the calls that change files: for each thread of the run's processes how many it made, most first.
pub fn count_calls(tools: &Tools, arguments: &[String], ranks: usize, directory: &Path) -> Result<Vec<u64>, String> {
    let log = directory.join("calls.txt");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(&log).args(["-e", &format!("trace={CHANGING_CALLS}")]);
    command.arg(tools.program(Backend::Threads)).args(arguments).args(["--ranks", &ranks.to_string()]);
    let output = command.current_dir(directory).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot start strace: {error}"))?;
    if !output.status.success() {
        return Err(format!("a run under strace failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = fs::read_to_string(&log).map_err(|error| format!("cannot read {}: {error}", log.display()))?;
    let mut counts = std::collections::BTreeMap::<&str, u64>::new();
    for line in text.lines().filter(|line| !line.contains("resumed>")) {
        if let Some((thread, _)) = line.split_once(' ') {
            *counts.entry(thread).or_default() += 1;
        }
    }
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    Ok(counts)
}
