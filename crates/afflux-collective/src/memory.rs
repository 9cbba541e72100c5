//! A payload that lies in several slices of memory, addressed as one.

use afflux_plan::ByteRange;

/// A count of bytes in memory. Everything that was ever in memory fits.
pub(crate) fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what lies in memory has a length that fits in usize")
}

/// Slices whose concatenation is a payload.
pub(crate) struct Payload<'a> {
    slices: &'a [&'a [u8]],
    /// Where each slice begins in the payload, and one past its end last.
    starts: Vec<u64>,
}

impl<'a> Payload<'a> {
    pub(crate) fn new(slices: &'a [&'a [u8]]) -> Self {
        let mut starts = Vec::with_capacity(slices.len() + 1);
        let mut end = 0;
        starts.push(0);
        for slice in slices {
            end += slice.len() as u64;
            starts.push(end);
        }
        Self { slices, starts }
    }

    pub(crate) fn bytes(&self) -> u64 {
        *self.starts.last().expect("the end is always there")
    }

    /// The parts of `range`, in order, none empty.
    pub(crate) fn parts(&self, range: ByteRange) -> impl Iterator<Item = &'a [u8]> + '_ {
        let first = self.starts.partition_point(|&start| start <= range.start).saturating_sub(1);
        (first..self.slices.len())
            .take_while(move |&at| self.starts[at] < range.end)
            .map(move |at| {
                let from = range.start.saturating_sub(self.starts[at]);
                let to = range.end.min(self.starts[at + 1]) - self.starts[at];
                &self.slices[at][in_memory(from)..in_memory(to)]
            })
            .filter(|part| !part.is_empty())
    }
}

/// The parts of each of `ranges` (ascending, disjoint) in the concatenation of `buffers`.
pub(crate) fn parts_mut<'b>(buffers: &'b mut [&mut [u8]], ranges: &[ByteRange]) -> Vec<Vec<&'b mut [u8]>> {
    let mut parts: Vec<Vec<&'b mut [u8]>> = ranges.iter().map(|_| Vec::new()).collect();
    let mut start = 0_u64;
    let mut number = 0;
    for buffer in buffers.iter_mut() {
        let mut rest: &mut [u8] = buffer;
        while number < ranges.len() && !rest.is_empty() {
            let range = ranges[number];
            let skip = in_memory(range.start.saturating_sub(start).min(rest.len() as u64));
            rest = &mut std::mem::take(&mut rest)[skip..];
            start += skip as u64;
            let take = in_memory(range.end.saturating_sub(start).min(rest.len() as u64));
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(take);
            if !part.is_empty() {
                parts[number].push(part);
            }
            rest = behind;
            start += take as u64;
            if start >= range.end {
                number += 1;
            }
        }
        start += rest.len() as u64;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_the_slices() {
        let slices: [&[u8]; 4] = [&[0, 1, 2], &[], &[3, 4], &[5, 6, 7, 8]];
        let payload = Payload::new(&slices);
        assert_eq!(payload.bytes(), 9);
        for start in 0..=9 {
            for end in start..=9 {
                let bytes: Vec<u8> = payload.parts(ByteRange::new(start, end)).flatten().copied().collect();
                assert_eq!(
                    bytes.iter().map(|&byte| u64::from(byte)).collect::<Vec<_>>(),
                    (start..end).collect::<Vec<_>>()
                );
            }
        }
    }

    #[test]
    fn mutable_parts_are_where_the_ranges_are() {
        for split in 0..=8_usize {
            let mut memory = [0_u8; 8];
            let (a, b) = memory.split_at_mut(split);
            let mut buffers: [&mut [u8]; 3] = [a, &mut [], b];
            let ranges = [ByteRange::new(1, 3), ByteRange::new(3, 3), ByteRange::new(5, 8)];
            for (number, parts) in (1..).zip(parts_mut(&mut buffers, &ranges)) {
                parts.into_iter().for_each(|part| part.fill(number));
            }
            assert_eq!(memory, [0, 1, 1, 0, 0, 3, 3, 3], "split at {split}");
        }
    }
}
