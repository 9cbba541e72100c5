//! Object headers of version 2 and the messages in them, as HDF5 1.10 encodes them.
//!
//! HDF5 File Format Specification 3.0, section IV.A. Each message has type, length (u16), flags and a creation index, which only
//! attributes use. Attributes stay in the header whatever their number.

use super::heap::HeapWriter;
use crate::ElementType;
use crate::blueprint::{Dataset, FileType, Value};
use crate::driver::superblock::lookup3;

/// The undefined address.
pub(super) const UNDEFINED: u64 = u64::MAX;

/// Message types and flags (section IV.A.2).
const DATASPACE: u8 = 0x01;
const LINK_INFO: u8 = 0x02;
const DATATYPE: u8 = 0x03;
const FILL: u8 = 0x05;
const LINK: u8 = 0x06;
const LAYOUT: u8 = 0x08;
const GROUP_INFO: u8 = 0x0A;
const ATTRIBUTE: u8 = 0x0C;
const CONTINUATION: u8 = 0x10;
const ATTRIBUTE_INFO: u8 = 0x15;
const CONSTANT: u8 = 0x01;
const NOT_SHARED: u8 = 0x04;

/// Attributes and links are in the header up to this many; `create` asks HDF5 for the same of attributes.
const COMPACT_MAX: u16 = u16::MAX;
/// Extensible arrays: bits of the number of chunks, chunks in the index block, and the sizes of what hangs on it. HDF5 has no other.
const EXTENSIBLE_ARRAY: [u8; 6] = [4, 32, 4, 4, 16, 10];

/// How the values of a dataset are stored.
pub(super) enum Layout<'a> {
    /// In one piece; the address is [`UNDEFINED`] where nothing is written.
    Contiguous { address: u64, bytes: u64 },
    /// Chunks of this shape; none is allocated.
    Chunked { chunk: &'a [u64], element_bytes: u64 },
}

/// An object header under construction.
pub(super) struct HeaderWriter {
    messages: Vec<u8>,
    /// Messages of the second block, if there is one.
    continued: Option<Vec<u8>>,
    /// Message that the first block ends with.
    last: Vec<u8>,
    attributes: u16,
}

/// An object header: one block, and a second one if it was asked for (else empty).
pub(super) struct Header {
    pub first: Vec<u8>,
    pub continuation: Vec<u8>,
}

impl HeaderWriter {
    pub(super) fn new() -> Self {
        Self { messages: Vec::with_capacity(1024), continued: None, last: Vec::new(), attributes: 0 }
    }

    /// What follows goes into a second block. The first one ends with a message that leads there.
    pub(super) fn continue_elsewhere(&mut self) {
        self.continued = Some(Vec::with_capacity(1024));
    }

    /// The blocks, of which the second will lie at `continuation`; `None` if the header is longer than headers can be.
    pub(super) fn finish(mut self, continuation: u64) -> Option<Header> {
        let mut second = Vec::new();
        if let Some(messages) = self.continued.take() {
            second.extend_from_slice(b"OCHK");
            second.extend_from_slice(&messages);
            let checksum = lookup3(&second);
            second.extend(checksum.to_le_bytes());
            let place = [continuation.to_le_bytes(), (second.len() as u64).to_le_bytes()].concat();
            self.short_message(CONTINUATION, 0, &place);
        }
        self.messages.append(&mut self.last);
        let length = u32::try_from(self.messages.len()).ok()?;
        let mut block = Vec::with_capacity(self.messages.len() + 18);
        block.extend_from_slice(b"OHDR\x02");
        // Creation order tracked and indexed, limits of attribute storage stated, a length of four bytes.
        block.push(0x04 | 0x08 | 0x10 | 0x02);
        block.extend(COMPACT_MAX.to_le_bytes());
        block.extend(0_u16.to_le_bytes());
        block.extend(length.to_le_bytes());
        block.extend_from_slice(&self.messages);
        let checksum = lookup3(&block);
        block.extend(checksum.to_le_bytes());
        Some(Header { first: block, continuation: second })
    }

