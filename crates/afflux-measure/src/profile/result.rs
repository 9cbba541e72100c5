//! What a profile says, as it stands in the file: the keys are a contract with scripts.

use super::kernel::IoCounters;
use crate::host::{FileSystem, Host};
use serde::{Deserialize, Serialize};

/// How the job came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// It is under way. A file that still says so when no profiler runs was left by one that was itself killed; what it
    /// holds is what was known when it was last written.
    Running,
    /// By itself, with an exit code.
    Exited,
    /// By a signal.
    Signalled,
    /// At the time limit that the profiler was given.
    TimeLimit,
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// In which way.
    pub how: How,
    /// Exit code, where it had one.
    pub exit_code: Option<i32>,
    /// Name of the signal that ended it, such as `SIGKILL`.
    pub signal: Option<String>,
    /// Its number.
    pub signal_number: Option<i32>,
    /// Name of a signal by which the profiler was told to end; it was passed on to the job.
    pub told_to_end: Option<String>,
    /// Processes that the kernel killed since memory ran out, while the job ran.
    pub out_of_memory_kills: u64,
    /// Who counted those.
    pub out_of_memory_source: String,
}

impl Ended {
    /// Whether the end was not the job's own: a signal, the time limit, a profiler told to end, memory.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        matches!(self.how, How::Signalled | How::TimeLimit)
            || self.told_to_end.is_some()
            || self.out_of_memory_kills > 0
    }

    /// The end in words.
    #[must_use]
    pub fn words(&self) -> String {
        let signal = self.signal.as_deref().unwrap_or("a signal");
        let mut text = match (self.how, self.exit_code) {
            (How::Running, _) => "running".to_owned(),
            (How::Exited, code) => format!("exit code {}", code.unwrap_or(0)),
            (How::Signalled, _) => format!("KILLED by {signal}"),
            (How::TimeLimit, _) => "KILLED at the time limit".to_owned(),
        };
        if let Some(told) = &self.told_to_end {
            text.push_str(&format!(", after the profiler was told to end by {told}"));
        }
        if self.out_of_memory_kills > 0 {
            text.push_str(&format!(
                ", OUT OF MEMORY: the kernel killed {} of its processes ({})",
                self.out_of_memory_kills, self.out_of_memory_source
            ));
        }
        text
    }
}

/// Where idle time went. The three parts add up to the idle time, where that is not negative.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// Waiting for devices: reads, write-back that the job had to wait for, file systems.
    pub device_seconds: f64,
    /// What says so.
    pub device_source: String,
    /// Ready to run, no processor free.
    pub run_queue_seconds: f64,
    /// What says so.
    pub run_queue_source: String,
    /// The rest: sleeping, waiting for other programs, networks, terminals.
    pub other_seconds: f64,
    /// Of all these, stalled since memory was short; overlaps with the others.
    pub memory_stall_seconds: Option<f64>,
}

/// What the program itself says of its processor time, as Gaussian does ("Job cpu time").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reported {
    /// Whose wording it is.
    pub program: String,
    /// The processor time it reports, summed where it reports several jobs.
    pub cpu_seconds: f64,
    /// Elapsed less that: the source's own way to idle time.
    pub idle_seconds: f64,
}

/// What a block device did while the job ran, whoever asked for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Requests.
    pub read_requests: u64,
    /// Bytes.
    pub read_bytes: u64,
    /// Requests.
    pub write_requests: u64,
    /// Bytes.
    pub written_bytes: u64,
    /// Time with a request under way.
    pub busy_seconds: f64,
}

/// Reads and writes on one file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileSystemUse {
    /// Which one.
    pub file_system: FileSystem,
    /// Bytes that read calls returned.
    pub read_bytes: u64,
    /// Bytes that write calls took.
    pub written_bytes: u64,
    /// Read calls.
    pub read_calls: u64,
    /// Write calls.
    pub write_calls: u64,
    /// Its device, from /proc/diskstats: all of the machine's requests.
    pub device: Option<DeviceUse>,
}

