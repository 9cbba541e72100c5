//! What the driver knows of one open file, shared between HDF5's callbacks and the writer.

use super::held::{HeldBlock, HeldBlocks, MEMORY_RAW};
use super::superblock::Superblock;
use afflux_storage::{StorageFile, StorageFileExt};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where HDF5's writes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Into an image in memory.
    Building,
    /// Into the held blocks, which lie over the storage file.
    Held,
    /// Nowhere.
    Dead,
}

/// Space for raw data that HDF5 took at the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// Where it begins.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The state of one file.
pub(crate) struct DriverState {
    mode: Mode,
    image: Vec<u8>,
    held: HeldBlocks,
    file: Option<Arc<dyn StorageFile>>,
    end_of_allocation: u64,
    /// Where a file that was not built by us ends: HDF5 asks before it has learnt the end of allocation.
    opened_end: u64,
    raw_allocations: Vec<Allocation>,
    /// Where the next chunks shall be, in the order in which they will be asked for; `None` where it does not matter.
    offers: VecDeque<Option<u64>>,
    /// Unused space below the end of allocation, for chunks.
    gaps: Vec<Range<u64>>,
    read_fault: Option<io::Error>,
}

impl DriverState {
    fn place_of_chunk(&mut self, bytes: u64) -> Option<u64> {
        if let Some(Some(offset)) = self.offers.pop_front() {
            return Some(offset);
        }
        let gap = self.gaps.iter_mut().find(|gap| gap.end - gap.start >= bytes)?;
        let offset = gap.start;
        gap.start += bytes;
        Some(offset)
    }
}

/// The handle that both sides keep. The lock is never held across a call into HDF5.
#[derive(Clone)]
pub(crate) struct SharedState(Arc<Mutex<DriverState>>);

impl SharedState {
    /// A file that is about to be built.
    pub(crate) fn building() -> Self {
        Self::with_image(Vec::new(), 0)
    }

    /// A file of `length` bytes that is laid out already and waits to be opened; `image` is as much of it as HDF5 needs to see.
    pub(crate) fn with_image(image: Vec<u8>, length: u64) -> Self {
        Self(Arc::new(Mutex::new(DriverState {
            mode: Mode::Building,
            end_of_allocation: length,
            opened_end: length,
            image,
            held: HeldBlocks::default(),
            file: None,
            raw_allocations: Vec::new(),
            offers: VecDeque::new(),
            gaps: Vec::new(),
            read_fault: None,
        })))
    }

    /// A file that exists and ends at `end` for HDF5, whose writes are held over it.
    pub(crate) fn over(file: Arc<dyn StorageFile>, end: u64) -> Self {
        let state = Self::building();
        {
            let mut inner = state.lock();
            inner.mode = Mode::Held;
            inner.file = Some(file);
            inner.opened_end = end;
        }
        state
    }

    /// As [`SharedState::over`], with another superblock shown to HDF5 than the medium has.
    pub(crate) fn resumed(file: Arc<dyn StorageFile>, superblock: &Superblock, end: u64) -> Self {
        let state = Self::over(file, end);
        state.lock().held.insert(0, superblock);
        state
    }

    fn lock(&self) -> MutexGuard<'_, DriverState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is nothing yet that could be opened.
    pub(super) fn is_blank(&self) -> bool {
        let state = self.lock();
        state.mode == Mode::Building && state.image.is_empty()
    }

    /// Where the file ends for HDF5. While it opens one it has not learnt the end of allocation and must find the bytes.
    pub(super) fn end_of_file(&self) -> u64 {
        let state = self.lock();
        state.end_of_allocation.max(state.image.len() as u64).max(state.opened_end)
    }

    /// From now on HDF5's writes go nowhere.
    pub(crate) fn kill(&self) {
        let mut state = self.lock();
        state.mode = Mode::Dead;
        state.held.take();
        state.image = Vec::new();
    }

