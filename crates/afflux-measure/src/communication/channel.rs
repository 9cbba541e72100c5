//! Channels: the two ends of each mechanism behind one trait.
//!
//! One side *offers* a channel and tells its address, the other *joins* by it, and the first *takes* it: then both have a
//! [`Channel`]. Offering makes what has a name; taking and joining, which wait for each other, remove the names again as soon as
//! both sides hold the thing itself, so that nothing stays behind however the processes end. (System V queues have no such
//! thing: `crate::janitor` makes and removes them.)

mod pipes;
mod queues;
mod shared;
mod sockets;
#[cfg(test)]
mod tests;
mod vm_read;

pub use queues::posix_names;
pub(super) use sockets::{connect, listen};

use super::mechanism::Mechanism;
use super::rpc;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;

/// One end of a connection between two, both ways. Both sides know the lengths of the messages.
pub trait Channel {
    /// Sends a message. It may be on its way still when this returns.
    ///
    /// # Errors
    /// What the system says.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Waits for a message of this length.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::UnexpectedEof`] when the other side has gone.
    fn receive(&mut self, message: &mut [u8]) -> io::Result<()>;
}

/// What an offer may use that the coordinator has prepared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supplies {
    /// A directory for names, empty but for those of other channels.
    pub directory: PathBuf,
    /// A word that no other channel has: names are made of it.
    pub token: String,
    /// Two System V queues: to the offering side, and from it.
    pub sysv_queues: Option<[i32; 2]>,
    /// Whether the other side is on another machine.
    pub remote: bool,
}

/// Where the other side finds an offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Address {
    /// Files: one to the offering side, one from it.
    Files([PathBuf; 2]),
    /// A socket of the Unix domain.
    Socket(PathBuf),
    /// A port of the offering side's machine.
    Port(u16),
    /// System V queues: to the offering side, and from it.
    SysvQueues([i32; 2]),
    /// POSIX queues by name: to the offering side, and from it.
    PosixQueues([String; 2]),
    /// A file of shared memory.
    Memory(PathBuf),
    /// The same, and the process on the other side of it.
    ProcessMemory(PathBuf, i32),
}

/// A channel that waits for the other side.
pub trait Offer {
    /// How the other side gets there.
    fn address(&self) -> Address;

    /// Waits until the other side has joined.
    ///
    /// # Errors
    /// What the system says.
    fn take(self: Box<Self>) -> io::Result<Box<dyn Channel>>;
}

/// Offers a channel.
///
/// # Errors
/// What the system says; [`io::ErrorKind::Unsupported`] for mechanisms that are not made of two processes' channels (MPI, threads).
pub fn offer(mechanism: Mechanism, supplies: &Supplies) -> io::Result<Box<dyn Offer>> {
    Ok(match mechanism {
        Mechanism::Pipe => Box::new(pipes::PipeOffer::new()?),
        Mechanism::Fifo => Box::new(pipes::FifoOffer::new(supplies)?),
        Mechanism::UnixStream => Box::new(sockets::StreamOffer::new(supplies)?),
        Mechanism::UnixDatagram => Box::new(sockets::DatagramOffer::new(supplies)?),
        Mechanism::Tcp => Box::new(sockets::TcpOffer::new(supplies, false)?),
        Mechanism::TcpNagle => Box::new(sockets::TcpOffer::new(supplies, true)?),
        Mechanism::SysvQueue => Box::new(queues::SysvOffer::new(supplies)?),
        Mechanism::PosixQueue => Box::new(queues::PosixOffer::new(supplies)?),
        Mechanism::SharedSpin => Box::new(shared::SharedOffer::new(shared::Waiting::Spin)?),
        Mechanism::SharedFutex => Box::new(shared::SharedOffer::new(shared::Waiting::Futex)?),
        Mechanism::VmRead => Box::new(vm_read::VmReadOffer::new()?),
        Mechanism::OncRpc => Box::new(rpc::ServerOffer::new(supplies)?),
        Mechanism::MpiShared
        | Mechanism::MpiTcp
        | Mechanism::Mpi
        | Mechanism::MpiSpawned
        | Mechanism::ThreadRanks
        | Mechanism::MemoryCopy => return Err(unsupported(mechanism)),
    })
}

/// Joins an offer at `address`, on the machine `host` where that is another one.
///
/// # Errors
/// What the system says; [`io::ErrorKind::InvalidInput`] for the address of another mechanism.
pub fn join(mechanism: Mechanism, address: &Address, host: Option<&str>) -> io::Result<Box<dyn Channel>> {
    Ok(match (mechanism, address) {
        (Mechanism::Pipe, Address::Files(files)) => Box::new(pipes::join_pipe(files)?),
        (Mechanism::Fifo, Address::Files(files)) => Box::new(pipes::join_fifo(files)?),
        (Mechanism::UnixStream, Address::Socket(path)) => Box::new(sockets::join_stream(path)?),
        (Mechanism::UnixDatagram, Address::Socket(path)) => Box::new(sockets::join_datagram(path)?),
        (Mechanism::Tcp, Address::Port(port)) => Box::new(sockets::join_tcp(host, *port, false)?),
        (Mechanism::TcpNagle, Address::Port(port)) => Box::new(sockets::join_tcp(host, *port, true)?),
        (Mechanism::SysvQueue, Address::SysvQueues(ids)) => Box::new(queues::join_sysv(*ids)?),
        (Mechanism::PosixQueue, Address::PosixQueues(names)) => Box::new(queues::join_posix(names)?),
        (Mechanism::SharedSpin, Address::Memory(path)) => Box::new(shared::join(path, shared::Waiting::Spin)?),
        (Mechanism::SharedFutex, Address::Memory(path)) => Box::new(shared::join(path, shared::Waiting::Futex)?),
        (Mechanism::VmRead, Address::ProcessMemory(path, process)) => Box::new(vm_read::join(path, *process)?),
        (Mechanism::OncRpc, Address::Port(port)) => Box::new(rpc::Client::connect(host, *port)?),
        _ => {
            let message = format!("{address:?} is no address of {mechanism}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
    })
}

fn unsupported(mechanism: Mechanism) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{mechanism} is no channel between two processes of ours"))
}

/// Sends in pieces of at most `bytes_max`.
fn send_pieces(message: &[u8], bytes_max: usize, mut send: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    message.chunks(bytes_max).try_for_each(&mut send)
}

/// Fills a message from pieces, each of which `receive` copies to the beginning of what it is given.
fn receive_pieces(mut message: &mut [u8], mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<()> {
    while !message.is_empty() {
        let count = receive(message)?;
        if count == 0 || count > message.len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a piece of {count} bytes for {}", message.len()),
            ));
        }
        message = &mut message[count..];
    }
    Ok(())
}

/// A number that the kernel shows in a file of `/proc/sys`, at most `otherwise`.
fn limit(path: &str, otherwise: usize) -> usize {
    let shown = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
    shown.map_or(otherwise, |limit: usize| limit.min(otherwise).max(1))
}

/// The name of an open file of this process that others of the same user can open.
fn name_in_proc(file: &impl std::os::fd::AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}
