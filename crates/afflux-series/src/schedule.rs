//! When a flush is due.
//!
//! Every rank must come to the same answer without a message, so the next boundary is always a step: fixed by the window's
//! length, or, when the user also gives seconds, set by rank 0 from the pace it saw and handed out with each flush.

use crate::Step;

/// The steps at which windows end.
///
/// Rank 0's wish for a window travels with the flush at its beginning, and has reached every rank by the flush at its end: so it
/// rules the window after.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    /// Steps in a window at most.
    window_steps_max: u64,
    /// Seconds between flushes to aim for.
    flush_seconds: Option<f64>,
    /// Steps in the present window.
    window_steps: u64,
    /// Steps in the window after it.
    window_steps_next: u64,
    /// The first step that belongs to the next window; `None` before the first append.
    boundary: Option<Step>,
}

impl Schedule {
    pub fn new(window_steps_max: u64, flush_seconds: Option<f64>) -> Self {
        // The pace is unknown at first: one step, then at most twice as many each time.
        let window_steps = if flush_seconds.is_some() { 1 } else { window_steps_max };
        Self { window_steps_max, flush_seconds, window_steps, window_steps_next: window_steps, boundary: None }
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

    /// The length of a window as rank 0 wants it, when the last `steps` steps took `seconds`.
    pub fn wish(&self, steps: u64, seconds: f64) -> u64 {
        let Some(target) = self.flush_seconds else { return self.window_steps_max };
        let limit = self.window_steps_next.saturating_mul(2).clamp(1, self.window_steps_max);
        if seconds <= 0.0 {
            return limit;
        }
        let wanted = target / seconds * steps as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 1..=limit first")]
        let steps = wanted.clamp(1.0, limit as f64) as u64;
        steps
    }

    /// Moves the boundary beyond `step`, in windows of the length that is due next, so that windows stay on one grid.
    pub fn advance(&mut self, step: Step) {
        if let Some(boundary) = self.boundary
            && step >= boundary
        {
            self.window_steps = self.window_steps_next;
            let windows = (step - boundary) / self.window_steps + 1;
            self.boundary = Some(boundary.saturating_add(windows.saturating_mul(self.window_steps)));
        }
    }

    /// What rank 0 wants has reached this rank.
    pub fn agree(&mut self, window_steps: u64) {
        self.window_steps_next = window_steps.clamp(1, self.window_steps_max);
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
        schedule.advance(13);
        schedule.agree(schedule.wish(10, 1.0));
        assert_eq!(schedule.due(22), None);
        assert_eq!(schedule.due(47), Some(23), "steps may leap over whole windows");
        schedule.advance(47);
        assert_eq!((schedule.due(52), schedule.due(53)), (None, Some(53)));
    }

    #[test]
    fn seconds_set_the_length_within_the_limit() {
        let mut schedule = Schedule::new(100, Some(2.0));
        assert_eq!(schedule.due(0), None);
        assert_eq!(schedule.due(1), Some(1));
        assert_eq!(schedule.wish(1, 0.1), 2, "at most doubled");
        schedule.agree(64);
        assert_eq!(schedule.wish(64, 1.0), 100, "never beyond the limit");
        assert_eq!(schedule.wish(64, 4.0), 32);
        assert_eq!(schedule.wish(64, 1e9), 1);
    }

    #[test]
    fn a_wish_rules_the_window_after_the_one_at_whose_beginning_it_was_told() {
        let mut schedule = Schedule::new(100, Some(2.0));
        schedule.due(0);
        schedule.advance(1);
        schedule.agree(5);
        assert_eq!(schedule.due(2), Some(2), "the window that had begun");
        schedule.advance(2);
        assert_eq!((schedule.due(6), schedule.due(7)), (None, Some(7)));
    }
}
