//! A look into object headers: which of their blocks holds the extent of the dataset.
//!
//! An object header (version 2; HDF5 File Format Specification 3.0, section IV.A.1.b) is a first chunk (`OHDR`) and
//! continuation chunks (`OCHK`), each a block with its own checksum, written on its own. While a file is written, the dataspace
//! (the extent) changes at every seal and the layout once, when the chunk index is made with the first column. HDF5 moves
//! messages between the blocks as attributes are added, so the two may be apart: then the layout must go first.

/// Message type of dataspaces (section IV.A.2.b of the specification).
const DATASPACE: u8 = 0x01;
/// Type, size, flags and creation order; all our objects track the order of their attributes.
const MESSAGE_HEADER_BYTES: usize = 6;
const CHECKSUM_BYTES: usize = 4;

/// Whether this block of an object header holds the dataspace.
pub(super) fn has_extent(block: &[u8]) -> bool {
    messages(block).is_some_and(|messages| types(messages).any(|message_type| message_type == DATASPACE))
}

/// The messages of a block, without what is before and behind; `None` if it is not of an object header.
fn messages(block: &[u8]) -> Option<&[u8]> {
    let end = block.len().checked_sub(CHECKSUM_BYTES)?;
    if block.starts_with(b"OCHK") {
        return block.get(4..end);
    }
    if !block.starts_with(b"OHDR\x02") {
        return None;
    }
    let flags = *block.get(5)?;
    let times_bytes = if flags & 0x20 == 0 { 0 } else { 16 };
    let attribute_limits_bytes = if flags & 0x10 == 0 { 0 } else { 4 };
    let size_bytes = 1_usize << (flags & 0x03);
    block.get(6 + times_bytes + attribute_limits_bytes + size_bytes..end)
}

fn types(mut messages: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let header = messages.get(..MESSAGE_HEADER_BYTES)?;
        let length = usize::from(u16::from_le_bytes([header[1], header[2]]));
        messages = messages.get(MESSAGE_HEADER_BYTES + length..).unwrap_or_default();
        Some(header[0])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(message_type: u8, length: u8) -> Vec<u8> {
        let mut bytes = vec![message_type, length, 0, 0, 0, 0];
        bytes.resize(MESSAGE_HEADER_BYTES + usize::from(length), 0xAA);
        bytes
    }

    #[test]
    fn the_extent_is_found_in_either_kind_of_block() {
        let with = [message(0x0C, 30), message(DATASPACE, 20), vec![0; 4]].concat();
        let without = [message(0x0C, 30), message(0x08, 20), vec![0; 4]].concat();
        let continuation = |messages: &[u8]| [b"OCHK", messages].concat();
        let first = |messages: &[u8]| [b"OHDR\x02\x14\x01\x00\x01\x00", &[56][..], messages].concat();
        assert!(has_extent(&continuation(&with)) && !has_extent(&continuation(&without)));
        assert!(has_extent(&first(&with)) && !has_extent(&first(&without)));
        assert!(!has_extent(b"EAHD") && !has_extent(b"OHDR\x02") && !has_extent(b""));
    }
}
