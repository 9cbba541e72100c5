//! Points: given one by one, as a regular grid, or read from a station list.

use std::path::Path;

/// A sampled location.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Global id, unique within the set: with the step it addresses a sample, whichever rank has the point.
    pub id: i64,
    /// Coordinates in the file's length units; must be finite.
    pub x: f64,
    /// See `x`.
    pub y: f64,
    /// See `x`.
    pub z: f64,
    /// Name, unique within the set; the id in decimal where there is none.
    pub name: Option<String>,
}

impl Point {
    /// A point without a name.
    #[must_use]
    pub fn new(id: i64, x: f64, y: f64, z: f64) -> Self {
        Self { id, x, y, z, name: None }
    }

    /// Gives it a name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The name, or the id in decimal.
    #[must_use]
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.id.to_string())
    }
}

/// A regular grid of points; ids count from `first_id`, z fastest, then y, then x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointGrid {
    /// Coordinates of the first point.
    pub origin: [f64; 3],
    /// Distance between neighbours along x, y and z.
    pub spacing: [f64; 3],
    /// Points along x, y and z.
    pub counts: [u64; 3],
    /// Id of the first point.
    pub first_id: i64,
}

impl PointGrid {
    /// `counts` points spread evenly through a box: each in the middle of its share.
    #[must_use]
    pub fn spread(low: [f64; 3], high: [f64; 3], counts: [u64; 3]) -> Self {
        let spacing = std::array::from_fn(|axis| (high[axis] - low[axis]) / counts[axis].max(1) as f64);
        let origin = std::array::from_fn(|axis: usize| low[axis] + 0.5 * spacing[axis]);
        Self { origin, spacing, counts, first_id: 0 }
    }

    /// Number of points.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.counts.iter().product()
    }

    /// Whether there is no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The points in the order of their ids.
    pub fn points(&self) -> impl Iterator<Item = Point> + '_ {
        let [nx, ny, nz] = self.counts;
        let at = |axis: usize, index: u64| self.origin[axis] + self.spacing[axis] * index as f64;
        (0..nx)
            .flat_map(move |i| (0..ny).flat_map(move |j| (0..nz).map(move |k| [i, j, k])))
            .zip(self.first_id..)
            .map(move |([i, j, k], id)| Point::new(id, at(0, i), at(1, j), at(2, k)))
    }
}

/// Why a station list could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StationsError {
    /// The file could not be read.
    #[error("cannot read the station list {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line is not `name x y z`.
    #[error("station list, line {line}: {problem}; write `name x y z`, one station a line, `#` begins a comment")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// Reads a station list: a line a station, `name x y z` parted by white space or commas; empty lines and what follows `#` do
/// not count, nor does a byte order mark that an editor put in front. Ids count the stations from 0.
pub fn parse_stations(text: &str) -> Result<Vec<Point>, StationsError> {
    let mut points: Vec<Point> = Vec::new();
    let mut names = std::collections::HashSet::new();
    for (index, raw) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let line = index + 1;
        let content = raw.split('#').next().unwrap_or_default();
        let fields: Vec<&str> =
            content.split(|c: char| c.is_whitespace() || c == ',').filter(|field| !field.is_empty()).collect();
        if fields.is_empty() {
            continue;
        }
        let [name, coordinates @ ..] = fields.as_slice() else { continue };
        if coordinates.len() != 3 {
            return Err(StationsError::Line { line, problem: format!("{} fields instead of 4", fields.len()) });
        }
        if !names.insert((*name).to_owned()) {
            return Err(StationsError::Line { line, problem: format!("the station {name} was there before") });
        }
        let mut xyz = [0.0; 3];
        for (value, field) in xyz.iter_mut().zip(coordinates) {
            *value = field
                .parse()
                .ok()
                .filter(|number: &f64| number.is_finite())
                .ok_or_else(|| StationsError::Line { line, problem: format!("`{field}` is not a finite number") })?;
        }
        let id = i64::try_from(points.len()).expect("fewer stations than 2^63");
        points.push(Point::new(id, xyz[0], xyz[1], xyz[2]).named(*name));
    }
    Ok(points)
}

/// Reads a station list from a file; see [`parse_stations`].
pub fn read_stations(path: &Path) -> Result<Vec<Point>, StationsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| StationsError::Read { path: path.display().to_string(), source })?;
    parse_stations(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_counts_z_fastest() {
        let grid = PointGrid::spread([0.0; 3], [8.0, 8.0, 16.0], [2, 2, 4]);
        let points: Vec<_> = grid.points().collect();
        assert_eq!(points.len(), 16);
        assert_eq!((points[0].x, points[0].y, points[0].z), (2.0, 2.0, 2.0));
        assert_eq!((points[1].id, points[1].z), (1, 6.0));
        assert_eq!((points[4].id, points[4].y), (4, 6.0));
        assert_eq!((points[15].x, points[15].y, points[15].z), (6.0, 6.0, 14.0));
    }

    #[test]
    fn stations_with_comments_and_commas() {
        let points = parse_stations("# receivers\nA1 1 2 3\n\nB2, 4,5 ,6e0 # last\n").unwrap();
        assert_eq!(points.len(), 2);
        assert_eq!(points[1], Point::new(1, 4.0, 5.0, 6.0).named("B2"));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_name() {
        let points = parse_stations("\u{feff}A1 1 2 3\n").unwrap();
        assert_eq!(points, [Point::new(0, 1.0, 2.0, 3.0).named("A1")]);
    }

    #[test]
    fn a_bad_station_line_is_named() {
        for (text, line) in [("A 1 2\n", 1), ("A 1 2 3\nB 1 x 3\n", 2), ("A 1 2 3\nA 1 2 3", 2), ("A 1 2 nan", 1)] {
            match parse_stations(text) {
                Err(StationsError::Line { line: found, .. }) => assert_eq!(found, line),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
