//! Tables: one content for the terminal, Markdown and HTML.

use super::number::significant;
use super::svg::escape;
use std::fmt::Write as _;

/// On which side a column's cells stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, units included.
    pub title: String,
    /// Where its cells stand.
    pub align: Align,
}

/// What stands in a row's column.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words, or a number already formatted.
    Text(String),
    /// A number, shown with three significant digits.
    Number(f64),
    /// Nothing could be measured; the reason goes below the table.
    Absent(String),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

/// A table with a caption above and notes below.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    caption: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    notes: Vec<String>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..Self::default() }
    }

    /// Gives it another caption.
    pub fn set_caption(&mut self, caption: impl Into<String>) {
        self.caption = caption.into();
    }

    /// Adds a column of words.
    #[must_use]
    pub fn words(self, title: impl Into<String>) -> Self {
        self.column(title, Align::Left)
    }

    /// Adds a column of numbers; its title names their unit.
    #[must_use]
    pub fn numbers(self, title: impl Into<String>) -> Self {
        self.column(title, Align::Right)
    }

    fn column(mut self, title: impl Into<String>, align: Align) -> Self {
        self.columns.push(Column { title: title.into(), align });
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When it has not as many cells as the table has columns.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for every column of '{}'", self.caption);
        self.rows.push(cells);
    }

    /// Adds a note that stands below the table.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Whether no row was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows' texts, and the reasons for what is absent, numbered as they are referred to.
    fn texts(&self) -> (Vec<Vec<String>>, Vec<&str>) {
        let mut reasons: Vec<&str> = Vec::new();
        let mut rows = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let mut texts = Vec::with_capacity(row.len());
            for cell in row {
                texts.push(match cell {
                    Cell::Text(text) => text.clone(),
                    Cell::Number(number) => significant(*number),
                    Cell::Absent(reason) => {
                        let known = reasons.iter().position(|known| known == reason);
                        let index = known.unwrap_or_else(|| {
                            reasons.push(reason);
                            reasons.len() - 1
                        });
                        format!("- [{}]", index + 1)
                    }
                });
            }
            rows.push(texts);
        }
        (rows, reasons)
    }

    /// Notes and numbered reasons, one an entry, each on one line whatever a library said.
    fn footnotes(&self, reasons: &[&str]) -> Vec<String> {
        let one_line = |reason: &str| reason.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let reasons = reasons.iter().enumerate().map(|(index, reason)| format!("[{}] {}", index + 1, one_line(reason)));
        self.notes.iter().cloned().chain(reasons).collect()
    }

    /// For the terminal: columns padded, words left and numbers right.
    #[must_use]
    pub fn text(&self) -> String {
        let (rows, reasons) = self.texts();
        let titles: Vec<String> = self.columns.iter().map(|column| column.title.clone()).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| std::iter::once(&titles).chain(&rows).map(|row| row[at].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        if !self.caption.is_empty() {
            let _ = writeln!(text, "{}\n", self.caption);
        }
        for row in std::iter::once(&titles).chain(&rows) {
            let mut line = String::new();
            for ((cell, column), &width) in row.iter().zip(&self.columns).zip(&widths) {
                let gap = if line.is_empty() { "" } else { "  " };
                let _ = match column.align {
                    Align::Left => write!(line, "{gap}{cell:<width$}"),
                    Align::Right => write!(line, "{gap}{cell:>width$}"),
                };
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        for note in self.footnotes(&reasons) {
            let _ = writeln!(text, "  {note}");
        }
        text
    }

    /// For a document: a table of GitHub's Markdown, caption in bold, notes as a list.
    #[must_use]
    pub fn markdown(&self) -> String {
        let (rows, reasons) = self.texts();
        let safe = |text: &str| text.replace('|', "\\|").replace(['\n', '\r'], " ");
        let mut text = String::new();
        if !self.caption.is_empty() {
            let _ = writeln!(text, "**{}**\n", safe(&self.caption));
        }
        let titles: Vec<String> = self.columns.iter().map(|column| safe(&column.title)).collect();
        let _ = writeln!(text, "| {} |", titles.join(" | "));
        let rules: Vec<&str> =
            self.columns.iter().map(|column| if column.align == Align::Right { "---:" } else { "---" }).collect();
        let _ = writeln!(text, "|{}|", rules.join("|"));
        for row in &rows {
            let cells: Vec<String> = row.iter().map(|cell| safe(cell)).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        let footnotes = self.footnotes(&reasons);
        if !footnotes.is_empty() {
            text.push('\n');
        }
        for note in footnotes {
            let _ = writeln!(text, "- {}", safe(&note));
        }
        text
    }

    /// For a [`Page`](super::Page).
    pub(super) fn html(&self) -> String {
        let (rows, reasons) = self.texts();
        let mut html = String::from("<table>\n");
        if !self.caption.is_empty() {
            let _ = writeln!(html, "<caption>{}</caption>", escape(&self.caption));
        }
        let class = |column: &Column| if column.align == Align::Right { " class=\"number\"" } else { "" };
        html.push_str("<thead><tr>");
        for column in &self.columns {
            let _ = write!(html, "<th{}>{}</th>", class(column), escape(&column.title));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in &rows {
            html.push_str("<tr>");
            for (cell, column) in row.iter().zip(&self.columns) {
                let _ = write!(html, "<td{}>{}</td>", class(column), escape(cell));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table>\n");
        let footnotes = self.footnotes(&reasons);
        if !footnotes.is_empty() {
            html.push_str("<ul class=\"notes\">\n");
            for note in footnotes {
                let _ = writeln!(html, "<li>{}</li>", escape(&note));
            }
            html.push_str("</ul>\n");
        }
        html
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::well_formed;
    use proptest::prelude::*;

    fn sample() -> Table {
        let mut table = Table::new("Round trips").words("mechanism").numbers("median (us)");
        table.row(vec!["pipe".into(), 12.34.into()]);
        table.row(vec!["socket, Nagle".into(), Cell::Absent("no network".into())]);
        table.row(vec!["queue".into(), Cell::Absent("no network".into())]);
        table.note("one processor");
        table
    }

    #[test]
    fn in_the_terminal_numbers_stand_right_and_reasons_below() {
        assert_eq!(
            sample().text(),
            "Round trips\n\nmechanism      median (us)\npipe                  12.3\nsocket, Nagle        - [1]\n\
             queue                - [1]\n  one processor\n  [1] no network\n"
        );
    }

    #[test]
    fn markdown_keeps_bars_within_their_cells() {
        let mut table = Table::new("").words("a|b");
        table.row(vec!["x|y\nz".into()]);
        assert_eq!(table.markdown(), "| a\\|b |\n|---|\n| x\\|y z |\n");
        table.row(vec![Cell::Absent("error stack:\n  at line 1".into())]);
        assert!(table.markdown().contains("[1] error stack: at line 1"), "{}", table.markdown());
        assert!(sample().markdown().contains("|---|---:|\n| pipe | 12.3 |\n"));
    }

    #[test]
    #[should_panic(expected = "a cell for every column")]
    fn a_row_that_does_not_fit_is_a_mistake() {
        sample().row(vec!["alone".into()]);
    }

    proptest! {
        #[test]
        fn any_text_gives_well_formed_html(caption in ".*", title in ".*", cell in ".*", reason in ".*") {
            let mut table = Table::new(caption).words(title).numbers("n");
            table.row(vec![cell.into(), Cell::Absent(reason)]);
            well_formed::check(&table.html());
        }
    }
}
