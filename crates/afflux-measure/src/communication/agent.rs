//! One side of the channels: does what the coordinator asks, request by request.
//!
//! Two agents make a pair: one offers channels and serves bursts, the other joins and drives. A single agent also runs what has both
//! sides in one process. An agent is a helper process (here or on another machine) or a rank of the MPI job that the command
//! runs in; it uses one thread of its own, so that no other one is in the way of what is measured.

use super::burst::{Buffers, Burst, Timing, drive, serve};
use super::channel::{self, Address, Channel, Offer, Supplies};
use super::in_process;
use super::mechanism::Mechanism;
use crate::spawn::mpi::{SpawnRequest, Spawned};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;

/// A channel of a pair, by a number that the coordinator gives it.
pub type ChannelId = u32;

/// What an agent can be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Who and where it is.
    Describe,
    /// To run on this processor only (`None`: on those it may).
    Place(Option<usize>),
    /// To offer a channel.
    Offer(ChannelId, Mechanism, Supplies),
    /// To wait until its offer is joined.
    Take(ChannelId),
    /// To join an offer, on the machine named where that is another one.
    Join(ChannelId, Mechanism, Address, Option<String>),
    /// To drive a burst.
    Drive(ChannelId, Burst),
    /// To serve a burst.
    Serve(ChannelId, Burst),
    /// To run a burst whose sides are both here (threads, the ranks of an MPI job), on these processors.
    InProcess(Mechanism, Burst, Option<[usize; 2]>),
    /// To spawn processes by MPI.
    SpawnByMpi(SpawnRequest),
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To `Describe`.
    Agent(Description),
    /// To `Offer`.
    Offered(Address),
    /// To `Drive` and `InProcess`.
    Timed(Timing),
    /// To `SpawnByMpi`.
    Spawned(Spawned),
    /// To the others.
    Done,
    /// Why it could not do it.
    Failed(String),
}

/// Who and where an agent is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Its version must be ours: both sides must mean the same.
    pub version: String,
    /// Name of the machine.
    pub host: String,
    /// Processors that it may run on.
    pub processors: Vec<usize>,
}

/// The state of an agent between requests.
#[derive(Default)]
pub struct Agent {
    offers: HashMap<ChannelId, Box<dyn Offer>>,
    channels: HashMap<ChannelId, Box<dyn Channel>>,
    buffers: Buffers,
}

impl Agent {
    /// Does what is asked.
    pub fn answer(&mut self, request: Request) -> Reply {
        self.try_answer(request).unwrap_or_else(|error| Reply::Failed(error.to_string()))
    }

    fn try_answer(&mut self, request: Request) -> io::Result<Reply> {
        match request {
            Request::Describe => Ok(Reply::Agent(describe()?)),
            Request::Place(processor) => {
                place(processor)?;
                Ok(Reply::Done)
            }
            Request::Offer(id, mechanism, supplies) => {
                let offer = channel::offer(mechanism, &supplies)?;
                let address = offer.address();
                self.offers.insert(id, offer);
                Ok(Reply::Offered(address))
            }
            Request::Take(id) => {
                let offer = self.offers.remove(&id).ok_or_else(|| unknown(id))?;
                self.channels.insert(id, offer.take()?);
                Ok(Reply::Done)
            }
            Request::Join(id, mechanism, address, host) => {
                self.channels.insert(id, channel::join(mechanism, &address, host.as_deref())?);
                Ok(Reply::Done)
            }
            Request::Drive(id, burst) => {
                let Self { channels, buffers, .. } = self;
                let channel = channels.get_mut(&id).ok_or_else(|| unknown(id))?;
                Ok(Reply::Timed(drive(&mut **channel, &burst, buffers)?))
            }
            Request::Serve(id, burst) => {
                let Self { channels, buffers, .. } = self;
                let channel = channels.get_mut(&id).ok_or_else(|| unknown(id))?;
                serve(&mut **channel, &burst, buffers)?;
                Ok(Reply::Done)
            }
            Request::InProcess(mechanism, burst, processors) => {
                Ok(Reply::Timed(in_process::run(mechanism, &burst, processors)?))
            }
            Request::SpawnByMpi(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "this is no process of MPI")),
        }
    }

    /// Gives the agent a channel that was made elsewhere.
    pub fn insert(&mut self, id: ChannelId, channel: Box<dyn Channel>) {
        self.channels.insert(id, channel);
    }
}

fn unknown(id: ChannelId) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no channel {id}"))
}

/// Who and where this process is.
///
/// # Errors
/// What the system says.
pub fn describe() -> io::Result<Description> {
    Ok(Description {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: nix::sys::utsname::uname()?.nodename().to_string_lossy().into_owned(),
        processors: processors()?,
    })
}

/// Processors that the calling thread may run on, by the kernel's numbers, ascending.
///
/// # Errors
/// What the system says.
pub fn processors() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|&processor| set.is_set(processor).unwrap_or(false)).collect())
}

/// Lets the calling thread run on one processor only. `None` leaves it where it is.
///
/// # Errors
/// What the system says: there is no such processor, or it is not for us.
pub fn place(processor: Option<usize>) -> io::Result<()> {
    processor.map_or(Ok(()), |processor| allow(&[processor]))
}

/// Lets the calling thread run on these processors only.
///
/// # Errors
/// As [`place`].
pub fn allow(processors: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &processor in processors {
        set.set(processor)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_says_what_it_cannot_do() {
        let mut agent = Agent::default();
        for request in [
            Request::Take(3),
            Request::Drive(3, Burst::ping_pong(1, 1)),
            Request::Serve(3, Burst::ping_pong(1, 1)),
            Request::Place(Some(100_000)),
            Request::InProcess(Mechanism::Pipe, Burst::ping_pong(1, 1), None),
        ] {
            assert!(matches!(agent.answer(request.clone()), Reply::Failed(_)), "{request:?}");
        }
        let Reply::Agent(description) = agent.answer(Request::Describe) else { panic!("a description") };
        assert!(!description.processors.is_empty() && !description.host.is_empty());
    }

    #[test]
    fn a_thread_stays_where_it_is_put() {
        std::thread::spawn(|| {
            let last = *processors().unwrap().last().expect("this thread runs somewhere");
            place(None).unwrap();
            place(Some(last)).unwrap();
            assert_eq!(processors().unwrap(), [last]);
        })
        .join()
        .unwrap();
    }
}
