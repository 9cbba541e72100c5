//! The mechanisms that are compared, by name.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A way to carry bytes from one process to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Two anonymous pipes, one each way.
    Pipe,
    /// Two named pipes, one each way.
    Fifo,
    /// A stream socket of the Unix domain.
    UnixStream,
    /// Two datagram sockets of the Unix domain.
    UnixDatagram,
    /// A TCP connection with Nagle's algorithm off (`TCP_NODELAY`).
    Tcp,
    /// A TCP connection with Nagle's algorithm on, the default of the system.
    TcpNagle,
    /// Two System V message queues, one each way.
    SysvQueue,
    /// Two POSIX message queues, one each way.
    PosixQueue,
    /// A ring of bytes each way in shared memory; who waits looks again and again.
    SharedSpin,
    /// The same; who waits sleeps on a futex.
    SharedFutex,
    /// The receiver copies from the sender's memory by `process_vm_readv`; both tell each other through a futex.
    VmRead,
    /// Remote procedure calls of ONC RPC version 2 (RFC 5531) over TCP, without Nagle's algorithm.
    OncRpc,
    /// MPI within a node, through shared memory.
    MpiShared,
    /// MPI over TCP.
    MpiTcp,
    /// MPI by the transport that it chooses itself.
    Mpi,
    /// The same job, between a rank and a child that it spawned.
    MpiSpawned,
    /// Ranks that are threads of one process, through `afflux::comm::threads`.
    ThreadRanks,
    /// No communication: one process copies the bytes from one place to another. What the others can be held against.
    MemoryCopy,
}

impl Mechanism {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 18] = [
        Self::Pipe,
        Self::Fifo,
        Self::UnixStream,
        Self::UnixDatagram,
        Self::Tcp,
        Self::TcpNagle,
        Self::SysvQueue,
        Self::PosixQueue,
        Self::SharedSpin,
        Self::SharedFutex,
        Self::VmRead,
        Self::OncRpc,
        Self::MpiShared,
        Self::MpiTcp,
        Self::Mpi,
        Self::MpiSpawned,
        Self::ThreadRanks,
        Self::MemoryCopy,
    ];

    /// Its name on the command line, in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Fifo => "fifo",
            Self::UnixStream => "unix-stream",
            Self::UnixDatagram => "unix-datagram",
            Self::Tcp => "tcp",
            Self::TcpNagle => "tcp-nagle",
            Self::SysvQueue => "sysv-queue",
            Self::PosixQueue => "posix-queue",
            Self::SharedSpin => "shared-spin",
            Self::SharedFutex => "shared-futex",
            Self::VmRead => "vm-read",
            Self::OncRpc => "onc-rpc",
            Self::MpiShared => "mpi-shared",
            Self::MpiTcp => "mpi-tcp",
            Self::Mpi => "mpi",
            Self::MpiSpawned => "mpi-spawned",
            Self::ThreadRanks => "thread-ranks",
            Self::MemoryCopy => "memory-copy",
        }
    }

    /// Whether it reaches another machine.
    #[must_use]
    pub fn reaches_hosts(self) -> bool {
        matches!(self, Self::Tcp | Self::TcpNagle | Self::OncRpc | Self::MpiTcp | Self::Mpi)
    }

    /// Whether it goes through an MPI.
    #[must_use]
    pub fn is_mpi(self) -> bool {
        matches!(self, Self::MpiShared | Self::MpiTcp | Self::Mpi | Self::MpiSpawned)
    }

    /// Whether its two sides are in one process.
    #[must_use]
    pub fn is_in_process(self) -> bool {
        matches!(self, Self::ThreadRanks | Self::MemoryCopy)
    }

    /// Whether it is ranked with the others: the plain copy carries nothing between two.
    #[must_use]
    pub fn is_ranked(self) -> bool {
        self != Self::MemoryCopy
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("there is no mechanism '{text}'; there are {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_the_mechanism() {
        for mechanism in Mechanism::ALL {
            assert_eq!(mechanism.name().parse(), Ok(mechanism));
            assert_eq!(serde_json::to_value(mechanism).unwrap(), mechanism.name());
        }
        assert!("smoke signals".parse::<Mechanism>().unwrap_err().contains("unix-datagram"));
    }
}
