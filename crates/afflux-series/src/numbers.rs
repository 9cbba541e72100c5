//! Long sequences of whole numbers (ids, positions, ordinals), kept as evenly spaced runs where they are regular.
//!
//! A rank of a regular mesh has millions of points whose ids follow one or two strides: a few words instead of a list. An
//! irregular sequence is kept as a plain list, so that none ever takes more than eight bytes a number (beside a small constant).

use crate::wire::{Damaged, Decoder, Encoder};

/// Runs that are always allowed: below them a list would save nothing worth having.
const RUNS_FREE: usize = 64;
/// What a run takes in memory, in numbers of a list.
const RUN_NUMBERS: usize = (size_of::<Run>() + size_of::<usize>()) / size_of::<u64>();

/// Neighbouring numbers: `first`, `first + 1`, and so on, `length` of them. Never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub first: u64,
    pub length: u64,
}

impl Stretch {
    /// One number.
    pub fn one(number: u64) -> Self {
        Self { first: number, length: 1 }
    }

    /// The largest number: not one past it, which may not exist.
    pub fn last(self) -> u64 {
        self.first + (self.length - 1)
    }

    /// What is left without the first `count` numbers.
    pub fn skip(self, count: u64) -> Option<Self> {
        (count < self.length).then(|| Self { first: self.first + count, length: self.length - count })
    }

    /// The same numbers in stretches of `length_max` at most.
    pub fn chunks(self, length_max: u64) -> impl Iterator<Item = Self> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let whole = rest?;
            rest = whole.skip(length_max);
            Some(Self { length: whole.length.min(length_max), ..whole })
        })
    }

    fn is_followed_by(self, number: u64) -> bool {
        self.last().checked_add(1) == Some(number)
    }
}

/// `count` stretches of `length` numbers, each `stride` behind the one before (0 where there is only one).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: u64,
    length: u64,
    stride: u64,
    count: u64,
}

impl Run {
    fn stretch(&self, index: u64) -> Stretch {
        Stretch { first: self.first + index * self.stride, length: self.length }
    }

    fn last(&self) -> u64 {
        self.stretch(self.count - 1).last()
    }

    /// Whether the run's numbers are numbers and its stretches ascend without touching.
    fn is_sound(&self) -> bool {
        let spaced = if self.count == 1 { self.stride == 0 } else { self.stride > self.length };
        let last = (self.count.wrapping_sub(1).checked_mul(self.stride))
            .and_then(|span| self.first.checked_add(span))
            .and_then(|last| last.checked_add(self.length.wrapping_sub(1)));
        self.count > 0 && self.length > 0 && spaced && last.is_some()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// Runs, and how many numbers there are up to the end of each.
    Runs(Vec<Run>, Vec<usize>),
    List(Vec<u64>),
}

/// A sequence of numbers in a given order, addressed by ordinal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbers {
    form: Form,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { form: Form::Runs(Vec::new(), Vec::new()) }
    }
}

impl Numbers {
    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Runs(_, ends) => ends.last().copied().unwrap_or(0),
            Form::List(list) => list.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at `ordinal`.
    pub fn get(&self, ordinal: usize) -> u64 {
        match &self.form {
            Form::List(list) => list[ordinal],
            Form::Runs(runs, ends) => {
                let (run, within) = place(ends, ordinal);
                let stretch = runs[run].stretch(within / runs[run].length);
                stretch.first + within % runs[run].length
            }
        }
    }

