//! An aggregator's turns at the storage targets it deals with, where requests are bounded.
//!
//! The plan is [`Throttle`](afflux_plan::Throttle)'s; a ring is a gate in memory of the node, which counts the turns that have
//! ended. Each step of an aggregator's work on the file (reading a window, writing one) takes one turn in each of its rings,
//! also where it has nothing to do there, so that all aggregators take turns alike.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afflux_comm::Gate;
use afflux_plan::{AggregatorIndex, FileDomains, RingPlace, Throttle};

use super::spans::Span;
use crate::error::LocalFailure;
use crate::windows::Windows;

/// How long a helper sleeps at a gate before it asks whether it is still needed.
pub(super) const NAP: Duration = Duration::from_millis(10);

/// The turns of one aggregator in one call.
pub(super) struct Turns<'a> {
    throttle: Throttle,
    domains: &'a FileDomains,
    windows: &'a Windows,
    places: Vec<RingPlace>,
    /// Steps taken, and all that each aggregator takes in the call.
    taken: u64,
    steps: u64,
    stop: &'a AtomicBool,
}

impl<'a> Turns<'a> {
    pub(super) fn new(
        throttle: Throttle,
        domains: &'a FileDomains,
        windows: &'a Windows,
        aggregator: AggregatorIndex,
        steps: u64,
        stop: &'a AtomicBool,
    ) -> Self {
        Self { throttle, domains, windows, places: throttle.places(domains, aggregator), taken: 0, steps, stop }
    }

    fn gate(&self, place: &RingPlace) -> &'a Gate {
        self.windows.ring(usize::try_from(self.throttle.ring(place)).expect("rings are counted in memory"))
    }

    /// Takes one step: visits the spans, those of each target in this aggregator's turn there, until one fails.
    pub(super) fn step(
        &mut self,
        spans: &[Span],
        mut visit: impl FnMut(&Span) -> Result<(), LocalFailure>,
    ) -> Result<(), LocalFailure> {
        let mut outcome = Ok(());
        for place in &self.places {
            let gate = self.gate(place);
            let turn = place.turn(self.taken);
            let low = |turn: u64| u32::try_from(turn & u64::from(u32::MAX)).expect("masked to 32 bits");
            while gate.value() != low(turn) {
                if self.stop.load(Ordering::Relaxed) {
                    return outcome;
                }
                gate.sleep_unless(NAP, |value| value == low(turn));
            }
            let here = |span: &&Span| self.throttle.target_of(self.domains, span.range.start) == Some(place.target);
            for span in spans.iter().filter(here) {
                if outcome.is_ok() {
                    outcome = visit(span);
                }
            }
            // The last turn of the call leaves the ring as the next call finds it.
            let last = turn + 1 == self.steps * place.members;
            gate.set(if last { 0 } else { low(turn + 1) });
        }
        self.taken += 1;
        outcome
    }
}
