//! What the collective calls do: small ones of ranks that share one node go through its memory ([`super::node`]); the rest,
//! and what turns out to be too long there, through MPI.

use std::ffi::c_int;
use std::rc::Rc;

use mpi::ffi::{self, MPI_Comm, MPI_Request};

use super::call::Call;
use super::communicator::{MpiCommunicator, Peers};
use super::errors::ReturnedErrors;
use super::exchange::{Transfers, null_request};
use super::node::{Gathered, Node, SparseLengths, SparseMessages};
use super::pieces::byte;
use super::poll::{Poll, test};
use super::reduction::{MpiReduction, Requests, another_call};
use super::shared::{EQUAL, RawReduce};
use super::{PIECE_BYTES_MAX, int, sparse};
use crate::{CommError, CommOperation, PendingReduce, Received, Reduce, ReduceOp, check as arguments};

/// The sort of messages of `exchange`, `gather` and `scatter`. Pairs match in order, so one tag serves all calls.
const EXCHANGE: c_int = 0;
/// Messages of `sparse_exchange`, in even calls; odd calls use the next.
const SPARSE: c_int = 1;
/// The message that carries the call, the length of a broadcast and, if it fits, the payload: one call for what is short. With its
/// header below the 4,096 bytes that Open MPI sends at once within a node: the root of a longer one waits for its children.
const BROADCAST_HEAD_BYTES: usize = 2_048;
/// Bytes of a word.
const WORD_BYTES: usize = size_of::<u64>();
/// Bytes of the call and the length in it.
const HEAD_WORDS_BYTES: usize = 2 * WORD_BYTES;

/// What a rank gives and gets in `MPI_Iallgatherv`, and the counts and places of all ranks.
type AllGatherBuffers = (Vec<u8>, Vec<u8>, Vec<c_int>, Vec<c_int>);

impl MpiCommunicator {
    fn node(&self) -> Option<&Rc<Node>> {
        match &self.peers {
            Peers::Near(node) => Some(node),
            Peers::Apart(_) => None,
        }
    }

    /// Starts a collective of MPI with `start` on `buffers`, whose memory is on the heap, and gives them back when it is
    /// complete. A collective cannot be taken back: if the wait turns out to be in vain they stay in the hands of MPI.
    fn run<B>(
        &self,
        call: &'static str,
        bulk: bool,
        mut buffers: B,
        start: impl FnOnce(MPI_Comm, &mut B, &mut MPI_Request) -> c_int,
    ) -> Result<B, CommError> {
        let mut request = null_request();
        self.check(start(self.collective_comm()?, &mut buffers, &mut request), call)?;
        let lookout = self.lookout();
        let mut poll = Poll::new(self.patience, call, bulk, &*lookout);
        while !test(self.rank, &mut request, call)? {
            if let Err(error) = poll.pause() {
                std::mem::forget(buffers);
                self.keep_handle();
                return Err(error);
            }
        }
        Ok(buffers)
    }

    /// Compares the word that came of `source` with that of the call that this rank is in.
    fn compare(&self, source: usize, word: u64) -> Result<(), CommError> {
        let mine = self.word();
        match (Call::from_word(mine), Call::from_word(word)) {
            _ if word == mine => Ok(()),
            (Some(call), Some(other)) => Err(CommError::Mismatch {
                call: call.operation.name(),
                message: call.disagreement(self.rank, other, source),
            }),
            _ => Err(another_call(mine)),
        }
    }

    /// Counts a call that goes through MPI alone.
    fn begin_apart(&self, operation: CommOperation, argument: usize) -> Result<(), CommError> {
        if let Peers::Apart(apart) = &self.peers {
            apart.begin(operation, argument)?;
        }
        Ok(())
    }

    /// Collective: `N` words of every rank, indexed by rank; part of `operation`.
    pub(super) fn all_gather_words<const N: usize>(
        &self,
        operation: CommOperation,
        words: [u64; N],
    ) -> Result<Vec<[u64; N]>, CommError> {
        match &self.peers {
            Peers::Near(node) => return node.all_gather_words(operation, words),
            Peers::Apart(apart) => apart.begin(operation, 0)?,
        };
        self.all_gather_words_apart(words)
    }

