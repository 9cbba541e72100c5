//! What the collective calls do: small ones of ranks that share one node go through its memory ([`super::node`]); the rest,
//! and what turns out to be too long there, through MPI.

use std::ffi::c_int;
use std::rc::Rc;

use mpi::ffi::{self, MPI_Comm, MPI_Request};

use super::communicator::{MpiCommunicator, Peers};
use super::environment::end_job;
use super::errors::ReturnedErrors;
use super::exchange::{Transfers, null_request};
use super::node::{Gathered, Node, SparseLengths, SparseMessages};
use super::pieces::byte;
use super::poll::{Poll, test};
use super::reduction::{MpiReduction, REDUCE_ELEMENTS_MAX, Requests, combined};
use super::shared::{POISON, RawReduce};
use super::{PIECE_BYTES_MAX, int, sparse};
use crate::{CommError, CommOperation, PendingReduce, Received, Reduce, check as arguments};

/// The sort of messages of `exchange`, `gather` and `scatter`. Pairs match in order, so one tag serves all calls.
const EXCHANGE: c_int = 0;
/// Messages of `sparse_exchange`, in even calls; odd calls use the next.
const SPARSE: c_int = 1;
/// The message that carries the length of a broadcast and, if it fits, the payload: one call for what is short. With its
/// header below the 4,096 bytes that Open MPI sends at once within a node: the root of a longer one waits for its children.
const BROADCAST_HEAD_BYTES: usize = 2_048;
/// Bytes of the length in it.
const LENGTH_BYTES: usize = 8;

impl MpiCommunicator {
    fn node(&self) -> Option<&Rc<Node>> {
        match &self.peers {
            Peers::Near(node) => Some(node),
            Peers::Apart(_) => None,
        }
    }

    /// Starts a collective of MPI with `start` and waits for it. Its memory is the caller's and cannot be taken back: if
    /// the wait turns out to be in vain the job ends.
    fn run(
        &self,
        call: &'static str,
        bulk: bool,
        start: impl FnOnce(MPI_Comm, &mut MPI_Request) -> c_int,
    ) -> Result<(), CommError> {
        let mut request = null_request();
        self.check(start(self.collective_comm()?, &mut request), call)?;
        let lookout = self.lookout(None);
        let mut poll = Poll::new(self.patience, call, bulk, &*lookout);
        while !test(self.rank, &mut request, call)? {
            poll.pause().unwrap_or_else(|error| end_job(self.rank, &error));
        }
        Ok(())
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
        let mut all = vec![[0; N]; self.size];
        let count = int(N);
        // SAFETY: N words from here, N words a rank into `all`; both live until the request is complete.
        self.run("MPI_Iallgather", false, |comm, request| unsafe {
            let word = ffi::RSMPI_UINT64_T;
            ffi::MPI_Iallgather(words.as_ptr().cast(), count, word, all.as_mut_ptr().cast(), count, word, comm, request)
        })?;
        Ok(all)
    }

    /// Collective: `bytes` of the root into those of the others, which have the same length.
    fn broadcast_known(&self, root: usize, bytes: &mut [u8]) -> Result<(), CommError> {
        for piece in bytes.chunks_mut(PIECE_BYTES_MAX) {
            // SAFETY: the piece lives until the request is complete.
            self.run("MPI_Ibcast", true, |comm, request| unsafe {
                ffi::MPI_Ibcast(piece.as_mut_ptr().cast(), int(piece.len()), byte(), int(root), comm, request)
            })?;
        }
        Ok(())
    }

    /// Collective: `bytes` of the root, whose length all know.
    fn broadcast_long(&self, root: usize, length: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        // Keeps what is there, which is overwritten: a caller who reuses the vector saves the zeros.
        bytes.resize(length, 0);
        self.broadcast_known(root, bytes)
    }

    /// Collective: on the root, zeros as long as the message of each rank, indexed by rank; nothing elsewhere.
    fn gather_lengths(&self, root: usize, length: usize) -> Result<Vec<Vec<u8>>, CommError> {
        let length = length as u64;
        let mut lengths = vec![0_u64; if self.rank == root { self.size } else { 0 }];
        // SAFETY: one word from each rank into one a rank on the root.
        self.run("MPI_Igather", false, |comm, request| unsafe {
            ffi::MPI_Igather(
                (&raw const length).cast(),
                1,
                ffi::RSMPI_UINT64_T,
                lengths.as_mut_ptr().cast(),
                1,
                ffi::RSMPI_UINT64_T,
                int(root),
                comm,
                request,
            )
        })?;
        let to_usize = |length| usize::try_from(length).expect("a length of another rank fits here");
        Ok(lengths.into_iter().map(|length| vec![0; to_usize(length)]).collect())
    }

    /// Collective: the length of the root's message for this rank.
    fn scatter_lengths(&self, root: usize, messages: &[Vec<u8>]) -> Result<usize, CommError> {
        let lengths: Vec<u64> = messages.iter().map(|message| message.len() as u64).collect();
        let mut length = 0_u64;
        // SAFETY: one word a rank on the root into one word on each rank; elsewhere the send side is ignored.
        self.run("MPI_Iscatter", false, |comm, request| unsafe {
            ffi::MPI_Iscatter(
                lengths.as_ptr().cast(),
                1,
                ffi::RSMPI_UINT64_T,
                (&raw mut length).cast(),
                1,
                ffi::RSMPI_UINT64_T,
                int(root),
                comm,
                request,
            )
        })?;
        Ok(usize::try_from(length).expect("a length of another rank fits here"))
    }

