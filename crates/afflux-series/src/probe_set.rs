//! A set as the user describes it: points patch by patch, variables, cadence, and what to do about points with too many or no
//! owners.

use crate::{GridBlock, LocalPoints, Point, PointGrid, Variable};

/// What happens when several ranks (or several patches of one) register the same point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// Opening fails and names the points.
    #[default]
    Refuse,
    /// The lowest rank keeps the point (a point on a face shared by subdomains, say), the others' values of it are not
    /// written; a warning names the points.
    LowestRank,
}

/// What happens when a point that is expected is registered by no rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Orphans {
    /// Opening fails and names the points.
    #[default]
    Refuse,
    /// The point stands in the file with fill values; a warning names it.
    Fill,
}

/// Points with common variables and a common cadence, as one rank sees them.
#[derive(Debug, Clone)]
pub struct ProbeSet {
    pub(crate) name: String,
    pub(crate) points: LocalPoints,
    pub(crate) variables: Vec<Variable>,
    pub(crate) cadence_steps: u64,
    pub(crate) duplicates: Duplicates,
    pub(crate) expected: LocalPoints,
    pub(crate) orphans: Orphans,
}

impl ProbeSet {
    /// A set; the one named `""` lives in the file's root, any other in a group of its name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            points: LocalPoints::new(),
            variables: Vec::new(),
            cadence_steps: 1,
            duplicates: Duplicates::default(),
            expected: LocalPoints::new(),
            orphans: Orphans::default(),
        }
    }

    /// Adds this rank's points. Each call is a patch: rows may be appended for the whole rank or patch by patch.
    #[must_use]
    pub fn points(mut self, points: impl IntoIterator<Item = Point>) -> Self {
        self.points = self.points.points(points);
        self
    }

    /// Adds a box of a grid as a patch of this rank's points: for millions of points, which are then never listed.
    #[must_use]
    pub fn grid(mut self, block: impl Into<GridBlock>) -> Self {
        self.points = self.points.grid(block);
        self
    }

    /// Adds a variable; all ranks give the same ones in the same order.
    #[must_use]
    pub fn variable(mut self, variable: Variable) -> Self {
        self.variables.push(variable);
        self
    }

    /// A row is due at every step that is a multiple of `steps` (1 unless set).
    #[must_use]
    pub fn every(mut self, steps: u64) -> Self {
        self.cadence_steps = steps;
        self
    }

    /// What to do about points with several owners.
    #[must_use]
    pub fn duplicates(mut self, policy: Duplicates) -> Self {
        self.duplicates = policy;
        self
    }

    /// The points that the set must have in all, whoever registers them, and what to do about those that nobody registers (outside the
    /// domain, say). Only rank 0's list counts.
    #[must_use]
    pub fn expected(mut self, points: impl IntoIterator<Item = Point>, orphans: Orphans) -> Self {
        self.expected = LocalPoints::from(points);
        self.orphans = orphans;
        self
    }

    /// As [`ProbeSet::expected`] for all points of a grid.
    #[must_use]
    pub fn expected_grid(mut self, grid: PointGrid, orphans: Orphans) -> Self {
        self.expected = LocalPoints::new().grid(grid);
        self.orphans = orphans;
        self
    }
}
