//! The handle of one thread rank: the trait's calls, said as parts left for each other and posts.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use super::calls::{Awaited, Call, Entered, Failure, Parts, Publisher};
use super::group::Group;
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
    /// Exchanges of both kinds so far; the same on all ranks between calls.
    exchanges: Cell<u64>,
}

impl Drop for ThreadCommunicator {
    fn drop(&mut self) {
        self.group.leave(self.rank);
    }
}

/// A call that has no root, and in which all elements are alike.
fn plain(name: &'static str) -> Call {
    Call { name, argument: 0, digest: 0 }
}

fn rooted(name: &'static str, root: usize) -> Call {
    Call { name, argument: root, digest: 0 }
}

fn reducing(name: &'static str, elements: &[Reduce]) -> Call {
    Call { name, argument: elements.len(), digest: check::operations_digest(elements) }
}

impl ThreadCommunicator {
    fn new(group: Arc<Group>, rank: usize) -> Self {
        Self { group, rank, exchanges: Cell::new(0) }
    }

    /// One handle a rank, in rank order.
    pub(super) fn all_of(group: &Arc<Group>) -> Vec<Self> {
        (0..group.size()).map(|rank| Self::new(Arc::clone(group), rank)).collect()
    }

    /// An error spends the group for all.
    fn checked<T>(&self, outcome: Result<T, CommError>) -> Result<T, CommError> {
        outcome.inspect_err(|error| self.group.fail(Failure::of_call(self.rank, error)))
    }

    fn enter(
        &self,
        call: Call,
        roles: (Awaited, Publisher),
        deposit: impl FnOnce(&mut Parts),
        combine: impl FnOnce(&mut Parts),
    ) -> Result<Entered, CommError> {
        self.checked(self.group.calls.enter(self.rank, call, roles, deposit, combine))
    }