    /// As [`Self::all_gather_words`], through MPI, within a call that has begun.
    fn all_gather_words_apart<const N: usize>(&self, words: [u64; N]) -> Result<Vec<[u64; N]>, CommError> {
        // The word of the call before those of the caller.
        let given: Vec<u64> = std::iter::once(self.word()).chain(words).collect();
        let count = int(given.len());
        let buffers = (given, vec![0_u64; (N + 1) * self.size]);
        // SAFETY: N + 1 words from here, as many a rank into `all`; both live until the request is complete.
        let (_, all) = self.run("MPI_Iallgather", false, buffers, |comm, (given, all), request| unsafe {
            let word = ffi::RSMPI_UINT64_T;
            ffi::MPI_Iallgather(given.as_ptr().cast(), count, word, all.as_mut_ptr().cast(), count, word, comm, request)
        })?;
        let of_rank = |(source, words): (usize, &[u64])| {
            self.compare(source, words[0])?;
            Ok(words[1..].try_into().expect("N words behind that of the call"))
        };
        all.chunks_exact(N + 1).enumerate().map(of_rank).collect()
    }

    /// Collective: `bytes` of the root into those of the others, which have the same length.
    fn broadcast_known(&self, root: usize, mut bytes: Vec<u8>) -> Result<Vec<u8>, CommError> {
        for start in (0..bytes.len()).step_by(PIECE_BYTES_MAX) {
            // SAFETY: the piece lives until the request is complete.
            bytes = self.run("MPI_Ibcast", true, bytes, |comm, bytes, request| unsafe {
                let end = bytes.len().min(start + PIECE_BYTES_MAX);
                let piece = &mut bytes[start..end];
                ffi::MPI_Ibcast(piece.as_mut_ptr().cast(), int(piece.len()), byte(), int(root), comm, request)
            })?;
        }
        Ok(bytes)
    }

    /// Collective: `bytes` of the root, whose length all know.
    fn broadcast_long(&self, root: usize, length: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        let mut taken = std::mem::take(bytes);
        // Keeps what is there, which is overwritten: a caller who reuses the vector saves the zeros.
        taken.resize(length, 0);
        *bytes = self.broadcast_known(root, taken)?;
        Ok(())
    }

    /// Collective: on the root, zeros as long as the message of each rank, indexed by rank; nothing elsewhere.
    fn gather_lengths(&self, root: usize, length: usize) -> Result<Vec<Vec<u8>>, CommError> {
        let pairs = vec![[0_u64; 2]; if self.rank == root { self.size } else { 0 }];
        let buffers = (Box::new([self.word(), length as u64]), pairs);
        // SAFETY: two words from each rank into two a rank on the root; both live until the request is complete.
        let (_, pairs) = self.run("MPI_Igather", false, buffers, |comm, (pair, pairs), request| unsafe {
            ffi::MPI_Igather(
                pair.as_ptr().cast(),
                2,
                ffi::RSMPI_UINT64_T,
                pairs.as_mut_ptr().cast(),
                2,
                ffi::RSMPI_UINT64_T,
                int(root),
                comm,
                request,
            )
        })?;
        let of_rank = |(source, &[word, length]): (usize, &[u64; 2])| {
            self.compare(source, word)?;
            Ok(vec![0; usize::try_from(length).expect("a length of another rank fits here")])
        };
        pairs.iter().enumerate().map(of_rank).collect()
    }

    /// Collective: the length of the root's message for this rank.
    fn scatter_lengths(&self, root: usize, messages: &[Vec<u8>]) -> Result<usize, CommError> {
        let pairs: Vec<[u64; 2]> = messages.iter().map(|message| [self.word(), message.len() as u64]).collect();
        let buffers = (pairs, Box::new([0_u64; 2]));
        // SAFETY: two words a rank on the root into two on each rank; elsewhere the send side is ignored. Both live until
        // the request is complete.
        let (_, pair) = self.run("MPI_Iscatter", false, buffers, |comm, (pairs, pair), request| unsafe {
            ffi::MPI_Iscatter(
                pairs.as_ptr().cast(),
                2,
                ffi::RSMPI_UINT64_T,
                pair.as_mut_ptr().cast(),
                2,
                ffi::RSMPI_UINT64_T,
                int(root),
                comm,
                request,
            )
        })?;
        self.compare(root, pair[0])?;
        Ok(usize::try_from(pair[1]).expect("a length of another rank fits here"))
    }

    fn transfers(&self, call: &'static str) -> Transfers {
        Transfers::new(self.handle.get(), self.patience, call)
    }

    pub(super) fn make_barrier(&self) -> Result<(), CommError> {
        if let Some(node) = self.node() {
            return node.barrier();
        }
        self.begin_apart(CommOperation::Barrier, 0)?;
        self.wait_for_all()
    }

