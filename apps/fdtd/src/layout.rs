//! How the cells are shared out: a Cartesian grid of boxes, one a rank.
//!
//! Pure arithmetic on the rank number: no communication, and memory for the borders along three axes. The parts along an
//! axis differ by at most one cell, until [`Layout::swept`] moves the borders between them. Where the factors of the rank count
//! do not suit the grid (11 ranks on 10 x 10 x 10 cells, say) the highest ranks have no cell; they only take part in
//! collective calls.

use std::ops::Range;

/// The cells of one rank: a box `[start, start + len)` in global indices; empty where the rank has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// First cell along x, y, z.
    pub start: [usize; 3],
    /// Cells along x, y, z: all positive, or all zero.
    pub len: [usize; 3],
}

impl Block {
    /// Whether it holds a cell, given by its global index.
    #[must_use]
    pub fn contains(&self, cell: [usize; 3]) -> bool {
        (0..3).all(|axis| (self.start[axis]..self.start[axis] + self.len[axis]).contains(&cell[axis]))
    }
    /// Number of cells.
    #[must_use]
    pub fn cell_count(&self) -> usize {
        self.len.iter().product()
    }
    /// The cells along an axis.
    #[must_use]
    pub fn range(&self, axis: usize) -> Range<usize> {
        self.start[axis]..self.start[axis] + self.len[axis]
    }
    /// The cells that both have; without cells, and then at the origin, where there is none.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut shared = Self { start: [0; 3], len: [0; 3] };
        for axis in 0..3 {
            let (here, there) = (self.range(axis), other.range(axis));
            shared.start[axis] = here.start.max(there.start);
            shared.len[axis] = here.end.min(there.end).saturating_sub(shared.start[axis]);
        }
        if shared.len.contains(&0) { Self { start: [0; 3], len: [0; 3] } } else { shared }
    }
}

/// Which side of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// Towards smaller indices.
    Lower,
    /// Towards larger indices.
    Upper,
}

/// The grid of boxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Along each axis where each part begins, ascending, and behind them the number of cells.
    borders: [Vec<usize>; 3],
}

impl Layout {
    /// The best split of `cells` over at most `ranks` ranks: the smallest largest box, then no idle rank, then the smallest
    /// halo, then z cut least (its rows are contiguous in memory). A rank count with unlucky factors leaves ranks idle where
    /// that is faster: 53 ranks on 60 x 60 x 60 cells would be slabs of two planes, and fewer ranks make smaller boxes.
    ///
    /// # Panics
    /// If `ranks` or a cell count is 0.
    #[must_use]
    pub fn new(cells: [usize; 3], ranks: usize) -> Self {
        assert!(ranks > 0 && cells.iter().all(|&n| n > 0), "a layout needs cells and ranks");
        let fits = |parts: &[usize; 3]| (0..3).all(|axis| parts[axis] <= cells[axis]);
        // From half the ranks on there is always a power of two, which suits most grids; lower counts are tried only where
        // none of these fits, as with more ranks than cells.
        let mut most = ranks;
        loop {
            let counts = most / 2 + 1..=most;
            let splits = counts.flat_map(factors).filter(fits);
            if let Some(parts) = splits.min_by_key(|&parts| cost(cells, parts, ranks)) {
                return Self { borders: std::array::from_fn(|axis| even_borders(cells[axis], parts[axis])) };
            }
            most /= 2;
            assert!(most > 0, "one rank always fits");
        }
    }

    /// The same ranks with the borders between them moved, as a load balancer moves them: `turn` counts the moves, and this
    /// layout is turn 0. In turns 1, 5, 9, ... every border lies higher by a third of the part above it, in turns 3, 7, ...
    /// lower by a third of the part below, in even ones where it was, so that every turn gives cells and probes to other
    /// ranks. A part of one cell is left its cell.
    #[must_use]
    pub fn swept(&self, turn: u64) -> Self {
        let third = |part: usize| if part > 1 { (part / 3).max(1) } else { 0 };
        let borders = std::array::from_fn(|axis| {
            let old = &self.borders[axis];
            let mut new = old.clone();
            for border in 1..old.len() - 1 {
                match turn % 4 {
                    1 => new[border] += third(old[border + 1] - old[border]),
                    3 => new[border] -= third(old[border] - old[border - 1]),
                    _ => {}
                }
            }
            new
        });
        Self { borders }
    }

