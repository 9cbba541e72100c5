//! Update coefficients of one rank, from the materials of the model.
//!
//! A cell has the material of the last box that holds its centre. An edge, where E lives, has the mean permittivity and
//! conductivity of the four cells around it, taken in a fixed order. Materials are a pure function of the global index, so
//! ranks need not exchange them.

use std::collections::TryReserveError;

use crate::constants::{EPSILON_0, MU_0};
use crate::fields::{Lattice, for_each_row, zeros, zeros_three};
use crate::grid::Grid;
use crate::layout::Block;
use crate::model::BoxModel;

/// What the updates multiply with. Arrays are indexed as those of E.
#[derive(Debug)]
pub(crate) struct Coefficients {
    /// Ca of each component: what is left of E after a step; 0 on conducting walls.
    pub decay: [Vec<f64>; 3],
    /// Cb of each component: E gained a step for each A/m^2 of curl H; 0 on conducting walls.
    pub gain: [Vec<f64>; 3],
    /// `dt / (mu0 d)` along x, y, z.
    pub magnetic_factors: [f64; 3],
    /// `1 / d` along x, y, z, 1/m.
    pub inverse_size: [f64; 3],
    /// Time step, seconds.
    pub time_step_s: f64,
}

impl Coefficients {
    pub fn new(grid: &Grid, block: &Block, boxes: &[BoxModel]) -> Result<Self, TryReserveError> {
        let lattice = Lattice::new(block.len);
        let values = lattice.value_count();
        let mut coefficients = Self {
            decay: zeros_three(values)?,
            gain: zeros_three(values)?,
            magnetic_factors: grid.cell_size_m.map(|d| grid.time_step_s / (MU_0 * d)),
            inverse_size: grid.cell_size_m.map(|d| 1.0 / d),
            time_step_s: grid.time_step_s,
        };
        let material = Materials::new(grid, block, boxes, &lattice)?;
        for_each_row(block.len, |i, j| {
            for k in 0..block.len[2] {
                let cell = [i, j, k];
                for axis in 0..3 {
                    let on_wall = (0..3).any(|other| other != axis && block.start[other] + cell[other] == 0);
                    if !on_wall {
                        let at = lattice.electric(cell);
                        let (epsilon, sigma) = material.edge(&lattice, cell, axis);
                        let loss = sigma * grid.time_step_s / (2.0 * epsilon);
                        coefficients.decay[axis][at] = (1.0 - loss) / (1.0 + loss);
                        coefficients.gain[axis][at] = grid.time_step_s / epsilon / (1.0 + loss);
                    }
                }
            }
        });
        Ok(coefficients)
    }

    /// The permittivity of an edge, F/m, recovered from its coefficients; `None` on conducting walls.
    pub fn edge_permittivity(&self, axis: usize, at: usize) -> Option<f64> {
        let gain = self.gain[axis][at];
        (gain > 0.0).then(|| self.time_step_s * (1.0 + self.decay[axis][at]) / (2.0 * gain))
    }
}

/// Materials of the cells of a box and of the cells just below it; indexed as H, whose halo is below too.
struct Materials {
    epsilon: Vec<f64>,
    sigma: Vec<f64>,
}

impl Materials {
    fn new(grid: &Grid, block: &Block, boxes: &[BoxModel], lattice: &Lattice) -> Result<Self, TryReserveError> {
        let mut epsilon = zeros(lattice.value_count())?;
        let mut sigma = zeros(lattice.value_count())?;
        epsilon.fill(EPSILON_0);
        for material in boxes {
            let ranges: [_; 3] = std::array::from_fn(|axis| {
                let size = grid.cell_size_m[axis];
                // In local indices with the halo; where there is no cell below the domain the value is never used.
                let held = |index: &usize| {
                    let centre = (block.start[axis] as f64 + *index as f64 - 0.5) * size;
                    centre >= material.min[axis] && centre < material.max[axis]
                };
                let all = 0..=block.len[axis];
                let first = all.clone().find(held);
                first.map_or(0..0, |first| first..all.rev().find(held).map_or(first, |last| last + 1))
            });
            for i in ranges[0].clone() {
                for j in ranges[1].clone() {
                    let row = lattice.electric([i, j, 0]);
                    let cells = row + ranges[2].start..row + ranges[2].end;
                    epsilon[cells.clone()].fill(EPSILON_0 * material.permittivity);
                    sigma[cells].fill(material.conductivity);
                }
            }
        }
        Ok(Self { epsilon, sigma })
    }

    /// Mean permittivity (F/m) and conductivity (S/m) around the edge of a local cell along `axis`.
    fn edge(&self, lattice: &Lattice, cell: [usize; 3], axis: usize) -> (f64, f64) {
        let (b, c) = (lattice.strides[(axis + 1) % 3], lattice.strides[(axis + 2) % 3]);
        let at = lattice.magnetic(cell);
        let around = [at, at - b, at - c, at - b - c];
        let mean = |values: &[f64]| around.iter().map(|&index| values[index]).sum::<f64>() / 4.0;
        (mean(&self.epsilon), mean(&self.sigma))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_take_the_mean_of_their_four_cells() {
        let grid = Grid::new([4, 4, 4], [1.0; 3], 0.9);
        let block = Block { start: [0; 3], len: [4; 3] };
        let half = BoxModel { min: [2.0, 0.0, 0.0], max: [4.0; 3], permittivity: 3.0, conductivity: 0.0 };
        let coefficients = Coefficients::new(&grid, &block, &[half]).unwrap();
        let lattice = Lattice::new(block.len);
        let relative = |axis, cell| {
            let at = lattice.electric(cell);
            coefficients.edge_permittivity(axis, at).map(|epsilon| (epsilon / EPSILON_0 * 1e9).round() / 1e9)
        };
        assert_eq!(relative(2, [1, 1, 1]), Some(1.0));
        assert_eq!(relative(2, [2, 1, 1]), Some(2.0), "on the face: half of each");
        assert_eq!(relative(2, [3, 1, 1]), Some(3.0));
        assert_eq!(relative(0, [2, 1, 1]), Some(3.0), "across the face: within the box");
        assert_eq!(relative(2, [0, 1, 1]), None, "on the wall");
    }

    #[test]
    fn coefficients_do_not_depend_on_the_box_of_cells() {
        let grid = Grid::new([6, 5, 4], [0.1, 0.2, 0.3], 0.9);
        let material = BoxModel { min: [0.15, 0.3, 0.2], max: [0.45, 0.9, 0.8], permittivity: 4.0, conductivity: 0.3 };
        let whole_block = Block { start: [0; 3], len: grid.cells };
        let part_block = Block { start: [2, 1, 1], len: [3, 4, 2] };
        let whole = Coefficients::new(&grid, &whole_block, std::slice::from_ref(&material)).unwrap();
        let part = Coefficients::new(&grid, &part_block, &[material]).unwrap();
        let (whole_lattice, part_lattice) = (Lattice::new(whole_block.len), Lattice::new(part_block.len));
        for (i, j, k) in (0..3).flat_map(|i| (0..4).flat_map(move |j| (0..2).map(move |k| (i, j, k)))) {
            let (here, there) = (part_lattice.electric([i, j, k]), whole_lattice.electric([i + 2, j + 1, k + 1]));
            for axis in 0..3 {
                assert_eq!(part.decay[axis][here].to_bits(), whole.decay[axis][there].to_bits());
                assert_eq!(part.gain[axis][here].to_bits(), whole.gain[axis][there].to_bits());
            }
        }
    }
}
