//! A little writer of SVG: the few shapes that the charts need, with every text escaped.

use std::fmt::Write as _;

/// Okabe and Ito's colours, told apart by colour-blind readers too; yellow, pale on white, left out.
pub const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"];
/// Dashes that tell lines apart without colours, in steps of [`COLOURS`].
const DASHES: [&str; 3] = ["", "7 3", "2 3"];
/// Of text.
pub const INK: &str = "#282c34";
/// Of lines behind the data.
pub const GRID: &str = "#dfe3e8";
/// Size of text.
pub const FONT_SIZE: f64 = 12.0;
/// Width of a character of that size on average, to leave room for labels without measuring them.
const CHARACTER_WIDTH: f64 = 7.5;

/// Makes a text safe between tags and within quotes; characters that XML cannot hold become a replacement character.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\r' | '\t' => safe.push(' '),
            character if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => {
                safe.push('\u{fffd}')
            }
            character => safe.push(character),
        }
    }
    safe
}

/// Room that a text takes, about.
pub fn text_width(text: &str) -> f64 {
    // Lengths of labels are far below what a double holds exactly.
    text.chars().count() as f64 * CHARACTER_WIDTH
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture in the making; lengths in pixels of the screen.
#[derive(Debug)]
pub struct Svg {
    body: String,
    width: f64,
    height: f64,
}

impl Svg {
    pub fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), width, height }
    }

    /// The picture as an element that may stand in a page or, since it names its name space, alone in a file.
    pub fn finish(self, title: &str) -> String {
        let Self { body, width, height } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" \
             font-size=\"{FONT_SIZE}\" fill=\"{INK}\">\n<title>{}</title>\n{body}</svg>\n",
            escape(title)
        )
    }

    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) {
        let _ = writeln!(
            self.body,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
        );
    }

    /// A rectangle from its upper left corner, with a title that appears under the pointer.
    pub fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str, title: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{}\"><title>{}</title></rect>",
            width.max(0.0),
            escape(fill),
            escape(title)
        );
    }

    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        self.styled_text((x, y), anchor, "", text);
    }

    pub fn bold_text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        self.styled_text((x, y), anchor, " font-weight=\"bold\"", text);
    }

    /// A text that reads upwards, for the ordinate.
    pub fn upward_text(&mut self, (x, y): (f64, f64), text: &str) {
        let turn = format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"");
        self.styled_text((x, y), Anchor::Middle, &turn, text);
    }

    fn styled_text(&mut self, (x, y): (f64, f64), anchor: Anchor, style: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{style}>{}</text>",
            escape(text)
        );
    }

    /// A series: its line and a marker at every point, in the looks of series number `index`.
    pub fn series(&mut self, points: &[(f64, f64)], index: usize, title: &str) {
        let colour = COLOURS[index % COLOURS.len()];
        let dash = DASHES[index / COLOURS.len() % DASHES.len()];
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" stroke-dasharray=\"{dash}\">\
             <title>{}</title></polyline>",
            path.join(" "),
            escape(title)
        );
        for &point in points {
            self.marker(point, index);
        }
    }

    /// The marker of series number `index`: shapes change faster than dashes, so that neighbours differ without colours.
    fn marker(&mut self, (x, y): (f64, f64), index: usize) {
        let colour = COLOURS[index % COLOURS.len()];
        let polygon = |corners: &[(f64, f64)]| {
            let corners: Vec<String> = corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
            corners.join(" ")
        };
        // A hollow marker is seen where markers lie upon each other.
        let fill = if (index / 4).is_multiple_of(2) { colour } else { "#ffffff" };
        let _ = match index % 4 {
            0 => writeln!(
                self.body,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\" fill=\"{fill}\" stroke=\"{colour}\"/>"
            ),
            1 => writeln!(
                self.body,
                "<polygon points=\"{}\" fill=\"{fill}\" stroke=\"{colour}\"/>",
                polygon(&[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)])
            ),
            2 => writeln!(
                self.body,
                "<polygon points=\"{}\" fill=\"{fill}\" stroke=\"{colour}\"/>",
                polygon(&[(0.0, -4.0), (4.0, 3.2), (-4.0, 3.2)])
            ),
            _ => writeln!(
                self.body,
                "<polygon points=\"{}\" fill=\"{fill}\" stroke=\"{colour}\"/>",
                polygon(&[(0.0, -4.4), (4.4, 0.0), (0.0, 4.4), (-4.4, 0.0)])
            ),
        };
    }

    /// Defines fillings of one hue each that differ by hatching too; use them as `url(#NAME)`, names from [`hatching`].
    pub fn define_hatchings(&mut self, count: usize) {
        self.body.push_str("<defs>\n");
        for index in 0..count {
            let colour = COLOURS[index % COLOURS.len()];
            let (background, strokes) = match index % 4 {
                0 => (colour, String::new()),
                1 => (
                    "#ffffff",
                    format!("<path d=\"M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2\" stroke=\"{colour}\" stroke-width=\"2.4\"/>"),
                ),
                2 => ("#ffffff", format!("<path d=\"M0,3 h6\" stroke=\"{colour}\" stroke-width=\"1.2\"/>")),
                _ => ("#ffffff", format!("<circle cx=\"3\" cy=\"3\" r=\"1.5\" fill=\"{colour}\"/>")),
            };
            let _ = writeln!(
                self.body,
                "<pattern id=\"{}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
                 <rect width=\"6\" height=\"6\" fill=\"{background}\"/>{strokes}</pattern>",
                hatching_name(index)
            );
        }
        self.body.push_str("</defs>\n");
    }
}

fn hatching_name(index: usize) -> String {
    format!("hatching-{index}")
}

/// The filling of part number `index`.
pub fn hatching(index: usize) -> String {
    format!("url(#{})", hatching_name(index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::well_formed;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_may_stand_in_a_picture(text in ".*", index in 0_usize..40) {
            let mut svg = Svg::new(100.0, 50.0);
            svg.define_hatchings(9);
            svg.text((1.0, 2.0), Anchor::End, &text);
            svg.upward_text((1.0, 2.0), &text);
            svg.rectangle((0.0, 0.0), (3.0, 4.0), &hatching(index), &text);
            svg.series(&[(0.0, 1.0), (2.0, 3.0)], index, &text);
            well_formed::check(&svg.finish(&text));
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_page() {
        assert_eq!(escape("a\u{0}b\nc<'"), "a\u{fffd}b c&lt;&#39;");
    }
}
