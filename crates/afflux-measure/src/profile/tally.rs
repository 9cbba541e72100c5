//! From what was seen of a job to its profile: sums, sources, notes. Nothing here waits or samples.

use super::idle::{self, Evidence};
use super::job::Job;
use super::kernel::IoCounters;
use super::reaped::{self, Reaped};
use super::reported;
use super::result::{Idle, Processes, Profile, ThreadWaits};
use super::tree::Moment;
use std::fs;
use std::time::Duration;

/// The largest output that is searched for the program's own processor time: its end.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// Processor time, bytes and calls so far: of the dead and the living.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Totals {
    pub elapsed: Duration,
    pub user_seconds: f64,
    pub system_seconds: f64,
    pub io: IoCounters,
    pub reaped: Reaped,
}

impl Totals {
    /// The totals at a later look. They never shrink: a child that its parent waited for during the look is missing in it.
    pub fn advance(self, elapsed: Duration, reaped: Reaped, living: &Moment) -> Self {
        let seconds = |ticks: u64| ticks as f64 / ticks_per_second();
        Self {
            elapsed,
            user_seconds: (reaped.user_seconds + seconds(living.user_ticks)).max(self.user_seconds),
            system_seconds: (reaped.system_seconds + seconds(living.system_ticks)).max(self.system_seconds),
            io: reaped.io.plus(living.io).max(self.io),
            reaped,
        }
    }
}

fn ticks_per_second() -> f64 {
    let found = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten();
    found.map_or(100.0, |ticks| ticks as f64)
}

/// The profile of a job, as of its last look.
pub(super) fn profile(job: &Job<'_>) -> Profile {
    let totals = &job.totals;
    let elapsed_seconds = totals.elapsed.as_secs_f64();
    let (user_seconds, system_seconds) = (totals.user_seconds, totals.system_seconds);
    let cpu_seconds = user_seconds + system_seconds;
    let idle_seconds = elapsed_seconds - cpu_seconds;
    let group = job.group.as_ref().map(super::cgroup::Group::read);
    let waits = waits(job);
    let evidence = Evidence {
        elapsed_seconds,
        cpu_seconds,
        group,
        run_queue_thread_seconds: waits.run_queue_seconds,
        device_thread_seconds: waits.device_seconds,
        device_sampled_seconds: job.device_sampled_seconds,
        samples: job.samples,
        has_exit_records: job.exits.are_complete(),
    };
    let idle = idle::split(&evidence);
    let (file_systems, file_systems_source) = job.places.used(job.tree.placed(), totals.io);
    let group_cpu_seconds = group.map(|group| group.cpu_seconds);
    let processes = Processes {
        seen: job.tree.processes_seen(),
        most_at_once: job.peak.processes,
        threads_most_at_once: job.peak.threads,
        left_running: if job.status.is_some() { job.moment.processes } else { 0 },
    };
    Profile {
        benchmark: "profile".to_owned(),
        job: job.options.job_name(),
        command: job.options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        scratch: job.options.scratch.clone(),
        killed: job.ended.is_killed(),
        ended: job.ended.clone(),
        user_seconds,
        system_seconds,
        cpu_seconds,
        elapsed_seconds,
        idle_seconds,
        notes: notes(job, &idle, cpu_seconds - elapsed_seconds, group_cpu_seconds.map(|seconds| seconds - cpu_seconds)),
        idle,
        reported: reported_in_output(job, elapsed_seconds),
        io: totals.io,
        file_systems,
        file_systems_source,
        peak_memory_bytes: job.peak.resident_bytes.max(totals.reaped.largest_process_bytes),
        largest_process_bytes: totals.reaped.largest_process_bytes,
        group_peak_memory_bytes: group.and_then(|group| group.memory_peak_bytes),
        processes,
        major_faults: totals.reaped.major_faults,
        voluntary_switches: totals.reaped.voluntary_switches,
        involuntary_switches: totals.reaped.involuntary_switches,
        thread_waits: waits,
        samples: job.samples,
        interval_seconds: job.pace.longest_seconds(),
        timeline: job.timeline.points().to_vec(),
        profiler_cpu_seconds: (reaped::own_cpu_seconds() - job.own_cpu_before_seconds).max(0.0),
        host: job.host.clone(),
    }
}

/// Waits summed over threads: exact for the dead where there are exit records.
fn waits(job: &Job<'_>) -> ThreadWaits {
    let living = job.tree.living_waits();
    let device = |ticks: u64| ticks as f64 / ticks_per_second();
    let (run_queue_seconds, device_seconds, source) = if job.exits.are_complete() {
        let nanoseconds = |count: u64| count as f64 * 1e-9;
        (
            living.run_queue_seconds + nanoseconds(job.exits.run_queue_wait_ns),
            device(living.device_ticks) + nanoseconds(job.exits.device_wait_ns),
            "exit records (taskstats), the living from /proc",
        )
    } else {
        let gone = job.tree.gone_waits();
        (
            living.run_queue_seconds + gone.run_queue_seconds,
            device(living.device_ticks + gone.device_ticks),
            "/proc/PID/task/TID/{schedstat,stat}, each thread as last sampled",
        )
    };
    ThreadWaits {
        run_queue_seconds,
        device_seconds: job.has_delay_accounting.then_some(device_seconds),
        source: source.to_owned(),
    }
}

fn notes(job: &Job<'_>, idle: &Idle, cpu_beyond_elapsed_seconds: f64, unseen_cpu_seconds: Option<f64>) -> Vec<String> {
    let mut notes = job.notes.clone();
    if cpu_beyond_elapsed_seconds > 0.0 {
        notes
            .push("the job used more than one processor at a time: idle time by its definition is negative".to_owned());
    }
    // Times of processes are adjusted to ticks; what is far beyond that has not come to us.
    if let Some(seconds) = unseen_cpu_seconds.filter(|seconds| *seconds > 0.05 + 0.02 * job.totals.user_seconds) {
        notes.push(format!(
            "the control group counted {seconds:.2} s of processor time more: processes that nobody waited for, not in user \
             and system time"
        ));
    }
    if job.status.is_some() && job.moment.processes > 0 {
        notes.push(format!(
            "{} processes of the job were still running when the command had ended; --follow waits for them",
            job.moment.processes
        ));
    }
    if idle.device_source.starts_with("samples that found") {
        notes.push(
            "for exact device waits: a writable cgroup v2, or sysctl kernel.task_delayacct=1 before the job".to_owned(),
        );
    }
    notes
}

/// Looks for the program's own processor time at the end of its output, once the job has ended.
fn reported_in_output(job: &Job<'_>, elapsed_seconds: f64) -> Option<super::result::Reported> {
    job.status?;
    let (path, from) = job.options.output.as_ref()?;
    let output = tail(path, *from).ok()?;
    reported::find(&output, elapsed_seconds)
}

fn tail(path: &std::path::Path, from: u64) -> std::io::Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(OUTPUT_BYTES_MAX))))?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
