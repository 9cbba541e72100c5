//! The contestants at a placement: each mechanism (of each MPI) with the station that runs it.

use super::agent;
use super::burst::{Burst, Timing};
use super::mechanism::Mechanism;
use super::mpi::{Job, Mpi};
use super::options::Options;
use super::placement::{Host, Placement, Spots};
use super::record::{Measured, Record};
use super::station::{Start, Station, StationError, helper, ready};
use crate::host::Host as Machine;
use crate::janitor::Janitor;
use std::time::Duration;

/// The role of an agent that is a helper process.
pub const AGENT_ROLE: &str = "agent";
/// The role of an agent that is a process of MPI.
pub const MPI_ROLE: &str = "mpi";
/// How long MPI jobs and remote logins may take to start, if no shorter time is asked for.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// A mechanism at a placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Which MPI.
    pub mpi: Option<String>,
    /// Its station in [`Lanes`].
    station: usize,
    /// Whether it still runs: one that has failed is out for the rest of the placement.
    pub runs: bool,
}

/// All mechanisms at a placement.
pub struct Lanes {
    /// The placement.
    pub placement: Placement,
    processors: Option<[usize; 2]>,
    hosts: [String; 2],
    /// Those that take part.
    pub lanes: Vec<Lane>,
    stations: Vec<Station>,
    machine: Machine,
    command: String,
    patience: Duration,
}

impl Lanes {
    /// The mechanisms at `spots`, and a record for each that cannot take part.
    #[must_use]
    pub fn new(options: &Options, machine: &Machine, placement: Placement, spots: &Spots<'_>) -> (Self, Vec<Record>) {
        let name = |host: Option<&Host>| host.map_or_else(|| machine.name.clone(), |host| host.name.clone());
        let mut this = Self {
            placement,
            processors: spots.processors,
            hosts: spots.hosts.map(name),
            lanes: Vec::new(),
            stations: Vec::new(),
            command: options.command.clone(),
            patience: options.patience,
            machine: machine.clone(),
        };
        let mut absent = Vec::new();
        let pair = this.add_pair(options, spots);
        let inside = this.add_station(Station::single(agent_on(options, None), spots.processors));
        for &mechanism in &options.mechanisms {
            if spots.between_hosts() && !mechanism.reaches_hosts() {
                continue;
            }
            if mechanism.is_mpi() {
                this.add_mpi_lanes(options, mechanism, spots, &mut absent);
            } else {
                this.add_lane(mechanism, None, if mechanism.is_in_process() { inside } else { pair });
            }
        }
        (this, absent)
    }

    fn add_station(&mut self, station: Station) -> usize {
        self.stations.push(station);
        self.stations.len() - 1
    }

    fn add_lane(&mut self, mechanism: Mechanism, mpi: Option<String>, station: usize) {
        self.lanes.push(Lane { mechanism, mpi, station, runs: true });
    }

    fn add_pair(&mut self, options: &Options, spots: &Spots<'_>) -> usize {
        let [driver, server] = spots.hosts;
        if let Some(job) = &options.job {
            let server_host = server.map(|host| host.address.clone());
            return self.add_station(Station::pair(ready(&job.driver), ready(&job.server), [None; 2], server_host));
        }
        let processors = spots.processors.map_or([None; 2], |processors| processors.map(Some));
        let server_host = server.map(|host| host.address.clone());
        self.add_station(Station::pair(agent_on(options, driver), agent_on(options, server), processors, server_host))
    }

    /// A lane for every MPI: a job of its own for each transport, but one for a job's world and its spawned child.
    fn add_mpi_lanes(&mut self, options: &Options, mechanism: Mechanism, spots: &Spots<'_>, absent: &mut Vec<Record>) {
        for missing in &options.missing_mpis {
            let result = Measured::Absent { reason: missing.reason.clone() };
            absent.push(self.record_of(mechanism, Some(missing.name.clone()), result));
        }
        let of_launcher = options.job.iter().map(|job| (&job.mpi, ready(&job.ranks)));
        let others = options.mpis.iter().map(|mpi| (&mpi.name, job_of(mpi, mechanism, spots)));
        for (name, start) in of_launcher.chain(others) {
            let shares = |lane: &&Lane| {
                let one_job = [Mechanism::Mpi, Mechanism::MpiSpawned];
                lane.mpi.as_ref() == Some(name) && one_job.contains(&lane.mechanism) && one_job.contains(&mechanism)
            };
            let station = match self.lanes.iter().find(shares) {
                Some(lane) => lane.station,
                None => self.add_station(Station::single(start, spots.processors)),
            };
            self.add_lane(mechanism, Some(name.clone()), station);
        }
    }

    /// Runs a burst of a lane.
    ///
    /// # Errors
    /// [`StationError`]; the lane does not run again.
    pub fn run(&mut self, lane: usize, burst: &Burst, janitor: &mut Janitor) -> Result<Timing, StationError> {
        let Lane { mechanism, station, .. } = self.lanes[lane];
        let result = self.stations[station].run(mechanism, burst, janitor, self.patience);
        if result.is_err() {
            self.lanes[lane].runs = false;
        }
        result
    }

    /// A record of a lane.
    #[must_use]
    pub fn record(&self, lane: usize, result: Measured) -> Record {
        let Lane { mechanism, ref mpi, .. } = self.lanes[lane];
        self.record_of(mechanism, mpi.clone(), result)
    }

    fn record_of(&self, mechanism: Mechanism, mpi: Option<String>, result: Measured) -> Record {
        Record {
            benchmark: "comm".to_owned(),
            mechanism,
            mpi,
            placement: self.placement,
            reading: self.placement.reading(),
            source_case: self.placement.source_case(),
            processors: self.processors,
            hosts: self.hosts.clone(),
            result,
            host: self.machine.clone(),
            command: self.command.clone(),
        }
    }
}

/// An agent on this machine or, through the launcher, on another one.
fn agent_on(options: &Options, host: Option<&Host>) -> Start {
    let words = match host {
        None => options.program.words(&[AGENT_ROLE]),
        Some(host) => options.launcher.words(&host.name, &options.remote_program.words(&[AGENT_ROLE])),
    };
    helper(words, Vec::new(), START_PATIENCE.min(options.patience))
}

/// A job of two ranks, each on the machine of its side.
fn job_of(mpi: &Mpi, mechanism: Mechanism, spots: &Spots<'_>) -> Start {
    let name = |host: Option<&Host>| host.map_or_else(|| "localhost".to_owned(), |host| host.name.clone());
    let hosts = if spots.between_hosts() { spots.hosts.map(name).to_vec() } else { Vec::new() };
    // Ranks that share a processor wait for each other's time slices unless they give theirs away; so do ranks that may meet on one.
    let crowded = spots.crowded() || agent::processors().is_ok_and(|processors| processors.len() < 2);
    let (words, environment) = mpi.launch(&Job { mechanism, ranks: 2, hosts: &hosts, crowded }, MPI_ROLE);
    helper(words, environment, START_PATIENCE)
}
