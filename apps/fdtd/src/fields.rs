//! The fields of one rank, and the leapfrog updates of its inner cells.
//!
//! All arrays have `(lx + 1) (ly + 1) (lz + 1)` values for a box of `lx x ly x lz` cells, z contiguous. The spare plane is the
//! halo: E of cell (i, j, k) stands at index (i, j, k), with the halo above; H at (i+1, j+1, k+1), with the halo below. So
//! the curl of E only looks up, the curl of H only down. At the faces of the domain the halo stays zero: the tangential E
//! of a perfect conductor above; below, where the coefficients of the tangential E are zero, H is never felt.
//!
//! The value of a cell is computed by the same operations in the same order whatever box it lies in: that is what makes
//! the results independent of the number of ranks.

use std::collections::TryReserveError;

use crate::coefficients::Coefficients;

/// Shape and strides of the arrays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lattice {
    /// Cells of the box along x, y, z.
    pub len: [usize; 3],
    /// Distance in the arrays between neighbours along x, y, z.
    pub strides: [usize; 3],
}

impl Lattice {
    pub fn new(len: [usize; 3]) -> Self {
        let row = len[2] + 1;
        Self { len, strides: [row * (len[1] + 1), row, 1] }
    }
    /// Values of an array.
    pub fn value_count(&self) -> usize {
        self.strides[0] * (self.len[0] + 1)
    }
    /// Where E of a local cell stands.
    pub fn electric(&self, cell: [usize; 3]) -> usize {
        cell[0] * self.strides[0] + cell[1] * self.strides[1] + cell[2]
    }
    /// Where H of a local cell stands.
    pub fn magnetic(&self, cell: [usize; 3]) -> usize {
        self.electric(cell) + self.strides.iter().sum::<usize>()
    }
}

/// An array of zeros, or the error of the allocator.
pub(crate) fn zeros(len: usize) -> Result<Vec<f64>, TryReserveError> {
    let mut values = Vec::new();
    values.try_reserve_exact(len)?;
    values.resize(len, 0.0);
    Ok(values)
}

/// Three arrays of zeros.
pub(crate) fn zeros_three(len: usize) -> Result<[Vec<f64>; 3], TryReserveError> {
    Ok([zeros(len)?, zeros(len)?, zeros(len)?])
}

/// E and H of a box.
#[derive(Debug)]
pub(crate) struct Fields {
    pub lattice: Lattice,
    /// Ex, Ey, Ez at the whole step.
    pub electric: [Vec<f64>; 3],
    /// Hx, Hy, Hz half a step before.
    pub magnetic: [Vec<f64>; 3],
}

impl Fields {
    pub fn new(len: [usize; 3]) -> Result<Self, TryReserveError> {
        let lattice = Lattice::new(len);
        let values = lattice.value_count();
        Ok(Self { lattice, electric: zeros_three(values)?, magnetic: zeros_three(values)? })
    }

    /// H half a step on: `H_a -= dt/mu (dE_c/db - dE_b/dc)`, (a, b, c) cyclic. Needs the upper halo of E.
    pub fn update_magnetic(&mut self, coefficients: &Coefficients) {
        let Lattice { len, strides } = self.lattice;
        let factors = coefficients.magnetic_factors;
        for_each_row(len, |i, j| {
            let e = self.lattice.electric([i, j, 0]);
            let h = self.lattice.magnetic([i, j, 0]);
            for a in 0..3 {
                let (b, c) = ((a + 1) % 3, (a + 2) % 3);
                let (eb, ec) = (&self.electric[b], &self.electric[c]);
                magnetic_row(
                    &mut self.magnetic[a][h..h + len[2]],
                    Pair { near: &ec[e..], far: &ec[e + strides[b]..], factor: factors[b] },
                    Pair { near: &eb[e..], far: &eb[e + strides[c]..], factor: factors[c] },
                );
            }
        });
    }

    /// E a step on, from its own decay and the curl of H: `E_a = Ca E_a + Cb (dH_c/db - dH_b/dc)`. Needs the lower halo of H.
    pub fn update_electric(&mut self, coefficients: &Coefficients) {
        let Lattice { len, strides } = self.lattice;
        let inverse = coefficients.inverse_size;
        for_each_row(len, |i, j| {
            let e = self.lattice.electric([i, j, 0]);
            let h = self.lattice.magnetic([i, j, 0]);
            for a in 0..3 {
                let (b, c) = ((a + 1) % 3, (a + 2) % 3);
                let (hb, hc) = (&self.magnetic[b], &self.magnetic[c]);
                electric_row(
                    &mut self.electric[a][e..e + len[2]],
                    &coefficients.decay[a][e..],
                    &coefficients.gain[a][e..],
                    Pair { near: &hc[h..], far: &hc[h - strides[b]..], factor: inverse[b] },
                    Pair { near: &hb[h..], far: &hb[h - strides[c]..], factor: inverse[c] },
                );
            }
        });
    }
}

/// Calls `row(i, j)` for every row of cells along z.
pub(crate) fn for_each_row(len: [usize; 3], mut row: impl FnMut(usize, usize)) {
    if len[2] == 0 {
        return;
    }
    for i in 0..len[0] {
        for j in 0..len[1] {
            row(i, j);
        }
    }
}

/// A row of values and the row beside it along some axis, for a difference.
#[derive(Clone, Copy)]
struct Pair<'a> {
    near: &'a [f64],
    far: &'a [f64],
    factor: f64,
}

impl<'a> Pair<'a> {
    /// Cut to `len`, so that the loops need no bounds checks and vectorise.
    fn cut(self, len: usize) -> (&'a [f64], &'a [f64], f64) {
        (&self.near[..len], &self.far[..len], self.factor)
    }
}

fn magnetic_row(field: &mut [f64], first: Pair<'_>, second: Pair<'_>) {
    let len = field.len();
    let (near1, far1, factor1) = first.cut(len);
    let (near2, far2, factor2) = second.cut(len);
    for k in 0..len {
        field[k] -= factor1 * (far1[k] - near1[k]) - factor2 * (far2[k] - near2[k]);
    }
}

fn electric_row(field: &mut [f64], decay: &[f64], gain: &[f64], first: Pair<'_>, second: Pair<'_>) {
    let len = field.len();
    let (decay, gain) = (&decay[..len], &gain[..len]);
    let (near1, far1, factor1) = first.cut(len);
    let (near2, far2, factor2) = second.cut(len);
    for k in 0..len {
        let curl = factor1 * (near1[k] - far1[k]) - factor2 * (near2[k] - far2[k]);
        field[k] = decay[k] * field[k] + gain[k] * curl;
    }
}