    fn wait<'a>(&self, entered: &'a Entered) -> Result<&'a Parts, CommError> {
        self.checked(self.group.calls.wait(entered))
    }

    /// A call in which all ranks wait for all: each runs `deposit`, the last `combine`, each `collect`.
    fn meet<R>(
        &self,
        call: Call,
        deposit: impl FnOnce(&mut Parts),
        combine: impl FnOnce(&mut Parts),
        collect: impl FnOnce(&Parts) -> R,
    ) -> Result<R, CommError> {
        let entered = self.enter(call, (Awaited::All, Publisher::Last), deposit, combine)?;
        self.wait(&entered).map(collect)
    }

    /// What a rank does to leave its message, indexed by rank (empty ones cost no allocation).
    fn leave_message(&self, bytes: &[u8]) -> impl FnOnce(&mut Parts) {
        let (rank, size, message) = (self.rank, self.size(), bytes.to_vec());
        move |parts| {
            parts.messages.resize(size, Vec::new());
            parts.messages[rank] = message;
        }
    }

    fn start_reduction(&self, name: &'static str, elements: &[Reduce]) -> Result<Entered, CommError> {
        let deposit = |parts: &mut Parts| {
            if parts.elements.is_empty() {
                parts.elements.extend_from_slice(elements);
            } else {
                parts.elements.iter_mut().zip(elements).for_each(|(sum, &element)| sum.combine(element));
            }
        };
        self.enter(reducing(name, elements), (Awaited::All, Publisher::Last), deposit, |_| {})
    }

    fn exchange_checked(
        &self,
        sends: &[(usize, &[&[u8]])],
        receives: &mut [(usize, &mut [u8])],
    ) -> Result<(), CommError> {
        self.enter(plain("exchange"), (Awaited::Nobody, Publisher::Last), |_| {}, |_| {})?;
        let place = self.next_place();
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
        own.and(place.exchange(&sends, &mut receives))
    }

    /// Where the next exchange of this rank happens.
    fn next_place(&self) -> Place<'_> {
        let sequence = self.exchanges.get();
        self.exchanges.set(sequence + 1);
        Place { group: &self.group, rank: self.rank, sequence }
    }

    /// This rank's handle on the new group that it joins.
    fn join(&self, parts: &Parts) -> Option<Box<dyn Communicator>> {
        let (group, rank) = parts.groups[self.rank].as_ref()?;
        Some(Box::new(Self::new(Arc::clone(group), *rank)))
    }
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
        self.meet(plain("barrier"), |_| {}, |_| {}, |_| {})
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        check::rank_in_range("broadcast", root, self.size());
        let is_root = self.rank == root;
        let deposit = |parts: &mut Parts| {
            if is_root {
                parts.messages = vec![bytes.clone()];
            }
        };
        let awaited = if is_root { Awaited::Nobody } else { Awaited::Root(root) };
        let entered = self.enter(rooted("broadcast", root), (awaited, Publisher::Root(root)), deposit, |_| {})?;
        if !is_root {
            bytes.clone_from(&self.wait(&entered)?.messages[0]);
        }
        Ok(())
    }

    fn all_reduce(&self, elements: &mut [Reduce]) -> Result<(), CommError> {
        let entered = self.start_reduction("all_reduce", elements)?;
        elements.copy_from_slice(&self.wait(&entered)?.elements);
        Ok(())
    }

    fn start_all_reduce(&self, elements: Vec<Reduce>) -> Result<Box<dyn PendingReduce>, CommError> {
        let entered = self.start_reduction("start_all_reduce", &elements)?;
        Ok(Box::new(ThreadReduction::new(Arc::clone(&self.group), self.rank, entered)))
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.meet(plain("all_gather"), self.leave_message(bytes), |_| {}, |parts| parts.messages.clone())
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        check::rank_in_range("gather", root, self.size());
        let is_root = self.rank == root;
        let combine = |parts: &mut Parts| parts.gathered = Mutex::new(std::mem::take(&mut parts.messages));
        let awaited = if is_root { Awaited::All } else { Awaited::Nobody };
        let roles = (awaited, Publisher::Last);
        let entered = self.enter(rooted("gather", root), roles, self.leave_message(bytes), combine)?;
        if !is_root {
            return Ok(Vec::new());
        }
        let mut gathered = self.wait(&entered)?.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *gathered))
    }

    fn scatter(&self, root: usize, messages: &[Vec<u8>]) -> Result<Vec<u8>, CommError> {
        check::rank_in_range("scatter", root, self.size());
        let is_root = self.rank == root;
        assert!(!is_root || messages.len() == self.size(), "scatter: the root gives one message a rank");
        let deposit = |parts: &mut Parts| {
            if is_root {
                parts.messages = messages.to_vec();
            }
        };
        let awaited = if is_root { Awaited::Nobody } else { Awaited::Root(root) };
        let entered = self.enter(rooted("scatter", root), (awaited, Publisher::Root(root)), deposit, |_| {})?;
        if is_root { Ok(messages[root].clone()) } else { Ok(self.wait(&entered)?.messages[self.rank].clone()) }
    }

    fn exclusive_sum(&self, value: u64) -> Result<u64, CommError> {
        let (rank, size) = (self.rank, self.size());
        let deposit = |parts: &mut Parts| {
            parts.words.resize(size, 0);
            parts.words[rank] = value;
        };
        let combine = |parts: &mut Parts| {
            let mut below = 0_u64;
            for word in &mut parts.words {
                below = below.wrapping_add(std::mem::replace(word, below));
            }
        };
        self.meet(plain("exclusive_sum"), deposit, combine, |parts| parts.words[rank])
    }

    fn sparse_exchange(&self, sends: &[(usize, &[u8])]) -> Result<Vec<Received>, CommError> {
        check::destinations("sparse_exchange", sends.iter().map(|send| send.0), self.size());
        // Every rank has laid down its messages before it enters, so all are there when the call is published.
        let place = self.next_place();
        for &(destination, bytes) in sends {
            place.post_owned(destination, bytes);
        }
        self.meet(plain("sparse_exchange"), |_| {}, |_| {}, |_| {})?;
        Ok(place.take_owned())
    }

    fn exchange(&self, sends: &[(usize, &[&[u8]])], receives: &mut [(usize, &mut [u8])]) -> Result<(), CommError> {
        check::destinations("exchange", sends.iter().map(|send| send.0), self.size());
        check::destinations("exchange", receives.iter().map(|receive| receive.0), self.size());
        self.checked(self.exchange_checked(sends, receives))
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>, CommError> {
        let combine = |parts: &mut Parts| {
            let members: Vec<_> = (0..self.size()).collect();
            let group = self.group.subgroup(&members);
            parts.groups = members.into_iter().map(|rank| Some((Arc::clone(&group), rank))).collect();
        };
        let duplicate = self.meet(plain("duplicate"), |_| {}, combine, |parts| self.join(parts))?;
        Ok(duplicate.expect("a duplicate has all ranks"))
    }

    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>, CommError> {
        let size = self.size();
        let deposit = |parts: &mut Parts| {
            parts.colors.resize(size, None);
            parts.colors[self.rank] = color.map(|color| (color, key));
        };
        let combine = |parts: &mut Parts| {
            let mut members: Vec<(u32, u32, usize)> =
                (0..size).filter_map(|rank| parts.colors[rank].map(|(color, key)| (color, key, rank))).collect();
            members.sort_unstable();
            parts.groups.resize_with(size, || None);
            for members in members.chunk_by(|a, b| a.0 == b.0) {
                let members: Vec<usize> = members.iter().map(|member| member.2).collect();
                let group = self.group.subgroup(&members);
                for (new_rank, &rank) in members.iter().enumerate() {
                    parts.groups[rank] = Some((Arc::clone(&group), new_rank));
                }
            }
        };
        self.meet(plain("split"), deposit, combine, |parts| self.join(parts))
    }

    fn fail(&self, cause: &str) {
        self.group.fail(Failure::given_up(self.rank, cause));
    }

    fn node_memory(&self, bytes: usize) -> Result<Option<NodeMemory>, CommError> {
        let call = Call { name: "node_memory", argument: bytes, digest: 0 };
        let wanted = self.group.nodes.node_count == 1;
        let combine = |parts: &mut Parts| parts.memory = wanted.then(|| NodeMemory::of_process(bytes)).flatten();
        self.meet(call, |_| {}, combine, |parts| parts.memory.clone())
    }

    fn look_around(&self, call: &'static str) -> Result<(), CommError> {
        self.group.calls.any_trouble(self.rank, call)
    }

    fn spin_turns(&self) -> u32 {
        self.group.calls.spin_turns()
    }

    fn nodes(&self) -> &NodeMap {
        &self.group.nodes
    }
}
