//! Registration, the part of rank 0: who has which point, and where it stands in the file. Pure.
//!
//! Every rank's patches come in ascending id, as lists or as boxes of grids; one merge over all of them gives the order of the
//! file, the positions of each rank's points, duplicates and orphans. Time n log k for n points (or stretches of neighbouring
//! ids, where the patches are regular) in k patches. Order and identity follow from the ids alone, so they do not depend on the
//! rank count.
//!
//! No table of the points is made: the file is given them one after another by the same merge ([`Pieces`]). What this takes of memory are
//! the patches as they came, a few words for a box of a grid.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use afflux_container::{PointRow, PointSource, PointTable, SetSpec};

use crate::directory::{Block, DirectoryShape};
use crate::error::named;
use crate::local_points::{LocalPoints, Patch, order_of};
use crate::merge::{Claim, Claims, Merged};
use crate::numbers::{Numbers, NumbersBuilder, Stretch};
use crate::points::{id_key, key_id};
use crate::wire::{Damaged, Decoder, Encoder};
use crate::{Duplicates, GridBlock, OpenError, Orphans, Point, PointGrid, ProbeSet};

/// Names in a message at most: a wrong mesh can make thousands of duplicates.
pub(crate) const NAMES_MAX: usize = 8;

/// One patch of one rank, in ascending id.
#[derive(Debug)]
pub(crate) struct Piece {
    keys: Numbers,
    source: Source,
}

/// Where a piece's coordinates and names come from.
#[derive(Debug)]
enum Source {
    Grid(GridBlock),
    /// Coordinates by ordinal, and the names of those that have one.
    List(Vec<[f64; 3]>, BTreeMap<usize, Box<str>>),
}

impl Piece {
    /// Number of points.
    pub fn points(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Appends a patch to a registration message.
    pub fn encode(patch: &Patch, message: &mut Encoder) {
        match patch {
            Patch::Grid(block) => {
                message.word(0);
                let PointGrid { origin, spacing, counts, first_id } = *block.grid();
                for coordinate in origin.into_iter().chain(spacing) {
                    message.word(coordinate.to_bits());
                }
                for word in counts.into_iter().chain(block.ranges().iter().flat_map(|range| [range.start, range.end])) {
                    message.word(word);
                }
                message.word(first_id.cast_unsigned());
            }
            Patch::List(points) => {
                message.word(1);
                let order = order_of(points.iter().map(|point| id_key(point.id)));
                let ordered = || order.iter().map(|&index| &points[index as usize]);
                ordered().map(|point| id_key(point.id)).collect::<Numbers>().encode(message);
                for coordinate in ordered().flat_map(|point| [point.x, point.y, point.z]) {
                    message.word(coordinate.to_bits());
                }
                let named =
                    || ordered().enumerate().filter_map(|(ordinal, point)| Some((ordinal, point.name.as_ref()?)));
                message.word(named().count() as u64);
                for (ordinal, name) in named() {
                    message.word(ordinal as u64).text(name);
                }
            }
        }
    }

    /// Reads what [`Piece::encode`] wrote.
    pub fn decode(message: &mut Decoder<'_>) -> Result<Self, Damaged> {
        if message.word()? == 0 {
            let mut coordinate = || message.word().map(f64::from_bits);
            let origin = [coordinate()?, coordinate()?, coordinate()?];
            let spacing = [coordinate()?, coordinate()?, coordinate()?];
            let counts = [message.word()?, message.word()?, message.word()?];
            let mut range = || Ok(message.word()?..message.word()?);
            let ranges = [range()?, range()?, range()?];
            let first_id = message.word()?.cast_signed();
            let block = PointGrid { origin, spacing, counts, first_id }.block(ranges);
            block.check().map_err(|_| Damaged)?;
            return Ok(Self { keys: block.keys(), source: Source::Grid(block) });
        }
        let keys = Numbers::decode(message)?;
        let mut coordinates = Vec::new();
        for _ in 0..keys.len() {
            let mut coordinate = || message.word().map(f64::from_bits);
            coordinates.push([coordinate()?, coordinate()?, coordinate()?]);
        }
        let names = (0..message.count(2 * 8)?).map(|_| {
            let ordinal = usize::try_from(message.word()?).map_err(|_| Damaged)?;
            Ok((ordinal, Box::from(message.text()?)))
        });
        let names = names.collect::<Result<_, Damaged>>()?;
        Ok(Self { keys, source: Source::List(coordinates, names) })
    }

    fn row(&self, ordinal: usize) -> PointRow<'_> {
        match &self.source {
            Source::Grid(block) => {
                let Point { id, x, y, z, .. } = block.point(ordinal as u64);
                PointRow { id, at: [x, y, z], name: None }
            }
            Source::List(coordinates, _) => {
                PointRow { id: key_id(self.keys.get(ordinal)), at: coordinates[ordinal], name: self.name(ordinal) }
            }
        }
    }

