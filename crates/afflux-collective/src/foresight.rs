//! What a call would do on a machine that is described rather than there: the engine's own choices, without ranks or a file.
//!
//! For `afflux plan` and for whoever wants to know what hints will do before a job of ten thousand nodes is in the queue.

use afflux_plan::{AccessSummary, AggregatorLayout, Explanation, FileTraits, LayoutRequest, Method, Throttle};

use crate::choices::Choices;
use crate::hints::{HintFacts, HintReport, Hints, Toggle};
use crate::{IoOperation, Path};

/// A machine and a file on it.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    /// The node of each rank, indexed by rank; numbered from 0 without gaps.
    pub node_of_rank: &'a [u32],
    /// The file.
    pub file: FileTraits,
}

/// What a call would do.
#[derive(Debug, Clone)]
pub struct Foresight {
    /// Method, file domains and aggregators, each with its reason.
    pub explanation: Explanation,
    /// The rank behind each aggregator.
    pub layout: AggregatorLayout,
    /// The rings of tokens that bound the requests at a storage target, where asked for and possible.
    pub throttle: Option<Throttle>,
    /// Each hint as asked and as it would take effect.
    pub hints: Vec<HintReport>,
}

impl Hints {
    /// The aggregators among the ranks, for a file striped over `targets`.
    pub(crate) fn layout(&self, node_of_rank: &[u32], targets: Option<usize>) -> AggregatorLayout {
        let requests = self.requests_per_target.map(|requests| usize::try_from(requests.get()).unwrap_or(usize::MAX));
        AggregatorLayout::choose(&LayoutRequest {
            node_of_rank,
            count: self.aggregator_count,
            per_node_max: self.aggregators_per_node_max,
            order: self.aggregator_order,
            targets,
            per_target_max: self.aggregators_per_target_max,
            topology: self.topology,
            group_size: requests.zip(targets).map(|(requests, targets)| requests.saturating_mul(targets)),
        })
    }

    /// What an access of all ranks of `machine` would do by `path`. Nothing is opened, and nobody is asked.
    ///
    /// The ranks of a single node that know all of one another's access take one domain for them together, whatever is said
    /// here of the number of aggregators: that depends on how long the descriptions are.
    ///
    /// # Panics
    /// If the machine has no rank, or a node of it none.
    #[must_use]
    pub fn foresee(
        &self,
        operation: IoOperation,
        path: Path,
        access: &AccessSummary,
        machine: &Machine<'_>,
    ) -> Foresight {
        let targets = machine.file.stripe_count.map(|count| usize::try_from(count.get()).unwrap_or(usize::MAX));
        let layout = self.layout(machine.node_of_rank, targets);
        let node_count = machine.node_of_rank.iter().max().map_or(0, |last| last + 1);
        let choices = Choices { hints: self, file: machine.file, rank_count: machine.node_of_rank.len(), node_count };
        let node_of = |aggregator| machine.node_of_rank[layout.rank(aggregator).0];
        let method = match choices.independent_reason(operation, path) {
            Some(reason) => (Method::Independent, reason),
            None => choices.method(operation, path, access),
        };
        let domains = (method.0 == Method::TwoPhase).then(|| choices.cut(access.range, layout.count(), node_of));
        let (method, domains) = choices.bounded(method, access, domains);
        let throttle = domains.as_ref().and_then(|(domains, _)| choices.throttle(domains, node_of));
        let window_bytes = choices.window_bytes();
        let hints = self.report(&HintFacts {
            aggregator_count: layout.count(),
            window_bytes: window_bytes.get(),
            buffer_bytes: window_bytes.get() * self.buffer_count.get(),
            file: machine.file,
            existed: false,
            throttled: choices.is_throttled() && self.collective_write != Toggle::Disable,
        });
        Foresight { explanation: Explanation::new(method, Some(*access), domains, &layout), layout, throttle, hints }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    use afflux_plan::{AggregatorIndex, ByteRange};

    #[test]
    fn a_machine_far_larger_than_ours_is_planned_without_it() {
        let node_of_rank: Vec<u32> = (0..24_576).map(|rank| rank / 16).collect();
        let file = FileTraits {
            stripe_bytes: NonZeroU64::new(1 << 20),
            stripe_count: NonZeroU64::new(48),
            ..FileTraits::default()
        };
        let bytes = 24_576 * (4 << 20);
        let access = AccessSummary {
            range: ByteRange::new(0, bytes),
            bytes,
            piece_count: bytes / 1024,
            span_bytes: bytes * 24_576,
            active_ranks: 24_576,
        };
        let hints = Hints::from_pairs([("requests_per_ost", "2"), ("cb_nodes", "96")]).unwrap();
        let machine = Machine { node_of_rank: &node_of_rank, file };
        let foresight = hints.foresee(IoOperation::Write, Path::Auto, &access, &machine);
        let (domains, _) = foresight.explanation.domains.as_ref().expect("short pieces are exchanged");
        assert_eq!(domains.aggregator_count(), foresight.layout.count());
        let served: u64 = (0..domains.aggregator_count()).map(|at| domains.domain_bytes(AggregatorIndex(at))).sum();
        assert_eq!(served, bytes, "every byte has an aggregator");
        assert!(foresight.throttle.is_some());
        assert!(foresight.hints.iter().any(|hint| hint.name == "requests_per_ost" && hint.effective == "2"));
    }
}
