//! Resuming: a file that another writer left, closed or killed at any instant, becomes that of a new writer.
//!
//! # What is found
//! The newest valid seal slot is the truth. Everything else on the medium is at least that new: datasets may be longer than the
//! sealed rows, chunk indices may hold chunks behind the extents, the superblock's stored end and the length lie ahead, and so do
//! samples and blocks of metadata in space that no seal has announced.
//!
//! # What is done with it
//! HDF5 is shown a superblock whose end is the sealed end of allocation, so it takes new space from there: what lies behind has no
//! meaning. All that is announced counts as taken, apart from what the seal it was announced for left unused. Chunks that an index
//! holds behind the extents are taken up again as HDF5 grows (see `left_over`).
//! The medium changes in this order, and each prefix of it is a file that opens, and that can be resumed again:
//!
//! 1. the seal slot of the new epoch, with the old watermark: a writer that was believed dead finds it and stops;
//! 2. the blocks that hold the extents of datasets longer than the sealed rows, one by one: back to those rows. The index keeps
//!    their chunks, so a reader sees what was there before or the sealed rows, and never a gap;
//! 3. the length, ahead of all that may be written, and after a pause the superblock, if the file was trimmed. A reader asks for
//!    the length, then reads the superblock, then what the superblock leads to; so each step waits until readers that began before the
//!    last one can be assumed done. The first seal waits too, as it makes space visible that they do not know of.
//!
//! HDF5's own opening for writing changes nothing: the driver holds its writes (status flags in the superblock), and the
//! superblock is never let go.

use super::build::open_hdf;
use super::column_table::ColumnTable;
use super::compare::differences;
use super::counters::put;
use super::left_over::{LeftOver, Owner};
use super::seal::{SealSlot, read_slots};
use super::space::Space;
use super::{ContainerCounters, ContainerWriter, Durability, Hdf, ResumeError, SetState};
use crate::blueprint::{Group, set_group};
use crate::driver::SharedState;
use crate::driver::superblock::{SUPERBLOCK_BYTES, Superblock, amend, is_expected, stored_end};
use crate::format::{ChunkIndex, FormatError, ObjectHeader, UNDEFINED};
use crate::names::check_spec;
use crate::reader::{Anatomy, ReadError, SealState, TableAnatomy};
use crate::repair::cut_off;
use crate::{FileSpec, PointSource, SeriesFile, SetGeometry};
use afflux_storage::{OpenMode, Storage, StorageFile, StorageFileExt};
use hdf5_metno::sync::sync;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// From the length to the superblock. HDF5 asks for the length, then reads the superblock, and refuses a file ("truncated file") whose stored end
/// is beyond that length: so a reader that found the length of the closed file must have read the superblock before it changes. It
/// has nothing to do in between, but may lose its processor: with 5 ms that failed now and then on a busy machine (docs/RELIABILITY.md
/// has the figures).
const LENGTH_LEADS: Duration = Duration::from_millis(50);
/// From the superblock to the first seal: readers open a file and look at its datasets in that time.
const SUPERBLOCK_LEADS: Duration = Duration::from_millis(100);

/// A file that a new writer goes on with.
pub struct Resumed {
    /// The writer, which holds the lock.
    pub writer: ContainerWriter,
    /// The last sealed simulation step; `None` while nothing is sealed.
    pub watermark: Option<u64>,
    /// Whether the last writer closed the file.
    pub closed: bool,
    /// The first step whose sealed rows a writer began to rewrite in place and did not finish: see [`ContainerWriter::begin_rewrite`].
    pub rewriting_from: Option<u64>,
    /// Counts the writers of the file's life, this one included.
    pub epoch: u64,
    /// What is sealed of each set, in file order.
    pub sets: Vec<ResumedSet>,
}

/// What is sealed of a set.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ResumedSet {
    /// Sealed rows.
    pub rows: u64,
    /// Step of the first of them.
    pub first_step: Option<u64>,
    /// Step of the last of them.
    pub last_step: Option<u64>,
    /// Time of the last of them, in the file's units.
    pub last_time: Option<f64>,
}

/// What a look at the file has shown.
struct Found {
    state: SealState,
    anatomy: Anatomy,
    geometries: Vec<SetGeometry>,
    sets: Vec<ResumedSet>,
}

/// The file's own structures, as far as a writer must know them.
struct Structures {
    superblock: Superblock,
    length: u64,
    end: u64,
    left_over: LeftOver,
    gaps: Vec<Range<u64>>,
    table_chunks: Vec<u64>,
    /// Everything below was there before the first chunk.
    created_end: u64,
    /// Blocks that set extents back: address and bytes.
    extents: Vec<(u64, Vec<u8>)>,
}