    /// Points whose coordinates came one by one.
    pub fn listed_points(&self) -> u64 {
        match &self.source {
            Source::Grid(_) => 0,
            Source::List(coordinates, _) => coordinates.len() as u64,
        }
    }

    /// Bytes of all names, and how many there are.
    pub fn names(&self) -> (u64, u64) {
        match &self.source {
            Source::Grid(_) => (0, 0),
            Source::List(_, names) => (names.values().map(|name| name.len() as u64).sum(), names.len() as u64),
        }
    }

    fn name(&self, ordinal: usize) -> Option<&str> {
        match &self.source {
            Source::Grid(_) => None,
            Source::List(_, names) => names.get(&ordinal).map(AsRef::as_ref),
        }
    }

    fn label(&self, ordinal: usize) -> String {
        self.name(ordinal).map_or_else(|| key_id(self.keys.get(ordinal)).to_string(), str::to_owned)
    }
}

/// What rank 0 learnt about one set.
#[derive(Debug)]
pub(crate) struct Registered {
    /// How many points there are.
    pub points: u64,
    /// The points themselves, in file order.
    pub pieces: Pieces,
    /// For each rank, the ascending positions of the points it keeps.
    pub owned: Vec<Numbers>,
    /// For each rank, which of its points (ordinals in ascending id) another keeps.
    pub not_owned: Vec<Numbers>,
    /// Positions of the points that nobody registered, ascending.
    pub orphans: Numbers,
    /// The blocks of the directory, indexed by rank; ranks behind the last block have none.
    pub directory: (DirectoryShape, Vec<Block>),
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// All patches of a set, and behind them the points that are expected of whoever has them.
#[derive(Debug)]
pub(crate) struct Pieces {
    pieces: Vec<Piece>,
    /// Rank of each piece; those of the expected points have none.
    ranks: Vec<Option<usize>>,
    /// Number of different points, once they are counted.
    points: u64,
}

impl PointSource for Pieces {
    fn count(&self) -> u64 {
        self.points
    }

    fn visit(&self, see: &mut dyn FnMut(PointRow<'_>) -> ControlFlow<()>) {
        for claim in self.claims() {
            let Claim::First(merged) = claim else { continue };
            let piece = &self.pieces[merged.source];
            for ordinal in (merged.ordinal..).take(usize::try_from(merged.stretch.length).unwrap_or(usize::MAX)) {
                if see(piece.row(ordinal)).is_break() {
                    return;
                }
            }
        }
    }
}

impl Pieces {
    /// All of them, in no order of meaning.
    pub fn all(&self) -> &[Piece] {
        &self.pieces
    }

    fn claims(&self) -> Claims<'_> {
        Claims::of(self.pieces.iter().map(|piece| &piece.keys))
    }

