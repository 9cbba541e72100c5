//! Where the probes are: the points of a set, which rank has them, and the rows that hold their values.
//!
//! The value of a component at a point is that of the Yee edge or face of its cell that has the cell's own index: the
//! nearest sample on the lower side, at most one cell away along each axis (Ex of cell (i, j, k) sits at (i+1/2, j, k), Hx
//! at (i, j+1/2, k+1/2), and so on). No interpolation: one load a value, and the same bits for any decomposition.

use afflux::PointGrid;

use crate::error::SimulationError;
use crate::grid::{Component, Grid};
use crate::layout::Block;
use crate::model::{Outside, PointModel, ProbeSetModel, RegionModel, SampleType};

/// How many points an error or warning names; the rest is counted.
const NAMED_MAX: usize = 5;

/// A point of a probe set.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbePoint {
    /// Its number in the set, in the order of the model, from 0; the same on any number of ranks.
    pub id: i64,
    /// Its name, unique in the set.
    pub name: String,
    /// Where it is, metres.
    pub position_m: [f64; 3],
}

/// The points of a set, placed into cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// The points that this rank has, by ascending id.
    pub local: Vec<ProbePoint>,
    /// The global cell of each, indexed as `local`.
    pub(crate) cells: Vec<[usize; 3]>,
    /// Points of the whole set that have a cell.
    pub placed_count: u64,
    /// Points left out because they lie outside the domain, by ascending id; the same on all ranks.
    pub outside: Vec<ProbePoint>,
}

/// The name of a point that was given none.
pub(crate) fn default_name(index: usize) -> String {
    format!("p{index}")
}

/// Places the points of a checked set: those in `block` are kept.
pub(crate) fn place(set: &ProbeSetModel, grid: &Grid, block: &Block) -> Result<Placement, SimulationError> {
    let mut placement = Placement { local: Vec::new(), cells: Vec::new(), placed_count: 0, outside: Vec::new() };
    for_each_position(set, grid, &mut |index, position_m, name| {
        let point = || ProbePoint {
            id: i64::try_from(index).expect("a checked set has fewer than 2^63 points"),
            name: name(),
            position_m,
        };
        match grid.cell_of(position_m) {
            None => placement.outside.push(point()),
            Some(cell) => {
                placement.placed_count += 1;
                if block.contains(cell) {
                    placement.local.push(point());
                    placement.cells.push(cell);
                }
            }
        }
    });
    if set.outside == Outside::Error && !placement.outside.is_empty() {
        return Err(SimulationError::PointsOutside {
            set: set.name.clone(),
            count: placement.outside.len(),
            names: name_some(&placement.outside),
            extent_m: grid.extent_m(),
        });
    }
    Ok(placement)
}

/// The first points by name and position, and how many more there are.
pub(crate) fn name_some(points: &[ProbePoint]) -> String {
    let mut text = points
        .iter()
        .take(NAMED_MAX)
        .map(|point| {
            let [x, y, z] = point.position_m;
            format!("{} ({x}, {y}, {z})", point.name)
        })
        .collect::<Vec<_>>()
        .join(", ");
    if points.len() > NAMED_MAX {
        text.push_str(&format!(" and {} more", points.len() - NAMED_MAX));
    }
    text
}

/// What sees the points of a set: number, position in metres, and how to make the name.
type Visitor<'a> = dyn FnMut(usize, [f64; 3], &dyn Fn() -> String) + 'a;

/// Calls `visit(index, position, name)` for every point of the set, in order; names are made only when asked for.
fn for_each_position(set: &ProbeSetModel, grid: &Grid, visit: &mut Visitor<'_>) {
    if let Some(counts) = set.grid.as_ref().and_then(crate::model::GridCounts::each) {
        let whole = RegionModel { min: [0.0; 3], max: grid.extent_m() };
        let RegionModel { min, max } = set.region.as_ref().unwrap_or(&whole);
        let [_, ny, nz] = counts;
        for (index, point) in PointGrid::spread(*min, *max, counts).points().enumerate() {
            let name = || {
                let n = index as u64;
                format!("{}-{}-{}", n / (ny * nz), n / nz % ny, n % nz)
            };
            visit(index, [point.x, point.y, point.z], &name);
        }
        return;
    }
    let list: &[PointModel] = set.points.as_deref().unwrap_or(&set.station_points);
    for (index, point) in list.iter().enumerate() {
        let name = || point.name.clone().unwrap_or_else(|| default_name(index));
        visit(index, [point.x, point.y, point.z], &name);
    }
}

/// The values of one component at the local points of a set, in their order.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// As computed.
    F64(Vec<f64>),
    /// Rounded to the nearest.
    F32(Vec<f32>),
}

impl Column {
    fn new(sample_type: SampleType, len: usize) -> Self {
        match sample_type {
            SampleType::F64 => Self::F64(vec![0.0; len]),
            SampleType::F32 => Self::F32(vec![0.0; len]),
        }
    }
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F64(values) => values.len(),
            Self::F32(values) => values.len(),
        }
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes of the values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::F64(values) => size_of_val(values.as_slice()),
            Self::F32(values) => size_of_val(values.as_slice()),
        }
    }
}

/// One step's values at the local points of a set: one column a field of the set, in the set's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The columns.
    pub columns: Vec<Column>,
}

