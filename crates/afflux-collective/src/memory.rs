//! A rank's memory in an access: slices, or a regular layout within one slice, addressed as one payload.
//!
//! What is regular stays so: [`Source::stretches`] and [`Target::stretches`] give pieces at even distances, not one by one.

use afflux_plan::{ByteRange, Extents, PayloadIndex, Run};

/// A count of bytes in memory. Everything that was ever in memory fits.
pub(crate) fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what lies in memory has a length that fits in usize")
}

/// Pieces of `length` bytes, `count` of them, each `stride` bytes behind the one before, in a span that begins with the
/// first and ends with the last.
pub(crate) struct Stretch<S> {
    pub(crate) span: S,
    pub(crate) length: usize,
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

impl<S> Stretch<S> {
    fn one(span: S, length: usize) -> Self {
        Self { span, length, stride: length, count: 1 }
    }

    fn of(run: Run, span: S) -> Self {
        Self { span, length: in_memory(run.length), stride: in_memory(run.stride), count: in_memory(run.count) }
    }
}

/// Where each slice begins in the payload, and one past its end last.
fn starts(lengths: impl ExactSizeIterator<Item = usize>) -> Vec<u64> {
    let mut starts = Vec::with_capacity(lengths.len() + 1);
    let mut end = 0;
    starts.push(0);
    for length in lengths {
        end += length as u64;
        starts.push(end);
    }
    starts
}

/// The slices that hold bytes of `range`, with the part of each that does; none empty.
fn overlaps(starts: &[u64], range: ByteRange) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + '_ {
    let first = starts.partition_point(|&start| start <= range.start).saturating_sub(1);
    (first..starts.len() - 1)
        .take_while(move |&at| starts[at] < range.end)
        .map(move |at| {
            let from = range.start.saturating_sub(starts[at]);
            let to = range.end.min(starts[at + 1]) - starts[at];
            (at, in_memory(from.min(to))..in_memory(to))
        })
        .filter(|(_, part)| !part.is_empty())
}

fn range_of(run: Run) -> std::ops::Range<usize> {
    in_memory(run.offset)..in_memory(run.end())
}

/// Memory that is written to the file.
pub(crate) enum Source<'a> {
    /// The concatenation of slices, and where each begins.
    Slices(&'a [&'a [u8]], Vec<u64>),
    /// The bytes of a slice that extents within it describe.
    Layout(&'a [u8], PayloadIndex<'a>),
}

impl<'a> Source<'a> {
    pub(crate) fn slices(slices: &'a [&'a [u8]]) -> Self {
        Self::Slices(slices, starts(slices.iter().map(|slice| slice.len())))
    }

    /// The extents must end within `base`.
    pub(crate) fn layout(base: &'a [u8], layout: &'a Extents) -> Self {
        Self::Layout(base, PayloadIndex::new(layout))
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Slices(_, starts) => *starts.last().expect("the end is always there"),
            Self::Layout(_, index) => index.extents().bytes(),
        }
    }

    /// The bytes `range` of the payload, in order, as pieces at even distances.
    pub(crate) fn stretches(&self, range: ByteRange, mut take: impl FnMut(Stretch<&'a [u8]>)) {
        match self {
            Self::Slices(slices, starts) => {
                let slices: &'a [&'a [u8]] = slices;
                overlaps(starts, range).for_each(|(at, part)| {
                    let span = &slices[at][part];
                    take(Stretch::one(span, span.len()));
                });
            }
            Self::Layout(base, index) => {
                let base: &'a [u8] = base;
                index.runs_of(range, |run| take(Stretch::of(run, &base[range_of(run)])));
            }
        }
    }

    /// Pieces that hold the bytes `range` of the payload.
    pub(crate) fn piece_count(&self, range: ByteRange) -> u64 {
        let mut count = 0;
        self.stretches(range, |stretch| count += stretch.count as u64);
        count
    }

    /// The bytes `range` of the payload, in order, as slices; none empty.
    pub(crate) fn parts(&self, range: ByteRange) -> Vec<&'a [u8]> {
        let mut parts = Vec::new();
        self.stretches(range, |stretch| {
            parts.extend(stretch.span.chunks(stretch.stride.max(1)).map(|chunk| &chunk[..stretch.length]));
        });
        parts
    }
}