/// A job, measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// `profile`.
    pub benchmark: String,
    /// What the job is called in tables.
    pub job: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The scratch directory it was given, if any.
    pub scratch: Option<Scratch>,
    /// How it ended.
    pub ended: Ended,
    /// Whether its end was not its own.
    pub killed: bool,
    /// Processor time in user mode.
    pub user_seconds: f64,
    /// Processor time in the kernel.
    pub system_seconds: f64,
    /// The two together.
    pub cpu_seconds: f64,
    /// From before the job was started until it had ended.
    pub elapsed_seconds: f64,
    /// Elapsed less processor time. Negative where several processors worked for the job more than it waited.
    pub idle_seconds: f64,
    /// Where idle time went.
    pub idle: Idle,
    /// The program's own word.
    pub reported: Option<Reported>,
    /// Bytes and calls of all the job's processes, from /proc/PID/io.
    pub io: IoCounters,
    /// The same by file system, as far as it can be told.
    pub file_systems: Vec<FileSystemUse>,
    /// What says so, and how much of it could be placed.
    pub file_systems_source: String,
    /// Resident memory of all processes together at its largest, by samples; shared pages count for each process.
    pub peak_memory_bytes: u64,
    /// Resident memory of the largest process, from getrusage(2).
    pub largest_process_bytes: u64,
    /// The control group's peak with the page cache, where it is accounted.
    pub group_peak_memory_bytes: Option<u64>,
    /// Processes seen, the most at once, and those still running at the end.
    pub processes: Processes,
    /// Page faults that needed a device.
    pub major_faults: u64,
    /// Times a process gave up the processor to wait.
    pub voluntary_switches: u64,
    /// Times it was taken away.
    pub involuntary_switches: u64,
    /// Times threads waited, summed over threads: more than elapsed time where many waited at once.
    pub thread_waits: ThreadWaits,
    /// Looks at the tree.
    pub samples: u64,
    /// Time between looks; longer than asked for where a look costs much.
    pub interval_seconds: f64,
    /// The job over time, thinned out to a few hundred moments.
    pub timeline: Vec<TimePoint>,
    /// Processor time of the profiler itself, while the job ran.
    pub profiler_cpu_seconds: f64,
    /// Where it ran.
    pub host: Host,
    /// What is odd about these figures.
    pub notes: Vec<String>,
}

/// The scratch directory of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scratch {
    /// Where.
    pub directory: String,
    /// What it is called in tables; empty for its device.
    pub label: String,
    /// On which file system.
    pub file_system: FileSystem,
}

/// How many processes there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// That samples have seen.
    pub seen: u64,
    /// At once.
    pub most_at_once: u64,
    /// Threads at once.
    pub threads_most_at_once: u64,
    /// Still running when the command had ended.
    pub left_running: u64,
}

/// Waits summed over threads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadWaits {
    /// For a processor.
    pub run_queue_seconds: f64,
    /// For block devices; `None` where the kernel's delay accounting is off.
    pub device_seconds: Option<f64>,
    /// What says so.
    pub source: String,
}

/// A moment of the job: totals so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimePoint {
    /// Since the start.
    pub elapsed_seconds: f64,
    /// Processor time so far.
    pub cpu_seconds: f64,
    /// Bytes read so far.
    pub read_bytes: u64,
    /// Bytes written so far.
    pub written_bytes: u64,
    /// Resident memory at that moment.
    pub resident_bytes: u64,
}

/// Moments are thinned out beyond this many.
const TIMELINE_MAX: usize = 512;

/// Moments at about even distances, however long the job runs.
#[derive(Debug, Default)]
pub struct Timeline {
    points: Vec<TimePoint>,
    /// Of so many moments one is kept.
    stride: u64,
    offered: u64,
}

impl Timeline {
    /// Offers a moment.
    pub fn offer(&mut self, point: TimePoint) {
        self.stride = self.stride.max(1);
        if self.offered.is_multiple_of(self.stride) {
            if self.points.len() == TIMELINE_MAX {
                let mut index = 0;
                self.points.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            self.points.push(point);
        }
        self.offered += 1;
    }

    /// The moments kept.
    #[must_use]
    pub fn points(&self) -> &[TimePoint] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_stays_short_and_even() {
        let mut timeline = Timeline::default();
        for step in 0..10_000_u32 {
            timeline.offer(TimePoint { elapsed_seconds: f64::from(step), ..TimePoint::default() });
        }
        let points = timeline.points();
        assert!((TIMELINE_MAX / 2..=TIMELINE_MAX).contains(&points.len()), "{}", points.len());
        assert_eq!(points[0].elapsed_seconds, 0.0);
        let gaps: Vec<f64> = points.windows(2).map(|pair| pair[1].elapsed_seconds - pair[0].elapsed_seconds).collect();
        assert!(gaps.iter().all(|gap| (16.0..=64.0).contains(gap)), "{gaps:?}");
        assert!(points.last().unwrap().elapsed_seconds > 9_900.0);
    }

    #[test]
    fn what_counts_as_killed() {
        let exited = Ended {
            how: How::Exited,
            exit_code: Some(3),
            signal: None,
            signal_number: None,
            told_to_end: None,
            out_of_memory_kills: 0,
            out_of_memory_source: String::new(),
        };
        assert!(!exited.is_killed() && exited.words() == "exit code 3");
        let killed = Ended { how: How::Signalled, exit_code: None, signal: Some("SIGKILL".into()), ..exited.clone() };
        assert!(killed.is_killed() && killed.words().contains("SIGKILL"));
        let memory = Ended { out_of_memory_kills: 1, ..exited.clone() };
        assert!(memory.is_killed() && memory.words().contains("OUT OF MEMORY"));
        assert!(Ended { told_to_end: Some("SIGTERM".into()), ..exited }.is_killed());
    }
}
