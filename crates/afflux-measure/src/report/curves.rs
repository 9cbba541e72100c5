//! Curves over common axes, usually both logarithmic: bandwidth over message size.

use super::axis::{Axis, Scale};
use super::svg::{Anchor, GRID, INK, Svg, text_width};

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// What the legend calls it.
    pub label: String,
    /// Points in ascending order of their abscissa; those that an axis cannot show are left out.
    pub points: Vec<(f64, f64)>,
}

/// A chart of curves.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// Headline.
    pub title: String,
    /// What the abscissa is, with its unit.
    pub x_title: String,
    /// Its layout.
    pub x: Axis,
    /// What the ordinate is, with its unit.
    pub y_title: String,
    /// Its layout.
    pub y: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
}

const WIDTH: f64 = super::bars::WIDTH;
const PLOT_HEIGHT: f64 = 330.0;
const TOP: f64 = 34.0;
const LEGEND_ROW: f64 = 18.0;

/// Where the axes are in the picture.
struct Frame {
    left: f64,
    right: f64,
    x: Scale,
    y: Scale,
}

impl Frame {
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.left + self.x.place(x) * (self.right - self.left), TOP + (1.0 - self.y.place(y)) * PLOT_HEIGHT)
    }
}

impl Curves {
    /// The chart as an SVG element.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| self.shown(curve));
        let legend_width = 40.0 + self.curves.iter().map(|curve| text_width(&curve.label)).fold(0.0, f64::max);
        let frame = Frame {
            left: 76.0,
            // Labels of any length must leave room for the curves.
            right: (WIDTH - legend_width).max(WIDTH / 2.0),
            x: self.x.over(points().map(|(x, _)| x)),
            y: self.y.over(points().map(|(_, y)| y)),
        };
        let legend_height = LEGEND_ROW * f64::from(u16::try_from(self.curves.len()).unwrap_or(u16::MAX));
        let mut svg = Svg::new(WIDTH, TOP + PLOT_HEIGHT.max(legend_height) + 46.0);
        svg.bold_text((8.0, 18.0), Anchor::Start, &self.title);
        self.draw_axes(&mut svg, &frame);
        for (index, curve) in self.curves.iter().enumerate() {
            let places: Vec<_> = self.shown(curve).map(|point| frame.place(point)).collect();
            svg.series(&places, index, &curve.label);
            let y = TOP + 8.0 + LEGEND_ROW * f64::from(u16::try_from(index).unwrap_or(u16::MAX));
            let x = frame.right + 8.0;
            svg.series(&[(x, y), (x + 22.0, y)], index, &curve.label);
            svg.text((x + 29.0, y + 4.0), Anchor::Start, &curve.label);
        }
        svg.finish(&self.title)
    }

    /// The points that both axes can show.
    fn shown<'a>(&self, curve: &'a Curve) -> impl Iterator<Item = (f64, f64)> + use<'a> {
        let (x_axis, y_axis) = (self.x, self.y);
        curve.points.iter().copied().filter(move |&(x, y)| x_axis.shows(x) && y_axis.shows(y))
    }

    fn draw_axes(&self, svg: &mut Svg, frame: &Frame) {
        let bottom = TOP + PLOT_HEIGHT;
        for tick in frame.x.ticks() {
            let x = frame.left + frame.x.place(tick.value) * (frame.right - frame.left);
            svg.line((x, TOP), (x, bottom), GRID);
            if let Some(label) = tick.label {
                svg.text((x, bottom + 16.0), Anchor::Middle, &label);
            }
        }
        for tick in frame.y.ticks() {
            let y = TOP + (1.0 - frame.y.place(tick.value)) * PLOT_HEIGHT;
            if let Some(label) = tick.label {
                svg.line((frame.left, y), (frame.right, y), GRID);
                svg.text((frame.left - 6.0, y + 4.0), Anchor::End, &label);
            }
        }
        svg.line((frame.left, TOP), (frame.left, bottom), INK);
        svg.line((frame.left, bottom), (frame.right, bottom), INK);
        svg.text((f64::midpoint(frame.left, frame.right), bottom + 36.0), Anchor::Middle, &self.x_title);
        svg.upward_text((16.0, TOP + PLOT_HEIGHT / 2.0), &self.y_title);
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
            points in proptest::collection::vec((proptest::num::f64::ANY, proptest::num::f64::ANY), 0..9),
            curves in 0_usize..30,
        ) {
            let curves = vec![Curve { label: label.clone(), points }; curves];
            for (x, y) in [(Axis::Bytes, Axis::Logarithmic), (Axis::Linear, Axis::Linear)] {
                let chart = Curves {
                    title: label.clone(), x_title: label.clone(), x, y_title: label.clone(), y, curves: curves.clone(),
                };
                let svg = chart.svg();
                well_formed::check(&svg);
                prop_assert!(!svg.contains("NaN"), "{svg}");
            }
        }
    }

    #[test]
    fn points_that_a_logarithm_cannot_show_are_left_out() {
        let curve = Curve { label: "a".into(), points: vec![(0.0, 1.0), (1.0, 0.0), (2.0, 4.0)] };
        let chart = Curves {
            title: "t".into(),
            x_title: "B".into(),
            x: Axis::Bytes,
            y_title: "MB/s".into(),
            y: Axis::Logarithmic,
            curves: vec![curve],
        };
        // One point of the curve and two of its legend.
        assert_eq!(chart.svg().matches("<circle").count(), 3);
    }
}
