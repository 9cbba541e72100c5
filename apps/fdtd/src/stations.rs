//! Probe points from a text file: one a line, `name x y z` in metres, separated by blanks.
//!
//! As the STATIONS files of seismic codes; empty lines and what follows a `#` are skipped.

use std::fmt;

use crate::error::ModelError;
use crate::model::PointModel;

/// The points of `text`, in the order of its lines. `origin` names the file in errors.
pub fn parse_stations(text: &str, origin: &dyn fmt::Display) -> Result<Vec<PointModel>, ModelError> {
    let mut points = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or("").trim();
        if content.is_empty() {
            continue;
        }
        let point = parse_line(content).map_err(|problem| ModelError::Station {
            origin: origin.to_string(),
            line: index + 1,
            problem,
        })?;
        points.push(point);
    }
    Ok(points)
}

fn parse_line(line: &str) -> Result<PointModel, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[name, x, y, z] = words.as_slice() else {
        return Err(format!("{} words; expected four: name x y z", words.len()));
    };
    let coordinate = |axis: &str, word: &str| match word.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(format!("{axis} of `{name}` is `{word}`; expected a finite number of metres")),
        Err(_) => Err(format!("{axis} of `{name}` is `{word}`; expected a number of metres")),
    };
    Ok(PointModel {
        name: Some(name.to_owned()),
        x: coordinate("x", x)?,
        y: coordinate("y", y)?,
        z: coordinate("z", z)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_comments_and_blank_lines() {
        let points = parse_stations("# all\n\nA 0.1 0.2 3e-1  # first\n\tB\t1 2 3\r\n", &"S").unwrap();
        assert_eq!(points.len(), 2);
        assert_eq!((points[0].name.as_deref(), points[0].z), (Some("A"), 0.3));
        assert_eq!((points[1].name.as_deref(), points[1].x), (Some("B"), 1.0));
    }

    #[test]
    fn errors_name_file_line_and_word() {
        for (text, expected) in [
            ("A 0 0 0\nB 0 0\n", "S, line 2: 3 words"),
            ("A 0 0 0 0", "S, line 1: 5 words"),
            ("\nA 0 zero 0", "S, line 2: y of `A` is `zero`"),
            ("A NaN 0 0", "S, line 1: x of `A` is `NaN`; expected a finite"),
            ("A 0 0 inf", "z of `A` is `inf`"),
        ] {
            let message = parse_stations(text, &"S").unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
