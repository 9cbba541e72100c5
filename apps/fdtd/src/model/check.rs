//! Whether a model makes sense: every number finite and in range, every size bounded, sources and probes where they can
//! work. The first problem found is reported with its key and what to do.
//!
//! After [`Model::check`] the rest of the crate may rely on: positive cell counts whose product is at most
//! [`CELLS_MAX`]; positive finite sizes; a time step that is a normal number; layers that leave a cell between them; unique
//! names; at most [`POINTS_MAX`] points a set.

use std::collections::HashSet;

use super::{Boundary, BoxModel, CpmlModel, Model, PointModel, ProbeSetModel, RegionModel, SourceModel, WaveformModel};
use crate::error::ModelError;
use crate::grid::Grid;

/// Most cells of a grid: at about 100 bytes each some 400 TB of fields, beyond any machine this will run on for long.
pub const CELLS_MAX: u64 = 1 << 42;
/// Most cells along one axis.
const AXIS_CELLS_MAX: u64 = 1 << 31;
/// Most points of one set; each rank goes through all of them once.
pub const POINTS_MAX: u64 = 50_000_000;
/// Cell sizes outside these are a slip of units rather than a model; within them no intermediate result overflows.
const CELL_SIZE_RANGE_M: std::ops::RangeInclusive<f64> = 1e-15..=1e15;
/// Most steps; times stay distinct numbers.
const STEPS_MAX: u64 = 1 << 52;

type Checked = Result<(), ModelError>;

fn invalid<T>(key: impl Into<String>, problem: impl Into<String>) -> Result<T, ModelError> {
    Err(ModelError::Invalid { key: key.into(), problem: problem.into() })
}

fn finite(key: &str, value: f64) -> Checked {
    if value.is_finite() { Ok(()) } else { invalid(key, format!("{value} is not a finite number; give one")) }
}

fn in_range(key: &str, value: f64, low: f64, high: f64) -> Checked {
    finite(key, value)?;
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        invalid(key, format!("{value} is outside [{low}, {high}]; choose a value within"))
    }
}

fn positive(key: &str, value: f64) -> Checked {
    finite(key, value)?;
    if value > 0.0 { Ok(()) } else { invalid(key, format!("{value} must be greater than 0")) }
}

impl Model {
    /// Whether the model makes sense; done by the functions that read one, again of use after changing one.
    pub fn check(&self) -> Result<(), ModelError> {
        if self.steps == 0 || self.steps > STEPS_MAX {
            return invalid("steps", format!("{} must be in 1..={STEPS_MAX}", self.steps));
        }
        self.check_grid()?;
        positive("limits.memory_gib", self.limits.memory_gib)?;
        if self.output.window_steps == 0 {
            return invalid("output.window_steps", "0 must be at least 1");
        }
        if self.output.chunk_steps == Some(0) {
            return invalid("output.chunk_steps", "0 must be at least 1; leave it out to let the writer choose");
        }
        self.check_cpml()?;
        for (index, source) in self.sources.iter().enumerate() {
            check_source(&format!("sources[{index}]"), source, self)?;
        }
        for (index, material) in self.boxes.iter().enumerate() {
            check_box(&format!("boxes[{index}]"), material)?;
        }
        let mut names = HashSet::new();
        for (index, set) in self.probes.iter().enumerate() {
            let key = format!("probes[{index}]");
            if !names.insert(set.name.as_str()) {
                return invalid(
                    format!("{key}.name"),
                    format!("a set named `{}` exists already; rename one", set.name),
                );
            }
            check_probes(&key, set)?;
        }
        Ok(())
    }

    fn check_grid(&self) -> Checked {
        for (axis, &cells) in self.grid.cells.iter().enumerate() {
            if cells == 0 || cells > AXIS_CELLS_MAX {
                return invalid(format!("grid.cells[{axis}]"), format!("{cells} must be in 1..={AXIS_CELLS_MAX}"));
            }
        }
        let total = self.grid.cells.iter().try_fold(1_u64, |product, &n| product.checked_mul(n));
        if total.is_none_or(|total| total > CELLS_MAX) {
            return invalid("grid.cells", format!("more than {CELLS_MAX} cells in all; use fewer"));
        }
        for (axis, size) in self.grid.cell_size.each().into_iter().enumerate() {
            let key = format!("grid.cell_size[{axis}]");
            in_range(&key, size, *CELL_SIZE_RANGE_M.start(), *CELL_SIZE_RANGE_M.end())?;
        }
        positive("grid.courant", self.grid.courant)?;
        in_range("grid.courant", self.grid.courant, 1e-6, 1.0)
    }

    fn check_cpml(&self) -> Checked {
        let CpmlModel { thickness, order, sigma_factor, kappa_max, alpha_factor, alpha_order } = self.cpml;
        in_range("cpml.order", order, 0.0, 10.0)?;
        in_range("cpml.sigma_factor", sigma_factor, 0.0, 1e6)?;
        in_range("cpml.kappa_max", kappa_max, 1.0, 1e6)?;
        in_range("cpml.alpha_factor", alpha_factor, 0.0, 1e6)?;
        in_range("cpml.alpha_order", alpha_order, 0.0, 10.0)?;
        for (axis, faces) in self.boundaries.faces().into_iter().enumerate() {
            let layers = faces.iter().filter(|&&face| face == Boundary::Cpml).count() as u64;
            if layers == 0 {
                continue;
            }
            if thickness == 0 {
                return invalid("cpml.thickness", "0 layers absorb nothing; give at least 1, or make the faces `pec`");
            }
            let cells = self.grid.cells[axis];
            if thickness.checked_mul(layers).is_none_or(|all| all >= cells) {
                return invalid(
                    "cpml.thickness",
                    format!(
                        "{layers} x {thickness} layers leave no cell of the {cells} along axis {axis}; use fewer layers or more cells"
                    ),
                );
            }
        }
        Ok(())
    }
}

