//! What processes that have ended and were waited for have used: exact, whatever samples missed.
//!
//! When a process is waited for, the kernel adds its times and counters, and those of the children it waited for itself, to the
//! one that waits. This process is the subreaper of the job, so everything ends up here. Not so for children of a parent that
//! ignores SIGCHLD: nobody waits for them, and only the control group's processor time knows of them.

use super::kernel::{self, IoCounters};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::fs;
use std::io::Read;

/// Totals since this process started; subtract an earlier reading.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reaped {
    /// Time in user mode.
    pub user_seconds: f64,
    /// Time in the kernel.
    pub system_seconds: f64,
    /// Bytes and calls.
    pub io: IoCounters,
    /// Resident memory of the largest process, at its largest. What this process itself had when it started the job is the
    /// least it can be, since a new process begins as its parent's copy. Not a total: later readings are no smaller.
    pub largest_process_bytes: u64,
    /// Page faults that needed a device.
    pub major_faults: u64,
    /// Times a process gave up the processor to wait.
    pub voluntary_switches: u64,
    /// Times it was taken away.
    pub involuntary_switches: u64,
}

impl Reaped {
    /// Reads the totals. This process must not start or end threads between two readings: what ended threads of its own
    /// have read and written cannot be told from the job's.
    ///
    /// # Errors
    ///
    /// Those of getrusage(2), which has none to give here.
    pub fn read() -> nix::Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        Ok(Self {
            user_seconds: seconds(usage.user_time()),
            system_seconds: seconds(usage.system_time()),
            io: children_io().unwrap_or_default(),
            largest_process_bytes: count(usage.max_rss()) * 1024,
            major_faults: count(usage.major_page_faults()),
            voluntary_switches: count(usage.voluntary_context_switches()),
            involuntary_switches: count(usage.involuntary_context_switches()),
        })
    }

    /// What came to it since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            user_seconds: (self.user_seconds - before.user_seconds).max(0.0),
            system_seconds: (self.system_seconds - before.system_seconds).max(0.0),
            io: self.io.minus(before.io),
            largest_process_bytes: self.largest_process_bytes,
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            voluntary_switches: self.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(before.involuntary_switches),
        }
    }
}

/// Processor time of this process itself, user and system, in seconds.
#[must_use]
pub fn own_cpu_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or(0.0, |usage: Usage| seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn seconds(time: nix::sys::time::TimeVal) -> f64 {
    time.num_microseconds() as f64 * 1e-6
}

/// Counters of the children waited for: this process's, in which they are, less those of its threads, in which they are not.
fn children_io() -> Option<IoCounters> {
    let mut own = IoCounters::default();
    for task in fs::read_dir("/proc/self/task").ok()? {
        let (text, calls) = read_counted(&task.ok()?.path().join("io"))?;
        own = own.plus(kernel::io(&text)?);
        // The reading itself is counted once it is done: it is in what is read next, not in what it returned.
        own.read_bytes += text.len() as u64;
        own.read_calls += calls;
    }
    let (text, _) = read_counted("/proc/self/io".as_ref())?;
    Some(kernel::io(&text)?.minus(own))
}

/// A text, and how many read calls it took.
fn read_counted(path: &std::path::Path) -> Option<(String, u64)> {
    let mut file = fs::File::open(path).ok()?;
    // Larger than any of these texts: one call brings it, another its end.
    let mut buffer = [0; 1024];
    let (mut length, mut calls) = (0, 0);
    loop {
        let count = file.read(&mut buffer[length..]).ok()?;
        calls += 1;
        length += count;
        if count == 0 || length == buffer.len() {
            return Some((String::from_utf8_lossy(&buffer[..length]).into_owned(), calls));
        }
    }
}