    /// Collective: waits through MPI until all are in the call that has begun last: a reduction of nothing but its word.
    pub(super) fn wait_for_all(&self) -> Result<(), CommError> {
        self.start_reduction(&[])?.complete(self.patience, false, &*self.lookout()).map(drop)
    }

    pub(super) fn make_broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        arguments::rank_in_range("broadcast", root, self.size);
        if let Some(node) = self.node() {
            return match node.broadcast(root, bytes)? {
                None => Ok(()),
                Some(length) => self.broadcast_long(root, length, bytes),
            };
        }
        self.begin_apart(CommOperation::Broadcast, root)?;
        let is_root = self.rank == root;
        let mut head = vec![0_u8; BROADCAST_HEAD_BYTES];
        let fits = |length: usize| length <= BROADCAST_HEAD_BYTES - HEAD_WORDS_BYTES;
        if is_root {
            head[..WORD_BYTES].copy_from_slice(&self.word().to_le_bytes());
            head[WORD_BYTES..HEAD_WORDS_BYTES].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            if fits(bytes.len()) {
                head[HEAD_WORDS_BYTES..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        // SAFETY: the head lives until the request is complete.
        let head = self.run("MPI_Ibcast", false, head, |comm, head, request| unsafe {
            ffi::MPI_Ibcast(head.as_mut_ptr().cast(), int(head.len()), byte(), int(root), comm, request)
        })?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        self.compare(root, word(&head[..WORD_BYTES]))?;
        let length = word(&head[WORD_BYTES..HEAD_WORDS_BYTES]);
        let length = usize::try_from(length).expect("a length of another rank fits here");
        if fits(length) {
            if !is_root {
                bytes.clear();
                bytes.extend_from_slice(&head[HEAD_WORDS_BYTES..][..length]);
            }
            return Ok(());
        }
        self.broadcast_long(root, length, bytes)
    }

    pub(super) fn make_all_reduce(&self, elements: &mut [Reduce]) -> Result<(), CommError> {
        if let Some(node) = self.node()
            && node.all_reduce(elements)?
        {
            return Ok(());
        }
        self.begin_apart(CommOperation::AllReduce, elements.len())?;
        let requests = self.start_reduction(elements)?;
        let result = requests.complete(self.patience, elements.len() > 65_536, &*self.lookout())?;
        elements.copy_from_slice(&result);
        Ok(())
    }

    /// Collective: starts a reduction of MPI, within a call that has begun.
    fn start_reduction(&self, elements: &[Reduce]) -> Result<Requests, CommError> {
        self.shared.abandoned.free_complete();
        Requests::start(self.collective_handle()?, &self.shared, self.rank, self.word(), elements)
    }

    pub(super) fn make_start_all_reduce(&self, elements: Vec<Reduce>) -> Result<Box<dyn PendingReduce>, CommError> {
        let peers = match &self.peers {
            Peers::Near(node) => return Ok(Box::new(node.start_reduction(elements)?)),
            Peers::Apart(apart) => apart,
        };
        peers.begin(CommOperation::StartAllReduce, elements.len())?;
        let requests = self.start_reduction(&elements)?;
        Ok(Box::new(MpiReduction::new(requests, self.patience, Rc::clone(peers), Rc::clone(&self.shared))))
    }

    pub(super) fn make_all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.begin_apart(CommOperation::AllGather, 0)?;
        let lengths = match self.node() {
            Some(node) => match node.all_gather(bytes)? {
                Gathered::Messages(messages) => return Ok(messages),
                Gathered::Lengths(lengths) => lengths,
            },
            None => self
                .all_gather_words_apart([bytes.len() as u64])?
                .iter()
                .map(|[length]| usize::try_from(*length).expect("a length of another rank fits here"))
                .collect(),
        };
        let total: usize = lengths.iter().sum();
        if total == 0 {
            return Ok(vec![Vec::new(); self.size]);
        }
        if total > PIECE_BYTES_MAX {
            // Counts and displacements of one call are ints; rank after rank is no slower for messages as long as these.
            let mut all: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![0; length]).collect();
            all[self.rank].copy_from_slice(bytes);
            for (root, message) in all.iter_mut().enumerate() {
                *message = self.broadcast_known(root, std::mem::take(message))?;
            }
            return Ok(all);
        }
        let counts: Vec<c_int> = lengths.iter().map(|&length| int(length)).collect();
        let starts: Vec<c_int> =
            counts.iter().scan(0, |end, count| Some(std::mem::replace(end, *end + count))).collect();
        let buffers = (bytes.to_vec(), vec![0_u8; total], counts, starts);
        let start = |comm: MPI_Comm, buffers: &mut AllGatherBuffers, request: &mut MPI_Request| {
            let (bytes, together, counts, starts) = buffers;
            // SAFETY: counts and starts describe `together`; all live until the request is complete.
            unsafe {
                ffi::MPI_Iallgatherv(
                    bytes.as_ptr().cast(),
                    int(bytes.len()),
                    byte(),
                    together.as_mut_ptr().cast(),
                    counts.as_ptr(),
                    starts.as_ptr(),
                    byte(),
                    comm,
                    request,
                )
            }
        };
        let (_, together, ..) = self.run("MPI_Iallgatherv", total > 65_536, buffers, start)?;
        let mut rest = &together[..];
        Ok(lengths.iter().map(|&length| rest.split_off(..length).expect("lengths sum to the whole").to_vec()).collect())
    }

