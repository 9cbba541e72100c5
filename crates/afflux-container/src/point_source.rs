//! Points as the container takes them: one after another in file order, so that millions need no table.
//!
//! A file is laid out with two passes over them: one checks and measures, one writes. Whoever has a regular grid makes each point up as it
//! is asked for; a [`PointTable`](crate::PointTable) has them all.

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::ControlFlow;

/// One point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointRow<'a> {
    /// Global id.
    pub id: i64,
    /// Coordinates x, y and z in the file's length units.
    pub at: [f64; 3],
    /// Name; `None` for the id in decimal.
    pub name: Option<&'a str>,
}

impl<'a> PointRow<'a> {
    /// The name as the file has it.
    #[must_use]
    pub fn label(&self) -> Cow<'a, str> {
        self.name.map_or_else(|| Cow::Owned(self.id.to_string()), Cow::Borrowed)
    }
}

/// The points of a set in file order (ascending id).
pub trait PointSource: Debug {
    /// Number of points.
    fn count(&self) -> u64;

    /// Shows every point to `see`, which may stop. Each pass shows the same points, [`PointSource::count`] of them.
    fn visit(&self, see: &mut dyn FnMut(PointRow<'_>) -> ControlFlow<()>);
}

/// Shows every point.
pub(crate) fn visit_all(points: &dyn PointSource, mut see: impl FnMut(PointRow<'_>)) {
    points.visit(&mut |row| {
        see(row);
        ControlFlow::Continue(())
    });
}

/// Shows points until one is at fault.
pub(crate) fn try_visit<E>(
    points: &dyn PointSource,
    mut see: impl FnMut(PointRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut outcome = Ok(());
    points.visit(&mut |row| match see(row) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            outcome = Err(error);
            ControlFlow::Break(())
        }
    });
    outcome
}
