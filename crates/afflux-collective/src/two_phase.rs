//! Two-phase access, in the order of its steps:
//!
//! 1. Each rank cuts its extents at the borders of the file domains and sends every aggregator it deals with a compressed
//!    description of its part ([`ask`]). Nobody needs to know beforehand who will ask whom.
//! 2. Each aggregator merges the requests: what is covered, and whether two ranks write one byte.
//! 3. In rounds that every rank counts alike, each aggregator takes the next window of its domain. Both sides work out the
//!    lengths of the round's messages from what they know already, so that no round needs a description. For a write the
//!    data comes to the aggregator, which writes it ([`write`](write::write)); for a read the aggregator reads and the
//!    data goes out ([`read`](read::read)).
//!
//! What an aggregator asks of itself never travels. A rank whose file work fails goes on exchanging to the end, so that
//! nobody waits for it; the verdict after the last round is the caller's.
//!
//! Memory: one buffer for what is exchanged in a round and one for the window, each at most the window's length. (Two
//! ranks that write one byte break that bound for the first buffer; such a call fails.)

mod read;
mod write;

use std::time::Instant;

use afflux_comm::Communicator;
use afflux_plan::{AggregatorIndex, AggregatorLayout, ByteRange, Extents, FileDomains, Rank, Send, plan_sends, wire};
use afflux_storage::StorageFile;

use crate::transfer::nanoseconds;
use crate::{CollectiveError, Work};

pub(crate) use read::read;
pub(crate) use write::write;

/// Buffers that a file keeps from call to call: touching fresh memory costs as much as copying into it.
#[derive(Default)]
pub(crate) struct Buffers {
    exchange: Vec<u8>,
    window: Vec<u8>,
}

/// The first `bytes` of a buffer that grows as needed.
fn grown(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    &mut buffer[..bytes]
}

/// What one access works with.
pub(crate) struct Engine<'a> {
    pub(crate) comm: &'a dyn Communicator,
    pub(crate) file: &'a dyn StorageFile,
    pub(crate) layout: &'a AggregatorLayout,
    pub(crate) domains: &'a FileDomains,
}

/// Who deals with whom, seen from one rank.
struct Requests {
    /// What this rank asks of each aggregator, itself included, ascending by aggregator.
    asked: Vec<Send>,
    /// What each rank, this one included, asks of this rank, ascending by rank. Empty where it does not aggregate.
    received: Vec<(Rank, Extents)>,
}

impl Engine<'_> {
    fn rank(&self) -> Rank {
        Rank(self.comm.rank())
    }

    /// The part of this rank's own domain that it takes in a round; empty where it does not aggregate.
    fn window(&self, round: u64) -> ByteRange {
        self.layout.index_of(self.rank()).map_or(ByteRange::default(), |index| self.window_of(index, round))
    }

    /// The part of an aggregator's domain, which lies in one piece, that it takes in a round.
    fn window_of(&self, aggregator: AggregatorIndex, round: u64) -> ByteRange {
        assert!(self.domains.is_contiguous(), "cyclic domains are not carried out yet");
        self.domains.blocks(aggregator, round).next().map_or(ByteRange::default(), |block| block.range)
    }

    /// Collective: step 1.
    fn ask(&self, extents: &Extents, work: &mut Work) -> Result<Requests, CollectiveError> {
        let begin = Instant::now();
        let asked = plan_sends(extents, self.domains);
        let mut descriptions = Vec::with_capacity(asked.len());
        let mut received = Vec::new();
        for send in &asked {
            let to = self.layout.rank(send.aggregator);
            if to == self.rank() {
                received.push((to, send.extents.clone()));
                continue;
            }
            let mut bytes = Vec::new();
            wire::encode(&send.extents, &mut bytes);
            work.description_bytes += bytes.len() as u64;
            descriptions.push((to.0, bytes));
        }
        let messages: Vec<(usize, &[u8])> = descriptions.iter().map(|(to, bytes)| (*to, bytes.as_slice())).collect();
        for message in self.comm.sparse_exchange(&messages)? {
            let extents = wire::decode(&message.bytes)
                .map_err(|error| CollectiveError::Protocol { rank: message.source, message: error.to_string() })?;
            received.push((Rank(message.source), extents));
        }
        received.sort_by_key(|(rank, _)| *rank);
        work.exchange_nanoseconds += nanoseconds(begin);
        Ok(Requests { asked, received })
    }
}

/// Covered stretches of a window, joined over holes of at most `gap_bytes_max`; the flag says whether it has a hole.
fn stretches(covered: &Extents, gap_bytes_max: u64) -> Vec<(ByteRange, bool)> {
    let mut stretches: Vec<(ByteRange, bool)> = Vec::new();
    for (offset, length) in covered.pieces() {
        match stretches.last_mut() {
            Some((last, has_hole)) if offset - last.end <= gap_bytes_max => {
                *has_hole |= offset > last.end;
                last.end = offset + length;
            }
            _ => stretches.push((ByteRange::new(offset, offset + length), false)),
        }
    }
    stretches
}
