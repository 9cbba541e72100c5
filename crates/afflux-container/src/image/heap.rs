//! Global heap collections: what variable-length values refer to.
//!
//! HDF5 File Format Specification 3.0, section III.E; `reader::heap` draws the layout. The end of a collection that holds no
//! object is one of index 0, whose length counts its own header; fewer than 16 bytes are left alone.

use super::contents::{Put, Stream};
use std::io;

/// Bytes of an element: length (u32), address of the collection (u64), index of the object (u32).
pub(super) const ELEMENT_BYTES: usize = 16;
const HEADER_BYTES: usize = 16;
/// HDF5 reads this much of a collection before it knows the length.
const COLLECTION_BYTES_MIN: usize = 4096;
/// A collection is read as a whole; with objects of at least 16 bytes, its indices stay far below the limit of 65,535.
const COLLECTION_BYTES_MAX: usize = 64 * 1024;

/// Collections one after another, in one buffer.
pub(super) struct HeapWriter {
    /// Of the first byte of the buffer.
    address: u64,
    bytes: Vec<u8>,
    /// Start in `bytes` of the collection that is being filled.
    start: usize,
    /// Index of the last object; 0 while no collection is begun.
    index: u16,
}

impl HeapWriter {
    /// A heap of its own that will lie at `address`.
    pub(super) fn new(address: u64) -> Self {
        Self { address, bytes: Vec::new(), start: 0, index: 0 }
    }

    /// Stores an object and returns the element that refers to it as `values` values.
    pub(super) fn element(&mut self, object: &[u8], values: usize) -> [u8; ELEMENT_BYTES] {
        if self.ends_before(object_bytes(object.len())) {
            self.end_collection();
        }
        if self.index == 0 {
            self.bytes.extend(b"GCOL\x01\0\0\0\0\0\0\0\0\0\0\0");
        }
        self.index += 1;
        self.bytes.extend(self.index.to_le_bytes());
        // One reference.
        self.bytes.extend([1, 0, 0, 0, 0, 0]);
        self.bytes.extend((object.len() as u64).to_le_bytes());
        self.bytes.extend(object);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let mut element = [0; ELEMENT_BYTES];
        element[..4].copy_from_slice(&u32::try_from(values).unwrap_or(u32::MAX).to_le_bytes());
        element[4..12].copy_from_slice(&(self.address + self.start as u64).to_le_bytes());
        element[12..14].copy_from_slice(&self.index.to_le_bytes());
        element
    }

    /// Whether the next object begins a collection.
    fn ends_before(&self, object_bytes: usize) -> bool {
        self.index > 0 && self.bytes.len() - self.start + object_bytes > COLLECTION_BYTES_MAX
    }

    /// The buffer with all collections; empty if nothing was stored.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.end_collection();
        self.bytes
    }

    fn end_collection(&mut self) {
        if self.index == 0 {
            return;
        }
        let used = self.bytes.len() - self.start;
        let length = used.max(COLLECTION_BYTES_MIN);
        self.bytes.resize(self.start + length, 0);
        let free = length - used;
        if free >= HEADER_BYTES {
            let at = self.start + used + 8;
            self.bytes[at..at + 8].copy_from_slice(&(free as u64).to_le_bytes());
        }
        self.bytes[self.start + 8..self.start + 16].copy_from_slice(&(length as u64).to_le_bytes());
        self.start = self.bytes.len();
        self.index = 0;
    }
}

/// Bytes that an object of `length` bytes takes in a collection.
fn object_bytes(length: usize) -> usize {
    HEADER_BYTES + length.next_multiple_of(8)
}

/// How long a heap of texts becomes, without the texts.
#[derive(Default)]
pub(super) struct HeapMeasure {
    /// Bytes of the collections that are full.
    full: u64,
    /// Bytes of the one that is being filled; 0 while none is begun.
    open: usize,
}

impl HeapMeasure {
    /// One more object of `length` bytes.
    pub(super) fn add(&mut self, length: usize) {
        if self.open > 0 && self.open + object_bytes(length) > COLLECTION_BYTES_MAX {
            self.end_collection();
        }
        if self.open == 0 {
            self.open = HEADER_BYTES;
        }
        self.open += object_bytes(length);
    }

    /// The length of all collections.
    pub(super) fn finish(mut self) -> u64 {
        self.end_collection();
        self.full
    }

    fn end_collection(&mut self) {
        if self.open > 0 {
            self.full += self.open.max(COLLECTION_BYTES_MIN) as u64;
        }
        self.open = 0;
    }
}

/// A heap of texts that is written collection by collection.
pub(super) struct HeapStream {
    heap: HeapWriter,
    stream: Stream,
}

impl HeapStream {
    /// A heap at this place of the file.
    pub(super) fn at(address: u64) -> Self {
        Self { heap: HeapWriter::new(address), stream: Stream::at(address) }
    }

    /// Stores a text and returns the element that refers to it.
    pub(super) fn element(&mut self, text: &[u8], put: &mut Put<'_>) -> io::Result<[u8; ELEMENT_BYTES]> {
        if self.heap.ends_before(object_bytes(text.len())) {
            self.pass_on(put)?;
        }
        Ok(self.heap.element(text, text.len()))
    }

    /// Writes what is left.
    pub(super) fn finish(mut self, put: &mut Put<'_>) -> io::Result<()> {
        self.pass_on(put)?;
        self.stream.flush(put)
    }

    /// Ends a collection.
    fn pass_on(&mut self, put: &mut Put<'_>) -> io::Result<()> {
        self.heap.end_collection();
        self.stream.push(&self.heap.bytes, put)?;
        self.heap.bytes.clear();
        self.heap.start = 0;
        self.heap.address = self.stream.position();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is measured, streamed and built in one buffer is the same, whatever the lengths.
    #[test]
    fn a_streamed_heap_is_a_built_one() {
        for lengths in [vec![], vec![3; 10], vec![100; 3_000], vec![0, 1, 65_000, 2, 66_000, 66_000, 5]] {
            let texts: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![b'a'; length]).collect();
            let mut built = HeapWriter::new(640);
            let expected: Vec<_> = texts.iter().map(|text| built.element(text, text.len())).collect();
            let built = built.finish();
            let mut measure = HeapMeasure::default();
            lengths.iter().for_each(|&length| measure.add(length));
            assert_eq!(measure.finish(), built.len() as u64);

            let mut written = Vec::new();
            let mut put = |bytes: &[u8], offset: u64| {
                assert_eq!(offset, 640 + written.len() as u64);
                written.extend_from_slice(bytes);
                Ok(())
            };
            let mut stream = HeapStream::at(640);
            let elements: Vec<_> = texts.iter().map(|text| stream.element(text, &mut put).unwrap()).collect();
            stream.finish(&mut put).unwrap();
            assert_eq!(elements, expected);
            assert!(written == built);
        }
    }
}
