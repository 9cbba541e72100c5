//! Runs a job and watches it to its end.
//!
//! One loop waits for signals, exit records and the time of the next look. Whatever ends the job, the loop ends with a
//! profile; on the way the caller is handed one now and then, so that what was known is in its file should this process be killed
//! itself. This process becomes a subreaper and waits for every child it has: the caller has no other children and no
//! threads.

use super::cgroup::{self, Group};
use super::clock::Pace;
use super::exits::{ExitRecord, Listener};
use super::reaped::{self, Reaped};
use super::result::{Ended, How, Profile, TimePoint, Timeline};
use super::signals::{Event, Signals};
use super::tally::{self, Totals};
use super::tree::{Moment, Tree};
use super::{Options, ProfileError, places::Places};
use crate::host::Host;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A job under way, and what has been seen of it.
pub(super) struct Job<'a> {
    pub options: &'a Options,
    pub started: Instant,
    pub main: Pid,
    pub group: Option<Group>,
    pub tree: Tree,
    pub places: Places,
    pub exits: Exits,
    pub reaped_before: Reaped,
    pub own_cpu_before_seconds: f64,
    pub timeline: Timeline,
    /// The last look, and the totals by then.
    pub moment: Moment,
    pub totals: Totals,
    pub peak: Peak,
    pub samples: u64,
    pub pace: Pace,
    /// Time between samples that found a thread waiting for a device and none running.
    pub device_sampled_seconds: f64,
    pub ended: Ended,
    pub out_of_memory_before: u64,
    pub status: Option<WaitStatus>,
    pub notes: Vec<String>,
    pub host: Host,
    /// Whether the kernel counts the job's waits for devices.
    pub has_delay_accounting: bool,
    /// Switches it off again if it was us who switched it on.
    _accounting: Option<Accounting>,
}

/// The largest of what samples showed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peak {
    pub processes: u64,
    pub threads: u64,
    pub resident_bytes: u64,
}

/// Exit records of the job's threads, where they may be had.
#[derive(Debug, Default)]
pub(super) struct Exits {
    listener: Option<Listener>,
    /// Records that nobody could place yet, since their parents may still turn up, and for how many looks.
    pending: Vec<(ExitRecord, u32)>,
    pub run_queue_wait_ns: u64,
    pub device_wait_ns: u64,
}

impl Exits {
    fn open() -> Self {
        Self { listener: Listener::open().ok(), ..Self::default() }
    }

    /// Whether waits of ended threads are known exactly.
    pub fn are_complete(&self) -> bool {
        self.listener.as_ref().is_some_and(|listener| !listener.has_overrun())
    }

    /// Takes what has arrived. A record belongs to the job if its process or parent was seen in the tree, or in a record that
    /// does. A parent that was alive is seen in the next look at the latest: what fits nowhere after that is not ours.
    fn settle(&mut self, tree: &mut Tree, elapsed: Duration) {
        let Some(listener) = &mut self.listener else { return };
        let pending = &mut self.pending;
        listener.drain(|record| pending.push((record, 0)));
        loop {
            let count = pending.len();
            pending.retain(|(record, _)| {
                let ours =
                    [record.process, record.tid, record.parent].into_iter().any(|pid| pid != 0 && tree.knows(pid));
                if ours {
                    self.run_queue_wait_ns += record.run_queue_wait_ns;
                    // A wait during which accounting was switched on counts from the machine's start: longer than the job
                    // has lasted, it is none.
                    if u128::from(record.device_wait_ns) <= elapsed.as_nanos() {
                        self.device_wait_ns += record.device_wait_ns;
                    }
                    tree.remember(if record.process == 0 { record.tid } else { record.process });
                }
                !ours
            });
            if pending.len() == count {
                break;
            }
        }
        pending.retain_mut(|(_, looks)| {
            *looks += 1;
            *looks < 2
        });
    }
}

/// Runs the job of `options` and returns its profile. `observe` is handed the profile so far: when the job has begun, at growing
/// distances up to ten seconds, and at once when this process is told to end.
///
/// # Errors
///
/// Where the job cannot be started, or this process cannot watch it. Once it has been started there is a profile.
pub fn run(options: &Options, observe: &mut dyn FnMut(&Profile)) -> Result<Profile, ProfileError> {
    let mut signals = Signals::receive()?;
    nix::sys::prctl::set_child_subreaper(true).map_err(ProfileError::Watch)?;
    let mut job = Job::start(options, &signals)?;
    observe(&tally::profile(&job));
    job.watch(&mut signals, observe);
    let profile = tally::profile(&job);
    // Processes that outlive the job are not ours any more.
    let _ = nix::sys::prctl::set_child_subreaper(false);
    Ok(profile)
}

