//! The trait that every layer above speaks to, and the small types that travel through it.

use std::collections::HashMap;
use std::time::Duration;

use crate::stall::StallWatch;
use crate::{CommError, Gate, NodeMemory};

/// How long a rank sleeps at a gate before it looks around for the first time: long for a rank that works, short for a person.
const GATE_NAP: Duration = Duration::from_millis(1);
/// The longest sleep between two such looks: their cost vanishes in it.
const GATE_NAP_MAX: Duration = Duration::from_millis(16);

/// How one element of a reduction combines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum ReduceOp {
    /// Wrapping sum modulo 2^64.
    Sum = 0,
    /// Smallest value.
    Min = 1,
    /// Largest value.
    Max = 2,
}

impl ReduceOp {
    /// The value that changes nothing it is combined with.
    #[must_use]
    pub fn identity(self) -> u64 {
        match self {
            Self::Sum | Self::Max => 0,
            Self::Min => u64::MAX,
        }
    }
}

/// One element of a reduction: its operation travels with it, so that sums, minima and maxima share one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Reduce {
    /// How it combines; the same on all ranks.
    pub op: ReduceOp,
    /// This rank's value going in, the result coming out.
    pub value: u64,
}

impl Reduce {
    /// An element that is summed, modulo 2^64.
    #[must_use]
    pub fn sum(value: u64) -> Self {
        Self { op: ReduceOp::Sum, value }
    }
    /// An element of which the smallest is kept.
    #[must_use]
    pub fn min(value: u64) -> Self {
        Self { op: ReduceOp::Min, value }
    }
    /// An element of which the largest is kept.
    #[must_use]
    pub fn max(value: u64) -> Self {
        Self { op: ReduceOp::Max, value }
    }
    /// Combines another rank's element into this one.
    pub fn combine(&mut self, other: Self) {
        debug_assert_eq!(self.op, other.op, "ranks must reduce the same elements");
        self.value = match self.op {
            ReduceOp::Sum => self.value.wrapping_add(other.value),
            ReduceOp::Min => self.value.min(other.value),
            ReduceOp::Max => self.value.max(other.value),
        };
    }
}

/// A message that reached this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub source: usize,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Which ranks share a node (memory, and so a cheap exchange).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeMap {
    /// Node number of each rank, indexed by rank; nodes are numbered by their lowest rank, from 0.
    pub node_of_rank: Vec<u32>,
    /// How many nodes there are.
    pub node_count: u32,
}

impl NodeMap {
    /// The map in which ranks with equal labels (indexed by rank) share a node.
    ///
    /// # Panics
    /// When there are more than `u32::MAX` nodes.
    #[must_use]
    pub fn from_labels(labels: &[u32]) -> Self {
        let mut numbers = HashMap::new();
        let node_of_rank = labels
            .iter()
            .map(|label| {
                let next = u32::try_from(numbers.len()).expect("node numbers fit in 32 bits");
                *numbers.entry(*label).or_insert(next)
            })
            .collect();
        Self { node_of_rank, node_count: u32::try_from(numbers.len()).expect("node numbers fit in 32 bits") }
    }
}

