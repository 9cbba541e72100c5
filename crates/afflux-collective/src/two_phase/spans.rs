//! What of a window goes to or comes from the file in one call.

use std::num::NonZeroU64;

use afflux_plan::{Block, ByteRange, PayloadIndex};

use crate::memory::in_memory;

/// Bytes that lie together in the file and in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) range: ByteRange,
    /// Where the first lies in the window.
    pub(crate) at: u64,
    /// Whether bytes that nobody asked for lie between those that somebody did.
    pub(crate) has_hole: bool,
}

impl Span {
    /// Its place in the window.
    pub(crate) fn place(&self) -> std::ops::Range<usize> {
        in_memory(self.at)..in_memory(self.at + self.range.bytes())
    }
}

/// The covered bytes of `blocks`, joined over holes of at most `gap_bytes_max`; ascending where the blocks do. Blocks that follow
/// one another in the file and the window are joined too, but not over multiples of `unit_bytes`.
pub(crate) fn spans(
    covered: &PayloadIndex<'_>,
    blocks: impl Iterator<Item = Block>,
    gap_bytes_max: u64,
    unit_bytes: Option<NonZeroU64>,
) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let same_unit = |one: u64, other: u64| unit_bytes.is_none_or(|unit| one / unit == other / unit);
    let mut add = |range: ByteRange, at: u64, has_hole: bool| match spans.last_mut() {
        Some(last)
            if range.start >= last.range.end
                && range.start - last.range.end <= gap_bytes_max
                && same_unit(last.range.start, range.start)
                && range.start - last.range.start == at.wrapping_sub(last.at) =>
        {
            last.has_hole |= has_hole || range.start > last.range.end;
            last.range.end = range.end;
        }
        _ => spans.push(Span { range, at, has_hole }),
    };
    for block in blocks {
        let at = |offset: u64| block.at + (offset - block.range.start);
        covered.runs_in(block.range, |_, run| {
            if run.count == 1 || run.stride - run.length <= gap_bytes_max {
                add(ByteRange::new(run.offset, run.end()), at(run.offset), run.count > 1);
                return;
            }
            for piece in (0..run.count).map(|number| run.offset + number * run.stride) {
                add(ByteRange::new(piece, piece + run.length), at(piece), false);
            }
        });
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use afflux_plan::{Extents, Run};

    #[test]
    fn holes_are_joined_over_up_to_the_gap_and_blocks_where_they_meet() {
        let mut extents = Extents::new();
        extents.push(0, 10);
        extents.push_run(Run { offset: 15, length: 5, stride: 10, count: 4 });
        extents.push(70, 30);
        let index = PayloadIndex::new(&extents);
        let block = |start, end, at| Block { range: ByteRange::new(start, end), at };
        let found = |gap, blocks: &[Block]| -> Vec<(u64, u64, u64, bool)> {
            let all = spans(&index, blocks.iter().copied(), gap, None);
            all.iter().map(|span| (span.range.start, span.range.end, span.at, span.has_hole)).collect()
        };
        assert_eq!(found(5, &[block(0, 100, 0)]), [(0, 50, 0, true), (70, 100, 70, false)]);
        assert_eq!(found(20, &[block(0, 100, 0)]), [(0, 100, 0, true)]);
        let apart: Vec<_> = found(0, &[block(0, 100, 0)]);
        assert_eq!(apart.len(), 6);
        let split = spans(&index, [block(72, 80, 0), block(80, 90, 8)].into_iter(), 0, NonZeroU64::new(40));
        assert_eq!(split.len(), 2, "no call concerns two units");
        // Two blocks that meet in the file and in the window, and two that meet in the file only.
        assert_eq!(found(0, &[block(72, 80, 0), block(80, 90, 8)]), [(72, 90, 0, false)]);
        assert_eq!(found(0, &[block(72, 80, 0), block(80, 90, 64)]), [(72, 80, 0, false), (80, 90, 64, false)]);
    }
}