    /// Ranks along x, y, z.
    #[must_use]
    pub fn parts(&self) -> [usize; 3] {
        std::array::from_fn(|axis| self.borders[axis].len() - 1)
    }

    /// Ranks that have cells: `0..used_ranks`.
    #[must_use]
    pub fn used_ranks(&self) -> usize {
        self.parts().iter().product()
    }

    /// The cells of `rank`; empty for ranks beyond [`Self::used_ranks`].
    #[must_use]
    pub fn block(&self, rank: usize) -> Block {
        let mut block = Block { start: [0; 3], len: [0; 3] };
        if let Some(coordinates) = self.coordinates(rank) {
            for (axis, index) in coordinates.into_iter().enumerate() {
                let borders = &self.borders[axis];
                (block.start[axis], block.len[axis]) = (borders[index], borders[index + 1] - borders[index]);
            }
        }
        block
    }

    /// The rank that has a cell, given by its global index (which must be inside the grid).
    #[must_use]
    pub fn owner(&self, cell: [usize; 3]) -> usize {
        self.rank_at(std::array::from_fn(|axis| self.borders[axis].partition_point(|&start| start <= cell[axis]) - 1))
    }

    /// The rank beside `rank` along an axis; `None` at the face of the domain.
    pub(crate) fn neighbour(&self, rank: usize, axis: usize, side: Side) -> Option<usize> {
        let mut coordinates = self.coordinates(rank)?;
        coordinates[axis] = match side {
            Side::Lower => coordinates[axis].checked_sub(1)?,
            Side::Upper => Some(coordinates[axis] + 1).filter(|&next| next < self.parts()[axis])?,
        };
        Some(self.rank_at(coordinates))
    }

    fn coordinates(&self, rank: usize) -> Option<[usize; 3]> {
        let [_, py, pz] = self.parts();
        (rank < self.used_ranks()).then(|| [rank / (py * pz), rank / pz % py, rank % pz])
    }

    fn rank_at(&self, coordinates: [usize; 3]) -> usize {
        let [_, py, pz] = self.parts();
        (coordinates[0] * py + coordinates[1]) * pz + coordinates[2]
    }
}

/// All ways to write `count` as a product of three factors.
fn factors(count: usize) -> impl Iterator<Item = [usize; 3]> {
    divisors(count).into_iter().flat_map(move |x| divisors(count / x).into_iter().map(move |y| [x, y, count / x / y]))
}

/// The divisors of a number, in no order.
fn divisors(count: usize) -> Vec<usize> {
    let small: Vec<usize> = (1..=count.isqrt()).filter(|d| count.is_multiple_of(*d)).collect();
    let large: Vec<usize> = small.iter().map(|d| count / d).filter(|d| d * d != count).collect();
    small.into_iter().chain(large).collect()
}

/// Largest box, idle ranks, area of a box's faces to other ranks, ranks along z, ranks along y: less is better, in this order.
fn cost(cells: [usize; 3], parts: [usize; 3], ranks: usize) -> (usize, usize, usize, usize, usize) {
    let len: [usize; 3] = std::array::from_fn(|axis| cells[axis].div_ceil(parts[axis]));
    let cut_faces = |axis: usize| (parts[axis] - 1).min(2);
    let halo = (0..3).map(|axis| cut_faces(axis) * len[(axis + 1) % 3] * len[(axis + 2) % 3]).sum();
    let idle = ranks - parts.iter().product::<usize>();
    (len.iter().product(), idle, halo, parts[2], parts[1])
}

