//! The collectives, each in one turn.
//!
//! Arguments were checked by the caller. What is too long for a slot is left to it, with the lengths that all now know.

use super::Node;
use super::turn::{PAYLOAD_BYTES, Turn};
use crate::{CommError, Reduce};

/// Bytes of a word, and of a length in the table of a scatter.
const WORD_BYTES: usize = size_of::<u64>();
/// Bytes of an element of a reduction: operation and value.
const ELEMENT_BYTES: usize = 2 * WORD_BYTES;

/// The kinds of calls, as slots name them together with the root or count.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
enum Kind {
    Barrier = 1,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    AllGather,
    Sum,
}

impl Kind {
    fn with(self, argument: usize) -> u64 {
        (self as u64) << 48 | argument as u64
    }
}

/// The messages of all ranks, indexed by rank, or only their lengths because one does not fit its slot.
pub(in crate::mpi) enum Gathered {
    Messages(Vec<Vec<u8>>),
    Lengths(Vec<usize>),
}

/// A message where it fits a slot; else nothing, and its length alone goes there.
fn fitting(bytes: &[u8]) -> &[u8] {
    if bytes.len() <= PAYLOAD_BYTES { bytes } else { &[] }
}

impl Node {
    pub(in crate::mpi) fn barrier(&self) -> Result<(), CommError> {
        let mut turn = Turn::begin(self, "barrier", Kind::Barrier.with(0))?;
        turn.enter();
        turn.wait_for_all()
    }

    /// The length of the root's message when it is too long: `bytes` are unchanged then, and MPI must carry it.
    pub(in crate::mpi) fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<Option<usize>, CommError> {
        let mut turn = Turn::begin(self, "broadcast", Kind::Broadcast.with(root))?;
        if self.rank == root {
            turn.write(bytes.len(), &[fitting(bytes)]);
            turn.post();
            turn.enter();
            return Ok((bytes.len() > PAYLOAD_BYTES).then_some(bytes.len()));
        }
        turn.enter();
        turn.wait_for_root(root)?;
        let length = turn.length(root)?;
        if length > PAYLOAD_BYTES {
            return Ok(Some(length));
        }
        bytes.resize(length, 0);
        turn.read(root, 0, bytes);
        Ok(None)
    }

    /// False when the elements, whose number is the same on all ranks, do not fit.
    pub(in crate::mpi) fn all_reduce(&self, elements: &mut [Reduce]) -> Result<bool, CommError> {
        if elements.len() > PAYLOAD_BYTES / ELEMENT_BYTES {
            return Ok(false);
        }
        let mut bytes: Vec<u8> =
            elements.iter().flat_map(|element| [element.op as u64, element.value]).flat_map(u64::to_ne_bytes).collect();
        let mut turn = Turn::begin(self, "all_reduce", Kind::Reduce.with(elements.len()))?;
        turn.write(bytes.len(), &[&bytes]);
        turn.enter();
        turn.wait_for_all()?;
        for rank in (0..self.size).filter(|&rank| rank != self.rank) {
            turn.length(rank)?;
            turn.read(rank, 0, &mut bytes);
            for (index, (element, words)) in elements.iter_mut().zip(bytes.chunks_exact(ELEMENT_BYTES)).enumerate() {
                let (op, value) = words.split_at(WORD_BYTES);
                if word(op) != element.op as u64 {
                    return Err(turn.mismatch(format!("the operations of element {index} differ between ranks")));
                }
                element.combine(Reduce { op: element.op, value: word(value) });
            }
        }
        Ok(true)
    }

    pub(in crate::mpi) fn all_gather(&self, bytes: &[u8]) -> Result<Gathered, CommError> {
        let mut turn = Turn::begin(self, "all_gather", Kind::AllGather.with(0))?;
        turn.write(bytes.len(), &[fitting(bytes)]);
        turn.enter();
        turn.wait_for_all()?;
        let lengths = (0..self.size).map(|rank| turn.length(rank)).collect::<Result<Vec<_>, _>>()?;
        if lengths.iter().any(|&length| length > PAYLOAD_BYTES) {
            return Ok(Gathered::Lengths(lengths));
        }
        Ok(Gathered::Messages(messages(&turn, &lengths)))
    }