impl<'a> Job<'a> {
    fn start(options: &'a Options, signals: &Signals) -> Result<Self, ProfileError> {
        let (program, arguments) = options.command.split_first().ok_or(ProfileError::NoCommand)?;
        let mut command = Command::new(program);
        command.args(arguments).envs(options.environment.iter().map(|(name, value)| (name, value)));
        let mut notes = Vec::new();
        let group = Group::create().map_err(|error| notes.push(format!("no control group of its own: {error}"))).ok();
        let exits = Exits::open();
        let places = Places::now();
        let (out_of_memory_before, out_of_memory_source) = cgroup::out_of_memory_kills();
        let reaped_before = Reaped::read().map_err(ProfileError::Watch)?;
        let own_cpu_before_seconds = reaped::own_cpu_seconds();
        let host = Host::current();
        let tree = Tree::new(Pid::this().as_raw(), page_bytes());

        let accounting = options.delay_accounting.then(Accounting::switch_on).flatten();
        let has_delay_accounting = Accounting::is_on();
        if options.delay_accounting && !has_delay_accounting {
            notes.push("delay accounting could not be switched on".to_owned());
        }

        let started = Instant::now();
        let (child, group) = spawn(&mut || signals.as_before(|| command.spawn()), group, &mut notes);
        let child = child.map_err(|source| ProfileError::Start { program: program.clone(), source })?;
        let main =
            i32::try_from(child.id()).map(Pid::from_raw).map_err(|_| ProfileError::Watch(nix::Error::EOVERFLOW))?;
        let ended = Ended {
            how: How::Running,
            exit_code: None,
            signal: None,
            signal_number: None,
            told_to_end: None,
            out_of_memory_kills: 0,
            out_of_memory_source: out_of_memory_source.to_owned(),
        };
        Ok(Self {
            options,
            started,
            main,
            group,
            tree,
            places,
            exits,
            reaped_before,
            own_cpu_before_seconds,
            timeline: Timeline::default(),
            moment: Moment::default(),
            totals: Totals::default(),
            peak: Peak::default(),
            samples: 0,
            pace: Pace::new(options.interval_seconds),
            device_sampled_seconds: 0.0,
            ended,
            out_of_memory_before,
            status: None,
            notes,
            host,
            has_delay_accounting,
            _accounting: accounting,
        })
    }

    /// Waits for signals and looks at the tree until the job is over.
    fn watch(&mut self, signals: &mut Signals, observe: &mut dyn FnMut(&Profile)) {
        let mut next_look = self.started;
        let mut next_report = self.started + Duration::from_secs(1);
        let mut report_interval = Duration::from_secs(1);
        let mut kill_at = None;
        let deadline = self.options.timeout_seconds.map(|limit| self.started + Duration::from_secs_f64(limit));
        loop {
            let now = Instant::now();
            if now >= next_look {
                let cpu_before_seconds = reaped::own_cpu_seconds();
                self.look();
                let cost = Duration::from_secs_f64((reaped::own_cpu_seconds() - cpu_before_seconds).max(0.0));
                next_look = now + self.pace.next_wait(self.started.elapsed(), cost);
            }
            if now >= next_report {
                self.look();
                observe(&tally::profile(self));
                report_interval = (report_interval * 2).min(Duration::from_secs(10));
                next_report = Instant::now() + report_interval;
            }
            if self.ended.how == How::Running && deadline.is_some_and(|deadline| now >= deadline) {
                self.ended.how = How::TimeLimit;
                self.tell_all(Signal::SIGTERM);
                kill_at = Some(now + Duration::from_secs_f64(self.options.grace_seconds));
            }
            if kill_at.is_some_and(|time| now >= time) {
                kill_at = Some(now + Duration::from_secs(1));
                self.kill_all();
            }
            let pending_limit = if self.ended.how == How::Running { deadline } else { None };
            let wake = [Some(next_look), Some(next_report), pending_limit, kill_at].into_iter().flatten().min();
            self.wait_until(signals, wake.unwrap_or(next_look));
            while let Some((event, from_terminal)) = signals.next() {
                self.handle(event, from_terminal, observe);
            }
            if self.reap() {
                break;
            }
        }
        self.finish();
    }

    fn wait_until(&self, signals: &Signals, wake: Instant) {
        let wait = wake.saturating_duration_since(Instant::now());
        // Rounded up: a millisecond early would be a loop without a pause.
        let milliseconds = u16::try_from(wait.as_millis() + 1).unwrap_or(u16::MAX);
        let mut descriptors = [PollFd::new(signals.descriptor(), PollFlags::POLLIN)];
        let _ = poll(&mut descriptors, PollTimeout::from(milliseconds));
    }

    /// Acts on a signal.
    fn handle(&mut self, event: Event, from_terminal: bool, observe: &mut dyn FnMut(&Profile)) {
        match event {
            Event::Child => {}
            Event::End(signal) => {
                self.ended.told_to_end = Some(signal.as_str().to_owned());
                if !from_terminal {
                    self.tell_all(signal);
                }
                // Whoever says this may soon kill us as well.
                self.look();
                observe(&tally::profile(self));
            }
            // A key pressed at the terminal has reached the job by itself.
            Event::Other(signal) if !from_terminal => {
                let _ = kill(self.main, signal);
            }
            Event::Other(_) => {}
        }
    }

