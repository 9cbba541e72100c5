//! Steps 2 and 3 of a write: exchange a round's data, bring it into file order, write the covered runs.
//!
//! Data lies in the file's order either by copying it into the window buffer (short pieces: a copy is cheaper than an
//! entry in a gathering write) or by gathering it from where it arrived (long pieces: no copy at all).

use std::time::Instant;

use afflux_plan::{ByteRange, Extents, PayloadIndex, cover};

use super::{Buffers, Engine, Requests, grown, stretches};
use crate::error::LocalFailure;
use crate::memory::{Payload, in_memory};
use crate::transfer::{self, GatherWriter, nanoseconds};
use crate::{CollectiveError, Holes, Work};

/// Mean length of a piece from which on it is gathered rather than copied: at 8 KiB the kernel's cost of one more slice
/// (some tens of nanoseconds) is far below that of copying it.
const GATHER_PIECE_BYTES_MIN: u64 = 8192;

/// What one rank has for one window: its part of the request, and the data, in order.
struct Arrived<'a> {
    extents: Extents,
    slices: Vec<&'a [u8]>,
}

/// Collective: writes `payload` to `extents` through the aggregators. The inner result is this rank's own part of the
/// verdict. Without `move_data` the requests are only checked.
pub(crate) fn write(
    engine: &Engine<'_>,
    buffers: &mut Buffers,
    extents: &Extents,
    payload: &Payload<'_>,
    holes: Holes,
    move_data: bool,
    work: &mut Work,
) -> Result<Result<(), LocalFailure>, CollectiveError> {
    let requests = engine.ask(extents, work)?;
    let begin = Instant::now();
    let named: Vec<_> = requests.received.iter().map(|(rank, extents)| (*rank, extents)).collect();
    let coverage = cover(&named);
    let own = PayloadIndex::new(extents);
    let indices: Vec<PayloadIndex<'_>> = named.iter().map(|(_, extents)| PayloadIndex::new(extents)).collect();
    work.merge_steps += coverage.step_count;
    work.exchange_nanoseconds += nanoseconds(begin);
    let mut outcome = coverage.overlap.map_or(Ok(()), |overlap| {
        let (first, second) = (overlap.first.0.min(overlap.second.0), overlap.first.0.max(overlap.second.0));
        Err(LocalFailure::Overlap { offset: overlap.offset, first, second })
    });
    if !move_data {
        return Ok(outcome);
    }
    for round in 0..engine.domains.round_count() {
        let begin = Instant::now();
        let exchanged = exchange(engine, &requests, &own, &indices, payload, &mut buffers.exchange, round, work)?;
        work.exchange_nanoseconds += nanoseconds(begin);
        let covered = coverage.covered.clip(engine.window(round));
        if outcome.is_err() || covered.is_empty() {
            continue;
        }
        let begin = Instant::now();
        let pieces: u64 = exchanged.iter().map(|arrived| arrived.extents.piece_count()).sum();
        let fills = matches!(holes, Holes::Fill { .. }) && covered.piece_count() > 1;
        outcome = if !fills && covered.bytes() / pieces >= GATHER_PIECE_BYTES_MIN {
            gather(engine, &exchanged, work)
        } else {
            place(engine, &exchanged, &covered, holes, &mut buffers.window, work)
        };
        work.file_nanoseconds += nanoseconds(begin);
    }
    work.rounds += engine.domains.round_count();
    Ok(outcome)
}

/// Collective: one round's messages. Returns what this rank has to write, one entry a rank that has a part in its window.
#[expect(clippy::too_many_arguments, reason = "the round's two sides and their indices are different things")]
fn exchange<'b>(
    engine: &Engine<'_>,
    requests: &Requests,
    own: &PayloadIndex<'_>,
    indices: &[PayloadIndex<'_>],
    payload: &Payload<'b>,
    buffer: &'b mut Vec<u8>,
    round: u64,
    work: &mut Work,
) -> Result<Vec<Arrived<'b>>, CollectiveError> {
    let me = engine.rank();
    let mut outgoing: Vec<(usize, Vec<&[u8]>)> = Vec::new();
    for send in &requests.asked {
        let to = engine.layout.rank(send.aggregator);
        let range = own.payload_in(engine.window_of(send.aggregator, round));
        if to != me && !range.is_empty() {
            work.messages += 1;
            work.message_bytes += range.bytes();
            outgoing.push((to.0, payload.parts(range).collect()));
        }
    }
    let sends: Vec<(usize, &[&[u8]])> = outgoing.iter().map(|(to, slices)| (*to, slices.as_slice())).collect();

    let window = engine.window(round);
    let parts: Vec<(usize, ByteRange)> = (0..indices.len())
        .map(|at| (at, indices[at].payload_in(window)))
        .filter(|(_, part)| !part.is_empty())
        .collect();
    let foreign = |at: usize| requests.received[at].0 != me;
    let needed: u64 = parts.iter().filter(|(at, _)| foreign(*at)).map(|(_, part)| part.bytes()).sum();
    work.buffer_bytes_peak = work.buffer_bytes_peak.max(needed);
    let mut rest = grown(buffer, in_memory(needed));
    let mut receives: Vec<(usize, &mut [u8])> = Vec::new();
    for (at, part) in parts.iter().filter(|(at, _)| foreign(*at)) {
        let (here, behind) = rest.split_at_mut(in_memory(part.bytes()));
        receives.push((requests.received[*at].0.0, here));
        rest = behind;
    }
    engine.comm.exchange(&sends, &mut receives)?;

    let mut landed = receives.into_iter().map(|(_, bytes)| &*bytes);
    Ok(parts
        .iter()
        .map(|(at, _)| Arrived {
            extents: requests.received[*at].1.clip(window),
            slices: if foreign(*at) {
                landed.by_ref().take(1).collect()
            } else {
                payload.parts(own.payload_in(window)).collect()
            },
        })
        .collect())
}

