//! Transfers between memory and the file: pieces that touch in the file are written in one call, wherever they lie in
//! memory.

use std::io::{self, IoSlice};
use std::time::Instant;

use afflux_plan::{ByteRange, Extents};
use afflux_storage::{StorageFile, StorageFileExt};

use crate::Work;
use crate::error::{IoOperation, LocalFailure};
use crate::memory::{Source, Target, in_memory};

/// Slices gathered into one call: Linux takes no more.
const SLICES_PER_CALL_MAX: usize = 1024;

/// Memory in pieces of up to this mean length is gathered in a stage before it is written: an entry of a vectored call costs about as
/// much as copying these bytes.
const STAGED_WRITE_PIECE_BYTES_MAX: u64 = 512;
/// The same for reads, where every piece would be a call of its own.
const STAGED_READ_PIECE_BYTES_MAX: u64 = 8 << 10;
/// The stage stays in a core's cache, and is long enough that calls do not count.
const STAGE_BYTES: u64 = 128 << 10;

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

/// Whether one piece of the file is moved through a stage: where its memory is in pieces that are short in the mean.
fn is_staged(payload: ByteRange, piece_bytes_max: u64, piece_count: impl FnOnce() -> u64) -> bool {
    // The count of a single short piece of the file is not worth asking for.
    payload.bytes() > piece_bytes_max && payload.bytes() / piece_count().max(1) <= piece_bytes_max
}

/// A payload cut into parts that fit the stage.
fn staged_parts(payload: ByteRange) -> impl Iterator<Item = ByteRange> {
    let step = usize::try_from(STAGE_BYTES).unwrap_or(usize::MAX);
    (payload.start..payload.end)
        .step_by(step)
        .map(move |start| ByteRange::new(start, payload.end.min(start + STAGE_BYTES)))
}

/// Writes one piece of the file from the bytes `payload` of the source, by way of `stage`.
fn write_staged(
    file: &dyn StorageFile,
    offset: u64,
    payload: ByteRange,
    source: &Source<'_>,
    stage: &mut Vec<u8>,
    work: &mut Work,
) -> Result<(), LocalFailure> {
    for part in staged_parts(payload) {
        stage.clear();
        source.stretches(part, |stretch| {
            for piece in stretch.span.chunks(stretch.stride) {
                stage.extend_from_slice(&piece[..stretch.length]);
            }
        });
        assert_eq!(stage.len() as u64, part.bytes(), "the memory holds what the extents describe");
        work.copied_bytes += part.bytes();
        write(file, offset + (part.start - payload.start), stage, work)?;
    }
    Ok(())
}

/// Reads one piece of the file to the bytes `payload` of the target, by way of `stage`.
fn read_staged(
    file: &dyn StorageFile,
    offset: u64,
    payload: ByteRange,
    target: &mut Target<'_, '_>,
    stage: &mut Vec<u8>,
    work: &mut Work,
) -> Result<(), LocalFailure> {
    stage.resize(in_memory(STAGE_BYTES.min(payload.bytes())).max(stage.len()), 0);
    for part in staged_parts(payload) {
        let stage = &mut stage[..in_memory(part.bytes())];
        read(file, offset + (part.start - payload.start), stage, work)?;
        copy_to(target, part, stage);
        work.copied_bytes += part.bytes();
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
    let (mut done, mut stage) = (0, Vec::new());
    let mut all = || {
        for (mut offset, length) in extents.pieces() {
            let payload = ByteRange::new(done, done + length);
            done += length;
            if is_staged(payload, STAGED_WRITE_PIECE_BYTES_MAX, || source.piece_count(payload)) {
                writer.flush(work)?;
                write_staged(file, offset, payload, source, &mut stage, work)?;
                continue;
            }
            for part in source.parts(payload) {
                writer.push(offset, part, work)?;
                offset += part.len() as u64;
            }
        }
        writer.flush(work)
    };
    let result = all();
    work.file_nanoseconds += nanoseconds(begin);
    result
}

/// Holes up to this long are read along: reading 16 KiB more costs about as much as one more call.
pub(crate) const SIEVE_GAP_BYTES_MAX: u64 = 16 << 10;

/// Pieces of this length and more are read where they belong: copying them once more costs more than a call.
const SIEVE_PIECE_BYTES_MAX: u64 = 32 << 10;

/// As [`read_own`], through a buffer of at most `buffer_bytes` where short pieces lie close together ("data sieving").
pub(crate) fn read_own_sieved(
    file: &dyn StorageFile,
    extents: &Extents,
    target: &mut Target<'_, '_>,
    buffer_bytes: u64,
    work: &mut Work,
) -> Result<(), LocalFailure> {
    if extents.bytes() / extents.piece_count().max(1) >= SIEVE_PIECE_BYTES_MAX {
        return read_own(file, extents, target, work);
    }
    let begin = Instant::now();
    let mut buffer = Vec::new();
    let mut payload = 0;
    let mut pieces = extents.pieces().peekable();
    let mut result = Ok(());
    while let (Some((start, length)), Ok(())) = (pieces.next(), &result) {
        let mut group = vec![(start, length)];
        let mut end = start + length;
        while let Some((next, length)) =
            pieces.next_if(|&(next, length)| next - end <= SIEVE_GAP_BYTES_MAX && next + length - start <= buffer_bytes)
        {
            group.push((next, length));
            end = next + length;
        }
        let bytes: u64 = group.iter().map(|(_, length)| length).sum();
        if group.len() == 1 {
            result = read_piece(file, start, ByteRange::new(payload, payload + bytes), target, work);
        } else {
            buffer.resize(in_memory(end - start), 0);
            result = read(file, start, &mut buffer, work);
            let mut at = payload;
            for (offset, length) in group {
                let from = &buffer[in_memory(offset - start)..in_memory(offset - start + length)];
                copy_to(target, ByteRange::new(at, at + length), from);
                at += length;
            }
            work.copied_bytes += bytes;
        }
        payload += bytes;
    }
    work.file_nanoseconds += nanoseconds(begin);
    result
}

/// Copies `from` to the bytes `payload` of the target.
fn copy_to(target: &mut Target<'_, '_>, payload: ByteRange, from: &[u8]) {
    let mut rest = from;
    target.stretches(payload, |stretch| {
        for piece in stretch.span.chunks_mut(stretch.stride) {
            let (here, behind) = rest.split_at(stretch.length);
            piece[..stretch.length].copy_from_slice(here);
            rest = behind;
        }
    });
}

/// Reads one piece of the file to the bytes `payload` of the target.
fn read_piece(
    file: &dyn StorageFile,
    mut offset: u64,
    payload: ByteRange,
    target: &mut Target<'_, '_>,
    work: &mut Work,
) -> Result<(), LocalFailure> {
    let mut result = Ok(());
    target.stretches(payload, |stretch| {
        for piece in stretch.span.chunks_mut(stretch.stride) {
            if result.is_ok() {
                result = read(file, offset, &mut piece[..stretch.length], work);
            }
            offset += stretch.length as u64;
        }
    });
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
    let (mut done, mut stage) = (0, Vec::new());
    let result = extents.pieces().try_for_each(|(offset, length)| {
        let payload = ByteRange::new(done, done + length);
        done += length;
        if is_staged(payload, STAGED_READ_PIECE_BYTES_MAX, || target.piece_count(payload)) {
            return read_staged(file, offset, payload, target, &mut stage, work);
        }
        read_piece(file, offset, payload, target, work)
    });
    work.file_nanoseconds += nanoseconds(begin);
    result
}
