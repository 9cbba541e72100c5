//! The conformance suite on every storage of this crate.

use std::path::Path;

use afflux_storage::{MemoryStorage, PosixStorage, conformance};

#[test]
fn posix_conforms() {
    let directory = tempfile::tempdir().unwrap();
    conformance::run_all(&PosixStorage::new(), directory.path());
}

#[test]
fn memory_conforms() {
    conformance::run_all(&MemoryStorage::new(), Path::new("anywhere"));
}
