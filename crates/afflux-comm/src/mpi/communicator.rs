//! The trait's calls, said in MPI.
//!
//! Small collectives of ranks that share one node go through its memory ([`super::node`]); the rest, and what turns out to be
//! too long there, through MPI.
//!
//! Invariants: the MPI communicator is a duplicate that only this one uses, with `MPI_ERRORS_RETURN`; no request but
//! those of [`super::reduction`], which hold it, outlives the call that made it.

use std::cell::Cell;
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Arc;

use mpi::ffi::{self, MPI_Comm, MPI_Request};

use super::environment::Environment;
use super::errors::ReturnedErrors;
use super::exchange::{Transfers, null_request};
use super::handle::Handle;
use super::node::memory::Memory;
use super::node::{Gathered, Node};
use super::pieces::byte;
use super::poll::{Patience, wait};
use super::reduction::{MpiReduction, REDUCE_ELEMENTS_MAX, Requests, combined};
use super::shared::{POISON, RawReduce, Shared};
use super::{PIECE_BYTES_MAX, check, cores, int, sparse};
use crate::{CommError, Communicator, NodeMap, NodeMemory, PendingReduce, Received, Reduce, check as arguments};

/// Messages of `exchange`, `gather` and `scatter`. Pairs match in order, so one tag serves all calls.
const EXCHANGE_TAG: c_int = 17;
/// Messages of `sparse_exchange`, in even calls; odd calls use the next tag.
const SPARSE_TAG: c_int = 18;
/// The message that carries the length of a broadcast and, if it fits, the payload: one call for what is short. With its
/// header below the 4,096 bytes that Open MPI sends at once within a node: the root of a longer one waits for its children.
const BROADCAST_HEAD_BYTES: usize = 2_048;
/// Bytes of the length in it.
const LENGTH_BYTES: usize = 8;

/// What shared memory begins with: its token, and nothing else up to the page behind.
const TOKEN_PAGE_BYTES: usize = 4_096;

/// A rank of an MPI job.
///
/// Dropping it frees the MPI communicator, for which both libraries need no other rank.
#[derive(Debug)]
pub struct MpiCommunicator {
    handle: Rc<Handle>,
    rank: usize,
    size: usize,
    nodes: NodeMap,
    patience: Patience,
    sparse_calls: Cell<u64>,
    /// For small collectives, where all ranks share a node and could map its memory.
    node: Option<Node>,
    shared: Rc<Shared>,
}

impl MpiCommunicator {
    /// Collective: a communicator of our own over the ranks of `comm`, for a host program that has called `MPI_Init`.
    /// `comm` stays the host's.
    ///
    /// # Errors
    /// [`CommError::Launcher`] when MPI is not running, [`CommError::Transport`] when MPI fails.
    ///
    /// # Safety
    /// `comm` is a valid intracommunicator of the MPI library that this crate is linked with, not `MPI_COMM_NULL`; the
    /// calling thread may call MPI (the main thread under `MPI_THREAD_FUNNELED`) and stays the only one that uses the
    /// result.
    pub unsafe fn from_raw(comm: MPI_Comm) -> Result<Self, CommError> {
        Self::duplicate_of(comm, Environment::of_host()?)
    }

    /// As [`Self::from_raw`], from a Fortran handle (that of Fortran programs, of `MPI_Comm_c2f`, or `comm.py2f()` of
    /// mpi4py).
    ///
    /// # Errors
    /// As [`Self::from_raw`].
    ///
    /// # Safety
    /// As [`Self::from_raw`].
    pub unsafe fn from_fortran(handle: i32) -> Result<Self, CommError> {
        let environment = Environment::of_host()?;
        // SAFETY: the caller gives a handle of a valid communicator of this MPI.
        Self::duplicate_of(unsafe { ffi::RSMPI_Comm_f2c(handle) }, environment)
    }

    /// Collective over `comm`.
    pub(super) fn duplicate_of(comm: MPI_Comm, environment: Rc<Environment>) -> Result<Self, CommError> {
        let shared = Rc::new(Shared::new(environment)?);
        let duplicate = Handle::duplicate_of(comm, 0)?;
        let (rank, size) = rank_and_size(duplicate.get())?;
        let patience = Patience { own_core: false, rank };
        let mut this = Self::over(duplicate, size, NodeMap::from_labels(&vec![0; size]), patience, shared);
        this.find_nodes()?;
        this.share_node()?;
        Ok(this)
    }

