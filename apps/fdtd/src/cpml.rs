//! Absorbing layers: the convolutional PML of Roden and Gedney (2000).
//!
//! Within the layers of an axis n the derivative d/dn becomes `1/kappa d/dn + psi`, with the recursive convolution
//! `psi = b psi + c d/dn`, `b = exp(-(sigma/kappa + alpha) dt / eps0)`, `c = sigma (b - 1) / (sigma kappa + kappa^2 alpha)`. The
//! inner update takes the plain derivative everywhere; the layers add what is missing, `(1/kappa - 1) d/dn + psi`. So the
//! inner loops stay uniform, and psi exists in the layers only. Sigma and kappa grow towards the outer face as the m-th
//! power of the depth; alpha falls from the inner face.
//!
//! Where layers of several axes overlap their terms are added in the order x, y, z, lower before upper.

use std::collections::TryReserveError;
use std::ops::Range;

use crate::coefficients::Coefficients;
use crate::constants::{EPSILON_0, ETA_0};
use crate::fields::{Fields, zeros};
use crate::grid::Grid;
use crate::layout::{Block, Side};
use crate::model::{Boundary, CpmlModel, Model};
use crate::state::{FACE_ARRAYS, FACES, Part, PartMut, Place};

/// The recursion at one depth.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    b: f64,
    c: f64,
    /// `1/kappa - 1`.
    stretch: f64,
}

/// The layers of one face, as far as they lie in this rank's box.
#[derive(Debug)]
struct Slab {
    /// Axis of the layers.
    axis: usize,
    /// The end of the axis at which they lie.
    side: Side,
    /// Cells of the slab along x, y, z, in local indices.
    ranges: [Range<usize>; 3],
    /// Where psi stands.
    place: Place,
    /// Indexed by position along `axis` within the slab.
    electric_stretch: Vec<Stretch>,
    /// As `electric_stretch`, half a cell further up.
    magnetic_stretch: Vec<Stretch>,
    /// Convolutions for E along axis + 1 and axis + 2 (cyclic); indexed by cell within the slab, z contiguous.
    electric_psi: [Vec<f64>; 2],
    /// As `electric_psi`, for H.
    magnetic_psi: [Vec<f64>; 2],
}

/// All layers of a rank.
#[derive(Debug)]
pub(crate) struct Cpml {
    slabs: Vec<Slab>,
}

/// One of the two components that the derivative along an axis changes.
struct Term {
    /// The component that changes.
    target: usize,
    /// The component that is differentiated.
    other: usize,
    /// The sign with which the derivative enters the curl.
    sign: f64,
}

/// The terms of `d/d axis` in a curl: `+d H_(axis+1)` in component axis+2 and `-d H_(axis+2)` in component axis+1.
fn terms(axis: usize) -> [Term; 2] {
    let (next, last) = ((axis + 1) % 3, (axis + 2) % 3);
    [Term { target: next, other: last, sign: -1.0 }, Term { target: last, other: next, sign: 1.0 }]
}

impl Cpml {
    pub fn new(model: &Model, grid: &Grid, block: &Block) -> Result<Self, TryReserveError> {
        let mut slabs = Vec::new();
        for (axis, faces) in model.boundaries.faces().into_iter().enumerate() {
            for (face, side) in faces.into_iter().zip([Side::Lower, Side::Upper]) {
                if face == Boundary::Cpml
                    && let Some(slab) = Slab::new(&model.cpml, grid, block, axis, side)?
                {
                    slabs.push(slab);
                }
            }
        }
        Ok(Self { slabs })
    }

