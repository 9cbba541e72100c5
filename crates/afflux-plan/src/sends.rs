//! What a rank sends: from its own extents alone, which aggregators it deals with and what it tells each of them.
//!
//! Invariants: the descriptions of all sends together are the rank's extents; their payloads follow one another and
//! together are its payload.

use crate::{AggregatorIndex, ByteRange, Extents, FileDomains, PayloadIndex};

/// One rank's dealings with one aggregator, over all rounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Send {
    /// With whom.
    pub aggregator: AggregatorIndex,
    /// The rank's extents in that domain.
    pub extents: Extents,
    /// Their place in the rank's payload.
    pub payload: ByteRange,
}

/// Cuts a rank's extents at the borders of the domains; ascending by aggregator, none empty.
///
/// # Panics
/// If the extents leave the range of the domains.
#[must_use]
pub fn plan_sends(extents: &Extents, domains: &FileDomains) -> Vec<Send> {
    let Some((start, end)) = extents.span() else { return Vec::new() };
    let range = domains.range();
    assert!(range.start <= start && end <= range.end, "extents [{start}, {end}) leave the accessed range {range}");
    let index = PayloadIndex::new(extents);
    (domains.owner(start).0..=domains.owner(end - 1).0)
        .map(AggregatorIndex)
        .filter_map(|aggregator| {
            let domain = domains.domain(aggregator);
            let payload = index.payload_in(domain);
            (!payload.is_empty()).then(|| Send { aggregator, extents: extents.clip(domain), payload })
        })
        .collect()
}
