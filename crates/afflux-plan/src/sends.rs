//! What a rank tells the aggregators: from its own extents alone, whom it deals with and what it says to each of them.
//!
//! A description is the part of the rank's extents from the first byte of the domain to the last. Where a domain is one
//! piece of the file that is exactly the rank's part of it. Where domains are cyclic, a strided run goes whole to every aggregator
//! that may have bytes of it, and the aggregator takes from it, by the same arithmetic as the sender, what lies in its
//! stripes: a run is a dozen bytes, its parts in every stripe would be many.
//!
//! Invariants: every byte of the extents is described to its owner; both sides find the same bytes in every block.

use crate::{AggregatorIndex, ByteRange, Extents, FileDomains, Run};

/// What one rank tells one aggregator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Send {
    /// Whom.
    pub aggregator: AggregatorIndex,
    /// The rank's extents as far as they concern it; not empty.
    pub extents: Extents,
}

/// The descriptions that a rank sends, ascending by aggregator.
///
/// # Panics
/// If the extents leave the range of the domains.
#[must_use]
pub fn plan_sends(extents: &Extents, domains: &FileDomains) -> Vec<Send> {
    let Some((start, end)) = extents.span() else { return Vec::new() };
    let range = domains.range();
    assert!(range.start <= start && end <= range.end, "extents [{start}, {end}) leave the accessed range {range}");
    if domains.is_contiguous() {
        let described = |aggregator| {
            let extents = extents.clip(domains.hull(aggregator));
            (!extents.is_empty()).then_some(Send { aggregator, extents })
        };
        return domains.owners_in(ByteRange::new(start, end)).filter_map(described).collect();
    }
    let mut parts: Vec<Extents> = vec![Extents::new(); domains.aggregator_count()];
    for run in extents.runs() {
        describe(*run, domains, &mut parts);
    }
    let described = (0..).map(AggregatorIndex).zip(parts).map(|(aggregator, extents)| Send { aggregator, extents });
    described.filter(|send| !send.extents.is_empty()).collect()
}

/// Adds `run` to the descriptions of those who may have bytes of it; cyclic domains.
fn describe(run: Run, domains: &FileDomains, parts: &mut [Extents]) {
    let stripe_bytes = domains.partition().stripe_bytes().map_or(u64::MAX, std::num::NonZeroU64::get);
    if run.count > 1 && run.stride > stripe_bytes {
        // At most one piece a stripe: each is a stripe's worth of file away from the next, and has owners of its own.
        for piece in 0..run.count {
            describe(Run::contiguous(run.offset + piece * run.stride, run.length), domains, parts);
        }
        return;
    }
    for owner in domains.owners_in(ByteRange::new(run.offset, run.end())) {
        let part = &mut parts[owner.0];
        if part.span().is_none_or(|(_, end)| end < run.end()) {
            part.push_run(run);
        }
    }
}

/// Calls `take` for each aggregator that may have bytes of `extents`, as [`plan_sends`] finds them; perhaps more than once.
///
/// # Panics
/// If the extents leave the range of the domains.
pub fn owners_of(extents: &Extents, domains: &FileDomains, mut take: impl FnMut(AggregatorIndex)) {
    let stripe_bytes = domains.partition().stripe_bytes().map_or(u64::MAX, std::num::NonZeroU64::get);
    for run in extents.runs() {
        if run.count > 1 && run.stride > stripe_bytes {
            for piece in (0..run.count).map(|number| run.offset + number * run.stride) {
                domains.owners_in(ByteRange::new(piece, piece + run.length)).for_each(&mut take);
            }
        } else {
            domains.owners_in(ByteRange::new(run.offset, run.end())).for_each(&mut take);
        }
    }
}
