//! The writer: creates the file, lets HDF5 take space for columns, and seals what others have written into them.
//!
//! # How the file stays openable
//! The new file is laid out in memory (see `image`); it is written under a temporary name in one piece and renamed when whole.
//! HDF5 opens it to let it grow. From then on the driver holds back all that HDF5 writes, so the medium changes only in [`ContainerWriter::grow`] (the length),
//! [`ContainerWriter::seal`] and [`ContainerWriter::close`], by single writes in this order. Cut between any two of them (and
//! HDF5's status flags are always zero), the file opens with plain HDF5 and shows at least the rows of the last seal:
//!
//! 0. *Samples.* Others write rows into space that no object header reaches yet: new columns, and the rows of an unfinished
//!    column behind the sealed ones (rows sealed before are rewritten with the same bytes).
//! 1. *Room.* HDF5 refuses a file shorter than the superblock's stored end, and addresses behind that end. So: end of
//!    allocation <= stored end <= length at all times. The length leads: it grows at the end of a seal, or in `grow`, and the
//!    superblock follows with a later seal, since a reader asks for the length before it reads the superblock. Both lead by
//!    several seals' growth, so that a reader whose superblock is some seals old still reaches what newer metadata points at.
//! 2. *Announcement.* If space was taken since the last seal, a seal slot with the new end of allocation and the *old*
//!    watermark. From here on metadata may point at the new space, and a resume must not give it away again.
//! 3. *Checksums* of the changed columns, each in the slot that the last seal does not use.
//! 4. *Metadata*, what is pointed at before what points at it: data blocks of the chunk index, super blocks, then index
//!    blocks and index headers (which are neighbours). Object headers on the medium still state the old extents, and no reader looks up a chunk beyond an extent.
//! 5. *Object headers*, those blocks that hold an extent last: one after another, those that are near each other in one write (as a rule all of a set).
//!    Between the first and the last a plain reader sees some datasets longer than others, all of them right.
//! 6. *Seal slot* with the new watermark: now our own readers see the rows too.
//!
//! A kill within one small write cannot be seen: the kernel copies a write into the page cache page by page, and only a block
//! that crosses a page can be cut. Power loss is another matter: nothing here waits for the medium (see `docs/FILE_FORMAT.md`).
//!
//! The order within a seal does not depend on HDF5's SWMR mode, which the writer does without: what SWMR's flush
//! dependencies ensure, the driver has in its hands (see `driver::release_order`), and SWMR would only add its flags.

mod advance;
mod build;
mod check;
mod column_table;
mod columns;
mod compare;
mod counters;
mod durability;
mod error;
mod grow;
mod left_over;
mod resume;
mod seal;
mod space;

#[cfg(test)]
pub(crate) use build::image_by_hdf5;
pub(crate) use build::temporary_path;
pub use check::{DamagedColumn, ResumeCheck};
pub use counters::{ContainerCounters, WriteCount};
pub use durability::Durability;
pub use error::{CreateError, ResumeError, WriteError};
pub use grow::NewColumn;
pub use resume::{Resumed, ResumedSet};
pub(crate) use seal::SealSlot;
pub use seal::{ColumnChecksum, Seal};

use crate::driver::{EXTENT_RANK, HEADER_RANK, HeldBlock, SharedState, release_order};
use crate::hdf::{HdfError, Hid, check};
use crate::{DatasetIndex, FileSpec, PointSource, SetGeometry, SetSpec};
use advance::Advanced;
use afflux_storage::{Storage, StorageFile, StorageFileExt};
use column_table::ColumnTable;
use columns::RunShape;
use counters::put;
use hdf5_metno::sync::sync;
use hdf5_metno_sys::h5f;
use left_over::LeftOver;
use space::Space;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Blocks with extents that are at most this far apart go in one write: more than the attributes of a few datasets, little
/// enough to cost nothing.
const GAP_BYTES_MAX: u64 = 8 * 1024;

