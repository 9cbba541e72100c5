//! Agents that are processes of an MPI job.
//!
//! Rank 0 is the agent that the coordinator speaks with; the other rank, and a child that rank 0 spawns, follow its orders, which
//! travel by MPI too. Whoever waits for orders looks now and then and sleeps between: an idle job keeps no processor busy while
//! something else is measured.

use super::agent::{Agent, Reply, Request, describe, place};
use super::burst::{Buffers, Burst, Timing, drive, serve};
use super::channel::Channel;
use super::mechanism::Mechanism;
use crate::helper::{self, Program};
use crate::spawn::mpi::{Landing, SpawnRequest, Spawned};
use afflux::comm::CommError;
use afflux::comm::Communicator;
use afflux::comm::mpi::{MpiChildren, MpiLink, MpiWorld};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

/// How often an idle process looks for orders: at once, then ever less often.
const NAP_MIN: Duration = Duration::from_micros(20);
const NAP_MAX: Duration = Duration::from_millis(2);
/// The first byte of a spawned process.
const HELLO: [u8; 1] = *b"h";
/// No order of ours is longer.
const ORDER_BYTES_MAX: u64 = 1 << 20;

/// Orders of rank 0.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    Place(Option<usize>),
    Ask(Request),
    Serve(Burst),
    Land,
    Leave,
}

/// An MPI link as a channel.
struct Link<'a>(&'a MpiLink);

impl Channel for Link<'_> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.send(message).map_err(other)
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        self.0.receive(message).map_err(other)
    }
}

pub(super) fn other(error: CommError) -> io::Error {
    io::Error::other(error)
}

/// Runs this process of the job until rank 0's input ends.
///
/// # Errors
/// What MPI or the pipes say.
pub fn run(program: &Program, input: impl BufRead, output: impl Write) -> io::Result<()> {
    // If the launcher is killed, nobody is left to end us.
    helper::end_with_parent()?;
    let world = MpiWorld::init().map_err(other)?;
    if let Some(parent) = MpiLink::to_parent(&world).map_err(other)? {
        parent.send(&HELLO).map_err(other)?;
        follow(&parent)?;
        return parent.disconnect().map_err(other);
    }
    let comm = world.communicator().map_err(other)?;
    if comm.rank() > 0 {
        return follow(&MpiLink::to_rank(&world, 0));
    }
    let mut leader = Leader::new(program.clone(), world, (comm.size() > 1).then_some(1));
    let served = helper::serve(input, output, |request| leader.answer(&request));
    leader.leave()?;
    served
}

/// Rank 0.
pub(super) struct Leader {
    program: Program,
    world: MpiWorld,
    /// The other rank of the world.
    peer: Option<MpiLink>,
    /// A child for ping-pongs, spawned at the first.
    child: Option<MpiChildren>,
    buffers: Buffers,
    /// Where both sides are.
    placed: Option<[usize; 2]>,
}

impl Leader {
    /// Rank 0 of a world; `peer` is the other side.
    pub(super) fn new(program: Program, world: MpiWorld, peer: Option<usize>) -> Self {
        let peer = peer.map(|peer| MpiLink::to_rank(&world, peer));
        Self { program, world, peer, child: None, buffers: Buffers::default(), placed: None }
    }

    pub(super) fn answer(&mut self, request: &Request) -> Reply {
        let result = match request {
            Request::Describe => describe().map(Reply::Agent),
            Request::InProcess(mechanism, burst, processors) => {
                self.burst(*mechanism, burst, *processors).map(Reply::Timed)
            }
            Request::SpawnByMpi(spawn) => self.spawn(spawn).map(Reply::Spawned),
            other => Err(io::Error::other(format!("an MPI agent cannot {other:?}"))),
        };
        result.unwrap_or_else(|error| Reply::Failed(error.to_string()))
    }