    /// What makes a group of an object: the number of its links, and that they are in the header.
    pub(super) fn group(&mut self, links: usize) {
        let mut info = vec![0, 0x03];
        info.extend((links as u64).to_le_bytes());
        info.extend([0xFF; 24]);
        self.short_message(LINK_INFO, 0, &info);
        let [low, high] = COMPACT_MAX.to_le_bytes();
        self.short_message(GROUP_INFO, CONSTANT, &[0, 0x01, low, high, 0, 0]);
    }

    /// A hard link, the `order`-th of its group.
    pub(super) fn link(&mut self, name: &str, order: usize, address: u64) -> Option<()> {
        let length = u16::try_from(name.len()).ok()?;
        let wide = length > 0xFF;
        let mut body = vec![1, 0x04 | u8::from(wide)];
        body.extend((order as u64).to_le_bytes());
        body.extend(&length.to_le_bytes()[..1 + usize::from(wide)]);
        body.extend(name.as_bytes());
        body.extend(address.to_le_bytes());
        self.message(LINK, 0, 0, &[&body])
    }

    /// The extent, which is kept for the end of the first block: there it is next to the checksum that changes with it.
    pub(super) fn dataspace(&mut self, lengths: &[u64], lengths_max: &[u64]) {
        let body = simple_space(lengths, lengths_max);
        let before = self.messages.len();
        self.short_message(DATASPACE, 0, &body);
        self.last = self.messages.split_off(before);
    }

    pub(super) fn datatype(&mut self, file_type: FileType) {
        self.short_message(DATATYPE, CONSTANT, &type_of(file_type));
    }

    /// When space is allocated and filled, and with what; the same as `create` asks for.
    pub(super) fn fill(&mut self, dataset: &Dataset<'_>) {
        const EARLY: u8 = 1;
        const LATE: u8 = 2;
        const INCREMENTAL: u8 = 3;
        const WHEN_ALLOCATED: u8 = 0;
        const NEVER: u8 = 1 << 2;
        const IF_SET: u8 = 2 << 2;
        const VALUE_FOLLOWS: u8 = 0x20;
        let mut body = vec![3];
        match (dataset.file_type, dataset.grows) {
            (FileType::Dimension, _) if dataset.chunk.is_some() => body.push(INCREMENTAL | IF_SET),
            (FileType::Dimension, _) => body.push(LATE | IF_SET),
            (FileType::Text, _) => body.push(EARLY | WHEN_ALLOCATED),
            (FileType::Element(element), Some(_)) => {
                body.push(EARLY | NEVER | VALUE_FOLLOWS);
                let bytes = element.bytes();
                body.extend([if bytes == 4 { 4 } else { 8 }, 0, 0, 0]);
                body.extend(&element.fill_value_bytes()[..bytes]);
            }
            _ => body.push(EARLY | NEVER),
        }
        self.short_message(FILL, CONSTANT, &body);
    }

    pub(super) fn layout(&mut self, layout: Layout<'_>) {
        match layout {
            Layout::Contiguous { address, bytes } => {
                let flags = if address == UNDEFINED { 0 } else { CONSTANT };
                let body = [&[3, 1][..], &address.to_le_bytes(), &bytes.to_le_bytes()].concat();
                self.short_message(LAYOUT, flags, &body);
            }
            Layout::Chunked { chunk, element_bytes } => {
                let longest = chunk.iter().copied().max().unwrap_or(1).max(1);
                let width = usize::try_from(longest.ilog2() / 8 + 1).unwrap_or(8);
                let mut body = vec![4, 2, 0, small(chunk.len() + 1), small(width)];
                for length in chunk.iter().chain([&element_bytes]) {
                    body.extend(&length.to_le_bytes()[..width]);
                }
                body.extend(EXTENSIBLE_ARRAY);
                body.extend(UNDEFINED.to_le_bytes());
                self.short_message(LAYOUT, 0, &body);
            }
        }
    }

