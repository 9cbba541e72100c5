//! The two sides as ranks of a job that a launcher started: `mpirun -n 2 afflux bench comm`.
//!
//! Rank 0 measures and drives. The first rank on another node (rank 1 where all share one) is the other side: an agent as any other, but its
//! requests travel by MPI. The remaining ranks sleep until rank 0 lets them go.

use super::agent::{Agent, Reply, Request};
use super::mpi_agent::{Leader, Order, follow, other, receive, send};
use super::options::JobAgents;
use super::placement::Host;
use super::station::{Begin, Control, Inside, StationError};
use crate::helper::Program;
use afflux::comm::Communicator;
use afflux::comm::mpi::{MpiLink, MpiWorld};
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// The job as rank 0 sees it; dropped, it lets the other ranks go.
#[derive(Debug)]
struct Job {
    world: MpiWorld,
    ranks: usize,
    peer: usize,
    program: Program,
}

impl Drop for Job {
    fn drop(&mut self) {
        for rank in 1..self.ranks {
            let _ = send(&MpiLink::to_rank(&self.world, rank), &Order::Leave);
        }
    }
}

/// A rank as an agent.
struct Elsewhere(MpiLink);

impl Control for Elsewhere {
    fn post(&mut self, request: &Request) -> Result<(), StationError> {
        send(&self.0, &Order::Ask(request.clone())).map_err(refused)
    }

    /// Waits as long as MPI does: of a rank that has gone, the launcher learns first.
    fn reply(&mut self, _: Duration) -> Result<Reply, StationError> {
        receive(&self.0).map_err(refused)
    }
}

fn refused(error: io::Error) -> StationError {
    StationError::Refused(error.to_string())
}

/// Joins the job; collective over its ranks, of which there must be two at least. On rank 0 returns the agents, and the machine of the other side
/// where that is another one. On the others it returns `None` when rank 0 has done with them.
///
/// # Errors
/// What MPI says.
pub fn join(program: &Program) -> io::Result<Option<(JobAgents, Option<Host>)>> {
    let world = MpiWorld::init().map_err(other)?;
    let (ranks, peer, elsewhere) = {
        let comm = world.communicator().map_err(other)?;
        if comm.rank() > 0 {
            follow(&MpiLink::to_rank(&world, 0))?;
            return Ok(None);
        }
        let nodes = &comm.nodes().node_of_rank;
        let elsewhere = nodes.iter().position(|node| *node != nodes[0]);
        (comm.size(), elsewhere.unwrap_or(1), elsewhere.is_some())
    };
    let job = Rc::new(Job { world, ranks, peer, program: program.clone() });
    let host = if elsewhere { Some(host_of(&job)?) } else { None };
    Ok(Some((agents(&job), host)))
}

/// The machine of the other side, by the name that it gives itself.
fn host_of(job: &Job) -> io::Result<Host> {
    let link = MpiLink::to_rank(&job.world, job.peer);
    send(&link, &Order::Ask(Request::Describe))?;
    match receive(&link)? {
        Reply::Agent(description) => Ok(Host { name: description.host.clone(), address: description.host }),
        reply => Err(io::Error::other(format!("an unexpected answer: {reply:?}"))),
    }
}

fn agents(job: &Rc<Job>) -> JobAgents {
    let driver: Begin = Rc::new(|| {
        let mut agent = Agent::default();
        Box::new(Inside::new(move |request| agent.answer(request)))
    });
    let of_server = Rc::clone(job);
    let server: Begin = Rc::new(move || Box::new(Elsewhere(MpiLink::to_rank(&of_server.world, of_server.peer))));
    let of_ranks = Rc::clone(job);
    let ranks: Begin = Rc::new(move || {
        let mut leader = Leader::new(of_ranks.program.clone(), of_ranks.world.clone(), Some(of_ranks.peer));
        Box::new(Inside::new(move |request| leader.answer(&request)))
    });
    JobAgents { mpi: super::mpi::name_of_this(), driver, server, ranks }
}
