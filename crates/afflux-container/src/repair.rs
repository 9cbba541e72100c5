//! Repair: what a killed writer, another program or a cut copy left of a file becomes a closed file with its sealed rows.
//!
//! A file of ours needs no repair to be opened or resumed after a kill. Repair is for what comes otherwise: status flags that another program
//! set, a superblock that states another length than the file has, a file to be handed on that shall show no unsealed rows
//! and be no longer than it must. No sealed sample is touched; whether they are whole is for `SeriesFile::verify` to say.
//!
//! The changes come in an order whose prefixes leave the file no worse: length if too short, extents, superblock, trimming, seal slot.

use crate::SeriesFile;
use crate::driver::superblock::{SUPERBLOCK_BYTES, Superblock, amend, is_expected, stored_end};
use crate::format::{FormatError, ObjectHeader};
use crate::reader::{ReadError, SealState};
use crate::writer::{SealSlot, temporary_path};
use afflux_storage::{OpenMode, Storage, StorageFile, StorageFileExt};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a repair did; empty if there was nothing to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// A file under construction whose writer was killed, which was removed.
    pub temporary_removed: Option<PathBuf>,
    /// Datasets with unsealed rows: path within the file, rows before, rows now.
    pub rows_cut: Vec<(String, u64, u64)>,
    /// Whether the superblock was written: its status flags, stored end or checksum were not those of a closed file.
    pub superblock_written: bool,
    /// Length in bytes before and now, where that changed. A file that was too short lacks samples, which are zeros now.
    pub length_changed: Option<(u64, u64)>,
    /// Whether the seal was marked as closed.
    pub closed: bool,
}

impl RepairReport {
    /// Whether nothing had to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return write!(formatter, "nothing to repair");
        }
        let mut lines = Vec::new();
        if let Some(path) = &self.temporary_removed {
            lines.push(format!("removed {}, which a killed writer had begun", path.display()));
        }
        for (dataset, before, now) in &self.rows_cut {
            lines.push(format!("cut {dataset} from {before} to its {now} sealed rows"));
        }
        if self.superblock_written {
            lines.push("wrote the superblock".into());
        }
        match self.length_changed {
            Some((before, now)) if now > before => {
                lines
                    .push(format!("lengthened the file from {before} to {now} bytes: samples are missing, see verify"));
            }
            Some((before, now)) => lines.push(format!("trimmed the file from {before} to {now} bytes")),
            None => {}
        }
        if self.closed {
            lines.push("marked it as closed".into());
        }
        write!(formatter, "{}", lines.join("\n"))
    }
}

/// Why a file could not be repaired. Only [`RepairError::Io`] may leave it changed, no worse than it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// There is neither such a file nor one under construction.
    #[error("{} does not exist", path.display())]
    Missing {
        /// The name.
        path: PathBuf,
    },
    /// A writer has the file, or is creating it.
    #[error("{} is being written; repair it when its writer is gone", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be understood.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The storage failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The fault.
        source: io::Error,
    },
}

/// Repairs a file; a second call finds nothing to do. Refuses a file that a writer holds, where the file system has locks.
///
/// # Errors
/// [`RepairError`].
pub fn repair(storage: &dyn Storage, path: &Path) -> Result<RepairReport, RepairError> {
    let mut report = RepairReport { temporary_removed: remove_temporary(storage, path)?, ..RepairReport::default() };
    let failed = |doing| move |source| RepairError::Io { doing, path: path.to_owned(), source };
    let file = match storage.open(path, OpenMode::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match report.temporary_removed {
                Some(_) => Ok(report),
                None => Err(RepairError::Missing { path: path.into() }),
            };
        }
        opened => opened.map_err(failed("open for writing"))?,
    };
    if let Ok(false) = file.try_lock_exclusive() {
        return Err(RepairError::Busy { path: path.into() });
    }
    Patient { path, file }.repair(&mut report)?;
    Ok(report)
}

/// Removes a file under construction that nobody holds.
fn remove_temporary(storage: &dyn Storage, path: &Path) -> Result<Option<PathBuf>, RepairError> {
    let temporary = temporary_path(path);
    let failed = |doing| {
        let path = temporary.clone();
        move |source| RepairError::Io { doing, path, source }
    };
    let file = match storage.open(&temporary, OpenMode::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed("open the left-over"))?,
    };
    if let Ok(false) = file.try_lock_exclusive() {
        return Err(RepairError::Busy { path: path.into() });
    }
    storage.remove(&temporary).map_err(failed("remove the left-over"))?;
    Ok(Some(temporary))
}

/// The file under repair.
struct Patient<'a> {
    path: &'a Path,
    file: Arc<dyn StorageFile>,
}

/// What a repair starts from.
struct Found {
    state: SealState,
    seal_offset: u64,
    /// Datasets that grow: path within the file, address of the header, sealed rows.
    growing: Vec<(String, u64, u64)>,
}

