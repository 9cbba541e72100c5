//! Transfers between memory and the file: pieces that touch in the file are written in one call, wherever they lie in
//! memory.

use std::io::{self, IoSlice};
use std::time::Instant;

use afflux_plan::{ByteRange, Extents};
use afflux_storage::{StorageFile, StorageFileExt};

use crate::Work;
use crate::error::{IoOperation, LocalFailure};
use crate::memory::{Source, Target};

/// Slices gathered into one call: Linux takes no more.
const SLICES_PER_CALL_MAX: usize = 1024;

/// Nanoseconds since `since`.
pub(crate) fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Writes pieces given in ascending order, gathering those that touch.
pub(crate) struct GatherWriter<'a> {
    file: &'a dyn StorageFile,
    offset: u64,
    end: u64,
    slices: Vec<IoSlice<'a>>,
}

impl<'a> GatherWriter<'a> {
    pub(crate) fn new(file: &'a dyn StorageFile) -> Self {
        Self { file, offset: 0, end: 0, slices: Vec::new() }
    }

    pub(crate) fn push(&mut self, offset: u64, bytes: &'a [u8], work: &mut Work) -> Result<(), LocalFailure> {
        if !self.slices.is_empty() && (offset != self.end || self.slices.len() == SLICES_PER_CALL_MAX) {
            self.flush(work)?;
        }
        if self.slices.is_empty() {
            self.offset = offset;
        }
        self.slices.push(IoSlice::new(bytes));
        self.end = offset + bytes.len() as u64;
        Ok(())
    }

    /// Writes what is gathered.
    pub(crate) fn flush(&mut self, work: &mut Work) -> Result<(), LocalFailure> {
        let result = match self.slices.as_mut_slice() {
            [] => return Ok(()),
            [one] => self.file.write_all_at(one, self.offset),
            many => self.file.write_all_vectored_at(many, self.offset),
        };
        self.slices.clear();
        let length_bytes = self.end - self.offset;
        work.file_calls += 1;
        result.map_err(|error| failure(IoOperation::Write, self.offset, length_bytes, error))?;
        work.file_bytes += length_bytes;
        Ok(())
    }
}

fn failure(operation: IoOperation, offset: u64, length_bytes: u64, error: io::Error) -> LocalFailure {
    LocalFailure::Io { operation, offset, length_bytes, error }
}

/// Writes all of `bytes` at `offset`.
pub(crate) fn write(file: &dyn StorageFile, offset: u64, bytes: &[u8], work: &mut Work) -> Result<(), LocalFailure> {
    work.file_calls += 1;
    file.write_all_at(bytes, offset).map_err(|error| failure(IoOperation::Write, offset, bytes.len() as u64, error))?;
    work.file_bytes += bytes.len() as u64;
    Ok(())
}

/// Fills `buffer` from `offset`; returns how many bytes the file had.
pub(crate) fn read_what_is_there(
    file: &dyn StorageFile,
    offset: u64,
    buffer: &mut [u8],
    work: &mut Work,
) -> Result<usize, LocalFailure> {
    work.file_calls += 1;
    let length_bytes = buffer.len() as u64;
    let read =
        file.read_full_at(buffer, offset).map_err(|error| failure(IoOperation::Read, offset, length_bytes, error))?;
    work.file_bytes += read as u64;
    Ok(read)
}

/// Fills `buffer` from `offset`; the end of the file before its end is an error.
pub(crate) fn read(
    file: &dyn StorageFile,
    offset: u64,
    buffer: &mut [u8],
    work: &mut Work,
) -> Result<(), LocalFailure> {
    let read = read_what_is_there(file, offset, buffer, work)?;
    if read < buffer.len() {
        let error = io::Error::new(io::ErrorKind::UnexpectedEof, format!("the file ends after {read} of these bytes"));
        return Err(failure(IoOperation::Read, offset, buffer.len() as u64, error));
    }
    Ok(())
}

/// Writes a rank's own pieces from its own memory.
pub(crate) fn write_own(
    file: &dyn StorageFile,
    extents: &Extents,
    source: &Source<'_>,
    work: &mut Work,
) -> Result<(), LocalFailure> {
    let begin = Instant::now();
    let mut writer = GatherWriter::new(file);
    let mut done = 0;
    let mut all = || {
        for (mut offset, length) in extents.pieces() {
            for part in source.parts(ByteRange::new(done, done + length)) {
                writer.push(offset, part, work)?;
                offset += part.len() as u64;
            }
            done += length;
        }
        writer.flush(work)
    };
    let result = all();
    work.file_nanoseconds += nanoseconds(begin);
    result
}

/// Reads a rank's own pieces into its own memory.
pub(crate) fn read_own(
    file: &dyn StorageFile,
    extents: &Extents,
    target: &mut Target<'_, '_>,
    work: &mut Work,
) -> Result<(), LocalFailure> {
    let begin = Instant::now();
    let mut done = 0;
    let mut result = Ok(());
    for (mut offset, length) in extents.pieces() {
        target.stretches(ByteRange::new(done, done + length), |stretch| {
            for piece in stretch.span.chunks_mut(stretch.stride) {
                if result.is_ok() {
                    result = read(file, offset, &mut piece[..stretch.length], work);
                }
                offset += stretch.length as u64;
            }
        });
        done += length;
        if result.is_err() {
            break;
        }
    }
    work.file_nanoseconds += nanoseconds(begin);
    result
}
