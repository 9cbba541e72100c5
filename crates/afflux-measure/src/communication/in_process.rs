//! What has both its sides in one process: ranks that are threads, and the plain copy of memory.

use super::agent::place;
use super::burst::{Buffers, Burst, Timing, drive, serve};
use super::channel::Channel;
use super::mechanism::Mechanism;
use afflux::comm::threads;
use afflux::comm::{CommError, Communicator};
use std::io;

/// Runs a burst between two threads, or as copies by one, on these processors.
///
/// # Errors
/// What the system says; [`io::ErrorKind::Unsupported`] for mechanisms between processes.
pub fn run(mechanism: Mechanism, burst: &Burst, processors: Option<[usize; 2]>) -> io::Result<Timing> {
    match mechanism {
        Mechanism::ThreadRanks => between_threads(burst, processors),
        Mechanism::MemoryCopy => copies(burst, processors),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, format!("{mechanism} is not within a process"))),
    }
}

/// Two ranks of a thread communicator: a message is an `exchange` in which one sends and the other receives.
struct Ranks<C> {
    comm: C,
    peer: usize,
}

impl<C: Communicator> Channel for Ranks<C> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.comm.exchange(&[(self.peer, &[message])], &mut []).map_err(other)
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        self.comm.exchange(&[], &mut [(self.peer, message)]).map_err(other)
    }
}

fn other(error: CommError) -> io::Error {
    io::Error::other(error)
}

fn between_threads(burst: &Burst, processors: Option<[usize; 2]>) -> io::Result<Timing> {
    let results = threads::try_run(2, |comm| {
        let rank = comm.rank();
        // Of this thread only: it ends with the burst.
        place(processors.map(|processors| processors[rank]))?;
        let mut channel = Ranks { comm, peer: 1 - rank };
        let mut buffers = Buffers::default();
        if rank == 0 {
            drive(&mut channel, burst, &mut buffers)
        } else {
            serve(&mut channel, burst, &mut buffers).map(|()| Timing::default())
        }
    })
    .map_err(|error| io::Error::other(error.to_string()))?;
    results.into_iter().next().unwrap_or_else(|| Err(io::Error::other("no rank has run")))
}

/// A message is a copy to another place; an answer is one back.
struct Copies {
    there: Vec<u8>,
}

impl Channel for Copies {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.there.resize(self.there.len().max(message.len()), 0);
        self.there[..message.len()].copy_from_slice(message);
        // As if somebody looked: else the copy could be left out.
        std::hint::black_box(&mut self.there);
        Ok(())
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        message.copy_from_slice(&self.there[..message.len()]);
        std::hint::black_box(message);
        Ok(())
    }
}

fn copies(burst: &Burst, processors: Option<[usize; 2]>) -> io::Result<Timing> {
    let run = || {
        place(processors.map(|[first, _]| first))?;
        let mut channel = Copies { there: vec![0; burst.bytes.max(burst.reply_bytes)] };
        drive(&mut channel, burst, &mut Buffers::default())
    };
    // In a thread of its own: where it is placed, the agent need not stay.
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|_| Err(io::Error::other("a copy panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_meet_in_one_process() {
        for mechanism in [Mechanism::ThreadRanks, Mechanism::MemoryCopy] {
            for burst in [Burst::ping_pong(1000, 5), Burst { rounds: 2, ..Burst::stream(70_000, 3) }] {
                let burst = Burst { verify: true, each_round: true, ..burst };
                let timing = run(mechanism, &burst, Some([0, 0])).unwrap();
                assert_eq!(timing.rounds_seconds.len() as u64, burst.rounds);
                assert!(timing.seconds > 0.0);
            }
        }
        assert!(run(Mechanism::Pipe, &Burst::ping_pong(1, 1), None).is_err());
    }
}
