//! A rank of an MPI job: how it comes to be, and the trait's calls, each with its consequence for the others when it fails.
//!
//! What the calls do is in [`super::collectives`].
//!
//! Invariants: the MPI communicator is a duplicate with `MPI_ERRORS_RETURN` that only this communicator uses, and
//! duplicates of it whose messages have tags of their own; no request but those of [`super::reduction`], which hold it,
//! outlives the call that made it.

use std::cell::{Cell, OnceCell};
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Arc;

use mpi::ffi::{self, MPI_Comm};

use super::apart::{Apart, ApartLookout};
use super::call::Call;
use super::environment::{Environment, is_finalized};
use super::handle::Handle;
use super::node::memory::Memory;
use super::node::{self, ExchangeLookout, Node};
use super::poll::{Lookout, Patience};
use super::shared::Shared;
use super::{check, cores, int};
use crate::{CommError, CommOperation, Communicator, NodeMap, NodeMemory, PendingReduce, Received, Reduce};

/// What shared memory begins with: its token, and nothing else up to the page behind.
const TOKEN_PAGE_BYTES: usize = 4_096;
/// Tags of messages begin here, four for each communicator that shares one of MPI.
const TAG_FIRST: c_int = 16;
const TAGS_EACH: c_int = 4;

/// The other ranks, as far as they can be seen without asking MPI.
#[derive(Debug)]
pub(super) enum Peers {
    /// All ranks share a node and have mapped its memory.
    Near(Rc<Node>),
    /// They do not.
    Apart(Rc<Apart>),
}

