//! What a rank gives to whom and gets from whom when points change owner, and the rows that travel. No messages are sent here.

use std::collections::BTreeMap;

use afflux_comm::Received;

use crate::directory::{Answer, Request};
use crate::holdings::Placement;
use crate::local_points::Roster;
use crate::local_set::LocalSet;
use crate::numbers::{NumbersBuilder, Stretch};
use crate::wire::{Damaged, Decoder, Encoder};

/// Points that move, by the rank at the other end, in ascending position; each by its place in a row.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Moves {
    /// Places in the old row, by receiver; the rank itself for what stays.
    pub to: BTreeMap<usize, Vec<u32>>,
    /// Places in the new row, by sender; the rank itself for what stays.
    pub from: BTreeMap<usize, Vec<u32>>,
}

/// How many ids each block of the directory was asked for, by the block's rank: all blocks that were asked.
pub(crate) type Asked = BTreeMap<usize, usize>;

/// What this rank tells the directory: messages by the block's rank.
pub(crate) fn requests(local: &LocalSet, roster: &Roster) -> (Vec<(usize, Vec<u8>)>, Asked) {
    let shape = &local.directory.shape;
    let mut requests: BTreeMap<usize, Request> = BTreeMap::new();
    for (block, held) in shape.cut_positions(&local.layout.holdings.owned()) {
        requests.entry(block).or_default().held = held;
    }
    for (block, fills) in shape.cut_positions(local.layout.holdings.fills()) {
        requests.entry(block).or_default().fills = fills;
    }
    for (block, wanted) in shape.cut_keys(&roster.ascending_keys()) {
        requests.entry(block).or_default().wanted = wanted;
    }
    let asked = requests.iter().map(|(&block, request)| (block, request.wanted.len())).collect();
    let messages = requests.into_iter().map(|(block, request)| {
        let mut message = Encoder::default();
        request.encode(&mut message);
        (block, message.finish())
    });
    (messages.collect(), asked)
}

/// The answers of the directory put together: where this rank's new points stand, and to whom its old ones go.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub placement: Placement,
    /// Senders of the new points in ascending position: `(rank, count)`.
    pub from: Vec<(u64, u64)>,
    /// Receivers of the old ones: `(rank, count)`.
    pub to: Vec<(u64, u64)>,
}

/// Puts the answers together; `received` is sorted by the block's rank.
pub(crate) fn assemble(
    local: &LocalSet,
    roster: Roster,
    asked: &Asked,
    received: &[Received],
) -> Result<Assembled, Damaged> {
    if !asked.keys().copied().eq(received.iter().map(|message| message.source)) {
        return Err(Damaged);
    }
    let (mut owned, mut not_owned) = (NumbersBuilder::default(), NumbersBuilder::default());
    let (mut from, mut to) = (Vec::new(), Vec::new());
    let mut ordinal = 0;
    for (message, &keys) in received.iter().zip(asked.values()) {
        let answer = Answer::decode(&mut Decoder::new(&message.bytes))?;
        if answer.positions.len() + answer.not_owned.len() != keys {
            return Err(Damaged);
        }
        answer.positions.all().for_each(|stretch| owned.push(stretch));
        answer.not_owned.all().for_each(|part| not_owned.push(Stretch { first: part.first + ordinal, ..part }));
        from.extend(answer.from);
        to.extend(answer.to);
        ordinal += keys as u64;
    }
    let owned = owned.finish();
    let total = |counts: &[(u64, u64)]| counts.iter().map(|&(_, count)| count).sum::<u64>();
    if total(&from) != owned.len() as u64 || total(&to) != local.layout.holdings.len() as u64 {
        return Err(Damaged);
    }
    let mut fills = NumbersBuilder::default();
    let mut at = 0;
    for &(rank, count) in &to {
        let end = at + index(count);
        if Answer::stays(rank) {
            local.layout.holdings.stretches(at..end).for_each(|stretch| fills.push(stretch));
        }
        at = end;
    }
    let placement = Placement { roster, owned, not_owned: not_owned.finish(), fills: fills.finish() };
    Ok(Assembled { placement, from, to })
}

impl Moves {
    /// From the set as it was to the set as it will be.
    pub fn between(old: &LocalSet, renewed: &LocalSet, from: &[(u64, u64)], to: &[(u64, u64)]) -> Self {
        let old_places = old.layout.holdings.places(0..old.layout.holdings.len());
        let old_places = (0..old_places.len()).map(|ordinal| old_places.get(ordinal));
        Self { to: shared_out(to, old_places), from: shared_out(from, renewed.layout.holdings.owned_places()) }
    }
}

/// Places by the rank that each of `counts` names.
fn shared_out(counts: &[(u64, u64)], mut places: impl Iterator<Item = usize>) -> BTreeMap<usize, Vec<u32>> {
    let mut shares: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for &(rank, count) in counts {
        let part = places.by_ref().take(index(count));
        if Answer::stays(rank) {
            part.for_each(drop);
            continue;
        }
        let part = part.map(|place| u32::try_from(place).expect("points of a rank are checked to fit in u32"));
        shares.entry(index(rank)).or_default().extend(part);
    }
    shares
}

/// Bytes of all rows of one point.
fn point_bytes(local: &LocalSet) -> usize {
    local.layout.variables.iter().map(|variable| variable.row_bytes()).sum::<usize>() * local.window.rows()
}

/// The rows of the points at `places`: variable by variable, row by row.
pub(crate) fn pack(local: &LocalSet, places: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(point_bytes(local) * places.len());
    for (index, variable) in local.layout.variables.iter().enumerate() {
        let value_bytes = variable.row_bytes();
        for row in 0..local.window.rows() {
            let values = local.window.values(index, row, 1);
            for &place in places {
                let start = place as usize * value_bytes;
                bytes.extend_from_slice(&values[start..start + value_bytes]);
            }
        }
    }
    bytes
}

/// Puts what [`pack`] made into the rows of the points at `places`.
pub(crate) fn unpack(local: &mut LocalSet, places: &[u32], mut bytes: &[u8]) -> Result<(), Damaged> {
    if bytes.len() != point_bytes(local) * places.len() {
        return Err(Damaged);
    }
    for index in 0..local.layout.variables.len() {
        let value_bytes = local.layout.variables[index].row_bytes();
        for row in 0..local.window.rows() {
            let values = local.window.values_mut(index, row);
            for &place in places {
                let (value, rest) = bytes.split_at(value_bytes);
                values[place as usize * value_bytes..][..value_bytes].copy_from_slice(value);
                bytes = rest;
            }
        }
    }
    Ok(())
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("ranks and points of a rank are addressed by usize")
}
