//! How a frame looks: a chart of the lines over time, a headline with the names of the points, and a line of state.

use super::snapshot::Snapshot;
use crate::quantity::{self, Axis as Quantity};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Paragraph};
use std::path::{Path, PathBuf};

/// Told apart on dark and on light terminals.
const COLOURS: [Color; 6] = [Color::Cyan, Color::Yellow, Color::Green, Color::Magenta, Color::Red, Color::Blue];
/// Room above and below the lines, as a part of their range.
const MARGIN: f64 = 0.05;

/// What is on the screen.
#[derive(Debug)]
pub struct Picture {
    file: PathBuf,
    snapshot: Option<Snapshot>,
    problem: Option<String>,
    /// Smallest and largest value since the scale was forgotten.
    range_seen: Option<(f64, f64)>,
    /// Whether the picture stands still.
    pub held: bool,
    /// Whether the ordinate has room for all that was seen, instead of what is seen.
    pub scale_to_seen: bool,
}

impl Picture {
    /// Before anything was read.
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            snapshot: None,
            problem: None,
            range_seen: None,
            held: false,
            scale_to_seen: false,
        }
    }

    /// Takes a new snapshot.
    pub fn show(&mut self, snapshot: Snapshot) {
        self.range_seen = union(self.range_seen, range(&snapshot));
        self.snapshot = Some(snapshot);
        self.problem = None;
    }

    /// The file could not be read now: what was shown stays.
    pub fn problem(&mut self, text: String) {
        self.problem = Some(text);
    }

    /// Why the file could not be read last time.
    pub fn problem_text(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// What is shown.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// Something else is to be shown, of another range.
    pub fn forget_scale(&mut self) {
        self.range_seen = None;
    }

    /// Draws everything.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let parts = Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)]);
        let [head, middle, foot] = parts.areas(frame.area());
        frame.render_widget(Paragraph::new(self.headline()), head);
        match &self.snapshot {
            Some(snapshot) if snapshot.rows > 0 => self.draw_chart(frame, middle, snapshot),
            Some(_) => frame.render_widget(Paragraph::new("nothing is sealed yet"), middle),
            None => frame.render_widget(Paragraph::new("waiting for the file"), middle),
        }
        frame.render_widget(Paragraph::new(self.state()), foot);
    }

    fn headline(&self) -> Line<'_> {
        let Some(snapshot) = &self.snapshot else { return Line::from(self.file.display().to_string()) };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut spans = vec![Span::styled(format!("{}  ", snapshot.variable), bold)];
        for (line, colour) in snapshot.lines.iter().zip(COLOURS.iter().cycle()) {
            spans.push(Span::styled(format!("{}  ", line.label), Style::new().fg(*colour)));
        }
        Line::from(spans)
    }

    fn state(&self) -> Line<'_> {
        let mut text = self.file.display().to_string();
        if let Some(snapshot) = &self.snapshot {
            let sealed = snapshot.watermark.map_or_else(|| "nothing".to_owned(), |step| format!("step {step}"));
            let rows = quantity::count_of(snapshot.rows, "row", "rows");
            let state = if snapshot.closed { "closed" } else { "open" };
            text.push_str(&format!("  sealed up to {sealed}, {rows}, {state}"));
        }
        if self.held {
            text.push_str("  [held]");
        }
        if let Some(problem) = &self.problem {
            text.push_str(&format!("  {problem}"));
        }
        Line::from(text)
    }

    fn draw_chart(&self, frame: &mut Frame<'_>, area: ratatui::layout::Rect, snapshot: &Snapshot) {
        let seen = if self.scale_to_seen { self.range_seen } else { range(snapshot) };
        let ordinate = with_margin(seen.unwrap_or((0.0, 0.0)));
        let times = || snapshot.lines.iter().flat_map(|line| line.points.iter().map(|(time, _)| *time));
        let abscissa = widen((times().fold(f64::INFINITY, f64::min), times().fold(f64::NEG_INFINITY, f64::max)));
        let datasets = snapshot.lines.iter().zip(COLOURS.iter().cycle()).map(|(line, colour)| {
            let style = Style::new().fg(*colour);
            Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line).style(style).data(&line.points)
        });
        let chart = Chart::new(datasets.collect())
            .x_axis(axis(&Quantity::new("time", &snapshot.time_units), abscissa))
            .y_axis(axis(&Quantity::new(&snapshot.variable, &snapshot.units), ordinate));
        frame.render_widget(chart, area);
    }
}

