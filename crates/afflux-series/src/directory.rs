//! The directory of a set's points: which position an id has, and who moves what to whom when owners change. Pure.
//!
//! Positions are cut into blocks of equal length, one a rank (fewer where there are few points). A rank answers for the ids of
//! its block and knows where the other blocks begin, so no rank keeps all ids; what is asked of the directory goes to the ranks
//! concerned. When owners change, a rank tells the directory which positions it writes and which ids it wants
//! ([`Request`]); each block matches the two ([`Block::match_requests`]) and answers ([`Answer`]).

use std::collections::BTreeMap;

use crate::merge::{Claim, Claims};
use crate::numbers::{Numbers, NumbersBuilder, Stretch};
use crate::points::key_id;
use crate::registry::Found;
use crate::wire::{Damaged, Decoder, Encoder};

/// A block has at least this many points if there are as many: below that, messages cost more than the work they share out.
const BLOCK_POINTS_MIN: u64 = 1024;

/// In an [`Answer`]: the position stays with the rank that fills it.
const STAYS: u64 = u64::MAX;

/// How positions and ids are shared out; the same on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DirectoryShape {
    /// Positions in a block; the last one may have fewer.
    block_points: u64,
    /// Key of the first point of each block but the first.
    splitters: Vec<u64>,
}

/// The directory of a set, as one rank knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Directory {
    pub shape: DirectoryShape,
    /// What this rank answers for; empty on ranks behind the last block.
    pub block: Block,
}

/// What one rank answers for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Block {
    /// First position.
    first: u64,
    /// Keys of the ids, by position.
    keys: Numbers,
    /// Names of the points that have one, by position.
    names: BTreeMap<u64, Box<str>>,
}

/// Takes a set's points down in the order of the file, block by block.
pub(crate) struct DirectoryBuilder {
    shape: DirectoryShape,
    blocks: Vec<Block>,
    open: NumbersBuilder,
    open_points: u64,
    names: BTreeMap<u64, Box<str>>,
}

impl DirectoryShape {
    /// A directory of `points` points over `ranks` ranks, to be told their keys in file order.
    pub fn builder(points: u64, ranks: usize) -> DirectoryBuilder {
        Self::builder_of(points, points.div_ceil(BLOCK_POINTS_MIN).clamp(1, ranks.max(1) as u64))
    }

    fn builder_of(points: u64, blocks: u64) -> DirectoryBuilder {
        DirectoryBuilder {
            shape: Self { block_points: points.div_ceil(blocks).max(1), splitters: Vec::new() },
            blocks: Vec::new(),
            open: NumbersBuilder::default(),
            open_points: 0,
            names: BTreeMap::new(),
        }
    }

    /// Cuts ascending positions by block: `(block, part)` for those that have any.
    pub fn cut_positions(&self, positions: &Numbers) -> Vec<(usize, Numbers)> {
        cut(positions, |position| {
            let block = position / self.block_points;
            (usize::try_from(block).expect("blocks are counted by ranks"), (block + 1).checked_mul(self.block_points))
        })
    }

    /// Cuts ascending keys by block.
    pub fn cut_keys(&self, keys: &Numbers) -> Vec<(usize, Numbers)> {
        cut(keys, |key| {
            let block = self.splitters.partition_point(|&first| first <= key);
            (block, self.splitters.get(block).copied())
        })
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.splitters.len() * size_of::<u64>()) as u64
    }

    pub fn encode(&self, message: &mut Encoder) {
        message.word(self.block_points).word(self.splitters.len() as u64);
        for &splitter in &self.splitters {
            message.word(splitter);
        }
    }

    pub fn decode(message: &mut Decoder<'_>) -> Result<Self, Damaged> {
        let block_points = Some(message.word()?).filter(|&points| points > 0).ok_or(Damaged)?;
        let splitters = (0..message.count(8)?).map(|_| message.word()).collect::<Result<_, _>>()?;
        Ok(Self { block_points, splitters })
    }
}

