//! Runs the methods of a configuration in alternation, times the slowest rank, and has every method's files checked.
//!
//! Everything here is collective: all ranks call [`run`] with the same options, and all return the same results.

use super::measurement::Measurement;
use super::phases::{Phases, Stopwatch};
use super::workload::{Owners, Rows, Workload};
use super::{Method, aggregated, direct, gather, limit};
use crate::host::{FileSystem, Host};
use crate::timing::{Rule, Runs};
use afflux::comm::agree::agree;
use afflux::comm::{CommError, Communicator, Reduce};
use afflux::{Hints, Point};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The methods.
    pub methods: Vec<Method>,
    /// Numbers of points.
    pub points: Vec<u64>,
    /// Steps.
    pub steps: u64,
    /// Steps between flushes.
    pub window_steps: u64,
    /// Who owns which point.
    pub owners: Owners,
    /// Hints for Afflux's engine.
    pub hints: Hints,
    /// How often.
    pub rule: Rule,
    /// An existing directory that all ranks reach; each method works in a directory of its own within, and removes it.
    pub directory: PathBuf,
    /// Which MPI there is, for the report.
    pub mpi_version: Option<String>,
    /// The command line, for the report.
    pub command: String,
}

/// Told after every run, on rank 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Points of the configuration.
    pub points: u64,
    /// The method that ran.
    pub method: Method,
    /// Configurations behind this one.
    pub configurations_done: usize,
}

/// Why a benchmark gave no result; the same on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// Options that cannot be.
    #[error("{0}")]
    Options(String),
    /// A method failed.
    #[error("{method} with {points} points failed on rank {rank}: {message}")]
    Method {
        /// The method.
        method: Method,
        /// Points.
        points: u64,
        /// The lowest rank that failed.
        rank: usize,
        /// What it said.
        message: String,
    },
    /// What a method wrote is not what it was given.
    #[error("{method} with {points} points wrote wrong values: {message}")]
    Wrong {
        /// The method.
        method: Method,
        /// Points.
        points: u64,
        /// The first difference.
        message: String,
    },
    /// Messages between ranks failed.
    #[error(transparent)]
    Comm(#[from] CommError),
}

/// Collective: measures every method with every number of points. Results come in the order of the points, then of the methods.
pub fn run(
    comm: &dyn Communicator,
    options: &Options,
    observe: &mut dyn FnMut(Progress),
) -> Result<Vec<Measurement>, BenchError> {
    if options.steps == 0 || options.window_steps == 0 || options.points.contains(&0) {
        return Err(BenchError::Options("points, steps and window must be at least 1".into()));
    }
    let mut results = Vec::new();
    for (configurations_done, &points) in options.points.iter().enumerate() {
        let configuration = Configuration::new(comm, options, points);
        let mut runs = vec![(Runs::default(), Vec::new()); options.methods.len()];
        let mut again = true;
        while again {
            again = false;
            for (&method, (runs, phases)) in options.methods.iter().zip(&mut runs) {
                if !runs.wants_another(&options.rule) {
                    continue;
                }
                again = true;
                let verify = phases.is_empty();
                let (seconds, phase_seconds) = configuration.measure(method, verify)?;
                runs.record(seconds);
                phases.push(phase_seconds);
                if comm.rank() == 0 {
                    observe(Progress { points, method, configurations_done });
                }
            }
        }
        let measured = options.methods.iter().zip(&runs);
        results.extend(measured.map(|(&method, (runs, phases))| configuration.result(method, runs, phases)));
    }
    Ok(results)
}

/// One number of points on this rank, everything made that is not to be timed.
struct Configuration<'a> {
    comm: &'a dyn Communicator,
    options: &'a Options,
    workload: Workload,
    rows: Rows,
    points: Vec<Point>,
    /// What `limit` writes; empty on other ranks than 0.
    bytes: Vec<u8>,
}

impl<'a> Configuration<'a> {
    fn new(comm: &'a dyn Communicator, options: &'a Options, points: u64) -> Self {
        let workload = Workload {
            points,
            steps: options.steps,
            window_steps: options.window_steps,
            ranks: comm.size(),
            owners: options.owners,
        };
        let mine = workload.points_by_rank().swap_remove(comm.rank());
        let rows = workload.rows(comm.rank(), mine);
        let points = aggregated::points(&workload, &rows);
        let writes_limit = comm.rank() == 0 && options.methods.contains(&Method::Limit);
        let bytes =
            if writes_limit { (0..workload.bytes()).map(|index| index.to_le_bytes()[0]).collect() } else { vec![] };
        Self { comm, options, workload, rows, points, bytes }
    }