/// What to do when the name of a new file is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Leave the file alone: [`CreateError::Exists`].
    Refuse,
    /// Put the new file in its place, once it is whole; only a regular file is replaced: [`CreateError::NotAFile`].
    Replace,
}

/// What a closed writer leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// The container's own writes.
    pub counters: ContainerCounters,
}

/// A growing dataset and its extents.
struct Growing {
    role: DatasetIndex,
    handle: Hid,
    /// Lengths of the leading dimensions; the last one, time, is kept apart.
    leading: Vec<u64>,
    rows: u64,
    /// Address of the chunk index, once it was asked for.
    index: Option<u64>,
}

/// HDF5's side of the file. Fields drop in this order: datasets before the file.
struct Hdf {
    sets: Vec<Vec<Growing>>,
    table: Hid,
    /// Whether an extent changed since the last flush.
    changed: bool,
    file: Hid,
}

/// The rows and columns of a set.
struct SetState {
    name: String,
    cadence_steps: u64,
    geometry: SetGeometry,
    /// Indexed by variable.
    runs: Vec<RunShape>,
    columns: u64,
    rows: u64,
    /// Step of the first row that a writer before has sealed.
    first_step: Option<u64>,
}

impl SetState {
    /// A set without rows.
    fn new(set: &SetSpec, geometry: SetGeometry) -> Self {
        let runs = set.variables.iter().map(|variable| RunShape {
            components: variable.components.unwrap_or(1),
            element_bytes: variable.element.bytes() as u64,
        });
        Self {
            name: set.name.clone(),
            cadence_steps: set.cadence_steps,
            runs: runs.collect(),
            geometry,
            columns: 0,
            rows: 0,
            first_step: None,
        }
    }
}

/// Writes the structure of one file; one rank has it. Dropped without [`ContainerWriter::close`], it leaves the file as the
/// last seal did.
pub struct ContainerWriter {
    path: PathBuf,
    file: Arc<dyn StorageFile>,
    driver: SharedState,
    hdf: Option<Hdf>,
    sets: Vec<SetState>,
    /// Columns grown since the last seal.
    grown: Vec<NewColumn>,
    set_count: u64,
    table: ColumnTable,
    space: Space,
    seal: SealSlot,
    /// What the next seal says of [`SealSlot::rewrite_end`].
    next_rewrite: Option<u64>,
    seal_offset: u64,
    durability: Durability,
    /// Length of the file as it was created: behind it lie chunks.
    created_end: u64,
    left_over: LeftOver,
    /// Nothing is made visible before: readers that opened the file while it was closed may still be at it.
    visible_after: Option<Instant>,
    counters: ContainerCounters,
    /// What the next seal is to release, if [`ContainerWriter::advance`] has prepared it.
    advanced: Option<Advanced>,
    first_failure: Option<String>,
}

impl ContainerWriter {
    /// Creates a file: built under `<name>.afflux-new`, renamed when whole, locked for the writer's life where the file
    /// system has locks. A temporary file that a killed writer left behind is replaced.
    ///
    /// # Errors
    /// See [`CreateError`]; nothing of the new file is left.
    pub fn create(
        storage: Arc<dyn Storage>,
        path: &Path,
        spec: &FileSpec,
        existing: Existing,
    ) -> Result<Self, CreateError> {
        build::create(storage.as_ref(), path, spec, &spec.tables(), existing)
    }

    /// As [`Self::create`], with the points of each set, in the order of `spec.sets`, from where they are made up or kept: the tables in
    /// `spec` are not looked at and may be empty. The memory taken does not grow with the points (apart from eight bytes for each name
    /// that is given) unless a text in `spec` is so long (64 KiB) that HDF5 has to build the file.
    ///
    /// # Errors
    /// See [`CreateError`]; nothing of the new file is left.
    ///
    /// # Panics
    /// If `points` are not as many as the sets.
    pub fn create_from(
        storage: &dyn Storage,
        path: &Path,
        spec: &FileSpec,
        points: &[&dyn PointSource],
        existing: Existing,
    ) -> Result<Self, CreateError> {
        build::create(storage, path, spec, points, existing)
    }