/// Turns faults into errors that name the file.
struct Place<'a> {
    path: &'a Path,
    file: Arc<dyn StorageFile>,
    /// The points of the run's sets.
    points: &'a [&'a dyn PointSource],
}

/// See [`ContainerWriter::resume`].
pub(super) fn resume(
    storage: &dyn Storage,
    path: &Path,
    spec: &FileSpec,
    points: &[&dyn PointSource],
) -> Result<Resumed, ResumeError> {
    assert_eq!(points.len(), spec.sets.len(), "points come set by set");
    check_spec(spec, points)?;
    let place = Place { path, file: open_locked(storage, path)?, points };
    let found = place.look(spec)?;
    let structures = place.structures(&found)?;
    let SealState { watermark, closed, rewriting_from, .. } = found.state;
    let sets = found.sets.clone();
    let writer = place.take_over(spec, found, structures)?;
    Ok(Resumed { watermark, closed, rewriting_from, epoch: writer.seal.epoch, sets, writer })
}

/// Opens the file and takes its lock. A file system without locks leaves the epoch.
fn open_locked(storage: &dyn Storage, path: &Path) -> Result<Arc<dyn StorageFile>, ResumeError> {
    let failed = |doing| move |source: io::Error| ResumeError::Io { doing, path: path.to_owned(), source };
    if !storage.exists(path).map_err(failed("look for"))? {
        return Err(ResumeError::Missing { path: path.into() });
    }
    if !storage.is_regular_file(path).map_err(failed("look at"))? {
        return Err(ResumeError::NotAFile { path: path.into() });
    }
    let file = storage.open(path, OpenMode::ReadWrite).map_err(failed("open for writing"))?;
    match file.try_lock_exclusive() {
        Ok(false) => Err(ResumeError::Busy { path: path.into() }),
        Ok(true) | Err(_) => Ok(file),
    }
}

