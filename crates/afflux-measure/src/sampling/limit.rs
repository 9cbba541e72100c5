//! The limit: one process that writes the same number of bytes in one call to one file.

use super::phases::{Phase, Stopwatch};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Creates the file, writes `bytes` and closes it.
pub fn write(path: &Path, bytes: &[u8], watch: &mut Stopwatch) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    watch.lap(Phase::Create);
    file.write_all(bytes)?;
    watch.lap(Phase::Write);
    drop(file);
    watch.lap(Phase::Close);
    Ok(())
}

/// Reads the file back.
pub fn verify(path: &Path, bytes: &[u8]) -> Result<(), String> {
    match fs::read(path) {
        Ok(found) if found == bytes => Ok(()),
        Ok(_) => Err(format!("{} does not hold what was written", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