    /// Sends a signal to every process of the job: a shell in front would not pass it on.
    fn tell_all(&mut self, signal: Signal) {
        self.look();
        for pid in self.tree.living() {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    fn kill_all(&mut self) {
        if !self.group.as_ref().is_some_and(Group::kill) {
            self.tell_all(Signal::SIGKILL);
        }
    }

    /// Waits for children that have ended. Returns whether the job is over.
    fn reap(&mut self) -> bool {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return self.status.is_some() && !self.options.follow,
                Ok(status) if status.pid() == Some(self.main) => {
                    self.status = Some(status);
                    if !self.options.follow {
                        return true;
                    }
                }
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(_) => return true,
            }
        }
    }

    /// A look at the tree and what has been waited for.
    fn look(&mut self) {
        let since_last = self.started.elapsed() - self.totals.elapsed;
        // In this order, with no wait between: who is counted among the dead is not among the living.
        let reaped = Reaped::read().unwrap_or(self.reaped_before).since(self.reaped_before);
        let moment = self.tree.sample();
        self.exits.settle(&mut self.tree, self.started.elapsed());
        // Reading the totals ends a period over which they are averaged: the shorter, the nearer they are to the truth.
        let _ = self.group.as_ref().map(Group::read);
        if moment.any_waiting && !moment.any_running {
            self.device_sampled_seconds += since_last.as_secs_f64();
        }
        self.peak.processes = self.peak.processes.max(moment.processes);
        self.peak.threads = self.peak.threads.max(moment.threads);
        self.peak.resident_bytes = self.peak.resident_bytes.max(moment.resident_bytes);
        self.moment = moment;
        self.samples += 1;
        self.totals = self.totals.advance(self.pace.elapsed(self.started.elapsed()), reaped, &moment);
        self.timeline.offer(TimePoint {
            elapsed_seconds: self.totals.elapsed.as_secs_f64(),
            cpu_seconds: self.totals.user_seconds + self.totals.system_seconds,
            read_bytes: self.totals.io.read_bytes,
            written_bytes: self.totals.io.written_bytes,
            resident_bytes: moment.resident_bytes,
        });
    }

    /// Takes the last look and the verdict.
    fn finish(&mut self) {
        self.pace.stop(self.started.elapsed());
        self.look();
        let limited = self.ended.how == How::TimeLimit;
        match self.status {
            Some(WaitStatus::Exited(_, code)) => {
                self.ended.how = How::Exited;
                self.ended.exit_code = Some(code);
            }
            Some(WaitStatus::Signaled(_, signal, _)) => {
                self.ended.how = How::Signalled;
                self.ended.signal = Some(signal.as_str().to_owned());
                self.ended.signal_number = Some(signal as i32);
            }
            // Somebody else has waited for it; nothing here does.
            _ => self.notes.push("how the job ended is not known".to_owned()),
        }
        if limited {
            self.ended.how = How::TimeLimit;
        }
        self.ended.out_of_memory_kills = self.out_of_memory_kills();
    }

    fn out_of_memory_kills(&mut self) -> u64 {
        if let Some(kills) = self.group.as_ref().and_then(|group| group.read().out_of_memory_kills) {
            self.ended.out_of_memory_source = "the job's control group".to_owned();
            return kills;
        }
        cgroup::out_of_memory_kills().0.saturating_sub(self.out_of_memory_before)
    }
}

/// The kernel's delay accounting, switched on for the time of a job. It holds for processes started from then on.
#[derive(Debug)]
pub(super) struct Accounting;

impl Accounting {
    const SWITCH: &str = "/proc/sys/kernel/task_delayacct";

    fn is_on() -> bool {
        fs::read_to_string(Self::SWITCH).is_ok_and(|text| text.trim() == "1")
    }

    /// `None` where it was on already or may not be switched.
    fn switch_on() -> Option<Self> {
        (!Self::is_on() && fs::write(Self::SWITCH, "1").is_ok()).then_some(Self)
    }
}

impl Drop for Accounting {
    fn drop(&mut self) {
        let _ = fs::write(Self::SWITCH, "0");
    }
}

/// Starts the job inside the group, or without one where that is not allowed.
fn spawn(
    start: &mut dyn FnMut() -> io::Result<Child>,
    group: Option<Group>,
    notes: &mut Vec<String>,
) -> (io::Result<Child>, Option<Group>) {
    if let Some(group) = group {
        match group.inside(&mut *start) {
            Ok(child) => return (child, Some(group)),
            Err(error) => notes.push(format!("no control group of its own: {error}")),
        }
    }
    (start(), None)
}

fn page_bytes() -> u64 {
    let found = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    found.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(4096)
}
