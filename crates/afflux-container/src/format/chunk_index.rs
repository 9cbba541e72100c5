//! Extensible arrays, HDF5's index of chunks that grow along one dimension (section VII.D of the specification).
//!
//! Element `column * chunks per column + chunk` holds the address of a chunk. The first few elements are in the index block;
//! then come data blocks, which grow in size and number: super block `u` stands for `2^(u/2)` data blocks of `2^((u+1)/2)`
//! times the smallest size. The addresses of the data blocks of the first super blocks are in the index block, those of later
//! ones in super blocks of their own. Large data blocks are in pages, each with a checksum. Elements that were never set are
//! undefined.

use super::{CHECKSUM_BYTES, FormatError, UNDEFINED, damaged, number, read_block, read_summed};
use afflux_storage::StorageFile;
use std::ops::Range;

const HEADER_BYTES: usize = 72;
const ELEMENT_BYTES: usize = 8;
/// Signature, version, client, address of the header.
const BLOCK_PREFIX_BYTES: usize = 4 + 1 + 1 + 8;
/// Parameters of the arrays that HDF5 makes for chunks: it has no others.
const MAX_BITS: u8 = 32;
/// Offset of a block within the array, in data and super blocks: as many bytes as [`MAX_BITS`] takes.
const ARRAY_OFFSET_BYTES: usize = 4;

/// The shape of an array.
#[derive(Debug, Clone, Copy)]
struct Shape {
    index_elements: u64,
    block_elements_min: u64,
    pointers_min: u64,
    page_elements: u64,
}

/// The data blocks that one super block stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Level {
    blocks: u64,
    block_elements: u64,
    /// First element, counted behind those of the index block.
    first_element: u64,
    /// First data block, counted over all levels.
    first_block: u64,
}

/// What was last read, since elements are asked for in order.
struct Recent {
    address: u64,
    elements: Vec<u64>,
}

/// What of an index lies on the medium.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    /// The blocks that are reached from its header, which is one of them.
    pub blocks: Vec<Range<u64>>,
    /// Elements from the one asked for on that hold an address, and that address; ascending.
    pub elements: Vec<(u64, u64)>,
}

/// The index of a dataset's chunks. Reads what it is asked for when it is asked.
pub(crate) struct ChunkIndex {
    header_address: u64,
    index_block_address: u64,
    shape: Shape,
    /// Elements, then addresses of data blocks, then of super blocks.
    index_block: Vec<u64>,
    super_block: Option<(u64, Vec<u8>)>,
    recent: Option<Recent>,
}

impl ChunkIndex {
    /// Opens the array whose header is at `address`.
    pub(crate) fn open(file: &dyn StorageFile, address: u64) -> Result<Self, FormatError> {
        let header = read_block(file, address, HEADER_BYTES, b"EAHD")?;
        // Version 0, chunks without filters, elements of an address, the number of bits.
        if header[4..8] != [0, 0, 8, MAX_BITS] || header[11] == 0 || header[9] == 0 || header[8] == 0 || header[10] == 0
        {
            return Err(damaged(address, "is an index of another kind"));
        }
        let shape = Shape {
            index_elements: u64::from(header[8]),
            block_elements_min: u64::from(header[9]),
            pointers_min: u64::from(header[10]),
            page_elements: 1_u64.checked_shl(u32::from(header[11])).unwrap_or(u64::MAX),
        };
        if !shape.block_elements_min.is_power_of_two() || !shape.pointers_min.is_power_of_two() {
            return Err(damaged(address, "is an index of another kind"));
        }
        let index_block_address = number(&header[60..68]);
        let mut index = Self {
            header_address: address,
            index_block_address,
            shape,
            index_block: Vec::new(),
            super_block: None,
            recent: None,
        };
        if index_block_address != UNDEFINED {
            let words = shape.index_elements + shape.direct_blocks() + shape.super_blocks();
            let words = usize::try_from(words).unwrap_or(usize::MAX);
            let length = words.saturating_mul(ELEMENT_BYTES).saturating_add(BLOCK_PREFIX_BYTES + CHECKSUM_BYTES);
            let block = index.read(file, index_block_address, length, b"EAIB")?;
            index.index_block = words_of(&block[BLOCK_PREFIX_BYTES..length - CHECKSUM_BYTES]);
        }
        Ok(index)
    }

    /// The lowest address of the index itself.
    pub(crate) fn address(&self) -> u64 {
        self.header_address.min(self.index_block_address)
    }

    /// The elements of a range; [`UNDEFINED`] where there is no chunk.
    pub(crate) fn elements(&mut self, file: &dyn StorageFile, range: Range<u64>) -> Result<Vec<u64>, FormatError> {
        range.map(|element| self.element(file, element)).collect()
    }

