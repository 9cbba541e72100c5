//! The collectives, each in one turn.
//!
//! Arguments were checked by the caller. What is too long for a slot is left to it, with the lengths that all now know.

use super::Node;
use super::turn::{PAYLOAD_BYTES, Turn};
use crate::{CommError, CommOperation, Received, Reduce};

/// Bytes of a word, and of a length in the table of a scatter.
const WORD_BYTES: usize = size_of::<u64>();
/// Bytes of an element of a reduction: operation and value.
pub(super) const ELEMENT_BYTES: usize = 2 * WORD_BYTES;
/// Destination and length of a message in a sparse exchange.
const SPARSE_ENTRY_BYTES: usize = 2 * WORD_BYTES;
/// Messages that a slot can name, after their number.
const SPARSE_COUNT_MAX: usize = (PAYLOAD_BYTES - WORD_BYTES) / SPARSE_ENTRY_BYTES;
/// Stands for the number of messages of a rank that sends more than that.
const TOO_MANY: u64 = u64::MAX;

/// The messages of all ranks, indexed by rank, or only their lengths because one does not fit its slot.
pub(in crate::mpi) enum Gathered {
    Messages(Vec<Vec<u8>>),
    Lengths(Vec<usize>),
}

/// What a sparse exchange has brought.
pub(in crate::mpi) enum SparseMessages {
    /// Everything, sorted by source.
    All(Vec<Received>),
    /// What came in slots, sorted by source; the rest must go through MPI.
    Long { received: Vec<Received>, lengths: SparseLengths },
    /// Nothing: some rank sends more messages than a slot can name, and all must go through MPI.
    TooMany,
}

/// What does not fit the slots.
#[derive(Debug, Default)]
pub(in crate::mpi) struct SparseLengths {
    /// Source and length of the messages that come, by source.
    pub(in crate::mpi) sources: Vec<(usize, usize)>,
    /// The messages of this rank are among them.
    pub(in crate::mpi) own_are_long: bool,
}

/// A message where it fits a slot; else nothing, and its length alone goes there.
fn fitting(bytes: &[u8]) -> &[u8] {
    if bytes.len() <= PAYLOAD_BYTES { bytes } else { &[] }
}

impl Node {
    pub(in crate::mpi) fn barrier(&self) -> Result<(), CommError> {
        let mut turn = Turn::begin(self, CommOperation::Barrier, 0)?;
        turn.enter()?;
        turn.wait_for_all()
    }

    /// The length of the root's message when it is too long: `bytes` are unchanged then, and MPI must carry it.
    pub(in crate::mpi) fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<Option<usize>, CommError> {
        let mut turn = Turn::begin(self, CommOperation::Broadcast, root)?;
        if self.rank == root {
            turn.write(bytes.len(), &[fitting(bytes)]);
            turn.post()?;
            turn.enter()?;
            return Ok((bytes.len() > PAYLOAD_BYTES).then_some(bytes.len()));
        }
        turn.enter()?;
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
        let mut turn = Turn::begin(self, CommOperation::AllReduce, elements.len())?;
        if elements.len() > PAYLOAD_BYTES / ELEMENT_BYTES {
            // All ranks are in this call when MPI begins.
            turn.enter()?;
            turn.wait_for_all()?;
            return Ok(false);
        }
        let mut bytes = to_bytes(elements);
        turn.write(bytes.len(), &[&bytes]);
        turn.enter()?;
        turn.wait_for_all()?;
        for rank in (0..self.size).filter(|&rank| rank != self.rank) {
            turn.read(rank, 0, &mut bytes);
            combine(elements, &bytes)
                .map_err(|index| turn.mismatch(format!("the operations of element {index} differ between ranks")))?;
        }
        Ok(true)
    }