    fn label(&self, merged: Merged) -> String {
        self.pieces[merged.source].label(merged.ordinal)
    }
}

/// Settles one set on rank 0: `pieces[rank]` are the patches each rank registered.
pub(crate) fn settle(set: &ProbeSet, pieces: Vec<Vec<Piece>>) -> Result<Registered, OpenError> {
    let refuse = |problem: String| OpenError::Points { set: set.name.clone(), problem };
    let rank_count = pieces.len();
    let expected = expected_pieces(&set.expected).map_err(|damaged| refuse(damaged.to_string()))?;
    let mut all = Pieces { pieces: Vec::new(), ranks: Vec::new(), points: 0 };
    for (rank, piece) in
        pieces.into_iter().enumerate().flat_map(|(rank, list)| list.into_iter().map(move |p| (rank, p)))
    {
        all.pieces.push(piece);
        all.ranks.push(Some(rank));
    }
    all.ranks.resize(all.ranks.len() + expected.len(), None);
    all.pieces.extend(expected);

    let mut shares = Shares::of(rank_count);
    let (mut doubles, mut missing) = (Found::default(), Found::default());
    for claim in all.claims() {
        match claim {
            Claim::First(merged) => {
                let rank = all.ranks[merged.source];
                if rank.is_none() {
                    missing.add_some(merged.stretch.length, |k| all.label(merged.skip(k).expect("within the stretch")));
                }
                shares.first(rank, merged.stretch.length);
            }
            Claim::Again { first, again } => match (all.ranks[first.source], all.ranks[again.source]) {
                (Some(owner), Some(rank)) => {
                    doubles.add(|| format!("{} (ranks {owner} and {rank})", all.label(first)));
                    shares.again(rank);
                }
                (None, _) => return Err(refuse(format!("the expected points have `{}` twice", all.label(again)))),
                (Some(_), None) => {}
            },
        }
    }
    let warnings = judge(set, &doubles, &missing).map_err(refuse)?;
    check_names(&all).map_err(refuse)?;
    let points = shares.total;
    all.points = points;
    let directory = direct(&all, rank_count);
    let Shares { owned, not_owned, orphans, .. } = shares;
    let finish = |builders: Vec<NumbersBuilder>| builders.into_iter().map(NumbersBuilder::finish).collect();
    Ok(Registered {
        points,
        pieces: all,
        owned: finish(owned),
        not_owned: finish(not_owned),
        orphans: orphans.finish(),
        directory,
        warnings,
    })
}

/// The expected points as pieces, by the way that all pieces come.
fn expected_pieces(expected: &LocalPoints) -> Result<Vec<Piece>, Damaged> {
    let pieces = expected.patches.iter().map(|patch| {
        let mut message = Encoder::default();
        Piece::encode(patch, &mut message);
        Piece::decode(&mut Decoder::new(&message.finish()))
    });
    pieces.collect()
}

/// What each rank has, as the merge goes on.
struct Shares {
    total: u64,
    owned: Vec<NumbersBuilder>,
    not_owned: Vec<NumbersBuilder>,
    orphans: NumbersBuilder,
    /// Points of each rank so far: the ordinal of its next one.
    ordinals: Vec<u64>,
}

impl Shares {
    fn of(ranks: usize) -> Self {
        let builders = || (0..ranks).map(|_| NumbersBuilder::default()).collect();
        let orphans = NumbersBuilder::default();
        Self { total: 0, owned: builders(), not_owned: builders(), orphans, ordinals: vec![0; ranks] }
    }

    fn first(&mut self, rank: Option<usize>, length: u64) {
        let positions = Stretch { first: self.total, length };
        self.total += length;
        match rank {
            Some(rank) => {
                self.owned[rank].push(positions);
                self.ordinals[rank] += length;
            }
            None => self.orphans.push(positions),
        }
    }

    fn again(&mut self, rank: usize) {
        self.not_owned[rank].push_one(self.ordinals[rank]);
        self.ordinals[rank] += 1;
    }
}

/// Points that are to be named in a message: how many, and the first few.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub count: u64,
    pub labels: Vec<String>,
}

impl Found {
    pub fn add(&mut self, label: impl FnOnce() -> String) {
        self.count += 1;
        if self.labels.len() < NAMES_MAX {
            self.labels.push(label());
        }
    }

    /// `count` of them at once, labelled by number.
    pub fn add_some(&mut self, count: u64, label: impl Fn(u64) -> String) {
        let room = (NAMES_MAX - self.labels.len()) as u64;
        self.count += count;
        self.labels.extend((0..count.min(room)).map(label));
    }

    /// The labels, and how many more there are.
    pub fn names(&self) -> String {
        let shown = self.labels.join(", ");
        match self.count - self.labels.len() as u64 {
            0 => shown,
            more => format!("{shown} and {more} more"),
        }
    }
}

