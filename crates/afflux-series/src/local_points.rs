//! A rank's points of one set: as the user gives them, patch by patch, and what the writer keeps of them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::numbers::Numbers;
use crate::points::{id_key, key_id};
use crate::{GridBlock, Point};

/// Points that come together in one call.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    List(Vec<Point>),
    Grid(GridBlock),
}

impl Patch {
    /// Number of points.
    pub fn len(&self) -> usize {
        match self {
            Self::List(points) => points.len(),
            // A block of more points than can be addressed has no window either; `check` comes first.
            Self::Grid(block) => usize::try_from(block.len()).unwrap_or(usize::MAX),
        }
    }

    /// Keys of the ids, in the order of the points.
    fn keys(&self) -> Numbers {
        match self {
            Self::List(points) => points.iter().map(|point| id_key(point.id)).collect(),
            Self::Grid(block) => block.keys(),
        }
    }

    fn check(&self) -> Result<(), String> {
        let points = match self {
            Self::List(points) => points,
            Self::Grid(block) => return block.check(),
        };
        match points.iter().find(|point| ![point.x, point.y, point.z].iter().all(|coordinate| coordinate.is_finite())) {
            None => Ok(()),
            Some(point) => {
                let Point { x, y, z, .. } = point;
                Err(format!("point {} has the coordinates ({x}, {y}, {z}); give finite ones", point.label()))
            }
        }
    }
}

/// This rank's points of a set, patch by patch: rows may be appended for the whole rank or patch by patch, their values in this
/// order. A list of points is one patch too, where one is asked for.
#[derive(Debug, Clone, Default)]
pub struct LocalPoints {
    pub(crate) patches: Vec<Patch>,
}

impl<I: IntoIterator<Item = Point>> From<I> for LocalPoints {
    fn from(points: I) -> Self {
        Self::new().points(points)
    }
}

impl LocalPoints {
    /// No point.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a patch of points.
    #[must_use]
    pub fn points(mut self, points: impl IntoIterator<Item = Point>) -> Self {
        self.patches.push(Patch::List(points.into_iter().collect()));
        self
    }

    /// Adds a patch that is a box of a grid: for millions of points, which are then never listed.
    #[must_use]
    pub fn grid(mut self, block: impl Into<GridBlock>) -> Self {
        self.patches.push(Patch::Grid(block.into()));
        self
    }

    /// What is wrong with the points, whoever else has which.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.patches.iter().try_for_each(Patch::check)?;
        let count = self.patches.iter().map(|patch| patch.len() as u64).fold(0, u64::saturating_add);
        match u32::try_from(count) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("{count} points on one rank; {} are the most there can be", u32::MAX)),
        }
    }
}

/// What is kept of a rank's points: which they are, in registration order, and their order in the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster {
    /// Ranges of registered points, indexed by patch; one over all where points came in one call or none.
    pub patches: Vec<Range<usize>>,
    /// Keys of the ids, in registration order.
    keys: Numbers,
    /// Registration indices by ascending id (equal ids by index); `None` where registration ascends.
    ascending: Option<Vec<u32>>,
    /// Names of those that have one, by registration index.
    names: BTreeMap<usize, Box<str>>,
}

impl Roster {
    /// Of points that were checked.
    pub fn of(points: &LocalPoints) -> Self {
        let mut roster = Self::default();
        let mut end = 0;
        for patch in &points.patches {
            let start = end;
            end += patch.len();
            roster.patches.push(start..end);
            if let Patch::List(list) = patch {
                let named = list.iter().enumerate().filter_map(|(index, point)| Some((index, point.name.as_ref()?)));
                roster.names.extend(named.map(|(index, name)| (start + index, name.as_str().into())));
            }
        }
        if roster.patches.is_empty() {
            roster.patches.push(0..0);
        }
        let patches: Vec<Numbers> = points.patches.iter().map(Patch::keys).collect();
        roster.keys = patches.iter().flat_map(Numbers::all).collect();
        if !roster.keys.is_ascending() {
            roster.ascending = Some(order_of(roster.keys.iter()));
        }
        roster
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Name of a point, or its id in decimal.
    pub fn label(&self, index: usize) -> String {
        match self.names.get(&index) {
            Some(name) => name.to_string(),
            None => key_id(self.keys.get(index)).to_string(),
        }
    }

    /// Registration index of the point at an ordinal of the ascending order.
    pub fn registered(&self, ordinal: usize) -> u32 {
        match &self.ascending {
            Some(order) => order[ordinal],
            None => u32::try_from(ordinal).expect("points of a rank are checked to fit in u32"),
        }
    }

    /// Whether registration order is the ascending one.
    pub fn is_ascending(&self) -> bool {
        self.ascending.is_none()
    }

    /// Keys of the ids, ascending; a number that was registered twice comes twice.
    pub fn ascending_keys(&self) -> Numbers {
        match &self.ascending {
            Some(order) => order.iter().map(|&index| self.keys.get(index as usize)).collect(),
            None => self.keys.clone(),
        }
    }

    /// Memory held, in bytes (names by their length).
    pub fn bytes(&self) -> u64 {
        let names: usize = self.names.values().map(|name| name.len() + size_of::<(usize, Box<str>)>()).sum();
        let order = self.ascending.as_ref().map_or(0, |order| order.len() * size_of::<u32>());
        (self.keys.bytes() + order + names) as u64
    }
}

/// The indices of `keys` by ascending key, equal keys by index.
pub(crate) fn order_of(keys: impl Iterator<Item = u64>) -> Vec<u32> {
    let mut order: Vec<(u64, u32)> = keys.zip(0_u32..).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, index)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PointGrid;

    #[test]
    fn patches_keep_their_order_and_the_file_its_own() {
        let grid = PointGrid::spread([0.0; 3], [1.0; 3], [2, 2, 2]);
        let named = Point::new(-3, 0.0, 0.0, 0.0).named("edge");
        let points =
            LocalPoints::new().grid(grid.block([1..2, 0..2, 0..2])).points([Point::new(1, 0.0, 0.0, 0.0), named]);
        points.check().unwrap();
        let roster = Roster::of(&points);
        assert_eq!(roster.patches, [0..4, 4..6]);
        assert_eq!((0..6).map(|index| roster.label(index)).collect::<Vec<_>>(), ["4", "5", "6", "7", "1", "edge"]);
        assert_eq!((0..6).map(|ordinal| roster.registered(ordinal)).collect::<Vec<_>>(), [5, 4, 0, 1, 2, 3]);
        assert_eq!(roster.ascending_keys().iter().map(key_id).collect::<Vec<_>>(), [-3, 1, 4, 5, 6, 7]);
    }

    #[test]
    fn a_block_of_millions_is_kept_in_a_few_words() {
        let grid = PointGrid::spread([0.0; 3], [1.0; 3], [1451, 929, 30]);
        let roster = Roster::of(&LocalPoints::new().grid(grid.block([0..1451, 0..929, 3..7])));
        assert_eq!(roster.len(), 1451 * 929 * 4);
        assert!(roster.bytes() < 1000 && roster.is_ascending());
    }
}