    pub(super) fn make_gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        arguments::rank_in_range("gather", root, self.size);
        // Messages up to this length have come with the lengths.
        self.begin_apart(CommOperation::Gather, root)?;
        let (mut all, carried_bytes_max) = match self.node() {
            Some(node) => (node.gather(root, bytes)?, node.message_bytes_max()),
            None => (self.gather_lengths(root, bytes.len())?, 0),
        };
        let mut transfers = self.transfers("gather");
        if self.rank != root {
            if bytes.len() > carried_bytes_max {
                // SAFETY: `bytes` outlives `finish`.
                unsafe { transfers.send(root, &[bytes], self.tag(EXCHANGE))? };
            }
            transfers.finish(&*self.lookout())?;
            return Ok(Vec::new());
        }
        all[root].copy_from_slice(bytes);
        for (source, buffer) in all.iter_mut().enumerate() {
            if source != root && buffer.len() > carried_bytes_max {
                // SAFETY: the vectors are not touched before `finish`.
                unsafe { transfers.receive(source, buffer.as_mut_ptr(), buffer.len(), self.tag(EXCHANGE))? };
            }
        }
        transfers.finish(&*self.lookout())?;
        Ok(all)
    }

    pub(super) fn make_scatter(&self, root: usize, messages: &[Vec<u8>]) -> Result<Vec<u8>, CommError> {
        arguments::rank_in_range("scatter", root, self.size);
        let is_root = self.rank == root;
        assert!(!is_root || messages.len() == self.size, "scatter: the root gives one message a rank");
        self.begin_apart(CommOperation::Scatter, root)?;
        let length = match self.node() {
            Some(node) => match node.scatter(root, messages)? {
                Ok(message) => return Ok(message),
                Err(length) => length,
            },
            None => self.scatter_lengths(root, messages)?,
        };
        let mut transfers = self.transfers("scatter");
        if is_root {
            for (destination, message) in messages.iter().enumerate() {
                if destination != root && !message.is_empty() {
                    // SAFETY: `messages` outlives `finish`.
                    unsafe { transfers.send(destination, &[message], self.tag(EXCHANGE))? };
                }
            }
            transfers.finish(&*self.lookout())?;
            return Ok(messages[root].clone());
        }
        let mut mine = vec![0; length];
        if !mine.is_empty() {
            // SAFETY: the vector is not touched before `finish`.
            unsafe { transfers.receive(root, mine.as_mut_ptr(), mine.len(), self.tag(EXCHANGE))? };
        }
        transfers.finish(&*self.lookout())?;
        Ok(mine)
    }

    pub(super) fn make_exclusive_sum(&self, value: u64) -> Result<u64, CommError> {
        if let Some(node) = self.node() {
            return node.exclusive_sum(value);
        }
        self.begin_apart(CommOperation::ExclusiveSum, 0)?;
        let given = [RawReduce { op: EQUAL, value: self.word() }, RawReduce { op: ReduceOp::Sum as u64, value }];
        let buffers = Box::new([given, given]);
        // SAFETY: two elements in, two out, which live until the request is complete.
        let buffers = self.run("MPI_Iexscan", false, buffers, |comm, buffers, request| unsafe {
            let [given, below] = &mut **buffers;
            ffi::MPI_Iexscan(
                given.as_ptr().cast(),
                below.as_mut_ptr().cast(),
                int(given.len()),
                self.shared.element_type,
                self.shared.combine,
                comm,
                request,
            )
        })?;
        // MPI leaves the result of rank 0 undefined.
        if self.rank == 0 {
            return Ok(0);
        }
        let [call, below] = buffers[1];
        if (call.op, call.value) != (EQUAL, self.word()) {
            return Err(another_call(self.word()));
        }
        Ok(below.value)
    }

    pub(super) fn make_sparse_exchange(&self, sends: &[(usize, &[u8])]) -> Result<Vec<Received>, CommError> {
        arguments::destinations("sparse_exchange", sends.iter().map(|send| send.0), self.size);
        let (own, others): (Vec<_>, Vec<_>) = sends.iter().copied().partition(|send| send.0 == self.rank);
        let mut received = match self.node() {
            Some(node) => match node.sparse_exchange(&others)? {
                SparseMessages::All(received) => received,
                SparseMessages::Long { received, lengths } => self.exchange_long(received, &lengths, &others)?,
                SparseMessages::TooMany => self.sparse_by_messages(&others)?,
            },
            None => {
                self.begin_apart(CommOperation::SparseExchange, 0)?;
                self.sparse_by_messages(&others)?
            }
        };
        if let Some(&(source, bytes)) = own.first() {
            let place = received.partition_point(|message| message.source < source);
            received.insert(place, Received { source, bytes: bytes.to_vec() });
        }
        Ok(received)
    }

    /// The sparse exchange among other ranks through MPI alone.
    fn sparse_by_messages(&self, sends: &[(usize, &[u8])]) -> Result<Vec<Received>, CommError> {
        let call = self.sparse_calls.get();
        self.sparse_calls.set(call + 1);
        let tag = self.tag(SPARSE + c_int::from(call % 2 == 1));
        let place = sparse::Place { messages: &self.handle, barrier: self.collective_handle()?, tag };
        sparse::sparse_exchange(place, self.patience, sends, &*self.lookout())
    }

    /// The messages of a sparse exchange that did not fit the memory of the node: `lengths` of those that come, by source,
    /// beside what is `received` already. `sends` are sent if they did not fit.
    fn exchange_long(
        &self,
        mut received: Vec<Received>,
        lengths: &SparseLengths,
        sends: &[(usize, &[u8])],
    ) -> Result<Vec<Received>, CommError> {
        let mut transfers = self.transfers("sparse_exchange");
        let mut long: Vec<Received> =
            lengths.sources.iter().map(|&(source, length)| Received { source, bytes: vec![0; length] }).collect();
        for message in &mut long {
            // SAFETY: the vectors are not touched before `finish`.
            unsafe {
                transfers.receive(
                    message.source,
                    message.bytes.as_mut_ptr(),
                    message.bytes.len(),
                    self.tag(EXCHANGE),
                )?;
            }
        }
        if lengths.own_are_long {
            for &(destination, bytes) in sends {
                // SAFETY: `sends` outlives `finish`.
                unsafe { transfers.send(destination, &[bytes], self.tag(EXCHANGE))? };
            }
        }
        transfers.finish(&*self.lookout())?;
        received.append(&mut long);
        received.sort_unstable_by_key(|message| message.source);
        Ok(received)
    }

    pub(super) fn make_exchange(
        &self,
        sends: &[(usize, &[&[u8]])],
        receives: &mut [(usize, &mut [u8])],
    ) -> Result<(), CommError> {
        arguments::destinations("exchange", sends.iter().map(|send| send.0), self.size);
        arguments::destinations("exchange", receives.iter().map(|receive| receive.0), self.size);
        self.begin(CommOperation::Exchange, 0)?;
        let mut transfers = self.transfers("exchange");
        let mut own_receive = None;
        for (source, buffer) in receives.iter_mut() {
            if *source == self.rank {
                own_receive = Some(&mut **buffer);
            } else {
                // SAFETY: `receives` is borrowed mutably and not touched before `transfers` is finished or dropped.
                unsafe { transfers.receive(*source, buffer.as_mut_ptr(), buffer.len(), self.tag(EXCHANGE))? };
            }
        }
        let mut own_send = None;
        for &(destination, slices) in sends {
            if destination == self.rank {
                own_send = Some(slices);
            } else {
                // SAFETY: `sends` is borrowed until `transfers` is finished or dropped.
                unsafe { transfers.send(destination, slices, self.tag(EXCHANGE))? };
            }
        }
        let own = arguments::exchange_with_self(self.rank, own_send, own_receive);
        let host = self.shared.environment.is_host();
        let _returned_errors = host.then(|| ReturnedErrors::new(self.rank)).transpose()?;
        let others = transfers.finish(&*self.lookout());
        own.and(others)
    }
}