    /// Collective: one run of a method in a directory made and removed around it. Returns the slowest rank's seconds, and the
    /// longest of each phase.
    fn measure(&self, method: Method, verify: bool) -> Result<(f64, Phases), BenchError> {
        let place = self.options.directory.join(format!("afflux-bench-{method}"));
        let made = self.on_rank_0(|| {
            fs::create_dir(&place).map_err(|error| {
                format!(
                    "cannot make {}: {error}; a leftover of an interrupted benchmark may be removed",
                    place.display()
                )
            })
        });
        self.settle(method, made, &mut [])?;

        let measured = self.write(method, &place).and_then(|times| {
            if verify {
                let right = self.verify(method, &place);
                self.settle(method, right, &mut []).map_err(|error| match error {
                    BenchError::Method { method, points, message, .. } => BenchError::Wrong { method, points, message },
                    other => other,
                })?;
            }
            Ok(times)
        });
        if let Err(BenchError::Comm(error)) = measured {
            return Err(error.into());
        }
        // No rank reads any more: each has taken part in the verdict.
        let removed =
            self.on_rank_0(|| fs::remove_dir_all(&place).map_err(|error| format!("cannot remove it: {error}")));
        let settled = self.settle(method, removed, &mut []);
        measured.and_then(|times| settled.map(|()| times))
    }

    /// The timed part.
    fn write(&self, method: Method, place: &Path) -> Result<(f64, Phases), BenchError> {
        let (comm, workload, rows) = (self.comm, &self.workload, &self.rows);
        comm.barrier()?;
        let start = Instant::now();
        let mut watch = Stopwatch::start();
        let outcome = match (method, direct_variant(method)) {
            (_, Some(variant)) => {
                let written = direct::write(variant, place, rows, workload.steps, &mut watch);
                written.map_err(|error| error.to_string())
            }
            (Method::Limit, _) => self.on_rank_0(|| {
                limit::write(&place.join("bytes"), &self.bytes, &mut watch).map_err(|error| error.to_string())
            }),
            (Method::Gather, _) => gather::write(&place.join("run.nc"), comm, workload, rows, &mut watch)?,
            _ => {
                let written =
                    aggregated::write(&place.join("run.nc"), comm, workload, &self.options.hints, &self.points, rows);
                written.map(|phases| watch.phases = phases)
            }
        };
        let seconds = start.elapsed().as_secs_f64();

        let mut slowest: Vec<Reduce> =
            watch.phases.as_array().into_iter().chain([seconds]).map(|time| Reduce::max(nanoseconds(time))).collect();
        self.settle(method, outcome, &mut slowest)?;
        let times: Vec<f64> = slowest.iter().map(|element| element.value as f64 * 1e-9).collect();
        Ok((times[6], Phases::from_array(std::array::from_fn(|phase| times[phase]))))
    }

    /// This rank's part of the check: of direct files those of the next rank, of a shared file everything, on rank 0.
    fn verify(&self, method: Method, place: &Path) -> Result<(), String> {
        if let Some(variant) = direct_variant(method) {
            let next = (self.comm.rank() + 1) % self.comm.size();
            let rows = self.workload.rows(next, self.workload.points_by_rank().swap_remove(next));
            return direct::verify(variant, place, &rows, self.workload.steps);
        }
        self.on_rank_0(|| match method {
            Method::Limit => limit::verify(&place.join("bytes"), &self.bytes),
            Method::Gather => gather::verify(&place.join("run.nc"), &self.workload),
            _ => aggregated::verify(&place.join("run.nc"), &self.workload),
        })
    }

    fn on_rank_0(&self, action: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        if self.comm.rank() == 0 { action() } else { Ok(()) }
    }

    /// Collective: one verdict on all ranks, `elements` reduced along with it.
    fn settle(&self, method: Method, outcome: Result<(), String>, elements: &mut [Reduce]) -> Result<(), BenchError> {
        let outcome = outcome.map_err(|message| (0, message));
        agree(self.comm, outcome, elements)?.map_err(|failure| BenchError::Method {
            method,
            points: self.workload.points,
            rank: failure.rank,
            message: failure.message,
        })
    }

    fn result(&self, method: Method, runs: &Runs, phases: &[Phases]) -> Measurement {
        let rule = &self.options.rule;
        let warmups = runs.first_counted(rule);
        let time = runs.summary(rule).expect("every method has run at least once");
        Measurement {
            benchmark: "sampling",
            method,
            points: self.workload.points,
            ranks: self.workload.ranks,
            backend: self.comm.backend(),
            mpi_version: self.options.mpi_version.clone(),
            owners: self.workload.owners,
            steps: self.workload.steps,
            window: self.workload.window_steps,
            bytes: self.workload.bytes(),
            warmups,
            bytes_per_second: self.workload.bytes() as f64 / time.seconds_median,
            phases: phases[warmups + time.typical_index()],
            verified: true,
            fsync: false,
            file_system: FileSystem::of(&self.options.directory),
            host: Host::current(),
            command: self.options.command.clone(),
            time,
        }
    }
}

fn direct_variant(method: Method) -> Option<direct::Variant> {
    match method {
        Method::DirectOpenAppendClose => Some(direct::Variant::OpenAppendClose),
        Method::DirectKeptOpen => Some(direct::Variant::KeptOpen),
        Method::DirectTwoLevelDirectories => Some(direct::Variant::TwoLevelDirectories),
        Method::Afflux | Method::Gather | Method::Limit => None,
    }
}

/// Whole nanoseconds, for a reduction of integers; what a clock shows fits by far.
fn nanoseconds(seconds: f64) -> u64 {
    u64::try_from(std::time::Duration::from_secs_f64(seconds.max(0.0)).as_nanos()).unwrap_or(u64::MAX)
}