/// A rank of an MPI job.
///
/// Dropping it frees the MPI communicator, for which both libraries need no other rank.
#[derive(Debug)]
pub struct MpiCommunicator {
    pub(super) peers: Peers,
    /// For messages, with the tags of this communicator.
    pub(super) handle: Rc<Handle>,
    /// For collective calls of MPI, where `handle` is shared with others: made when it is first needed.
    own_handle: OnceCell<Rc<Handle>>,
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) nodes: NodeMap,
    pub(super) patience: Patience,
    pub(super) sparse_calls: Cell<u64>,
    pub(super) shared: Rc<Shared>,
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
        if size > 1
            && let Peers::Apart(_) = this.peers
        {
            let notices = this.shared.environment.notices(this.handle.get(), rank)?;
            this.peers = Peers::Apart(Rc::new(Apart::root(rank, size, notices)));
        }
        Ok(this)
    }

    fn over(handle: Handle, size: usize, nodes: NodeMap, patience: Patience, shared: Rc<Shared>) -> Self {
        let peers = Peers::Apart(Rc::new(Apart::alone(patience.rank)));
        Self::with(peers, Rc::new(handle), size, nodes, patience, shared)
    }

    fn with(
        peers: Peers,
        handle: Rc<Handle>,
        size: usize,
        nodes: NodeMap,
        patience: Patience,
        shared: Rc<Shared>,
    ) -> Self {
        let (own_handle, sparse_calls) = (OnceCell::new(), Cell::new(0));
        Self { peers, handle, own_handle, rank: patience.rank, size, nodes, patience, sparse_calls, shared }
    }

    /// Collective: sets up the memory of the node if all ranks are on it.
    fn share_node(&mut self) -> Result<(), CommError> {
        if self.nodes.node_count == 1 {
            let all_gather = |words| self.all_gather_words(CommOperation::AllGather, words);
            if let Some(node) = Node::share(&self.handle, self.size, self.patience, all_gather)? {
                self.peers = Peers::Near(node);
            }
        }
        Ok(())
    }

    /// Whether `handle` belongs to another communicator too.
    fn is_sharing(&self) -> bool {
        self.section() > 0
    }

    fn section(&self) -> usize {
        match &self.peers {
            Peers::Near(node) => node.section(),
            Peers::Apart(_) => 0,
        }
    }

    /// The tag of the `kind`-th sort of messages (below 4): they do not meet those of communicators that share the handle.
    pub(super) fn tag(&self, kind: c_int) -> c_int {
        TAG_FIRST + TAGS_EACH * int(self.section()) + kind
    }

    /// For collective calls of MPI, collective itself when it is first asked.
    pub(super) fn collective_handle(&self) -> Result<&Rc<Handle>, CommError> {
        if !self.is_sharing() {
            return Ok(&self.handle);
        }
        if let Some(handle) = self.own_handle.get() {
            return Ok(handle);
        }
        // The section tells apart what several communicators make at a time, each rank in its own order.
        let handle = Handle::duplicate_of_group(self.handle.get(), int(self.section()), self.rank)?;
        Ok(self.own_handle.get_or_init(|| Rc::new(handle)))
    }

    pub(super) fn collective_comm(&self) -> Result<MPI_Comm, CommError> {
        Ok(self.collective_handle()?.get())
    }

    /// A collective call of MPI is under way that will never be complete: its communicator must not be freed.
    pub(super) fn keep_handle(&self) {
        if let Ok(handle) = self.collective_handle() {
            std::mem::forget(Rc::clone(handle));
        }
    }

    pub(super) fn check(&self, code: c_int, call: &'static str) -> Result<(), CommError> {
        check(code, call, self.rank)
    }

    /// Begins a collective call that does not go through the memory of the node at first.
    pub(super) fn begin(&self, operation: CommOperation, argument: usize) -> Result<(), CommError> {
        match &self.peers {
            Peers::Near(node) => node.begin(operation, argument).map(drop),
            Peers::Apart(apart) => apart.begin(operation, argument),
        }
    }

    /// What to look at in a wait for MPI in the call that has begun last.
    pub(super) fn lookout(&self) -> Box<dyn Lookout + '_> {
        match &self.peers {
            Peers::Near(node) => Box::new(ExchangeLookout::new(node)),
            Peers::Apart(apart) => Box::new(ApartLookout::new(apart)),
        }
    }

    /// A communicator just made of the ranks `members` of `parent` (in their new order) reaches them as that one does, unless
    /// they share memory. Not before it is made: what others do with it by then is no failure of making it.
    fn meet(&mut self, parent: &Peers, members: &[usize]) {
        if let (Peers::Apart(_), Peers::Apart(parent)) = (&self.peers, parent) {
            self.peers = Peers::Apart(Rc::new(parent.child(members, self.rank)));
        }
    }

    /// The word of the call that has begun last; 0 before the first.
    pub(super) fn word(&self) -> u64 {
        match &self.peers {
            Peers::Near(node) => node.current(),
            Peers::Apart(apart) => apart.current(),
        }
        .map_or(0, Call::to_word)
    }

    /// An error spends the communicator for all.
    fn checked<T>(&self, outcome: Result<T, CommError>) -> Result<T, CommError> {
        outcome.map_err(|error| match &self.peers {
            Peers::Near(node) => {
                node.fail(&error);
                error
            }
            Peers::Apart(apart) => {
                let error = apart.explain(error);
                apart.fail(&error);
                error
            }
        })
    }

    /// Collective: which ranks can share memory (the lowest of them is the label of the node), and whether each of them
    /// has a core, so that it may spin.
    fn find_nodes(&mut self) -> Result<(), CommError> {
        let mut node = self.handle.get();
        // SAFETY: constants that the C shim initialises; the new communicator is freed below.
        let code = unsafe {
            ffi::MPI_Comm_split_type(
                self.handle.get(),
                ffi::RSMPI_COMM_TYPE_SHARED,
                0,
                ffi::RSMPI_INFO_NULL,
                &raw mut node,
            )
        };
        self.check(code, "MPI_Comm_split_type")?;
        let mut label = u32::try_from(self.rank).expect("MPI ranks fit in 31 bits");
        // SAFETY: one 32-bit number on every rank of the node.
        let code = unsafe { ffi::MPI_Bcast((&raw mut label).cast(), 1, ffi::RSMPI_UINT32_T, 0, node) };
        self.check(code, "MPI_Bcast")?;
        let cores = cores::of_ranks(node, self.rank)?;
        // SAFETY: created above, no request uses it.
        self.check(unsafe { ffi::MPI_Comm_free(&raw mut node) }, "MPI_Comm_free")?;
        let labels = self.all_gather_words(CommOperation::AllGather, [u64::from(label)])?;
        let labels: Vec<u32> = labels.iter().map(|[label]| u32::try_from(*label).expect("labels are ranks")).collect();
        self.patience.own_core = labels.iter().filter(|&&other| other == label).count() <= cores;
        self.nodes = NodeMap::from_labels(&labels);
        Ok(())
    }

    fn make_duplicate(&self) -> Result<Box<dyn Communicator>, CommError> {
        let (nodes, shared) = (self.nodes.clone(), Rc::clone(&self.shared));
        if let Peers::Near(node) = &self.peers
            && let Some(node) = node.duplicate()?
        {
            let handle = Rc::clone(&self.handle);
            return Ok(Box::new(Self::with(Peers::Near(node), handle, self.size, nodes, self.patience, shared)));
        }
        if let Peers::Apart(apart) = &self.peers {
            apart.begin(CommOperation::Duplicate, 0)?;
            // While ranks wait for each other here they still hear from others; in MPI_Comm_dup they would not.
            self.wait_for_all()?;
        }
        let handle = Handle::duplicate_of(self.collective_comm()?, self.rank)?;
        let mut this = Self::over(handle, self.size, nodes, self.patience, shared);
        this.share_node()?;
        this.meet(&self.peers, &(0..self.size).collect::<Vec<_>>());
        Ok(Box::new(this))
    }

    fn make_split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>, CommError> {
        // MPI's colours and keys are signed: all ranks number the colours there are, and the ranks within their own.
        let words = [color.map_or(0, |color| u64::from(color) + 1), u64::from(key)];
        let all = self.all_gather_words(CommOperation::Split, words)?;
        let mut members: Vec<(u64, u64, usize)> =
            all.iter().enumerate().map(|(rank, &[color, key])| (color, key, rank)).collect();
        members.sort_unstable();
        let my_color = all[self.rank][0];
        members.retain(|member| member.0 == my_color);
        let lowest = members.iter().map(|member| member.2).min().expect("this rank is a member");
        let place = members.iter().position(|member| member.2 == self.rank).expect("this rank is a member");
        let mut comm = self.collective_comm()?;
        // SAFETY: all ranks call it; a null communicator comes back for MPI_UNDEFINED and is not used.
        let code = unsafe {
            let color = if color.is_some() { int(lowest) } else { ffi::RSMPI_UNDEFINED };
            ffi::MPI_Comm_split(comm, color, int(place), &raw mut comm)
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
        this.meet(&self.peers, &members.iter().map(|member| member.2).collect::<Vec<_>>());
        Ok(Some(Box::new(this)))
    }

    fn make_node_memory(&self, bytes: usize) -> Result<Option<NodeMemory>, CommError> {
        if self.nodes.node_count != 1 {
            return Ok(None);
        }
        let wanted = std::env::var("AFFLUX_NODE_MEMORY").as_deref() != Ok("off");
        let all_gather = |words| self.all_gather_words(CommOperation::NodeMemory, words);
        let memory = Memory::share(TOKEN_PAGE_BYTES + bytes, self.rank, wanted, all_gather)?;
        Ok(memory.map(|memory| NodeMemory::of_mapping(memory.at(TOKEN_PAGE_BYTES, bytes), bytes, Arc::new(memory))))
    }
}

