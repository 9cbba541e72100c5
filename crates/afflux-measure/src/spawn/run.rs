//! The run: every method in turn, repetition by repetition, first one process at a time, then several.

use super::method::Method;
use super::mpi::SpawnRequest;
use super::record::{Measured, Record, Tally};
use super::server;
use super::spawner::{self, Child, Reply, Request};
use crate::communication::agent;
use crate::communication::mpi::{Job, MissingMpi, Mpi, on_path};
use crate::communication::station::{Station, helper};
use crate::communication::{Host, MPI_ROLE, Mechanism};
use crate::helper::{Helper, HelperError, Launcher, Program};
use crate::host::Host as Machine;
use crate::janitor::{Janitor, JanitorError};
use std::time::{Duration, Instant};

/// What is measured, and how often.
#[derive(Debug, Clone)]
pub struct Options {
    /// This program, for helpers on this machine.
    pub program: Program,
    /// The program on other machines, for the RPC server.
    pub remote_program: Program,
    /// Starts that server there.
    pub remote_launcher: Launcher,
    /// Methods, in the order of the tables.
    pub methods: Vec<Method>,
    /// Other machines for the methods that reach them; this one without.
    pub hosts: Vec<Host>,
    /// The words of the secure shell, `{host}` and `{}` in them.
    pub ssh: Launcher,
    /// Those of the other one.
    pub rsh: Launcher,
    /// Launchers of the user's, with their templates.
    pub launchers: Vec<(String, Launcher)>,
    /// What children become: prints where it is.
    pub child: Vec<String>,
    /// The MPIs that can be measured.
    pub mpis: Vec<Mpi>,
    /// Those that cannot, for the record.
    pub missing_mpis: Vec<MissingMpi>,
    /// Numbers of processes to start at once.
    pub at_once: Vec<usize>,
    /// Repetitions of each.
    pub repetitions: usize,
    /// A method that has used up this many seconds is not repeated again.
    pub seconds_max: f64,
    /// How long a process may take to its first byte.
    pub patience: Duration,
    /// The command line, for the record.
    pub command: String,
}

/// What is being measured, for a progress bar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Repetitions done.
    pub done: usize,
    /// Repetitions in all.
    pub steps: usize,
}

/// How long a job or a server may take to start; a server no longer than a process may.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// What a helper may take on top of the time that its children have.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// A method whose processes never speak is given up after this many repetitions: it is broken, and each costs its time-out.
const SILENT_REPETITIONS_MAX: usize = 3;
/// Repetitions before those that count.
const WARMUPS: usize = 1;

/// A method on a machine.
struct Lane {
    method: Method,
    variant: Option<String>,
    target: Option<Host>,
    way: Way,
    tally: Tally,
    repetitions: usize,
    seconds: f64,
    given_up: bool,
}

/// How a lane's processes are started.
enum Way {
    /// By the spawner, with these words.
    Spawner(Vec<String>),
    /// By the spawner, through a server that is started when first needed.
    Server(Option<(String, u16)>),
    /// By a job of MPI.
    Mpi(Station),
    /// Not at all.
    Absent(String),
}

/// The helpers of a run.
struct Helpers<'a> {
    options: &'a Options,
    janitor: Janitor,
    spawner: Option<Helper>,
    servers: Vec<Helper>,
}

/// Measures everything that the options ask for. `found` gets each record as soon as it is there.
///
/// # Errors
/// The janitor did not start. What goes wrong with a method is counted in its record.
pub fn run(
    options: &Options,
    progress: &mut dyn FnMut(Progress),
    found: &mut dyn FnMut(&Record),
) -> Result<Vec<Record>, JanitorError> {
    let janitor = Janitor::start(&options.program)?;
    let mut helpers = Helpers { options, janitor, spawner: None, servers: Vec::new() };
    let mut records = Vec::new();
    let steps = options.at_once.len() * (options.repetitions + WARMUPS);
    for (index, &at_once) in options.at_once.iter().enumerate() {
        let mut lanes = lanes(options);
        for repetition in 0..options.repetitions + WARMUPS {
            progress(Progress { done: index * (options.repetitions + WARMUPS) + repetition, steps });
            for lane in &mut lanes {
                if lane.wants_another(options) {
                    lane.repeat(&mut helpers, at_once, repetition >= WARMUPS);
                }
            }
        }
        for lane in lanes {
            let record = lane.record(options, at_once);
            found(&record);
            records.push(record);
        }
    }
    Ok(records)
}

