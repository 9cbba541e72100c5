//! A communicator that counts the collective calls made through it and its duplicates.

use std::cell::Cell;
use std::rc::Rc;

use afflux_comm::{CommError, Communicator, NodeMap, PendingReduce, Received, Reduce};

pub struct CountingComm<'a> {
    inner: Inner<'a>,
    pub calls: Rc<Cell<u64>>,
}

enum Inner<'a> {
    Borrowed(&'a dyn Communicator),
    Owned(Box<dyn Communicator>),
}

impl<'a> CountingComm<'a> {
    pub fn new(inner: &'a dyn Communicator) -> Self {
        Self { inner: Inner::Borrowed(inner), calls: Rc::default() }
    }

    fn counted(&self) -> &dyn Communicator {
        self.calls.set(self.calls.get() + 1);
        self.uncounted()
    }

    fn uncounted(&self) -> &dyn Communicator {
        match &self.inner {
            Inner::Borrowed(comm) => *comm,
            Inner::Owned(comm) => &**comm,
        }
    }

    fn child(&self, inner: Box<dyn Communicator>) -> Box<dyn Communicator> {
        Box::new(CountingComm { inner: Inner::Owned(inner), calls: self.calls.clone() })
    }
}

impl Communicator for CountingComm<'_> {
    fn rank(&self) -> usize {
        self.uncounted().rank()
    }
    fn size(&self) -> usize {
        self.uncounted().size()
    }
    fn backend(&self) -> &'static str {
        self.uncounted().backend()
    }
    fn barrier(&self) -> Result<(), CommError> {
        self.counted().barrier()
    }
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        self.counted().broadcast(root, bytes)
    }
    fn all_reduce(&self, elements: &mut [Reduce]) -> Result<(), CommError> {
        self.counted().all_reduce(elements)
    }
    fn start_all_reduce(&self, elements: Vec<Reduce>) -> Result<Box<dyn PendingReduce>, CommError> {
        self.counted().start_all_reduce(elements)
    }
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.counted().all_gather(bytes)
    }
    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.counted().gather(root, bytes)
    }
    fn scatter(&self, root: usize, messages: &[Vec<u8>]) -> Result<Vec<u8>, CommError> {
        self.counted().scatter(root, messages)
    }
    fn exclusive_sum(&self, value: u64) -> Result<u64, CommError> {
        self.counted().exclusive_sum(value)
    }
    fn sparse_exchange(&self, sends: &[(usize, &[u8])]) -> Result<Vec<Received>, CommError> {
        self.counted().sparse_exchange(sends)
    }
    fn exchange(&self, sends: &[(usize, &[&[u8]])], receives: &mut [(usize, &mut [u8])]) -> Result<(), CommError> {
        self.counted().exchange(sends, receives)
    }
    fn duplicate(&self) -> Result<Box<dyn Communicator>, CommError> {
        Ok(self.child(self.counted().duplicate()?))
    }
    fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>, CommError> {
        Ok(self.counted().split(color, key)?.map(|comm| self.child(comm)))
    }
    fn nodes(&self) -> &NodeMap {
        self.uncounted().nodes()
    }
}
