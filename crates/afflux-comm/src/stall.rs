//! When a wait has become suspicious.
//!
//! A rank that waits longer than `AFFLUX_STALL_WARNING_SECONDS` (default 60, 0 for never) for another says so once on
//! standard error and goes on waiting: a slow step of the simulation is no error, but whoever watches a run that hangs
//! must learn who is waited for.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The default: longer than any sane flush, short enough that a person still looks at the terminal.
const DEFAULT_SECONDS: u64 = 60;

/// How long a wait may take before it is reported; `None` for never. Read from the environment once.
pub(crate) fn warning_after() -> Option<Duration> {
    static AFTER: OnceLock<Option<Duration>> = OnceLock::new();
    *AFTER.get_or_init(|| parse(std::env::var("AFFLUX_STALL_WARNING_SECONDS").ok().as_deref()))
}

/// What is not a number of seconds leaves the default in place.
fn parse(text: Option<&str>) -> Option<Duration> {
    let seconds = text.and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT_SECONDS);
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// One wait that may have to be reported.
#[derive(Debug)]
pub(crate) struct StallWatch {
    started: Instant,
    after: Option<Duration>,
    reported: bool,
}

impl StallWatch {
    /// A wait that begins now.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), after: warning_after(), reported: false }
    }

    /// How long to sleep before asking [`Self::is_due`] again; `None` when it will never be due.
    pub(crate) fn sleep(&self) -> Option<Duration> {
        match self.after {
            Some(after) if !self.reported => {
                Some(after.saturating_sub(self.started.elapsed()).max(Duration::from_millis(1)))
            }
            _ => None,
        }
    }

    /// True once, when the wait has lasted too long.
    pub(crate) fn is_due(&mut self) -> bool {
        let due = !self.reported && self.after.is_some_and(|after| self.started.elapsed() >= after);
        self.reported |= due;
        due
    }

    /// Says on standard error that `rank` waits in `call` for `whom`.
    pub(crate) fn report(&self, rank: usize, call: &str, whom: &str) {
        eprintln!("afflux: rank {rank} has waited {} s in {call} for {whom}", self.started.elapsed().as_secs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_parsed_and_zero_means_never() {
        assert_eq!(parse(Some("5")), Some(Duration::from_secs(5)));
        assert_eq!(parse(Some("0")), None);
        assert_eq!(parse(Some("soon")), Some(Duration::from_secs(DEFAULT_SECONDS)));
        assert_eq!(parse(None), Some(Duration::from_secs(DEFAULT_SECONDS)));
    }

    #[test]
    fn a_wait_is_reported_once() {
        let mut watch = StallWatch { started: Instant::now(), after: Some(Duration::ZERO), reported: false };
        assert!(watch.is_due());
        assert!(!watch.is_due());
        assert_eq!(watch.sleep(), None);
    }
}
