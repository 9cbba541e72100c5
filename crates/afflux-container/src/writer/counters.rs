//! How many writes the container made, and of how many bytes, by purpose.

use afflux_storage::{StorageFile, StorageFileExt};
use std::io;

/// Writes of one purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteCount {
    /// Calls to the storage.
    pub writes: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// What the container wrote through its storage; the samples, which others write, are not in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerCounters {
    /// The whole new file.
    pub create: WriteCount,
    /// The superblock, whose stored end runs ahead of the metadata.
    pub superblock: WriteCount,
    /// Checksums of columns.
    pub checksums: WriteCount,
    /// HDF5's metadata, let go at seals and at close.
    pub metadata: WriteCount,
    /// Seal slots.
    pub seals: WriteCount,
    /// Changes of the file's length.
    pub length_changes: u64,
    /// Waits for the medium.
    pub syncs: u64,
}

impl ContainerCounters {
    /// All writes together.
    #[must_use]
    pub fn total(&self) -> WriteCount {
        [self.create, self.superblock, self.checksums, self.metadata, self.seals].iter().fold(
            WriteCount::default(),
            |sum, part| WriteCount { writes: sum.writes + part.writes, bytes: sum.bytes + part.bytes },
        )
    }
}

/// Writes all of `bytes` and counts it.
pub(super) fn put(file: &dyn StorageFile, count: &mut WriteCount, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)?;
    count.writes += 1;
    count.bytes += bytes.len() as u64;
    Ok(())
}