    /// The numbers of these ordinals, in order, neighbours together.
    pub fn stretches(&self, ordinals: std::ops::Range<usize>) -> Stretches<'_> {
        assert!(ordinals.start <= ordinals.end && ordinals.end <= self.len(), "ordinals lie within the sequence");
        let (run, within) = match &self.form {
            Form::Runs(_, ends) if ordinals.start < ordinals.end => place(ends, ordinals.start),
            _ => (0, 0),
        };
        Stretches { numbers: self, run, within, next: ordinals.start, end: ordinals.end }
    }

    /// All of them, neighbours together.
    pub fn all(&self) -> Stretches<'_> {
        self.stretches(0..self.len())
    }

    /// All of them, one by one.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.all().flat_map(|stretch| stretch.first..=stretch.last())
    }

    /// The ordinal of `number`, in a strictly ascending sequence: `Err` with that of the next larger one where it is not there.
    pub fn find(&self, number: u64) -> Result<usize, usize> {
        match &self.form {
            Form::List(list) => list.binary_search(&number),
            Form::Runs(runs, ends) => {
                // Runs do not overlap in an ascending sequence.
                let index = runs.partition_point(|run| run.last() < number);
                let before = if index == 0 { 0 } else { ends[index - 1] };
                let Some(run) = runs.get(index) else { return Err(before) };
                let Some(distance) = number.checked_sub(run.first) else { return Err(before) };
                let (stretch, within) =
                    if run.count == 1 { (0, distance) } else { (distance / run.stride, distance % run.stride) };
                let ordinal = |stretch: u64, within: u64| before + index_of(stretch * run.length + within);
                if within < run.length { Ok(ordinal(stretch, within)) } else { Err(ordinal(stretch + 1, 0)) }
            }
        }
    }

    /// Whether each is larger than the one before.
    pub fn is_ascending(&self) -> bool {
        match &self.form {
            Form::List(list) => list.is_sorted_by(|left, right| left < right),
            Form::Runs(runs, _) => runs.is_sorted_by(|left, right| left.last() < right.first),
        }
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> usize {
        match &self.form {
            Form::Runs(runs, ends) => runs.len() * size_of::<Run>() + ends.len() * size_of::<usize>(),
            Form::List(list) => list.len() * size_of::<u64>(),
        }
    }

    /// Appends them to a message.
    pub fn encode(&self, message: &mut Encoder) {
        match &self.form {
            Form::Runs(runs, _) => {
                message.word(0).word(runs.len() as u64);
                for run in runs {
                    message.word(run.first).word(run.length).word(run.stride).word(run.count);
                }
            }
            Form::List(list) => {
                message.word(1).word(list.len() as u64);
                for &number in list {
                    message.word(number);
                }
            }
        }
    }

    /// Reads what [`Numbers::encode`] wrote.
    pub fn decode(message: &mut Decoder<'_>) -> Result<Self, Damaged> {
        if message.word()? == 1 {
            let count = message.count(8)?;
            let list = (0..count).map(|_| message.word()).collect::<Result<_, _>>()?;
            return Ok(Self { form: Form::List(list) });
        }
        let count = message.count(4 * 8)?;
        let (mut runs, mut ends) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut end = 0_usize;
        for _ in 0..count {
            let run = Run {
                first: message.word()?,
                length: message.word()?,
                stride: message.word()?,
                count: message.word()?,
            };
            let numbers = run.length.checked_mul(run.count).and_then(|numbers| usize::try_from(numbers).ok());
            end = numbers.and_then(|numbers| end.checked_add(numbers)).filter(|_| run.is_sound()).ok_or(Damaged)?;
            runs.push(run);
            ends.push(end);
        }
        Ok(Self { form: Form::Runs(runs, ends) })
    }
}

/// Neighbours of a sequence together; made by [`Numbers::stretches`].
#[derive(Debug, Clone)]
pub(crate) struct Stretches<'a> {
    numbers: &'a Numbers,
    /// The run that `next` lies in, and its place there; of no meaning in a list.
    run: usize,
    within: u64,
    next: usize,
    end: usize,
}

impl Iterator for Stretches<'_> {
    type Item = Stretch;

    fn next(&mut self) -> Option<Stretch> {
        if self.next == self.end {
            return None;
        }
        let stretch = match &self.numbers.form {
            Form::List(list) => {
                let rest = &list[self.next..self.end];
                let length = rest.windows(2).position(|pair| pair[0].checked_add(1) != Some(pair[1]));
                Stretch { first: rest[0], length: length.map_or(rest.len(), |last| last + 1) as u64 }
            }
            Form::Runs(runs, _) => {
                let run = runs[self.run];
                let whole = run.stretch(self.within / run.length).skip(self.within % run.length);
                let whole = whole.expect("a place within a stretch");
                let length = whole.length.min((self.end - self.next) as u64);
                self.within += length;
                if self.within == run.length * run.count {
                    (self.run, self.within) = (self.run + 1, 0);
                }
                Stretch { length, ..whole }
            }
        };
        self.next += index_of(stretch.length);
        Some(stretch)
    }
}

/// Takes a sequence down as it comes.
#[derive(Debug, Clone, Default)]
pub(crate) struct NumbersBuilder {
    runs: Vec<Run>,
    /// Numbers in `runs` and `open`.
    len: usize,
    /// The stretch that may still grow; not in `runs` yet.
    open: Option<Stretch>,
    /// Where the sequence turned out irregular: all of it but `open`.
    list: Option<Vec<u64>>,
}

impl NumbersBuilder {
    /// Appends neighbouring numbers.
    pub fn push(&mut self, stretch: Stretch) {
        self.len += index_of(stretch.length);
        match &mut self.open {
            Some(open) if open.is_followed_by(stretch.first) => open.length += stretch.length,
            _ => {
                self.close();
                self.open = Some(stretch);
            }
        }
    }

    /// Appends one number.
    pub fn push_one(&mut self, number: u64) {
        self.push(Stretch::one(number));
    }

    fn close(&mut self) {
        let Some(Stretch { first, length }) = self.open.take() else { return };
        if let Some(list) = &mut self.list {
            list.extend((0..length).map(|k| first + k));
            return;
        }
        match self.runs.last_mut() {
            Some(last) if last.count == 1 && last.length == length && first > last.last() => {
                last.stride = first - last.first;
                last.count = 2;
            }
            Some(last) if last.count > 1 && last.length == length && last.follows(first) => last.count += 1,
            _ => self.runs.push(Run { first, length, stride: 0, count: 1 }),
        }
        if self.runs.len() > RUNS_FREE && self.runs.len() * RUN_NUMBERS > self.len {
            let runs = std::mem::take(&mut self.runs);
            self.list =
                Some(runs.iter().flat_map(|run| (0..run.count).map(|k| run.stretch(k))).flat_map(all).collect());
        }
    }

