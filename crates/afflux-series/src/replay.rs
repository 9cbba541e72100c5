//! Replay: what becomes of rows that the file holds already, because a restarted solver computes their steps again.
//!
//! A rank replays from its first row after the resume up to the watermark, on its own: nothing here is collective (but
//! `settle`), and one rank may replay while others go on. By policy a row is skipped, compared with the file, or put in the
//! place of what the file has. For the last two the rank reads its own blocks of one column at a time, past everybody else, at
//! addresses that it got when the file was resumed: eight bytes a chunk. Rows of the unfinished column are in the window already.

mod chunk_map;
mod column;
mod settle;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use afflux_container::DatasetIndex;
use afflux_storage::{StorageFile, StorageFileExt};

use crate::builder::Replay;
use crate::error::Difference;
use crate::local_set::LocalSet;
use crate::resume::Sealed;
use crate::variable::value_text;
use crate::{AppendError, Step, Values};
pub(crate) use chunk_map::ChunkMap;
use column::{LoadedColumn, Spot};
use settle::Ledger;
pub(crate) use settle::Settlement;

/// What was found damaged of a set: to be written anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    /// The steps of each damaged column from which on it must be given again: from its first row, or, where a run was cut short that
    /// rewrote it, from the step where that began.
    columns: BTreeMap<u64, (Step, Step)>,
}

impl Damage {
    /// A damaged column with the rows of these steps; `rewriting_from` is the step from which on a run was rewriting.
    pub fn add(&mut self, column: u64, (first, last): (Step, Step), rewriting_from: Option<Step>) {
        let from = rewriting_from.filter(|step| (first..=last).contains(step)).unwrap_or(first);
        self.columns.insert(column, (from, last));
    }
}

/// One set of a file that was resumed.
#[derive(Debug)]
struct ReplayedSet {
    sealed: Sealed,
    map: ChunkMap,
    /// The column that the rows replayed last belong to.
    loaded: Option<LoadedColumn>,
    damage: Damage,
    /// Whether a row of it has been replayed.
    has_begun: bool,
}

/// Rows, or parts of them, as the caller gives them.
#[derive(Debug, Clone)]
pub(crate) struct GivenRow<'a> {
    pub step: Step,
    pub time: f64,
    /// A slice a variable, of the points at `places`.
    pub row: &'a [Values<'a>],
    pub places: Range<usize>,
}

/// A rank's view of a file that was resumed.
pub(crate) struct Replaying {
    policy: Replay,
    watermark: Step,
    file: Arc<dyn StorageFile>,
    sets: Vec<ReplayedSet>,
    /// How the checksums of columns have changed by this rank's rewriting, since the last flush.
    changes: BTreeMap<(usize, u64), u64>,
    /// Bytes of blocks written anew.
    pub rewritten_bytes: u64,
    /// What rank 0 knows of the checksums.
    ledger: Ledger,
}

impl Replaying {
    /// `sums` are the checksums of all columns as they are, on rank 0 and where they may change.
    pub fn new(
        policy: Replay,
        watermark: Step,
        sealed: Vec<Sealed>,
        file: Arc<dyn StorageFile>,
        maps: Vec<ChunkMap>,
        damages: Vec<Damage>,
        sums: Vec<Vec<u64>>,
    ) -> Self {
        let ledger = Ledger::new(sums, &damages);
        let sets = sealed.into_iter().zip(maps).zip(damages).map(|((sealed, map), damage)| ReplayedSet {
            sealed,
            map,
            loaded: None,
            damage,
            has_begun: false,
        });
        let sets = sets.collect();
        Self { policy, watermark, file, sets, changes: BTreeMap::new(), rewritten_bytes: 0, ledger }
    }