    /// Opens an existing file to go on writing it, whatever became of the writer before: closed, killed at any instant, or killed
    /// while it resumed the file itself.
    ///
    /// The lock is taken first; then the seal is read and the file compared with `spec`, which must describe the same sets in the same
    /// order. Global attributes and `long_name`s stay as the file has them, and so does the shape of its chunks: see
    /// [`Self::geometry`], `spec.chunk_bytes` does not count. Only then is the file changed: a seal slot announces the new epoch, and datasets
    /// that show more rows than were sealed (a kill between two object headers does that) are set back to those.
    ///
    /// A file that was closed is as long as its contents, and readers know that length: so this call takes 50 ms longer for such a file,
    /// and the first seal comes no sooner than 100 ms after it.
    ///
    /// No sample is read here. Before the watermark is trusted, call [`Self::check`].
    ///
    /// # Errors
    /// [`ResumeError`]; [`ResumeError::Missing`] where there is no file, which the caller then creates.
    pub fn resume(storage: Arc<dyn Storage>, path: &Path, spec: &FileSpec) -> Result<Resumed, ResumeError> {
        resume::resume(storage.as_ref(), path, spec, &spec.tables())
    }

    /// As [`Self::resume`], with the points of each set as for [`Self::create_from`]. The table of the points in the file is read.
    ///
    /// # Errors
    /// [`ResumeError`].
    ///
    /// # Panics
    /// If `points` are not as many as the sets.
    pub fn resume_from(
        storage: &dyn Storage,
        path: &Path,
        spec: &FileSpec,
        points: &[&dyn PointSource],
    ) -> Result<Resumed, ResumeError> {
        resume::resume(storage, path, spec, points)
    }

    /// Where the values of a set lie within its chunks.
    ///
    /// # Panics
    /// If there is no such set.
    #[must_use]
    pub fn geometry(&self, set: usize) -> &SetGeometry {
        &self.sets[set].geometry
    }

    /// Columns that a set has in every growing dataset, sealed or not.
    ///
    /// # Panics
    /// If there is no such set.
    #[must_use]
    pub fn columns(&self, set: usize) -> u64 {
        self.sets[set].columns
    }