impl Place<'_> {
    fn io(&self, doing: &'static str, source: io::Error) -> ResumeError {
        ResumeError::Io { doing, path: self.path.into(), source }
    }

    fn damaged(&self, what: impl Into<String>) -> ResumeError {
        ResumeError::Damaged { path: self.path.into(), what: what.into() }
    }

    fn format(&self, error: FormatError) -> ResumeError {
        match error {
            FormatError::Io(source) => self.io("read", source),
            FormatError::Damaged(what) => self.damaged(what),
        }
    }

    fn read_error(&self, error: ReadError) -> ResumeError {
        let path = self.path.to_owned();
        match error {
            ReadError::Open { source, .. } => self.io("read", source),
            ReadError::NotHdf5 { found, .. } => ResumeError::NotAfflux { path, what: found.into() },
            ReadError::NotAfflux { what, .. } => ResumeError::NotAfflux { path, what },
            ReadError::Version { found, supported, .. } => ResumeError::Version { path, found, supported },
            ReadError::Damaged { what, .. } => ResumeError::Damaged { path, what },
            other => self.damaged(other.to_string()),
        }
    }

    /// Opens the file as a reader and compares it with what the run would write.
    fn look(&self, spec: &FileSpec) -> Result<Found, ResumeError> {
        if let Some((length, stored)) = cut_off(&*self.file).map_err(|error| self.io("read", error))? {
            return Err(self.damaged(format!("its tail is cut off: it has {length} bytes of {stored}")));
        }
        let failed = |error| self.read_error(error);
        let file = SeriesFile::over(Arc::clone(&self.file), self.path).map_err(failed)?;
        let differences = differences(spec, self.points, &file).map_err(failed)?;
        if !differences.is_empty() {
            return Err(ResumeError::Different { path: self.path.into(), differences });
        }
        let state = *file.state();
        if state.sequence == 0 {
            return Err(self.damaged("its seal was never written"));
        }
        let sets = (0..file.sets().len()).map(|set| self.sealed_of(&file, set)).collect::<Result<_, _>>()?;
        let described = file.sets().iter().zip(&spec.sets).zip(self.points);
        let geometries = described.map(|((info, set), points)| SetGeometry {
            points_per_chunk: info.variables.iter().map(|variable| variable.points_per_chunk).collect(),
            ..SetGeometry::of(points.count(), &set.variables, set.chunk_steps, spec.chunk_bytes)
        });
        Ok(Found { state, geometries: geometries.collect(), sets, anatomy: file.anatomy().map_err(failed)? })
    }

    /// What is sealed of a set; every dataset must have those rows.
    fn sealed_of(&self, file: &SeriesFile, set: usize) -> Result<ResumedSet, ResumeError> {
        let info = &file.sets()[set];
        let rows = info.rows_sealed;
        if let Some((dataset, found)) = file.shortest(set).filter(|&(_, found)| found < rows) {
            return Err(self.damaged(format!("{dataset} has {found} rows, {rows} are sealed")));
        }
        let step = |step: i64| u64::try_from(step).map_err(|_| self.damaged(format!("step {step} of a sealed row")));
        let (first_step, last_step) = match info.steps_sealed {
            Some((first, last)) => (Some(step(first)?), Some(step(last)?)),
            None => (None, None),
        };
        let last = rows.saturating_sub(1)..rows;
        let last_time = file.times(set, last).map_err(|error| self.read_error(error))?.first().copied();
        Ok(ResumedSet { rows, first_step, last_step, last_time })
    }

    /// Reads what the medium has besides samples and checks that it holds together.
    fn structures(&self, found: &Found) -> Result<Structures, ResumeError> {
        let mut superblock: Superblock = [0; SUPERBLOCK_BYTES];
        let read = self.file.read_full_at(&mut superblock, 0).map_err(|error| self.io("read", error))?;
        if read < SUPERBLOCK_BYTES || !is_expected(&superblock) {
            return Err(self.damaged("its superblock is not of version 3"));
        }
        let length = self.file.len().map_err(|error| self.io("ask for the length of", error))?;
        let sealed_end = found.state.allocation_end_bytes;
        // Another program may have added something to a closed file.
        let end = if found.state.closed { sealed_end.max(stored_end(&superblock)) } else { sealed_end };
        if end < SUPERBLOCK_BYTES as u64 || end > length {
            return Err(self.damaged(format!("it has {length} bytes, {end} are in use")));
        }
        let mut structures = Structures {
            superblock,
            length,
            end,
            left_over: LeftOver::default(),
            gaps: Vec::new(),
            table_chunks: Vec::new(),
            created_end: end,
            extents: Vec::new(),
        };
        let slots =
            read_slots(self.file.as_ref(), found.anatomy.seal_offset).map_err(|error| self.io("read", error))?;
        let announced = slots.and_then(announced);
        structures.learn(self.file.as_ref(), found, announced.is_some()).map_err(|error| self.format(error))?;
        if let Some(announced) = announced {
            (structures.gaps, structures.end) = structures.left_over.gaps(announced);
            structures.created_end = structures.created_end.min(structures.end);
        }
        Ok(structures)
    }

    /// Announces the new epoch, sets extents back, lengthens the file, and has HDF5 open it.
    fn take_over(&self, spec: &FileSpec, found: Found, structures: Structures) -> Result<ContainerWriter, ResumeError> {
        let Found { state, anatomy, geometries, sets: sealed } = found;
        let Structures { superblock, length, end, left_over, gaps, table_chunks, created_end, extents } = structures;
        let mut counters = ContainerCounters::default();
        let file = self.file.as_ref();
        let seal = SealSlot {
            sequence: state.sequence + 1,
            step_end: state.watermark.map_or(0, |step| step + 1),
            epoch: state.epoch + 1,
            end_of_allocation: end,
            closed: false,
            rewrite_end: state.rewriting_from.map_or(0, |step| step + 1),
        };
        let seal_offset = anatomy.seal_offset;
        put(file, &mut counters.seals, &seal.encode(), seal_offset + seal.offset())
            .map_err(|error| self.io("write the seal of", error))?;
        for (address, block) in &extents {
            put(file, &mut counters.metadata, block, *address)
                .map_err(|error| self.io("write the metadata of", error))?;
        }
        let mut space = Space::resumed(superblock, length, end);
        if let Some(length) = space.length_due_for_growth(end) {
            self.file.set_len(length).map_err(|error| self.io("lengthen", error))?;
            space.lengthened(length);
            counters.length_changes += 1;
        }
        let mut visible_after = None;
        if let Some((bytes, offset)) = space.superblock_due_to_resume(end) {
            // After a power failure too, the length must not be behind.
            self.file.sync_data().map_err(|error| self.io("make durable the length of", error))?;
            std::thread::sleep(LENGTH_LEADS);
            put(file, &mut counters.superblock, &bytes, offset)
                .map_err(|error| self.io("write the superblock of", error))?;
            visible_after = Some(Instant::now() + SUPERBLOCK_LEADS);
        }
        let (driver, hdf) = self.open_for_writing(spec, &geometries, &sealed, superblock, end)?;
        driver.set_gaps(gaps);
        let set_count = anatomy.table.shape.0;
        let sets = spec.sets.iter().zip(geometries).zip(&sealed);
        let sets = sets.map(|((set, geometry), sealed)| SetState {
            rows: sealed.rows,
            columns: sealed.rows.div_ceil(geometry.chunk_steps),
            first_step: sealed.first_step,
            ..SetState::new(set, geometry)
        });
        Ok(ContainerWriter {
            path: self.path.into(),
            file: Arc::clone(&self.file),
            driver,
            hdf: Some(hdf),
            sets: sets.collect(),
            grown: Vec::new(),
            set_count,
            table: ColumnTable::resumed(&anatomy.table, table_chunks),
            space,
            seal,
            seal_offset,
            durability: Durability::default(),
            created_end,
            left_over,
            visible_after,
            counters,
            next_rewrite: None,
            advanced: None,
            first_failure: None,
        })
    }

    fn open_for_writing(
        &self,
        spec: &FileSpec,
        geometries: &[SetGeometry],
        sealed: &[ResumedSet],
        mut superblock: Superblock,
        end: u64,
    ) -> Result<(SharedState, Hdf), ResumeError> {
        let groups: Vec<Group<'_>> = geometries
            .iter()
            .enumerate()
            .map(|(index, geometry)| set_group(spec, index, self.points[index], geometry))
            .collect();
        amend(&mut superblock, end);
        let driver = SharedState::resumed(Arc::clone(&self.file), &superblock, end);
        let opened = sync(|| open_hdf(&driver, &groups));
        let mut hdf = opened.map_err(|source| match driver.take_read_fault() {
            Some(fault) => self.io("read", fault),
            None => ResumeError::Hdf5 { path: self.path.into(), source },
        })?;
        for (datasets, sealed) in hdf.sets.iter_mut().zip(sealed) {
            for growing in datasets {
                growing.rows = sealed.rows;
            }
        }
        Ok((driver, hdf))
    }
}