/// Cuts an ascending sequence where `part_of` changes: it gives the part of a number, and where the next part begins.
fn cut(numbers: &Numbers, part_of: impl Fn(u64) -> (usize, Option<u64>)) -> Vec<(usize, Numbers)> {
    let mut parts: Vec<(usize, NumbersBuilder)> = Vec::new();
    for whole in numbers.all() {
        let mut rest = Some(whole);
        while let Some(stretch) = rest {
            let (part, next) = part_of(stretch.first);
            let length = next.map_or(stretch.length, |next| stretch.length.min(next - stretch.first));
            if parts.last().is_none_or(|&(last, _)| last != part) {
                parts.push((part, NumbersBuilder::default()));
            }
            parts.last_mut().expect("just pushed").1.push(Stretch { length, ..stretch });
            rest = stretch.skip(length);
        }
    }
    parts.into_iter().map(|(part, numbers)| (part, numbers.finish())).collect()
}

impl DirectoryBuilder {
    /// The keys of the next points in file order.
    pub fn push(&mut self, keys: Stretch) {
        let mut rest = Some(keys);
        while let Some(stretch) = rest {
            if self.open_points == self.shape.block_points {
                self.close();
                self.shape.splitters.push(stretch.first);
            }
            let length = stretch.length.min(self.shape.block_points - self.open_points);
            self.open.push(Stretch { length, ..stretch });
            self.open_points += length;
            rest = stretch.skip(length);
        }
    }

    /// The name of the point at `position`, pushed or about to be.
    pub fn name(&mut self, position: u64, name: &str) {
        self.names.insert(position, name.into());
    }

    fn close(&mut self) {
        let first = self.blocks.len() as u64 * self.shape.block_points;
        self.open_points = 0;
        let keys = std::mem::take(&mut self.open).finish();
        self.blocks.push(Block { first, keys, names: BTreeMap::new() });
    }

    /// The shape, and the blocks by rank.
    pub fn finish(mut self) -> (DirectoryShape, Vec<Block>) {
        self.close();
        for (position, name) in self.names {
            let block = usize::try_from(position / self.shape.block_points).expect("blocks are counted by ranks");
            self.blocks[block].names.insert(position, name);
        }
        (self.shape, self.blocks)
    }
}

/// What a rank tells one block of the directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Request {
    /// Ascending positions of the points that the rank has.
    pub held: Numbers,
    /// Ascending positions that the rank fills because nobody has them.
    pub fills: Numbers,
    /// Ascending keys of the ids that the rank is to have from now on; a key that it lists twice comes twice.
    pub wanted: Numbers,
}

/// What a block of the directory tells a rank that asked. Counts run over consecutive elements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    /// Ascending positions of the wanted points that the rank gets.
    pub positions: Numbers,
    /// Which of the wanted keys (ordinals in the request) go to another rank that wants them too, or came before.
    pub not_owned: Numbers,
    /// Who has those at `positions` now: `(rank, count)`.
    pub from: Vec<(u64, u64)>,
    /// Who gets the positions that the rank has and fills, in ascending order of all of them: `(rank, count)`; see [`Answer::stays`].
    pub to: Vec<(u64, u64)>,
}

/// What is wrong with a new map of owners.
#[derive(Debug, Default)]
pub(crate) struct Wrongs {
    /// Points that nobody wants.
    pub lost: Found,
    /// Points that several want.
    pub doubled: Found,
    /// Ids that the set does not have.
    pub unknown: Found,
}

impl Wrongs {
    /// Whether anything is; points that several want may go to the lowest rank.
    pub fn are_wrong(&self, may_double: bool) -> bool {
        self.lost.count > 0 || self.unknown.count > 0 || (self.doubled.count > 0 && !may_double)
    }

    /// The points by name.
    pub fn names(&self, may_double: bool) -> String {
        let kinds = [("no owner", &self.lost), ("several", &self.doubled), ("not in the set", &self.unknown)];
        let told = kinds.iter().enumerate().filter(|(kind, (_, found))| found.count > 0 && !(*kind == 1 && may_double));
        told.map(|(_, (what, found))| format!("{what}: {}", found.names())).collect::<Vec<_>>().join("; ")
    }
}

impl Request {
    pub fn encode(&self, message: &mut Encoder) {
        self.held.encode(message);
        self.fills.encode(message);
        self.wanted.encode(message);
    }
    pub fn decode(message: &mut Decoder<'_>) -> Result<Self, Damaged> {
        let (held, fills) = (Numbers::decode(message)?, Numbers::decode(message)?);
        Ok(Self { held, fills, wanted: Numbers::decode(message)? })
    }
}

