//! The grid: cells, their size, the time step, and which cell a position belongs to.
//!
//! Cell (i, j, k) is the half-open box `[i dx, (i+1) dx) x ...` with faces at the products `i * dx` as computed in f64; the
//! upper faces of the domain belong to the last cells. Every rank computes the same answer from the same numbers, so a
//! point on a face, edge or corner between two ranks has exactly one owner.

use std::fmt;

use crate::constants::SPEED_OF_LIGHT;

/// How far outside the domain, in cells, a position still counts as on its face: room for the rounding of a coordinate
/// that a person computed as count times size, nothing more.
const FACE_SLACK_CELLS: f64 = 1e-9;

/// A field component, in the order in which rows hold them by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
pub enum Component {
    /// Electric field along x, V/m.
    Ex,
    /// Electric field along y, V/m.
    Ey,
    /// Electric field along z, V/m.
    Ez,
    /// Magnetic field along x, A/m.
    Hx,
    /// Magnetic field along y, A/m.
    Hy,
    /// Magnetic field along z, A/m.
    Hz,
}

impl Component {
    /// Its name, as in the model and in the output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ex => "Ex",
            Self::Ey => "Ey",
            Self::Ez => "Ez",
            Self::Hx => "Hx",
            Self::Hy => "Hy",
            Self::Hz => "Hz",
        }
    }
    /// Its units in UDUNITS notation.
    #[must_use]
    pub fn units(self) -> &'static str {
        if self.is_electric() { "V m-1" } else { "A m-1" }
    }
    /// Whether it belongs to E; else to H.
    #[must_use]
    pub fn is_electric(self) -> bool {
        matches!(self, Self::Ex | Self::Ey | Self::Ez)
    }
    /// Its direction: 0, 1, 2 for x, y, z.
    #[must_use]
    pub fn axis(self) -> usize {
        match self {
            Self::Ex | Self::Hx => 0,
            Self::Ey | Self::Hy => 1,
            Self::Ez | Self::Hz => 2,
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Cells, cell size and time step of a checked model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    /// Cells along x, y, z; at least 1 each.
    pub cells: [usize; 3],
    /// Size of a cell along x, y, z, metres.
    pub cell_size_m: [f64; 3],
    /// Time step, seconds.
    pub time_step_s: f64,
}

impl Grid {
    /// A grid whose time step is `courant` times the stability limit `1 / (c sqrt(1/dx^2 + 1/dy^2 + 1/dz^2))`.
    #[must_use]
    pub fn new(cells: [usize; 3], cell_size_m: [f64; 3], courant: f64) -> Self {
        let inverse_square: f64 = cell_size_m.iter().map(|d| 1.0 / (d * d)).sum();
        Self { cells, cell_size_m, time_step_s: courant / (SPEED_OF_LIGHT * inverse_square.sqrt()) }
    }

    /// Size of the domain, metres; its lower corner is the origin.
    #[must_use]
    pub fn extent_m(&self) -> [f64; 3] {
        std::array::from_fn(|axis| self.cells[axis] as f64 * self.cell_size_m[axis])
    }

    /// Number of cells.
    #[must_use]
    pub fn cell_count(&self) -> u64 {
        self.cells.iter().map(|&n| n as u64).product()
    }

    /// The cell that holds a position in metres; `None` outside the domain (and for NaN).
    #[must_use]
    pub fn cell_of(&self, position_m: [f64; 3]) -> Option<[usize; 3]> {
        let mut cell = [0; 3];
        for axis in 0..3 {
            cell[axis] = cell_on_axis(position_m[axis], self.cell_size_m[axis], self.cells[axis])?;
        }
        Some(cell)
    }
}

/// The cell along one axis; the faces are `index * size`, whatever the quotient rounds to.
fn cell_on_axis(position: f64, size: f64, count: usize) -> Option<usize> {
    let slack = size * FACE_SLACK_CELLS;
    if !(position >= -slack && position <= count as f64 * size + slack) {
        return None;
    }
    let guess = floor_index(position / size).min(count - 1);
    Some(if guess > 0 && position < guess as f64 * size {
        guess - 1
    } else if guess + 1 < count && position >= (guess + 1) as f64 * size {
        guess + 1
    } else {
        guess
    })
}

/// The floor of a value, clamped to `usize`; negative values give 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` from float saturates, which is what is meant"
)]
fn floor_index(value: f64) -> usize {
    value.floor() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_belong_to_the_cell_above_and_the_last_face_to_the_last_cell() {
        let grid = Grid::new([10, 7, 3], [0.1, 0.3, 1.0], 0.9);
        for i in 0..10 {
            assert_eq!(grid.cell_of([i as f64 * 0.1, 0.0, 0.0]), Some([i, 0, 0]), "face {i}");
        }
        let [x, y, z] = grid.extent_m();
        assert_eq!(grid.cell_of([x, y, z]), Some([9, 6, 2]));
        assert_eq!(grid.cell_of([x + 1e-6, 0.0, 0.0]), None);
        assert_eq!(grid.cell_of([-1e-6, 0.0, 0.0]), None);
        assert_eq!(grid.cell_of([f64::NAN, 0.0, 0.0]), None);
        assert_eq!(grid.cell_of([f64::INFINITY, 0.0, 0.0]), None);
    }

    #[test]
    fn quotients_that_round_across_a_face_are_put_right() {
        // Whatever `x / d` rounds to, the product decides.
        for size in [0.1, 0.3, 0.7, 1e-3 / 3.0] {
            let grid = Grid::new([1000, 1, 1], [size, 1.0, 1.0], 0.9);
            for i in 1..1000_usize {
                let face = i as f64 * size;
                assert_eq!(grid.cell_of([face, 0.0, 0.0]), Some([i, 0, 0]));
                assert_eq!(grid.cell_of([face.next_down(), 0.0, 0.0]), Some([i - 1, 0, 0]));
            }
        }
    }

    #[test]
    fn the_time_step_of_a_cube_is_the_known_limit() {
        let grid = Grid::new([2, 2, 2], [1e-3; 3], 1.0);
        assert!((grid.time_step_s * SPEED_OF_LIGHT * 3.0_f64.sqrt() / 1e-3 - 1.0).abs() < 1e-14);
    }
}
