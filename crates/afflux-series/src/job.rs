//! A window on its way to the file: its blocks are put together and written, on whatever thread the job is given to.
//!
//! Blocks are made and written a stretch at a time, so that a stretch is still in the cache when the kernel copies it, and
//! so that memory for blocks stays small however long the window is. Leaves to others: which rows and where (the job is told),
//! messages between ranks, and the verdict.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use afflux_plan::Extents;
use afflux_storage::{StorageFile, StorageFileExt};

use crate::buffer::Buffer;
use crate::layout::{Layout, Segment};
use crate::window::Window;

/// Blocks put together before they are written: a part of a second-level cache, and enough for a call to the kernel not to matter.
pub(crate) const STRETCH_BYTES: usize = 512 << 10;

/// One set's rows.
pub(crate) struct Part {
    pub layout: Arc<Layout>,
    pub window: Window,
}

/// What is to be written.
pub(crate) struct Job {
    /// Indexed by set.
    pub parts: Vec<Part>,
    /// Ascending in the file.
    pub segments: Vec<Segment>,
    /// `(set, column)` of all that is written by any rank, ascending.
    pub columns: Vec<(usize, u64)>,
    /// Where blocks are put together; grown as needed and kept from job to job.
    pub staging: Buffer,
    /// Whether the medium is to have them before the job is done.
    pub is_durable: bool,
}

/// A write that failed.
#[derive(Debug)]
pub(crate) struct WriteFailure {
    pub offset: u64,
    pub length_bytes: u64,
    pub error: io::Error,
}

/// What became of a job.
pub(crate) struct Done {
    pub job: Job,
    /// Checksums of this rank's part of each of `job.columns`.
    pub checksums: Vec<u64>,
    pub outcome: Result<(), JobError>,
    /// Writes made, each one system call unless it is short.
    pub file_calls: u64,
    /// Time spent on putting blocks together.
    pub transposing: Duration,
    /// Time spent in the file.
    pub writing: Duration,
}

/// Why a job is not done.
#[derive(Debug)]
pub(crate) enum JobError {
    /// There is no memory for so many bytes of blocks.
    Memory {
        bytes: u64,
        source: io::Error,
    },
    Write(WriteFailure),
    /// The blocks are written, and perhaps not on the medium.
    Sync(io::Error),
}

/// Blocks put together and not written yet: `filled` bytes of the staging buffer that end at `end` in the file.
struct Stretch {
    filled: usize,
    end: u64,
}

impl Job {
    /// Puts all blocks together and writes them to `file`.
    pub fn write(mut self, file: &dyn StorageFile) -> Done {
        let mut done = Done::of(&self);
        let total: usize = self.segments.iter().map(|segment| segment.bytes).sum();
        let block_max = self.parts.iter().map(|part| part.layout.block_bytes_max()).max().unwrap_or(0);
        done.outcome = self
            .reserve(total.min(STRETCH_BYTES.max(block_max)))
            .and_then(|()| self.write_stretches(file, &mut done).map_err(JobError::Write))
            .and_then(|()| if self.is_durable { done.sync(file) } else { Ok(()) });
        done.job = self;
        done
    }

    fn write_stretches(&mut self, file: &dyn StorageFile, done: &mut Done) -> Result<(), WriteFailure> {
        let begin = Instant::now();
        let mut stretch = Stretch { filled: 0, end: 0 };
        for segment in &self.segments {
            let Part { layout, window } = &self.parts[segment.set()];
            for piece in layout.cut(segment, self.staging.len()) {
                if piece.offset != stretch.end || stretch.filled + piece.bytes > self.staging.len() {
                    stretch.write(file, &self.staging, done)?;
                    stretch.end = piece.offset;
                }
                let payload = &mut self.staging[stretch.filled..stretch.filled + piece.bytes];
                let checksum = layout.fill(&piece, window, payload);
                add_checksum(&self.columns, &piece, checksum, &mut done.checksums);
                stretch.filled += piece.bytes;
                stretch.end += piece.bytes as u64;
            }
        }
        let written = stretch.write(file, &self.staging, done);
        done.transposing = begin.elapsed().saturating_sub(done.writing);
        written
    }

    /// Puts all blocks together, one after another in the staging buffer. Returns where they belong in the file.
    pub fn stage(mut self) -> (Done, Extents) {
        let begin = Instant::now();
        let mut done = Done::of(&self);
        let mut extents = Extents::new();
        done.outcome = self.reserve(self.segments.iter().map(|segment| segment.bytes).sum());
        if done.outcome.is_ok() {
            let mut rest = &mut self.staging[..];
            for segment in &self.segments {
                let Part { layout, window } = &self.parts[segment.set()];
                let (payload, behind) = rest.split_at_mut(segment.bytes);
                rest = behind;
                layout.extents(segment, &mut extents);
                let checksum = layout.fill(segment, window, payload);
                add_checksum(&self.columns, segment, checksum, &mut done.checksums);
            }
        }
        done.transposing = begin.elapsed();
        done.job = self;
        (done, extents)
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), JobError> {
        if self.staging.len() < bytes {
            let memory = |source| JobError::Memory { bytes: bytes as u64, source };
            self.staging = Buffer::zeroed(bytes).map_err(memory)?;
        }
        Ok(())
    }
}

impl Done {
    fn of(job: &Job) -> Self {
        let empty = Job {
            parts: Vec::new(),
            segments: Vec::new(),
            columns: Vec::new(),
            staging: Buffer::Heap(Vec::new()),
            is_durable: job.is_durable,
        };
        Self {
            job: empty,
            checksums: vec![0; job.columns.len()],
            outcome: Ok(()),
            file_calls: 0,
            transposing: Duration::ZERO,
            writing: Duration::ZERO,
        }
    }

    /// Waits until the medium has what this process has written to `file`, by this job and before it. A rank without blocks waits too: it may
    /// have rewritten rows.
    pub fn sync(&mut self, file: &dyn StorageFile) -> Result<(), JobError> {
        let begin = Instant::now();
        let synced = file.sync_data().map_err(JobError::Sync);
        self.writing += begin.elapsed();
        synced
    }
}

impl Stretch {
    /// Writes what is there, and is empty.
    fn write(&mut self, file: &dyn StorageFile, staging: &[u8], done: &mut Done) -> Result<(), WriteFailure> {
        let length_bytes = std::mem::take(&mut self.filled);
        if length_bytes == 0 {
            return Ok(());
        }
        let begin = Instant::now();
        let offset = self.end - length_bytes as u64;
        let written = file.write_all_at(&staging[..length_bytes], offset);
        done.writing += begin.elapsed();
        done.file_calls += 1;
        written.map_err(|error| WriteFailure { offset, length_bytes: length_bytes as u64, error })
    }
}

fn add_checksum(columns: &[(usize, u64)], segment: &Segment, checksum: u64, checksums: &mut [u64]) {
    let slot = columns.binary_search(&(segment.set(), segment.column())).expect("every column written is listed");
    checksums[slot] = checksums[slot].wrapping_add(checksum);
}