impl Answer {
    /// Whether this receiver in [`Answer::to`] says that a filled position stays filled.
    pub fn stays(rank: u64) -> bool {
        rank == STAYS
    }
    pub fn encode(&self, message: &mut Encoder) {
        self.positions.encode(message);
        self.not_owned.encode(message);
        for counts in [&self.from, &self.to] {
            message.word(counts.len() as u64);
            for &(rank, count) in counts {
                message.word(rank).word(count);
            }
        }
    }
    pub fn decode(message: &mut Decoder<'_>) -> Result<Self, Damaged> {
        let (positions, not_owned) = (Numbers::decode(message)?, Numbers::decode(message)?);
        let mut counts = || -> Result<Vec<_>, Damaged> {
            (0..message.count(2 * 8)?).map(|_| Ok((message.word()?, message.word()?))).collect()
        };
        Ok(Self { positions, not_owned, from: counts()?, to: counts()? })
    }
}

/// Positions of one rank, old or new.
#[derive(Debug, Clone, Copy)]
struct Owned {
    positions: Stretch,
    /// Index of the request.
    request: usize,
    /// It is only filled.
    is_fill: bool,
}

impl Block {
    /// Matches what the ranks have with what they want: `requests` are `(rank, request)` by ascending rank. Answers in the same
    /// order; they count only if nothing is wrong (or points are doubled and the lowest rank may keep each).
    pub fn match_requests(&self, requests: &[(usize, Request)]) -> Result<(Vec<Answer>, Wrongs), Damaged> {
        let mut wrongs = Wrongs::default();
        let old = self.old_owners(requests)?;
        let (new, not_owned) = self.new_owners(requests, &mut wrongs);
        let mut drafts = vec![Draft::default(); requests.len()];
        for (positions, old, new) in overlay(&old, &new) {
            // `old_owners` has seen to it that every position has one.
            let old = old.ok_or(Damaged)?;
            match new {
                Some(new) => {
                    drafts[new.request].positions.push(positions);
                    add_count(&mut drafts[new.request].from, requests[old.request].0 as u64, positions.length);
                    add_count(&mut drafts[old.request].to, requests[new.request].0 as u64, positions.length);
                }
                None if old.is_fill => add_count(&mut drafts[old.request].to, STAYS, positions.length),
                None => wrongs.lost.add_some(positions.length, |k| self.label(positions.first + k)),
            }
        }
        let answers = drafts.into_iter().zip(not_owned).map(|(draft, not_owned)| {
            let Draft { positions, from, to } = draft;
            Answer { positions: positions.finish(), not_owned: not_owned.finish(), from, to }
        });
        Ok((answers.collect(), wrongs))
    }

    /// Who has and fills which positions of the block: all of them, each once.
    fn old_owners(&self, requests: &[(usize, Request)]) -> Result<Vec<Owned>, Damaged> {
        let sources = requests.iter().flat_map(|(_, request)| [&request.held, &request.fills]);
        let mut owners = Vec::new();
        let mut next = self.first;
        for claim in Claims::of(sources) {
            let Claim::First(merged) = claim else { return Err(Damaged) };
            if merged.stretch.first != next {
                return Err(Damaged);
            }
            next += merged.stretch.length;
            let (request, is_fill) = (merged.source / 2, merged.source % 2 == 1);
            owners.push(Owned { positions: merged.stretch, request, is_fill });
        }
        if next == self.first + self.keys.len() as u64 { Ok(owners) } else { Err(Damaged) }
    }

