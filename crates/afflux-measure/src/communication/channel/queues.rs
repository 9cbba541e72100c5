//! Message queues, System V and POSIX: one each way, long messages in pieces as long as the system allows by default.

use super::{Address, Channel, Offer, Supplies, limit, receive_pieces, send_pieces};
use crate::sys::sysv::Queue;
use nix::mqueue::{MQ_OFlag, MqAttr, MqdT, mq_open, mq_receive, mq_send, mq_unlink};
use nix::sys::stat::Mode;
use std::io;

/// Both systems' default for the longest message; larger ones need the administrator.
const MESSAGE_BYTES_MAX: usize = 8192;
/// Messages that wait in a POSIX queue at most: the system's default.
const MESSAGES_MAX: usize = 10;

fn sysv_bytes_max() -> usize {
    limit("/proc/sys/kernel/msgmax", MESSAGE_BYTES_MAX)
}

struct SysvQueues {
    from: Queue,
    to: Queue,
    bytes_max: usize,
}

impl SysvQueues {
    fn new(from: i32, to: i32) -> Self {
        let bytes_max = sysv_bytes_max();
        Self { from: Queue::new(from, bytes_max), to: Queue::new(to, bytes_max), bytes_max }
    }
}

impl Channel for SysvQueues {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        send_pieces(message, self.bytes_max, |piece| self.to.send(piece))
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        receive_pieces(message, |buffer| self.from.receive(buffer))
    }
}

/// Queues that the janitor has made.
pub struct SysvOffer {
    ids: [i32; 2],
}

impl SysvOffer {
    pub fn new(supplies: &Supplies) -> io::Result<Self> {
        let missing = || io::Error::new(io::ErrorKind::Unsupported, "this system made no System V message queues");
        Ok(Self { ids: supplies.sysv_queues.ok_or_else(missing)? })
    }
}

impl Offer for SysvOffer {
    fn address(&self) -> Address {
        Address::SysvQueues(self.ids)
    }

    fn take(self: Box<Self>) -> io::Result<Box<dyn Channel>> {
        let [there, back] = self.ids;
        Ok(Box::new(SysvQueues::new(there, back)))
    }
}

pub fn join_sysv([there, back]: [i32; 2]) -> io::Result<impl Channel + use<>> {
    Ok(SysvQueues::new(back, there))
}

struct PosixQueues {
    from: MqdT,
    to: MqdT,
    bytes_max: usize,
    /// A message is received into room for the longest one.
    piece: Vec<u8>,
}

impl PosixQueues {
    fn new(from: MqdT, to: MqdT) -> Self {
        let bytes_max = posix_bytes_max();
        Self { from, to, bytes_max, piece: vec![0; bytes_max] }
    }
}

impl Channel for PosixQueues {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        send_pieces(message, self.bytes_max, |piece| Ok(mq_send(&self.to, piece, 0)?))
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        let Self { from, piece, .. } = self;
        receive_pieces(message, |buffer| {
            // Room for the longest one where there is: no copy.
            if buffer.len() >= piece.len() {
                return Ok(mq_receive(from, buffer, &mut 0)?);
            }
            let count = mq_receive(from, piece, &mut 0)?;
            let room = buffer.get_mut(..count).ok_or_else(|| io::Error::other(format!("{count} bytes too many")))?;
            room.copy_from_slice(&piece[..count]);
            Ok(count)
        })
    }
}

fn posix_bytes_max() -> usize {
    limit("/proc/sys/fs/mqueue/msgsize_max", MESSAGE_BYTES_MAX)
}

/// Names of the queues of a channel: to the offering side, and from it.
pub fn posix_names(token: &str) -> [String; 2] {
    ["there", "back"].map(|way| format!("/{token}-{way}"))
}

/// Queues with names, until they are taken.
pub struct PosixOffer {
    names: [String; 2],
    there: MqdT,
    back: MqdT,
}

impl PosixOffer {
    pub fn new(supplies: &Supplies) -> io::Result<Self> {
        let names = posix_names(&supplies.token);
        let number = |value: usize| i64::try_from(value).map_err(io::Error::other);
        let messages_max = limit("/proc/sys/fs/mqueue/msg_max", MESSAGES_MAX);
        let attributes = MqAttr::new(0, number(messages_max)?, number(posix_bytes_max())?, 0);
        let make = |name: &String, flag| {
            let flags = MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL | flag;
            mq_open(name.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR, Some(&attributes))
        };
        let there = make(&names[0], MQ_OFlag::O_RDONLY)?;
        let back = make(&names[1], MQ_OFlag::O_WRONLY).inspect_err(|_| {
            let _ = mq_unlink(names[0].as_str());
        })?;
        Ok(Self { names, there, back })
    }
}

impl Offer for PosixOffer {
    fn address(&self) -> Address {
        Address::PosixQueues(self.names.clone())
    }

    fn take(self: Box<Self>) -> io::Result<Box<dyn Channel>> {
        let Self { names, there, back } = *self;
        let mut channel = PosixQueues::new(there, back);
        // The first message says that the other side has opened both.
        channel.receive(&mut [0])?;
        for name in &names {
            mq_unlink(name.as_str())?;
        }
        Ok(Box::new(channel))
    }
}

pub fn join_posix([there, back]: &[String; 2]) -> io::Result<impl Channel + use<>> {
    let open = |name: &String, flag| mq_open(name.as_str(), flag, Mode::empty(), None);
    let mut channel = PosixQueues::new(open(back, MQ_OFlag::O_RDONLY)?, open(there, MQ_OFlag::O_WRONLY)?);
    channel.send(&[1])?;
    Ok(channel)
}
