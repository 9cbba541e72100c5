//! A storage whose writes wait while its gate is closed.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use afflux_storage::{FileSystemKind, OpenMode, PosixStorage, Storage, StorageFile};

#[derive(Default)]
pub struct Gate {
    closed: Mutex<bool>,
    opens: Condvar,
}

impl Gate {
    pub fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }

    pub fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.opens.notify_all();
    }

    fn pass(&self) {
        let mut closed = self.closed.lock().unwrap();
        while *closed {
            closed = self.opens.wait(closed).unwrap();
        }
    }
}

/// The files of the operating system behind a gate.
#[derive(Clone, Default)]
pub struct GatedStorage {
    pub gate: Arc<Gate>,
    /// What the storage says of itself.
    pub kind: FileSystemKind,
}

struct GatedFile {
    inner: Arc<dyn StorageFile>,
    gate: Arc<Gate>,
    kind: FileSystemKind,
}

impl Storage for GatedStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(GatedFile { inner: PosixStorage.open(path, mode)?, gate: self.gate.clone(), kind: self.kind }))
    }
    fn rename_no_clobber(&self, from: &Path, to: &Path) -> io::Result<()> {
        PosixStorage.rename_no_clobber(from, to)
    }
    fn rename_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        PosixStorage.rename_replace(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        PosixStorage.remove(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        PosixStorage.exists(path)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        PosixStorage.sync_directory(directory)
    }
}

impl StorageFile for GatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.gate.pass();
        self.inner.write_at(bytes, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.inner.set_len(length)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }
    fn file_system(&self) -> FileSystemKind {
        self.kind
    }
    fn try_lock_exclusive(&self) -> io::Result<bool> {
        self.inner.try_lock_exclusive()
    }
}