    /// The image of the built file, cut or filled to the allocated length.
    pub(crate) fn take_image(&self) -> Vec<u8> {
        let mut state = self.lock();
        let mut image = std::mem::take(&mut state.image);
        image.resize(usize::try_from(state.end_of_allocation).unwrap_or(image.len()), 0);
        image
    }

    /// The image as it is.
    pub(crate) fn take_head(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock().image)
    }

    /// Ends the building: `file` holds the image, and later writes are held over it.
    pub(crate) fn hold_over(&self, file: Arc<dyn StorageFile>) {
        let mut state = self.lock();
        state.mode = Mode::Held;
        state.file = Some(file);
        state.raw_allocations.clear();
    }

    /// The held blocks, by offset; they count as written.
    pub(crate) fn take_held(&self) -> Vec<HeldBlock> {
        self.lock().held.take()
    }

    /// The raw data space taken since the last call, in the order it was taken.
    pub(crate) fn take_allocations(&self) -> Vec<Allocation> {
        std::mem::take(&mut self.lock().raw_allocations)
    }

    /// One past the last byte that HDF5 has given to anything.
    pub(crate) fn end_of_allocation(&self) -> u64 {
        self.lock().end_of_allocation
    }

    /// The storage error that made HDF5's last read fail, if one did.
    pub(crate) fn take_read_fault(&self) -> Option<io::Error> {
        self.lock().read_fault.take()
    }

    /// The places of the chunks that HDF5 is about to ask for.
    pub(crate) fn offer(&self, places: impl IntoIterator<Item = Option<u64>>) {
        self.lock().offers = places.into_iter().collect();
    }

    /// Unused space that chunks may have before the file grows.
    pub(crate) fn set_gaps(&self, gaps: Vec<Range<u64>>) {
        self.lock().gaps = gaps;
    }

    /// HDF5 asks for space. Chunks go where a writer before had them, else into gaps, else to the end, as all metadata does.
    pub(super) fn allocate(&self, memory_type: i32, bytes: u64) -> u64 {
        let mut state = self.lock();
        let raw = memory_type == MEMORY_RAW;
        let place = if raw { state.place_of_chunk(bytes) } else { None };
        let offset = place.unwrap_or(state.end_of_allocation);
        if place.is_none() {
            state.end_of_allocation += bytes;
        }
        if raw {
            state.raw_allocations.push(Allocation { offset, bytes });
        }
        offset
    }

    /// HDF5 moves the end of the allocated space; the type of the growth tells raw data from metadata.
    pub(super) fn set_end_of_allocation(&self, memory_type: i32, end: u64) {
        let mut state = self.lock();
        let before = state.end_of_allocation;
        if memory_type == MEMORY_RAW && end > before {
            state.raw_allocations.push(Allocation { offset: before, bytes: end - before });
        }
        state.end_of_allocation = end;
    }

    /// A read by HDF5; bytes past the end read as zeros. Returns whether it worked.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> bool {
        let mut state = self.lock();
        let done = match (state.mode, &state.file) {
            (Mode::Building, _) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(state.image.len());
                let count = buffer.len().min(state.image.len() - from);
                buffer[..count].copy_from_slice(&state.image[from..from + count]);
                Ok(count)
            }
            (_, Some(file)) => file.read_full_at(buffer, offset),
            (_, None) => Ok(0),
        };
        match done {
            Ok(count) => {
                buffer[count..].fill(0);
                state.held.overlay(buffer, offset);
                true
            }
            Err(error) => {
                state.read_fault = Some(error);
                false
            }
        }
    }

    /// A write by HDF5. Returns whether it worked.
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> bool {
        let mut state = self.lock();
        match state.mode {
            Mode::Building => {
                let Ok(from) = usize::try_from(offset) else { return false };
                let end = from + bytes.len();
                if state.image.len() < end {
                    state.image.resize(end, 0);
                }
                state.image[from..end].copy_from_slice(bytes);
            }
            Mode::Held => state.held.insert(offset, bytes),
            Mode::Dead => {}
        }
        true
    }
}
