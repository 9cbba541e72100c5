//! Files that a command leaves: complete under their name, or not at all. They are written under a temporary name in the same
//! directory and take their own when all bytes are in; an error removes the temporary file and leaves an older one as it was.

use crate::failure::Failure;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::{Builder, NamedTempFile};

/// What to do with a file that has the name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Older {
    /// Put the new one in its place.
    Replace,
    /// Leave it and fail.
    Keep,
}

/// A file being written; dropped unfinished, it leaves nothing.
pub struct NewFile {
    out: BufWriter<NamedTempFile>,
}

impl NewFile {
    /// Begins a file that is to be called `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // As any new file: the umask takes away what others may not.
        let named =
            Builder::new().prefix(".afflux-").permissions(Permissions::from_mode(0o666)).tempfile_in(directory)?;
        Ok(Self { out: BufWriter::new(named) })
    }

    /// Gives the complete file its name, which is that of [`NewFile::create`].
    pub fn finish(self, path: &Path, older: Older) -> io::Result<()> {
        let named = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let renamed: Result<File, _> = match older {
            // A link stays one: what it leads to is replaced.
            Older::Replace => named.persist(fs::canonicalize(path).as_deref().unwrap_or(path)),
            Older::Keep => named.persist_noclobber(path),
        };
        renamed.map(drop).map_err(|failed| failed.error)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a text in the place of an older one.
pub fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let written = NewFile::create(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.finish(path, Older::Replace)
    });
    written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

/// Refuses to write over what is read.
pub fn check_apart(input: &Path, output: &Path) -> Result<(), Failure> {
    match (fs::canonicalize(input), fs::canonicalize(output)) {
        (Ok(read), Ok(written)) if read == written => {
            Err(Failure::usage(format!("{} is the file that is read; give --output another name", output.display())))
        }
        _ => Ok(()),
    }
}
