//! The bytes of a file that one rank reads or writes, regular patterns kept as strided runs.
//!
//! Answers for: building extents, cutting them to a range without expanding them, and the place of a file offset in their
//! payload. Leaves their form on the wire to `wire` and what several ranks' extents cover together to `cover`.

use crate::ByteRange;

/// `count` pieces of `length` bytes, the first at `offset`, each next one `stride` bytes further.
///
/// Invariants: `length > 0`, `count > 0`, and `stride > length` when `count > 1` (touching pieces are one piece);
/// `stride == length` when `count == 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    /// Offset in the file of the first piece, in bytes.
    pub offset: u64,
    /// Length of each piece, in bytes.
    pub length: u64,
    /// Distance between the starts of neighbouring pieces, in bytes.
    pub stride: u64,
    /// Number of pieces.
    pub count: u64,
}

impl Run {
    /// One contiguous piece.
    #[must_use]
    pub fn contiguous(offset: u64, length: u64) -> Self {
        Self { offset, length, stride: length, count: 1 }
    }
    /// Payload in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.length * self.count
    }
    /// One past the last byte touched.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.stride * (self.count - 1) + self.length
    }
    /// Start of piece `k`.
    fn piece(&self, k: u64) -> u64 {
        self.offset + k * self.stride
    }
    /// Payload bytes of this run at file offsets below `offset`.
    fn bytes_before(&self, offset: u64) -> u64 {
        let Some(distance) = offset.checked_sub(self.offset) else { return 0 };
        let whole = distance / self.stride;
        if whole >= self.count {
            return self.bytes();
        }
        whole * self.length + (distance % self.stride).min(self.length)
    }
    /// The part that lies in `range`, as at most three runs, ascending: a piece that the start of the range cuts, what is
    /// regular, a piece that the end cuts.
    #[must_use]
    pub fn parts_in(&self, range: ByteRange) -> [Option<Self>; 3] {
        let mut parts = [None; 3];
        let (mut from, mut to) = self.pieces_in(range);
        if from == to || range.is_empty() {
            return parts;
        }
        let head = self.piece(from);
        if head < range.start {
            let length = (head + self.length).min(range.end) - range.start;
            parts[0] = Some(Self::contiguous(range.start, length));
            from += 1;
        }
        if from < to && self.piece(to - 1) + self.length > range.end {
            to -= 1;
            parts[2] = Some(Self::contiguous(self.piece(to), range.end - self.piece(to)));
        }
        if from < to {
            let count = to - from;
            let stride = if count == 1 { self.length } else { self.stride };
            parts[1] = Some(Self { offset: self.piece(from), length: self.length, stride, count });
        }
        parts
    }

    /// The bytes `[from, to)` of its payload, as at most three runs: the rest of a piece, whole pieces, the front of one.
    fn parts_of(&self, from: u64, to: u64) -> [Option<Self>; 3] {
        let (first, head) = (from / self.length, from % self.length);
        let (last, tail) = (to / self.length, to % self.length);
        if first == last {
            return [Some(Self::contiguous(self.piece(first) + head, tail - head)), None, None];
        }
        let rest = (head > 0).then(|| Self::contiguous(self.piece(first) + head, self.length - head));
        let whole = first + u64::from(head > 0);
        let middle = (whole < last).then(|| {
            let count = last - whole;
            let stride = if count == 1 { self.length } else { self.stride };
            Self { offset: self.piece(whole), length: self.length, stride, count }
        });
        let front = (tail > 0).then(|| Self::contiguous(self.piece(last), tail));
        [rest, middle, front]
    }

    /// The numbers of the pieces that have a byte in `range`, half-open.
    fn pieces_in(&self, range: ByteRange) -> (u64, u64) {
        let from = match range.start.checked_sub(self.offset) {
            None => 0,
            Some(distance) => distance / self.stride + u64::from(distance % self.stride >= self.length),
        };
        let to = range.end.saturating_sub(self.offset).div_ceil(self.stride).min(self.count);
        (from.min(to), to)
    }
}

/// An ascending list of runs whose spans `[offset, end)` do not overlap; what it describes travels in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extents {
    runs: Vec<Run>,
    bytes: u64,
}

impl Extents {
    /// No bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a piece behind all others; touching pieces join and evenly spaced ones of equal length become one strided run.
    ///
    /// # Panics
    /// If the piece begins before the end of the last one.
    pub fn push(&mut self, offset: u64, length: u64) {
        if length == 0 {
            return;
        }
        assert!(offset.checked_add(length).is_some(), "a piece of {length} bytes at {offset} ends past any file");
        self.bytes += length;
        let Some(last) = self.runs.last_mut() else {
            self.runs.push(Run::contiguous(offset, length));
            return;
        };
        assert!(offset >= last.end(), "extents are pushed in ascending order: {offset} lies before {}", last.end());
        if last.count == 1 && offset == last.end() {
            last.length += length;
            last.stride = last.length;
        } else if last.count == 1 && length == last.length {
            last.stride = offset - last.offset;
            last.count = 2;
        } else if last.count > 1 && length == last.length && offset == last.offset + last.stride * last.count {
            last.count += 1;
        } else {
            self.runs.push(Run::contiguous(offset, length));
        }
    }