/// The space that a seal has announced which then did not come.
fn announced((newest, older): (SealState, Option<SealState>)) -> Option<Range<u64>> {
    let older = older?;
    let of_one_seal = !newest.closed
        && older.sequence + 1 == newest.sequence
        && (older.epoch, older.watermark) == (newest.epoch, newest.watermark);
    let announced = older.allocation_end_bytes..newest.allocation_end_bytes;
    (of_one_seal && !announced.is_empty()).then_some(announced)
}

impl Structures {
    /// Reads headers and chunk indices; all of the indices if `wholly`, else what is behind the sealed rows.
    fn learn(&mut self, file: &dyn StorageFile, found: &Found, wholly: bool) -> Result<(), FormatError> {
        let sets = found.anatomy.headers.iter().zip(&found.sets).zip(&found.geometries).enumerate();
        for (set, ((headers, sealed), geometry)) in sets {
            let columns = sealed.rows.div_ceil(geometry.chunk_steps);
            for (&header, dataset) in headers.iter().zip(geometry.datasets()) {
                let header = ObjectHeader::read(file, header)?;
                if header.rows()? > sealed.rows {
                    self.extents.push(header.with_rows(sealed.rows)?);
                }
                let Some(address) = header.chunk_index()? else { continue };
                let mut index = ChunkIndex::open(file, address)?;
                let chunks = geometry.chunks_per_column(dataset);
                let first_column = index.elements(file, 0..chunks)?;
                self.lower_created_end(&index, &first_column);
                let unsealed = columns * chunks;
                let survey = index.survey(file, if wholly { 0 } else { unsealed })?;
                let chunk_bytes = geometry.chunk_bytes(dataset);
                self.left_over.add(Owner::Dataset(set, dataset), survey, unsealed, chunk_bytes);
            }
        }
        self.learn_table(file, &found.anatomy.table)
    }

    fn lower_created_end(&mut self, index: &ChunkIndex, first_column: &[u64]) {
        let lowest = first_column.iter().copied().filter(|&offset| offset != UNDEFINED).min();
        self.created_end = self.created_end.min(index.address()).min(lowest.unwrap_or(UNDEFINED));
    }

    /// Takes note of the chunks of the checksums.
    fn learn_table(&mut self, file: &dyn StorageFile, table: &TableAnatomy) -> Result<(), FormatError> {
        let chunks = table.shape.1.div_ceil(table.chunk.1) * table.shape.0.div_ceil(table.chunk.0);
        if let Some(address) = ObjectHeader::read(file, table.header)?.chunk_index()? {
            let mut index = ChunkIndex::open(file, address)?;
            let elements = index.elements(file, 0..chunks)?;
            self.lower_created_end(&index, &elements);
            self.table_chunks = elements;
            // Its extent is not set back, so what it covers may be newer than the seal.
            let survey = index.survey(file, 0)?;
            self.left_over.add(Owner::Checksums, survey, chunks, table.chunk_bytes());
        }
        if self.table_chunks.contains(&UNDEFINED) || (self.table_chunks.len() as u64) < chunks {
            return Err(FormatError::Damaged("chunks of the checksums are missing".into()));
        }
        Ok(())
    }
}