    /// Who gets which positions, and for each request the ordinals of the keys that it does not get.
    fn new_owners(&self, requests: &[(usize, Request)], wrongs: &mut Wrongs) -> (Vec<Owned>, Vec<NumbersBuilder>) {
        let mut owners = Vec::new();
        let mut not_owned: Vec<NumbersBuilder> = requests.iter().map(|_| NumbersBuilder::default()).collect();
        for claim in Claims::of(requests.iter().map(|(_, request)| &request.wanted)) {
            let merged = match claim {
                Claim::First(merged) => merged,
                Claim::Again { first, again } => {
                    let ranks = [first, again].map(|claim| requests[claim.source].0);
                    wrongs.doubled.add(|| {
                        let label = self.label_of_key(again.stretch.first);
                        format!("{label} (ranks {} and {})", ranks[0], ranks[1])
                    });
                    not_owned[again.source].push_one(again.ordinal as u64);
                    continue;
                }
            };
            let mut rest = Some(merged.stretch);
            while let Some(keys) = rest {
                let length = match self.keys.find(keys.first) {
                    Ok(ordinal) => {
                        let known = self.keys.stretches(ordinal..self.keys.len()).next().expect("one at least");
                        let positions =
                            Stretch { first: self.first + ordinal as u64, length: keys.length.min(known.length) };
                        owners.push(Owned { positions, request: merged.source, is_fill: false });
                        positions.length
                    }
                    Err(ordinal) => {
                        let next = (ordinal < self.keys.len()).then(|| self.keys.get(ordinal));
                        let length = next.map_or(keys.length, |next| keys.length.min(next - keys.first));
                        let rank = requests[merged.source].0;
                        wrongs.unknown.add_some(length, |k| format!("{} (rank {rank})", key_id(keys.first + k)));
                        length
                    }
                };
                rest = keys.skip(length);
            }
        }
        (owners, not_owned)
    }

    fn label_of_key(&self, key: u64) -> String {
        self.keys.find(key).map_or_else(|_| key_id(key).to_string(), |ordinal| self.label(self.first + ordinal as u64))
    }

    /// The name of the point at `position`, or its id in decimal.
    fn label(&self, position: u64) -> String {
        match self.names.get(&position) {
            Some(name) => name.to_string(),
            None => {
                let ordinal = usize::try_from(position - self.first).expect("a block is in memory");
                key_id(self.keys.get(ordinal)).to_string()
            }
        }
    }

    /// Memory held, in bytes (names by their length).
    pub fn bytes(&self) -> u64 {
        let names: usize = self.names.values().map(|name| name.len() + size_of::<(u64, Box<str>)>()).sum();
        (self.keys.bytes() + names) as u64
    }

    pub fn encode(&self, message: &mut Encoder) {
        message.word(self.first);
        self.keys.encode(message);
        message.word(self.names.len() as u64);
        for (&position, name) in &self.names {
            message.word(position).text(name);
        }
    }

    pub fn decode(message: &mut Decoder<'_>) -> Result<Self, Damaged> {
        let first = message.word()?;
        let keys = Numbers::decode(message)?;
        let names = (0..message.count(2 * 8)?).map(|_| Ok((message.word()?, message.text()?.into())));
        let names = names.collect::<Result<_, Damaged>>()?;
        Ok(Self { first, keys, names })
    }
}

/// An [`Answer`] in the making.
#[derive(Debug, Clone, Default)]
struct Draft {
    positions: NumbersBuilder,
    from: Vec<(u64, u64)>,
    to: Vec<(u64, u64)>,
}

/// Appends `count` of `rank` to counts over consecutive elements.
fn add_count(counts: &mut Vec<(u64, u64)>, rank: u64, count: u64) {
    match counts.last_mut() {
        Some((last, total)) if *last == rank => *total += count,
        _ => counts.push((rank, count)),
    }
}

/// Two ascending lists of owners laid over each other: positions that have the same owner in each.
fn overlay<'a>(
    old: &'a [Owned],
    new: &'a [Owned],
) -> impl Iterator<Item = (Stretch, Option<Owned>, Option<Owned>)> + 'a {
    let mut lists = [old.iter().copied(), new.iter().copied()];
    let mut heads = [lists[0].next(), lists[1].next()];
    std::iter::from_fn(move || {
        let first = heads.iter().flatten().map(|owned| owned.positions.first).min()?;
        let here = |head: &Owned| head.positions.first == first;
        let reach = |head: &Owned| if here(head) { head.positions.length } else { head.positions.first - first };
        let length = heads.iter().flatten().map(reach).min()?;
        let owners = heads.map(|head| head.filter(here));
        for (head, list) in heads.iter_mut().zip(&mut lists) {
            if let Some(owned) = head.filter(here) {
                *head = match owned.positions.skip(length) {
                    Some(positions) => Some(Owned { positions, ..owned }),
                    None => list.next(),
                };
            }
        }
        Some((Stretch { first, length }, owners[0], owners[1]))
    })
}

#[cfg(test)]
mod tests;
