//! Messages between ranks and the aggregators whose memory they do not reach: one a pair and round, without descriptions.
//!
//! In a message the bytes lie in the order of the window's blocks, and in a block as in the file.

use std::ops::Range;

use afflux_plan::{AggregatorIndex, PayloadIndex, Rank};

use super::{Engine, Own, Requests};
use crate::memory::{Source, Target, in_memory};
use crate::{CollectiveError, Work};

/// The ranks of other nodes that this aggregator deals with, and what each accesses.
pub(super) struct Peers<'a> {
    own: Option<AggregatorIndex>,
    list: Vec<(Rank, PayloadIndex<'a>)>,
}

impl<'a> Peers<'a> {
    pub(super) fn new(engine: &Engine<'_>, requests: &'a Requests) -> Self {
        let own = engine.own_aggregator();
        let away = |rank: Rank| own.is_some() && !engine.node.has(rank);
        let list = requests.list().iter().filter(|(rank, extents)| away(*rank) && !extents.is_empty());
        Self { own, list: list.map(|(rank, extents)| (*rank, PayloadIndex::new(extents))).collect() }
    }

    /// The index of what `rank` accesses.
    pub(super) fn index(&self, peer: usize) -> &PayloadIndex<'a> {
        &self.list[peer].1
    }

    /// Which of them have bytes in this aggregator's window of `round`, and how many; none where it is another step's.
    pub(super) fn parts(&self, engine: &Engine<'_>, round: u64, step: &Range<usize>) -> Vec<(usize, usize)> {
        let Some(own) = self.own.filter(|own| step.contains(&own.0)) else { return Vec::new() };
        let bytes = |index: &PayloadIndex<'_>| -> u64 {
            engine.domains.blocks(own, round).map(|block| index.bytes_in(block.range)).sum()
        };
        let parts = self.list.iter().enumerate().map(|(peer, (_, index))| (peer, in_memory(bytes(index))));
        parts.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Collective: the messages of a write to the aggregators of a step. Returns what reaches this aggregator, with the peer it is of.
    pub(super) fn send_to_aggregators<'b>(
        &self,
        engine: &Engine<'_>,
        own: &Own<'_>,
        source: &Source<'_>,
        (round, step): (u64, &Range<usize>),
        buffer: &'b mut Vec<u8>,
        work: &mut Work,
    ) -> Result<Vec<(usize, &'b [u8])>, CollectiveError> {
        let mut outgoing: Vec<(usize, Vec<&[u8]>)> = Vec::new();
        for &aggregator in own.aggregators_away(engine, step) {
            let blocks = engine.domains.blocks(aggregator, round);
            let slices: Vec<&[u8]> = blocks.flat_map(|block| source.parts(own.index.payload_in(block.range))).collect();
            if !slices.is_empty() {
                note_message(work, slices.iter().map(|slice| slice.len()).sum());
                outgoing.push((engine.layout.rank(aggregator).0, slices));
            }
        }
        let sends: Vec<(usize, &[&[u8]])> = outgoing.iter().map(|(to, slices)| (*to, slices.as_slice())).collect();
        let parts = self.parts(engine, round, step);
        let sources = parts.iter().map(|&(peer, bytes)| (self.list[peer].0.0, bytes));
        let mut receives = carve(buffer, sources, work);
        engine.comm.exchange(&sends, &mut receives)?;
        Ok(parts.iter().zip(receives).map(|((peer, _), (_, bytes))| (*peer, &*bytes)).collect())
    }

    /// Collective: the messages of a read from the aggregators of a step: `outgoing` to the peers named, and into `target` what aggregators send.
    #[expect(clippy::too_many_arguments, reason = "the step's two sides and their memory are different things")]
    pub(super) fn send_to_ranks(
        &self,
        engine: &Engine<'_>,
        own: &Own<'_>,
        target: &mut Target<'_, '_>,
        (round, step): (u64, &Range<usize>),
        outgoing: &[(usize, Vec<u8>)],
        buffer: &mut Vec<u8>,
        work: &mut Work,
    ) -> Result<(), CollectiveError> {
        outgoing.iter().for_each(|(_, bytes)| note_message(work, bytes.len()));
        let slices: Vec<(usize, [&[u8]; 1])> =
            outgoing.iter().map(|(peer, bytes)| (self.list[*peer].0.0, [bytes.as_slice()])).collect();
        let sends: Vec<(usize, &[&[u8]])> = slices.iter().map(|(to, slices)| (*to, slices.as_slice())).collect();
        let wanted: Vec<(AggregatorIndex, usize)> = own
            .aggregators_away(engine, step)
            .map(|&aggregator| (aggregator, in_memory(own.bytes(engine, aggregator, round))))
            .filter(|(_, bytes)| *bytes > 0)
            .collect();
        let sources = wanted.iter().map(|(from, bytes)| (engine.layout.rank(*from).0, *bytes));
        let mut receives = carve(buffer, sources, work);
        engine.comm.exchange(&sends, &mut receives)?;
        for ((aggregator, _), (_, bytes)) in wanted.iter().zip(&receives) {
            let mut rest: &[u8] = bytes;
            for block in engine.domains.blocks(*aggregator, round) {
                target.stretches(own.index.payload_in(block.range), |stretch| {
                    for piece in stretch.span.chunks_mut(stretch.stride) {
                        let (here, behind) = rest.split_at(stretch.length);
                        piece[..stretch.length].copy_from_slice(here);
                        rest = behind;
                    }
                });
            }
            assert!(rest.is_empty(), "an aggregator sends what was asked of it");
            work.copied_bytes += bytes.len() as u64;
        }
        Ok(())
    }
}

fn note_message(work: &mut Work, bytes: usize) {
    work.messages += 1;
    work.message_bytes += bytes as u64;
}

/// Places for messages of `(source, bytes)` in a buffer that grows as needed.
fn carve<'b>(
    buffer: &'b mut Vec<u8>,
    parts: impl Iterator<Item = (usize, usize)> + Clone,
    work: &mut Work,
) -> Vec<(usize, &'b mut [u8])> {
    let needed = parts.clone().map(|(_, bytes)| bytes).sum();
    if buffer.len() < needed {
        buffer.resize(needed, 0);
    }
    work.message_buffer_bytes_peak = work.message_buffer_bytes_peak.max(needed as u64);
    let mut rest: &mut [u8] = &mut buffer[..needed];
    parts
        .map(|(source, bytes)| {
            let (here, behind) = std::mem::take(&mut rest).split_at_mut(bytes);
            rest = behind;
            (source, here)
        })
        .collect()
}
