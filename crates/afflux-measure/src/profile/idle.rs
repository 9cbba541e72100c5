//! Where idle time went, by the best of what the kernel offers.
//!
//! Best are the stall totals of the job's own control group: wall time in which everything the job had to do waited. Next are the
//! waits that the kernel adds up for each thread; for a serial job they are the same, for others they may exceed the idle
//! time and are then cut to it. Last, for devices, how often samples found a thread waiting and none running.

use super::cgroup::GroupUse;
use super::result::Idle;

/// What is known of waits when a job has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Evidence {
    /// The group's totals, where there is one.
    pub group: Option<GroupUse>,
    /// Waits for processors, summed over threads.
    pub run_queue_thread_seconds: f64,
    /// Waits for devices, summed over threads; `None` where they are not accounted.
    pub device_thread_seconds: Option<f64>,
    /// Time between samples that found a thread waiting for a device and none running.
    pub device_sampled_seconds: f64,
    /// Whether threads' waits are exact rather than as last sampled.
    pub has_exit_records: bool,
}

/// Splits the idle time.
#[must_use]
pub fn split(idle_seconds: f64, evidence: &Evidence) -> Idle {
    let idle = idle_seconds.max(0.0);
    let micro = |microseconds: u64| microseconds as f64 * 1e-6;
    let by_threads = if evidence.has_exit_records { "exit records (taskstats)" } else { "samples of each thread's" };
    let pressure = evidence.group.and_then(|group| group.io);
    let (device, device_source) = match (pressure, evidence.device_thread_seconds) {
        (Some(io), _) => (micro(io.full_us), "io pressure of the job's control group, all tasks stalled".to_owned()),
        (None, Some(seconds)) => (seconds, format!("{by_threads} delay accounting, summed over threads")),
        (None, None) => {
            (evidence.device_sampled_seconds, "samples that found a thread in state D and none running".to_owned())
        }
    };
    // Kernels before 5.13 count no full stalls of processors: then 0 says nothing.
    let pressure = evidence.group.and_then(|group| group.cpu).filter(|cpu| cpu.full_us > 0 || cpu.some_us == 0);
    let (run_queue, run_queue_source) = match pressure {
        Some(cpu) => (micro(cpu.full_us), "cpu pressure of the job's control group, all tasks stalled".to_owned()),
        None => (evidence.run_queue_thread_seconds, format!("{by_threads} schedstat, summed over threads")),
    };
    let device_seconds = device.min(idle);
    let run_queue_seconds = run_queue.min(idle - device_seconds);
    Idle {
        device_seconds,
        device_source,
        run_queue_seconds,
        run_queue_source,
        other_seconds: idle - device_seconds - run_queue_seconds,
        memory_stall_seconds: evidence.group.and_then(|group| group.memory).map(|memory| micro(memory.full_us)),
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
            let evidence = Evidence { group, run_queue_thread_seconds: threads, device_thread_seconds: device, ..Evidence::default() };
            let found = split(idle, &evidence);
            let parts = [found.device_seconds, found.run_queue_seconds, found.other_seconds];
            prop_assert!(parts.iter().all(|part| *part >= 0.0), "{:?}", found);
            prop_assert!((parts.iter().sum::<f64>() - idle.max(0.0)).abs() < 1e-9);
        }
    }

    #[test]
    fn the_best_source_is_taken_and_named() {
        let mut evidence =
            Evidence { device_sampled_seconds: 1.0, run_queue_thread_seconds: 2.0, ..Evidence::default() };
        let found = split(10.0, &evidence);
        assert_eq!((found.device_seconds, found.run_queue_seconds, found.other_seconds), (1.0, 2.0, 7.0));
        assert!(found.device_source.contains("state D") && found.run_queue_source.contains("schedstat"));
        evidence.device_thread_seconds = Some(3.0);
        assert_eq!(split(10.0, &evidence).device_seconds, 3.0);
        let io = Some(Pressure { some_us: 9_000_000, full_us: 4_000_000 });
        // An old kernel's processor pressure: tasks were stalled, but full stalls are not counted.
        let cpu = Some(Pressure { some_us: 5, full_us: 0 });
        evidence.group = Some(GroupUse { io, cpu, ..GroupUse::default() });
        let found = split(10.0, &evidence);
        assert_eq!((found.device_seconds, found.run_queue_seconds), (4.0, 2.0));
        assert!(found.device_source.contains("io pressure") && found.run_queue_source.contains("schedstat"));
    }
}
