//! Horizontal bars made of parts that add up: user, system and idle time, say.

use super::axis::Axis;
use super::bars::{Frame, WIDTH, draw_legend, legend_rows};
use super::number::significant;
use super::svg::{Anchor, Svg, hatching};

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct StackedBar {
    /// Stands to the left of it.
    pub label: String,
    /// Its parts from the left, one for each of [`StackedBars::parts`]; what an axis cannot show counts as 0.
    pub values: Vec<f64>,
}

/// A chart of bars with parts.
#[derive(Debug, Clone, PartialEq)]
pub struct StackedBars {
    /// Headline.
    pub title: String,
    /// What the bars' length is, with its unit.
    pub axis_title: String,
    /// Names of the parts, for the legend.
    pub parts: Vec<String>,
    /// The bars, from the top.
    pub bars: Vec<StackedBar>,
}

const BAR_HEIGHT: f64 = 20.0;
const BAR_GAP: f64 = 8.0;

impl StackedBars {
    /// The chart as an SVG element.
    #[must_use]
    pub fn svg(&self) -> String {
        let height = (BAR_HEIGHT + BAR_GAP) * f64::from(u16::try_from(self.bars.len()).unwrap_or(u16::MAX));
        let labels = self.bars.iter().map(|bar| bar.label.as_str());
        let scale = Axis::Linear.over(self.bars.iter().map(|bar| parts(bar).sum()));
        let frame = Frame::new(labels, legend_rows(&self.parts), height, scale);
        let mut svg = Svg::new(WIDTH, frame.picture_height());
        svg.define_hatchings(self.parts.len());
        svg.bold_text((8.0, 18.0), Anchor::Start, &self.title);
        draw_legend(&mut svg, &self.parts);
        frame.draw(&mut svg, &self.axis_title);
        let mut y = frame.top;
        for bar in &self.bars {
            svg.text((frame.left - 7.0, y + 14.0), Anchor::End, &bar.label);
            let mut from = 0.0;
            for (index, value) in parts(bar).enumerate() {
                let to = from + value;
                let (start, end) = (frame.x(from), frame.x(to));
                let name = self.parts.get(index).map_or("", String::as_str);
                let title = format!("{}, {name}: {} ({})", bar.label, significant(value), self.axis_title);
                svg.rectangle((start, y), (end - start, BAR_HEIGHT), &hatching(index), &title);
                from = to;
            }
            svg.text((frame.x(from) + 5.0, y + 14.0), Anchor::Start, &significant(from));
            y += BAR_HEIGHT + BAR_GAP;
        }
        svg.finish(&self.title)
    }
}

fn parts(bar: &StackedBar) -> impl Iterator<Item = f64> {
    bar.values.iter().map(|&value| if Axis::Linear.shows(value) { value } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::well_formed;
    use proptest::prelude::*;

    #[test]
    fn parts_follow_each_other() {
        let chart = StackedBars {
            title: "job".into(),
            axis_title: "s".into(),
            parts: vec!["user".into(), "system".into(), "idle".into()],
            bars: vec![StackedBar { label: "ext4".into(), values: vec![3.0, 1.0, 4.0] }],
        };
        let svg = chart.svg();
        let number = |line: &str, name: &str| -> f64 {
            line.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        let rectangles: Vec<(f64, f64)> = svg
            .lines()
            .filter(|line| line.starts_with("<rect") && line.contains("ext4"))
            .map(|line| (number(line, " x"), number(line, "width")))
            .collect();
        assert_eq!(rectangles.len(), 3);
        for pair in rectangles.windows(2) {
            assert!((pair[0].0 + pair[0].1 - pair[1].0).abs() < 0.2, "{rectangles:?}");
        }
        assert!((rectangles[0].1 / rectangles[1].1 - 3.0).abs() < 0.01, "{rectangles:?}");
    }

    proptest! {
        #[test]
        fn any_values_give_a_well_formed_picture(
            label in ".*",
            values in proptest::collection::vec(proptest::num::f64::ANY, 0..5),
            parts in proptest::collection::vec(".*", 0..5),
        ) {
            let bars = vec![StackedBar { label: label.clone(), values }];
            let svg = StackedBars { title: label.clone(), axis_title: label, parts, bars }.svg();
            well_formed::check(&svg);
            prop_assert!(!svg.contains("NaN"), "{svg}");
        }
    }
}
