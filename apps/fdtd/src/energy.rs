//! The energy of the fields, in the form that the leapfrog scheme keeps.
//!
//! With E at step n and H at n - 1/2 and n + 1/2, `1/2 eps E^n E^n + 1/2 mu H^(n-1/2) H^(n+1/2)`, summed over the edges and faces
//! of the grid, is constant to rounding in a closed domain without loss and sources; with the square of one H it would
//! swing with every period. The later H is worked out on the way and not kept.

use std::ops::Range;

use crate::coefficients::Coefficients;
use crate::constants::MU_0;
use crate::exact_sum::ExactSum;
use crate::fields::Fields;

/// Adds the energy, in joules, of the local cells in `ranges`. Needs the upper halo of E.
pub(crate) fn add_energy(
    sum: &mut ExactSum,
    fields: &Fields,
    coefficients: &Coefficients,
    ranges: &[Range<usize>; 3],
    cell_volume_m3: f64,
) {
    for i in ranges[0].clone() {
        for j in ranges[1].clone() {
            for k in ranges[2].clone() {
                sum.add(cell_energy(fields, coefficients, [i, j, k]) * cell_volume_m3);
            }
        }
    }
}

/// Energy of the three edges and three faces that have the index of the cell, J/m^3.
fn cell_energy(fields: &Fields, coefficients: &Coefficients, cell: [usize; 3]) -> f64 {
    let lattice = &fields.lattice;
    let (e, h) = (lattice.electric(cell), lattice.magnetic(cell));
    let factors = coefficients.magnetic_factors;
    let mut twice = 0.0;
    for a in 0..3 {
        if let Some(epsilon) = coefficients.edge_permittivity(a, e) {
            twice += epsilon * fields.electric[a][e] * fields.electric[a][e];
        }
        let (b, c) = ((a + 1) % 3, (a + 2) % 3);
        let (eb, ec) = (&fields.electric[b], &fields.electric[c]);
        let curl =
            factors[b] * (ec[e + lattice.strides[b]] - ec[e]) - factors[c] * (eb[e + lattice.strides[c]] - eb[e]);
        let before = fields.magnetic[a][h];
        twice += MU_0 * before * (before - curl);
    }
    twice / 2.0
}
