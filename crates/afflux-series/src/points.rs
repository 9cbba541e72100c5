//! Points: given one by one, or read from a station list. (Grids of them: see `grid`.)

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

/// The id as a number that sorts as ids do.
pub(crate) fn id_key(id: i64) -> u64 {
    id.cast_unsigned() ^ (1 << 63)
}

/// The id of a key.
pub(crate) fn key_id(key: u64) -> i64 {
    (key ^ (1 << 63)).cast_signed()
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
    fn keys_sort_as_ids_do() {
        let ids = [i64::MIN, -1, 0, 1, i64::MAX];
        assert!(ids.map(id_key).is_sorted());
        assert_eq!(ids.map(id_key).map(key_id), ids);
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
