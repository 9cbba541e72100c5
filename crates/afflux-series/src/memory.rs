//! How much memory a writer can come to take: stated before the run, part by part, and refused where it is too much.
//!
//! Answers for: an upper bound of what a rank allocates between the opening of its writer and the end of its run, whatever the number
//! of steps. What the program had before (its own code, MPI, the points it hands over) is not in it. Bounds of what others
//! allocate are their own words: two collective buffers (`afflux-collective`), HDF5's cache of metadata.

use std::fmt;

use afflux_collective::Path;

use crate::buffer::HUGE_PAGE_BYTES;
use crate::builder::{Existing, SeriesBuilder};
use crate::job::STRETCH_BYTES;
use crate::local_points::Patch;
use crate::registry::Piece;
use crate::{OpenError, ProbeSet};

/// HDF5's cache of metadata by its own default limit, its library's other state, and the container's tables.
const CONTAINER_BYTES: u64 = 40 << 20;

/// What rank 0 takes while it opens a file, however many points there are: the file, or the pieces of it that are on their way.
const OPENING_BYTES: u64 = 8 << 20;

/// What rank 0 takes in addition for each point of any rank that comes in a list: the message, key, coordinates, shares.
/// (`tests/opening_memory.rs` counts 120 bytes a point, what the rank keeps of its own included; 470 with names of 42 bytes.)
const REGISTRATION_BYTES_PER_LISTED_POINT: u64 = 192;

/// What rank 0 takes for each name besides four times its text: entries of ordered maps, a hash.
const REGISTRATION_BYTES_PER_NAME: u64 = 256;

/// What rank 0 takes for each patch of any rank: the ids of a box of a grid are a few words.
const REGISTRATION_BYTES_PER_PATCH: u64 = 1 << 10;

/// What rank 0 takes for each point of a file that it resumes, whose table it reads, or that HDF5 has to lay out; twice each name's text
/// comes on top.
const TABLE_BYTES_PER_POINT: u64 = 288;

/// A text of the user's from which on HDF5 has to lay out the file: a message of its format is shorter than 64 KiB.
const LONG_TEXT_BYTES_MIN: usize = 60 << 10;

/// What the patches of all ranks amount to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RegistrationLoad {
    patches: u64,
    points: u64,
    listed_points: u64,
    names: u64,
    name_bytes: u64,
}

impl RegistrationLoad {
    pub fn of<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> Self {
        let mut load = Self::default();
        for piece in pieces {
            let (name_bytes, names) = piece.names();
            load.patches += 1;
            load.points = load.points.saturating_add(piece.points());
            load.listed_points += piece.listed_points();
            load.names += names;
            load.name_bytes += name_bytes;
        }
        load
    }

    /// Bytes that rank 0 takes for them while it opens the file; `has_tables` where it has the points in tables as well.
    fn bytes(self, has_tables: bool) -> u64 {
        let tables = if has_tables { self.points } else { 0 };
        let parts = [
            (self.patches, REGISTRATION_BYTES_PER_PATCH),
            (self.listed_points, REGISTRATION_BYTES_PER_LISTED_POINT),
            (self.names, REGISTRATION_BYTES_PER_NAME),
            (self.name_bytes, if has_tables { 6 } else { 4 }),
            (tables, TABLE_BYTES_PER_POINT),
        ];
        parts.iter().fold(OPENING_BYTES, |sum, &(count, bytes)| sum.saturating_add(count.saturating_mul(bytes)))
    }
}

/// What a rank keeps of each point that comes in a list: its id, place and position, and its block of the directory, and of
/// registration's messages for a while.
const LISTED_POINT_BYTES: u64 = 160;

/// What a rank keeps of a box of a grid, whatever its size.
const BOX_BYTES: u64 = 4 << 10;

/// A row's step and time.
const SCALE_BYTES: u64 = 16;

/// The most memory that a writer takes on one rank, in bytes, part by part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryBound {
    /// The windows: two of them with flushes in the background, each with the rows of an unfinished column.
    pub windows_bytes: u64,
    /// What is kept of the points.
    pub points_bytes: u64,
    /// Blocks on their way to the file: of a whole window where aggregators write, else of a stretch.
    pub staging_bytes: u64,
    /// The collective buffers, where aggregators write.
    pub collective_bytes: u64,
    /// On rank 0: registration of the points and the pieces of the new file on their way, while it opens. Boxes of grids take nothing by
    /// the point (but where a file is resumed: its table of points is read).
    pub registration_bytes: u64,
    /// On rank 0: HDF5 and the tables of the file's structure.
    pub container_bytes: u64,
    /// How much of the staging only an exchange needs.
    exchanged_bytes: u64,
}