    /// The open file, for those who write samples from this process.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn StorageFile> {
        &self.file
    }

    /// The container's own writes so far.
    #[must_use]
    pub fn counters(&self) -> ContainerCounters {
        self.counters
    }

    /// Makes sure that `columns` columns of each requested set are allocated in every growing dataset: `(set, columns)`.
    /// Returns the new ones in a fixed order: by request, column, dataset ([`SetGeometry::datasets`]). Readers see nothing
    /// of it before [`Self::seal`], which must then give each set at least one row of its last column.
    ///
    /// # Errors
    /// [`WriteError`]; the writer then refuses further work.
    ///
    /// # Panics
    /// If a request names no set.
    pub fn grow(&mut self, requests: &[(usize, u64)]) -> Result<Vec<NewColumn>, WriteError> {
        self.refuse_if_failed()?;
        let grown = sync(|| self.grow_locked(requests));
        let grown = self.remember_failure(grown)?;
        self.grown.extend_from_slice(&grown);
        Ok(grown)
    }

    /// Says in the file that sealed rows from `step` on are about to be rewritten in place: a column that a kill leaves half old and
    /// half new then is known to be whole before `step`, and rewriting from there on again makes it right. Seals say so too
    /// until [`Self::next_rewrite`] tells them otherwise.
    ///
    /// # Errors
    /// [`WriteError`]; the writer then refuses further work.
    pub fn begin_rewrite(&mut self, step: u64) -> Result<(), WriteError> {
        self.refuse_if_failed()?;
        let announced = self.check_ownership();
        let announced =
            announced.and_then(|()| self.write_slot(SealSlot { rewrite_end: step_end(Some(step)), ..self.seal }));
        // A power failure must not leave rewritten rows that no slot speaks of.
        let announced = announced.and_then(|()| self.sync());
        self.remember_failure(announced)
    }

    /// What was rewritten in place so far is complete with the next seal, which has the checksums of those columns: from then on
    /// rows are rewritten from `step` on, or none any more.
    pub fn next_rewrite(&mut self, step: Option<u64>) {
        self.next_rewrite = Some(step_end(step));
    }

    /// Makes rows visible, in the order that the module's front page argues for.
    ///
    /// # Errors
    /// [`WriteError`]; the writer then refuses further work. The file is as the last seal left it, or shows in some datasets
    /// the new rows already, which are right: they were written before.
    ///
    /// # Panics
    /// If `rows` does not have an entry for each set, takes rows back, goes beyond the columns that were grown or leaves
    /// the last of them empty; if the watermark goes back; if a checksum names a column that was not grown.
    pub fn seal(&mut self, seal: &Seal) -> Result<(), WriteError> {
        self.refuse_if_failed()?;
        self.check_seal(seal);
        if let Some(time) = self.visible_after.take() {
            std::thread::sleep(time.saturating_duration_since(Instant::now()));
        }
        let blocks = match self.advanced.take() {
            Some(advanced) => Ok(advanced.blocks_for(&seal.rows)),
            None => sync(|| self.extend_to(&seal.rows)),
        };
        let sealed = blocks.and_then(|blocks| self.release_seal(seal, blocks));
        self.remember_failure(sealed)
    }

    /// Closes the file: flags clean, trimmed to its true length, marked as closed. Columns grown since the last seal are
    /// dropped.
    ///
    /// # Errors
    /// [`WriteError`]; the file then is as after a drop.
    pub fn close(mut self) -> Result<CloseReport, WriteError> {
        self.refuse_if_failed()?;
        let closed = sync(|| self.close_locked());
        self.remember_failure(closed)
    }

    fn refuse_if_failed(&self) -> Result<(), WriteError> {
        match &self.first_failure {
            Some(first) => Err(WriteError::Failed { path: self.path.clone(), first: first.clone() }),
            None => Ok(()),
        }
    }

    fn remember_failure<T>(&mut self, result: Result<T, WriteError>) -> Result<T, WriteError> {
        if let Err(error) = &result {
            self.first_failure.get_or_insert_with(|| error.to_string());
            self.driver.kill();
        }
        result
    }

    fn io_error(&self, doing: &'static str, source: io::Error) -> WriteError {
        WriteError::Io { doing, path: self.path.clone(), source }
    }

    /// HDF5's error, or the storage's where that made HDF5 fail.
    fn hdf_error(&self, source: HdfError) -> WriteError {
        match self.driver.take_read_fault() {
            Some(fault) => self.io_error("read", fault),
            None => WriteError::Hdf5 { path: self.path.clone(), source },
        }
    }

    fn check_seal(&self, seal: &Seal) {
        assert_eq!(seal.rows.len(), self.sets.len(), "a seal states the rows of every set");
        for (set, (&rows, state)) in seal.rows.iter().zip(&self.sets).enumerate() {
            assert!(rows >= state.rows, "set {set}: {rows} rows after {} were sealed", state.rows);
            let columns = rows.div_ceil(state.geometry.chunk_steps);
            assert_eq!(columns, state.columns, "set {set}: {rows} rows in {} columns", state.columns);
        }
        assert!(step_end(seal.watermark) >= self.seal.step_end, "the watermark goes back");
    }

    /// Writes what `seal` makes visible; `blocks` are HDF5's part of it.
    fn release_seal(&mut self, seal: &Seal, mut blocks: Vec<HeldBlock>) -> Result<(), WriteError> {
        self.check_ownership()?;
        self.sync()?;
        let end = self.driver.end_of_allocation();
        let leads = self.lead_superblock(end)?;
        let announces = end > self.seal.end_of_allocation;
        if announces {
            self.write_slot(SealSlot { end_of_allocation: end, ..self.seal })?;
        }
        self.write_checksums(seal)?;
        if leads || announces {
            self.sync()?;
        }
        self.release(&mut blocks)?;
        self.sync()?;
        let rewrite_end = self.next_rewrite.take().unwrap_or(self.seal.rewrite_end);
        self.write_slot(SealSlot { step_end: step_end(seal.watermark), rewrite_end, ..self.seal })?;
        self.sync()?;
        for (state, &rows) in self.sets.iter_mut().zip(&seal.rows) {
            state.rows = rows;
        }
        self.grown.clear();
        self.lead_length(end)
    }

    /// The newest slot in the file must be the one that this writer wrote: where locks do not work, another writer may have
    /// resumed the file. Best effort: what it does between this look and our writes is not seen.
    fn check_ownership(&self) -> Result<(), WriteError> {
        let found = seal::read_slots(self.file.as_ref(), self.seal_offset);
        let found = found.map_err(|error| self.io_error("read the seal of", error))?;
        let (found, _) = found.ok_or_else(|| WriteError::Damaged {
            path: self.path.clone(),
            what: "neither slot of the seal is valid".into(),
        })?;
        if (found.epoch, found.sequence) == (self.seal.epoch, self.seal.sequence) {
            return Ok(());
        }
        Err(WriteError::TakenOver {
            path: self.path.clone(),
            epoch: self.seal.epoch,
            found_epoch: found.epoch,
            sequence: self.seal.sequence,
            found_sequence: found.sequence,
        })
    }

    /// Step 1: the superblock's stored end moves up to the length that the file has had for a while.
    /// Returns whether it did.
    fn lead_superblock(&mut self, end: u64) -> Result<bool, WriteError> {
        let Some((bytes, offset)) = self.space.superblock_due(end) else { return Ok(false) };
        let written = put(self.file.as_ref(), &mut self.counters.superblock, &bytes, offset);
        written.map_err(|error| self.io_error("write the superblock of", error))?;
        Ok(true)
    }

    /// Keeps the length ahead of the superblock's stored end.
    fn lead_length(&mut self, end: u64) -> Result<(), WriteError> {
        let Some(length) = self.space.length_due(end) else { return Ok(()) };
        self.file.set_len(length).map_err(|error| self.io_error("lengthen", error))?;
        self.space.lengthened(length);
        self.counters.length_changes += 1;
        Ok(())
    }

    /// Writes a slot with the next sequence number.
    fn write_slot(&mut self, slot: SealSlot) -> Result<(), WriteError> {
        let slot = SealSlot { sequence: self.seal.sequence + 1, ..slot };
        let offset = self.seal_offset + slot.offset();
        let written = put(self.file.as_ref(), &mut self.counters.seals, &slot.encode(), offset);
        written.map_err(|error| self.io_error("write the seal of", error))?;
        self.seal = slot;
        Ok(())
    }

    /// Step 3.
    fn write_checksums(&mut self, seal: &Seal) -> Result<(), WriteError> {
        let sets = &self.sets;
        let sealed = |set: usize, column| sets[set].sealed_rows(column);
        let writes = self.table.record(self.file.as_ref(), &seal.columns, sealed);
        for (offset, bytes) in writes.map_err(|error| self.io_error("read the checksums of", error))? {
            let written = put(self.file.as_ref(), &mut self.counters.checksums, &bytes, offset);
            written.map_err(|error| self.io_error("write the checksums of", error))?;
        }
        Ok(())
    }

    /// Steps 4 and 5: held blocks by rank and offset, neighbours of one rank in one write.
    fn release(&mut self, blocks: &mut Vec<HeldBlock>) -> Result<(), WriteError> {
        // The superblock is ours: HDF5's own version of it states its own idea of the end and its flags.
        blocks.retain(|block| block.offset != 0);
        blocks.sort_by_key(|block| (release_order(&block.bytes), block.offset));
        if cfg!(feature = "canary-broken-seal-order") {
            blocks.reverse();
        }
        let mut run: Vec<u8> = Vec::new();
        let (mut run_offset, mut run_rank) = (0, 0);
        for block in blocks.drain(..) {
            let rank = release_order(&block.bytes);
            let run_end = run_offset + run.len() as u64;
            if !run.is_empty() && rank == run_rank && self.is_bridgeable(rank, run_end, block.offset) {
                let gap = self.read_gap(run_end, block.offset);
                run.extend_from_slice(&gap.map_err(|error| self.io_error("read the metadata of", error))?);
            } else {
                self.put_metadata(&run, run_offset)?;
                if run_rank < HEADER_RANK && rank > run_rank && !run.is_empty() {
                    self.sync()?;
                }
                run.clear();
                (run_offset, run_rank) = (block.offset, rank);
            }
            run.extend_from_slice(&block.bytes);
        }
        self.put_metadata(&run, run_offset)
    }

    /// Whether two blocks go in one write. Those with extents do over a gap, so that the datasets of a set change at once: the
    /// gap, within the file as it was created, holds only what this writer has written itself, and is written as it is.
    fn is_bridgeable(&self, rank: u8, from: u64, to: u64) -> bool {
        // Blocks come in ascending order, but for the canary's.
        let gap_bytes = to.checked_sub(from);
        gap_bytes == Some(0)
            || (rank == EXTENT_RANK && to < self.created_end && gap_bytes.is_some_and(|bytes| bytes <= GAP_BYTES_MAX))
    }

    fn read_gap(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let mut gap = vec![0; usize::try_from(to - from).unwrap_or(0)];
        let read = self.file.read_full_at(&mut gap, from)?;
        if read < gap.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(gap)
    }

    fn put_metadata(&mut self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let written = put(self.file.as_ref(), &mut self.counters.metadata, bytes, offset);
        written.map_err(|error| self.io_error("write the metadata of", error))
    }

    fn close_locked(&mut self) -> Result<CloseReport, WriteError> {
        self.check_ownership()?;
        let unsealed = self.advanced.take().is_some()
            || self.sets.iter().any(|state| state.rows.div_ceil(state.geometry.chunk_steps) < state.columns);
        if unsealed {
            self.driver.kill();
        }
        if let Some(hdf) = self.hdf.take() {
            drop((hdf.sets, hdf.table));
            check_close(hdf.file).map_err(|error| self.hdf_error(error))?;
        }
        let mut blocks = self.driver.take_held();
        let end = if unsealed { self.seal.end_of_allocation } else { self.driver.end_of_allocation() };
        self.release(&mut blocks)?;
        self.sync()?;
        let (bytes, offset) = self.space.final_superblock(end);
        let written = put(self.file.as_ref(), &mut self.counters.superblock, &bytes, offset);
        written.map_err(|error| self.io_error("write the superblock of", error))?;
        self.sync()?;
        self.file.set_len(end).map_err(|error| self.io_error("trim", error))?;
        self.counters.length_changes += 1;
        self.write_slot(SealSlot { end_of_allocation: end, closed: true, ..self.seal })?;
        self.sync()?;
        Ok(CloseReport { file_bytes: end, counters: self.counters })
    }
}

impl Drop for ContainerWriter {
    fn drop(&mut self) {
        self.driver.kill();
        if let Some(hdf) = self.hdf.take() {
            sync(|| drop(hdf));
        }
    }
}

fn step_end(watermark: Option<u64>) -> u64 {
    watermark.map_or(0, |step| step.saturating_add(1))
}

/// Closes the file so that a failure is seen.
fn check_close(file: Hid) -> Result<(), HdfError> {
    // SAFETY: a valid file, under HDF5's lock; flushing first shows what the close would hide.
    let flushed = check("H5Fflush", unsafe { h5f::H5Fflush(file.id(), h5f::H5F_scope_t::H5F_SCOPE_LOCAL) });
    drop(file);
    flushed
}
