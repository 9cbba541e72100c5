//! One timed run: elapsed, user and system time of this thread, and what reached the device.

use crate::profile::kernel::{self, IoCounters};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;
use std::fs;
use std::time::Instant;

/// What one run took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Wall time.
    pub elapsed_seconds: f64,
    /// Processor time in user mode.
    pub user_seconds: f64,
    /// Processor time in the kernel.
    pub system_seconds: f64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Calls or files.
    pub operations: u64,
    /// Bytes that came from the device.
    pub device_read_bytes: u64,
    /// Bytes that were, or are to be, written to it.
    pub device_written_bytes: u64,
}

/// Times what `work` does; it returns bytes and operations.
///
/// # Errors
///
/// Those of `work`.
pub fn time<E>(work: impl FnOnce() -> Result<(u64, u64), E>) -> Result<Sample, E> {
    let io_before = thread_io();
    let cpu_before = thread_cpu_seconds();
    let start = Instant::now();
    let (bytes, operations) = work()?;
    let elapsed_seconds = start.elapsed().as_secs_f64();
    let cpu = thread_cpu_seconds();
    let io = thread_io().minus(io_before);
    Ok(Sample {
        elapsed_seconds,
        user_seconds: (cpu.0 - cpu_before.0).max(0.0),
        system_seconds: (cpu.1 - cpu_before.1).max(0.0),
        bytes,
        operations,
        device_read_bytes: io.device_read_bytes,
        device_written_bytes: io.device_written_bytes.saturating_sub(io.cancelled_write_bytes),
    })
}

fn thread_io() -> IoCounters {
    fs::read_to_string("/proc/thread-self/io").ok().as_deref().and_then(kernel::io).unwrap_or_default()
}

/// User and system time of this thread, in seconds.
pub fn thread_cpu_seconds() -> (f64, f64) {
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 * 1e-6;
    getrusage(UsageWho::RUSAGE_THREAD)
        .map_or((0.0, 0.0), |usage| (seconds(usage.user_time()), seconds(usage.system_time())))
}

/// Work that keeps a processor busy for about a given time: a fixed number of operations, so that it takes the same processor
/// time whether or not it is interrupted.
#[derive(Debug, Clone, Copy)]
pub struct Computing {
    rounds: u64,
}

impl Computing {
    /// Finds how much work takes `seconds` of processor time here.
    #[must_use]
    pub fn of_seconds(seconds: f64) -> Self {
        // Long enough that the clock's steps do not matter, and the fastest of three: interruptions only slow it down.
        const TRIAL_ROUNDS: u64 = 2_000_000;
        let trial = |_| {
            let before = thread_cpu_seconds().0;
            Self { rounds: TRIAL_ROUNDS }.run();
            (thread_cpu_seconds().0 - before).max(1e-6)
        };
        let trial_seconds = (0..3).map(trial).fold(f64::INFINITY, f64::min);
        Self { rounds: rounds(TRIAL_ROUNDS, seconds / trial_seconds) }
    }

    /// Does the work.
    pub fn run(self) {
        let mut value = 1.0_f64;
        for _ in 0..self.rounds {
            value = std::hint::black_box(value).mul_add(0.999_999, 1e-6);
        }
        std::hint::black_box(value);
    }
}

/// A number of rounds times a factor.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what a u64 holds exactly")]
fn rounds(rounds: u64, factor: f64) -> u64 {
    (rounds as f64 * factor).clamp(0.0, 9e15) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timing_computing_takes_its_time() {
        let computing = Computing::of_seconds(0.05);
        let sample = time(|| {
            computing.run();
            Ok::<_, ()>((1, 2))
        })
        .unwrap();
        // Other work on the machine changes how fast a processor is; the order must be right.
        assert!((0.02..0.2).contains(&sample.user_seconds), "{sample:?}");
        assert_eq!((sample.bytes, sample.operations), (1, 2));
        assert!(sample.elapsed_seconds >= 0.02);
        assert_eq!(Computing::of_seconds(0.0).rounds, 0);
    }
}