impl MemoryBound {
    /// All parts together.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.parts().iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    fn parts(&self) -> [(&'static str, u64); 6] {
        [
            ("windows", self.windows_bytes),
            ("points", self.points_bytes),
            ("blocks on their way to the file", self.staging_bytes),
            ("collective buffers", self.collective_bytes),
            ("registration", self.registration_bytes),
            ("the file's structure", self.container_bytes),
        ]
    }

    /// What rank 0 takes in addition.
    fn with_root(self, registration_bytes: u64) -> Self {
        Self { registration_bytes, container_bytes: CONTAINER_BYTES, ..self }
    }

    /// The bound once it is known how windows reach the file.
    pub(crate) fn of_path(self, path: Path) -> Self {
        if path != Path::Independent {
            return self;
        }
        Self {
            staging_bytes: self.staging_bytes - self.exchanged_bytes,
            collective_bytes: 0,
            exchanged_bytes: 0,
            ..self
        }
    }
}

/// The total and its parts in MiB, those of nothing left out.
impl fmt::Display for MemoryBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(f, "{:.1} MiB", mib(self.total_bytes()))?;
        let mut separator = " (";
        for (name, bytes) in self.parts().into_iter().filter(|&(_, bytes)| bytes > 0) {
            write!(f, "{separator}{name} {:.1}", mib(bytes))?;
            separator = ", ";
        }
        f.write_str(if separator == " (" { "" } else { ")" })
    }
}

impl SeriesBuilder {
    /// The most memory that the writer of this description takes on a rank with these points, apart from what rank 0 takes in addition;
    /// [`SeriesWriter::memory_bound`](crate::SeriesWriter::memory_bound) has that too. Local; nothing is opened.
    #[must_use]
    pub fn memory_bound(&self) -> MemoryBound {
        self.bound_with_fills(|_| 0)
    }

    /// The bound on rank 0, where it registers `load` and fills `fills` points, by set.
    pub(crate) fn root_memory_bound(&self, load: RegistrationLoad, fills: &[u64]) -> MemoryBound {
        let has_long_text = self.attributes.iter().any(|(_, text)| text.len() >= LONG_TEXT_BYTES_MIN);
        let has_tables = has_long_text || matches!(self.existing, Existing::Resume(_));
        self.bound_with_fills(|set| fills[set]).with_root(load.bytes(has_tables))
    }

    fn bound_with_fills(&self, fills: impl Fn(usize) -> u64) -> MemoryBound {
        let mut bound = MemoryBound::default();
        let windows = if self.in_background { 2 } else { 1 };
        let (mut exchanged, mut read_back, mut block_max) = (0_u64, 0_u64, 0);
        for (index, set) in self.sets.iter().enumerate() {
            let given = set.points.patches.iter().map(|patch| patch.len() as u64).fold(0, u64::saturating_add);
            let points = given.saturating_add(fills(index));
            let row = point_bytes(set).saturating_mul(points).saturating_add(SCALE_BYTES);
            let rows = self.rows_max(set);
            let window = in_pages(rows.saturating_mul(row)).saturating_mul(windows);
            bound.windows_bytes = bound.windows_bytes.saturating_add(window);
            bound.points_bytes = bound.points_bytes.saturating_add(points_bytes(set));
            let columns = rows.div_ceil(self.chunk_steps.max(1));
            let column = self.chunk_steps.saturating_mul(row);
            exchanged = exchanged.saturating_add(columns.saturating_mul(column));
            read_back = read_back.saturating_add(column);
            block_max = block_max.max(self.block_bytes_max(set));
        }
        // Of a resumed file the unfinished column is read back, and one column at a time is compared or rewritten.
        let resumed = if matches!(self.existing, Existing::Resume(_)) { read_back.saturating_mul(2) } else { 0 };
        bound.staging_bytes = in_pages(block_max.max(STRETCH_BYTES as u64)).saturating_add(resumed);
        if self.path_choice != Some(Path::Independent) {
            bound.exchanged_bytes = in_pages(exchanged);
            bound.staging_bytes = bound.staging_bytes.saturating_add(bound.exchanged_bytes);
            // On several nodes each node gathers as much again before it goes on.
            bound.collective_bytes = self.hints.collective_buffer_bytes.get().saturating_mul(2);
        }
        bound
    }