/// The length of a file and the end that its superblock states, where that is missing: the length always leads while a writer is at work.
pub(crate) fn cut_off(file: &dyn StorageFile) -> io::Result<Option<(u64, u64)>> {
    let mut superblock: Superblock = [0; SUPERBLOCK_BYTES];
    let read = file.read_full_at(&mut superblock, 0)?;
    let (length, stored) = (file.len()?, stored_end(&superblock));
    let is_cut = read == SUPERBLOCK_BYTES && is_expected(&superblock) && length < stored;
    Ok(is_cut.then_some((length, stored)))
}

impl Patient<'_> {
    fn io(&self, doing: &'static str) -> impl Fn(io::Error) -> RepairError + use<> {
        let path = self.path.to_owned();
        move |source| RepairError::Io { doing, path: path.clone(), source }
    }

    fn damaged(&self, what: String) -> RepairError {
        ReadError::Damaged { path: self.path.into(), what }.into()
    }

    fn repair(&self, report: &mut RepairReport) -> Result<(), RepairError> {
        let (found, cut_length) = self.examine()?;
        let Found { state, seal_offset, growing } = found;
        let length = self.file.len().map_err(self.io("ask for the length of"))?;
        let mut superblock: Superblock = [0; SUPERBLOCK_BYTES];
        let read = self.file.read_full_at(&mut superblock, 0).map_err(self.io("read"))?;
        if read < SUPERBLOCK_BYTES || !is_expected(&superblock) || state.sequence == 0 {
            return Err(self.damaged("its superblock or its seal is not one of Afflux".into()));
        }
        // Another program may have added something to a closed file.
        let stored = stored_end(&superblock);
        let added = state.closed && stored <= length;
        let end = if added { state.allocation_end_bytes.max(stored) } else { state.allocation_end_bytes };
        if length < end {
            self.set_len(cut_length.unwrap_or(length), end, report)?;
        }
        for (label, header, rows) in growing {
            self.cut(label, header, rows, report)?;
        }
        let mut wanted = superblock;
        amend(&mut wanted, end);
        if wanted != superblock {
            self.file.write_all_at(&wanted, 0).map_err(self.io("write the superblock of"))?;
            report.superblock_written = true;
        }
        if length > end {
            self.set_len(cut_length.unwrap_or(length), end, report)?;
        } else if let Some(before) = cut_length {
            report.length_changed = Some((before, end));
        }
        if !state.closed {
            let slot = SealSlot {
                sequence: state.sequence + 1,
                step_end: state.watermark.map_or(0, |step| step + 1),
                epoch: state.epoch,
                end_of_allocation: end,
                closed: true,
                rewrite_end: state.rewriting_from.map_or(0, |step| step + 1),
            };
            let offset = seal_offset + slot.offset();
            self.file.write_all_at(&slot.encode(), offset).map_err(self.io("write the seal of"))?;
            report.closed = true;
        }
        self.file.sync_data().map_err(self.io("make durable"))
    }

    /// What the file holds. One whose tail was cut off is given its length back first, since HDF5 reads nothing behind the end: then its length
    /// as it was is returned too. Where that does not help, the file is left as it was.
    fn examine(&self) -> Result<(Found, Option<u64>), RepairError> {
        let failure = match self.describe() {
            Ok(found) => return Ok((found, None)),
            Err(failure) => failure,
        };
        let Some((length, stored)) = cut_off(&*self.file).map_err(self.io("read"))? else {
            return Err(failure.into());
        };
        self.file.set_len(stored).map_err(self.io("set the length of"))?;
        self.describe().map(|found| (found, Some(length))).or_else(|failure| {
            self.file.set_len(length).map_err(self.io("set the length of"))?;
            Err(failure.into())
        })
    }

    fn describe(&self) -> Result<Found, ReadError> {
        let reader = SeriesFile::over(Arc::clone(&self.file), self.path)?;
        Ok(Found { state: *reader.state(), seal_offset: reader.anatomy()?.seal_offset, growing: reader.growing()? })
    }

    fn set_len(&self, before: u64, length: u64, report: &mut RepairReport) -> Result<(), RepairError> {
        self.file.set_len(length).map_err(self.io("set the length of"))?;
        report.length_changed = Some((before, length));
        Ok(())
    }

    /// Sets a dataset back to its sealed rows; its index keeps what it has.
    fn cut(&self, label: String, header: u64, rows: u64, report: &mut RepairReport) -> Result<(), RepairError> {
        let failed = |error| match error {
            FormatError::Io(source) => self.io("read")(source),
            FormatError::Damaged(what) => self.damaged(what),
        };
        let header = ObjectHeader::read(self.file.as_ref(), header).map_err(failed)?;
        let before = header.rows().map_err(failed)?;
        if before > rows {
            let (address, block) = header.with_rows(rows).map_err(failed)?;
            self.file.write_all_at(&block, address).map_err(self.io("write the metadata of"))?;
            report.rows_cut.push((label, before, rows));
        }
        Ok(())
    }
}
