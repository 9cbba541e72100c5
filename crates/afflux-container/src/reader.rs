//! Reading a file of this crate: what is sealed, and whether it is whole.
//!
//! [`SeriesFile`] shows sealed steps and only those: rows whose step is at most the watermark of the file's seal. It opens a
//! file as it is at that moment, also while a writer is at work; open it again to see later seals (and drop the older
//! `SeriesFile` first: within one process HDF5 shares what it knows of a file between all who have it open). Nothing in the
//! file is trusted: types and shapes are checked against the format before a byte of a sample is read, damage ends in an error
//! or in a finding of [`SeriesFile::verify`], never in a panic.
//!
//! What this module relies on beyond the datasets of the format:
//! - Order of the sets (the checksums are seeded with it): creation order of the links of the root group; the root's own set
//!   stands where its first dataset does. The attribute `sets` of the group `afflux` (variable-length strings) says the same to
//!   other readers; we do not read it, see `heap`.
//! - Variables of a set are its datasets of two or three dimensions, in creation order of their links.
//! - `cadence_steps`: attribute (integer) of `step`, optional; else the cadence is guessed from the first rows.
//!
//! Sets are addressed by their index in [`SeriesFile::sets`], variables by that in [`SetInfo::variables`], points by their
//! position (file order), rows by half-open ranges.

mod anatomy;
mod block;
mod error;
mod groups;
mod heap;
mod layout;
mod raw;
mod seal;
mod tail;
mod verify;

pub(crate) use anatomy::{Anatomy, TableAnatomy};
pub use block::Block;
pub use error::ReadError;
pub use groups::{GroupInfo, listed_groups};
pub use layout::{FORMAT_VERSION, SetInfo, VariableInfo};
pub use seal::{SEAL_WORDS, SealState, slot_checksum};
pub(crate) use tail::fault as column_fault;
pub use verify::{Fault, Finding, Verification, VerifyProgress};

use crate::PointTable;
use afflux_storage::{OpenMode, Storage, StorageFile};
use groups::Members;
use layout::OpenSet;
use raw::{Checked, RawFile};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tail::Tails;

/// Attempts to open a file whose metadata does not hold together while somebody writes it, or whose seal moves on meanwhile.
const OPEN_ATTEMPTS: u32 = 5;
const OPEN_PAUSE: Duration = Duration::from_millis(5);
/// A file changed this recently may have a writer.
const RECENT: Duration = Duration::from_secs(2);

/// An Afflux file, open for reading.
#[derive(Debug)]
pub struct SeriesFile {
    file: RawFile,
    state: SealState,
    sets: Vec<SetInfo>,
    open_sets: Vec<OpenSet>,
    seal: Checked,
    checksums: Checked,
    tails: Tails,
    /// The files of the groups, where a master was opened; all else here is then the first group's, but for what is cut to the
    /// smallest watermark and counted over all.
    members: Option<Members>,
}

