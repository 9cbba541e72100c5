//! Line charts as PNG or SVG.
//!
//! A [`Chart`] says what is shown; [`Chart::draw`] chooses scales, colours and the picture's format. Pictures need a font: DejaVu Sans
//! comes with the program, so that a machine without fonts draws the same picture. Series much longer than the picture is wide
//! are reduced to what can be seen (the smallest and the largest value of each pixel column).

use crate::failure::Failure;
use crate::new_file::{NewFile, Older};
use crate::quantity::{self, Axis};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::io::Write;
use std::path::Path;
use std::sync::Once;

/// One series.
#[derive(Debug, Clone)]
pub struct Line {
    /// What the legend calls it.
    pub label: String,
    /// Abscissae, ascending, as long as `y`.
    pub x: Vec<f64>,
    /// Ordinates; values that are not finite leave a gap.
    pub y: Vec<f64>,
}

/// A picture of several series over common axes.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Headline.
    pub title: String,
    /// What the abscissa is.
    pub x: Axis,
    /// What the ordinate is.
    pub y: Axis,
    /// The series.
    pub lines: Vec<Line>,
}

/// Width and height in pixels: sharp on a page of paper and on a dense screen.
const SIZE_PIXELS: (u32, u32) = (1600, 900);
/// Plotters rounds to whole pixels, which makes slanted lines ragged: everything is drawn this many times larger and brought
/// down to size afterwards.
const OVERSAMPLING: u32 = 3;
const DRAWN_PIXELS: (u32, u32) = (SIZE_PIXELS.0 * OVERSAMPLING, SIZE_PIXELS.1 * OVERSAMPLING);
const FONT: &str = "DejaVu Sans, sans-serif";
const TEXT: RGBColor = RGBColor(40, 44, 52);
const GRID: RGBColor = RGBColor(226, 229, 233);
/// Okabe and Ito's colours, told apart by colour-blind readers too; yellow, pale on white, left out.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];
/// More legend entries than this would cover the picture.
const LEGEND_ENTRIES_MAX: usize = 16;

/// The formats a picture may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Pixels.
    Png,
    /// Vectors.
    Svg,
}

impl Format {
    /// The format that a file's name asks for.
    pub fn of(path: &Path) -> Result<Self, Failure> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "png" => Ok(Self::Png),
            "svg" => Ok(Self::Svg),
            _ => Err(Failure::usage(format!(
                "cannot tell the picture's format from the name {}; end it in .png or .svg",
                path.display()
            ))),
        }
    }
}

impl Chart {
    /// Draws the picture into a file, replacing what was there once all is well.
    pub fn draw(&self, path: &Path) -> Result<(), Failure> {
        // SVG names the font and leaves letters to the viewer, but plotters measures texts for both.
        register_font();
        let undrawable = |error: String| Failure::failed(format!("cannot draw {}: {error}", path.display()));
        let bytes = match Format::of(path)? {
            Format::Png => self.png().map_err(undrawable)?,
            Format::Svg => self.svg().map_err(undrawable)?.into_bytes(),
        };
        let write = || {
            let mut picture = NewFile::create(path)?;
            picture.write_all(&bytes)?;
            picture.finish(path, Older::Replace)
        };
        write().map_err(|error: std::io::Error| {
            Failure::failed(format!(
                "cannot write {}: {error}; is the directory there and writable, with room left?",
                path.display()
            ))
        })
    }