/// What the set's policies make of points with several owners or none: warnings, or the refusal.
fn judge(set: &ProbeSet, doubles: &Found, missing: &Found) -> Result<Vec<String>, String> {
    let mut warnings = Vec::new();
    if doubles.count > 0 {
        let text = format!(
            "{} registered more than once: {}",
            count_of(doubles.count, "point is", "points are"),
            doubles.names()
        );
        match set.duplicates {
            Duplicates::Refuse => {
                return Err(format!(
                    "{text}; register each point on one rank, or choose Duplicates::LowestRank for points on shared faces"
                ));
            }
            Duplicates::LowestRank => {
                warnings.push(format!("{}: {text}; the lowest rank keeps each", named(&set.name)))
            }
        }
    }
    if missing.count > 0 {
        let text = format!("no rank registered {}: {}", count_of(missing.count, "point", "points"), missing.names());
        match set.orphans {
            Orphans::Refuse => {
                return Err(format!(
                    "{text}; are they outside the domain? Choose Orphans::Fill to keep them with fill values"
                ));
            }
            Orphans::Fill => {
                warnings.push(format!("{}: {text}; they stand in the file with fill values", named(&set.name)));
            }
        }
    }
    Ok(warnings)
}

/// Names must tell the points apart (from those too that are named by their id), and a C string must be able to hold them.
fn check_names(all: &Pieces) -> Result<(), String> {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    // Names that are numbers, by the key of the id they could be mistaken for.
    let mut numeric: BTreeMap<u64, &str> = BTreeMap::new();
    for claim in all.claims() {
        let Claim::First(merged) = claim else { continue };
        let Source::List(_, names) = &all.pieces[merged.source].source else { continue };
        if names.is_empty() {
            continue;
        }
        for k in 0..merged.stretch.length {
            let Some(name) = merged.skip(k).and_then(|one| names.get(&one.ordinal)) else { continue };
            if name.is_empty() || name.contains('\0') {
                return Err(format!("`{}` cannot be a point's name", name.escape_debug()));
            }
            let key = merged.stretch.first + k;
            if seen.insert(name, key).is_some() {
                return Err(format!("two points are named `{name}`; names must be unique within a set"));
            }
            if let Some(id) = name.parse::<i64>().ok().filter(|id| id.to_string() == **name) {
                numeric.insert(id_key(id), name);
            }
        }
    }
    for claim in all.claims().filter(|_| !numeric.is_empty()) {
        let Claim::First(merged) = claim else { continue };
        for (&key, name) in numeric.range(merged.stretch.first..=merged.stretch.last()) {
            let one = merged.skip(key - merged.stretch.first).expect("within the stretch");
            if all.pieces[one.source].name(one.ordinal).is_none() {
                return Err(format!("two points are named `{name}`; names must be unique within a set"));
            }
        }
    }
    Ok(())
}

/// The directory over the points.
fn direct(all: &Pieces, ranks: usize) -> (DirectoryShape, Vec<Block>) {
    let mut blocks = DirectoryShape::builder(all.points, ranks);
    let mut position = 0;
    for claim in all.claims() {
        let Claim::First(merged) = claim else { continue };
        blocks.push(merged.stretch);
        if let Source::List(_, names) = &all.pieces[merged.source].source {
            let end = merged.ordinal + usize::try_from(merged.stretch.length).unwrap_or(usize::MAX);
            for (ordinal, name) in names.range(merged.ordinal..end) {
                blocks.name(position + (ordinal - merged.ordinal) as u64, name);
            }
        }
        position += merged.stretch.length;
    }
    blocks.finish()
}

/// The set as the container creates it, without its points.
pub(crate) fn set_spec(set: &ProbeSet, chunk_steps: u64) -> SetSpec {
    SetSpec {
        name: set.name.clone(),
        points: PointTable::default(),
        variables: set.variables.iter().map(|variable| variable.spec.clone()).collect(),
        cadence_steps: set.cadence_steps,
        chunk_steps,
    }
}