    pub(in crate::mpi) fn all_gather(&self, bytes: &[u8]) -> Result<Gathered, CommError> {
        let mut turn = Turn::begin(self, CommOperation::AllGather, 0)?;
        turn.write(bytes.len(), &[fitting(bytes)]);
        turn.enter()?;
        turn.wait_for_all()?;
        let lengths = (0..self.size).map(|rank| turn.length(rank)).collect::<Result<Vec<_>, _>>()?;
        if lengths.iter().any(|&length| length > PAYLOAD_BYTES) {
            return Ok(Gathered::Lengths(lengths));
        }
        Ok(Gathered::Messages(messages(&turn, &lengths)))
    }

    /// `N` words of every rank, indexed by rank.
    pub(in crate::mpi) fn all_gather_words<const N: usize>(
        &self,
        operation: CommOperation,
        words: [u64; N],
    ) -> Result<Vec<[u64; N]>, CommError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut turn = Turn::begin(self, operation, 0)?;
        turn.write(bytes.len(), &[&bytes]);
        turn.enter()?;
        turn.wait_for_all()?;
        let mut buffer = bytes;
        let mut of_rank = |rank| {
            turn.read(rank, 0, &mut buffer);
            let mut all = [0; N];
            for (place, bytes) in all.iter_mut().zip(buffer.chunks_exact(WORD_BYTES)) {
                *place = word(bytes);
            }
            all
        };
        Ok((0..self.size).map(&mut of_rank).collect())
    }

    /// The word of rank 0, on all.
    pub(super) fn broadcast_word(&self, operation: CommOperation, mine: u64) -> Result<u64, CommError> {
        let mut turn = Turn::begin(self, operation, 0)?;
        if self.rank == 0 {
            turn.write(WORD_BYTES, &[&mine.to_ne_bytes()]);
            turn.post()?;
            turn.enter()?;
            return Ok(mine);
        }
        turn.enter()?;
        turn.wait_for_root(0)?;
        let mut bytes = [0; WORD_BYTES];
        turn.read(0, 0, &mut bytes);
        Ok(word(&bytes))
    }

    /// On the root every message that fits, and zeros of the right length for those that MPI must carry, which are those
    /// longer than [`Self::message_bytes_max`]; nothing elsewhere.
    pub(in crate::mpi) fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        let mut turn = Turn::begin(self, CommOperation::Gather, root)?;
        turn.write(bytes.len(), &[fitting(bytes)]);
        turn.enter()?;
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
        let mut turn = Turn::begin(self, CommOperation::Scatter, root)?;
        if self.rank == root {
            let table: Vec<u8> = messages.iter().flat_map(|message| (message.len() as u64).to_ne_bytes()).collect();
            let length = messages.iter().fold(table.len(), |sum, message| sum.saturating_add(message.len()));
            let fits = length <= PAYLOAD_BYTES;
            let mut parts = vec![&table[..]];
            if fits {
                parts.extend(messages.iter().map(|message| &message[..]));
            }
            turn.write(length, &parts);
            turn.post()?;
            turn.enter()?;
            let own = &messages[root];
            return Ok(if fits { Ok(own.clone()) } else { Err(own.len()) });
        }
        turn.enter()?;
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

    /// `sends` are to other ranks. A slot names destination and length of each, and holds the messages if all fit.
    pub(in crate::mpi) fn sparse_exchange(&self, sends: &[(usize, &[u8])]) -> Result<SparseMessages, CommError> {
        let mut turn = Turn::begin(self, CommOperation::SparseExchange, 0)?;
        let entries = sends.iter().flat_map(|(destination, bytes)| [*destination as u64, bytes.len() as u64]);
        let count = if SPARSE_COUNT_MAX < sends.len() { TOO_MANY } else { sends.len() as u64 };
        let table: Vec<u8> = std::iter::once(count)
            .chain(entries.take(if count == TOO_MANY { 0 } else { usize::MAX }))
            .flat_map(u64::to_ne_bytes)
            .collect();
        let length = sends.iter().fold(table.len(), |sum, send| sum.saturating_add(send.1.len()));
        let own_are_long = length > PAYLOAD_BYTES;
        let mut parts = vec![&table[..]];
        if !own_are_long {
            parts.extend(sends.iter().map(|send| send.1));
        }
        turn.write(length, &parts);
        turn.enter()?;
        turn.wait_for_all()?;
        let mut received = Vec::new();
        let mut lengths = SparseLengths { own_are_long, ..SparseLengths::default() };
        let mut too_many = count == TOO_MANY;
        for source in (0..self.size).filter(|&rank| rank != self.rank) {
            let is_long = turn.length(source)? > PAYLOAD_BYTES;
            match self.find_sparse(&turn, source)? {
                SparseFound::Nothing => {}
                SparseFound::TooMany => too_many = true,
                SparseFound::Message { length, .. } if is_long => lengths.sources.push((source, length)),
                SparseFound::Message { offset, length } => {
                    let mut bytes = vec![0; length];
                    turn.read(source, offset, &mut bytes);
                    received.push(Received { source, bytes });
                }
            }
        }
        Ok(if too_many {
            SparseMessages::TooMany
        } else if own_are_long || !lengths.sources.is_empty() {
            SparseMessages::Long { received, lengths }
        } else {
            SparseMessages::All(received)
        })
    }

    /// What `source` sends to this rank in a sparse exchange.
    fn find_sparse(&self, turn: &Turn, source: usize) -> Result<SparseFound, CommError> {
        let mut count = [0; WORD_BYTES];
        turn.read(source, 0, &mut count);
        let count = word(&count);
        if count == TOO_MANY {
            return Ok(SparseFound::TooMany);
        }
        let in_slot = |number: u64| usize::try_from(number).ok().filter(|&number| number <= PAYLOAD_BYTES);
        let broken = || turn.mismatch(format!("the slot of rank {source} holds no messages"));
        let count = usize::try_from(count).ok().filter(|&count| count <= SPARSE_COUNT_MAX).ok_or_else(broken)?;
        let mut table = vec![0; count * SPARSE_ENTRY_BYTES];
        turn.read(source, WORD_BYTES, &mut table);
        let is_long = turn.length(source)? > PAYLOAD_BYTES;
        let mut offset = WORD_BYTES + table.len();
        for entry in table.chunks_exact(SPARSE_ENTRY_BYTES) {
            let (destination, length) = (word(&entry[..WORD_BYTES]), word(&entry[WORD_BYTES..]));
            let length = if is_long { usize::try_from(length).ok() } else { in_slot(length) }.ok_or_else(broken)?;
            if destination == self.rank as u64 {
                return Ok(SparseFound::Message { offset, length });
            }
            offset = offset.saturating_add(length);
        }
        Ok(SparseFound::Nothing)
    }

    pub(in crate::mpi) fn exclusive_sum(&self, value: u64) -> Result<u64, CommError> {
        let mut turn = Turn::begin(self, CommOperation::ExclusiveSum, 0)?;
        turn.write(WORD_BYTES, &[&value.to_ne_bytes()]);
        turn.enter()?;
        turn.wait_for_all()?;
        let mut below = 0_u64;
        for rank in 0..self.rank {
            let mut bytes = [0; WORD_BYTES];
            turn.read(rank, 0, &mut bytes);
            below = below.wrapping_add(word(&bytes));
        }
        Ok(below)
    }
}

enum SparseFound {
    Nothing,
    /// Where it stands in the slot, if the slot holds messages.
    Message {
        offset: usize,
        length: usize,
    },
    TooMany,
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

/// Elements as slots hold them: operation and value of each.
pub(super) fn to_bytes(elements: &[Reduce]) -> Vec<u8> {
    elements.iter().flat_map(|element| [element.op as u64, element.value]).flat_map(u64::to_ne_bytes).collect()
}

/// Combines another rank's elements into `elements`; the index of the first whose operations differ is the error.
pub(super) fn combine(elements: &mut [Reduce], bytes: &[u8]) -> Result<(), usize> {
    for (index, (element, words)) in elements.iter_mut().zip(bytes.chunks_exact(ELEMENT_BYTES)).enumerate() {
        let (op, value) = words.split_at(WORD_BYTES);
        if word(op) != element.op as u64 {
            return Err(index);
        }
        element.combine(Reduce { op: element.op, value: word(value) });
    }
    Ok(())
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}
