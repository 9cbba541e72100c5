//! Regular grids of points, and the boxes of them that ranks have: descriptions of a few words, however many points.

use std::ops::Range;

use crate::Point;
use crate::numbers::{Numbers, NumbersBuilder, Stretch};
use crate::points::id_key;

/// A regular grid of points; ids count from `first_id`, z fastest, then y, then x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointGrid {
    /// Coordinates of the first point.
    pub origin: [f64; 3],
    /// Distance between neighbours along x, y and z.
    pub spacing: [f64; 3],
    /// Points along x, y and z.
    pub counts: [u64; 3],
    /// Id of the first point.
    pub first_id: i64,
}

impl PointGrid {
    /// `counts` points spread evenly through a box: each in the middle of its share.
    #[must_use]
    pub fn spread(low: [f64; 3], high: [f64; 3], counts: [u64; 3]) -> Self {
        let spacing = std::array::from_fn(|axis| (high[axis] - low[axis]) / counts[axis].max(1) as f64);
        let origin = std::array::from_fn(|axis: usize| low[axis] + 0.5 * spacing[axis]);
        Self { origin, spacing, counts, first_id: 0 }
    }

    /// Number of points.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.counts.iter().product()
    }

    /// Whether there is no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The points in the order of their ids.
    pub fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let block = self.whole();
        (0..block.len()).map(move |index| block.point(index))
    }

    /// All of it, as one block.
    #[must_use]
    pub fn whole(&self) -> GridBlock {
        self.block(self.counts.map(|count| 0..count))
    }

    /// The points whose indices along x, y and z lie in `ranges`: what one rank has of the grid. A block that reaches beyond
    /// the grid is refused when the file is opened.
    #[must_use]
    pub fn block(&self, ranges: [Range<u64>; 3]) -> GridBlock {
        GridBlock { grid: *self, ranges }
    }
}

/// A box of a grid's points, in the order of their ids (z fastest); made by [`PointGrid::block`]. It takes a few words of memory
/// however many points it has.
#[derive(Debug, Clone, PartialEq)]
pub struct GridBlock {
    grid: PointGrid,
    ranges: [Range<u64>; 3],
}

impl From<PointGrid> for GridBlock {
    fn from(grid: PointGrid) -> Self {
        grid.whole()
    }
}

impl GridBlock {
    /// Points along x, y and z.
    #[must_use]
    pub fn counts(&self) -> [u64; 3] {
        std::array::from_fn(|axis| self.ranges[axis].end.saturating_sub(self.ranges[axis].start))
    }