fn check_source(key: &str, source: &SourceModel, model: &Model) -> Checked {
    for (axis, &x) in source.position.iter().enumerate() {
        finite(&format!("{key}.position[{axis}]"), x)?;
    }
    finite(&format!("{key}.amplitude"), source.amplitude)?;
    let grid: Grid = model.grid();
    let position = format!("{key}.position");
    let Some(cell) = grid.cell_of(source.position) else {
        return invalid(position, format!("outside the domain [0, {:?}] m; move it in", grid.extent_m()));
    };
    let faces = model.boundaries.faces();
    for axis in 0..3 {
        let [lower, upper] = faces[axis].map(|face| if face == Boundary::Cpml { model.cpml.thickness } else { 0 });
        let index = cell[axis] as u64;
        if index < lower || index >= model.grid.cells[axis] - upper {
            return invalid(position, format!("lies in the absorbing layers along axis {axis}; move it inwards"));
        }
        if axis != source.axis.index() && index == 0 {
            let advice = "a current along the wall of a conductor radiates nothing; move it inwards by a cell";
            return invalid(position, advice);
        }
    }
    check_waveform(key, &source.waveform)
}

fn check_waveform(key: &str, waveform: &WaveformModel) -> Checked {
    let (frequency, width, delay) = match *waveform {
        WaveformModel::Gaussian { width, delay } => (None, Some(width), delay),
        WaveformModel::Modulated { frequency, width, delay } => (Some(frequency), Some(width), delay),
        WaveformModel::Ricker { frequency, delay } => (Some(frequency), None, delay),
    };
    frequency.map_or(Ok(()), |value| positive(&format!("{key}.waveform.frequency"), value))?;
    width.map_or(Ok(()), |value| positive(&format!("{key}.waveform.width"), value))?;
    delay.map_or(Ok(()), |value| finite(&format!("{key}.waveform.delay"), value))
}

fn check_box(key: &str, material: &BoxModel) -> Checked {
    check_corners(key, &material.min, &material.max)?;
    in_range(&format!("{key}.permittivity"), material.permittivity, 1.0, 1e9)?;
    in_range(&format!("{key}.conductivity"), material.conductivity, 0.0, 1e12)
}

fn check_corners(key: &str, min: &[f64; 3], max: &[f64; 3]) -> Checked {
    for axis in 0..3 {
        finite(&format!("{key}.min[{axis}]"), min[axis])?;
        finite(&format!("{key}.max[{axis}]"), max[axis])?;
        if min[axis] >= max[axis] {
            let problem = format!("{} is not greater than `min` ({}); swap or widen them", max[axis], min[axis]);
            return invalid(format!("{key}.max[{axis}]"), problem);
        }
    }
    Ok(())
}

fn check_probes(key: &str, set: &ProbeSetModel) -> Checked {
    if set.every == 0 {
        return invalid(format!("{key}.every"), "0 must be at least 1");
    }
    if set.name.contains('/') {
        return invalid(format!("{key}.name"), "a name may not contain `/`; use another character");
    }
    if set.fields.is_empty() {
        return invalid(format!("{key}.fields"), "samples nothing; list some of Ex, Ey, Ez, Hx, Hy, Hz");
    }
    let mut seen = HashSet::new();
    if let Some(twice) = set.fields.iter().find(|field| !seen.insert(**field)) {
        return invalid(format!("{key}.fields"), format!("{} is there twice; remove one", twice.name()));
    }
    let places = [set.points.is_some(), set.grid.is_some(), set.stations.is_some()];
    if places.iter().filter(|&&given| given).count() != 1 {
        return invalid(key, "say where the points are by exactly one of `points`, `grid` and `stations`");
    }
    match (&set.region, &set.grid) {
        (Some(_), None) => return invalid(format!("{key}.region"), "only goes with `grid`; remove it"),
        (Some(RegionModel { min, max }), _) => check_corners(&format!("{key}.region"), min, max)?,
        _ => (),
    }
    if let Some(grid) = &set.grid {
        let Some(counts) = grid.each() else {
            return invalid(format!("{key}.grid"), "must be three counts such as \"8x8x16\"");
        };
        let total = counts.iter().try_fold(1_u64, |product, &n| product.checked_mul(n));
        if total.is_none_or(|total| total == 0 || total > POINTS_MAX) {
            return invalid(format!("{key}.grid"), format!("{counts:?} must give 1 to {POINTS_MAX} points"));
        }
    }
    check_points(key, "points", set.points.as_deref().unwrap_or(&[]))?;
    check_points(key, "stations", &set.station_points)
}

fn check_points(key: &str, list: &str, points: &[PointModel]) -> Checked {
    if points.len() as u64 > POINTS_MAX {
        return invalid(format!("{key}.{list}"), format!("{} points are more than {POINTS_MAX}", points.len()));
    }
    let mut names = HashSet::with_capacity(points.len());
    for (index, point) in points.iter().enumerate() {
        for (axis, value) in [("x", point.x), ("y", point.y), ("z", point.z)] {
            finite(&format!("{key}.{list}[{index}].{axis}"), value)?;
        }
        let name = point.name.clone().unwrap_or_else(|| crate::probes::default_name(index));
        if name.is_empty() {
            return invalid(format!("{key}.{list}[{index}].name"), "is empty; give a name or leave it out");
        }
        if let Some(name) = names.replace(name) {
            let problem = format!("a point named `{name}` exists already in the set; rename one");
            return invalid(format!("{key}.{list}[{index}].name"), problem);
        }
    }
    Ok(())
}