    /// Whether the run may go on with `step` as its first: no due row may be missing between the file and it, none may lie before
    /// the file's first, and no damaged row may be left out.
    pub fn check_first_step(&self, step: Step, sets: &[LocalSet]) -> Result<(), AppendError> {
        let watermark = self.watermark;
        for (local, replayed) in sets.iter().zip(&self.sets) {
            let set = || local.name.clone();
            let first = step.next_multiple_of(local.cadence_steps);
            let next = (watermark + 1).next_multiple_of(local.cadence_steps);
            if first > next {
                return Err(AppendError::ResumeHole { set: set(), step, watermark, due: next });
            }
            let begin = replayed.sealed.steps.map_or(next, |(first, _)| first);
            if first < begin {
                return Err(AppendError::BeforeFile { set: set(), step, due: first, begin });
            }
            let damaged = replayed.damage.columns.iter().next();
            let is_late = |from: Step| from.next_multiple_of(local.cadence_steps) < first;
            if let Some((&column, &(from, last))) = damaged.filter(|(_, steps)| is_late(steps.0)) {
                return Err(AppendError::Damaged { set: set(), step, column, first: from, last });
            }
        }
        Ok(())
    }

    /// A row of `step` (at most the watermark) or a patch's part of it; nothing of it has changed when an error is returned.
    pub fn row(&mut self, set: usize, local: &mut LocalSet, given: &GivenRow<'_>) -> Result<(), AppendError> {
        let (first_step, _) = self.sets[set].sealed.steps.expect("a row is due, so the file has one");
        let row = (given.step - first_step) / local.cadence_steps;
        if !self.sets[set].has_begun {
            self.check_time(set, local, row, given)?;
            self.sets[set].has_begun = true;
        }
        if self.policy == Replay::Skip {
            return Ok(());
        }
        let chunk_steps = local.layout.geometry.chunk_steps;
        if row >= local.window.first_row() {
            return self.row_in_window(local, row, given);
        }
        let (column, within) = (row / chunk_steps, index(row % chunk_steps));
        let failed = |source| AppendError::Replay { set: local.name.clone(), step: given.step, source };
        if self.sets[set].loaded.as_ref().is_none_or(|loaded| loaded.column() != column) {
            self.leave_column(set, local).map_err(failed)?;
            let loaded = LoadedColumn::load(&*self.file, &local.layout, set, column, &self.sets[set].map);
            self.sets[set].loaded = Some(loaded.map_err(failed)?);
        }
        let loaded = self.sets[set].loaded.as_mut().expect("loaded just now");
        if self.policy == Replay::Compare {
            let differing = spots(local, given).find(|spot| loaded.value(&local.layout, *spot, within) != spot.value);
            return differing.map_or(Ok(()), |spot| {
                Err(differs(local, given.step, spot, loaded.value(&local.layout, spot, within)))
            });
        }
        for spot in spots(local, given) {
            loaded.put(&local.layout, spot, within);
        }
        loaded.put_scale(&local.layout, within, given.step, given.time);
        Ok(())
    }