    /// Adds a strided run behind all others, joining as [`Extents::push`] does, without expanding it.
    ///
    /// # Panics
    /// If the run breaks its invariants, or begins before the end of the last one.
    pub fn push_run(&mut self, run: Run) {
        assert!(run.length > 0 && run.count > 0, "a run has bytes: {run:?}");
        if run.count == 1 {
            self.push(run.offset, run.length);
            return;
        }
        assert!(run.stride > run.length, "the pieces of a run do not touch: {run:?}");
        // The first piece alone may join what is there; if it continues a strided run, all of them do.
        self.push(run.offset, run.length);
        let last = self.runs.last_mut().expect("a piece was just pushed");
        let rest = Run { offset: run.piece(1), count: run.count - 1, ..run };
        let same_spacing = last.piece(last.count) == rest.offset || last.count == 1;
        if last.length == run.length && last.end() == run.offset + run.length && same_spacing {
            last.stride = run.stride;
            last.count += rest.count;
            self.bytes += rest.bytes();
        } else if rest.count == 1 {
            self.push(rest.offset, rest.length);
        } else {
            self.bytes += rest.bytes();
            self.runs.push(rest);
        }
    }

    /// How many pieces there are, without counting them one by one.
    #[must_use]
    pub fn piece_count(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }

    /// The part that lies in `range`; a strided run gives at most three runs, however many pieces it has.
    #[must_use]
    pub fn clip(&self, range: ByteRange) -> Self {
        let mut part = Self::new();
        let first = self.runs.partition_point(|run| run.end() <= range.start);
        for run in self.runs[first..].iter().take_while(|run| run.offset < range.end) {
            run.parts_in(range).into_iter().flatten().for_each(|run| part.push_run(run));
        }
        part
    }

    /// The runs, ascending.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Payload in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether no byte is described.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// First byte touched and one past the last; `None` when empty.
    #[must_use]
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.runs.first()?.offset, self.runs.last()?.end()))
    }

    /// Every piece as `(offset, length)`, ascending.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().flat_map(|run| (0..run.count).map(move |k| (run.offset + k * run.stride, run.length)))
    }
}

/// Extents with the running sums that find a file offset in their payload in logarithmic time.
#[derive(Debug, Clone)]
pub struct PayloadIndex<'a> {
    extents: &'a Extents,
    /// Payload before each run, indexed by run.
    before: Vec<u64>,
}

impl<'a> PayloadIndex<'a> {
    /// Sums up the runs once.
    #[must_use]
    pub fn new(extents: &'a Extents) -> Self {
        let mut sum = 0;
        let before = extents
            .runs
            .iter()
            .map(|run| {
                let here = sum;
                sum += run.bytes();
                here
            })
            .collect();
        Self { extents, before }
    }

    /// Payload bytes at file offsets below `offset`.
    #[must_use]
    pub fn bytes_before(&self, offset: u64) -> u64 {
        match self.extents.runs.partition_point(|run| run.offset < offset).checked_sub(1) {
            None => 0,
            Some(at) => self.before[at] + self.extents.runs[at].bytes_before(offset),
        }
    }

    /// Payload bytes in `range` of the file.
    #[must_use]
    pub fn bytes_in(&self, range: ByteRange) -> u64 {
        self.payload_in(range).bytes()
    }

    /// Calls `take(payload, run)` for the runs of the part in `range`, ascending: the pieces of `run` lie one behind another
    /// from `payload` on in the payload. Nothing is expanded and nothing allocated.
    pub fn runs_in(&self, range: ByteRange, mut take: impl FnMut(u64, Run)) {
        let runs = &self.extents.runs;
        let first = runs.partition_point(|run| run.end() <= range.start);
        for (at, run) in runs.iter().enumerate().skip(first).take_while(|(_, run)| run.offset < range.end) {
            let mut payload = self.before[at] + run.bytes_before(range.start);
            for part in run.parts_in(range).into_iter().flatten() {
                take(payload, part);
                payload += part.bytes();
            }
        }
    }

    /// Calls `take` for the runs that hold the bytes `payload` of the payload, ascending. Nothing is expanded and nothing
    /// allocated.
    ///
    /// # Panics
    /// If the payload is shorter.
    pub fn runs_of(&self, payload: ByteRange, mut take: impl FnMut(Run)) {
        assert!(payload.end <= self.extents.bytes, "{payload} of a payload of {} bytes", self.extents.bytes);
        let first = self.before.partition_point(|&before| before <= payload.start).saturating_sub(1);
        for (run, &before) in self.extents.runs[first..].iter().zip(&self.before[first..]) {
            if before >= payload.end {
                break;
            }
            let from = payload.start.saturating_sub(before);
            let to = (payload.end - before).min(run.bytes());
            if from < to {
                run.parts_of(from, to).into_iter().flatten().for_each(&mut take);
            }
        }
    }

    /// The extents.
    #[must_use]
    pub fn extents(&self) -> &'a Extents {
        self.extents
    }

    /// The payload that lies in `range` of the file. Because extents ascend it is one range of the payload.
    #[must_use]
    pub fn payload_in(&self, range: ByteRange) -> ByteRange {
        ByteRange::new(self.bytes_before(range.start), self.bytes_before(range.end))
    }
}
