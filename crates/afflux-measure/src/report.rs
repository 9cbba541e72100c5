//! Results for people: tables in the terminal and in Markdown, and one HTML page with pictures that needs nothing else.
//!
//! A benchmark makes [`Table`]s and charts ([`Bars`], [`Curves`], [`StackedBars`]) from its results and puts them on a [`Page`].
//! The page is one file: no script, no font, no picture comes from elsewhere, and its style sheet knows paper. Every picture can be
//! read without colours: lines have markers and dashes of their own, parts of a bar have their own filling.
//!
//! Nothing here measures or writes files; texts may hold any characters.

mod axis;
mod bars;
mod curves;
mod number;
mod page;
mod stacked;
mod svg;
mod table;
#[cfg(test)]
mod well_formed;

pub use axis::Axis;
pub use bars::{Bar, BarGroup, Bars};
pub use curves::{Curve, Curves};
pub use number::{bytes, count, seconds, significant};
pub use page::Page;
pub use stacked::{StackedBar, StackedBars};
pub use table::{Align, Cell, Column, Table};
