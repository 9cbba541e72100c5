//! The writes kept back: one block per address, none overlapping, and the order in which they may go.

use super::object_header::has_extent;
use std::collections::BTreeMap;

/// What HDF5 says a piece of the file is for: its `H5FD_mem_t`, of which only raw data matters here.
pub(crate) const MEMORY_RAW: i32 = 3;

/// A block that HDF5 wrote and that has not reached the medium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldBlock {
    /// Where it belongs.
    pub offset: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Held blocks by offset. Invariant: no two overlap.
#[derive(Debug, Default)]
pub(crate) struct HeldBlocks {
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl HeldBlocks {
    /// Keeps `bytes`; what they cover of earlier blocks is gone.
    pub(crate) fn insert(&mut self, offset: u64, bytes: &[u8]) {
        if let Some(same) = self.blocks.get_mut(&offset)
            && same.len() == bytes.len()
        {
            same.copy_from_slice(bytes);
            return;
        }
        let end = offset + bytes.len() as u64;
        let first = self.first_reaching(offset);
        let touched: Vec<u64> = self.blocks.range(first..end).map(|(&start, _)| start).collect();
        for start in touched {
            let Some(old) = self.blocks.remove(&start) else { continue };
            let old_end = start + old.len() as u64;
            if start < offset {
                let head = usize::try_from(offset - start).map_or(old.len(), |length| length.min(old.len()));
                self.blocks.insert(start, old[..head].to_vec());
            }
            if old_end > end {
                let tail = usize::try_from(old_end - end).map_or(old.len(), |length| length.min(old.len()));
                self.blocks.insert(end, old[old.len() - tail..].to_vec());
            }
        }
        self.blocks.insert(offset, bytes.to_vec());
    }

    /// Lays the held bytes over `buffer`, which holds what the medium has at `offset`.
    pub(crate) fn overlay(&self, buffer: &mut [u8], offset: u64) {
        let end = offset + buffer.len() as u64;
        for (&start, bytes) in self.blocks.range(self.first_reaching(offset)..end) {
            let block_end = start + bytes.len() as u64;
            let (from, to) = (start.max(offset), block_end.min(end));
            if from < to {
                let within = |position: u64, base: u64| usize::try_from(position - base).unwrap_or(usize::MAX);
                buffer[within(from, offset)..within(to, offset)]
                    .copy_from_slice(&bytes[within(from, start)..within(to, start)]);
            }
        }
    }

    /// Hands all blocks over, by offset.
    pub(crate) fn take(&mut self) -> Vec<HeldBlock> {
        std::mem::take(&mut self.blocks).into_iter().map(|(offset, bytes)| HeldBlock { offset, bytes }).collect()
    }

    /// Start of the last block that begins at or before `offset`, or `offset`.
    fn first_reaching(&self, offset: u64) -> u64 {
        self.blocks.range(..=offset).next_back().map_or(offset, |(&start, _)| start)
    }
}

/// From this rank on blocks are object headers.
pub(crate) const HEADER_RANK: u8 = 4;
/// The rank of blocks that make rows visible.
pub(crate) const EXTENT_RANK: u8 = 5;

/// Rank of a block in the order of release: what is pointed at goes before what points at it.
///
/// A chunk of a growing dataset is found through object header (extent, then layout) -> extensible array header ->
/// index block -> (super block ->)
/// data block (HDF5 File Format Specification 3.0, sections IV.A and VII.D). Pages of data blocks carry no signature.
///
/// Header and index block of an array are made together, as neighbours, and point at each other from then on: nothing reaches
/// either before an object header does, and later each may be newer than the other, as nobody looks behind an old extent. So they
/// share a rank, and those of a set go in one write. A block
/// of any other kind is not rewritten after creation; should a later HDF5 do so, it goes first, where the blocks that an old
/// object header does not reach belong.
pub(crate) fn release_order(block: &[u8]) -> u8 {
    match block.get(..4) {
        Some(b"EADB") => 1,
        Some(b"EASB") => 2,
        Some(b"EAIB" | b"EAHD") => 3,
        Some(b"OCHK" | b"OHDR") if has_extent(block) => EXTENT_RANK,
        Some(b"OCHK" | b"OHDR") => HEADER_RANK,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn held_blocks_read_like_a_flat_file(writes in prop::collection::vec((0_u64..200, 1_usize..40, any::<u8>()), 1..40)) {
            let mut flat = vec![0xEE_u8; 300];
            let mut held = HeldBlocks::default();
            for (offset, length, byte) in writes {
                let at = usize::try_from(offset).unwrap();
                flat[at..at + length].fill(byte);
                held.insert(offset, &vec![byte; length]);
            }
            for start in [0_usize, 7, 60, 199] {
                let mut window = vec![0xEE_u8; 300 - start];
                held.overlay(&mut window, start as u64);
                prop_assert_eq!(&window[..], &flat[start..]);
            }
            let blocks = held.take();
            prop_assert!(blocks.windows(2).all(|pair| pair[0].offset + pair[0].bytes.len() as u64 <= pair[1].offset));
        }
    }

    #[test]
    fn what_is_pointed_at_goes_first() {
        assert_eq!(release_order(b"EAHD"), release_order(b"EAIB"));
        let ranks: Vec<u8> = [&b"\0\0\0\0"[..], b"EADB", b"EASB", b"EAIB", b"OCHK", b"OCHK\x01\0\0\0\0\0\0\0\0\0"]
            .into_iter()
            .map(release_order)
            .collect();
        assert!(ranks.is_sorted_by(|a, b| a < b));
    }
}