    /// Adds this rank's parts of the convolutions, in the order of the state.
    pub fn parts<'a>(&'a self, parts: &mut Vec<Part<'a>>) {
        for (axis, side) in FACES {
            match self.slabs.iter().find(|slab| (slab.axis, slab.side) == (axis, side)) {
                None => parts.extend([Part { place: Place::NOWHERE, values: &[] }; FACE_ARRAYS]),
                Some(slab) => {
                    let arrays = slab.electric_psi.iter().chain(&slab.magnetic_psi);
                    parts.extend(arrays.map(|values| Part { place: slab.place, values }));
                }
            }
        }
    }

    /// The same, to be filled.
    pub fn parts_mut<'a>(&'a mut self, parts: &mut Vec<PartMut<'a>>) {
        // The slabs stand in the order of the faces; some faces have none.
        let mut slabs = self.slabs.iter_mut().peekable();
        for face in FACES {
            match slabs.next_if(|slab| (slab.axis, slab.side) == face) {
                None => {
                    parts.extend((0..FACE_ARRAYS).map(|_| PartMut { place: Place::NOWHERE, values: &mut [] }));
                }
                Some(slab) => {
                    let place = slab.place;
                    let arrays = slab.electric_psi.iter_mut().chain(&mut slab.magnetic_psi);
                    parts.extend(arrays.map(|values| PartMut { place, values }));
                }
            }
        }
    }

    /// Adds what the layers change in H; after [`Fields::update_magnetic`].
    pub fn update_magnetic(&mut self, fields: &mut Fields, coefficients: &Coefficients) {
        for slab in &mut self.slabs {
            slab.update_magnetic(fields, coefficients);
        }
    }

    /// Adds what the layers change in E; after [`Fields::update_electric`].
    pub fn update_electric(&mut self, fields: &mut Fields, coefficients: &Coefficients) {
        for slab in &mut self.slabs {
            slab.update_electric(fields, coefficients);
        }
    }
}

impl Slab {
    /// The part of a face's layers in `block`; `None` where there is none.
    fn new(
        model: &CpmlModel,
        grid: &Grid,
        block: &Block,
        axis: usize,
        side: Side,
    ) -> Result<Option<Self>, TryReserveError> {
        let thickness = usize::try_from(model.thickness).expect("a checked model has fewer layers than cells");
        let cells = grid.cells[axis];
        let layers = match side {
            Side::Lower => 0..thickness,
            Side::Upper => cells - thickness..cells,
        };
        let own = block.start[axis]..block.start[axis] + block.len[axis];
        let shared = layers.start.max(own.start)..layers.end.min(own.end);
        if shared.is_empty() {
            return Ok(None);
        }
        let mut ranges = block.len.map(|len| 0..len);
        ranges[axis] = shared.start - own.start..shared.end - own.start;
        let stretch = |offset: f64| -> Vec<Stretch> {
            let at = |index: usize| {
                let position = index as f64 + offset;
                let depth = match side {
                    Side::Lower => layers.end as f64 - position,
                    Side::Upper => position - layers.start as f64,
                };
                stretch_at(model, grid, axis, depth / thickness as f64)
            };
            shared.clone().map(at).collect()
        };
        let len = [ranges[0].len(), ranges[1].len(), ranges[2].len()];
        let values = len.iter().product();
        let start = std::array::from_fn(|axis| block.start[axis] + ranges[axis].start);
        let place = Place { cells: Block { start, len }, first: 0, strides: [len[1] * len[2], len[2]] };
        Ok(Some(Self {
            axis,
            side,
            place,
            electric_stretch: stretch(0.0),
            magnetic_stretch: stretch(0.5),
            electric_psi: [zeros(values)?, zeros(values)?],
            magnetic_psi: [zeros(values)?, zeros(values)?],
            ranges,
        }))
    }

    fn update_electric(&mut self, fields: &mut Fields, coefficients: &Coefficients) {
        let lattice = fields.lattice;
        let inverse = coefficients.inverse_size[self.axis];
        for (psi, term) in self.electric_psi.iter_mut().zip(terms(self.axis)) {
            let (target, other) = (&mut fields.electric[term.target], &fields.magnetic[term.other]);
            let gain = &coefficients.gain[term.target];
            for_each_row(&self.ranges, self.axis, &self.electric_stretch, psi, |cell, psi, stretch| {
                let (e, h) = (lattice.electric(cell), lattice.magnetic(cell));
                let len = psi.len();
                let (near, far) = (&other[h..][..len], &other[h - lattice.strides[self.axis]..][..len]);
                let (target, gain) = (&mut target[e..][..len], &gain[e..][..len]);
                stretch.for_each(len, |k, Stretch { b, c, stretch }| {
                    let derivative = (near[k] - far[k]) * inverse;
                    psi[k] = b * psi[k] + c * derivative;
                    target[k] += term.sign * gain[k] * (stretch * derivative + psi[k]);
                });
            });
        }
    }