    /// Everything that the index reaches, and its elements from `first` on, however far they go.
    pub(crate) fn survey(&mut self, file: &dyn StorageFile, first: u64) -> Result<Survey, FormatError> {
        let mut survey = Survey::default();
        survey.add_block(self.header_address, HEADER_BYTES);
        if self.index_block.is_empty() {
            return Ok(survey);
        }
        let length = self.index_block.len() * ELEMENT_BYTES + BLOCK_PREFIX_BYTES + CHECKSUM_BYTES;
        survey.add_block(self.index_block_address, length);
        survey.add_elements(first, 0, &self.index_block[..narrow(self.shape.index_elements)]);
        let direct_levels = self.shape.direct_levels();
        let levels = direct_levels + u32::try_from(self.shape.super_blocks()).unwrap_or(0);
        for number in 0..levels {
            let level = self.shape.level(number);
            if number < direct_levels {
                for block in 0..level.blocks {
                    let at = self.shape.index_elements + level.first_block + block;
                    let address = self.index_block[narrow(at)];
                    self.survey_data_block(file, (level, block), address, first, &mut survey)?;
                }
                continue;
            }
            let at = self.shape.index_elements + self.shape.direct_blocks() + u64::from(number - direct_levels);
            let address = self.index_block[narrow(at)];
            if address == UNDEFINED {
                continue;
            }
            let (length, _) = self.super_block_bytes(level);
            survey.add_block(address, length);
            for block in 0..level.blocks {
                let (block_address, _) = self.in_super_block(file, address, level, block, 0)?;
                self.survey_data_block(file, (level, block), block_address, first, &mut survey)?;
            }
        }
        Ok(survey)
    }

    fn survey_data_block(
        &mut self,
        file: &dyn StorageFile,
        (level, block): (Level, u64),
        address: u64,
        first: u64,
        survey: &mut Survey,
    ) -> Result<(), FormatError> {
        if address == UNDEFINED {
            return Ok(());
        }
        let prefix = BLOCK_PREFIX_BYTES + ARRAY_OFFSET_BYTES;
        let pages = level.block_elements.div_ceil(self.shape.page_elements);
        // Each page has a checksum, and a block with pages one for its prefix.
        let checksums = if pages > 1 { pages + 1 } else { 1 };
        let length = prefix + narrow(level.block_elements) * ELEMENT_BYTES + narrow(checksums) * CHECKSUM_BYTES;
        survey.add_block(address, length);
        let start = self.shape.index_elements + level.first_element + block * level.block_elements;
        for page in 0..pages {
            let page_elements = self.shape.page_elements.min(level.block_elements);
            let page_start = start + page * page_elements;
            if page_start + page_elements > first {
                let elements = self.elements(file, page_start..page_start + page_elements)?;
                survey.add_elements(first, page_start, &elements);
            }
        }
        Ok(())
    }

    fn element(&mut self, file: &dyn StorageFile, element: u64) -> Result<u64, FormatError> {
        if self.index_block.is_empty() {
            return Ok(UNDEFINED);
        }
        let Some(behind) = element.checked_sub(self.shape.index_elements) else {
            return Ok(self.index_block[narrow(element)]);
        };
        let number = self.shape.level_of(behind);
        let level = self.shape.level(number);
        let within = behind - level.first_element;
        let (block, place) = (within / level.block_elements, within % level.block_elements);
        let paged = level.block_elements > self.shape.page_elements;
        let direct_levels = self.shape.direct_levels();
        let (block_address, page_is_written) = if number < direct_levels {
            (self.index_block[narrow(self.shape.index_elements + level.first_block + block)], true)
        } else {
            let at = self.shape.index_elements + self.shape.direct_blocks() + u64::from(number - direct_levels);
            let super_block_address = self.index_block.get(narrow(at)).copied().unwrap_or(UNDEFINED);
            self.in_super_block(file, super_block_address, level, block, place)?
        };
        if block_address == UNDEFINED || !page_is_written {
            return Ok(UNDEFINED);
        }
        let prefix = BLOCK_PREFIX_BYTES + ARRAY_OFFSET_BYTES;
        let (address, skip, count, place) = if paged {
            let page_bytes = self.shape.page_elements * ELEMENT_BYTES as u64 + CHECKSUM_BYTES as u64;
            let page = place / self.shape.page_elements;
            let address = block_address.saturating_add((prefix + CHECKSUM_BYTES) as u64 + page * page_bytes);
            (address, 0, self.shape.page_elements, place % self.shape.page_elements)
        } else {
            (block_address, prefix, level.block_elements, place)
        };
        self.load(file, address, skip, count)?;
        Ok(self.recent.as_ref().map_or(UNDEFINED, |recent| recent.elements[narrow(place)]))
    }

    /// Reads a data block (`skip` bytes of it are no elements) or a page of one (`skip` is 0), if it is not the last one read.
    fn load(&mut self, file: &dyn StorageFile, address: u64, skip: usize, count: u64) -> Result<(), FormatError> {
        if self.recent.as_ref().is_some_and(|recent| recent.address == address) {
            return Ok(());
        }
        let length = narrow(count).saturating_mul(ELEMENT_BYTES).saturating_add(skip + CHECKSUM_BYTES);
        let block =
            if skip == 0 { read_summed(file, address, length)? } else { self.read(file, address, length, b"EADB")? };
        let elements = words_of(&block[skip..length - CHECKSUM_BYTES]);
        self.recent = Some(Recent { address, elements });
        Ok(())
    }