    fn row_in_window(&self, local: &mut LocalSet, row: u64, given: &GivenRow<'_>) -> Result<(), AppendError> {
        let within = index(row - local.window.first_row());
        if self.policy == Replay::Compare {
            for spot in spots(local, given) {
                let values = local.window.values(spot.variable, within, 1);
                let found = &values[spot.window_start..][..spot.value.len()];
                if found != spot.value {
                    return Err(differs(local, given.step, spot, found));
                }
            }
            return Ok(());
        }
        local.window.put_again(within, given.step, given.time);
        for (variable, values) in given.row.iter().enumerate() {
            let start = given.places.start * local.layout.variables[variable].row_bytes();
            let bytes = values.bytes();
            local.window.values_mut(variable, within)[start..start + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    /// The first row tells whether the solver counts its steps anew: then it stands later in time than the file does at that step. (An
    /// earlier time proves nothing, and times that differ by rounding are the same step.)
    fn check_time(&self, set: usize, local: &LocalSet, row: u64, given: &GivenRow<'_>) -> Result<(), AppendError> {
        let rows = self.sets[set].sealed.rows;
        let neighbour = if row + 1 < rows { row + 1 } else { row.saturating_sub(1) };
        let time = |row| self.time(set, local, row);
        let failed = |source| AppendError::Replay { set: local.name.clone(), step: given.step, source };
        let (in_file, beside) = (time(row).map_err(failed)?, time(neighbour).map_err(failed)?);
        let spacing = (beside - in_file).abs();
        if spacing > 0.0 && given.time > in_file + spacing / 2.0 {
            return Err(AppendError::CountsAnew {
                set: local.name.clone(),
                step: given.step,
                time: given.time,
                in_file,
                next: self.watermark + 1,
            });
        }
        Ok(())
    }

    /// The time of a sealed row.
    fn time(&self, set: usize, local: &LocalSet, row: u64) -> std::io::Result<f64> {
        if let Some(held) = row.checked_sub(local.window.first_row()) {
            return Ok(local.window.times()[index(held)]);
        }
        let chunk_steps = local.layout.geometry.chunk_steps;
        let offset = self.sets[set].map.time(row / chunk_steps) + 8 * (row % chunk_steps);
        let mut bytes = [0; 8];
        self.file.read_full_at(&mut bytes, offset)?;
        Ok(f64::from_le_bytes(bytes))
    }

    /// Writes what has changed of the loaded column; it stays loaded.
    fn write_back(&mut self, set: usize, local: &LocalSet) -> std::io::Result<()> {
        let replayed = &mut self.sets[set];
        let Some(loaded) = &mut replayed.loaded else { return Ok(()) };
        let written = loaded.write_back(&*self.file, &local.layout, &replayed.map)?;
        if written.bytes > 0 {
            let change = self.changes.entry((set, loaded.column())).or_default();
            *change = change.wrapping_add(written.change);
            self.rewritten_bytes += written.bytes;
        }
        Ok(())
    }

    /// Writes what has changed of the loaded column, and forgets it: the next row is of another column, or other owners' row.
    pub fn leave_column(&mut self, set: usize, local: &LocalSet) -> std::io::Result<()> {
        self.write_back(set, local)?;
        self.sets[set].loaded = None;
        Ok(())
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let of = |set: &ReplayedSet| set.map.bytes() + set.loaded.as_ref().map_or(0, LoadedColumn::bytes);
        self.sets.iter().map(of).sum()
    }
}

/// The values of a given row that this rank writes, one by one.
fn spots<'a>(local: &'a LocalSet, given: &'a GivenRow<'a>) -> impl Iterator<Item = Spot<'a>> + 'a {
    let layout = &local.layout;
    let start = given.places.start;
    let places = layout.holdings.places(0..layout.holdings.len());
    let owned = move || {
        (0..places.len())
            .map(move |ordinal| (ordinal, places.get(ordinal)))
            .filter(move |&(_, place)| given.places.contains(&place))
    };
    given.row.iter().enumerate().flat_map(move |(variable, values)| {
        let spec = &layout.variables[variable];
        let (count, element_bytes) = (spec.values(), spec.element.bytes());
        owned().flat_map(move |(ordinal, place)| {
            (0..count).map(move |component| {
                let at = ((place - start) * count + component) * element_bytes;
                let value = &values.bytes()[at..at + element_bytes];
                let window_start = (place * count + component) * element_bytes;
                Spot { variable, ordinal, place, component, value, window_start }
            })
        })
    })
}

fn differs(local: &LocalSet, step: Step, spot: Spot<'_>, in_file: &[u8]) -> AppendError {
    let spec = &local.layout.variables[spot.variable];
    AppendError::Differs(Box::new(Difference {
        set: local.name.clone(),
        point: local.layout.holdings.roster.label(spot.place),
        variable: spec.name.clone(),
        component: spec.components.map(|_| spot.component),
        step,
        in_file: value_text(spec.element, in_file),
        given: value_text(spec.element, spot.value),
    }))
}

/// The dataset's place in the order of [`afflux_container::SetGeometry::datasets`].
fn dataset_number(dataset: DatasetIndex, variables: usize) -> usize {
    match dataset {
        DatasetIndex::Variable(variable) => variable,
        DatasetIndex::Step => variables,
        DatasetIndex::Time => variables + 1,
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("what fits in memory fits in usize")
}