/// Memory that is read into.
pub(crate) enum Target<'a, 'b> {
    /// The concatenation of slices, and where each begins.
    Slices(&'a mut [&'b mut [u8]], Vec<u64>),
    /// The bytes of a slice that extents within it describe.
    Layout(&'a mut [u8], PayloadIndex<'a>),
}

impl<'a, 'b> Target<'a, 'b> {
    pub(crate) fn slices(buffers: &'a mut [&'b mut [u8]]) -> Self {
        let starts = starts(buffers.iter().map(|buffer| buffer.len()));
        Self::Slices(buffers, starts)
    }

    /// The extents must end within `base`.
    pub(crate) fn layout(base: &'a mut [u8], layout: &'a Extents) -> Self {
        Self::Layout(base, PayloadIndex::new(layout))
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Slices(_, starts) => *starts.last().expect("the end is always there"),
            Self::Layout(_, index) => index.extents().bytes(),
        }
    }

    /// The bytes `range` of the payload, in order, as pieces at even distances.
    pub(crate) fn stretches(&mut self, range: ByteRange, mut take: impl FnMut(Stretch<&mut [u8]>)) {
        match self {
            Self::Slices(buffers, starts) => overlaps(starts, range).for_each(|(at, part)| {
                let span = &mut buffers[at][part];
                let length = span.len();
                take(Stretch::one(span, length));
            }),
            Self::Layout(base, index) => index.runs_of(range, |run| take(Stretch::of(run, &mut base[range_of(run)]))),
        }
    }

    /// Pieces that hold the bytes `range` of the payload.
    pub(crate) fn piece_count(&mut self, range: ByteRange) -> u64 {
        let mut count = 0;
        self.stretches(range, |stretch| count += stretch.count as u64);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_the_slices() {
        let slices: [&[u8]; 5] = [&[0, 1, 2], &[], &[3, 4], &[], &[5, 6, 7, 8]];
        let source = Source::slices(&slices);
        assert_eq!(source.bytes(), 9);
        for start in 0..=9 {
            for end in start..=9 {
                let bytes = source.parts(ByteRange::new(start, end)).concat();
                assert_eq!(
                    bytes.iter().map(|&byte| u64::from(byte)).collect::<Vec<_>>(),
                    (start..end).collect::<Vec<_>>()
                );
            }
        }
    }

    #[test]
    fn parts_follow_the_layout() {
        let memory: Vec<u8> = (0..100).collect();
        let mut layout = Extents::new();
        layout.push_run(Run { offset: 3, length: 4, stride: 10, count: 5 });
        layout.push(60, 7);
        let source = Source::layout(&memory, &layout);
        let all: Vec<u8> =
            layout.pieces().flat_map(|(at, length)| at..at + length).map(|at| u8::try_from(at).unwrap()).collect();
        for start in 0..=source.bytes() {
            for end in start..=source.bytes() {
                assert_eq!(source.parts(ByteRange::new(start, end)).concat(), all[in_memory(start)..in_memory(end)]);
            }
        }
    }

    #[test]
    fn targets_are_where_the_ranges_are() {
        for split in 0..=8_usize {
            let mut memory = [0_u8; 8];
            let (a, b) = memory.split_at_mut(split);
            let mut buffers: [&mut [u8]; 3] = [a, &mut [], b];
            let mut target = Target::slices(&mut buffers);
            for (number, range) in (1..).zip([ByteRange::new(1, 3), ByteRange::new(3, 3), ByteRange::new(5, 8)]) {
                target.stretches(range, |stretch| stretch.span.fill(number));
            }
            assert_eq!(memory, [0, 1, 1, 0, 0, 3, 3, 3], "split at {split}");
        }
    }
}
