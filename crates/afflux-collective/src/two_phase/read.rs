//! Steps 2 and 3 of a read: read a window's covered stretches, hand each rank its pieces.
//!
//! The pieces go out from where they lie in the window buffer, and land in the caller's memory where it is in one piece
//! there. Several ranks may ask for the same bytes: they are read once.

use std::time::Instant;

use afflux_plan::{ByteRange, Extents, PayloadIndex, cover};

use super::{Buffers, Engine, Requests, grown, stretches};
use crate::error::LocalFailure;
use crate::memory::{in_memory, parts_mut};
use crate::transfer::{self, nanoseconds};
use crate::{CollectiveError, Work};

/// Holes up to this long are read along: reading 16 KiB more costs about as much as one more call.
const SIEVE_GAP_BYTES_MAX: u64 = 16 << 10;

/// Collective: reads `extents` into `targets` through the aggregators. The inner result is this rank's own part of the
/// verdict; when it is an error, on this rank or another, what is in the buffers does not matter.
pub(crate) fn read(
    engine: &Engine<'_>,
    buffers: &mut Buffers,
    extents: &Extents,
    targets: &mut [&mut [u8]],
    work: &mut Work,
) -> Result<Result<(), LocalFailure>, CollectiveError> {
    let requests = engine.ask(extents, work)?;
    let begin = Instant::now();
    let named: Vec<_> = requests.received.iter().map(|(rank, extents)| (*rank, extents)).collect();
    let coverage = cover(&named);
    let own = PayloadIndex::new(extents);
    work.merge_steps += coverage.step_count;
    work.exchange_nanoseconds += nanoseconds(begin);
    let mut outcome = Ok(());
    for round in 0..engine.domains.round_count() {
        let begin = Instant::now();
        let covered = coverage.covered.clip(engine.window(round));
        let (base, end) = covered.span().unwrap_or((0, 0));
        let window = grown(&mut buffers.window, in_memory(end - base));
        if outcome.is_ok() {
            outcome = fill(engine, &covered, base, window, work);
        }
        work.file_nanoseconds += nanoseconds(begin);
        let begin = Instant::now();
        exchange(engine, &requests, &own, targets, &mut buffers.exchange, (base, window), round, work)?;
        work.exchange_nanoseconds += nanoseconds(begin);
    }
    work.rounds += engine.domains.round_count();
    Ok(outcome)
}

/// Reads what is covered into the window buffer, whose first byte is that of the file at `base`.
fn fill(
    engine: &Engine<'_>,
    covered: &Extents,
    base: u64,
    window: &mut [u8],
    work: &mut Work,
) -> Result<(), LocalFailure> {
    for (stretch, _) in stretches(covered, SIEVE_GAP_BYTES_MAX) {
        let target = &mut window[in_memory(stretch.start - base)..in_memory(stretch.end - base)];
        transfer::read(engine.file, stretch.start, target, work)?;
    }
    Ok(())
}

/// Collective: one round's messages.
#[expect(clippy::too_many_arguments, reason = "the round's two sides and their memory are different things")]
fn exchange(
    engine: &Engine<'_>,
    requests: &Requests,
    own: &PayloadIndex<'_>,
    targets: &mut [&mut [u8]],
    staging: &mut Vec<u8>,
    (base, window): (u64, &[u8]),
    round: u64,
    work: &mut Work,
) -> Result<(), CollectiveError> {
    let me = engine.rank();
    let part_of = |extents: &Extents| -> Vec<&[u8]> {
        let pieces = extents.clip(engine.window(round));
        pieces.pieces().map(|(offset, length)| &window[in_memory(offset - base)..][..in_memory(length)]).collect()
    };
    let mut outgoing: Vec<(usize, Vec<&[u8]>)> = Vec::new();
    for (rank, extents) in requests.received.iter().filter(|(rank, _)| *rank != me) {
        let slices = part_of(extents);
        if !slices.is_empty() {
            work.messages += 1;
            work.message_bytes += slices.iter().map(|slice| slice.len() as u64).sum::<u64>();
            outgoing.push((rank.0, slices));
        }
    }
    let sends: Vec<(usize, &[&[u8]])> = outgoing.iter().map(|(to, slices)| (*to, slices.as_slice())).collect();

    let (mut sources, mut ranges): (Vec<usize>, Vec<ByteRange>) = (Vec::new(), Vec::new());
    for send in &requests.asked {
        let range = own.payload_in(engine.window_of(send.aggregator, round));
        if !range.is_empty() {
            sources.push(engine.layout.rank(send.aggregator).0);
            ranges.push(range);
        }
    }
    let mut parts = parts_mut(targets, &ranges);
    // Only what lands in several places needs a place of its own first.
    let staged = |at: usize, parts: &[Vec<&mut [u8]>]| parts[at].len() > 1 && sources[at] != me.0;
    let needed: u64 = (0..parts.len()).filter(|&at| staged(at, &parts)).map(|at| ranges[at].bytes()).sum();
    work.buffer_bytes_peak = work.buffer_bytes_peak.max(needed + window.len() as u64);
    let is_staged: Vec<bool> = (0..parts.len()).map(|at| staged(at, &parts)).collect();
    let mut rest = grown(staging, in_memory(needed));
    let mut receives: Vec<(usize, &mut [u8])> = Vec::new();
    for (at, part) in parts.iter_mut().enumerate() {
        if is_staged[at] {
            let (here, behind) = rest.split_at_mut(in_memory(ranges[at].bytes()));
            receives.push((sources[at], here));
            rest = behind;
        } else if sources[at] != me.0 {
            receives.push((sources[at], &mut *part[0]));
        }
    }
    engine.comm.exchange(&sends, &mut receives)?;

    let mut landed: &[u8] = &staging[..in_memory(needed)];
    for (at, part) in parts.iter_mut().enumerate() {
        if sources[at] == me.0 {
            let mine = requests.received.iter().find(|(rank, _)| *rank == me).expect("what a rank asks of itself");
            scatter(&part_of(&mine.1), part);
        } else if is_staged[at] {
            let (here, behind) = landed.split_at(in_memory(ranges[at].bytes()));
            scatter(&[here], part);
            landed = behind;
        }
    }
    Ok(())
}

/// Copies the concatenation of `from` over that of `to`, which is as long.
fn scatter(from: &[&[u8]], to: &mut [&mut [u8]]) {
    let mut targets = to.iter_mut();
    let mut target: &mut [u8] = &mut [];
    for slice in from {
        let mut bytes = *slice;
        while !bytes.is_empty() {
            if target.is_empty() {
                target = targets.next().expect("both sides describe the same bytes");
                continue;
            }
            let take = bytes.len().min(target.len());
            let (here, behind) = std::mem::take(&mut target).split_at_mut(take);
            here.copy_from_slice(&bytes[..take]);
            target = behind;
            bytes = &bytes[take..];
        }
    }
}