/// The methods on the machines that are asked for.
fn lanes(options: &Options) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for &method in &options.methods {
        if method.is_mpi() {
            lanes.extend(mpi_lanes(options, method));
            continue;
        }
        let targets: Vec<Option<&Host>> = match options.hosts.as_slice() {
            hosts if method.reaches_hosts() && !hosts.is_empty() => hosts.iter().map(Some).collect(),
            _ => vec![None],
        };
        for target in targets {
            let host = target.map_or("localhost", |host| host.name.as_str());
            let ways = match method {
                Method::Rpc => vec![(None, Way::Server(None))],
                Method::Ssh => vec![(None, words_of(&options.ssh, host, &options.child))],
                Method::Rsh => vec![(None, words_of(&options.rsh, host, &options.child))],
                Method::Launcher => {
                    let way = |(template, launcher): &(String, Launcher)| {
                        (Some(template.clone()), words_of(launcher, host, &options.child))
                    };
                    options.launchers.iter().map(way).collect()
                }
                _ => vec![(None, own_program(&options.child))],
            };
            let lane = |(variant, way)| Lane::new(method, variant, target.cloned(), way);
            lanes.extend(ways.into_iter().map(lane));
        }
    }
    lanes
}

/// A child without a launcher: its program by its path, as `execve` wants it.
fn own_program(child: &[String]) -> Way {
    let Some(name) = child.first() else { return Way::Absent("no command is given".to_owned()) };
    let path = if name.contains('/') { Some(name.into()) } else { on_path(name) };
    match path {
        Some(path) => {
            let first = path.display().to_string();
            Way::Spawner(std::iter::once(first).chain(child[1..].iter().cloned()).collect())
        }
        None => Way::Absent(format!("there is no {name} on the PATH")),
    }
}

fn words_of(launcher: &Launcher, host: &str, child: &[String]) -> Way {
    let words = launcher.words(host, child);
    match words.first() {
        Some(name) if name.contains('/') || on_path(name).is_some() => Way::Spawner(words),
        Some(name) => Way::Absent(format!("there is no {name} on the PATH")),
        None => Way::Absent("the launcher is empty".to_owned()),
    }
}

fn mpi_lanes(options: &Options, method: Method) -> Vec<Lane> {
    let missing = options
        .missing_mpis
        .iter()
        .map(|missing| Lane::new(method, Some(missing.name.clone()), None, Way::Absent(missing.reason.clone())));
    let hosts: Vec<String> = options.hosts.iter().map(|host| host.name.clone()).collect();
    let found = options.mpis.iter().map(|mpi| {
        let crowded = agent::processors().is_ok_and(|processors| processors.len() < 2);
        let job = Job { mechanism: Mechanism::MpiSpawned, ranks: 1, hosts: &hosts, crowded };
        let (words, environment) = mpi.launch(&job, MPI_ROLE);
        let station = Station::single(helper(words, environment, START_PATIENCE), None);
        // All of them: MPI chooses among its hosts.
        let names = hosts.join(",");
        let target = (!hosts.is_empty()).then(|| Host { name: names.clone(), address: names });
        Lane::new(method, Some(mpi.name.clone()), target, Way::Mpi(station))
    });
    found.chain(missing).collect()
}

impl Lane {
    fn new(method: Method, variant: Option<String>, target: Option<Host>, way: Way) -> Self {
        let (tally, repetitions, seconds, given_up) = (Tally::default(), 0, 0.0, false);
        Self { method, variant, target, way, tally, repetitions, seconds, given_up }
    }

    fn wants_another(&self, options: &Options) -> bool {
        !self.given_up && !matches!(self.way, Way::Absent(_)) && self.seconds < options.seconds_max
    }

    /// Starts processes once. An unmeasured one whose processes speak is forgotten; failures count always.
    fn repeat(&mut self, helpers: &mut Helpers<'_>, at_once: usize, counts: bool) {
        let began = Instant::now();
        let reply = helpers.spawn(self.method, self.target.as_ref(), &mut self.way, at_once);
        self.seconds += began.elapsed().as_secs_f64();
        self.repetitions += 1;
        match reply {
            Ok(reply) if !counts && reply.children.iter().all(|child| matches!(child, Child::Spoke { .. })) => {}
            Ok(reply) => self.count(reply),
            // The helper has gone silent, and its children with it.
            Err(SpawnError::Late) => self.tally.late(at_once),
            Err(SpawnError::Failed(message)) => self.tally.failed(at_once, &message),
        }
        self.given_up =
            self.tally.spawns() > 0 && !self.tally.any_spoke() && self.repetitions >= SILENT_REPETITIONS_MAX;
    }