    /// Number of points.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.counts().iter().product()
    }

    /// Whether there is no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts().contains(&0)
    }

    /// The grid it belongs to.
    #[must_use]
    pub fn grid(&self) -> &PointGrid {
        &self.grid
    }

    /// Indices along x, y and z.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>; 3] {
        &self.ranges
    }

    /// The point at `index`, below [`GridBlock::len`].
    #[must_use]
    pub fn point(&self, index: u64) -> Point {
        let [_, ny, nz] = self.counts();
        let (row, k) = (index / nz, index % nz);
        let place = [row / ny, row % ny, k];
        let at: [u64; 3] = std::array::from_fn(|axis| self.ranges[axis].start + place[axis]);
        let coordinate = |axis: usize| self.grid.origin[axis] + self.grid.spacing[axis] * at[axis] as f64;
        Point::new(self.id(at), coordinate(0), coordinate(1), coordinate(2))
    }

    fn id(&self, at: [u64; 3]) -> i64 {
        let [_, ny, nz] = self.grid.counts;
        self.grid.first_id.wrapping_add_unsigned((at[0] * ny + at[1]) * nz + at[2])
    }

    /// What is wrong with it: it reaches beyond the grid, or the grid beyond the numbers there are.
    pub(crate) fn check(&self) -> Result<(), String> {
        let [nx, ny, nz] = self.grid.counts;
        let Some(total) = nx.checked_mul(ny).and_then(|points| points.checked_mul(nz)) else {
            return Err(format!("a grid of {nx} x {ny} x {nz} points has more than there are numbers"));
        };
        if self.grid.first_id.checked_add_unsigned(total).is_none() {
            return Err(format!(
                "the ids of a grid of {nx} x {ny} x {nz} points from {} on end past the largest",
                self.grid.first_id
            ));
        }
        for (axis, (range, &count)) in ["x", "y", "z"].into_iter().zip(self.ranges.iter().zip(&self.grid.counts)) {
            if range.start > range.end || range.end > count {
                return Err(format!("a block has the indices {range:?} along {axis}, the grid has {count}"));
            }
        }
        if self.is_empty() {
            return Ok(());
        }
        for corner in [self.point(0), self.point(self.len() - 1)] {
            if ![corner.x, corner.y, corner.z].iter().all(|coordinate| coordinate.is_finite()) {
                let Point { x, y, z, .. } = corner;
                return Err(format!(
                    "the grid's point {} has the coordinates ({x}, {y}, {z}); give finite ones",
                    corner.id
                ));
            }
        }
        Ok(())
    }

    /// The keys of its ids, ascending.
    pub(crate) fn keys(&self) -> Numbers {
        let mut keys = NumbersBuilder::default();
        let [x, y, z] = self.ranges.clone();
        let length = z.end.saturating_sub(z.start);
        if length > 0 {
            for i in x {
                for j in y.clone() {
                    keys.push(Stretch { first: id_key(self.id([i, j, z.start])), length });
                }
            }
        }
        keys.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::key_id;

    #[test]
    fn a_grid_counts_z_fastest() {
        let grid = PointGrid::spread([0.0; 3], [8.0, 8.0, 16.0], [2, 2, 4]);
        let points: Vec<_> = grid.points().collect();
        assert_eq!(points.len(), 16);
        assert_eq!((points[0].x, points[0].y, points[0].z), (2.0, 2.0, 2.0));
        assert_eq!((points[1].id, points[1].z), (1, 6.0));
        assert_eq!((points[4].id, points[4].y), (4, 6.0));
        assert_eq!((points[15].x, points[15].y, points[15].z), (6.0, 6.0, 14.0));
    }

    #[test]
    fn blocks_are_the_grids_own_points() {
        let grid = PointGrid { first_id: -7, ..PointGrid::spread([0.0; 3], [5.0, 4.0, 3.0], [5, 4, 3]) };
        let all: Vec<Point> = grid.points().collect();
        for ranges in
            [[0..5, 0..4, 0..3], [1..3, 0..4, 0..3], [0..5, 1..2, 0..3], [2..5, 1..4, 1..3], [0..5, 2..2, 0..3]]
        {
            let block = grid.block(ranges.clone());
            block.check().unwrap();
            let [x, y, z] = ranges;
            let expected: Vec<Point> = all
                .iter()
                .zip(0_u64..)
                .filter(|&(_, at)| x.contains(&(at / 12)) && y.contains(&(at / 3 % 4)) && z.contains(&(at % 3)))
                .map(|(point, _)| point.clone())
                .collect();
            assert_eq!((0..block.len()).map(|index| block.point(index)).collect::<Vec<_>>(), expected);
            assert_eq!(
                block.keys().iter().map(key_id).collect::<Vec<_>>(),
                expected.iter().map(|p| p.id).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn millions_of_points_take_a_few_words() {
        let grid = PointGrid::spread([0.0; 3], [1.0; 3], [1451, 929, 30]);
        for ranges in [[100..300, 0..929, 0..30], [0..1451, 116..232, 0..30], [0..1451, 0..929, 4..8]] {
            let block = grid.block(ranges);
            assert_eq!(block.keys().len() as u64, block.len());
            assert_eq!(block.keys().bytes(), 40);
        }
    }

    #[test]
    fn impossible_blocks_are_refused() {
        let grid = PointGrid::spread([0.0; 3], [1.0; 3], [4, 4, 4]);
        assert!(grid.block([0..4, 0..5, 0..4]).check().unwrap_err().contains("along y"));
        #[expect(clippy::reversed_empty_ranges, reason = "what is refused")]
        let reversed = grid.block([3..2, 0..4, 0..4]);
        assert!(reversed.check().is_err());
        assert!(PointGrid { counts: [1 << 40, 1 << 40, 2], ..grid }.whole().check().is_err());
        assert!(PointGrid { first_id: i64::MAX - 3, ..grid }.whole().check().is_err());
        assert!(PointGrid { spacing: [f64::INFINITY; 3], ..grid }.whole().check().is_err());
    }
}