/// `1 point`, `2 points`.
pub(crate) fn count_of(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(id: i64) -> Point {
        Point::new(id, id as f64, 0.0, 0.0)
    }

    fn pieces(points: impl Into<LocalPoints>) -> Vec<Piece> {
        expected_pieces(&points.into()).unwrap()
    }

    /// Id, coordinates and name of every point.
    fn table(registered: &Registered) -> Vec<(i64, [f64; 3], String)> {
        let mut rows = Vec::new();
        registered.pieces.visit(&mut |row| {
            rows.push((row.id, row.at, row.label().into_owned()));
            ControlFlow::Continue(())
        });
        assert_eq!(rows.len() as u64, registered.points);
        rows
    }

    fn listed(numbers: &[Numbers]) -> Vec<Vec<u64>> {
        numbers.iter().map(|list| list.iter().collect()).collect()
    }

    #[test]
    fn positions_follow_the_ids_whatever_the_ranks() {
        let set = ProbeSet::new("s");
        let one = settle(&set, vec![pieces([9, 3, 5, 1].map(point))]).unwrap();
        let two = settle(&set, vec![pieces([point(5)]), vec![], pieces([1, 9, 3].map(point))]).unwrap();
        assert_eq!(table(&one), table(&two));
        assert!(table(&one).iter().map(|row| row.0).eq([1, 3, 5, 9]));
        assert_eq!(listed(&one.owned), [vec![0, 1, 2, 3]]);
        assert_eq!(listed(&two.owned), [vec![2], vec![], vec![0, 1, 3]]);
    }

    #[test]
    fn r9_a_point_on_a_face_has_one_owner() {
        let points = || vec![pieces([1, 2].map(point)), pieces([3, 2].map(point))];
        let refused = settle(&ProbeSet::new("s"), points()).unwrap_err();
        assert!(refused.to_string().contains("2 (ranks 0 and 1)"), "{refused}");
        let kept = settle(&ProbeSet::new("s").duplicates(Duplicates::LowestRank), points()).unwrap();
        assert_eq!(listed(&kept.owned), [vec![0, 1], vec![2]]);
        assert_eq!(listed(&kept.not_owned), [vec![], vec![0]]);
        assert_eq!(kept.warnings.len(), 1);
    }

    #[test]
    fn r9_a_point_outside_the_domain_is_reported_by_name() {
        let expected = [point(1), point(7).named("far")];
        let refused = settle(&ProbeSet::new("s").expected(expected.clone(), Orphans::Refuse), vec![pieces([point(1)])]);
        assert!(refused.unwrap_err().to_string().contains("far"));
        let kept = settle(&ProbeSet::new("s").expected(expected, Orphans::Fill), vec![pieces([point(1)])]).unwrap();
        assert_eq!(kept.orphans.iter().collect::<Vec<_>>(), [1]);
        assert!(table(&kept).iter().map(|row| &row.2).eq(["1", "far"]));
    }

    #[test]
    fn equal_names_are_refused() {
        let set = ProbeSet::new("s");
        let refused = |points: [Point; 2]| settle(&set, vec![pieces(points)]).unwrap_err().to_string();
        assert!(refused([point(1).named("A"), point(2).named("A")]).contains("`A`"));
        assert!(refused([point(1).named("2"), point(2)]).contains("`2`"), "the second is named 2 by its id");
        assert!(refused([point(1).named(""), point(2)]).contains("cannot be"));
        settle(&set, vec![pieces([point(1).named("2"), point(2).named("1")])]).unwrap();
    }

    #[test]
    fn grids_and_lists_make_the_same_set() {
        let grid = PointGrid { first_id: 5, ..PointGrid::spread([0.0; 3], [3.0, 4.0, 5.0], [3, 4, 5]) };
        let whole = settle(&ProbeSet::new("s"), vec![pieces(grid.points())]).unwrap();
        let blocks = [[0..2, 0..4, 0..3], [2..3, 0..4, 0..3], [0..3, 0..4, 3..5]].map(|ranges| grid.block(ranges));
        let split =
            settle(&ProbeSet::new("s"), blocks.map(|block| pieces(LocalPoints::new().grid(block))).into()).unwrap();
        assert_eq!(table(&whole), table(&split));
        assert_eq!(split.owned.iter().map(Numbers::len).collect::<Vec<_>>(), [24, 12, 24]);
    }

    #[test]
    fn patches_travel_whole() {
        let points = [point(-4).named("é"), point(2), point(-9)];
        let [piece] = pieces(points).try_into().unwrap();
        let came = [0, 1, 2].map(|ordinal| piece.row(ordinal));
        assert_eq!(
            came.map(|row| (row.id, row.at[0], row.name)),
            [(-9, -9.0, None), (-4, -4.0, Some("é")), (2, 2.0, None)]
        );
    }
}
