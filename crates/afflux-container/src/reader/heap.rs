//! Texts of variable length, read from HDF5's global heap by ourselves.
//!
//! The global heap is the one structure of the file that carries no checksum, and HDF5 (1.10 at least) believes what it says
//! of its own lengths: one flipped bit makes it read past the end of memory. So the names of the points are taken from the heap
//! here, with every length checked. HDF5 File Format Specification 3.0, section III.E: a collection is `GCOL`, version 1, three
//! bytes, its length (u64); then objects: index (u16, 0 for the free space at the end), references (u16), four bytes, length
//! (u64), the bytes padded to 8. An element of the dataset is a length (u32), the collection's address (u64), an index (u32).

use crate::format::FormatError;
use afflux_storage::{StorageFile, StorageFileExt};
use std::collections::HashMap;

const COLLECTION_HEADER_BYTES: usize = 16;
const OBJECT_HEADER_BYTES: usize = 16;
/// Bytes of an element in the dataset.
pub(super) const ELEMENT_BYTES: usize = 16;

/// Reads texts out of the heap of one file.
pub(super) struct Heap<'file> {
    file: &'file dyn StorageFile,
    file_bytes: u64,
    /// Bytes of collections read; more than the file has means that they overlap.
    read_bytes: u64,
    /// By address.
    collections: HashMap<u64, Collection>,
}

struct Collection {
    bytes: Vec<u8>,
    /// Range of each object's bytes, by index.
    objects: HashMap<u32, std::ops::Range<usize>>,
}

impl<'file> Heap<'file> {
    pub fn new(file: &'file dyn StorageFile, file_bytes: u64) -> Self {
        Self { file, file_bytes, read_bytes: 0, collections: HashMap::new() }
    }

    /// The text that an element of a dataset points to.
    pub fn text(&mut self, element: &[u8; ELEMENT_BYTES]) -> Result<String, FormatError> {
        let length = word32(&element[0..4]);
        let address = word64(&element[4..12]);
        let index = word32(&element[12..16]);
        if length == 0 {
            return Ok(String::new());
        }
        if !self.collections.contains_key(&address) {
            let collection = self.read_collection(address)?;
            self.collections.insert(address, collection);
        }
        let collection = &self.collections[&address];
        let bytes = collection
            .objects
            .get(&index)
            .map(|range| &collection.bytes[range.clone()])
            .and_then(|bytes| bytes.get(..usize::try_from(length).ok()?))
            .ok_or_else(|| {
                FormatError::Damaged(format!("the heap at {address} has no object {index} of {length} bytes"))
            })?;
        let text = std::str::from_utf8(bytes)
            .map_err(|_| FormatError::Damaged(format!("object {index} of the heap at {address} is no text")))?;
        Ok(text.trim_end_matches('\0').to_owned())
    }

    fn read_collection(&mut self, address: u64) -> Result<Collection, FormatError> {
        let broken = |what: &str| FormatError::Damaged(format!("the heap at {address} {what}"));
        let mut header = [0; COLLECTION_HEADER_BYTES];
        self.read(&mut header, address)?;
        if header[..5] != *b"GCOL\x01" {
            return Err(broken("has no signature"));
        }
        let length = word64(&header[8..16]);
        self.read_bytes = self.read_bytes.saturating_add(length);
        if self.read_bytes > self.file_bytes {
            return Err(broken("is longer than the file"));
        }
        let length = usize::try_from(length).map_err(|_| broken("is too long"))?;
        let mut bytes = vec![0; length];
        self.read(&mut bytes, address)?;
        let objects = objects(&bytes).ok_or_else(|| broken("has objects that do not fit into it"))?;
        Ok(Collection { bytes, objects })
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), FormatError> {
        read_exact_at(self.file, bytes, offset)
    }
}

/// Fills the buffer; a file that ends before is an error.
pub(super) fn read_exact_at(file: &dyn StorageFile, bytes: &mut [u8], offset: u64) -> Result<(), FormatError> {
    // An offset that no file reaches is an error of its own to the operating system.
    let within = offset.checked_add(bytes.len() as u64).is_some_and(|end| end <= i64::MAX as u64);
    if !within || file.read_full_at(bytes, offset)? < bytes.len() {
        return Err(FormatError::Damaged("the file ends before what refers to it".into()));
    }
    Ok(())
}

/// Walks the objects of a collection; `None` when they do not fit.
fn objects(bytes: &[u8]) -> Option<HashMap<u32, std::ops::Range<usize>>> {
    let mut objects = HashMap::new();
    let mut at = COLLECTION_HEADER_BYTES;
    while bytes.len().saturating_sub(at) >= OBJECT_HEADER_BYTES {
        let index = u32::from(bytes[at]) | u32::from(bytes[at + 1]) << 8;
        if index == 0 {
            break;
        }
        let length = usize::try_from(word64(&bytes[at + 8..at + 16])).ok()?;
        let start = at + OBJECT_HEADER_BYTES;
        let end = start.checked_add(length).filter(|&end| end <= bytes.len())?;
        objects.insert(index, start..end);
        at = start.checked_add(length.checked_next_multiple_of(8)?)?;
    }
    Some(objects)
}

fn word32(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

fn word64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::{Heap, objects};
    use afflux_storage::{MemoryStorage, OpenMode, Storage, StorageFileExt};

    fn collection(texts: &[&str]) -> Vec<u8> {
        let mut bytes = b"GCOL\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        for (index, text) in (1_u16..).zip(texts) {
            bytes.extend(index.to_le_bytes());
            bytes.extend([1, 0, 0, 0, 0, 0]);
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes.resize(bytes.len() + 32, 0);
        let length = bytes.len() as u64;
        bytes[8..16].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    fn element(length: u32, index: u32) -> [u8; 16] {
        let mut element = [0; 16];
        element[..4].copy_from_slice(&length.to_le_bytes());
        element[12..].copy_from_slice(&index.to_le_bytes());
        element
    }

    #[test]
    fn texts_come_out_as_they_went_in() {
        let bytes = collection(&["a", "caf\u{e9} au lait", ""]);
        let file = MemoryStorage::new().open("heap".as_ref(), OpenMode::CreateNew).expect("a file");
        file.write_all_at(&bytes, 0).expect("written");
        let mut heap = Heap::new(&*file, bytes.len() as u64);
        assert_eq!(heap.text(&element(1, 1)).ok().as_deref(), Some("a"));
        assert_eq!(heap.text(&element(13, 2)).ok().as_deref(), Some("caf\u{e9} au lait"));
        assert_eq!(heap.text(&element(0, 0)).ok().as_deref(), Some(""));
        assert!(heap.text(&element(2, 1)).is_err());
        assert!(heap.text(&element(1, 9)).is_err());
        assert!(Heap::new(&*file, 20).text(&element(1, 1)).is_err());
    }

    #[test]
    fn no_byte_of_a_heap_is_believed() {
        let whole = collection(&["first", "second"]);
        for at in 0..whole.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                // Whatever it says, the ranges lie within it.
                let objects = objects(&bytes).unwrap_or_default();
                assert!(objects.values().all(|range| range.end <= bytes.len()));
            }
        }
    }
}
