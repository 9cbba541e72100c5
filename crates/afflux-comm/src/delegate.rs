//! References to communicators and boxes of them are communicators: what wraps one need not care which it holds.

use crate::{CommError, Communicator, NodeMap, NodeMemory, PendingReduce, Received, Reduce};

macro_rules! delegate {
    ($holder:ty) => {
        impl<C: Communicator + ?Sized> Communicator for $holder {
            fn rank(&self) -> usize {
                (**self).rank()
            }
            fn size(&self) -> usize {
                (**self).size()
            }
            fn backend(&self) -> &'static str {
                (**self).backend()
            }
            fn barrier(&self) -> Result<(), CommError> {
                (**self).barrier()
            }
            fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
                (**self).broadcast(root, bytes)
            }
            fn all_reduce(&self, elements: &mut [Reduce]) -> Result<(), CommError> {
                (**self).all_reduce(elements)
            }
            fn start_all_reduce(&self, elements: Vec<Reduce>) -> Result<Box<dyn PendingReduce>, CommError> {
                (**self).start_all_reduce(elements)
            }
            fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
                (**self).all_gather(bytes)
            }
            fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
                (**self).gather(root, bytes)
            }
            fn scatter(&self, root: usize, messages: &[Vec<u8>]) -> Result<Vec<u8>, CommError> {
                (**self).scatter(root, messages)
            }
            fn exclusive_sum(&self, value: u64) -> Result<u64, CommError> {
                (**self).exclusive_sum(value)
            }
            fn sparse_exchange(&self, sends: &[(usize, &[u8])]) -> Result<Vec<Received>, CommError> {
                (**self).sparse_exchange(sends)
            }
            fn exchange(
                &self,
                sends: &[(usize, &[&[u8]])],
                receives: &mut [(usize, &mut [u8])],
            ) -> Result<(), CommError> {
                (**self).exchange(sends, receives)
            }
            fn duplicate(&self) -> Result<Box<dyn Communicator>, CommError> {
                (**self).duplicate()
            }
            fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>, CommError> {
                (**self).split(color, key)
            }
            fn node_memory(&self, bytes: usize) -> Result<Option<NodeMemory>, CommError> {
                (**self).node_memory(bytes)
            }
            fn fail(&self, cause: &str) {
                (**self).fail(cause);
            }
            fn look_around(&self, call: &'static str) -> Result<(), CommError> {
                (**self).look_around(call)
            }
            fn spin_turns(&self) -> u32 {
                (**self).spin_turns()
            }
            fn nodes(&self) -> &NodeMap {
                (**self).nodes()
            }
        }
    };
}

delegate!(&C);
delegate!(Box<C>);
