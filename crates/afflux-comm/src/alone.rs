//! One rank without threads or MPI.

use std::cell::RefCell;

use crate::{CommError, Communicator, NodeMap, NodeMemory, PendingReduce, Received, Reduce, check};

/// The communicator of a rank that is alone: every call returns at once, on the calling thread.
#[derive(Debug, Clone)]
pub struct SelfCommunicator {
    nodes: NodeMap,
    /// Why it was given up.
    failure: RefCell<Option<String>>,
}

impl SelfCommunicator {
    /// Rank 0 of 1.
    #[must_use]
    pub fn new() -> Self {
        Self { nodes: NodeMap::from_labels(&[0]), failure: RefCell::new(None) }
    }
}

impl SelfCommunicator {
    /// Fails once the communicator was given up.
    fn check(&self, call: &'static str) -> Result<(), CommError> {
        match &*self.failure.borrow() {
            None => Ok(()),
            Some(message) => Err(CommError::PeerFailed { call, rank: 0, peer: 0, message: message.clone() }),
        }
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

    fn complete(&mut self) -> Result<Vec<Reduce>, CommError> {
        Ok(self.0.clone())
    }

    fn fail(&self, _cause: &str) {
        // There is nobody to tell, and the rank knows.
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
        self.check("barrier")
    }

    fn broadcast(&self, root: usize, _bytes: &mut Vec<u8>) -> Result<(), CommError> {
        check::rank_in_range("broadcast", root, 1);
        self.check("broadcast")
    }

    fn all_reduce(&self, _elements: &mut [Reduce]) -> Result<(), CommError> {
        self.check("all_reduce")
    }

    fn start_all_reduce(&self, elements: Vec<Reduce>) -> Result<Box<dyn PendingReduce>, CommError> {
        self.check("start_all_reduce")?;
        Ok(Box::new(Complete(elements)))
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.check("all_gather")?;
        Ok(vec![bytes.to_vec()])
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        check::rank_in_range("gather", root, 1);
        self.check("gather")?;
        Ok(vec![bytes.to_vec()])
    }

    fn scatter(&self, root: usize, messages: &[Vec<u8>]) -> Result<Vec<u8>, CommError> {
        check::rank_in_range("scatter", root, 1);
        self.check("scatter")?;
        assert!(messages.len() == 1, "scatter: the root gives one message a rank");
        Ok(messages[0].clone())
    }

    fn exclusive_sum(&self, _value: u64) -> Result<u64, CommError> {
        self.check("exclusive_sum")?;
        Ok(0)
    }

    fn sparse_exchange(&self, sends: &[(usize, &[u8])]) -> Result<Vec<Received>, CommError> {
        check::destinations("sparse_exchange", sends.iter().map(|send| send.0), 1);
        self.check("sparse_exchange")?;
        Ok(sends.iter().map(|&(source, bytes)| Received { source, bytes: bytes.to_vec() }).collect())
    }

    fn exchange(&self, sends: &[(usize, &[&[u8]])], receives: &mut [(usize, &mut [u8])]) -> Result<(), CommError> {
        check::destinations("exchange", sends.iter().map(|send| send.0), 1);
        check::destinations("exchange", receives.iter().map(|receive| receive.0), 1);
        self.check("exchange")?;
        let receive = receives.first_mut().map(|receive| &mut *receive.1);
        let outcome = check::exchange_with_self(0, sends.first().map(|send| send.1), receive);
        outcome.inspect_err(|error| self.fail(&error.to_string()))
    }

    fn duplicate(&self) -> Result<Box<dyn Communicator>, CommError> {
        self.check("duplicate")?;
        Ok(Box::new(self.clone()))
    }

    fn split(&self, color: Option<u32>, _key: u32) -> Result<Option<Box<dyn Communicator>>, CommError> {
        self.check("split")?;
        Ok(color.map(|_| Box::new(self.clone()) as Box<dyn Communicator>))
    }

    fn node_memory(&self, bytes: usize) -> Result<Option<NodeMemory>, CommError> {
        self.check("node_memory")?;
        Ok(NodeMemory::of_process(bytes))
    }

    fn fail(&self, cause: &str) {
        self.failure.borrow_mut().get_or_insert_with(|| cause.to_owned());
    }

    fn nodes(&self) -> &NodeMap {
        &self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::SelfCommunicator;
    use crate::conformance::{Effort, run_all, run_failures};

    #[test]
    fn conformance() {
        run_all(&SelfCommunicator::new(), Effort::default());
        run_failures(&SelfCommunicator::new());
    }
}
