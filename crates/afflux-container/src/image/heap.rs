//! Global heap collections: what variable-length values refer to.
//!
//! HDF5 File Format Specification 3.0, section III.E; `reader::heap` draws the layout. The end of a collection that holds no
//! object is one of index 0, whose length counts its own header; fewer than 16 bytes are left alone.

/// Bytes of an element: length (u32), address of the collection (u64), index of the object (u32).
pub(super) const ELEMENT_BYTES: usize = 16;
const HEADER_BYTES: usize = 16;
/// HDF5 reads this much of a collection before it knows the length.
const COLLECTION_BYTES_MIN: usize = 4096;
/// A collection is read as a whole; with objects of at least 16 bytes, its indices stay far below the limit of 65,535.
const COLLECTION_BYTES_MAX: usize = 64 * 1024;

/// Collections one after another, behind what a buffer has already.
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

    /// A heap at the end of a file that is being laid out.
    pub(super) fn at_end_of(file: Vec<u8>) -> Self {
        Self { address: 0, start: file.len(), bytes: file, index: 0 }
    }

    /// Stores an object and returns the element that refers to it as `values` values.
    pub(super) fn element(&mut self, object: &[u8], values: usize) -> [u8; ELEMENT_BYTES] {
        let object_bytes = HEADER_BYTES + object.len().next_multiple_of(8);
        if self.index > 0 && self.bytes.len() - self.start + object_bytes > COLLECTION_BYTES_MAX {
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

    /// The buffer with all collections; as it was if nothing was stored.
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
