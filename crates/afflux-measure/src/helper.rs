//! Helper processes of a benchmark: this program again, in another role.
//!
//! A helper reads requests as lines of JSON from its standard input and writes replies to its standard output; the end of its input is its
//! end. [`Helper`] is its end at the benchmark: every wait has a limit, and dropping it ends the process.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgid};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// How this program is started in another role: the role and its arguments follow `arguments`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// What comes before the role.
    pub arguments: Vec<String>,
}

impl Program {
    /// The command line of a role.
    #[must_use]
    pub fn words(&self, role: &[&str]) -> Vec<String> {
        let path = self.path.display().to_string();
        let role = role.iter().map(|&word| word.to_owned());
        std::iter::once(path).chain(self.arguments.iter().cloned()).chain(role).collect()
    }
}

/// A command line that starts other command lines elsewhere: `ssh {host} {}`, `srun -n1 {}`. The word `{}` stands for the words of the
/// command, `{host}` (also within a word) for the host; without `{}` the command follows at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    words: Vec<String>,
}

impl Launcher {
    /// A launcher from its template, whose words are separated by white space.
    ///
    /// # Errors
    /// An empty template.
    pub fn parse(template: &str) -> Result<Self, String> {
        let words: Vec<String> = template.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Err("a launcher needs at least the name of a program, as in 'srun -n1 {}'".to_owned());
        }
        Ok(Self { words })
    }

    /// The words that start `command` on `host`.
    #[must_use]
    pub fn words(&self, host: &str, command: &[String]) -> Vec<String> {
        let mut all = Vec::new();
        let mut placed = false;
        for word in &self.words {
            if word == "{}" {
                all.extend_from_slice(command);
                placed = true;
            } else {
                all.push(word.replace("{host}", host));
            }
        }
        if !placed {
            all.extend_from_slice(command);
        }
        all
    }

    /// What it is called in reports: the name of its program.
    #[must_use]
    pub fn name(&self) -> &str {
        self.words[0].rsplit('/').next().unwrap_or_default()
    }
}

