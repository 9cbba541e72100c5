//! Reading the files of groups as one: what `SeriesFile` does where it was given a master.
//!
//! The master says which files there are; all else is read from them, so that nothing here depends on when the master was written.
//! Points stand in ascending id over all groups. Rows are cut at the smallest watermark.
//!
//! Invariant: the sets of all members are the same but for their points, and no id is in two of them (checked when points are merged).

use super::raw::RawFile;
use super::{Block, ReadError, SeriesFile, SetInfo, Verification, VerifyProgress};
use crate::blueprint::BOOKKEEPING;
use crate::master::{COUNT_ATTRIBUTE, file_attribute};
use crate::{ElementType, PointTable};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// More groups than any machine has nodes: a damaged count asks for no more.
const GROUPS_MAX: i64 = 1 << 20;

/// The file of one group, as it was when the master was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupInfo {
    /// The file.
    pub path: PathBuf,
    /// Its last sealed step.
    pub watermark: Option<u64>,
    /// Whether its last writer closed it in good order.
    pub closed: bool,
    /// Its length in bytes.
    pub file_bytes: u64,
    /// Points of each set.
    pub points: Vec<u64>,
}

/// The files of a master's groups, in order; `None` where the file is no master.
///
/// # Errors
/// Those of opening a file: [`ReadError::Open`], [`ReadError::NotHdf5`], [`ReadError::Damaged`].
pub fn listed_groups(master: &Path) -> Result<Option<Vec<PathBuf>>, ReadError> {
    listed(&RawFile::open(master)?)
}

/// The same for an open file.
pub(super) fn listed(file: &RawFile) -> Result<Option<Vec<PathBuf>>, ReadError> {
    let Ok(bookkeeping) = file.root.group(BOOKKEEPING) else { return Ok(None) };
    let Some(count) = file.integer_attribute(&bookkeeping, COUNT_ATTRIBUTE) else { return Ok(None) };
    if !(1..=GROUPS_MAX).contains(&count) {
        return Err(file.damaged(format!("it is a master of {count} groups")));
    }
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let path = |group| match file.text_attribute(&bookkeeping, &file_attribute(group)) {
        Some(name) => Ok(folder.join(name)),
        None => Err(file.damaged(format!("the master does not name the file of group {group}"))),
    };
    (0..count.unsigned_abs()).map(path).collect::<Result<_, _>>().map(Some)
}

/// The points of a set over all groups.
#[derive(Debug)]
pub(super) struct Merged {
    pub table: PointTable,
    /// Of each position the group and the position in its file.
    places: Vec<(usize, u64)>,
}

/// The files of the groups.
#[derive(Debug)]
pub(super) struct Members {
    files: Vec<SeriesFile>,
    /// Merged when first asked for, by set.
    merged: Vec<OnceLock<Merged>>,
}

impl Members {
    /// Opens what a master lists, as one file.
    pub fn open(master: &RawFile, paths: &[PathBuf]) -> Result<SeriesFile, ReadError> {
        let learn = |path: &PathBuf| SeriesFile::learn(RawFile::open(path)?);
        let [first, ..] = paths else { return Err(master.damaged("it lists no group")) };
        let mut whole = learn(first)?;
        let files = paths.iter().map(learn).collect::<Result<Vec<_>, _>>()?;
        for (file, path) in files.iter().zip(paths) {
            if let Some(difference) = different_sets(&whole.sets, &file.sets) {
                let what = format!("the group's file {} has {difference}", path.display());
                return Err(master.damaged(what));
            }
        }
        // `whole` was opened first, so it may know less of the first group than the members do.
        let watermarks = || files.iter().map(|file| file.state.watermark).chain([whole.state.watermark]);
        whole.state.watermark = watermarks().min().flatten();
        whole.state.closed = files.iter().all(|file| file.state.closed);
        for (index, set) in whole.sets.iter_mut().enumerate() {
            let each = || files.iter().map(move |file| &file.sets[index]);
            set.points = each().map(|set| set.points).sum();
            set.rows_on_disk = each().map(|set| set.rows_on_disk).fold(set.rows_on_disk, u64::max);
            if let Some(shortest) = each().min_by_key(|set| set.rows_sealed)
                && shortest.rows_sealed < set.rows_sealed
            {
                set.rows_sealed = shortest.rows_sealed;
                set.steps_sealed = shortest.steps_sealed;
            }
        }
        whole.tails.overtaken = files.iter().any(|file| file.tails.overtaken);
        whole.file.bytes = files.iter().map(|file| file.file.bytes).sum::<u64>() + master.bytes;
        let merged = whole.sets.iter().map(|_| OnceLock::new()).collect();
        whole.members = Some(Self { files, merged });
        Ok(whole)
    }

