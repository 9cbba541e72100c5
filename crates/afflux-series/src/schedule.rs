//! When a flush is due.
//!
//! Every rank must come to the same answer without a message, so the next boundary is always a step: fixed by the window's
//! length, or, when the user also gives seconds, set by rank 0 from the pace it saw and handed out with each flush.

use crate::Step;

/// The steps at which windows end.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    /// Steps in a window at most.
    window_steps_max: u64,
    /// Seconds between flushes to aim for.
    flush_seconds: Option<f64>,
    /// Steps in the present window.
    window_steps: u64,
    /// The first step that belongs to the next window; `None` before the first append.
    boundary: Option<Step>,
}

impl Schedule {
    pub fn new(window_steps_max: u64, flush_seconds: Option<f64>) -> Self {
        // The pace is unknown at first: one step, then at most twice as many each time.
        let window_steps = if flush_seconds.is_some() { 1 } else { window_steps_max };
        Self { window_steps_max, flush_seconds, window_steps, boundary: None }
    }

    /// The schedule of a file that is sealed up to `watermark`: the first window lies behind it, wherever a rank begins.
    pub fn behind(mut self, watermark: Option<Step>) -> Self {
        self.boundary = watermark.map(|watermark| (watermark + 1).saturating_add(self.window_steps));
        self
    }

    /// The boundary that `step` has reached, if a flush is due before its row is kept.
    pub fn due(&mut self, step: Step) -> Option<Step> {
        match self.boundary {
            None => {
                self.boundary = Some(step.saturating_add(self.window_steps));
                None
            }
            Some(boundary) => (step >= boundary).then_some(boundary),
        }
    }

    /// The length of the next window as rank 0 wants it, after a window that took `seconds`.
    pub fn next_window_steps(&self, seconds: f64) -> u64 {
        let Some(target) = self.flush_seconds else { return self.window_steps_max };
        let limit = self.window_steps.saturating_mul(2).clamp(1, self.window_steps_max);
        if seconds <= 0.0 {
            return limit;
        }
        let wanted = target / seconds * self.window_steps as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 1..=limit first")]
        let steps = wanted.clamp(1.0, limit as f64) as u64;
        steps
    }

    /// Moves the boundary beyond `step`, in windows of `window_steps`, so that windows stay on one grid.
    pub fn advance(&mut self, step: Step, window_steps: u64) {
        self.window_steps = window_steps;
        if let Some(boundary) = self.boundary
            && step >= boundary
        {
            let windows = (step - boundary) / window_steps + 1;
            self.boundary = Some(boundary.saturating_add(windows.saturating_mul(window_steps)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_on_one_grid() {
        let mut schedule = Schedule::new(10, None);
        assert_eq!(schedule.due(3), None);
        assert_eq!(schedule.due(12), None);
        assert_eq!(schedule.due(13), Some(13));
        schedule.advance(13, schedule.next_window_steps(1.0));
        assert_eq!(schedule.due(22), None);
        assert_eq!(schedule.due(47), Some(23), "steps may leap over whole windows");
        schedule.advance(47, 10);
        assert_eq!((schedule.due(52), schedule.due(53)), (None, Some(53)));
    }

    #[test]
    fn seconds_set_the_length_within_the_limit() {
        let mut schedule = Schedule::new(100, Some(2.0));
        assert_eq!(schedule.due(0), None);
        assert_eq!(schedule.due(1), Some(1));
        assert_eq!(schedule.next_window_steps(0.1), 2, "at most doubled");
        schedule.advance(1, 64);
        assert_eq!(schedule.next_window_steps(1.0), 100, "never beyond the limit");
        assert_eq!(schedule.next_window_steps(4.0), 32);
        assert_eq!(schedule.next_window_steps(1e9), 1);
    }
}
