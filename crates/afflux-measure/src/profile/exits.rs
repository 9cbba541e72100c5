//! Exit records: what the kernel tells of every thread as it ends, through the taskstats family of generic netlink
//! (Documentation/accounting/taskstats.rst). It needs CAP_NET_ADMIN. With it the waits of threads too short to be
//! sampled are known to the nanosecond.

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket,
    sockopt,
};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// What is used of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitRecord {
    /// The thread.
    pub tid: i32,
    /// Its process; 0 where the kernel is too old to say (before 5.19).
    pub process: i32,
    /// The process's parent at the end.
    pub parent: i32,
    /// Waiting for a processor, in nanoseconds.
    pub run_queue_wait_ns: u64,
    /// Waiting for a block device, in nanoseconds; 0 where delay accounting is off.
    pub device_wait_ns: u64,
}

/// A socket on which records arrive.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// Records were dropped since they came faster than they were read.
    overrun: bool,
}

// linux/netlink.h, linux/genetlink.h, linux/taskstats.h.
const NLMSG_HEADER_BYTES: usize = 16;
const GENETLINK_HEADER_BYTES: usize = 4;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TASKSTATS_CMD_GET: u8 = 1;
const TASKSTATS_CMD_ATTR_REGISTER_CPUMASK: u16 = 3;
const TASKSTATS_TYPE_STATS: u16 = 3;
const TASKSTATS_TYPE_AGGR_PID: u16 = 4;
/// Records a burst of which is kept for us; the kernel counts some 700 bytes for each.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

impl Listener {
    /// Asks for the records of all threads of the machine.
    ///
    /// # Errors
    ///
    /// Without the right to, or where the kernel has no taskstats.
    pub fn open() -> io::Result<Self> {
        let socket =
            socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkGeneric)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        if setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES)?;
        }
        let mut listener = Self { socket, overrun: false };
        let family = listener.family()?;
        let cpus = fs::read_to_string("/sys/devices/system/cpu/possible")?;
        let mut mask = cpus.trim().as_bytes().to_vec();
        mask.push(0);
        listener.request(family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, &mask)?;
        listener.answer(|_| Some(()))?;
        Ok(listener)
    }

    /// Whether records were lost.
    #[must_use]
    pub fn has_overrun(&self) -> bool {
        self.overrun
    }

    /// Takes the records that have arrived, without waiting.
    pub fn drain(&mut self, mut take: impl FnMut(ExitRecord)) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return,
                Ok(length) => messages(&buffer[..length]).filter_map(record_of).for_each(&mut take),
                Err(nix::errno::Errno::ENOBUFS) => self.overrun = true,
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    /// The number that stands for taskstats on this machine.
    fn family(&mut self) -> io::Result<u16> {
        self.request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0")?;
        let number = self.answer(|payload| {
            let body = payload.get(GENETLINK_HEADER_BYTES..)?;
            let value = attributes(body).find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID)?.1;
            Some(u16::from_ne_bytes(value.get(..2)?.try_into().ok()?))
        })?;
        // The acknowledgement follows.
        self.answer(|_| Some(()))?;
        Ok(number)
    }

    fn request(&self, family: u16, command: u8, attribute: u16, value: &[u8]) -> io::Result<()> {
        let message = request(family, command, attribute, value);
        send(self.socket.as_raw_fd(), &message, MsgFlags::empty())?;
        Ok(())
    }

    /// Reads one message: an error it may carry, else what `read` makes of its payload.
    fn answer<T>(&mut self, read: impl Fn(&[u8]) -> Option<T>) -> io::Result<T> {
        let mut buffer = [0; 8192];
        let length = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "an answer of netlink is not as it should be");
        let (kind, payload) = messages(&buffer[..length]).next().ok_or_else(malformed)?;
        if kind == NLMSG_ERROR {
            let code =
                i32::from_ne_bytes(payload.get(..4).and_then(|code| code.try_into().ok()).ok_or_else(malformed)?);
            if code != 0 {
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
        }
        read(payload).ok_or_else(malformed)
    }
}

/// A generic netlink request with one attribute, to be acknowledged.
fn request(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let attribute_bytes = ATTRIBUTE_HEADER_BYTES + value.len();
    let length = (NLMSG_HEADER_BYTES + GENETLINK_HEADER_BYTES + attribute_bytes).next_multiple_of(4);
    // Names and masks of processors: far below the limits of the length fields.
    let field = |length: usize| u16::try_from(length).unwrap_or(u16::MAX);
    let mut message = Vec::with_capacity(length);
    message.extend(u32::from(field(length)).to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    // Sequence and sender: one request at a time, the kernel fills in the rest.
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend(field(attribute_bytes).to_ne_bytes());
    message.extend(attribute.to_ne_bytes());
    message.extend(value);
    message.resize(length, 0);
    message
}

/// The netlink messages in a datagram: type and payload. What is cut short ends the list.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?)).ok()?;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let payload = bytes.get(NLMSG_HEADER_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// The attributes in a payload: type without its flags, and value.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & 0x3FFF;
        let value = bytes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The record of a thread in a message; the sums of whole processes are left out, they are of the same.
fn record_of((kind, payload): (u16, &[u8])) -> Option<ExitRecord> {
    if kind == NLMSG_ERROR {
        return None;
    }
    let thread =
        attributes(payload.get(GENETLINK_HEADER_BYTES..)?).find(|(kind, _)| *kind == TASKSTATS_TYPE_AGGR_PID)?.1;
    record(attributes(thread).find(|(kind, _)| *kind == TASKSTATS_TYPE_STATS)?.1)
}

/// `struct taskstats`; fields are only ever added at its end, but for version 15, which put some in the middle.
fn record(stats: &[u8]) -> Option<ExitRecord> {
    let wide = |at: usize| Some(u64::from_ne_bytes(stats.get(at..at + 8)?.try_into().ok()?));
    let narrow = |at: usize| Some(i32::from_ne_bytes(stats.get(at..at + 4)?.try_into().ok()?));
    let version = u16::from_ne_bytes(stats.get(..2)?.try_into().ok()?);
    if version == 15 {
        return None;
    }
    Some(ExitRecord {
        tid: narrow(128)?,
        process: if version >= 12 { narrow(368)? } else { 0 },
        parent: narrow(132)?,
        run_queue_wait_ns: wide(24)?,
        device_wait_ns: wide(40)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_the_parsers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            messages(&bytes).take(100).for_each(|message| { let _ = record_of(message); });
            let _ = record(&bytes);
            prop_assert!(attributes(&bytes).take(1000).count() <= bytes.len());
        }
    }

    #[test]
    fn a_request_reads_back() {
        let message = request(29, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, b"0-1\0");
        let (kind, payload) = messages(&message).next().unwrap();
        assert_eq!((kind, payload[0]), (29, TASKSTATS_CMD_GET));
        assert_eq!(attributes(&payload[4..]).collect::<Vec<_>>(), [(3, &b"0-1\0"[..])]);
    }

    /// Needs the right to listen; without it there is nothing to test.
    #[test]
    fn a_thread_that_ends_leaves_a_record() {
        let Ok(mut listener) = Listener::open() else { return };
        let child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        child.wait_with_output().unwrap();
        let mut found = Vec::new();
        listener.drain(|record| found.push(record));
        let record = found.iter().find(|record| record.tid == pid).expect("the child's record");
        assert_eq!(record.parent, i32::try_from(std::process::id()).unwrap());
        assert!(record.process == pid || record.process == 0, "{record:?}");
        assert!(!listener.has_overrun());
    }
}