    /// The points of a set in ascending id.
    pub fn merged(&self, set: usize) -> Result<&Merged, ReadError> {
        let lock = &self.merged[set];
        if let Some(merged) = lock.get() {
            return Ok(merged);
        }
        let tables = self.files.iter().map(|file| file.points(set)).collect::<Result<Vec<_>, _>>()?;
        let mut order: Vec<(i64, usize, usize)> = Vec::new();
        for (group, table) in tables.iter().enumerate() {
            order.extend(table.ids.iter().enumerate().map(|(position, &id)| (id, group, position)));
        }
        order.sort_unstable();
        if let Some(pair) = order.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let path = |group: usize| self.files[group].file.path.display();
            let what = format!("point {} is in {} as well", pair[0].0, path(pair[0].1));
            return Err(self.files[pair[1].1].file.damaged(what));
        }
        let mut merged = Merged { table: PointTable::default(), places: Vec::with_capacity(order.len()) };
        for (id, group, position) in order {
            let from = tables[group];
            merged.table.ids.push(id);
            merged.table.x.push(from.x[position]);
            merged.table.y.push(from.y[position]);
            merged.table.z.push(from.z[position]);
            merged.table.names.push(from.names[position].clone());
            merged.places.push((group, position as u64));
        }
        Ok(lock.get_or_init(|| merged))
    }

    /// The file that has a point, and its position there.
    pub fn place(&self, set: usize, position: u64) -> Result<(&SeriesFile, u64), ReadError> {
        let (group, position) = self.places(set, position..position + 1)?[0];
        Ok((&self.files[group], position))
    }

    /// As [`SeriesFile::block`], of a box that was checked.
    pub fn block(
        &self,
        set: usize,
        variable: usize,
        element: ElementType,
        positions: Range<u64>,
        rows: &Range<u64>,
    ) -> Result<Block, ReadError> {
        let mut all = Block::empty(element);
        let places = self.places(set, positions)?;
        for stretch in places.chunk_by(|left, right| left.0 == right.0 && left.1 + 1 == right.1) {
            let (group, first) = stretch[0];
            let file = &self.files[group];
            let part = file.block(set, variable, first..first + stretch.len() as u64, rows.clone())?;
            all.append(part).ok_or_else(|| file.file.damaged("a variable changed its type"))?;
        }
        Ok(all)
    }

    /// Groups and positions of points that were checked to be there.
    fn places(&self, set: usize, positions: Range<u64>) -> Result<&[(usize, u64)], ReadError> {
        let places = &self.merged(set)?.places;
        let index = |position| usize::try_from(position).unwrap_or(usize::MAX);
        let range = index(positions.start)..index(positions.end);
        places.get(range).ok_or_else(|| self.files[0].file.damaged("the groups have fewer points than they say"))
    }

    /// Verifies every file, and that no point is in two of them.
    pub fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Verification {
        let columns = self.files.iter().flat_map(|file| &file.sets).map(SetInfo::columns_sealed).sum();
        let mut done = 0;
        let mut all = Verification::default();
        for file in &self.files {
            let mut one = file.verify(&mut |at| {
                progress(VerifyProgress { columns_done: done + at.columns_done, columns });
            });
            done += file.sets.iter().map(SetInfo::columns_sealed).sum::<u64>();
            for finding in &mut one.findings {
                finding.file = Some(file.file.path.clone());
            }
            all.add(one);
        }
        for set in 0..self.merged.len() {
            if let Err(error) = self.merged(set) {
                all.add(Verification::unreadable(error.to_string()));
            }
        }
        all
    }

    /// What each group has.
    pub fn describe(&self) -> Vec<GroupInfo> {
        let info = |file: &SeriesFile| GroupInfo {
            path: file.file.path.clone(),
            watermark: file.state.watermark,
            closed: file.state.closed,
            file_bytes: file.file.bytes,
            points: file.sets.iter().map(|set| set.points).collect(),
        };
        self.files.iter().map(info).collect()
    }
}

/// The first difference between the sets of two groups, which may only have other points.
fn different_sets(left: &[SetInfo], right: &[SetInfo]) -> Option<String> {
    if left.len() != right.len() {
        return Some(format!("{} sets where the first group has {}", right.len(), left.len()));
    }
    left.iter().zip(right).find_map(|(left, right)| {
        let specs = |set: &SetInfo| set.variables.iter().map(|variable| variable.spec.clone()).collect::<Vec<_>>();
        let units = |set: &SetInfo| (set.time_units.clone(), set.length_units.clone());
        if left.name != right.name {
            Some(format!("the set {:?} where the first group has {:?}", right.name, left.name))
        } else if specs(left) != specs(right) {
            Some(format!("other variables in the set {:?} than the first group", right.name))
        } else if left.chunk_steps != right.chunk_steps || units(left) != units(right) {
            Some(format!("other units or columns in the set {:?} than the first group", right.name))
        } else {
            None
        }
    })
}
