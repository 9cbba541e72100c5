//! The handle of one thread rank: the trait's calls, said as meetings and posts.

use std::cell::Cell;
use std::sync::Arc;

use super::group::Group;
use super::meeting::{Call, Slot};
use super::port::Place;
use super::reduction::ThreadReduction;
use crate::{CommError, Communicator, NodeMap, NodeMemory, PendingReduce, Received, Reduce, check};

/// A rank of a group of threads; made by [`super::run`] and by `split` and `duplicate`.
///
/// Dropping it says that the rank leaves this communicator.
#[derive(Debug)]
pub struct ThreadCommunicator {
    group: Arc<Group>,
    rank: usize,
    /// Collective calls made so far; the same on all ranks between calls.
    calls: Cell<u64>,
}

impl Drop for ThreadCommunicator {
    fn drop(&mut self) {
        self.group.leave(self.rank);
    }
}

impl ThreadCommunicator {
    fn new(group: Arc<Group>, rank: usize) -> Self {
        Self { group, rank, calls: Cell::new(0) }
    }

    /// One handle a rank, in rank order.
    pub(super) fn all_of(group: &Arc<Group>) -> Vec<Self> {
        (0..group.size()).map(|rank| Self::new(Arc::clone(group), rank)).collect()
    }

    fn next_call(&self, name: &'static str, argument: usize, digest: u64) -> Call {
        let sequence = self.calls.get();
        self.calls.set(sequence + 1);
        Call { name, sequence, argument, digest }
    }

    fn meet<R>(
        &self,
        call: Call,
        deposit: impl FnOnce(&mut Slot),
        combine: impl FnOnce(&mut Slot),
        collect: impl FnOnce(&mut Slot) -> R,
    ) -> Result<R, CommError> {
        self.group.meeting.meet(self.rank, call, deposit, combine, collect)
    }

    /// A meeting in which every rank leaves a number; `combine` sees them indexed by rank.
    fn meet_words<R>(
        &self,
        call: Call,
        word: u64,
        combine: impl FnOnce(&mut Slot),
        collect: impl FnOnce(&mut Slot) -> R,
    ) -> Result<R, CommError> {
        let size = self.size();
        let deposit = |slot: &mut Slot| {
            slot.words.resize(size, 0);
            slot.words[self.rank] = word;
        };
        self.meet(call, deposit, combine, collect)
    }

    /// A meeting in which every rank leaves a message (empty ones cost no allocation), indexed by rank.
    fn meet_messages<R>(
        &self,
        call: Call,
        message: Vec<u8>,
        combine: impl FnOnce(&mut Slot),
        collect: impl FnOnce(&mut Slot) -> R,
    ) -> Result<R, CommError> {
        let size = self.size();
        let deposit = |slot: &mut Slot| {
            slot.messages.resize(size, Vec::new());
            slot.messages[self.rank] = message;
        };
        self.meet(call, deposit, combine, collect)
    }

    fn join(&self, membership: Option<(Arc<Group>, usize)>) -> Option<Box<dyn Communicator>> {
        membership.map(|(group, rank)| Box::new(Self::new(group, rank)) as Box<dyn Communicator>)
    }
}

/// Lets all ranks read the messages of a meeting outside its lock.
fn share(slot: &mut Slot) {
    slot.shared = Some(Arc::new(std::mem::take(&mut slot.messages)));
}

fn shared(slot: &mut Slot) -> Arc<Vec<Vec<u8>>> {
    Arc::clone(slot.shared.as_ref().expect("the last rank to arrive shares the messages"))
}