    fn burst(&mut self, mechanism: Mechanism, burst: &Burst, processors: Option<[usize; 2]>) -> io::Result<Timing> {
        if mechanism == Mechanism::MpiSpawned && self.child.is_none() {
            self.child = Some(self.children(1, false)?);
            // The new one is nowhere yet.
            self.placed = None;
        }
        let of_child;
        let link = match (&self.child, &self.peer) {
            (Some(children), _) if mechanism == Mechanism::MpiSpawned => {
                of_child = children.link(0);
                &of_child
            }
            (_, Some(peer)) => peer,
            _ => return Err(io::Error::other("this job has one rank only")),
        };
        if self.placed != processors {
            place(processors.map(|[here, _]| here))?;
            order(link, &Order::Place(processors.map(|[_, there]| there)))?;
            result(link)?;
            self.placed = processors;
        }
        order(link, &Order::Serve(*burst))?;
        let timing = drive(&mut Link(link), burst, &mut self.buffers)?;
        result(link)?;
        Ok(timing)
    }

    /// Spawns children and waits for the first byte of each.
    fn children(&self, count: usize, separately: bool) -> io::Result<MpiChildren> {
        let words = self.program.words(&[super::MPI_ROLE]);
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let children = MpiChildren::spawn(&self.world, &words[0], &arguments, count, separately).map_err(other)?;
        for child in 0..count {
            children.link(child).receive(&mut [0]).map_err(other)?;
        }
        Ok(children)
    }

    /// Spawns children, times them, asks where they are and lets them go.
    fn spawn(&self, spawn: &SpawnRequest) -> io::Result<Spawned> {
        let started = Instant::now();
        let children = self.children(spawn.count, spawn.separately)?;
        let seconds = started.elapsed().as_secs_f64();
        let mut landings = Vec::with_capacity(children.count());
        for child in 0..children.count() {
            let link = children.link(child);
            order(&link, &Order::Land)?;
            landings.push(receive(&link)?);
            order(&link, &Order::Leave)?;
        }
        children.disconnect().map_err(other)?;
        Ok(Spawned { seconds, landings })
    }

    /// Lets the others go.
    fn leave(&mut self) -> io::Result<()> {
        self.leave_child()?;
        self.peer.as_ref().map_or(Ok(()), |peer| order(peer, &Order::Leave))
    }

    fn leave_child(&mut self) -> io::Result<()> {
        let Some(children) = self.child.take() else { return Ok(()) };
        order(&children.link(0), &Order::Leave)?;
        children.disconnect().map_err(other)
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let _ = self.leave_child();
    }
}

/// Does what rank 0 orders, until it lets us go.
pub(super) fn follow(link: &MpiLink) -> io::Result<()> {
    let mut buffers = Buffers::default();
    let mut agent = Agent::default();
    loop {
        wait_politely(link)?;
        let done = match receive(link)? {
            Order::Place(processor) => place(processor),
            Order::Serve(burst) => serve(&mut Link(link), &burst, &mut buffers),
            Order::Ask(request) => {
                send(link, &agent.answer(request))?;
                continue;
            }
            Order::Land => {
                send(link, &Landing::here()?)?;
                continue;
            }
            Order::Leave => return Ok(()),
        };
        send(link, &done.map_err(|error| error.to_string()))?;
    }
}

fn wait_politely(link: &MpiLink) -> io::Result<()> {
    let mut nap = NAP_MIN;
    while !link.is_waiting().map_err(other)? {
        std::thread::sleep(nap);
        nap = (nap * 2).min(NAP_MAX);
    }
    Ok(())
}

fn order(link: &MpiLink, order: &Order) -> io::Result<()> {
    send(link, order)
}

/// What came of an order.
fn result(link: &MpiLink) -> io::Result<()> {
    receive::<Result<(), String>>(link)?.map_err(io::Error::other)
}

pub(super) fn send(link: &MpiLink, value: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    link.send(&(bytes.len() as u64).to_be_bytes()).map_err(other)?;
    link.send(&bytes).map_err(other)
}

pub(super) fn receive<T: DeserializeOwned>(link: &MpiLink) -> io::Result<T> {
    let mut length = [0; 8];
    link.receive(&mut length).map_err(other)?;
    let length = u64::from_be_bytes(length);
    if length > ORDER_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("an order of {length} bytes")));
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    link.receive(&mut bytes).map_err(other)?;
    Ok(serde_json::from_slice(&bytes)?)
}
