//! `afflux plot`: series of a variable at some points, or their spectra, as a picture.

use super::selection::{self, Selected};
use super::{open, read_failure};
use crate::chart::{Chart, Format, Line};
use crate::failure::Failure;
use crate::quantity::{self, Axis};
use crate::{new_file, output, spectrum};
use afflux::file::SeriesFile;
use clap::Args;
use std::path::{Path, PathBuf};

/// Draw a variable over time at one or more points, as PNG or SVG.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  afflux plot run.nc --var Ez --point 0 511 1023 -o ez.png\n  \
                  afflux plot run.nc --var Ez --point 511 --spectrum -o ez-spectrum.svg")]
pub struct Plot {
    /// The file.
    file: PathBuf,
    /// The variable; of one with components, one of them.
    #[arg(long, value_name = "V", help = "The variable; of one with components NAME[0], NAME[1], ...")]
    var: String,
    /// Points, by name or id.
    #[arg(long, value_name = "P", required = true, num_args = 1.., allow_negative_numbers = true)]
    point: Vec<String>,
    /// The set; the default set unless given.
    #[arg(long, value_name = "S", default_value = "", hide_default_value = true)]
    set: String,
    /// Draw the amplitude spectrum (mean removed, Hann window) instead of the series.
    #[arg(long)]
    spectrum: bool,
    /// The picture; .png or .svg.
    #[arg(short, long, value_name = "X")]
    output: PathBuf,
}

impl Plot {
    /// Draws the picture.
    pub fn run(&self) -> Result<(), Failure> {
        // A name that cannot be drawn is told before the file is read.
        Format::of(&self.output)?;
        new_file::check_apart(&self.file, &self.output)?;
        let file = open(&self.file)?;
        let set = selection::set(&file, &self.set)?;
        let selected = selection::variable(&file, set, &self.var)?;
        let points =
            self.point.iter().map(|text| selection::point(&file, set, text)).collect::<Result<Vec<_>, Failure>>()?;
        draw(&file, &self.file, selected, &self.var, &points, self.spectrum, &self.output)?;
        output::print(&format!("{}\n", self.output.display()))
    }
}

/// Draws `variable` at points (by position) of an open file.
pub fn draw(
    file: &SeriesFile,
    path: &Path,
    selected: Selected,
    variable: &str,
    points: &[u64],
    spectrum: bool,
    picture: &Path,
) -> Result<(), Failure> {
    let info = &file.sets()[selected.set];
    let rows = 0..info.rows_sealed;
    if rows.is_empty() {
        return Err(Failure::failed(format!("{} has no sealed row yet: there is nothing to draw", path.display())));
    }
    let times = file.times(selected.set, rows.clone()).map_err(|error| read_failure(&error))?;
    let names = &file.points(selected.set).map_err(|error| read_failure(&error))?.names;
    let units = &info.variables[selected.variable].spec.units;
    let label = |position: u64| {
        let name = usize::try_from(position).ok().and_then(|position| names.get(position));
        name.cloned().unwrap_or_else(|| position.to_string())
    };

    let mut lines = Vec::with_capacity(points.len());
    for &position in points {
        let values = file
            .series(selected.set, selected.variable, position, selected.component, rows.clone())
            .map_err(|error| read_failure(&error))?;
        let (x, y) = if spectrum {
            let spectrum = spectrum::amplitude(&times, &values)
                .map_err(|error| Failure::failed(format!("point {}: {error}", label(position))))?;
            (spectrum.frequency, spectrum.amplitude)
        } else {
            (times.clone(), values)
        };
        lines.push(Line { label: label(position), x, y });
    }
    if spectrum {
        // One common range, so that all lines end together.
        let bins = lines.iter().map(|line| spectrum::significant_bins(&line.y)).max().unwrap_or(0);
        for line in &mut lines {
            line.x.truncate(bins);
            line.y.truncate(bins);
        }
    }

    let seconds = info.time_units == "s" || info.time_units.starts_with("seconds since");
    let (x, y_name) = match (spectrum, seconds) {
        (true, true) => (Axis::new("frequency", "Hz"), format!("amplitude of {variable}")),
        (true, false) => (
            Axis::new(&format!("frequency (cycles per unit of time, {})", info.time_units), ""),
            format!("amplitude of {variable}"),
        ),
        (false, true) => (Axis::new("time", "s"), variable.to_owned()),
        (false, false) => (Axis::new("time", &info.time_units), variable.to_owned()),
    };
    let what = if spectrum { format!("Spectrum of {variable}") } else { variable.to_owned() };
    let place = match points {
        [one] => format!("point {}", label(*one)),
        several => format!("{} points", quantity::count(several.len() as u64)),
    };
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    let set = if info.name.is_empty() { String::new() } else { format!(", set {}", info.name) };
    let chart = Chart { title: format!("{what} at {place} of {name}{set}"), x, y: Axis::new(&y_name, units), lines };
    chart.draw(picture)
}
