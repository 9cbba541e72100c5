//! A storage that keeps every change of a file in order, and what a kill after any of them leaves.

use afflux_storage::{MemoryStorage, OpenMode, Storage, StorageFile};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A change of the one file under test.
#[derive(Clone)]
pub enum Change {
    Write {
        offset: u64,
        bytes: Vec<u8>,
    },
    Length(u64),
    /// Not a change: what the writer has just promised, rows by set.
    Sealed(Vec<u64>),
}

pub type Log = Arc<Mutex<Vec<Change>>>;

/// Passes everything on and writes the log.
pub struct Recording {
    pub inner: MemoryStorage,
    pub log: Log,
}

struct RecordingFile {
    inner: Arc<dyn StorageFile>,
    log: Log,
}

impl Storage for Recording {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(RecordingFile { inner: self.inner.open(path, mode)?, log: self.log.clone() }))
    }
    fn rename_no_clobber(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename_no_clobber(from, to)
    }
    fn rename_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename_replace(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.inner.sync_directory(directory)
    }
}

impl StorageFile for RecordingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = self.inner.write_at(bytes, offset)?;
        self.log.lock().unwrap().push(Change::Write { offset, bytes: bytes[..written].to_vec() });
        Ok(written)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.inner.set_len(length)?;
        self.log.lock().unwrap().push(Change::Length(length));
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }
    fn try_lock_exclusive(&self) -> io::Result<bool> {
        self.inner.try_lock_exclusive()
    }
}

pub fn apply(file: &std::fs::File, change: &Change) {
    match change {
        Change::Write { offset, bytes } => file.write_all_at(bytes, *offset).unwrap(),
        Change::Length(length) => file.set_len(*length).unwrap(),
        Change::Sealed(_) => {}
    }
}