impl SeriesFile {
    /// Opens a file as it is now; takes no lock and changes nothing.
    ///
    /// # Errors
    /// [`ReadError::Open`], [`ReadError::NotHdf5`], [`ReadError::NotAfflux`], [`ReadError::Version`] or
    /// [`ReadError::Damaged`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let path = path.as_ref();
        let mut result = Self::open_once(path);
        for _ in 1..OPEN_ATTEMPTS {
            match &result {
                Err(error) if error.is_damage() && changed_recently(path) => {}
                Ok(file) if file.tails.overtaken => {}
                _ => break,
            }
            std::thread::sleep(OPEN_PAUSE);
            // The file first goes, since HDF5 would share what it knows of it.
            drop(result);
            result = Self::open_once(path);
        }
        result
    }

    /// Opens a file of any storage as it is now. Other than [`SeriesFile::open`] it makes one attempt, so it is for files that
    /// nobody writes at the moment.
    ///
    /// # Errors
    /// As [`SeriesFile::open`].
    pub fn open_in(storage: &dyn Storage, path: &Path) -> Result<Self, ReadError> {
        let opened = storage.open(path, OpenMode::Read);
        Self::over(opened.map_err(|source| ReadError::Open { path: path.into(), source })?, path)
    }

    /// Opens a file that is open already and that nobody else writes; `path` is for messages.
    pub(crate) fn over(file: Arc<dyn StorageFile>, path: &Path) -> Result<Self, ReadError> {
        Self::learn(RawFile::over(file, path)?)
    }

    fn open_once(path: &Path) -> Result<Self, ReadError> {
        let file = RawFile::open(path)?;
        match groups::listed(&file)? {
            None => Self::learn(file),
            Some(paths) => Members::open(&file, &paths),
        }
    }

    fn learn(mut file: RawFile) -> Result<Self, ReadError> {
        // The seal first: what it promises is in the file before it, so the datasets opened after it have those rows.
        let (state, seal, checksums) = layout::read_seal(&file)?;
        file.live &= !state.closed;
        let (mut sets, mut open_sets) = (Vec::new(), Vec::new());
        for name in layout::set_names(&file)? {
            let (info, open) = layout::open_set(&file, &state, &name)?;
            sets.push(info);
            open_sets.push(open);
        }
        let tails = Tails::read(&file, &seal, &state, &checksums, &sets);
        Ok(Self { file, state, sets, open_sets, seal, checksums, tails, members: None })
    }

    /// The seal as it was when the file was opened.
    #[must_use]
    pub fn state(&self) -> &SealState {
        &self.state
    }

    /// The sets in file order.
    #[must_use]
    pub fn sets(&self) -> &[SetInfo] {
        &self.sets
    }

    /// Length of the file in bytes when it was opened.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file.bytes
    }

    /// The global attributes that are texts of fixed length (all that the writer makes), by name.
    #[must_use]
    pub fn attributes(&self) -> Vec<(String, String)> {
        let names = self.file.root.attr_names().unwrap_or_default();
        let text = |name: String| self.file.text_attribute(&self.file.root, &name).map(|text| (name, text));
        names.into_iter().filter_map(text).collect()
    }

    /// Index of a set by name (`""` for the default set).
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`] with the names there are.
    pub fn set_index(&self, name: &str) -> Result<usize, ReadError> {
        self.sets.iter().position(|set| set.name == name).ok_or_else(|| {
            let names = self.sets.iter().map(|set| format!("{:?}", set.name));
            out_of_range("set", format!("{name:?}"), listed(names))
        })
    }

    /// Index of a variable of a set by name.
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`] with the names there are.
    pub fn variable_index(&self, set: usize, name: &str) -> Result<usize, ReadError> {
        let info = self.set(set)?;
        info.variable_index(name).ok_or_else(|| {
            let names = info.variables.iter().map(|variable| variable.spec.name.clone());
            out_of_range("variable", name.into(), listed(names))
        })
    }

    /// The points of a set; read when first asked for.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] where they cannot be read or their ids do not ascend; [`ReadError::OutOfRange`].
    pub fn points(&self, set: usize) -> Result<&PointTable, ReadError> {
        let points = self.set(set)?.points;
        if let Some(members) = &self.members {
            return Ok(&members.merged(set)?.table);
        }
        let open = &self.open_sets[set];
        if let Some(table) = open.points.get() {
            return Ok(table);
        }
        let table = layout::read_points(&self.file, open, points)?;
        Ok(open.points.get_or_init(|| table))
    }

    /// Position of the point with this id.
    ///
    /// # Errors
    /// As [`SeriesFile::points`], and [`ReadError::OutOfRange`] for an id that is not there.
    pub fn position(&self, set: usize, id: i64) -> Result<u64, ReadError> {
        let table = self.points(set)?;
        let position = table.ids.binary_search(&id).map_err(|_| {
            let available = match (table.ids.first(), table.ids.last()) {
                (Some(first), Some(last)) => format!("{} ids from {first} to {last}", table.len()),
                _ => "none".into(),
            };
            out_of_range("point with id", id.to_string(), available)
        })?;
        Ok(position as u64)
    }

    /// Position of the point with this name.
    ///
    /// # Errors
    /// As [`SeriesFile::points`], and [`ReadError::OutOfRange`] for a name that is not there.
    pub fn position_by_name(&self, set: usize, name: &str) -> Result<u64, ReadError> {
        let table = self.points(set)?;
        let position = table.names.iter().position(|other| other == name).ok_or_else(|| {
            out_of_range("point named", format!("{name:?}"), listed(table.names.iter().map(|name| format!("{name:?}"))))
        })?;
        Ok(position as u64)
    }

    /// Steps of sealed rows.
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`] past the sealed rows; [`ReadError::Damaged`].
    pub fn steps(&self, set: usize, rows: Range<u64>) -> Result<Vec<i64>, ReadError> {
        self.check_rows(set, &rows)?;
        self.file.read_line(&self.open_sets[set].step, rows)
    }

    /// Times of sealed rows, in [`SetInfo::time_units`].
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`] past the sealed rows; [`ReadError::Damaged`].
    pub fn times(&self, set: usize, rows: Range<u64>) -> Result<Vec<f64>, ReadError> {
        self.check_rows(set, &rows)?;
        self.file.read_line(&self.open_sets[set].time, rows)
    }

    /// The series of one point: sealed rows of one component, as `f64` (integers past 2^53 are rounded). One contiguous read
    /// for each column of chunks.
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`] for what the file does not have (`component` is 0 where there is no such dimension);
    /// [`ReadError::Damaged`].
    pub fn series(
        &self,
        set: usize,
        variable: usize,
        position: u64,
        component: u32,
        rows: Range<u64>,
    ) -> Result<Vec<f64>, ReadError> {
        self.check_box(set, variable, &(position..position.saturating_add(1)), &rows)?;
        let components = self.sets[set].variables[variable].spec.components;
        if component >= components.unwrap_or(1) {
            let available = components.map_or_else(|| "no components".into(), |count| format!("{count}"));
            return Err(out_of_range("component", component.to_string(), available));
        }
        if let Some(members) = &self.members {
            let (member, position) = members.place(set, position)?;
            return member.series(set, variable, position, component, rows);
        }
        let component = u64::from(component);
        let ranges = ranges(components.map(|_| component..component + 1), position..position + 1, rows);
        self.file.read::<f64>(&self.open_sets[set].variables[variable], &ranges)
    }

    /// Values of a box of points and sealed rows in the file's own type, indexed by (point, component, row). The whole box is
    /// in memory; the caller chooses how large that is.
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`]; [`ReadError::Damaged`]; [`ReadError::Memory`].
    pub fn block(
        &self,
        set: usize,
        variable: usize,
        positions: Range<u64>,
        rows: Range<u64>,
    ) -> Result<Block, ReadError> {
        self.check_box(set, variable, &positions, &rows)?;
        let spec = &self.sets[set].variables[variable].spec;
        if let Some(members) = &self.members {
            return members.block(set, variable, spec.element, positions, &rows);
        }
        let ranges = ranges(spec.components.map(|components| 0..u64::from(components)), positions, rows);
        Block::read(&self.file, &self.open_sets[set].variables[variable], spec.element, &ranges)
    }

    /// Reads every sealed byte once and reports what is not as it was sealed. Memory stays bounded whatever the file's size.
    /// `progress` is called after every column of chunks.
    pub fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Verification {
        match &self.members {
            Some(members) => members.verify(progress),
            None => verify::Verifier::new(self).run(progress),
        }
    }

    /// The files of the groups, where this is a master; none for any other file.
    #[must_use]
    pub fn groups(&self) -> Vec<GroupInfo> {
        self.members.as_ref().map_or_else(Vec::new, Members::describe)
    }

    fn set(&self, set: usize) -> Result<&SetInfo, ReadError> {
        self.sets.get(set).ok_or_else(|| out_of_range("set", set.to_string(), format!("{}", self.sets.len())))
    }

    fn check_rows(&self, set: usize, rows: &Range<u64>) -> Result<(), ReadError> {
        let sealed = self.set(set)?.rows_sealed;
        if rows.start > rows.end || rows.end > sealed {
            return Err(out_of_range("rows", format!("{rows:?}"), format!("{sealed} sealed rows")));
        }
        Ok(())
    }

    fn check_box(
        &self,
        set: usize,
        variable: usize,
        positions: &Range<u64>,
        rows: &Range<u64>,
    ) -> Result<(), ReadError> {
        self.check_rows(set, rows)?;
        let info = &self.sets[set];
        if variable >= info.variables.len() {
            return Err(out_of_range("variable", variable.to_string(), format!("{}", info.variables.len())));
        }
        if positions.start > positions.end || positions.end > info.points {
            return Err(out_of_range("points", format!("{positions:?}"), format!("{} points", info.points)));
        }
        Ok(())
    }
}

/// The selection of a variable's dataset: (point[, component], row).
fn ranges(components: Option<Range<u64>>, positions: Range<u64>, rows: Range<u64>) -> Vec<Range<u64>> {
    [Some(positions), components, Some(rows)].into_iter().flatten().collect()
}

fn out_of_range(what: &'static str, asked: String, available: String) -> ReadError {
    ReadError::OutOfRange { what, asked, available }
}

/// The first few names, so that a message stays readable.
fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 12;
    let count = names.len();
    let mut text = names.take(SHOWN).collect::<Vec<_>>().join(", ");
    if count > SHOWN {
        text.push_str(&format!(", ... ({count} in all)"));
    }
    if count == 0 {
        text.push_str("none");
    }
    text
}

fn changed_recently(path: &Path) -> bool {
    let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| modified.elapsed().map_or(true, |age| age < RECENT))
}
