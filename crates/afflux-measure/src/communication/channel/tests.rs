//! One suite for all channels: both sides as threads of this process.

use super::*;
use crate::communication::burst::{Buffers, Burst, drive, serve};
use crate::sys::sysv;
use std::sync::mpsc;
use std::time::Duration;

/// Channels of two processes.
const CHANNELS: [Mechanism; 12] = [
    Mechanism::Pipe,
    Mechanism::Fifo,
    Mechanism::UnixStream,
    Mechanism::UnixDatagram,
    Mechanism::Tcp,
    Mechanism::TcpNagle,
    Mechanism::SysvQueue,
    Mechanism::PosixQueue,
    Mechanism::SharedSpin,
    Mechanism::SharedFutex,
    Mechanism::VmRead,
    Mechanism::OncRpc,
];

/// Queues that go away also when a test fails.
struct Queues([i32; 2]);

impl Queues {
    fn new() -> Self {
        Self([sysv::create().unwrap(), sysv::create().unwrap()])
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        for id in self.0 {
            let _ = sysv::remove(id);
        }
    }
}

/// Runs bursts over a channel; returns how many names are left in its directory.
fn run(mechanism: Mechanism, bursts: &[Burst]) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let queues = Queues::new();
    let supplies = Supplies {
        directory: directory.path().to_owned(),
        token: format!("afflux-test-{}-{mechanism}", std::process::id()),
        sysv_queues: Some(queues.0),
        remote: false,
    };
    let (tell, address) = mpsc::channel();
    let served = bursts.to_vec();
    let (done, finished) = mpsc::channel();
    std::thread::spawn(move || {
        let offer = offer(mechanism, &supplies).unwrap();
        tell.send(offer.address()).unwrap();
        let mut channel = offer.take().unwrap();
        for burst in &served {
            serve(&mut *channel, burst, &mut Buffers::default()).unwrap();
        }
        done.send(()).unwrap();
    });
    let patience = Duration::from_secs(20);
    let mut channel = join(mechanism, &address.recv_timeout(patience).unwrap(), None).unwrap();
    for burst in bursts {
        let timing = drive(&mut *channel, burst, &mut Buffers::default()).unwrap();
        assert!(timing.seconds > 0.0);
        let kept = if burst.each_round { burst.rounds } else { 0 };
        assert_eq!(timing.rounds_seconds.len() as u64, kept);
    }
    finished.recv_timeout(patience).unwrap_or_else(|_| panic!("{mechanism} does not end"));
    std::fs::read_dir(directory.path()).unwrap().count()
}

/// Lengths around each mechanism's pieces: a byte, a message of queues, a datagram, a pipe's and a ring's capacity.
fn verified_bursts() -> Vec<Burst> {
    let lengths = [1, 3, 8191, 8192, 8193, 65_535, 65_536, 65_537, 300_000];
    let mut bursts: Vec<Burst> =
        lengths.iter().map(|&bytes| Burst { verify: true, ..Burst::ping_pong(bytes, 2) }).collect();
    bursts.push(Burst { verify: true, rounds: 2, ..Burst::stream(10_000, 40) });
    bursts.push(Burst { each_round: true, ..Burst::ping_pong(1, 20) });
    bursts.push(Burst { delay_seconds: 1e-4, ..Burst::stream(100, 5) });
    bursts
}

#[test]
fn every_byte_arrives_through_every_channel_and_no_name_is_left() {
    for mechanism in CHANNELS {
        assert_eq!(run(mechanism, &verified_bursts()), 0, "{mechanism}");
    }
    for name in
        CHANNELS.iter().flat_map(|mechanism| posix_names(&format!("afflux-test-{}-{mechanism}", std::process::id())))
    {
        assert!(nix::mqueue::mq_unlink(name.as_str()).is_err(), "{name} is left");
    }
}

#[test]
fn a_wrong_byte_is_noticed() {
    struct Wrong;
    impl Channel for Wrong {
        fn send(&mut self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
            message.fill(3);
            Ok(())
        }
    }
    let burst = Burst { verify: true, ..Burst::ping_pong(100, 1) };
    for error in [
        drive(&mut Wrong, &burst, &mut Buffers::default()).unwrap_err(),
        serve(&mut Wrong, &burst, &mut Buffers::default()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}

#[test]
fn an_address_of_another_mechanism_is_refused() {
    assert!(join(Mechanism::Tcp, &Address::SysvQueues([0, 0]), None).is_err());
    let supplies = Supplies { directory: PathBuf::new(), token: String::new(), sysv_queues: None, remote: false };
    assert!(offer(Mechanism::Mpi, &supplies).is_err());
    assert!(offer(Mechanism::SysvQueue, &supplies).is_err());
}
