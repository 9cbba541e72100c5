//! Object headers of version 2 (HDF5 File Format Specification 3.0, section IV.A.1.b): the extent of a dataset, and where its
//! chunk index is.

use super::{CHECKSUM_BYTES, FormatError, UNDEFINED, damaged, number, read_block};
use crate::driver::superblock::lookup3;
use afflux_storage::{StorageFile, StorageFileExt};

/// Message types (section IV.A.2).
const DATASPACE: u8 = 0x01;
const LAYOUT: u8 = 0x08;
const CONTINUATION: u8 = 0x10;

/// Signature, version, flags, times, limits of attribute storage, length of the first block: at most this much.
const PREFIX_BYTES_MAX: usize = 6 + 16 + 4 + 8;
/// HDF5 makes a few; more would be a loop.
const BLOCKS_MAX: usize = 1024;

/// One block of a header, with its checksum.
struct Block {
    address: u64,
    bytes: Vec<u8>,
    /// Where its messages begin.
    messages_at: usize,
}

/// Where the body of a message is.
struct Message {
    block: usize,
    at: usize,
    length: usize,
    message_type: u8,
}

/// An object header with all its blocks.
pub(crate) struct ObjectHeader {
    blocks: Vec<Block>,
    messages: Vec<Message>,
}

impl ObjectHeader {
    /// Reads the header at `address`.
    pub(crate) fn read(file: &dyn StorageFile, address: u64) -> Result<Self, FormatError> {
        let mut prefix = [0; PREFIX_BYTES_MAX];
        let read = file.read_full_at(&mut prefix, address)?;
        if read < PREFIX_BYTES_MAX || !prefix.starts_with(b"OHDR\x02") {
            return Err(damaged(address, "is no object header"));
        }
        let flags = prefix[5];
        let times_bytes = if flags & 0x20 == 0 { 0 } else { 16 };
        let limits_bytes = if flags & 0x10 == 0 { 0 } else { 4 };
        let size_at = 6 + times_bytes + limits_bytes;
        let messages_at = size_at + (1 << (flags & 0x03));
        let size = usize::try_from(number(&prefix[size_at..messages_at])).unwrap_or(usize::MAX);
        let length = size.saturating_add(messages_at + CHECKSUM_BYTES);
        // Creation order of attributes tracked: two more bytes in front of each message.
        let message_header_bytes = if flags & 0x04 == 0 { 4 } else { 6 };
        let bytes = read_block(file, address, length, b"OHDR")?;
        let mut header = Self { blocks: vec![Block { address, bytes, messages_at }], messages: Vec::new() };
        let mut next = 0;
        while next < header.blocks.len() {
            for (address, length) in header.list_messages(next, message_header_bytes) {
                if header.blocks.len() == BLOCKS_MAX {
                    return Err(damaged(address, "is one of too many of its object"));
                }
                let bytes = read_block(file, address, length, b"OCHK")?;
                header.blocks.push(Block { address, bytes, messages_at: 4 });
            }
            next += 1;
        }
        Ok(header)
    }

    /// Notes the messages of a block; returns the blocks it continues in.
    fn list_messages(&mut self, block: usize, header_bytes: usize) -> Vec<(u64, usize)> {
        let Block { bytes, messages_at, .. } = &self.blocks[block];
        let end = bytes.len() - CHECKSUM_BYTES;
        let mut at = *messages_at;
        let mut continuations = Vec::new();
        // A gap shorter than a message header may be left at the end.
        while at + header_bytes <= end {
            let length = usize::from(u16::from_le_bytes([bytes[at + 1], bytes[at + 2]]));
            let message = Message { block, at: at + header_bytes, length, message_type: bytes[at] };
            at = message.at + length;
            if at > end {
                break;
            }
            if message.message_type == CONTINUATION && length == 16 {
                let body = &bytes[message.at..at];
                continuations.push((number(&body[..8]), usize::try_from(number(&body[8..])).unwrap_or(usize::MAX)));
            }
            self.messages.push(message);
        }
        continuations
    }

    fn find(&self, message_type: u8) -> Result<(&Message, &[u8]), FormatError> {
        let found = self.messages.iter().find(|message| message.message_type == message_type);
        let message = found.ok_or_else(|| damaged(self.blocks[0].address, "lacks a message of a dataset"))?;
        Ok((message, &self.blocks[message.block].bytes[message.at..message.at + message.length]))
    }

    /// The last extent of a simple dataspace of version 2, and where it is in its block.
    fn last_extent(&self) -> Result<(&Message, usize, u64), FormatError> {
        let (message, body) = self.find(DATASPACE)?;
        let rank = body.get(1).map_or(0, |&rank| usize::from(rank));
        if body.first() != Some(&2) || rank == 0 || body.len() < 4 + 8 * rank {
            return Err(damaged(self.blocks[message.block].address, "has a dataspace of another kind"));
        }
        let at = 4 + 8 * (rank - 1);
        Ok((message, message.at + at, number(&body[at..at + 8])))
    }

    /// Length of the last dimension.
    pub(crate) fn rows(&self) -> Result<u64, FormatError> {
        Ok(self.last_extent()?.2)
    }

    /// The block that states another length of the last dimension: its address and bytes.
    pub(crate) fn with_rows(&self, rows: u64) -> Result<(u64, Vec<u8>), FormatError> {
        let (message, at, _) = self.last_extent()?;
        let block = &self.blocks[message.block];
        let mut bytes = block.bytes.clone();
        bytes[at..at + 8].copy_from_slice(&rows.to_le_bytes());
        let end = bytes.len() - CHECKSUM_BYTES;
        let checksum = lookup3(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
        Ok((block.address, bytes))
    }

    /// Address of the extensible array that indexes the chunks; `None` before the first chunk. Layout of version 4, section
    /// IV.A.2.i.
    pub(crate) fn chunk_index(&self) -> Result<Option<u64>, FormatError> {
        const CHUNKED: u8 = 2;
        const EXTENSIBLE_ARRAY: u8 = 4;
        /// Behind the shape: the kind of index, five numbers, the address.
        const INDEX_BYTES: usize = 1 + 5 + 8;
        let (message, body) = self.find(LAYOUT)?;
        let other = || damaged(self.blocks[message.block].address, "has a layout of another kind");
        let &[4, CHUNKED, _, rank, width, ..] = body else { return Err(other()) };
        let index_at = 5 + usize::from(rank) * usize::from(width);
        let index = body.get(index_at..index_at + INDEX_BYTES).ok_or_else(other)?;
        if index[0] != EXTENSIBLE_ARRAY {
            return Err(other());
        }
        let address = number(&index[6..]);
        Ok((address != UNDEFINED).then_some(address))
    }
}
