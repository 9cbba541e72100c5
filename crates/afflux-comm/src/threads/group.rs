//! What the ranks of one communicator share.
//!
//! A [`Group`] joins the calls under way, the port of each rank and the node map. The groups that `split` and
//! `duplicate` make have places of their own, so that their messages cannot meet; all keep the [`World`] of the run,
//! which remembers who panicked first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::calls::{Calls, Failure};
use super::port::Port;
use crate::NodeMap;

/// No rank has panicked.
const NOBODY: usize = usize::MAX;

/// What all communicators of one run share.
#[derive(Debug)]
struct World {
    /// The world rank that panicked first, or [`NOBODY`].
    first_panicked: AtomicUsize,
}

/// What the ranks of one communicator share.
#[derive(Debug)]
pub(super) struct Group {
    world: Arc<World>,
    /// Rank of each member in the world of the run, indexed by rank here.
    world_ranks: Vec<usize>,
    pub(super) calls: Calls,
    /// Indexed by rank.
    pub(super) ports: Vec<Port>,
    pub(super) nodes: NodeMap,
    /// How many ranks have left or failed; raised after the last post of the one that leaves.
    pub(super) events: AtomicUsize,
    /// How many ranks sleep at their port; who leaves or fails skips the wake-up of all ports when it is 0.
    pub(super) port_sleepers: AtomicUsize,
}

impl Group {
    /// The group of all ranks of a run.
    pub(super) fn world(nodes: NodeMap) -> Arc<Self> {
        let world = Arc::new(World { first_panicked: AtomicUsize::new(NOBODY) });
        Self::new(world, (0..nodes.node_of_rank.len()).collect(), nodes)
    }

    fn new(world: Arc<World>, world_ranks: Vec<usize>, nodes: NodeMap) -> Arc<Self> {
        let size = world_ranks.len();
        Arc::new(Self {
            world,
            world_ranks,
            calls: Calls::new(size),
            ports: (0..size).map(|_| Port::new()).collect(),
            nodes,
            events: AtomicUsize::new(0),
            port_sleepers: AtomicUsize::new(0),
        })
    }

    /// A new group of `members` (ranks here, in their new order).
    pub(super) fn subgroup(&self, members: &[usize]) -> Arc<Self> {
        let world_ranks = members.iter().map(|&rank| self.world_ranks[rank]).collect();
        let labels: Vec<u32> = members.iter().map(|&rank| self.nodes.node_of_rank[rank]).collect();
        Self::new(Arc::clone(&self.world), world_ranks, NodeMap::from_labels(&labels))
    }

    pub(super) fn size(&self) -> usize {
        self.ports.len()
    }

    /// The world rank that panicked first, if one did while it held a handle.
    pub(super) fn first_panicked(&self) -> Option<usize> {
        let rank = self.world.first_panicked.load(Ordering::Acquire);
        (rank != NOBODY).then_some(rank)
    }

    /// Rank `rank` drops its handle: whoever waits for it is told.
    pub(super) fn leave(&self, rank: usize) {
        if std::thread::panicking() {
            // The first to leave in panic is the cause; those it wakes may panic in turn. Losing the race is no fault.
            let _ = self.world.first_panicked.compare_exchange(
                NOBODY,
                self.world_ranks[rank],
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
        self.calls.leave(rank);
        self.close_port(rank);
    }

    /// No call of this group succeeds any more, on any rank.
    pub(super) fn fail(&self, failure: Failure) {
        self.calls.fail(failure);
        self.events.fetch_add(1, Ordering::SeqCst);
        self.wake_ports();
    }
}
