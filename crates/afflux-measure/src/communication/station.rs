//! Where a channel is measured: the agents of its two sides, and what becomes of them when something goes wrong.
//!
//! A [`Station`] is a pair of agents with channels between them, or a single agent for what has both sides under one roof (threads, an
//! MPI job). Agents are started when they are first needed. After a failure that may have left one side waiting both are ended, and started anew for
//! the next mechanism: a mechanism that hangs costs its time-out and nothing else.

use super::agent::{ChannelId, Description, Reply, Request};
use super::burst::{Burst, Timing};
use super::channel::Supplies;
use super::mechanism::Mechanism;
use crate::helper::{Helper, HelperError};
use crate::janitor::{Janitor, JanitorError};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// What can go wrong at a station.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StationError {
    /// An agent did not start, ended or did not answer.
    #[error(transparent)]
    Helper(#[from] HelperError),
    /// The janitor did not do its part.
    #[error(transparent)]
    Janitor(#[from] JanitorError),
    /// An agent could not do what it was asked.
    #[error("{0}")]
    Refused(String),
}

/// An agent as the coordinator sees it.
pub trait Control {
    /// Sends a request.
    ///
    /// # Errors
    /// The agent has gone.
    fn post(&mut self, request: &Request) -> Result<(), StationError>;

    /// Waits for the reply to the oldest request that has none.
    ///
    /// # Errors
    /// The agent has gone, or does not answer in time.
    fn reply(&mut self, patience: Duration) -> Result<Reply, StationError>;
}

impl Control for Helper {
    fn post(&mut self, request: &Request) -> Result<(), StationError> {
        Ok(Self::post(self, request)?)
    }

    fn reply(&mut self, patience: Duration) -> Result<Reply, StationError> {
        Ok(Self::reply(self, patience)?)
    }
}

/// An agent in this thread: it does what it was asked when its reply is asked for.
pub struct Inside<F> {
    answer: F,
    requests: VecDeque<Request>,
}

impl<F: FnMut(Request) -> Reply> Inside<F> {
    /// An agent that answers so.
    pub fn new(answer: F) -> Self {
        Self { answer, requests: VecDeque::new() }
    }
}

impl<F: FnMut(Request) -> Reply> Control for Inside<F> {
    fn post(&mut self, request: &Request) -> Result<(), StationError> {
        self.requests.push_back(request.clone());
        Ok(())
    }

    fn reply(&mut self, _: Duration) -> Result<Reply, StationError> {
        let request = self.requests.pop_front();
        Ok(request.map_or(Reply::Done, &mut self.answer))
    }
}

/// Gives an agent that needs no start.
pub type Begin = Rc<dyn Fn() -> Box<dyn Control>>;

/// Starts an agent, and tells the janitor of it.
pub type Start = Box<dyn Fn(&mut Janitor) -> Result<Box<dyn Control>, StationError>>;

/// The start of an agent that needs none.
#[must_use]
pub fn ready(begin: &Begin) -> Start {
    let begin = Rc::clone(begin);
    Box::new(move |_| Ok(begin()))
}

/// The start of a helper by these words, which must be an agent of our own version.
#[must_use]
pub fn helper(words: Vec<String>, environment: Vec<(String, String)>, patience: Duration) -> Start {
    Box::new(move |janitor| {
        let mut helper = Helper::start(&words, &environment)?;
        janitor.process(helper.process())?;
        describe(&mut helper, patience)?;
        Ok(Box::new(helper))
    })
}

/// Asks an agent who it is; another version than ours would mean other things by the same words.
fn describe(control: &mut dyn Control, patience: Duration) -> Result<Description, StationError> {
    control.post(&Request::Describe)?;
    match settled(control.reply(patience)?)? {
        Reply::Agent(description) if description.version == env!("CARGO_PKG_VERSION") => Ok(description),
        Reply::Agent(description) => Err(StationError::Refused(format!(
            "{} has version {} of this program, not {}",
            description.host,
            description.version,
            env!("CARGO_PKG_VERSION")
        ))),
        other => Err(unexpected(&other)),
    }
}

fn settled(reply: Reply) -> Result<Reply, StationError> {
    match reply {
        Reply::Failed(message) => Err(StationError::Refused(message)),
        reply => Ok(reply),
    }
}

fn unexpected(reply: &Reply) -> StationError {
    StationError::Refused(format!("an unexpected answer: {reply:?}"))
}

/// The agents of a pair.
struct Agents {
    driver: Box<dyn Control>,
    server: Box<dyn Control>,
    open: HashMap<Mechanism, ChannelId>,
}

/// Two agents.
pub struct Pair {
    start_driver: Start,
    start_server: Start,
    /// Processors of driver and server.
    processors: [Option<usize>; 2],
    /// How the driver reaches the server's machine, where that is another one.
    server_host: Option<String>,
    agents: Option<Agents>,
    channels: ChannelId,
}

/// One or two agents.
pub enum Station {
    /// Two, with channels between them.
    Pair(Box<Pair>),
    /// One, for what has both sides in one place, with the processors of the sides.
    Single {
        /// Starts it.
        start: Start,
        /// Processors of the sides.
        processors: Option<[usize; 2]>,
        /// The agent, once it runs.
        agent: Option<Box<dyn Control>>,
    },
}

impl Station {
    /// Two agents on these processors; the driver reaches the server's machine as `server_host`.
    #[must_use]
    pub fn pair(driver: Start, server: Start, processors: [Option<usize>; 2], server_host: Option<String>) -> Self {
        let (start_driver, start_server) = (driver, server);
        Self::Pair(Box::new(Pair { start_driver, start_server, processors, server_host, agents: None, channels: 0 }))
    }

    /// One agent.
    #[must_use]
    pub fn single(start: Start, processors: Option<[usize; 2]>) -> Self {
        Self::Single { start, processors, agent: None }
    }

    /// Runs a burst of a mechanism.
    ///
    /// # Errors
    /// [`StationError`]; the station is usable afterwards.
    pub fn run(
        &mut self,
        mechanism: Mechanism,
        burst: &Burst,
        janitor: &mut Janitor,
        patience: Duration,
    ) -> Result<Timing, StationError> {
        match self {
            Self::Pair(pair) => {
                let result = pair.run(mechanism, burst, janitor, patience);
                if result.is_err() {
                    pair.agents = None;
                }
                result
            }
            Self::Single { processors, .. } => {
                let request = Request::InProcess(mechanism, *burst, *processors);
                match self.ask(&request, janitor, patience)? {
                    Reply::Timed(timing) => Ok(timing),
                    other => Err(unexpected(&other)),
                }
            }
        }
    }

    /// Asks a single agent.
    ///
    /// # Errors
    /// [`StationError`]; the station is usable afterwards.
    ///
    /// # Panics
    /// At a pair.
    pub fn ask(&mut self, request: &Request, janitor: &mut Janitor, patience: Duration) -> Result<Reply, StationError> {
        let Self::Single { start, agent, .. } = self else { panic!("a pair has two agents") };
        let mut ask = || {
            let agent = match agent {
                Some(agent) => agent,
                None => agent.insert(start(janitor)?),
            };
            agent.post(request)?;
            settled(agent.reply(patience)?)
        };
        let result = ask();
        if result.is_err() {
            *agent = None;
        }
        result
    }
}

impl Pair {
    fn run(
        &mut self,
        mechanism: Mechanism,
        burst: &Burst,
        janitor: &mut Janitor,
        patience: Duration,
    ) -> Result<Timing, StationError> {
        let id = self.channel(mechanism, janitor, patience)?;
        let agents = self.agents(janitor, patience)?;
        agents.server.post(&Request::Serve(id, *burst))?;
        agents.driver.post(&Request::Drive(id, *burst))?;
        // Where the driver has failed, the server may wait for it for ever: its reply is not waited for.
        let timed = settled(agents.driver.reply(patience)?)?;
        settled(agents.server.reply(patience)?)?;
        match timed {
            Reply::Timed(timing) => Ok(timing),
            other => Err(unexpected(&other)),
        }
    }

    /// The agents, started and placed.
    fn agents(&mut self, janitor: &mut Janitor, patience: Duration) -> Result<&mut Agents, StationError> {
        if self.agents.is_none() {
            let mut agents = Agents {
                driver: (self.start_driver)(janitor)?,
                server: (self.start_server)(janitor)?,
                open: HashMap::new(),
            };
            let [driver, server] = self.processors;
            for (agent, processor) in [(&mut agents.driver, driver), (&mut agents.server, server)] {
                agent.post(&Request::Place(processor))?;
                settled(agent.reply(patience)?)?;
            }
            self.agents = Some(agents);
        }
        self.agents.as_mut().ok_or_else(|| StationError::Refused("no agents".to_owned()))
    }

    /// The mechanism's channel, opened if need be.
    fn channel(
        &mut self,
        mechanism: Mechanism,
        janitor: &mut Janitor,
        patience: Duration,
    ) -> Result<ChannelId, StationError> {
        let remote = self.server_host.clone();
        self.channels += 1;
        let id = self.channels;
        let agents = self.agents(janitor, patience)?;
        if let Some(&id) = agents.open.get(&mechanism) {
            return Ok(id);
        }
        let supplies = supplies(mechanism, id, remote.is_some(), janitor)?;
        agents.server.post(&Request::Offer(id, mechanism, supplies))?;
        let address = match settled(agents.server.reply(patience)?)? {
            Reply::Offered(address) => address,
            other => return Err(unexpected(&other)),
        };
        agents.server.post(&Request::Take(id))?;
        agents.driver.post(&Request::Join(id, mechanism, address, remote))?;
        settled(agents.driver.reply(patience)?)?;
        settled(agents.server.reply(patience)?)?;
        agents.open.insert(mechanism, id);
        Ok(id)
    }
}

/// What a channel needs that the janitor looks after.
fn supplies(
    mechanism: Mechanism,
    id: ChannelId,
    remote: bool,
    janitor: &mut Janitor,
) -> Result<Supplies, StationError> {
    let directory = janitor.directory().to_owned();
    let unique = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let token = format!("{unique}-{}-{id}", std::process::id());
    let sysv_queues = match mechanism {
        Mechanism::SysvQueue => Some([janitor.sysv_queue()?, janitor.sysv_queue()?]),
        _ => None,
    };
    if mechanism == Mechanism::PosixQueue {
        for name in super::channel::posix_names(&token) {
            janitor.posix_queue(&name)?;
        }
    }
    Ok(Supplies { directory, token, sysv_queues, remote })
}
