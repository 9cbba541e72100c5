//! Where the time of a run went.

use serde::Serialize;
use std::time::Instant;

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Making files and what is in them before the first sample.
    Create,
    /// Bringing a window's rows into file order.
    Transpose,
    /// Samples travelling between ranks, waiting for others included.
    Exchange,
    /// Samples going to the file system.
    Write,
    /// Making them visible.
    Seal,
    /// Closing files.
    Close,
}

/// Seconds a phase; what a method does not have is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Phases {
    /// Making files and what is in them before the first sample.
    pub create_seconds: f64,
    /// Bringing a window's rows into file order.
    pub transpose_seconds: f64,
    /// Samples travelling between ranks, waiting for others included.
    pub exchange_seconds: f64,
    /// Samples going to the file system.
    pub write_seconds: f64,
    /// Making them visible.
    pub seal_seconds: f64,
    /// Closing files.
    pub close_seconds: f64,
}

impl Phases {
    /// The seconds of a phase.
    pub fn of(&mut self, phase: Phase) -> &mut f64 {
        match phase {
            Phase::Create => &mut self.create_seconds,
            Phase::Transpose => &mut self.transpose_seconds,
            Phase::Exchange => &mut self.exchange_seconds,
            Phase::Write => &mut self.write_seconds,
            Phase::Seal => &mut self.seal_seconds,
            Phase::Close => &mut self.close_seconds,
        }
    }

    /// Every field, in a fixed order.
    #[must_use]
    pub fn as_array(&self) -> [f64; 6] {
        [
            self.create_seconds,
            self.transpose_seconds,
            self.exchange_seconds,
            self.write_seconds,
            self.seal_seconds,
            self.close_seconds,
        ]
    }

    /// The inverse of [`Phases::as_array`].
    #[must_use]
    pub fn from_array([create, transpose, exchange, write, seal, close]: [f64; 6]) -> Self {
        Self {
            create_seconds: create,
            transpose_seconds: transpose,
            exchange_seconds: exchange,
            write_seconds: write,
            seal_seconds: seal,
            close_seconds: close,
        }
    }
}

/// Shares a run's time out over phases, lap by lap.
#[derive(Debug)]
pub struct Stopwatch {
    last: Instant,
    /// The laps so far.
    pub phases: Phases,
}

impl Stopwatch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { last: Instant::now(), phases: Phases::default() }
    }

    /// Adds the time since the last lap to a phase.
    pub fn lap(&mut self, phase: Phase) {
        let now = Instant::now();
        *self.phases.of(phase) += now.duration_since(self.last).as_secs_f64();
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_fields_agree() {
        let mut phases = Phases::from_array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(phases.as_array(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let order = [Phase::Create, Phase::Transpose, Phase::Exchange, Phase::Write, Phase::Seal, Phase::Close];
        assert_eq!(order.map(|phase| *phases.of(phase)), phases.as_array());
    }
}