    fn update_magnetic(&mut self, fields: &mut Fields, coefficients: &Coefficients) {
        let lattice = fields.lattice;
        let inverse = coefficients.inverse_size[self.axis];
        // dt / mu0, from dt / (mu0 d) and d.
        let factor = coefficients.magnetic_factors[self.axis] / inverse;
        for (psi, term) in self.magnetic_psi.iter_mut().zip(terms(self.axis)) {
            let (target, other) = (&mut fields.magnetic[term.target], &fields.electric[term.other]);
            for_each_row(&self.ranges, self.axis, &self.magnetic_stretch, psi, |cell, psi, stretch| {
                let (e, h) = (lattice.electric(cell), lattice.magnetic(cell));
                let len = psi.len();
                let (near, far) = (&other[e..][..len], &other[e + lattice.strides[self.axis]..][..len]);
                let target = &mut target[h..][..len];
                stretch.for_each(len, |k, Stretch { b, c, stretch }| {
                    let derivative = (far[k] - near[k]) * inverse;
                    psi[k] = b * psi[k] + c * derivative;
                    target[k] -= term.sign * factor * (stretch * derivative + psi[k]);
                });
            });
        }
    }
}

/// The recursion along a row: the same for all its cells, or, where the row runs through the layers, one a cell.
#[derive(Clone, Copy)]
enum RowStretch<'a> {
    Same(Stretch),
    Each(&'a [Stretch]),
}

impl RowStretch<'_> {
    /// Calls `cell(k, recursion)` for the `len` cells of the row: two loops, so that the common one vectorises.
    #[inline(always)]
    fn for_each(self, len: usize, mut cell: impl FnMut(usize, Stretch)) {
        match self {
            Self::Same(stretch) => (0..len).for_each(|k| cell(k, stretch)),
            Self::Each(stretches) => stretches[..len].iter().enumerate().for_each(|(k, &stretch)| cell(k, stretch)),
        }
    }
}

/// Calls `row(first cell, its psi, its recursion)` for every row of the slab along z.
fn for_each_row(
    ranges: &[Range<usize>; 3],
    axis: usize,
    stretches: &[Stretch],
    psi: &mut [f64],
    mut row: impl FnMut([usize; 3], &mut [f64], RowStretch<'_>),
) {
    let len = ranges[2].len();
    let mut rows = psi.chunks_exact_mut(len.max(1));
    for i in ranges[0].clone() {
        for j in ranges[1].clone() {
            let psi = rows.next().expect("psi has one value a cell of the slab");
            let stretch = match axis {
                0 => RowStretch::Same(stretches[i - ranges[0].start]),
                1 => RowStretch::Same(stretches[j - ranges[1].start]),
                _ => RowStretch::Each(&stretches[..len]),
            };
            row([i, j, ranges[2].start], psi, stretch);
        }
    }
}

/// The recursion at a relative depth: 0 at the inner face of the layers, 1 at the outer.
fn stretch_at(model: &CpmlModel, grid: &Grid, axis: usize, depth: f64) -> Stretch {
    let sigma_optimal = 0.8 * (model.order + 1.0) / (ETA_0 * grid.cell_size_m[axis]);
    let grade = depth.powf(model.order);
    let sigma = model.sigma_factor * sigma_optimal * grade;
    let kappa = 1.0 + (model.kappa_max - 1.0) * grade;
    let alpha = model.alpha_factor * sigma_optimal * (1.0 - depth).powf(model.alpha_order);
    let b = (-(sigma / kappa + alpha) * grid.time_step_s / EPSILON_0).exp();
    let c = if sigma == 0.0 { 0.0 } else { sigma * (b - 1.0) / (kappa * (sigma + kappa * alpha)) };
    Stretch { b, c, stretch: 1.0 / kappa - 1.0 }
}
