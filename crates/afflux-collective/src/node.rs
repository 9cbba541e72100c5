//! The collective buffers of this rank's node, and who reaches which aggregator through them.
//!
//! Made when a file first needs them, by all ranks together. Where the ranks of any node cannot share memory, or may not, each rank
//! is a node of its own, and all know it.

use afflux_comm::{CommError, Communicator, NodeMemory, Reduce, SelfCommunicator};
use afflux_plan::{AggregatorIndex, AggregatorLayout, Rank};

use crate::windows::{Shape, Turn, Windows, bytes_needed};

/// Buffers that the ranks of this node share.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) windows: Windows,
    /// The slot of an aggregator in `windows`, indexed by aggregator; `None` where it is on another node.
    slots: Vec<Option<usize>>,
    /// Whether a rank shares this memory, indexed by rank.
    here: Vec<bool>,
    /// Ranks with the same number share memory, indexed by rank; known to all alike.
    number_of_rank: Vec<u32>,
    /// With which part of a window this rank begins.
    pub(crate) turn: Turn,
}

impl Node {
    /// Collective: buffers of the shape asked for, of which the slots are worked out here; in memory that the ranks of a node
    /// share, where they `may_share`.
    pub(crate) fn share(
        comm: &dyn Communicator,
        layout: &AggregatorLayout,
        shape: Shape,
        may_share: bool,
    ) -> Result<Self, CommError> {
        let nodes = comm.nodes();
        let mine = nodes.node_of_rank[comm.rank()];
        let mut number_of_rank = nodes.node_of_rank.clone();
        let mut here: Vec<bool> = nodes.node_of_rank.iter().map(|&node| node == mine).collect();
        let slots_of = |here: &[bool]| -> Vec<Option<usize>> {
            let mut next = 0;
            (0..layout.count())
                .map(|index| {
                    here[layout.rank(AggregatorIndex(index)).0].then(|| {
                        next += 1;
                        next - 1
                    })
                })
                .collect()
        };
        let mut slots = slots_of(&here);
        let shape_of = |slots: &[Option<usize>]| Shape { slots: slots.iter().flatten().count(), ..shape };
        let bytes = |slots: &[Option<usize>]| bytes_needed(shape_of(slots));
        let shared = match (may_share, nodes.node_count) {
            (false, _) => None,
            (true, 1) => comm.node_memory(bytes(&slots))?,
            (true, _) => {
                let node = comm.split(Some(mine), 0)?.expect("this rank gave a colour");
                let shared = node.node_memory(bytes(&slots))?;
                let mut everywhere = [Reduce::min(u64::from(shared.is_some()))];
                comm.all_reduce(&mut everywhere)?;
                shared.filter(|_| everywhere[0].value == 1)
            }
        };
        let memory = match shared {
            Some(memory) => memory,
            None => {
                here = (0..comm.size()).map(|rank| rank == comm.rank()).collect();
                number_of_rank = (0..).take(comm.size()).collect();
                slots = slots_of(&here);
                alone(comm.rank(), bytes(&slots))?
            }
        };
        let ranks = here.iter().filter(|&&here| here).count();
        let mine = here[..comm.rank()].iter().filter(|&&here| here).count();
        let windows = Windows::new(memory, shape_of(&slots));
        Ok(Self { windows, slots, here, number_of_rank, turn: Turn { mine, ranks } })
    }

    /// The slot of an aggregator that this rank reaches through memory.
    pub(crate) fn slot(&self, aggregator: AggregatorIndex) -> Option<usize> {
        self.slots[aggregator.0]
    }

    /// The number of the memory that a rank shares: equal for those who share one.
    pub(crate) fn number_of(&self, rank: Rank) -> u32 {
        self.number_of_rank[rank.0]
    }

    /// Whether `rank` shares this memory.
    pub(crate) fn has(&self, rank: Rank) -> bool {
        self.here[rank.0]
    }

    /// Whether all ranks share this memory, so that nothing is sent.
    pub(crate) fn has_all(&self) -> bool {
        self.turn.ranks == self.here.len()
    }
}

/// Memory that nobody shares.
fn alone(rank: usize, bytes: usize) -> Result<NodeMemory, CommError> {
    SelfCommunicator::new().node_memory(bytes)?.ok_or_else(|| CommError::Transport {
        call: "node_memory",
        rank,
        message: format!("no memory for {bytes} bytes of collective buffers"),
    })
}