/// What is needed to fill rows of a set: for each field, where its values lie in that field's array.
#[derive(Debug)]
pub(crate) struct SamplePlan {
    /// The fields, in the order of the columns.
    pub fields: Vec<Component>,
    /// Type of all columns.
    pub sample_type: SampleType,
    /// Index of each local point in the arrays of E.
    pub electric_indices: Vec<usize>,
    /// Index of each local point in the arrays of H.
    pub magnetic_indices: Vec<usize>,
}

impl SamplePlan {
    /// A row of zeros of the right shape.
    pub fn empty_row(&self) -> Row {
        Row {
            columns: self.fields.iter().map(|_| Column::new(self.sample_type, self.electric_indices.len())).collect(),
        }
    }

    /// Fills `row`, made by [`Self::empty_row`], from the arrays of E and H.
    pub fn fill(&self, electric: &[Vec<f64>; 3], magnetic: &[Vec<f64>; 3], row: &mut Row) {
        assert_eq!(row.columns.len(), self.fields.len(), "the row was made for another set");
        for (column, field) in row.columns.iter_mut().zip(&self.fields) {
            let (array, indices) = if field.is_electric() {
                (&electric[field.axis()], &self.electric_indices)
            } else {
                (&magnetic[field.axis()], &self.magnetic_indices)
            };
            assert_eq!(column.len(), indices.len(), "the row was made for another set");
            match column {
                Column::F64(values) => values.iter_mut().zip(indices).for_each(|(value, &at)| *value = array[at]),
                Column::F32(values) => {
                    values.iter_mut().zip(indices).for_each(|(value, &at)| *value = round(array[at]))
                }
            }
        }
    }
}

/// To single precision, the nearest value.
#[expect(clippy::cast_possible_truncation, reason = "the model asks for single precision")]
fn round(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::layout::Layout;
    use crate::model::Model;

    fn model(probes: &str) -> Model {
        let text = format!(
            "steps = 1\ngrid = {{ cells = [6, 5, 4], cell_size = 0.1 }}\n[[probes]]\nfields = [\"Ez\"]\n{probes}"
        );
        Model::from_toml(&text, Path::new("")).unwrap()
    }

    #[test]
    fn faces_edges_and_corners_of_subdomains_have_one_owner() {
        let mut list = Vec::new();
        for n in 0..(7 * 6 * 5_usize) {
            // All corners of all cells, those on the upper faces of the domain included.
            let [i, j, k] = [n / 30, n / 5 % 6, n % 5].map(|index| index as f64 * 0.1);
            list.push(format!("{{ x = {i}, y = {j}, z = {k} }}"));
        }
        let model = model(&format!("points = [{}]", list.join(", ")));
        for ranks in [1, 2, 3, 4, 7, 12, 120] {
            let grid = model.grid();
            let layout = Layout::new(grid.cells, ranks);
            let mut ids: Vec<i64> = (0..ranks)
                .flat_map(|rank| place(&model.probes[0], &grid, &layout.block(rank)).unwrap().local)
                .map(|point| point.id)
                .collect();
            ids.sort_unstable();
            assert_eq!(ids, (0..210).collect::<Vec<i64>>(), "{ranks} ranks");
        }
    }

    #[test]
    fn two_points_may_share_a_cell() {
        let model = model("points = [{ x = 0.11, y = 0.1, z = 0.1 }, { x = 0.12, y = 0.1, z = 0.1 }]");
        let grid = model.grid();
        let placement = place(&model.probes[0], &grid, &Layout::new(grid.cells, 1).block(0)).unwrap();
        assert_eq!(placement.cells, [[1, 1, 1], [1, 1, 1]]);
        assert_eq!(placement.local[1].name, "p1");
    }

    #[test]
    fn points_outside_are_named_and_the_others_keep_their_ids() {
        let points = "points = [{ name = \"far\", x = 9, y = 0, z = 0 }, { x = 0.1, y = 0, z = 0 }]";
        let strict = model(points);
        let grid = strict.grid();
        let block = Layout::new(grid.cells, 1).block(0);
        let message = place(&strict.probes[0], &grid, &block).unwrap_err().to_string();
        assert!(message.contains("1 of its points") && message.contains("far (9, 0, 0)"), "{message}");
        let placement = place(&model(&format!("{points}\noutside = \"warn\"")).probes[0], &grid, &block).unwrap();
        assert_eq!(placement.outside[0].name, "far");
        assert_eq!((placement.local[0].id, placement.placed_count), (1, 1));
    }

    #[test]
    fn a_grid_spreads_through_the_domain_or_its_region() {
        let whole = model("grid = \"3x1x2\"");
        let grid = whole.grid();
        let block = Layout::new(grid.cells, 1).block(0);
        let points = place(&whole.probes[0], &grid, &block).unwrap().local;
        assert_eq!(points.len(), 6);
        assert_eq!(points[5].name, "2-0-1");
        assert!((points[5].position_m[0] - 0.5).abs() < 1e-12 && (points[5].position_m[2] - 0.3).abs() < 1e-12);
        let part = model("grid = [1, 1, 1]\nregion = { min = [0.1, 0.1, 0.1], max = [0.3, 0.3, 0.2] }");
        let position = place(&part.probes[0], &grid, &block).unwrap().local[0].position_m;
        assert!((position[0] - 0.2).abs() < 1e-12 && (position[2] - 0.15).abs() < 1e-12);
    }
}