    fn png(&self) -> Result<Vec<u8>, String> {
        let (width, height) = DRAWN_PIXELS;
        let mut pixels = vec![0; 3 * width as usize * height as usize];
        let root = BitMapBackend::with_buffer(&mut pixels, DRAWN_PIXELS).into_drawing_area();
        self.draw_on(&root).map_err(|error| error.to_string())?;
        drop(root);
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, SIZE_PIXELS.0, SIZE_PIXELS.1);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().map_err(|error| error.to_string())?;
        writer.write_image_data(&brought_down(&pixels)).map_err(|error| error.to_string())?;
        writer.finish().map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    fn svg(&self) -> Result<String, String> {
        let mut text = String::new();
        let root = SVGBackend::with_string(&mut text, DRAWN_PIXELS).into_drawing_area();
        self.draw_on(&root).map_err(|error| error.to_string())?;
        drop(root);
        // The drawing keeps its fine coordinates in the view box; what is shown has the common size.
        let (drawn, shown) = (DRAWN_PIXELS, SIZE_PIXELS);
        let size = |(width, height): (u32, u32)| format!("width=\"{width}\" height=\"{height}\"");
        Ok(text.replacen(&size(drawn), &size(shown), 1))
    }

    fn draw_on<B: DrawingBackend>(
        &self,
        root: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let x_range = range_of(self.lines.iter().flat_map(|line| &line.x));
        let y_range = range_of(self.lines.iter().flat_map(|line| &line.y));
        let (x_scale, y_scale) = (self.x.scale(x_range), self.y.scale(y_range));
        let (x_low, x_high) = widen(x_range, x_scale.factor, 0.0);
        let (y_low, y_high) = widen(y_range, y_scale.factor, 0.06);

        root.fill(&WHITE)?;
        let mut context = ChartBuilder::on(root)
            .caption(&self.title, text(34))
            .margin(28 * OVERSAMPLING)
            .x_label_area_size(86 * OVERSAMPLING)
            .y_label_area_size(120 * OVERSAMPLING)
            .build_cartesian_2d(x_low..x_high, y_low..y_high)?;
        context
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(stroke(GRID, 1))
            .axis_style(stroke(TEXT, 2))
            .x_labels(10)
            .y_labels(8)
            .x_label_formatter(&|value| tick(*value, x_high - x_low))
            .y_label_formatter(&|value| tick(*value, y_high - y_low))
            .x_desc(&x_scale.label)
            .y_desc(&y_scale.label)
            .label_style(text(24))
            .axis_desc_style(text(27))
            .set_all_tick_mark_size(8 * OVERSAMPLING)
            .draw()?;

        for (index, line) in self.lines.iter().enumerate() {
            let style = stroke(COLOURS[index % COLOURS.len()], 3);
            let scaled = line.x.iter().zip(&line.y).map(|(x, y)| (x * x_scale.factor, y * y_scale.factor));
            for piece in pieces(&reduce(scaled.collect())) {
                context.draw_series(LineSeries::new(piece.iter().copied(), style))?;
            }
            if self.lines.len() > 1 && index < LEGEND_ENTRIES_MAX {
                // An empty series carries the legend, so that a line of several pieces has one entry.
                context
                    .draw_series(std::iter::empty::<PathElement<(f64, f64)>>())?
                    .label(&line.label)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 34 * OVERSAMPLING.cast_signed(), y)], style));
            }
        }
        if self.lines.len() > 1 {
            context
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .legend_area_size(46 * OVERSAMPLING)
                .margin(14 * OVERSAMPLING)
                .background_style(WHITE.mix(0.88))
                .border_style(stroke(GRID, 1))
                .label_font(text(24))
                .draw()?;
        }
        root.present()
    }
}

/// A line of so many pixels of the picture.
fn stroke(colour: RGBColor, pixels: u32) -> ShapeStyle {
    colour.stroke_width(pixels * OVERSAMPLING)
}

/// Letters of so many pixels of the picture.
fn text(pixels: u32) -> TextStyle<'static> {
    (FONT, pixels * OVERSAMPLING).into_font().color(&TEXT)
}