    /// Rows that a window holds at most.
    fn rows_max(&self, set: &ProbeSet) -> u64 {
        // A description that has not been checked may say 0, and is refused when it is opened.
        self.chunk_steps.saturating_sub(1).saturating_add(self.window_steps.div_ceil(set.cadence_steps.max(1)))
    }

    fn block_bytes_max(&self, set: &ProbeSet) -> u64 {
        let widest = set.variables.iter().map(|variable| variable.spec.row_bytes() as u64).max().unwrap_or(0);
        widest.max(8).saturating_mul(self.chunk_steps)
    }

    /// Whether a rank with this bound may open the file.
    pub(crate) fn check_memory(&self, rank: usize, bound: MemoryBound) -> Result<(), OpenError> {
        match self.memory_limit_bytes {
            Some(limit_bytes) if bound.total_bytes() > limit_bytes => {
                Err(OpenError::Memory { rank, limit_bytes, bound })
            }
            _ => Ok(()),
        }
    }
}

/// What a buffer takes: large ones are whole huge pages.
fn in_pages(bytes: u64) -> u64 {
    let page = HUGE_PAGE_BYTES as u64;
    if bytes < page / 2 { bytes } else { bytes.div_ceil(page).saturating_mul(page) }
}

/// Bytes of one point's values in a row.
fn point_bytes(set: &ProbeSet) -> u64 {
    set.variables.iter().map(|variable| variable.spec.row_bytes() as u64).sum()
}

fn points_bytes(set: &ProbeSet) -> u64 {
    let patches = set.points.patches.iter().map(|patch| match patch {
        Patch::List(points) => {
            let names: usize = points.iter().filter_map(|point| point.name.as_ref()).map(|name| 2 * name.len()).sum();
            (points.len() as u64).saturating_mul(LISTED_POINT_BYTES).saturating_add(names as u64)
        }
        Patch::Grid(_) => BOX_BYTES,
    });
    patches.fold(BOX_BYTES, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Point, SeriesWriter, Variable};

    fn description(points: i64) -> SeriesBuilder {
        let list = (0..points).map(|id| Point::new(id, 0.0, 0.0, 0.0));
        SeriesWriter::at("run.nc").set(ProbeSet::new("").points(list).variable(Variable::f64("u"))).window_steps(100)
    }

    #[test]
    fn the_bound_has_a_window_more_in_the_background() {
        let two = description(100_000).memory_bound();
        let one = description(100_000).background(false).memory_bound();
        assert_eq!(two.windows_bytes, 2 * one.windows_bytes);
        // 149 rows of 800,000 bytes.
        assert!((119_200_000..122_000_000).contains(&one.windows_bytes), "{one}");
        assert_eq!(two.registration_bytes, 0, "rank 0's part comes on top");
        let root = two.with_root(12_345);
        assert_eq!(root.total_bytes() - two.total_bytes(), 12_345 + CONTAINER_BYTES);
    }

    #[test]
    fn the_direct_path_needs_no_room_for_an_exchange() {
        let direct = description(100_000).write_path(Path::Independent).memory_bound();
        assert_eq!(direct.collective_bytes, 0);
        assert!(direct.staging_bytes <= 4 << 20, "{direct}");
        assert!(description(100_000).memory_bound().staging_bytes > 100 << 20);
    }

    #[test]
    fn every_part_is_named() {
        let text = description(1_000).memory_bound().with_root(1_000).to_string();
        for part in ["MiB (windows", "points", "blocks", "collective buffers", "registration", "structure"] {
            assert!(text.contains(part), "`{part}` in: {text}");
        }
    }

    #[test]
    fn absurd_descriptions_saturate() {
        let bound = description(10).window_steps(u64::MAX).memory_bound();
        assert_eq!(bound.total_bytes(), u64::MAX);
        assert!(description(10).window_steps(0).chunk_steps(0).memory_bound().total_bytes() > 0);
    }
}