impl Communicator for ThreadCommunicator {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.group.size()
    }

    fn backend(&self) -> &'static str {
        "threads"
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.meet(self.next_call("barrier", 0, 0), |_| {}, |_| {}, |_| {})
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        check::rank_in_range("broadcast", root, self.size());
        let call = self.next_call("broadcast", root, 0);
        let is_root = self.rank == root;
        let deposit = |slot: &mut Slot| {
            if is_root {
                slot.shared = Some(Arc::new(vec![bytes.clone()]));
            }
        };
        let messages = self.meet(call, deposit, |_| {}, shared)?;
        if !is_root {
            bytes.clear();
            bytes.extend_from_slice(&messages[0]);
        }
        Ok(())
    }

    fn all_reduce(&self, elements: &mut [Reduce]) -> Result<(), CommError> {
        let call = self.next_call("all_reduce", elements.len(), check::operations_digest(elements));
        let mine: &[Reduce] = elements;
        let deposit = |slot: &mut Slot| {
            if slot.elements.is_empty() {
                slot.elements.extend_from_slice(mine);
            } else {
                slot.elements.iter_mut().zip(mine).for_each(|(sum, &element)| sum.combine(element));
            }
        };
        let result = self.meet(call, deposit, |_| {}, |slot| slot.elements.clone())?;
        elements.copy_from_slice(&result);
        Ok(())
    }

    fn start_all_reduce(&self, elements: Vec<Reduce>) -> Result<Box<dyn PendingReduce>, CommError> {
        let call = self.next_call("start_all_reduce", elements.len(), check::operations_digest(&elements));
        Ok(Box::new(ThreadReduction::start(&self.group, self.rank, call, elements)?))
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        let call = self.next_call("all_gather", 0, 0);
        let messages = self.meet_messages(call, bytes.to_vec(), share, shared)?;
        Ok((*messages).clone())
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        check::rank_in_range("gather", root, self.size());
        let call = self.next_call("gather", root, 0);
        let is_root = self.rank == root;
        let collect = |slot: &mut Slot| if is_root { std::mem::take(&mut slot.messages) } else { Vec::new() };
        self.meet_messages(call, bytes.to_vec(), |_| {}, collect)
    }

    fn scatter(&self, root: usize, messages: &[Vec<u8>]) -> Result<Vec<u8>, CommError> {
        check::rank_in_range("scatter", root, self.size());
        let is_root = self.rank == root;
        assert!(!is_root || messages.len() == self.size(), "scatter: the root gives one message a rank");
        let call = self.next_call("scatter", root, 0);
        let deposit = |slot: &mut Slot| {
            if is_root {
                slot.messages = messages.to_vec();
            }
        };
        self.meet(call, deposit, |_| {}, |slot| std::mem::take(&mut slot.messages[self.rank]))
    }

    fn exclusive_sum(&self, value: u64) -> Result<u64, CommError> {
        let combine = |slot: &mut Slot| {
            let mut below = 0_u64;
            for word in &mut slot.words {
                below = below.wrapping_add(std::mem::replace(word, below));
            }
        };
        self.meet_words(self.next_call("exclusive_sum", 0, 0), value, combine, |slot| slot.words[self.rank])
    }

    fn sparse_exchange(&self, sends: &[(usize, &[u8])]) -> Result<Vec<Received>, CommError> {
        check::destinations("sparse_exchange", sends.iter().map(|send| send.0), self.size());
        let call = self.next_call("sparse_exchange", 0, 0);
        let place = Place { group: &self.group, rank: self.rank, sequence: call.sequence };
        for &(destination, bytes) in sends {
            place.post_owned(destination, bytes);
        }
        // Every rank has laid down its messages before it arrives, so all are there when the meeting ends.
        self.meet(call, |_| {}, |_| {}, |_| {})?;
        Ok(place.take_owned())
    }

    fn exchange(&self, sends: &[(usize, &[&[u8]])], receives: &mut [(usize, &mut [u8])]) -> Result<(), CommError> {
        check::destinations("exchange", sends.iter().map(|send| send.0), self.size());
        check::destinations("exchange", receives.iter().map(|receive| receive.0), self.size());
        let call = self.next_call("exchange", 0, 0);
        let (own_sends, sends): (Vec<_>, Vec<_>) = sends.iter().copied().partition(|send| send.0 == self.rank);
        let mut receives: Vec<(usize, &mut [u8])> =
            receives.iter_mut().map(|(source, buffer)| (*source, &mut **buffer)).collect();
        receives.sort_unstable_by_key(|receive| receive.0);
        let own_receive = receives.binary_search_by_key(&self.rank, |receive| receive.0).ok();
        let own_receive = own_receive.map(|index| receives.remove(index));
        let own = check::exchange_with_self(
            self.rank,
            own_sends.first().map(|send| send.1),
            own_receive.map(|receive| receive.1),
        );
        let others =
            Place { group: &self.group, rank: self.rank, sequence: call.sequence }.exchange(&sends, &mut receives);
        own.and(others)
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>, CommError> {
        let combine = |slot: &mut Slot| {
            let members: Vec<_> = (0..self.size()).collect();
            let group = self.group.subgroup(&members);
            slot.groups = members.into_iter().map(|rank| Some((Arc::clone(&group), rank))).collect();
        };
        let collect = |slot: &mut Slot| slot.groups[self.rank].take();
        let membership = self.meet(self.next_call("duplicate", 0, 0), |_| {}, combine, collect)?;
        Ok(self.join(membership).expect("a duplicate has all ranks"))
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>, CommError> {
        let size = self.size();
        let deposit = |slot: &mut Slot| {
            slot.colors.resize(size, None);
            slot.colors[self.rank] = color.map(|color| (color, key));
        };
        let combine = |slot: &mut Slot| {
            let mut members: Vec<(u32, u32, usize)> =
                (0..size).filter_map(|rank| slot.colors[rank].map(|(color, key)| (color, key, rank))).collect();
            members.sort_unstable();
            slot.groups.resize_with(size, || None);
            for members in members.chunk_by(|a, b| a.0 == b.0) {
                let members: Vec<usize> = members.iter().map(|member| member.2).collect();
                let group = self.group.subgroup(&members);
                for (new_rank, &rank) in members.iter().enumerate() {
                    slot.groups[rank] = Some((Arc::clone(&group), new_rank));
                }
            }
        };
        let collect = |slot: &mut Slot| slot.groups[self.rank].take();
        let membership = self.meet(self.next_call("split", 0, 0), deposit, combine, collect)?;
        Ok(self.join(membership))
    }

    fn node_memory(&self, bytes: usize) -> Result<Option<NodeMemory>, CommError> {
        let call = self.next_call("node_memory", bytes, 0);
        let wanted = self.group.nodes.node_count == 1;
        let combine = |slot: &mut Slot| slot.memory = wanted.then(|| NodeMemory::of_process(bytes)).flatten();
        self.meet(call, |_| {}, combine, |slot| slot.memory.clone())
    }

    fn nodes(&self) -> &NodeMap {
        &self.group.nodes
    }
}