/// The mean of each square of drawn pixels: `drawn` and the result hold rows of red, green, blue.
fn brought_down(drawn: &[u8]) -> Vec<u8> {
    let factor = OVERSAMPLING as usize;
    let (drawn_row, shown_row) = (3 * DRAWN_PIXELS.0 as usize, 3 * SIZE_PIXELS.0 as usize);
    let mut shown = Vec::with_capacity(shown_row * SIZE_PIXELS.1 as usize);
    for rows in drawn.chunks_exact(drawn_row * factor) {
        for index in 0..shown_row {
            let (pixel, colour) = (index / 3, index % 3);
            let inside =
                (0..factor).flat_map(|y| (0..factor).map(move |x| drawn_row * y + 3 * (factor * pixel + x) + colour));
            let sum: u32 = inside.map(|at| u32::from(rows[at])).sum();
            shown.push(u8::try_from(sum / (OVERSAMPLING * OVERSAMPLING)).unwrap_or(u8::MAX));
        }
    }
    shown
}

fn register_font() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // The bytes are a font known to be whole, so that registering cannot fail.
        let registered = plotters::style::register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
        assert!(registered.is_ok(), "the font that comes with the program is whole");
    });
}

/// Smallest and largest finite value, `(0, 0)` when there is none.
fn range_of<'a>(values: impl Iterator<Item = &'a f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &v| (low.min(v), high.max(v)));
    if low <= high { (low, high) } else { (0.0, 0.0) }
}

/// The range shown: `range` times `factor`, `margin` of its width added at both ends, never empty.
fn widen((low, high): (f64, f64), factor: f64, margin: f64) -> (f64, f64) {
    let (low, high) = (low * factor, high * factor);
    if low == high {
        let half = if low == 0.0 { 1.0 } else { low.abs() * 0.5 };
        return (low - half, high + half);
    }
    (low - margin * (high - low), high + margin * (high - low))
}

/// A tick's number, with as many decimals as the range needs.
fn tick(value: f64, width: f64) -> String {
    let decimals = if width >= 20.0 {
        0
    } else if width >= 2.0 {
        1
    } else if width >= 0.2 {
        2
    } else {
        3
    };
    quantity::trim_zeros(&format!("{value:.decimals$}"))
}

/// At most a few values a pixel column: in each of `SIZE_PIXELS.0` equal groups the smallest and the largest, in order.
fn reduce(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let columns = SIZE_PIXELS.0 as usize;
    if points.len() <= 4 * columns {
        return points;
    }
    let mut kept = Vec::with_capacity(2 * columns);
    for group in points.chunks(points.len().div_ceil(columns)) {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (Some(low), Some(high)) = (group.iter().min_by(by_value), group.iter().max_by(by_value)) else { continue };
        let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        kept.extend([*first, *second]);
    }
    kept
}

/// The stretches between values that are not finite.
fn pieces(points: &[(f64, f64)]) -> impl Iterator<Item = &[(f64, f64)]> {
    points.split(|point| !point.1.is_finite()).filter(|piece| !piece.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_extremes() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), 0.0)).collect();
        points[77_777].1 = 5.0;
        points[77_778].1 = -5.0;
        let reduced = reduce(points);
        assert!(reduced.len() <= 3200);
        assert!(reduced.contains(&(77_777.0, 5.0)) && reduced.contains(&(77_778.0, -5.0)));
        assert!(reduced.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn values_that_are_not_finite_leave_a_gap() {
        let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 2.0), (3.0, 3.0)];
        assert_eq!(pieces(&points).map(<[_]>::len).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(range_of([f64::NAN, 2.0, -1.0, f64::INFINITY].iter()), (-1.0, 2.0));
        assert_eq!(range_of([f64::NAN].iter()), (0.0, 0.0));
    }

    #[test]
    fn a_constant_series_has_a_range() {
        assert_eq!(widen((0.0, 0.0), 1.0, 0.06), (-1.0, 1.0));
        assert_eq!(widen((2.0, 2.0), 1.0, 0.06), (1.0, 3.0));
    }

    #[test]
    fn the_name_tells_the_format() {
        assert_eq!(Format::of(Path::new("a.PNG")).unwrap(), Format::Png);
        assert_eq!(Format::of(Path::new("a.svg")).unwrap(), Format::Svg);
        assert!(Format::of(Path::new("a.pdf")).is_err());
    }
}
