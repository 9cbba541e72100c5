//! The state of a simulation as arrays over the whole grid: what a checkpoint keeps and what moves with a border.
//!
//! The state is E, H and the convolutions of the absorbing layers; all else follows from the model and the step (a source is
//! a function of time). Each of the [`ARRAY_COUNT`] arrays covers a box of cells of the grid, its region: the six fields the
//! whole grid, then four convolutions for each of the six faces its layers, or nothing where the face has none. A rank keeps
//! the part of a region that lies in its box, halos aside. Order and regions depend on the model alone.

use std::ops::Range;

use crate::cpml::Cpml;
use crate::fields::Fields;
use crate::grid::Grid;
use crate::layout::{Block, Side};
use crate::model::{Boundary, Model};

/// E and H with three components each.
pub(crate) const FIELD_ARRAYS: usize = 6;
/// Convolutions of a face: two for E, two for H.
pub(crate) const FACE_ARRAYS: usize = 4;
/// The faces of the grid, in the order of their arrays.
pub(crate) const FACES: [(usize, Side); 6] =
    [(0, Side::Lower), (0, Side::Upper), (1, Side::Lower), (1, Side::Upper), (2, Side::Lower), (2, Side::Upper)];
/// All arrays of the state.
pub(crate) const ARRAY_COUNT: usize = FIELD_ARRAYS + FACES.len() * FACE_ARRAYS;

/// The region of each array, in global cells.
pub(crate) fn regions(model: &Model, grid: &Grid) -> [Block; ARRAY_COUNT] {
    let whole = Block { start: [0; 3], len: grid.cells };
    let faces = model.boundaries.faces();
    let layers = FACES.map(|(axis, side)| {
        let thickness = usize::try_from(model.cpml.thickness).expect("a checked model has fewer layers than cells");
        match (faces[axis][usize::from(side == Side::Upper)], side) {
            (Boundary::Pec, _) => Block { start: [0; 3], len: [0; 3] },
            (Boundary::Cpml, Side::Lower) => {
                let mut layers = whole;
                layers.len[axis] = thickness;
                layers
            }
            (Boundary::Cpml, Side::Upper) => {
                let mut layers = whole;
                (layers.start[axis], layers.len[axis]) = (grid.cells[axis] - thickness, thickness);
                layers
            }
        }
    });
    std::array::from_fn(|array| match array.checked_sub(FIELD_ARRAYS) {
        None => whole,
        Some(convolution) => layers[convolution / FACE_ARRAYS],
    })
}

/// How a rank keeps its part of an array: a box of cells, z contiguous.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The cells, in global indices.
    pub cells: Block,
    /// Where in the memory the value of the first of them stands.
    pub first: usize,
    /// Distance in the memory between neighbours along x and y.
    pub strides: [usize; 2],
}

impl Place {
    /// For a rank that has no part of the array.
    pub const NOWHERE: Self = Self { cells: Block { start: [0; 3], len: [0; 3] }, first: 0, strides: [0; 2] };

    /// Where the rows along z of `within` (a part of the cells) stand in the memory: by x, then y, which is ascending.
    fn rows(&self, within: &Block) -> impl Iterator<Item = Range<usize>> + use<> {
        let [sx, sy] = self.strides;
        let offset = |axis: usize| within.start[axis].saturating_sub(self.cells.start[axis]);
        let first = self.first + offset(0) * sx + offset(1) * sy + offset(2);
        let [nx, ny, nz] = if within.cell_count() == 0 { [0; 3] } else { within.len };
        (0..nx).flat_map(move |i| (0..ny).map(move |j| first + i * sx + j * sy)).map(move |at| at..at + nz)
    }
}

/// A rank's part of one array, to be read.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub place: Place,
    pub values: &'a [f64],
}

