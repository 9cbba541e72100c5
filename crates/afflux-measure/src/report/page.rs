//! One HTML page that holds all it needs, for the screen and for paper.

use super::svg::escape;
use super::{Bars, Curves, StackedBars, Table};
use std::fmt::Write as _;

/// Wide enough for the charts; tables that are wider scroll on the screen and shrink on paper.
const STYLE: &str = "\
:root { color-scheme: light; }
body { font: 15px/1.45 'DejaVu Sans', Helvetica, Arial, sans-serif; color: #282c34; background: #fff; margin: 2em auto; \
max-width: 60em; padding: 0 1em; }
h1 { font-size: 1.6em; margin: 0 0 .2em; }
h2 { font-size: 1.2em; margin: 2em 0 .5em; border-bottom: 1px solid #c8ced6; padding-bottom: .2em; }
p { max-width: 46em; }
dl.where { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; margin: 0 0 1em; font-size: .87em; }
dl.where dt { color: #5b6472; }
dl.where dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 1em 0; }
figure svg { width: 100%; height: auto; }
div.table { overflow-x: auto; margin: 1em 0; }
table { border-collapse: collapse; font-size: .87em; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: bold; padding: 0 0 .4em; }
th, td { padding: .2em .7em; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #282c34; vertical-align: bottom; }
td { border-bottom: 1px solid #dfe3e8; }
td:first-child { white-space: nowrap; }
.number { text-align: right; white-space: nowrap; }
ul.notes { list-style: none; padding: 0; margin: .4em 0 0; font-size: .8em; color: #5b6472; }
@page { size: A4; margin: 16mm 14mm; }
@media print {
body { font-size: 10pt; margin: 0; max-width: none; padding: 0; }
h2 { break-after: avoid; }
figure, tr, dl.where { break-inside: avoid; }
thead { display: table-header-group; }
div.table { overflow: visible; }
table { font-size: 8pt; }
th, td { padding: .15em .5em; }
figure svg, rect { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
";

/// A page in the making.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// An empty page under a headline.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), body: String::new() }
    }

    /// Adds names and values that say where and how something was measured: host, kernel, command.
    pub fn facts<'a>(&mut self, facts: impl IntoIterator<Item = (&'a str, String)>) {
        self.body.push_str("<dl class=\"where\">\n");
        for (name, value) in facts {
            let _ = writeln!(self.body, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value));
        }
        self.body.push_str("</dl>\n");
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(title));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
    }

    /// Adds a table; one without rows is left out.
    pub fn table(&mut self, table: &Table) {
        if !table.is_empty() {
            let _ = writeln!(self.body, "<div class=\"table\">\n{}</div>", table.html());
        }
    }

    /// Adds a chart of bars.
    pub fn bars(&mut self, chart: &Bars) {
        self.figure(&chart.svg());
    }

    /// Adds a chart of curves.
    pub fn curves(&mut self, chart: &Curves) {
        self.figure(&chart.svg());
    }

    /// Adds a chart of bars with parts.
    pub fn stacked_bars(&mut self, chart: &StackedBars) {
        self.figure(&chart.svg());
    }

    fn figure(&mut self, svg: &str) {
        let _ = writeln!(self.body, "<figure>\n{svg}</figure>");
    }

    /// The whole page.
    #[must_use]
    pub fn html(&self) -> String {
        let Self { title, body } = self;
        let title = escape(title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Axis, Curve, StackedBar, well_formed};

    fn page() -> Page {
        let mut page = Page::new("Communication <here> & there");
        page.facts([("host", "a \"b\"".to_owned())]);
        page.section("Round trips");
        page.paragraph("1 < 2");
        let mut table = Table::new("t").words("a").numbers("b");
        page.table(&table);
        table.row(vec!["x".into(), 1.0.into()]);
        page.table(&table);
        page.curves(&Curves {
            title: "Bandwidth".into(),
            x_title: "message (B)".into(),
            x: Axis::Bytes,
            y_title: "MB/s".into(),
            y: Axis::Logarithmic,
            curves: vec![Curve { label: "pipe".into(), points: vec![(1.0, 1.0), (1024.0, 900.0)] }],
        });
        page.stacked_bars(&StackedBars {
            title: "Time".into(),
            axis_title: "s".into(),
            parts: vec!["user".into(), "system".into(), "idle".into()],
            bars: vec![StackedBar { label: "xfs".into(), values: vec![3.0, 1.0, 2.0] }],
        });
        page
    }

    #[test]
    fn a_page_is_well_formed_and_needs_nothing_else() {
        let html = page().html();
        well_formed::check(&html);
        for word in ["<script", "src=", "href=", "@import", "url(http"] {
            assert!(!html.contains(word), "{word}");
        }
        let names_of_spaces = html.matches("xmlns=\"http://www.w3.org/2000/svg\"").count();
        assert_eq!(html.matches("http").count(), names_of_spaces, "an address that would be loaded");
        assert_eq!(html.matches("<table>").count(), 1, "the table without rows is left out");
    }
}