    /// The sequence.
    pub fn finish(mut self) -> Numbers {
        self.close();
        let form = match self.list {
            Some(list) => Form::List(list),
            None => {
                let mut end = 0;
                let ends = self.runs.iter().map(|run| {
                    end += index_of(run.length * run.count);
                    end
                });
                let ends = ends.collect();
                Form::Runs(self.runs, ends)
            }
        };
        Numbers { form }
    }
}

impl Run {
    fn follows(&self, first: u64) -> bool {
        self.stride.checked_mul(self.count).and_then(|span| self.first.checked_add(span)) == Some(first)
    }
}

impl FromIterator<u64> for Numbers {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        numbers.into_iter().map(Stretch::one).collect()
    }
}

impl FromIterator<Stretch> for Numbers {
    fn from_iter<I: IntoIterator<Item = Stretch>>(stretches: I) -> Self {
        let mut builder = NumbersBuilder::default();
        stretches.into_iter().for_each(|stretch| builder.push(stretch));
        builder.finish()
    }
}

fn all(stretch: Stretch) -> impl Iterator<Item = u64> {
    stretch.first..=stretch.last()
}

/// The run that an ordinal lies in, and its place there.
fn place(ends: &[usize], ordinal: usize) -> (usize, u64) {
    let run = ends.partition_point(|&end| end <= ordinal);
    let before = if run == 0 { 0 } else { ends[run - 1] };
    (run, (ordinal - before) as u64)
}

fn index_of(number: u64) -> usize {
    usize::try_from(number).expect("counts of numbers in memory fit in usize")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn regular_sequences_take_a_few_words() {
        let blocks: Numbers = (0..1000).flat_map(|j| (0..4).map(move |k| 30 * j + k)).collect();
        assert_eq!((blocks.len(), blocks.bytes()), (4000, 40));
        let spaced: Numbers = (0..1000).map(|k| 7 * k).collect();
        assert_eq!((spaced.len(), spaced.bytes()), (1000, 40));
        assert_eq!(spaced.find(35), Ok(5));
        assert_eq!(spaced.find(36), Err(6));
    }

    #[test]
    fn the_largest_number_is_one_like_any_other() {
        let numbers: Numbers = [u64::MAX - 1, u64::MAX].into_iter().collect();
        assert_eq!(numbers.all().collect::<Vec<_>>(), [Stretch { first: u64::MAX - 1, length: 2 }]);
        assert_eq!(numbers.find(u64::MAX), Ok(1));
    }

    #[test]
    fn a_run_that_cannot_be_is_damage() {
        for words in [[5, 0, 0, 1], [5, 1, 0, 0], [5, 3, 2, 2], [5, 1, 0, 2], [u64::MAX, 2, 0, 1], [1, 1, 1 << 63, 4]] {
            let mut message = Encoder::default();
            message.word(0).word(1);
            for word in words {
                message.word(word);
            }
            let bytes = message.finish();
            assert_eq!(Numbers::decode(&mut Decoder::new(&bytes)), Err(Damaged), "{words:?}");
        }
    }

    /// Regular parts, irregular ones, repetitions and descents.
    fn sequences() -> impl Strategy<Value = Vec<u64>> {
        let part = (0_u64..50, 1_u64..5, 0_u64..9, 1_u64..5).prop_map(|(first, length, gap, count)| {
            (0..count).flat_map(move |k| (0..length).map(move |n| first + k * (length + gap) + n)).collect::<Vec<_>>()
        });
        proptest::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn is_the_plain_list_in_other_words(list in sequences(), from in 0_usize..50, count in 0_usize..50) {
            let numbers: Numbers = list.iter().copied().collect();
            prop_assert_eq!(numbers.iter().collect::<Vec<_>>(), &list[..]);
            prop_assert_eq!(numbers.len(), list.len());
            prop_assert!(numbers.bytes() <= 8 * list.len() + 40 * (RUNS_FREE + 1));
            for (ordinal, &number) in list.iter().enumerate() {
                prop_assert_eq!(numbers.get(ordinal), number);
            }
            let range = from.min(list.len())..(from + count).min(list.len());
            let part: Vec<u64> = numbers.stretches(range.clone()).flat_map(all).collect();
            prop_assert_eq!(&part[..], &list[range]);
            prop_assert_eq!(numbers.is_ascending(), list.is_sorted_by(|left, right| left < right));
            let mut message = Encoder::default();
            numbers.encode(&mut message);
            prop_assert_eq!(Numbers::decode(&mut Decoder::new(&message.finish())), Ok(numbers));
        }

        #[test]
        fn finds_what_a_search_finds(mut list in sequences(), number in 0_u64..120) {
            list.sort_unstable();
            list.dedup();
            let numbers: Numbers = list.iter().copied().collect();
            prop_assert_eq!(numbers.find(number), list.binary_search(&number));
        }
    }
}