    fn transfers(&self, call: &'static str) -> Transfers {
        Transfers::new(self.handle.get(), self.patience, call)
    }

    pub(super) fn make_barrier(&self) -> Result<(), CommError> {
        if let Some(node) = self.node() {
            return node.barrier();
        }
        self.begin_apart(CommOperation::Barrier, 0)?;
        // SAFETY: plain collective call.
        self.run("MPI_Ibarrier", false, |comm, request| unsafe { ffi::MPI_Ibarrier(comm, request) })
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
        let mut head = [0_u8; BROADCAST_HEAD_BYTES];
        let fits = |length: usize| length <= BROADCAST_HEAD_BYTES - LENGTH_BYTES;
        if is_root {
            head[..LENGTH_BYTES].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            if fits(bytes.len()) {
                head[LENGTH_BYTES..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        // SAFETY: the head lives until the request is complete.
        self.run("MPI_Ibcast", false, |comm, request| unsafe {
            ffi::MPI_Ibcast(head.as_mut_ptr().cast(), int(head.len()), byte(), int(root), comm, request)
        })?;
        let length = u64::from_le_bytes(head[..LENGTH_BYTES].try_into().expect("eight bytes"));
        let length = usize::try_from(length).expect("a length of another rank fits here");
        if fits(length) {
            if !is_root {
                bytes.clear();
                bytes.extend_from_slice(&head[LENGTH_BYTES..][..length]);
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
        for piece in elements.chunks_mut(REDUCE_ELEMENTS_MAX) {
            let mut result = vec![RawReduce { op: POISON, value: 0 }; piece.len()];
            // SAFETY: `Reduce` has the layout of `RawReduce` (repr(C), repr(u64)); both buffers hold as many elements
            // as the count says and live until the request is complete.
            self.run("MPI_Iallreduce", piece.len() > 65_536, |comm, request| unsafe {
                ffi::MPI_Iallreduce(
                    piece.as_ptr().cast(),
                    result.as_mut_ptr().cast(),
                    int(piece.len()),
                    self.shared.element_type,
                    self.shared.combine,
                    comm,
                    request,
                )
            })?;
            piece.copy_from_slice(&combined(piece, &result)?);
        }
        Ok(())
    }

    pub(super) fn make_start_all_reduce(&self, elements: Vec<Reduce>) -> Result<Box<dyn PendingReduce>, CommError> {
        let peers = match &self.peers {
            Peers::Near(node) => return Ok(Box::new(node.start_reduction(elements)?)),
            Peers::Apart(apart) => apart,
        };
        peers.begin(CommOperation::StartAllReduce, elements.len())?;
        self.shared.abandoned.free_complete();
        let requests = Requests::start(&self.handle, &self.shared, self.rank, elements)?;
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
                self.broadcast_known(root, message)?;
            }
            return Ok(all);
        }
        let counts: Vec<c_int> = lengths.iter().map(|&length| int(length)).collect();
        let starts: Vec<c_int> =
            counts.iter().scan(0, |end, count| Some(std::mem::replace(end, *end + count))).collect();
        let mut together = vec![0_u8; total];
        // SAFETY: counts and starts describe `together`; all live until the request is complete.
        self.run("MPI_Iallgatherv", total > 65_536, |comm, request| unsafe {
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
        })?;
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
            transfers.finish(&*self.lookout(None))?;
            return Ok(Vec::new());
        }
        all[root].copy_from_slice(bytes);
        for (source, buffer) in all.iter_mut().enumerate() {
            if source != root && buffer.len() > carried_bytes_max {
                // SAFETY: the vectors are not touched before `finish`.
                unsafe { transfers.receive(source, buffer.as_mut_ptr(), buffer.len(), self.tag(EXCHANGE))? };
            }
        }
        transfers.finish(&*self.lookout(None))?;
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
            transfers.finish(&*self.lookout(None))?;
            return Ok(messages[root].clone());
        }
        let mut mine = vec![0; length];
        if !mine.is_empty() {
            // SAFETY: the vector is not touched before `finish`.
            unsafe { transfers.receive(root, mine.as_mut_ptr(), mine.len(), self.tag(EXCHANGE))? };
        }
        transfers.finish(&*self.lookout(None))?;
        Ok(mine)
    }

    pub(super) fn make_exclusive_sum(&self, value: u64) -> Result<u64, CommError> {
        if let Some(node) = self.node() {
            return node.exclusive_sum(value);
        }
        self.begin_apart(CommOperation::ExclusiveSum, 0)?;
        let mut below = 0_u64;
        // SAFETY: one word in, one word out; C adds unsigned words modulo 2^64.
        self.run("MPI_Iexscan", false, |comm, request| unsafe {
            ffi::MPI_Iexscan(
                (&raw const value).cast(),
                (&raw mut below).cast(),
                1,
                ffi::RSMPI_UINT64_T,
                ffi::RSMPI_SUM,
                comm,
                request,
            )
        })?;
        // MPI leaves the result of rank 0 undefined.
        Ok(if self.rank == 0 { 0 } else { below })
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
        let place = sparse::Place { comm: self.handle.get(), barrier: self.collective_comm()?, tag };
        sparse::sparse_exchange(place, self.patience, sends, &*self.lookout(None))
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
        transfers.finish(&*self.lookout(None))?;
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
        let call = self.begin(CommOperation::Exchange, 0)?;
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
        let others = transfers.finish(&*self.lookout(Some(call)));
        own.and(others)
    }
}
