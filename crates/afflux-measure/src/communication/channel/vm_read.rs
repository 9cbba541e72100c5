//! `process_vm_readv(2)`: the receiver copies straight from the sender's memory, in one copy.
//!
//! The sender says address and length through shared words and sleeps on a futex until the receiver has copied, as its memory must
//! not change before; so a send lasts until the message has arrived.

use super::shared::{nameless_file, open};
use super::{Address, Channel, Offer, name_in_proc};
use crate::sys::memory::{Region, WORD_STRIDE_BYTES};
use crate::sys::{self, futex};
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Words of one direction: messages sent, messages copied, address, length.
const WORDS: usize = 4;
/// Word that holds the number of the joining process, then the one that says it is there.
const OTHER: usize = 2 * WORDS;
const REGION_BYTES: usize = (2 * WORDS + 1) * WORD_STRIDE_BYTES;
/// The kernel copies at most this much a call (`MAX_RW_COUNT`, 2 GiB less a page, rounded down).
const CALL_BYTES_MAX: usize = 1 << 30;

/// One direction, as both sides see it.
struct Way {
    region: Arc<Region>,
    first_word: usize,
}

impl Way {
    fn sent(&self) -> &AtomicU32 {
        self.region.word(self.first_word)
    }

    fn copied(&self) -> &AtomicU32 {
        self.region.word(self.first_word + 1)
    }

    /// Offers a message and waits until it has been copied.
    fn send(&self, message: &[u8]) -> io::Result<()> {
        let number = self.sent().load(Relaxed).wrapping_add(1);
        let address = message.as_ptr().addr() as u64;
        self.region.long(self.first_word + 2).store(address, Relaxed);
        self.region.long(self.first_word + 3).store(message.len() as u64, Relaxed);
        self.sent().store(number, Release);
        futex::wake(self.sent())?;
        wait_for(self.copied(), number)
    }

    /// Waits for a message and copies it from the memory of `process`.
    fn receive(&self, process: Pid, message: &mut [u8]) -> io::Result<()> {
        let number = self.copied().load(Relaxed).wrapping_add(1);
        wait_for(self.sent(), number)?;
        let address = self.region.long(self.first_word + 2).load(Relaxed);
        let length = self.region.long(self.first_word + 3).load(Relaxed);
        if length != message.len() as u64 {
            let text = format!("a message of {length} bytes where {} were expected", message.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        copy(process, usize::try_from(address).map_err(io::Error::other)?, message)?;
        self.copied().store(number, Release);
        futex::wake(self.copied())
    }
}

fn wait_for(word: &AtomicU32, number: u32) -> io::Result<()> {
    loop {
        match word.load(Acquire) {
            value if value == number => return Ok(()),
            value => futex::wait(word, value)?,
        }
    }
}

fn copy(process: Pid, mut address: usize, mut message: &mut [u8]) -> io::Result<()> {
    while !message.is_empty() {
        let now = message.len().min(CALL_BYTES_MAX);
        let remote = [RemoteIoVec { base: address, len: now }];
        let count = match process_vm_readv(process, &mut [IoSliceMut::new(&mut message[..now])], &remote) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        address += count;
        message = &mut message[count..];
    }
    Ok(())
}

struct VmRead {
    from: Way,
    to: Way,
    process: Pid,
}

impl VmRead {
    fn new(region: &Arc<Region>, process: Pid, offered: bool) -> Self {
        let way = |index: usize| Way { region: Arc::clone(region), first_word: index * WORDS };
        let (from, to) = if offered { (way(0), way(1)) } else { (way(1), way(0)) };
        Self { from, to, process }
    }
}

impl Channel for VmRead {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.to.send(message)
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        self.from.receive(self.process, message)
    }
}

/// The number of this process, which lets the other side read its memory.
fn this_process() -> io::Result<i32> {
    sys::allow_reading_our_memory();
    i32::try_from(std::process::id()).map_err(io::Error::other)
}

/// The words before the other side has mapped them.
pub struct VmReadOffer {
    file: File,
    region: Arc<Region>,
    process: i32,
}

impl VmReadOffer {
    pub fn new() -> io::Result<Self> {
        let file = nameless_file()?;
        let region = Arc::new(Region::create(&file, REGION_BYTES)?);
        Ok(Self { file, region, process: this_process()? })
    }
}

impl Offer for VmReadOffer {
    fn address(&self) -> Address {
        Address::ProcessMemory(name_in_proc(&self.file), self.process)
    }

    fn take(self: Box<Self>) -> io::Result<Box<dyn Channel>> {
        let other = self.region.word(OTHER);
        while other.load(SeqCst) == 0 {
            futex::wait(other, 0)?;
        }
        let process = i32::try_from(other.load(SeqCst)).map_err(io::Error::other)?;
        Ok(Box::new(VmRead::new(&self.region, Pid::from_raw(process), true)))
    }
}

pub fn join(path: &Path, process: i32) -> io::Result<impl Channel + use<>> {
    let region = Arc::new(Region::open(&open(path)?)?);
    let this = u32::try_from(this_process()?).map_err(io::Error::other)?;
    let other = region.word(OTHER);
    other.store(this, SeqCst);
    futex::wake(other)?;
    Ok(VmRead::new(&region, Pid::from_raw(process), false))
}