/// The borders of `parts` parts that differ by at most one cell: the first `cells % parts` have one more.
fn even_borders(cells: usize, parts: usize) -> Vec<usize> {
    let (small, longer) = (cells / parts, cells % parts);
    (0..=parts).map(|index| index * small + index.min(longer)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_one_rank() {
        for cells in [[1, 1, 1], [5, 7, 9], [10, 3, 2], [16, 16, 16]] {
            for (ranks, turn) in (1..=24).flat_map(|ranks| [0, 1, 3].map(|turn| (ranks, turn))) {
                let layout = Layout::new(cells, ranks).swept(turn);
                assert!(layout.used_ranks() <= ranks);
                let blocks: Vec<Block> = (0..ranks).map(|rank| layout.block(rank)).collect();
                let total: usize = blocks.iter().map(Block::cell_count).sum();
                assert_eq!(total, cells.iter().product::<usize>(), "{cells:?} over {ranks}");
                for cell in (0..total).map(|n| [n / (cells[1] * cells[2]), n / cells[2] % cells[1], n % cells[2]]) {
                    let holders: Vec<usize> = (0..ranks).filter(|&rank| blocks[rank].contains(cell)).collect();
                    assert_eq!(holders, [layout.owner(cell)], "{cells:?} over {ranks}: {cell:?}");
                }
            }
        }
    }

    #[test]
    fn neighbours_are_mutual() {
        let layout = Layout::new([9, 8, 7], 12);
        assert_eq!(layout.used_ranks(), 12);
        for rank in 0..12 {
            for axis in 0..3 {
                if let Some(next) = layout.neighbour(rank, axis, Side::Upper) {
                    assert_eq!(layout.neighbour(next, axis, Side::Lower), Some(rank));
                    let (here, there) = (layout.block(rank), layout.block(next));
                    assert_eq!(here.start[axis] + here.len[axis], there.start[axis]);
                    assert_eq!(here.len[(axis + 1) % 3], there.len[(axis + 1) % 3]);
                }
            }
        }
    }

    #[test]
    fn a_sweep_moves_every_border_that_can_move() {
        let layout = Layout::new([9, 9, 9], 4);
        assert_eq!(layout.parts(), [2, 2, 1]);
        let starts: Vec<_> = (0..5).map(|turn| layout.swept(turn).block(3).start).collect();
        assert_eq!(starts, [[5, 5, 0], [6, 6, 0], [5, 5, 0], [4, 4, 0], [5, 5, 0]]);
        let thin = Layout::new([5, 1, 1], 4);
        let starts = |turn| (0..4).map(|rank| thin.swept(turn).block(rank).start[0]).collect::<Vec<_>>();
        assert_eq!((starts(0), starts(1)), (vec![0, 2, 3, 4], vec![0, 2, 3, 4]), "a part of one cell keeps it");
        assert_eq!(starts(3), [0, 1, 3, 4]);
    }

    #[test]
    fn what_two_boxes_share() {
        let block = |start, len| Block { start, len };
        let whole = block([1, 2, 3], [4, 4, 4]);
        assert_eq!(whole.intersection(&block([0, 4, 5], [3, 9, 1])), block([1, 4, 5], [2, 2, 1]));
        assert_eq!(whole.intersection(&block([5, 2, 3], [1, 1, 1])).cell_count(), 0);
        assert_eq!(whole.intersection(&block([0; 3], [0; 3])).cell_count(), 0);
    }

    #[test]
    fn ranks_that_do_not_fit_are_idle() {
        let layout = Layout::new([10, 10, 10], 11);
        assert_eq!(layout.used_ranks(), 10);
        assert_eq!(layout.block(10).cell_count(), 0);
        assert_eq!(layout.neighbour(10, 0, Side::Lower), None);
    }

    #[test]
    fn z_is_cut_last() {
        assert_eq!(Layout::new([60, 60, 60], 4).parts(), [2, 2, 1]);
        assert_eq!(Layout::new([60, 60, 60], 7).parts(), [7, 1, 1]);
    }

    #[test]
    fn unlucky_rank_counts_do_not_make_thin_slabs() {
        let layout = Layout::new([60, 60, 60], 53);
        let largest = (0..53).map(|rank| layout.block(rank).cell_count()).max();
        assert!(largest <= Some(4500), "{:?}: {largest:?} cells", layout.parts());
        // Many ranks are quick to share out, and the search does not hang where there are more ranks than cells.
        assert_eq!(Layout::new([2, 2, 2], 24_571).used_ranks(), 8);
        assert!(Layout::new([600, 600, 600], 24_571).used_ranks() > 20_000);
    }
}