    /// Address of a data block of a super block, and whether the page of this element was ever written.
    fn in_super_block(
        &mut self,
        file: &dyn StorageFile,
        address: u64,
        level: Level,
        block: u64,
        place: u64,
    ) -> Result<(u64, bool), FormatError> {
        if address == UNDEFINED {
            return Ok((UNDEFINED, false));
        }
        let paged = level.block_elements > self.shape.page_elements;
        let pages = level.block_elements / self.shape.page_elements;
        let (length, addresses_at) = self.super_block_bytes(level);
        if self.super_block.as_ref().is_none_or(|(known, _)| *known != address) {
            let bytes = self.read(file, address, length, b"EASB")?;
            self.super_block = Some((address, bytes));
        }
        let Some((_, bytes)) = &self.super_block else { return Ok((UNDEFINED, false)) };
        let at = addresses_at + narrow(block) * ELEMENT_BYTES;
        let block_address = number(&bytes[at..at + ELEMENT_BYTES]);
        let written = !paged || {
            let bit = narrow(block * pages + place / self.shape.page_elements);
            bytes[BLOCK_PREFIX_BYTES + ARRAY_OFFSET_BYTES + bit / 8] & (0x80 >> (bit % 8)) != 0
        };
        Ok((block_address, written))
    }

    /// Length of a super block, and where the addresses begin in it. Pages are tracked only where there are several to a block.
    fn super_block_bytes(&self, level: Level) -> (usize, usize) {
        let paged = level.block_elements > self.shape.page_elements;
        let pages = if paged { level.block_elements / self.shape.page_elements } else { 0 };
        let bitmap_bytes = narrow(level.blocks * pages.div_ceil(8));
        let addresses_at = BLOCK_PREFIX_BYTES + ARRAY_OFFSET_BYTES + bitmap_bytes;
        (addresses_at + narrow(level.blocks) * ELEMENT_BYTES + CHECKSUM_BYTES, addresses_at)
    }

    /// Reads a block of this array: version 0, chunks without filters, the address of the header.
    fn read(
        &self,
        file: &dyn StorageFile,
        address: u64,
        length: usize,
        signature: &[u8; 4],
    ) -> Result<Vec<u8>, FormatError> {
        let bytes = read_block(file, address, length, signature)?;
        if bytes[4..6] != [0, 0] || number(&bytes[6..14]) != self.header_address {
            return Err(damaged(address, "belongs to another index"));
        }
        Ok(bytes)
    }
}

impl Survey {
    fn add_block(&mut self, address: u64, length: usize) {
        self.blocks.push(address..address.saturating_add(length as u64));
    }

    fn add_elements(&mut self, first: u64, start: u64, addresses: &[u64]) {
        let defined = (start..).zip(addresses.iter().copied());
        self.elements.extend(defined.filter(|&(element, address)| element >= first && address != UNDEFINED));
    }
}

impl Shape {
    /// Levels whose data blocks the index block refers to.
    fn direct_levels(self) -> u32 {
        2 * self.pointers_min.ilog2()
    }

    /// Data blocks that the index block refers to.
    fn direct_blocks(self) -> u64 {
        2 * (self.pointers_min - 1)
    }

    /// Super blocks that the index block refers to.
    fn super_blocks(self) -> u64 {
        let levels = 1 + u32::from(MAX_BITS) - self.block_elements_min.ilog2();
        u64::from(levels.saturating_sub(self.direct_levels()))
    }

    /// The level of an element, counted behind those of the index block.
    fn level_of(self, behind: u64) -> u32 {
        (behind / self.block_elements_min + 1).ilog2()
    }

    fn level(self, number: u32) -> Level {
        let blocks_of = |number: u32| 1_u64 << (number / 2);
        let elements_of = |number: u32| self.block_elements_min << number.div_ceil(2);
        // The elements of levels 0 to u - 1 are the smallest size times 2^u - 1.
        Level {
            blocks: blocks_of(number),
            block_elements: elements_of(number),
            first_element: self.block_elements_min * ((1 << number) - 1),
            first_block: (0..number).map(blocks_of).sum(),
        }
    }
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(ELEMENT_BYTES).map(number).collect()
}

/// Indices are bounded by what the blocks hold; what is not in memory is not indexed.
fn narrow(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_one_another() {
        let shape = Shape { index_elements: 4, block_elements_min: 16, pointers_min: 4, page_elements: 1024 };
        assert_eq!((shape.direct_levels(), shape.direct_blocks(), shape.super_blocks()), (4, 6, 25));
        let mut next = Level { blocks: 1, block_elements: 16, first_element: 0, first_block: 0 };
        for number in 0..29 {
            let level = shape.level(number);
            assert_eq!((level.first_element, level.first_block), (next.first_element, next.first_block));
            let elements = level.blocks * level.block_elements;
            assert_eq!(shape.level_of(level.first_element), number);
            assert_eq!(shape.level_of(level.first_element + elements - 1), number);
            next.first_element += elements;
            next.first_block += level.blocks;
        }
    }
}