    fn over(handle: Handle, size: usize, nodes: NodeMap, patience: Patience, shared: Rc<Shared>) -> Self {
        let handle = Rc::new(handle);
        Self { handle, rank: patience.rank, size, nodes, patience, sparse_calls: Cell::new(0), node: None, shared }
    }

    /// Collective: sets up the memory of the node if all ranks are on it.
    fn share_node(&mut self) -> Result<(), CommError> {
        if self.nodes.node_count == 1 {
            self.node = Node::share(self.comm(), self.size, self.patience, |words| self.all_gather_words(words))?;
        }
        Ok(())
    }

    fn comm(&self) -> MPI_Comm {
        self.handle.get()
    }

    fn check(&self, code: c_int, call: &'static str) -> Result<(), CommError> {
        check(code, call, self.rank)
    }

    /// Collective: which ranks can share memory (the lowest of them is the label of the node), and whether each of them
    /// has a core, so that it may spin.
    fn find_nodes(&mut self) -> Result<(), CommError> {
        let mut node = self.comm();
        // SAFETY: constants that the C shim initialises; the new communicator is freed below.
        let code = unsafe {
            ffi::MPI_Comm_split_type(self.comm(), ffi::RSMPI_COMM_TYPE_SHARED, 0, ffi::RSMPI_INFO_NULL, &raw mut node)
        };
        self.check(code, "MPI_Comm_split_type")?;
        let mut label = u32::try_from(self.rank).expect("MPI ranks fit in 31 bits");
        // SAFETY: one 32-bit number on every rank of the node.
        let code = unsafe { ffi::MPI_Bcast((&raw mut label).cast(), 1, ffi::RSMPI_UINT32_T, 0, node) };
        self.check(code, "MPI_Bcast")?;
        let cores = cores::of_ranks(node, self.rank)?;
        // SAFETY: created above, no request uses it.
        self.check(unsafe { ffi::MPI_Comm_free(&raw mut node) }, "MPI_Comm_free")?;
        let labels = self.all_gather_words([u64::from(label)])?;
        let labels: Vec<u32> = labels.iter().map(|[label]| u32::try_from(*label).expect("labels are ranks")).collect();
        self.patience.own_core = labels.iter().filter(|&&other| other == label).count() <= cores;
        self.nodes = NodeMap::from_labels(&labels);
        Ok(())
    }

    /// Starts a small collective with `start` and waits for it.
    fn run(
        &self,
        call: &'static str,
        bulk: bool,
        start: impl FnOnce(&mut MPI_Request) -> c_int,
    ) -> Result<(), CommError> {
        let mut request = null_request();
        self.check(start(&mut request), call)?;
        wait(self.patience, &mut request, call, bulk)
    }

    /// Collective: `N` words of every rank, indexed by rank.
    fn all_gather_words<const N: usize>(&self, words: [u64; N]) -> Result<Vec<[u64; N]>, CommError> {
        if let Some(node) = &self.node {
            return node.all_gather_words(words);
        }
        let mut all = vec![[0; N]; self.size];
        let count = int(N);
        // SAFETY: N words from here, N words a rank into `all`; both live until the request is complete.
        self.run("MPI_Iallgather", false, |request| unsafe {
            let word = ffi::RSMPI_UINT64_T;
            ffi::MPI_Iallgather(
                words.as_ptr().cast(),
                count,
                word,
                all.as_mut_ptr().cast(),
                count,
                word,
                self.comm(),
                request,
            )
        })?;
        Ok(all)
    }

