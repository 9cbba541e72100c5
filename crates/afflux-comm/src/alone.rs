//! One rank without threads or MPI.

use crate::{CommError, Communicator, NodeMap, NodeMemory, PendingReduce, Received, Reduce, check};

/// The communicator of a rank that is alone: every call returns at once, on the calling thread.
#[derive(Debug, Clone)]
pub struct SelfCommunicator {
    nodes: NodeMap,
}

impl SelfCommunicator {
    /// Rank 0 of 1.
    #[must_use]
    pub fn new() -> Self {
        Self { nodes: NodeMap::from_labels(&[0]) }
    }
}

impl Default for SelfCommunicator {
    fn default() -> Self {
        Self::new()
    }
}

/// A reduction over one rank.
struct Complete(Vec<Reduce>);

impl PendingReduce for Complete {
    fn test(&mut self) -> Result<Option<Vec<Reduce>>, CommError> {
        Ok(Some(self.0.clone()))
    }

    fn wait(self: Box<Self>) -> Result<Vec<Reduce>, CommError> {
        Ok(self.0)
    }
}

impl Communicator for SelfCommunicator {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn backend(&self) -> &'static str {
        "self"
    }

    fn barrier(&self) -> Result<(), CommError> {
        Ok(())
    }

    fn broadcast(&self, root: usize, _bytes: &mut Vec<u8>) -> Result<(), CommError> {
        check::rank_in_range("broadcast", root, 1);
        Ok(())
    }

    fn all_reduce(&self, _elements: &mut [Reduce]) -> Result<(), CommError> {
        Ok(())
    }

    fn start_all_reduce(&self, elements: Vec<Reduce>) -> Result<Box<dyn PendingReduce>, CommError> {
        Ok(Box::new(Complete(elements)))
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        Ok(vec![bytes.to_vec()])
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        check::rank_in_range("gather", root, 1);
        Ok(vec![bytes.to_vec()])
    }

    fn scatter(&self, root: usize, messages: &[Vec<u8>]) -> Result<Vec<u8>, CommError> {
        check::rank_in_range("scatter", root, 1);
        assert!(messages.len() == 1, "scatter: the root gives one message a rank");
        Ok(messages[0].clone())
    }

    fn exclusive_sum(&self, _value: u64) -> Result<u64, CommError> {
        Ok(0)
    }

    fn sparse_exchange(&self, sends: &[(usize, &[u8])]) -> Result<Vec<Received>, CommError> {
        check::destinations("sparse_exchange", sends.iter().map(|send| send.0), 1);
        Ok(sends.iter().map(|&(source, bytes)| Received { source, bytes: bytes.to_vec() }).collect())
    }

    fn exchange(&self, sends: &[(usize, &[&[u8]])], receives: &mut [(usize, &mut [u8])]) -> Result<(), CommError> {
        check::destinations("exchange", sends.iter().map(|send| send.0), 1);
        check::destinations("exchange", receives.iter().map(|receive| receive.0), 1);
        let receive = receives.first_mut().map(|receive| &mut *receive.1);
        check::exchange_with_self(0, sends.first().map(|send| send.1), receive)
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>, CommError> {
        Ok(Box::new(self.clone()))
    }

    fn split(&self, color: Option<u32>, _key: u32) -> Result<Option<Box<dyn Communicator>>, CommError> {
        Ok(color.map(|_| Box::new(self.clone()) as Box<dyn Communicator>))
    }

    fn node_memory(&self, bytes: usize) -> Result<Option<NodeMemory>, CommError> {
        Ok(NodeMemory::of_process(bytes))
    }

    fn nodes(&self) -> &NodeMap {
        &self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::SelfCommunicator;
    use crate::conformance::{Effort, run_all};

    #[test]
    fn conformance() {
        run_all(&SelfCommunicator::new(), Effort::default());
    }
}