    /// How many attributes follow.
    pub(super) fn attribute_count(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let mut body = vec![0, 0x03];
        body.extend(u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes());
        body.extend([0xFF; 24]);
        self.short_message(ATTRIBUTE_INFO, NOT_SHARED, &body);
    }

    /// An attribute as `create` would write it.
    pub(super) fn attribute(&mut self, name: &str, value: &Value, heap: &mut HeapWriter) -> Option<()> {
        let number = |element| type_of(FileType::Element(element));
        let one = simple_space(&[1], &[1]);
        match value {
            // HDF5 has no strings of length 0: an empty one is a single NUL.
            Value::Text(text) if text.is_empty() => self.put(name, &text_type(1)?, &SCALAR, &[0]),
            Value::Text(text) => self.put(name, &text_type(text.len())?, &SCALAR, text.as_bytes()),
            Value::Texts(texts) => {
                let space = vector_space(texts.len());
                let elements: Vec<u8> =
                    texts.iter().flat_map(|text| heap.element(text.as_bytes(), text.len())).collect();
                self.put(name, &type_of(FileType::Text), &space, &elements)
            }
            Value::F32(value) => self.put(name, &number(ElementType::F32), &one, &value.to_le_bytes()),
            Value::F64(value) => self.put(name, &number(ElementType::F64), &one, &value.to_le_bytes()),
            Value::I32(value) => self.put(name, &number(ElementType::I32), &one, &value.to_le_bytes()),
            Value::I64(value) => self.put(name, &number(ElementType::I64), &one, &value.to_le_bytes()),
        }
    }

    /// netCDF's number of a dimension.
    pub(super) fn dimension_id(&mut self, id: i32) -> Option<()> {
        self.put("_Netcdf4Dimid", &type_of(FileType::Element(ElementType::I32)), &SCALAR, &id.to_le_bytes())
    }

    /// The scale of each axis, by the address of its header.
    pub(super) fn dimension_list(&mut self, scales: &[u64], heap: &mut HeapWriter) -> Option<()> {
        let elements: Vec<u8> = scales.iter().flat_map(|scale| heap.element(&scale.to_le_bytes(), 1)).collect();
        let sequence = [&[0x19, 0, 0, 0, 16, 0, 0, 0][..], &OBJECT_REFERENCE].concat();
        self.put("DIMENSION_LIST", &sequence, &vector_space(scales.len()), &elements)
    }

    /// Who uses a scale, and along which axis: records of 16 bytes, of which the last four are a gap.
    pub(super) fn reference_list(&mut self, users: &[(u64, usize)]) -> Option<()> {
        let record = [
            &[0x36, 2, 0, 0, 16, 0, 0, 0][..],
            b"dataset\0\0",
            &OBJECT_REFERENCE,
            b"dimension\0\x08",
            &type_of(FileType::Element(ElementType::I32)),
        ]
        .concat();
        let mut records = Vec::with_capacity(16 * users.len());
        for &(dataset, axis) in users {
            records.extend(dataset.to_le_bytes());
            records.extend((axis as u64).to_le_bytes());
        }
        self.put("REFERENCE_LIST", &record, &vector_space(users.len()), &records)
    }

    fn put(&mut self, name: &str, type_bytes: &[u8], space: &[u8], values: &[u8]) -> Option<()> {
        let mut start = [3, 0, 0, 0, 0, 0, 0, 0, 0];
        for (place, length) in start[2..8].chunks_exact_mut(2).zip([name.len() + 1, type_bytes.len(), space.len()]) {
            place.copy_from_slice(&u16::try_from(length).ok()?.to_le_bytes());
        }
        let order = self.attributes;
        self.attributes = order.checked_add(1)?;
        self.message(ATTRIBUTE, 0, order, &[&start, name.as_bytes(), &[0], type_bytes, space, values])
    }

