//! HDF5's structures as they lie in a file, read without HDF5: object headers and chunk indices.
//!
//! HDF5 has no call that tells where the chunks of a column are without searching all of them, none that sets an extent and
//! leaves the chunks alone, and none that says what a killed writer left behind an extent. All three are in a few blocks whose
//! layout the HDF5 File Format Specification 3.0 draws; every block carries a checksum, which is checked here.
//!
//! Answers for: finding and decoding; encoding one changed extent. Leaves the writing, and its order, to the writer.

mod chunk_index;
mod object_header;

pub(crate) use chunk_index::{ChunkIndex, Survey};
pub(crate) use object_header::ObjectHeader;

use crate::driver::superblock::lookup3;
use afflux_storage::{StorageFile, StorageFileExt};
use std::io;

/// The undefined address.
pub(crate) const UNDEFINED: u64 = u64::MAX;
/// Every block of metadata ends with one.
const CHECKSUM_BYTES: usize = 4;

/// Why a structure could not be read: the storage's fault, or damage in words.
#[derive(Debug)]
pub(crate) enum FormatError {
    Io(io::Error),
    Damaged(String),
}

impl From<io::Error> for FormatError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<FormatError> for io::Error {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Io(error) => error,
            FormatError::Damaged(what) => Self::new(io::ErrorKind::InvalidData, what),
        }
    }
}

/// Reads a block of `length` bytes that begins with `signature` and ends with its checksum.
fn read_block(
    file: &dyn StorageFile,
    address: u64,
    length: usize,
    signature: &[u8; 4],
) -> Result<Vec<u8>, FormatError> {
    let bytes = read_summed(file, address, length)?;
    if !bytes.starts_with(signature) {
        return Err(damaged(address, "is not what is expected there"));
    }
    Ok(bytes)
}

/// Reads `length` bytes that end with the checksum of those before.
fn read_summed(file: &dyn StorageFile, address: u64, length: usize) -> Result<Vec<u8>, FormatError> {
    if length <= CHECKSUM_BYTES || address.checked_add(length as u64).is_none_or(|end| end > i64::MAX as u64) {
        return Err(damaged(address, "has a length that cannot be"));
    }
    let mut bytes = vec![0; length];
    if file.read_full_at(&mut bytes, address)? < length {
        return Err(damaged(address, "reaches beyond the end of the file"));
    }
    let (content, checksum) = bytes.split_at(length - CHECKSUM_BYTES);
    if checksum != lookup3(content).to_le_bytes() {
        return Err(damaged(address, "does not match its checksum"));
    }
    Ok(bytes)
}

fn damaged(address: u64, what: &str) -> FormatError {
    FormatError::Damaged(format!("the block of metadata at {address} {what}"))
}

/// A little-endian number of at most 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| (value << 8) | u64::from(byte))
}