/// Writes the pieces from where they lie.
fn gather(engine: &Engine<'_>, exchanged: &[Arrived<'_>], work: &mut Work) -> Result<(), LocalFailure> {
    let mut pieces: Vec<(u64, &[u8])> = Vec::new();
    for arrived in exchanged {
        let mut stream = Stream::new(&arrived.slices);
        for (mut offset, mut length) in arrived.extents.pieces() {
            while length > 0 {
                let part = stream.next_part(length);
                pieces.push((offset, part));
                offset += part.len() as u64;
                length -= part.len() as u64;
            }
        }
    }
    pieces.sort_unstable_by_key(|(offset, _)| *offset);
    let mut writer = GatherWriter::new(engine.file);
    for (offset, bytes) in pieces {
        writer.push(offset, bytes, work)?;
    }
    writer.flush(work)
}

/// Copies the pieces to their places in the window buffer, and writes its covered stretches.
fn place(
    engine: &Engine<'_>,
    exchanged: &[Arrived<'_>],
    covered: &Extents,
    holes: Holes,
    buffer: &mut Vec<u8>,
    work: &mut Work,
) -> Result<(), LocalFailure> {
    let (base, end) = covered.span().expect("checked by the caller");
    let at = |offset: u64| in_memory(offset - base);
    let window = grown(buffer, in_memory(end - base));
    let arrived_bytes: u64 = exchanged.iter().map(|arrived| arrived.extents.bytes()).sum();
    work.buffer_bytes_peak = work.buffer_bytes_peak.max(arrived_bytes + (end - base));
    let gap_bytes_max = match holes {
        Holes::Forbidden => 0,
        Holes::Fill { gap_bytes_max } => gap_bytes_max,
    };
    let stretches = stretches(covered, gap_bytes_max);
    for (stretch, _) in stretches.iter().filter(|(_, has_hole)| *has_hole) {
        let target = &mut window[at(stretch.start)..at(stretch.end)];
        let read = transfer::read_what_is_there(engine.file, stretch.start, target, work)?;
        // A hole past the end of the file reads as zeros once it is inside.
        target[read..].fill(0);
    }
    for arrived in exchanged {
        let mut stream = Stream::new(&arrived.slices);
        for (offset, length) in arrived.extents.pieces() {
            stream.copy_to(&mut window[at(offset)..at(offset + length)]);
        }
    }
    for (stretch, _) in &stretches {
        transfer::write(engine.file, stretch.start, &window[at(stretch.start)..at(stretch.end)], work)?;
    }
    Ok(())
}

/// Bytes that lie in several slices, taken from the front.
struct Stream<'a> {
    current: &'a [u8],
    rest: std::slice::Iter<'a, &'a [u8]>,
}

impl<'a> Stream<'a> {
    fn new(slices: &'a [&'a [u8]]) -> Self {
        Self { current: &[], rest: slices.iter() }
    }

    /// The next bytes that lie together, at most `length_max` of them.
    fn next_part(&mut self, length_max: u64) -> &'a [u8] {
        while self.current.is_empty() {
            self.current = self.rest.next().expect("the data is as long as its description");
        }
        let take = in_memory(length_max.min(self.current.len() as u64));
        let (part, behind) = self.current.split_at(take);
        self.current = behind;
        part
    }

    fn copy_to(&mut self, mut target: &mut [u8]) {
        while !target.is_empty() {
            let part = self.next_part(target.len() as u64);
            let (here, behind) = target.split_at_mut(part.len());
            here.copy_from_slice(part);
            target = behind;
        }
    }
}
