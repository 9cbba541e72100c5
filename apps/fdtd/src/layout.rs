//! How the cells are shared out: a Cartesian grid of boxes, one a rank.
//!
//! Pure arithmetic on the rank number: no communication, constant memory. The parts along an axis differ by at most one
//! cell. Where the factors of the rank count do not suit the grid (11 ranks on 10 x 10 x 10 cells, say) the highest ranks
//! have no cell; they only take part in collective calls.

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
}

/// Which side of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Towards smaller indices.
    Lower,
    /// Towards larger indices.
    Upper,
}

/// The grid of boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    cells: [usize; 3],
    parts: [usize; 3],
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
                return Self { cells, parts };
            }
            most /= 2;
            assert!(most > 0, "one rank always fits");
        }
    }

    /// Ranks along x, y, z.
    #[must_use]
    pub fn parts(&self) -> [usize; 3] {
        self.parts
    }

    /// Ranks that have cells: `0..used_ranks`.
    #[must_use]
    pub fn used_ranks(&self) -> usize {
        self.parts.iter().product()
    }

    /// The cells of `rank`; empty for ranks beyond [`Self::used_ranks`].
    #[must_use]
    pub fn block(&self, rank: usize) -> Block {
        let mut block = Block { start: [0; 3], len: [0; 3] };
        if let Some(coordinates) = self.coordinates(rank) {
            for (axis, index) in coordinates.into_iter().enumerate() {
                (block.start[axis], block.len[axis]) = part(self.cells[axis], self.parts[axis], index);
            }
        }
        block
    }

    /// The rank that has a cell, given by its global index (which must be inside the grid).
    #[must_use]
    pub fn owner(&self, cell: [usize; 3]) -> usize {
        self.rank_at(std::array::from_fn(|axis| part_of(self.cells[axis], self.parts[axis], cell[axis])))
    }

    /// The rank beside `rank` along an axis; `None` at the face of the domain.
    pub(crate) fn neighbour(&self, rank: usize, axis: usize, side: Side) -> Option<usize> {
        let mut coordinates = self.coordinates(rank)?;
        coordinates[axis] = match side {
            Side::Lower => coordinates[axis].checked_sub(1)?,
            Side::Upper => Some(coordinates[axis] + 1).filter(|&next| next < self.parts[axis])?,
        };
        Some(self.rank_at(coordinates))
    }

    fn coordinates(&self, rank: usize) -> Option<[usize; 3]> {
        let [_, py, pz] = self.parts;
        (rank < self.used_ranks()).then(|| [rank / (py * pz), rank / pz % py, rank % pz])
    }

    fn rank_at(&self, coordinates: [usize; 3]) -> usize {
        (coordinates[0] * self.parts[1] + coordinates[1]) * self.parts[2] + coordinates[2]
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

/// First cell and length of part `index`: the first `cells % parts` parts have one cell more.
fn part(cells: usize, parts: usize, index: usize) -> (usize, usize) {
    let (small, longer) = (cells / parts, cells % parts);
    (index * small + index.min(longer), small + usize::from(index < longer))
}

/// The part that holds `cell`; inverse of [`part`].
fn part_of(cells: usize, parts: usize, cell: usize) -> usize {
    debug_assert!(cell < cells, "cell {cell} of {cells}");
    let (small, longer) = (cells / parts, cells % parts);
    let boundary = longer * (small + 1);
    if cell < boundary { cell / (small + 1) } else { longer + (cell - boundary) / small }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_one_rank() {
        for cells in [[1, 1, 1], [5, 7, 9], [10, 3, 2], [16, 16, 16]] {
            for ranks in 1..=24 {
                let layout = Layout::new(cells, ranks);
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