impl Drop for MpiCommunicator {
    fn drop(&mut self) {
        match &self.peers {
            Peers::Near(node) => node.close(),
            Peers::Apart(apart) if !is_finalized() && !std::thread::panicking() => apart.leave(),
            Peers::Apart(_) => {}
        }
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
        self.checked(self.make_barrier())
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        self.checked(self.make_broadcast(root, bytes))
    }

    fn all_reduce(&self, elements: &mut [Reduce]) -> Result<(), CommError> {
        self.checked(self.make_all_reduce(elements))
    }

    fn start_all_reduce(&self, elements: Vec<Reduce>) -> Result<Box<dyn PendingReduce>, CommError> {
        self.checked(self.make_start_all_reduce(elements))
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.checked(self.make_all_gather(bytes))
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.checked(self.make_gather(root, bytes))
    }

    fn scatter(&self, root: usize, messages: &[Vec<u8>]) -> Result<Vec<u8>, CommError> {
        self.checked(self.make_scatter(root, messages))
    }

    fn exclusive_sum(&self, value: u64) -> Result<u64, CommError> {
        self.checked(self.make_exclusive_sum(value))
    }

    fn sparse_exchange(&self, sends: &[(usize, &[u8])]) -> Result<Vec<Received>, CommError> {
        self.checked(self.make_sparse_exchange(sends))
    }

    fn exchange(&self, sends: &[(usize, &[&[u8]])], receives: &mut [(usize, &mut [u8])]) -> Result<(), CommError> {
        self.checked(self.make_exchange(sends, receives))
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>, CommError> {
        self.checked(self.make_duplicate())
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>, CommError> {
        self.checked(self.make_split(color, key))
    }

    fn node_memory(&self, bytes: usize) -> Result<Option<NodeMemory>, CommError> {
        self.checked(self.make_node_memory(bytes))
    }

    fn fail(&self, cause: &str) {
        match &self.peers {
            Peers::Near(node) => node.fail_with(cause, false),
            Peers::Apart(apart) => apart.fail_with(cause, false),
        }
    }

    fn look_around(&self, call: &'static str) -> Result<(), CommError> {
        match &self.peers {
            Peers::Near(node) => self.checked(node.look_around(call)),
            Peers::Apart(apart) => self.checked(apart.listen(call).and_then(|()| self.handle.look_after(self.rank))),
        }
    }

    fn spin_turns(&self) -> u32 {
        if self.patience.own_core { node::SPIN_TURNS } else { 0 }
    }

    fn nodes(&self) -> &NodeMap {
        &self.nodes
    }
}