    /// Appends a message whose body is in parts; `None` if it is too long.
    fn message(&mut self, message_type: u8, flags: u8, order: u16, parts: &[&[u8]]) -> Option<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let [length_low, length_high] = u16::try_from(length).ok()?.to_le_bytes();
        let [order_low, order_high] = order.to_le_bytes();
        let messages = self.continued.as_mut().unwrap_or(&mut self.messages);
        messages.extend_from_slice(&[message_type, length_low, length_high, flags, order_low, order_high]);
        for part in parts {
            messages.extend_from_slice(part);
        }
        Some(())
    }

    /// A message whose length is bounded by what it is.
    fn short_message(&mut self, message_type: u8, flags: u8, body: &[u8]) {
        let done = self.message(message_type, flags, 0, &[body]);
        debug_assert!(done.is_some(), "a message of a few bytes");
    }
}

const SCALAR: [u8; 4] = [2, 0, 0, 0];
const OBJECT_REFERENCE: [u8; 8] = [0x17, 0, 0, 0, 8, 0, 0, 0];

/// Bytes of a value in the file.
pub(super) fn element_bytes(file_type: FileType) -> u64 {
    match file_type {
        FileType::Element(element) => element.bytes() as u64,
        FileType::U64 => 8,
        FileType::Text => super::heap::ELEMENT_BYTES as u64,
        FileType::Dimension => 4,
    }
}

/// Types of version 1: class, class bits, length in bytes, properties.
fn type_of(file_type: FileType) -> Vec<u8> {
    match file_type {
        FileType::Element(ElementType::F32) => float_type(0x20, 4),
        FileType::Dimension => float_type(0x21, 4),
        FileType::Element(ElementType::F64) => float_type(0x20, 8),
        FileType::Element(ElementType::I32) => integer_type(0x08, 4),
        FileType::Element(ElementType::I64) => integer_type(0x08, 8),
        FileType::U64 => integer_type(0, 8),
        // A sequence (of characters, which are u8) that is a UTF-8 string.
        FileType::Text => [&[0x19, 1, 1, 0, 16, 0, 0, 0][..], &integer_type(0, 1)].concat(),
    }
}

/// `order_bits`: implied first bit of the mantissa (0x20), most significant byte first (0x01).
fn float_type(order_bits: u8, bytes: u8) -> Vec<u8> {
    let (sign_at, exponent_at, exponent_bits, bias): (u8, u8, u8, u16) =
        if bytes == 4 { (31, 23, 8, 127) } else { (63, 52, 11, 1023) };
    let [bias_low, bias_high] = bias.to_le_bytes();
    let place = [order_bits, sign_at, 0, bytes, 0, 0, 0, 0, 0, 8 * bytes, 0];
    [&[0x11][..], &place, &[exponent_at, exponent_bits, 0, exponent_at, bias_low, bias_high, 0, 0]].concat()
}

/// `sign_bits`: 0x08 if signed.
fn integer_type(sign_bits: u8, bytes: u8) -> Vec<u8> {
    vec![0x10, sign_bits, 0, 0, bytes, 0, 0, 0, 0, 0, 8 * bytes, 0]
}

/// UTF-8 of a fixed length.
fn text_type(bytes: usize) -> Option<Vec<u8>> {
    Some([&[0x13, 0x10, 0, 0][..], &u32::try_from(bytes).ok()?.to_le_bytes()].concat())
}

fn vector_space(length: usize) -> Vec<u8> {
    simple_space(&[length as u64], &[length as u64])
}

fn simple_space(lengths: &[u64], lengths_max: &[u64]) -> Vec<u8> {
    let mut body = Vec::with_capacity(4 + 16 * lengths.len());
    body.extend_from_slice(&[2, small(lengths.len()), 1, 1]);
    body.extend(lengths.iter().chain(lengths_max).flat_map(|length| length.to_le_bytes()));
    body
}

/// Ranks and widths.
fn small(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