    /// `N` words of every rank, indexed by rank.
    pub(in crate::mpi) fn all_gather_words<const N: usize>(&self, words: [u64; N]) -> Result<Vec<[u64; N]>, CommError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut turn = Turn::begin(self, "all_gather", Kind::AllGather.with(N))?;
        turn.write(bytes.len(), &[&bytes]);
        turn.enter();
        turn.wait_for_all()?;
        let mut buffer = bytes;
        (0..self.size)
            .map(|rank| {
                turn.length(rank)?;
                turn.read(rank, 0, &mut buffer);
                let mut all = [0; N];
                for (place, bytes) in all.iter_mut().zip(buffer.chunks_exact(WORD_BYTES)) {
                    *place = word(bytes);
                }
                Ok(all)
            })
            .collect()
    }

    /// On the root every message that fits, and zeros of the right length for those that MPI must carry, which are those
    /// longer than [`Self::message_bytes_max`]; nothing elsewhere.
    pub(in crate::mpi) fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        let mut turn = Turn::begin(self, "gather", Kind::Gather.with(root))?;
        turn.write(bytes.len(), &[fitting(bytes)]);
        turn.enter();
        if self.rank != root {
            return Ok(Vec::new());
        }
        turn.wait_for_all()?;
        let lengths = (0..self.size).map(|rank| turn.length(rank)).collect::<Result<Vec<_>, _>>()?;
        Ok(messages(&turn, &lengths))
    }

    /// The longest message that a slot carries.
    pub(in crate::mpi) fn message_bytes_max(&self) -> usize {
        PAYLOAD_BYTES
    }

    /// This rank's message, or only its length because the messages together do not fit the root's slot.
    pub(in crate::mpi) fn scatter(
        &self,
        root: usize,
        messages: &[Vec<u8>],
    ) -> Result<Result<Vec<u8>, usize>, CommError> {
        let table_bytes = self.size * WORD_BYTES;
        let mut turn = Turn::begin(self, "scatter", Kind::Scatter.with(root))?;
        if self.rank == root {
            let table: Vec<u8> = messages.iter().flat_map(|message| (message.len() as u64).to_ne_bytes()).collect();
            let length = messages.iter().fold(table.len(), |sum, message| sum.saturating_add(message.len()));
            let fits = length <= PAYLOAD_BYTES;
            let mut parts = vec![&table[..]];
            if fits {
                parts.extend(messages.iter().map(|message| &message[..]));
            }
            turn.write(length, &parts);
            turn.post();
            turn.enter();
            let own = &messages[root];
            return Ok(if fits { Ok(own.clone()) } else { Err(own.len()) });
        }
        turn.enter();
        turn.wait_for_root(root)?;
        let total = turn.length(root)?;
        let mut table = vec![0; table_bytes];
        turn.read(root, 0, &mut table);
        let mut lengths = table.chunks_exact(WORD_BYTES).map(|bytes| {
            usize::try_from(word(bytes))
                .map_err(|_| turn.mismatch("the root sends more than fits in memory".to_owned()))
        });
        let mut offset = table_bytes;
        for length in lengths.by_ref().take(self.rank) {
            offset = offset.saturating_add(length?);
        }
        let length = lengths.next().expect("a length a rank")?;
        if total > PAYLOAD_BYTES {
            return Ok(Err(length));
        }
        let mut mine = vec![0; length];
        turn.read(root, offset, &mut mine);
        Ok(Ok(mine))
    }

    pub(in crate::mpi) fn exclusive_sum(&self, value: u64) -> Result<u64, CommError> {
        let mut turn = Turn::begin(self, "exclusive_sum", Kind::Sum.with(0))?;
        turn.write(WORD_BYTES, &[&value.to_ne_bytes()]);
        turn.enter();
        turn.wait_for_all()?;
        let mut below = 0_u64;
        for rank in 0..self.rank {
            let mut bytes = [0; WORD_BYTES];
            turn.length(rank)?;
            turn.read(rank, 0, &mut bytes);
            below = below.wrapping_add(word(&bytes));
        }
        Ok(below)
    }
}

/// The messages of all ranks, zeros for those that do not fit.
fn messages(turn: &Turn, lengths: &[usize]) -> Vec<Vec<u8>> {
    lengths
        .iter()
        .enumerate()
        .map(|(rank, &length)| {
            let mut message = vec![0; length];
            if length <= PAYLOAD_BYTES {
                turn.read(rank, 0, &mut message);
            }
            message
        })
        .collect()
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}