    fn count(&mut self, reply: Reply) {
        let all = reply.children.iter().all(|child| matches!(child, Child::Spoke { .. }));
        if all {
            self.tally.together(reply.seconds);
        }
        for child in reply.children {
            match child {
                Child::Spoke { seconds, words } => self.tally.spoke(seconds, words),
                Child::Failed(message) => self.tally.failed(1, &message),
                Child::Late => self.tally.late(1),
            }
        }
    }

    fn record(self, options: &Options, at_once: usize) -> Record {
        let copies = matches!(self.method, Method::Fork | Method::Namespaces | Method::Rpc);
        let result = match self.way {
            Way::Absent(reason) => Measured::Absent { reason },
            _ => Measured::Spawns(self.tally.finish(at_once)),
        };
        let child = match self.method {
            _ if copies => String::new(),
            method if method.is_mpi() => "afflux".to_owned(),
            _ => options.child.join(" "),
        };
        Record {
            benchmark: "spawn".to_owned(),
            method: self.method,
            variant: self.variant,
            target: self.target.map(|host| host.name),
            at_once,
            child,
            result,
            host: Machine::current(),
            command: options.command.clone(),
        }
    }
}

/// Why there is no answer to what was asked.
enum SpawnError {
    /// There was none in time.
    Late,
    /// Something else.
    Failed(String),
}

impl From<HelperError> for SpawnError {
    fn from(error: HelperError) -> Self {
        match error {
            HelperError::Silent { .. } => Self::Late,
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<JanitorError> for SpawnError {
    fn from(error: JanitorError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Helpers<'_> {
    fn spawn(
        &mut self,
        method: Method,
        target: Option<&Host>,
        way: &mut Way,
        at_once: usize,
    ) -> Result<Reply, SpawnError> {
        let patience_seconds = self.options.patience.as_secs_f64();
        let (words, server) = match way {
            Way::Absent(reason) => return Err(SpawnError::Failed(reason.clone())),
            Way::Mpi(station) => return self.spawn_by_mpi(station, method, at_once),
            Way::Spawner(words) => (words.clone(), None),
            Way::Server(server) => {
                if server.is_none() {
                    *server = Some(self.start_server(target)?);
                }
                (Vec::new(), server.clone())
            }
        };
        let request = Request { method, words, server, at_once, patience_seconds };
        self.ask_spawner(&request)
    }

    /// Asks the spawner; one that does not answer is replaced at the next request.
    fn ask_spawner(&mut self, request: &Request) -> Result<Reply, SpawnError> {
        let mut spawner = match self.spawner.take() {
            Some(spawner) => spawner,
            None => {
                let spawner = Helper::start(&self.options.program.words(&[spawner::ROLE]), &[])?;
                self.janitor.process(spawner.process())?;
                spawner
            }
        };
        spawner.post(request)?;
        let reply = spawner.reply(self.options.patience + ANSWER_PATIENCE)?;
        self.spawner = Some(spawner);
        Ok(reply)
    }

    /// Starts the server that RPCs go to, here or on another machine, and says where it waits.
    fn start_server(&mut self, target: Option<&Host>) -> Result<(String, u16), SpawnError> {
        let options = self.options;
        let words = match target {
            None => options.program.words(&[server::ROLE]),
            Some(host) => {
                let command = options.remote_program.words(&[server::ROLE, "--remote"]);
                options.remote_launcher.words(&host.name, &command)
            }
        };
        let mut helper = Helper::start(&words, &[])?;
        self.janitor.process(helper.process())?;
        let server::Waiting { port } = helper.reply(START_PATIENCE.min(options.patience))?;
        self.servers.push(helper);
        Ok((target.map_or_else(|| "127.0.0.1".to_owned(), |host| host.address.clone()), port))
    }

    fn spawn_by_mpi(&mut self, station: &mut Station, method: Method, at_once: usize) -> Result<Reply, SpawnError> {
        use crate::communication::agent::{Reply as AgentReply, Request as AgentRequest};
        use crate::communication::station::StationError;
        let separately = method == Method::MpiSpawnMultiple;
        let request = AgentRequest::SpawnByMpi(SpawnRequest { count: at_once, separately });
        match station.ask(&request, &mut self.janitor, self.options.patience) {
            Ok(AgentReply::Spawned(spawned)) => {
                let seconds = spawned.seconds;
                let child = |landing: super::mpi::Landing| Child::Spoke { seconds, words: landing.host };
                Ok(Reply { children: spawned.landings.into_iter().map(child).collect(), seconds })
            }
            Ok(other) => Err(SpawnError::Failed(format!("an unexpected answer: {other:?}"))),
            Err(StationError::Helper(error)) => Err(error.into()),
            Err(error) => Err(SpawnError::Failed(error.to_string())),
        }
    }
}