/// A reduction that [`Communicator::start_all_reduce`] has begun, on one rank.
///
/// It may outlive its communicator. Dropping it unfinished gives up this rank's result only: what the rank contributed
/// stands, and the others complete theirs. Like a communicator it belongs to the thread that made it.
pub trait PendingReduce {
    /// The elements if all ranks have started the reduction, each with its operation and the combined value; else
    /// `None`, without waiting. Cheap enough for the inner loop of a simulation. Once it has given the elements it gives
    /// them again. Under MPI the reduction advances only while ranks are in calls of their communicators or in this one.
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`]: where the reduction cannot be completed any more, or ranks disagree about it.
    fn test(&mut self) -> Result<Option<Vec<Reduce>>, CommError>;

    /// As [`Self::test`], but waits until there is a result.
    ///
    /// # Errors
    /// As [`Self::test`].
    fn complete(&mut self) -> Result<Vec<Reduce>, CommError>;

    /// Gives the communicator that it comes from up on behalf of all ranks: as [`Communicator::fail`], for a rank that
    /// has no more than this of it.
    fn fail(&self, cause: &str);

    /// [`Self::complete`], for the last call.
    ///
    /// # Errors
    /// As [`Self::test`].
    fn wait(mut self: Box<Self>) -> Result<Vec<Reduce>, CommError> {
        self.complete()
    }
}

/// A group of ranks that exchange messages.
///
/// Messages may be of any length, 2 GiB and more included. Methods marked *collective* are called by all ranks in the
/// same order. An error on one rank spends the communicator for all: no rank waits for ever for the one that failed, and
/// every call that is not complete yet, or comes later, fails on every rank ([what each adapter can
/// do](crate#when-a-call-fails)). Communicators made from it before are not touched.
pub trait Communicator {
    /// This rank, `0..size`.
    fn rank(&self) -> usize;

    /// The number of ranks, at least 1.
    fn size(&self) -> usize;

    /// `"threads"`, `"mpi"` or `"self"`, for reports.
    fn backend(&self) -> &'static str;

    /// Collective: returns when all ranks have called it.
    fn barrier(&self) -> Result<(), CommError>;

    /// Collective: `bytes` of rank `root` replace those of every other rank (whose previous content and length do not matter).
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError>;

    /// Collective: combines element by element; all ranks give the same number of elements with the same operations.
    fn all_reduce(&self, elements: &mut [Reduce]) -> Result<(), CommError>;

    /// Collective: begins what [`Self::all_reduce`] does and returns at once, whatever the other ranks do. Ranks start it in
    /// the same order among their collective calls; until it is completed they may make any other call, start more of
    /// these (each keeps its elements in memory until all ranks have started it), and complete them in any order.
    fn start_all_reduce(&self, elements: Vec<Reduce>) -> Result<Box<dyn PendingReduce>, CommError>;

    /// Collective: the bytes of every rank (lengths may differ), indexed by rank, on every rank.
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError>;

    /// Collective: the bytes of every rank (lengths may differ), indexed by rank, on `root`; empty elsewhere.
    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError>;

    /// Collective: rank `root` gives one message a rank (indexed by rank; ignored elsewhere); each rank receives its own.
    fn scatter(&self, root: usize, messages: &[Vec<u8>]) -> Result<Vec<u8>, CommError>;

    /// Collective: the sum of `value` over the ranks below this one (0 on rank 0), modulo 2^64.
    fn exclusive_sum(&self, value: u64) -> Result<u64, CommError>;

    /// Collective: sends each `(destination, bytes)` without the receivers knowing who sends (the NBX protocol of Hoefler,
    /// Siebert and Lumsdaine, PPoPP 2010, or the like): cost follows the messages there are, not the square of the ranks.
    /// At most one message a destination. What arrives is sorted by source.
    fn sparse_exchange(&self, sends: &[(usize, &[u8])]) -> Result<Vec<Received>, CommError>;

    /// Collective: an exchange in which both sides know the lengths: each `(destination, slices)` is sent as the
    /// concatenation of its slices, and lands in the buffer of the `(source, buffer)` that the receiver gives. At most one
    /// message a pair of ranks, from a rank to itself allowed; lengths must agree (a mismatch is an error on the receiver).
    /// A rank with nothing to send or receive still calls it, but need not wait for anyone.
    fn exchange(&self, sends: &[(usize, &[&[u8]])], receives: &mut [(usize, &mut [u8])]) -> Result<(), CommError>;

    /// Collective: a communicator of its own over the same ranks, whose messages cannot meet those of this one.
    fn duplicate(&self) -> Result<Box<dyn Communicator>, CommError>;

    /// Collective: one communicator for each colour, ranks ordered by `key`, then by rank here; `None` joins none.
    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>, CommError>;

    /// Collective: memory of `bytes`, all zeros, that every rank sees, where all ranks of the communicator share a node and
    /// their system lets them; else `None`, on all ranks alike. `bytes` is the same on all ranks.
    ///
    /// # Errors
    /// Those of a collective call.
    fn node_memory(&self, bytes: usize) -> Result<Option<NodeMemory>, CommError> {
        let _ = bytes;
        Ok(None)
    }

    /// Gives the communicator up on behalf of all ranks, as if a call had failed on this one: for a rank that, for a cause
    /// of its own, will not make the calls that the others wait for. They get [`CommError::PeerFailed`] with `cause`.
    /// Of several failures the first stands.
    fn fail(&self, cause: &str);

    /// Not collective: lets messages under way advance, and fails where a rank has gone, or failed, without which no
    /// collective call can end. For loops that wait for something other than a message.
    ///
    /// # Errors
    /// [`CommError::PeerLeft`], [`CommError::PeerFailed`], [`CommError::Transport`].
    fn look_around(&self, call: &'static str) -> Result<(), CommError> {
        let _ = call;
        Ok(())
    }

    /// Turns of a spin loop that pay before a rank that waits for another goes to sleep: none where ranks share cores.
    fn spin_turns(&self) -> u32 {
        0
    }

    /// Not collective: returns when `awake` is true of the value of `gate`, in memory that another rank of the node changes.
    /// Sleeps; looks around now and then; warns, in the name of `call`, of a wait that lasts too long for `whom`.
    ///
    /// # Errors
    /// Those of [`Self::look_around`].
    fn wait_at(
        &self,
        gate: &Gate,
        call: &'static str,
        whom: &str,
        awake: &dyn Fn(u32) -> bool,
    ) -> Result<(), CommError> {
        for _ in 0..self.spin_turns() {
            if awake(gate.value()) {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let mut nap = GATE_NAP;
        let mut watch = None;
        while !awake(gate.value()) {
            let watch = watch.get_or_insert_with(StallWatch::start);
            gate.sleep_unless(nap, awake);
            if awake(gate.value()) {
                break;
            }
            self.look_around(call)?;
            nap = (2 * nap).min(GATE_NAP_MAX);
            if watch.is_due() {
                watch.report(self.rank(), call, whom);
            }
        }
        Ok(())
    }

    /// Which ranks share a node; worked out once, when the communicator is made.
    fn nodes(&self) -> &NodeMap;
}
