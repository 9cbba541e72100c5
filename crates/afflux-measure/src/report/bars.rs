//! Horizontal bars in groups: one group a method, one bar a case of it.

use super::axis::{Axis, Scale};
use super::number::significant;
use super::svg::{Anchor, GRID, Svg, hatching, text_width};

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Which of [`Bars::series`] it belongs to.
    pub series: usize,
    /// Its length, in the units of the axis.
    pub value: f64,
}

/// Bars that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct BarGroup {
    /// Stands to the left of the bars.
    pub label: String,
    /// The bars, from the top; values that the axis cannot show are left out.
    pub bars: Vec<Bar>,
}

/// A chart of horizontal bars.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// Headline.
    pub title: String,
    /// What the bars' length is, with its unit.
    pub axis_title: String,
    /// Linear or logarithmic.
    pub axis: Axis,
    /// Names of the cases, for the legend; a single one needs none.
    pub series: Vec<String>,
    /// The groups, from the top.
    pub groups: Vec<BarGroup>,
}

/// Of every chart, so that a page looks like one.
pub(super) const WIDTH: f64 = 760.0;
const BAR_HEIGHT: f64 = 13.0;
const GROUP_GAP: f64 = 9.0;
/// Room at the right for the number behind the longest bar.
const NUMBER_WIDTH: f64 = 62.0;

/// The place of horizontal bars in their picture.
pub(super) struct Frame {
    pub left: f64,
    pub top: f64,
    pub bottom: f64,
    scale: Scale,
}

impl Frame {
    /// The frame below a headline and a legend of `legend_rows` lines, right of the longest label.
    pub fn new<'a>(labels: impl Iterator<Item = &'a str>, legend_rows: usize, height: f64, scale: Scale) -> Self {
        let left = 14.0 + labels.map(text_width).fold(40.0, f64::max);
        let top = 34.0 + 18.0 * f64::from(u16::try_from(legend_rows).unwrap_or(u16::MAX));
        Self { left, top, bottom: top + height, scale }
    }

    /// Abscissa of a value.
    pub fn x(&self, value: f64) -> f64 {
        self.left + self.scale.place(value) * (WIDTH - NUMBER_WIDTH - self.left)
    }

    /// Grid, ticks and the title below.
    pub fn draw(&self, svg: &mut Svg, axis_title: &str) {
        let mut free_from = f64::NEG_INFINITY;
        for tick in self.scale.ticks() {
            let x = self.x(tick.value);
            if let Some(label) = tick.label {
                svg.line((x, self.top - 4.0), (x, self.bottom), GRID);
                let half = text_width(&label) / 2.0;
                if x - half > free_from {
                    svg.text((x, self.bottom + 15.0), Anchor::Middle, &label);
                    free_from = x + half + 4.0;
                }
            }
        }
        svg.text((f64::midpoint(self.left, WIDTH - NUMBER_WIDTH), self.bottom + 33.0), Anchor::Middle, axis_title);
    }

    /// Height of the picture.
    pub fn picture_height(&self) -> f64 {
        self.bottom + 42.0
    }
}

/// Draws a legend from `(name, filling)` in rows and returns nothing; [`legend_rows`] says how many rows it takes.
pub(super) fn draw_legend(svg: &mut Svg, names: &[String]) {
    for (index, (name, (row, x))) in names.iter().zip(legend_places(names)).enumerate() {
        let y = 30.0 + 18.0 * f64::from(row);
        svg.rectangle((x, y), (14.0, 11.0), &hatching(index), name);
        svg.text((x + 19.0, y + 10.0), Anchor::Start, name);
    }
}

/// Rows that the legend of these names takes.
pub(super) fn legend_rows(names: &[String]) -> usize {
    legend_places(names).last().map_or(0, |(row, _)| usize::from(*row) + 1)
}

/// Row and abscissa of every entry.
fn legend_places(names: &[String]) -> Vec<(u16, f64)> {
    let (mut row, mut x) = (0_u16, 8.0);
    names
        .iter()
        .map(|name| {
            let width = 34.0 + text_width(name);
            if x > 8.0 && x + width > WIDTH {
                row = row.saturating_add(1);
                x = 8.0;
            }
            let place = (row, x);
            x += width;
            place
        })
        .collect()
}

