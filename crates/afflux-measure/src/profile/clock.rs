//! How often the tree is looked at.

use std::time::Duration;

/// The first look's distance: short jobs are seen, too.
const FIRST_WAIT: Duration = Duration::from_millis(5);
/// Looking takes at most this part of one processor.
const SHARE_MAX_INVERSE: u32 = 100;

/// The distance between looks: short at first, then as asked, longer where a look costs much.
#[derive(Debug)]
pub struct Pace {
    interval: Duration,
    longest: Duration,
    stopped_at: Option<Duration>,
}

impl Pace {
    /// A pace of so many seconds between looks.
    #[must_use]
    pub fn new(interval_seconds: f64) -> Self {
        let interval = Duration::try_from_secs_f64(interval_seconds).unwrap_or(Duration::from_millis(100));
        Self { interval, longest: Duration::ZERO, stopped_at: None }
    }

    /// How long to wait for the next look, `elapsed` after the start of the job, the last look having taken `cost` of processor time.
    pub fn next_wait(&mut self, elapsed: Duration, cost: Duration) -> Duration {
        let wait = (elapsed / 10).clamp(FIRST_WAIT.min(self.interval), self.interval).max(cost * SHARE_MAX_INVERSE);
        self.longest = self.longest.max(wait);
        wait
    }

    /// The job has ended, so long after its start.
    pub fn stop(&mut self, elapsed: Duration) {
        self.stopped_at = Some(elapsed);
    }

    /// The job's time: up to its end, or up to now.
    #[must_use]
    pub fn elapsed(&self, so_far: Duration) -> Duration {
        self.stopped_at.unwrap_or(so_far)
    }

    /// The longest distance so far, in seconds.
    #[must_use]
    pub fn longest_seconds(&self) -> f64 {
        self.longest.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_at_first_and_never_more_than_a_hundredth() {
        let mut pace = Pace::new(0.1);
        let millis = Duration::from_millis;
        assert_eq!(pace.next_wait(millis(1), Duration::ZERO), millis(5));
        assert_eq!(pace.next_wait(millis(300), Duration::ZERO), millis(30));
        assert_eq!(pace.next_wait(millis(9000), Duration::ZERO), millis(100));
        assert_eq!(pace.next_wait(millis(9000), millis(4)), millis(400));
        assert_eq!(pace.longest_seconds(), 0.4);
        assert_eq!(pace.elapsed(millis(7)), millis(7));
        pace.stop(millis(5));
        assert_eq!(pace.elapsed(millis(7)), millis(5));
    }
}