    /// Collective: `bytes` of the root into those of the others, which have the same length.
    fn broadcast_known(&self, root: usize, bytes: &mut [u8]) -> Result<(), CommError> {
        for piece in bytes.chunks_mut(PIECE_BYTES_MAX) {
            // SAFETY: the piece lives until the request is complete.
            self.run("MPI_Ibcast", true, |request| unsafe {
                ffi::MPI_Ibcast(piece.as_mut_ptr().cast(), int(piece.len()), byte(), int(root), self.comm(), request)
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
        self.run("MPI_Igather", false, |request| unsafe {
            ffi::MPI_Igather(
                (&raw const length).cast(),
                1,
                ffi::RSMPI_UINT64_T,
                lengths.as_mut_ptr().cast(),
                1,
                ffi::RSMPI_UINT64_T,
                int(root),
                self.comm(),
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
        self.run("MPI_Iscatter", false, |request| unsafe {
            ffi::MPI_Iscatter(
                lengths.as_ptr().cast(),
                1,
                ffi::RSMPI_UINT64_T,
                (&raw mut length).cast(),
                1,
                ffi::RSMPI_UINT64_T,
                int(root),
                self.comm(),
                request,
            )
        })?;
        Ok(usize::try_from(length).expect("a length of another rank fits here"))
    }

    fn transfers(&self, call: &'static str) -> Transfers {
        Transfers::new(self.comm(), self.patience, call)
    }
}

fn rank_and_size(comm: MPI_Comm) -> Result<(usize, usize), CommError> {
    let (mut rank, mut size): (c_int, c_int) = (0, 0);
    // SAFETY: `comm` is valid.
    check(unsafe { ffi::MPI_Comm_rank(comm, &raw mut rank) }, "MPI_Comm_rank", 0)?;
    // SAFETY: as above.
    check(unsafe { ffi::MPI_Comm_size(comm, &raw mut size) }, "MPI_Comm_size", 0)?;
    let to_usize = |number| usize::try_from(number).expect("MPI gives ranks and sizes that are not negative");
    Ok((to_usize(rank), to_usize(size)))
}

impl Communicator for MpiCommunicator {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn backend(&self) -> &'static str {
        "mpi"
    }

    fn barrier(&self) -> Result<(), CommError> {
        if let Some(node) = &self.node {
            return node.barrier();
        }
        // SAFETY: plain collective call.
        self.run("MPI_Ibarrier", false, |request| unsafe { ffi::MPI_Ibarrier(self.comm(), request) })
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        arguments::rank_in_range("broadcast", root, self.size);
        if let Some(node) = &self.node {
            return match node.broadcast(root, bytes)? {
                None => Ok(()),
                Some(length) => self.broadcast_long(root, length, bytes),
            };
        }
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
        self.run("MPI_Ibcast", false, |request| unsafe {
            ffi::MPI_Ibcast(head.as_mut_ptr().cast(), int(head.len()), byte(), int(root), self.comm(), request)
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

    fn all_reduce(&self, elements: &mut [Reduce]) -> Result<(), CommError> {
        if let Some(node) = &self.node
            && node.all_reduce(elements)?
        {
            return Ok(());
        }
        for piece in elements.chunks_mut(REDUCE_ELEMENTS_MAX) {
            let mut result = vec![RawReduce { op: POISON, value: 0 }; piece.len()];
            // SAFETY: `Reduce` has the layout of `RawReduce` (repr(C), repr(u64)); both buffers hold as many elements
            // as the count says and live until the request is complete.
            self.run("MPI_Iallreduce", piece.len() > 65_536, |request| unsafe {
                ffi::MPI_Iallreduce(
                    piece.as_ptr().cast(),
                    result.as_mut_ptr().cast(),
                    int(piece.len()),
                    self.shared.element_type,
                    self.shared.combine,
                    self.comm(),
                    request,
                )
            })?;
            piece.copy_from_slice(&combined(piece, &result)?);
        }
        Ok(())
    }

    fn start_all_reduce(&self, elements: Vec<Reduce>) -> Result<Box<dyn PendingReduce>, CommError> {
        self.shared.abandoned.free_complete();
        let requests = Requests::start(&self.handle, &self.shared, self.rank, elements)?;
        Ok(Box::new(MpiReduction::new(requests, self.patience, Rc::clone(&self.shared))))
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        let lengths = match &self.node {
            Some(node) => match node.all_gather(bytes)? {
                Gathered::Messages(messages) => return Ok(messages),
                Gathered::Lengths(lengths) => lengths,
            },
            None => self
                .all_gather_words([bytes.len() as u64])?
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
        self.run("MPI_Iallgatherv", total > 65_536, |request| unsafe {
            ffi::MPI_Iallgatherv(
                bytes.as_ptr().cast(),
                int(bytes.len()),
                byte(),
                together.as_mut_ptr().cast(),
                counts.as_ptr(),
                starts.as_ptr(),
                byte(),
                self.comm(),
                request,
            )
        })?;
        let mut rest = &together[..];
        Ok(lengths.iter().map(|&length| rest.split_off(..length).expect("lengths sum to the whole").to_vec()).collect())
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        arguments::rank_in_range("gather", root, self.size);
        // Messages up to this length have come with the lengths.
        let (mut all, carried_bytes_max) = match &self.node {
            Some(node) => (node.gather(root, bytes)?, node.message_bytes_max()),
            None => (self.gather_lengths(root, bytes.len())?, 0),
        };
        let mut transfers = self.transfers("gather");
        if self.rank != root {
            if bytes.len() > carried_bytes_max {
                // SAFETY: `bytes` outlives `finish`.
                unsafe { transfers.send(root, &[bytes], EXCHANGE_TAG)? };
            }
            transfers.finish()?;
            return Ok(Vec::new());
        }
        all[root].copy_from_slice(bytes);
        for (source, buffer) in all.iter_mut().enumerate() {
            if source != root && buffer.len() > carried_bytes_max {
                // SAFETY: the vectors are not touched before `finish`.
                unsafe { transfers.receive(source, buffer.as_mut_ptr(), buffer.len(), EXCHANGE_TAG)? };
            }
        }
        transfers.finish()?;
        Ok(all)
    }

    fn scatter(&self, root: usize, messages: &[Vec<u8>]) -> Result<Vec<u8>, CommError> {
        arguments::rank_in_range("scatter", root, self.size);
        let is_root = self.rank == root;
        assert!(!is_root || messages.len() == self.size, "scatter: the root gives one message a rank");
        let length = match &self.node {
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
                    unsafe { transfers.send(destination, &[message], EXCHANGE_TAG)? };
                }
            }
            transfers.finish()?;
            return Ok(messages[root].clone());
        }
        let mut mine = vec![0; length];
        if !mine.is_empty() {
            // SAFETY: the vector is not touched before `finish`.
            unsafe { transfers.receive(root, mine.as_mut_ptr(), mine.len(), EXCHANGE_TAG)? };
        }
        transfers.finish()?;
        Ok(mine)
    }

    fn exclusive_sum(&self, value: u64) -> Result<u64, CommError> {
        if let Some(node) = &self.node {
            return node.exclusive_sum(value);
        }
        let mut below = 0_u64;
        // SAFETY: one word in, one word out; C adds unsigned words modulo 2^64.
        self.run("MPI_Iexscan", false, |request| unsafe {
            ffi::MPI_Iexscan(
                (&raw const value).cast(),
                (&raw mut below).cast(),
                1,
                ffi::RSMPI_UINT64_T,
                ffi::RSMPI_SUM,
                self.comm(),
                request,
            )
        })?;
        // MPI leaves the result of rank 0 undefined.
        Ok(if self.rank == 0 { 0 } else { below })
    }

    fn sparse_exchange(&self, sends: &[(usize, &[u8])]) -> Result<Vec<Received>, CommError> {
        arguments::destinations("sparse_exchange", sends.iter().map(|send| send.0), self.size);
        let call = self.sparse_calls.get();
        self.sparse_calls.set(call + 1);
        let (own, others): (Vec<_>, Vec<_>) = sends.iter().copied().partition(|send| send.0 == self.rank);
        let tag = SPARSE_TAG + c_int::from(call % 2 == 1);
        let mut received = sparse::sparse_exchange(self.comm(), self.patience, &others, tag)?;
        if let Some(&(source, bytes)) = own.first() {
            let place = received.partition_point(|message| message.source < source);
            received.insert(place, Received { source, bytes: bytes.to_vec() });
        }
        Ok(received)
    }

    fn exchange(&self, sends: &[(usize, &[&[u8]])], receives: &mut [(usize, &mut [u8])]) -> Result<(), CommError> {
        arguments::destinations("exchange", sends.iter().map(|send| send.0), self.size);
        arguments::destinations("exchange", receives.iter().map(|receive| receive.0), self.size);
        let mut transfers = self.transfers("exchange");
        let mut own_receive = None;
        for (source, buffer) in receives.iter_mut() {
            if *source == self.rank {
                own_receive = Some(&mut **buffer);
            } else {
                // SAFETY: `receives` is borrowed mutably and not touched before `transfers` is finished or dropped.
                unsafe { transfers.receive(*source, buffer.as_mut_ptr(), buffer.len(), EXCHANGE_TAG)? };
            }
        }
        let mut own_send = None;
        for &(destination, slices) in sends {
            if destination == self.rank {
                own_send = Some(slices);
            } else {
                // SAFETY: `sends` is borrowed until `transfers` is finished or dropped.
                unsafe { transfers.send(destination, slices, EXCHANGE_TAG)? };
            }
        }
        let own = arguments::exchange_with_self(self.rank, own_send, own_receive);
        let host = self.shared.environment.is_host();
        let _returned_errors = host.then(|| ReturnedErrors::new(self.rank)).transpose()?;
        let others = transfers.finish();
        own.and(others)
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>, CommError> {
        let handle = Handle::duplicate_of(self.comm(), self.rank)?;
        let comm = handle.get();
        let mut this = Self::over(handle, self.size, self.nodes.clone(), self.patience, Rc::clone(&self.shared));
        // Through this communicator, whose calls are quicker where it has its node's memory already.
        if self.nodes.node_count == 1 {
            this.node = Node::share(comm, self.size, self.patience, |words| self.all_gather_words(words))?;
        }
        Ok(Box::new(this))
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>, CommError> {
        // MPI's colours and keys are signed: all ranks number the colours there are, and the ranks within their own.
        let all = self.all_gather_words([color.map_or(0, |color| u64::from(color) + 1), u64::from(key)])?;
        let mut members: Vec<(u64, u64, usize)> =
            all.iter().enumerate().map(|(rank, &[color, key])| (color, key, rank)).collect();
        members.sort_unstable();
        let my_color = all[self.rank][0];
        members.retain(|member| member.0 == my_color);
        let lowest = members.iter().map(|member| member.2).min().expect("this rank is a member");
        let place = members.iter().position(|member| member.2 == self.rank).expect("this rank is a member");
        let mut comm = self.comm();
        // SAFETY: all ranks call it; a null communicator comes back for MPI_UNDEFINED and is not used.
        let code = unsafe {
            let color = if color.is_some() { int(lowest) } else { ffi::RSMPI_UNDEFINED };
            ffi::MPI_Comm_split(self.comm(), color, int(place), &raw mut comm)
        };
        self.check(code, "MPI_Comm_split")?;
        if color.is_none() {
            return Ok(None);
        }
        let handle = Handle::owning(comm, place)?;
        let labels: Vec<u32> = members.iter().map(|member| self.nodes.node_of_rank[member.2]).collect();
        let nodes = NodeMap::from_labels(&labels);
        let patience = Patience { rank: place, ..self.patience };
        let mut this = Self::over(handle, members.len(), nodes, patience, Rc::clone(&self.shared));
        this.share_node()?;
        Ok(Some(Box::new(this)))
    }

    fn node_memory(&self, bytes: usize) -> Result<Option<NodeMemory>, CommError> {
        if self.nodes.node_count != 1 {
            return Ok(None);
        }
        let wanted = std::env::var("AFFLUX_NODE_MEMORY").as_deref() != Ok("off");
        let all_gather = |words| self.all_gather_words(words);
        let memory = Memory::share(TOKEN_PAGE_BYTES + bytes, self.rank, wanted, all_gather)?;
        Ok(memory.map(|memory| NodeMemory::of_mapping(memory.at(TOKEN_PAGE_BYTES, bytes), bytes, Arc::new(memory))))
    }

    fn fail(&self, _cause: &str) {}

    fn nodes(&self) -> &NodeMap {
        &self.nodes
    }
}
