//! Where idle time went, by the best of what the kernel offers.
//!
//! Each thread's waits are exact, for processors always and for devices where delay accounting is on. Summed over threads they are the
//! job's where threads took turns: where processor time and waits together fit into the elapsed time. For other jobs there
//! are the stall totals of the control group: wall time in which everything the job had to do waited. The kernel averages these over
//! the processors that the job was on within a period, so that they fall short where a thread moves between processors. Last, for
//! devices, there is how often samples found a thread in uninterruptible sleep and none running.

use super::cgroup::GroupUse;
use super::result::Idle;

/// What is known of waits when a job has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Evidence {
    /// Elapsed time and processor time of the job.
    pub elapsed_seconds: f64,
    /// Processor time.
    pub cpu_seconds: f64,
    /// The group's totals, where there is one.
    pub group: Option<GroupUse>,
    /// Waits for processors, summed over threads.
    pub run_queue_thread_seconds: f64,
    /// Waits for devices, summed over threads; `None` where they are not accounted.
    pub device_thread_seconds: Option<f64>,
    /// Time between samples that found a thread waiting for a device and none running.
    pub device_sampled_seconds: f64,
    /// Samples.
    pub samples: u64,
    /// Whether threads' waits are exact rather than as last sampled.
    pub has_exit_records: bool,
}

/// Samples from which a share is known to a few percent.
const SAMPLES_ENOUGH: u64 = 100;
/// Times of processes are kept in ticks and adjusted; this much more than the elapsed time is still one thread at a time.
const SERIAL_TOLERANCE: f64 = 1.02;

/// Splits the idle time.
#[must_use]
pub fn split(evidence: &Evidence) -> Idle {
    let idle = (evidence.elapsed_seconds - evidence.cpu_seconds).max(0.0);
    let (device, device_source) = device(evidence);
    let (run_queue, run_queue_source) = run_queue(evidence);
    let device_seconds = device.min(idle);
    let run_queue_seconds = run_queue.min(idle - device_seconds);
    Idle {
        device_seconds,
        device_source,
        run_queue_seconds,
        run_queue_source,
        other_seconds: idle - device_seconds - run_queue_seconds,
        memory_stall_seconds: evidence.group.and_then(|group| group.memory).map(|memory| seconds(memory.full_us)),
    }
}

fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 * 1e-6
}

impl Evidence {
    /// Whether threads took turns, so that their waits add up to the job's.
    fn is_serial(&self) -> bool {
        let waits = self.run_queue_thread_seconds + self.device_thread_seconds.unwrap_or(0.0);
        self.cpu_seconds + waits <= SERIAL_TOLERANCE * self.elapsed_seconds
    }

    fn by_threads(&self) -> &'static str {
        if self.has_exit_records { "exit records (taskstats)" } else { "each thread's figure as last sampled" }
    }
}

fn device(evidence: &Evidence) -> (f64, String) {
    let pressure = evidence.group.and_then(|group| group.io).map(|io| seconds(io.full_us));
    let sampled = evidence.device_sampled_seconds;
    let by_samples = || (sampled, "samples that found a thread in state D and none running".to_owned());
    match (evidence.device_thread_seconds, pressure) {
        (Some(waits), _) if evidence.is_serial() => (waits, format!("delay accounting, {}", evidence.by_threads())),
        (_, Some(stalls)) if sampled > stalls && evidence.samples >= SAMPLES_ENOUGH => by_samples(),
        (_, Some(stalls)) => (stalls, "io pressure of the job's control group, all tasks stalled".to_owned()),
        (Some(waits), None) => (waits, format!("delay accounting, {}, summed over threads", evidence.by_threads())),
        (None, None) => by_samples(),
    }
}

fn run_queue(evidence: &Evidence) -> (f64, String) {
    // Kernels before 5.13 count no full stalls of processors: then 0 says nothing.
    let pressure = evidence.group.and_then(|group| group.cpu).filter(|cpu| cpu.full_us > 0 || cpu.some_us == 0);
    match pressure {
        Some(cpu) if !evidence.is_serial() => {
            (seconds(cpu.full_us), "cpu pressure of the job's control group, all tasks stalled".to_owned())
        }
        _ => (evidence.run_queue_thread_seconds, format!("schedstat, {}", evidence.by_threads())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::kernel::Pressure;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_parts_add_up(
            idle in -10.0..100.0_f64,
            threads in 0.0..200.0_f64,
            device in proptest::option::of(0.0..200.0_f64),
            full in proptest::option::of((0..200_000_000_u64, 0..200_000_000_u64)),
        ) {
            let stall = |full_us| Some(Pressure { some_us: full_us, full_us });
            let group = full.map(|(io, cpu)| GroupUse { io: stall(io), cpu: stall(cpu), ..GroupUse::default() });
            let evidence = Evidence {
                elapsed_seconds: 100.0,
                cpu_seconds: 100.0 - idle,
                group,
                run_queue_thread_seconds: threads,
                device_thread_seconds: device,
                ..Evidence::default()
            };
            let found = split(&evidence);
            let parts = [found.device_seconds, found.run_queue_seconds, found.other_seconds];
            prop_assert!(parts.iter().all(|part| *part >= 0.0), "{:?}", found);
            prop_assert!((parts.iter().sum::<f64>() - idle.max(0.0)).abs() < 1e-9);
        }
    }

    #[test]
    fn the_best_source_is_taken_and_named() {
        let serial = Evidence {
            elapsed_seconds: 11.0,
            cpu_seconds: 1.0,
            device_sampled_seconds: 1.0,
            run_queue_thread_seconds: 2.0,
            ..Evidence::default()
        };
        let found = split(&serial);
        assert_eq!((found.device_seconds, found.run_queue_seconds, found.other_seconds), (1.0, 2.0, 7.0));
        assert!(found.device_source.contains("state D") && found.run_queue_source.contains("schedstat"));
        assert_eq!(split(&Evidence { device_thread_seconds: Some(3.0), ..serial }).device_seconds, 3.0);

        // A thread that moved between processors: the group's total falls short of its waits, and of the samples.
        let stalled = |seconds: u64| Some(Pressure { some_us: seconds * 1_000_000, full_us: seconds * 1_000_000 });
        let group = Some(GroupUse { io: stalled(4), cpu: stalled(1), ..GroupUse::default() });
        let with_group = Evidence { group, device_thread_seconds: Some(6.0), ..serial };
        assert_eq!((split(&with_group).device_seconds, split(&with_group).run_queue_seconds), (6.0, 2.0));
        let unaccounted = Evidence { device_thread_seconds: None, device_sampled_seconds: 5.0, ..with_group };
        assert_eq!(split(&unaccounted).device_seconds, 4.0, "a few samples do not outweigh a total");
        assert_eq!(split(&Evidence { samples: 100, ..unaccounted }).device_seconds, 5.0);

        // Threads that waited at the same time.
        let parallel = Evidence { run_queue_thread_seconds: 30.0, ..with_group };
        let found = split(&parallel);
        assert_eq!((found.device_seconds, found.run_queue_seconds), (4.0, 1.0));
        assert!(found.device_source.contains("io pressure") && found.run_queue_source.contains("cpu pressure"));
        // An old kernel's processor pressure: tasks were stalled, but full stalls are not counted.
        let old = Some(Pressure { some_us: 5, full_us: 0 });
        let group = Some(GroupUse { cpu: old, ..GroupUse::default() });
        assert!(split(&Evidence { group, ..parallel }).run_queue_source.contains("schedstat"));
    }
}