impl<'a> Part<'a> {
    /// The rows along z of the cells that the part shares with `block`, in the order of [`Place::rows`].
    pub fn rows(&self, block: &Block) -> impl Iterator<Item = &'a [f64]> + use<'a> {
        let values = self.values;
        self.place.rows(&self.place.cells.intersection(block)).map(move |row| &values[row])
    }
}

/// A rank's part of one array, to be filled.
pub(crate) struct PartMut<'a> {
    pub place: Place,
    pub values: &'a mut [f64],
}

impl<'a> PartMut<'a> {
    /// As [`Part::rows`].
    pub fn into_rows(self, block: &Block) -> impl Iterator<Item = &'a mut [f64]> {
        let mut rest = self.values;
        let mut passed = 0;
        self.place.rows(&self.place.cells.intersection(block)).map(move |row| {
            let (_, from_row) = std::mem::take(&mut rest).split_at_mut(row.start - passed);
            let (values, behind) = from_row.split_at_mut(row.len());
            rest = behind;
            passed = row.end;
            values
        })
    }
}

/// This rank's parts of all arrays.
pub(crate) fn parts<'a>(block: &Block, fields: &'a Fields, cpml: &'a Cpml) -> Vec<Part<'a>> {
    let mut parts = Vec::with_capacity(ARRAY_COUNT);
    parts.extend(fields.electric.iter().map(|values| Part { place: electric_place(block, fields), values }));
    parts.extend(fields.magnetic.iter().map(|values| Part { place: magnetic_place(block, fields), values }));
    cpml.parts(&mut parts);
    assert_eq!(parts.len(), ARRAY_COUNT, "the state has a fixed number of arrays");
    parts
}

/// The same, to be filled.
pub(crate) fn parts_mut<'a>(block: &Block, fields: &'a mut Fields, cpml: &'a mut Cpml) -> Vec<PartMut<'a>> {
    let (electric, magnetic) = (electric_place(block, fields), magnetic_place(block, fields));
    let mut parts = Vec::with_capacity(ARRAY_COUNT);
    parts.extend(fields.electric.iter_mut().map(|values| PartMut { place: electric, values }));
    parts.extend(fields.magnetic.iter_mut().map(|values| PartMut { place: magnetic, values }));
    cpml.parts_mut(&mut parts);
    assert_eq!(parts.len(), ARRAY_COUNT, "the state has a fixed number of arrays");
    parts
}

fn electric_place(block: &Block, fields: &Fields) -> Place {
    let [sx, sy, _] = fields.lattice.strides;
    Place { cells: *block, first: fields.lattice.electric([0; 3]), strides: [sx, sy] }
}

fn magnetic_place(block: &Block, fields: &Fields) -> Place {
    Place { first: fields.lattice.magnetic([0; 3]), ..electric_place(block, fields) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_out_of_memory_in_order() {
        // A box of 2 x 3 x 4 cells from (1, 1, 1) on, with a spare plane behind each axis.
        let place = Place { cells: Block { start: [1; 3], len: [2, 3, 4] }, first: 0, strides: [20, 5] };
        let mut values: Vec<f64> = (0..60).map(f64::from).collect();
        let block = Block { start: [2, 2, 0], len: [7, 2, 3] };
        let rows: Vec<Vec<f64>> = Part { place, values: &values }.rows(&block).map(<[f64]>::to_vec).collect();
        assert_eq!(rows, [[25.0, 26.0], [30.0, 31.0]]);
        for row in (PartMut { place, values: &mut values }).into_rows(&block) {
            row.fill(-1.0);
        }
        let changed: Vec<usize> = (0..60).filter(|&at| values[at] == -1.0).collect();
        assert_eq!(changed, [25, 26, 30, 31]);
        let elsewhere = Block { start: [5, 0, 0], len: [3, 3, 3] };
        assert_eq!(Part { place, values: &values }.rows(&elsewhere).count(), 0);
        assert_eq!(Part { place: Place::NOWHERE, values: &[] }.rows(&block).count(), 0);
    }
}