/// An axis with its ends and its middle written out, scaled to readable numbers.
fn axis(quantity: &Quantity, (low, high): (f64, f64)) -> Axis<'static> {
    let scale = quantity.scale((low, high));
    let label = |value: f64| Span::from(format!("{:.4}", value * scale.factor));
    Axis::default().title(scale.label.clone()).bounds([low, high]).labels([
        label(low),
        label(0.5 * (low + high)),
        label(high),
    ])
}

/// The finite values' smallest and largest.
fn range(snapshot: &Snapshot) -> Option<(f64, f64)> {
    let values = snapshot.lines.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value));
    values.filter(|value| value.is_finite()).fold(None, |range, value| union(range, Some((value, value))))
}

fn union(one: Option<(f64, f64)>, other: Option<(f64, f64)>) -> Option<(f64, f64)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

fn with_margin((low, high): (f64, f64)) -> (f64, f64) {
    let (low, high) = widen((low, high));
    let margin = MARGIN * (high - low);
    (low - margin, high + margin)
}

/// A range of some width around what may be a single value.
fn widen((low, high): (f64, f64)) -> (f64, f64) {
    if high > low {
        return (low, high);
    }
    let half = if low == 0.0 { 1.0 } else { low.abs() * 0.5 };
    if low.is_finite() { (low - half, low + half) } else { (0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::Line as Values;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn snapshot(values: &[f64]) -> Snapshot {
        let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(n, value)| (n as f64, *value)).collect();
        Snapshot {
            watermark: Some(7),
            closed: false,
            rows: values.len() as u64,
            step_last: Some(7),
            variable: "Ez".into(),
            units: "V m-1".into(),
            time_units: "s".into(),
            lines: vec![Values { label: "here".into(), points }],
        }
    }

    fn drawn(picture: &Picture) -> String {
        let mut terminal = Terminal::new(TestBackend::new(60, 15)).unwrap();
        terminal.draw(|frame| picture.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_frame_says_what_it_shows() {
        let mut picture = Picture::new("run.nc".as_ref());
        assert!(drawn(&picture).contains("waiting for the file"));
        picture.show(snapshot(&[]));
        assert!(drawn(&picture).contains("nothing is sealed yet"));
        picture.show(snapshot(&[1.0, 3.0, 2.0]));
        let text = drawn(&picture);
        assert!(text.contains("Ez  here") && text.contains("sealed up to step 7, 3 rows, open"), "{text}");
        picture.problem("gone for a moment".into());
        let text = drawn(&picture);
        assert!(text.contains("gone for a moment") && text.contains("Ez  here"), "{text}");
    }

    #[test]
    fn odd_values_do_not_bring_a_frame_down() {
        for values in [&[f64::NAN][..], &[0.0], &[5.0, 5.0], &[f64::INFINITY, 1.0], &[-1e300, 1e300]] {
            let mut picture = Picture::new("run.nc".as_ref());
            picture.show(snapshot(values));
            assert!(drawn(&picture).contains("Ez"), "{values:?}");
        }
    }

    #[test]
    fn the_scale_follows_what_is_seen_or_keeps_what_was() {
        let mut picture = Picture::new("run.nc".as_ref());
        picture.show(snapshot(&[100.0, -100.0]));
        picture.show(snapshot(&[1.0, 2.0]));
        assert_eq!(range(picture.snapshot().unwrap()), Some((1.0, 2.0)));
        assert_eq!(picture.range_seen, Some((-100.0, 100.0)));
        picture.forget_scale();
        assert_eq!(picture.range_seen, None);
    }
}