/// A command of these words.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// What can go wrong with a helper.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HelperError {
    /// It did not start.
    #[error("cannot start {program}: {source}")]
    Start {
        /// What was started.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It has ended, with this on its standard error.
    #[error("{program} has ended{said}")]
    Ended {
        /// What had been started.
        program: String,
        /// The end of what it said, after a colon; empty where it said nothing.
        said: String,
    },
    /// It did not answer in time.
    #[error("{program} has not answered within {} s", .patience.as_secs_f64())]
    Silent {
        /// What had been started.
        program: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// It answered something else.
    #[error("{program} said what cannot be read: {message}")]
    Garbled {
        /// What had been started.
        program: String,
        /// Why it cannot be read.
        message: String,
    },
}

/// A running helper. Dropping it closes its input and, if that does not end it, kills it and the processes of its group, unless it is
/// [spared](Helper::spare).
#[derive(Debug)]
pub struct Helper {
    program: String,
    /// How long its end is waited for where it is not to be killed.
    spared: Option<Duration>,
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<std::process::ChildStdout>,
    /// Its standard error: a file without a name, so that a helper which says much never waits for a reader.
    errors: File,
}

/// How long a helper may take to end after its input has.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// Lines of standard error that a report quotes.
const QUOTED_LINES_MAX: usize = 4;
/// The end of standard error that these lines are looked for in.
const QUOTED_BYTES_MAX: u64 = 16 << 10;

impl Helper {
    /// Starts a helper in a process group of its own: what a terminal sends to the benchmark does not reach it, and the end of its
    /// input tells it that the benchmark has gone.
    ///
    /// # Errors
    /// [`HelperError::Start`].
    pub fn start(words: &[String], environment: &[(String, String)]) -> Result<Self, HelperError> {
        let program = words.first().cloned().unwrap_or_default();
        let mut command = command(words);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let failed = |source| HelperError::Start { program: program.clone(), source };
        let errors = tempfile::tempfile().map_err(failed)?;
        let their_errors = errors.try_clone().map_err(failed)?;
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(their_errors);
        let mut child = command.spawn().map_err(failed)?;
        let output = child.stdout.take().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self { input: child.stdin.take(), child, output: Lines::new(output), errors, program, spared: None })
    }

    /// For a helper whose last work must be done: it is never killed. Its end is waited for this long, and then it is left to itself.
    #[must_use]
    pub fn spare(mut self, patience: Duration) -> Self {
        self.spared = Some(patience);
        self
    }

    /// The process, which leads a group of its own.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request.
    ///
    /// # Errors
    /// [`HelperError::Ended`].
    pub fn post(&mut self, request: &impl Serialize) -> Result<(), HelperError> {
        let mut line = serde_json::to_vec(request)
            .map_err(|error| HelperError::Garbled { program: self.program.clone(), message: error.to_string() })?;
        line.push(b'\n');
        let written = self.input.as_mut().map(|input| input.write_all(&line).and_then(|()| input.flush()));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(self.ended()),
        }
    }

    /// Waits for a reply.
    ///
    /// # Errors
    /// Any of [`HelperError`] but `Start`.
    pub fn reply<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<T, HelperError> {
        let deadline = Instant::now() + patience;
        loop {
            match self.output.next(deadline) {
                // Launchers may print lines of their own; a reply is an object or a quoted word.
                Ok(Some(line)) if !line.starts_with(['{', '"']) => {}
                Ok(Some(line)) => {
                    return serde_json::from_str(&line).map_err(|error| HelperError::Garbled {
                        program: self.program.clone(),
                        message: format!("{error} in {line:?}"),
                    });
                }
                Ok(None) => return Err(self.ended()),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(HelperError::Silent { program: self.program.clone(), patience });
                }
                Err(error) => {
                    return Err(HelperError::Garbled { program: self.program.clone(), message: error.to_string() });
                }
            }
        }
    }

    /// That it has ended, with the last lines of its standard error.
    fn ended(&mut self) -> HelperError {
        self.end();
        let said = self.last_words().unwrap_or_default();
        let said = if said.is_empty() { said } else { format!(": {said}") };
        HelperError::Ended { program: self.program.clone(), said }
    }

    fn end(&mut self) {
        self.input = None;
        match self.spared {
            Some(patience) => {
                wait(&mut self.child, patience);
            }
            None => end(&mut self.child, END_PATIENCE),
        }
    }

    /// The last lines of its standard error that say something.
    fn last_words(&mut self) -> io::Result<String> {
        let length = self.errors.seek(SeekFrom::End(0))?;
        self.errors.seek(SeekFrom::Start(length.saturating_sub(QUOTED_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        self.errors.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let says_something = |line: &&str| line.chars().any(char::is_alphanumeric);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(says_something).collect();
        Ok(lines[lines.len().saturating_sub(QUOTED_LINES_MAX)..].join("; "))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for a child to end by itself; then asks its process group to, then kills it. Returns when it is gone and reaped.
pub fn end(child: &mut Child, patience: Duration) {
    let group = i32::try_from(child.id()).map(Pid::from_raw);
    for (signal, patience) in
        [(None, patience), (Some(Signal::SIGTERM), END_PATIENCE), (Some(Signal::SIGKILL), patience)]
    {
        if let (Some(signal), Ok(group)) = (signal, group) {
            let _ = killpg(group, signal);
        }
        if wait(child, patience) {
            return;
        }
    }
    // Killed, yet still there: it waits in the kernel, and nobody can do more.
}

/// Waits for a child to end by itself; returns whether it has, and is reaped.
fn wait(child: &mut Child, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    let mut nap = Duration::from_micros(100);
    loop {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(20));
    }
}

/// Lines from a pipe, with a limit on the wait for each.
#[derive(Debug)]
pub struct Lines<R> {
    inner: R,
    /// What was read and not handed out.
    buffer: Vec<u8>,
}

/// No line of ours is longer; a program that writes something else must not fill the memory.
const LINE_BYTES_MAX: usize = 64 << 20;

impl<R: Read + AsFd> Lines<R> {
    /// Lines of `inner`.
    #[must_use]
    pub fn new(inner: R) -> Self {
        Self { inner, buffer: Vec::new() }
    }

    /// The next line without its end; `None` when the pipe is at its end. What stands there without a line's end counts as one.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::TimedOut`] at the deadline.
    pub fn next(&mut self, deadline: Instant) -> io::Result<Option<String>> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(searched + end + 1);
                let line = std::mem::replace(&mut self.buffer, rest);
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            searched = self.buffer.len();
            if searched > LINE_BYTES_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line without an end"));
            }
            wait_readable(&self.inner, deadline)?;
            let mut piece = [0; 16 << 10];
            match self.inner.read(&mut piece) {
                Ok(0) if self.buffer.is_empty() => return Ok(None),
                Ok(0) => {
                    let line = std::mem::take(&mut self.buffer);
                    return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
                }
                Ok(count) => self.buffer.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Waits until something can be read, or the other side has gone.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] at the deadline.
pub fn wait_readable(source: &impl AsFd, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up, so that the wait does not end before the deadline; a longer one is waited for in parts.
        let milliseconds = u16::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        let mut sources = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
        match poll(&mut sources, PollTimeout::from(milliseconds)) {
            Ok(0) if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Lets this process end with the one that started it, also where that one is killed while this one is busy and does not look at its input.
///
/// # Errors
/// What the system says.
pub fn end_with_parent() -> io::Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?)
}

/// The last act of a helper that leads a process group: ends what is left of it, itself included. Where it leads none, as in a test, it
/// ends nobody.
pub fn end_own_group() {
    let this = Pid::this();
    if getpgid(None) == Ok(this) {
        let _ = killpg(this, Signal::SIGKILL);
    }
}

/// The loop of a helper: answers every line of `input` on `output`, until the input ends.
///
/// # Errors
/// What the pipes say. A line that cannot be read ends the loop with [`io::ErrorKind::InvalidData`].
pub fn serve<Q: DeserializeOwned, A: Serialize>(
    input: impl BufRead,
    mut output: impl Write,
    mut answer: impl FnMut(Q) -> A,
) -> io::Result<()> {
    for line in input.lines() {
        let request = serde_json::from_str(&line?)?;
        let mut reply = serde_json::to_vec(&answer(request))?;
        reply.push(b'\n');
        output.write_all(&reply)?;
        output.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Helper {
        Helper::start(&["sh", "-c", script].map(str::to_owned), &[("WORD".to_owned(), "\"w\"".to_owned())]).unwrap()
    }

    #[test]
    fn a_helper_answers_and_ends_with_its_input() {
        let mut helper = shell("echo noise; while read line; do echo \"$line\"; done");
        helper.post(&"question").unwrap();
        assert_eq!(helper.reply::<String>(Duration::from_secs(20)).unwrap(), "question");
        let mut helper = shell("echo $WORD");
        assert_eq!(helper.reply::<String>(Duration::from_secs(20)).unwrap(), "w");
    }

    #[test]
    fn an_end_is_told_with_the_last_words() {
        let mut helper = shell("echo cannot >&2; echo ------ >&2; exit 3");
        let error = helper.reply::<String>(Duration::from_secs(20)).unwrap_err();
        assert_eq!(error.to_string(), "sh has ended: cannot");
    }

    #[test]
    fn a_spared_helper_is_not_killed() {
        let directory = tempfile::tempdir().unwrap();
        let done = directory.path().join("done");
        let script = format!("trap '' TERM; cat >/dev/null; sleep 0.3; touch {}", done.display());
        drop(shell(&script).spare(Duration::ZERO));
        assert!(!done.exists(), "its end is not waited for");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !done.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(done.exists(), "it has done its work");
        drop(shell(&script.replace("done", "again")).spare(Duration::from_secs(60)));
        assert!(directory.path().join("again").exists(), "its end is waited for");
    }

    #[test]
    fn silence_ends_in_time_and_so_does_the_helper() {
        let started = Instant::now();
        let mut helper = shell("trap '' TERM; while :; do sleep 0.05; done");
        let error = helper.reply::<String>(Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, HelperError::Silent { .. }), "{error}");
        let process = helper.process();
        drop(helper);
        assert!(started.elapsed() < Duration::from_secs(15));
        assert!(!std::path::Path::new(&format!("/proc/{process}")).exists(), "reaped");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Helper::start(&["/no/such/program".to_owned()], &[]).unwrap_err();
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }

    #[test]
    fn templates_say_where_the_command_goes() {
        let command = ["a", "b c"].map(str::to_owned);
        let words = |template: &str| Launcher::parse(template).unwrap().words("n1", &command).join("|");
        assert_eq!(words("ssh {host} {}"), "ssh|n1|a|b c");
        assert_eq!(words("srun -n1 -w{host}"), "srun|-n1|-wn1|a|b c");
        assert!(Launcher::parse("  ").is_err());
        assert_eq!(Launcher::parse("/usr/bin/ssh {host} {}").unwrap().name(), "ssh");
    }

    #[test]
    fn requests_are_answered_line_by_line() {
        let mut output = Vec::new();
        serve(b"1\n2\n".as_slice(), &mut output, |number: i32| number * 2).unwrap();
        assert_eq!(output, b"2\n4\n");
        assert!(serve(b"x\n".as_slice(), &mut Vec::new(), |number: i32| number).is_err());
    }
}