impl Bars {
    /// The chart as an SVG element.
    #[must_use]
    pub fn svg(&self) -> String {
        let values = self.groups.iter().flat_map(|group| group.bars.iter().map(|bar| bar.value));
        let lines = |group: &BarGroup| f64::from(u16::try_from(group.bars.len().max(1)).unwrap_or(u16::MAX));
        let height: f64 = self.groups.iter().map(|group| lines(group) * BAR_HEIGHT + GROUP_GAP).sum();
        let legend = if self.series.len() > 1 { self.series.as_slice() } else { &[] };
        let labels = self.groups.iter().map(|group| group.label.as_str());
        let frame = Frame::new(labels, legend_rows(legend), height, self.axis.over(values));
        let mut svg = Svg::new(WIDTH, frame.picture_height());
        svg.define_hatchings(self.series.len().max(1));
        svg.bold_text((8.0, 18.0), Anchor::Start, &self.title);
        draw_legend(&mut svg, legend);
        frame.draw(&mut svg, &self.axis_title);
        let mut y = frame.top;
        for group in &self.groups {
            let middle = y + lines(group) * BAR_HEIGHT / 2.0;
            svg.text((frame.left - 7.0, middle + 4.0), Anchor::End, &group.label);
            for bar in &group.bars {
                if self.axis.shows(bar.value) {
                    self.draw_bar(&mut svg, &frame, y, &group.label, bar);
                }
                y += BAR_HEIGHT;
            }
            y += GROUP_GAP + if group.bars.is_empty() { BAR_HEIGHT } else { 0.0 };
        }
        svg.finish(&self.title)
    }

    fn draw_bar(&self, svg: &mut Svg, frame: &Frame, y: f64, label: &str, bar: &Bar) {
        let number = significant(bar.value);
        let series = self.series.get(bar.series).map_or("", String::as_str);
        // A bar of the smallest value on a logarithmic axis would have no length: two pixels say that it is there.
        let end = frame.x(bar.value).max(frame.left + 2.0);
        let title = format!("{label}, {series}: {number} ({})", self.axis_title);
        svg.rectangle((frame.left, y + 1.0), (end - frame.left, BAR_HEIGHT - 2.0), &hatching(bar.series), &title);
        svg.text((end + 5.0, y + BAR_HEIGHT - 2.5), Anchor::Start, &number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::well_formed;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_values_give_a_well_formed_picture(
            label in ".*",
            values in proptest::collection::vec((0_usize..9, proptest::num::f64::ANY), 0..9),
            series in proptest::collection::vec(".*", 0..9),
            logarithmic in proptest::bool::ANY,
        ) {
            let bars = values.into_iter().map(|(series, value)| Bar { series, value }).collect();
            let chart = Bars {
                title: label.clone(),
                axis_title: label.clone(),
                axis: if logarithmic { Axis::Logarithmic } else { Axis::Linear },
                series,
                groups: vec![BarGroup { label, bars }, BarGroup { label: String::new(), bars: vec![] }],
            };
            let svg = chart.svg();
            well_formed::check(&svg);
            prop_assert!(!svg.contains("NaN"), "{svg}");
        }
    }

    #[test]
    fn longer_bars_are_longer() {
        let bars = [2.0, 1.0].map(|value| Bar { series: 0, value }).to_vec();
        let chart = Bars {
            title: "t".into(),
            axis_title: "us".into(),
            axis: Axis::Linear,
            series: vec!["one".into()],
            groups: vec![BarGroup { label: "pipe".into(), bars }],
        };
        let svg = chart.svg();
        let widths: Vec<f64> = svg
            .lines()
            .filter(|line| line.starts_with("<rect") && line.contains("pipe"))
            .filter_map(|line| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert!((widths[0] - 2.0 * widths[1]).abs() < 0.2, "{widths:?}");
    }
}
