//! How much a seal waits for the medium.
//!
//! The order of a seal is one of writes, which a process that dies does not disturb. A power failure does: what was not synced may be on the medium or
//! not, in any order. So at [`Durability::PowerLoss`] a sync stands wherever one part of a seal must not get ahead of another:
//!
//! - before the superblock: samples and length (a superblock that states more than the length makes the file unreadable);
//! - before the chunk index: superblock and announcement, where there are any (an index that reaches space which no slot announces);
//! - before each level of the chunk index: the level it points at (a resumed writer trusts what an index reaches);
//! - before the object headers: the chunk index (an extent without chunks);
//! - before the seal slot: headers and checksums;
//! - after it, so that [`ContainerWriter::seal`] returns when the rows are safe.
//!
//! Within each part any subset may be on the medium. A single write is assumed to be there whole or not at all, as long as it stays within a
//! page of 4 KiB; the object headers of many datasets may take several.

use super::{ContainerWriter, WriteError};
use afflux_storage::Storage;
use std::path::Path;

/// What sealed rows survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The death of any process, at any instant: nothing waits for the medium. After a power failure the file may be anything that was
    /// ever written to it in any order; the checksums tell.
    #[default]
    ProcessCrash,
    /// A power failure too: three syncs a seal, and up to four more where columns were added. Samples that other processes wrote must be synced by them (each on its own handle)
    /// before the seal.
    PowerLoss,
}

impl ContainerWriter {
    /// Sets what the rows sealed from now on survive. For [`Durability::PowerLoss`] all that was written so far, and the file's name, are
    /// made durable first.
    ///
    /// # Errors
    /// [`WriteError`]; the writer then refuses further work.
    pub fn set_durability(&mut self, storage: &dyn Storage, durability: Durability) -> Result<(), WriteError> {
        self.refuse_if_failed()?;
        self.durability = durability;
        let synced = self.sync().and_then(|()| {
            if durability == Durability::ProcessCrash {
                return Ok(());
            }
            let directory = self.path.parent().unwrap_or(Path::new(""));
            storage.sync_directory(directory).map_err(|error| self.io_error("make durable the name of", error))
        });
        self.remember_failure(synced)
    }

    /// Waits for the medium, if that was asked for.
    pub(super) fn sync(&mut self) -> Result<(), WriteError> {
        if self.durability == Durability::ProcessCrash {
            return Ok(());
        }
        self.counters.syncs += 1;
        self.file.sync_data().map_err(|error| self.io_error("make durable", error))
    }
}
