//! `afflux bench comm`: the arguments of the benchmark, and its results in words, JSON or a page.

use super::results::{self, Kind, Shown};
use super::worker::{find_mpis, program_at, this_program};
use crate::failure::Failure;
use afflux::comm::launch::{self, Launch};
use afflux_measure::communication::{
    self, Host, Mechanism, Options, Placement, ROUND_TRIPS_OF_THE_SOURCE, Record, page, placement::Reading,
    sizes_of_the_source, source_tables, tables,
};
use afflux_measure::helper::Launcher;
use afflux_measure::host::Host as Machine;
use afflux_measure::report::{Page, Table};
use afflux_measure::timing::Rule;
use clap::Args;
use std::path::PathBuf;

/// Compare what it costs to carry bytes from one process to another: pipes, sockets, queues, shared memory, RPC, MPI.
#[derive(Debug, Args)]
#[command(
    after_help = "Two processes on one processor, on two, and where the scheduler puts them; with --host on two machines. Latency is \
                  that of 1 byte (round trip), bandwidth is one way.\n\n\
                  Examples:\n  afflux bench comm --html comm.html\n  \
                  afflux bench comm --mechanisms pipe,unix-stream,tcp --sizes 65536 --json\n  \
                  afflux bench comm --host node2 --link-mbit 1000\n  \
                  mpirun -n 2 --map-by node afflux bench comm\n  \
                  afflux bench comm --host n2=10.0.0.2 --launcher 'ip netns exec {host} {}'"
)]
pub struct Comm {
    /// Mechanisms; all of them unless given.
    #[arg(long, value_name = "M,..", value_delimiter = ',', default_values_t = Mechanism::ALL, hide_default_value = true)]
    mechanisms: Vec<Mechanism>,
    /// Placements: one-processor, two-processors, two-other-processors, free; between hosts one-node, two-nodes, two-other-nodes.
    #[arg(long, value_name = "P,..", value_delimiter = ',')]
    placements: Vec<Placement>,
    /// Bytes of the messages: 1 B to 64 MiB in powers of four unless given.
    #[arg(long, value_name = "B,..", value_delimiter = ',', value_parser = parse_size)]
    sizes: Vec<usize>,
    /// Round trips of 1 byte in a sample.
    #[arg(long, value_name = "N", default_value_t = ROUND_TRIPS_OF_THE_SOURCE, value_parser = clap::value_parser!(u64).range(1..))]
    round_trips: u64,
    /// Samples of each figure.
    #[arg(long, value_name = "K", default_value_t = Rule::default().repetitions)]
    repetitions: usize,
    /// Milliseconds that a sample of a size lasts, about.
    #[arg(long, value_name = "T", default_value_t = 20.0)]
    sample_ms: f64,
    /// Another machine, as NAME or NAME=ADDRESS; may be given twice.
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<Host>,
    /// What starts a command on another machine: {host} is its name, {} the command.
    #[arg(long, value_name = "TEMPLATE", default_value = "ssh -o BatchMode=yes {host} {}", value_parser = Launcher::parse)]
    launcher: Launcher,
    /// This program on other machines, where its path is another.
    #[arg(long, value_name = "PATH")]
    remote_program: Option<PathBuf>,
    /// A build of this program with another MPI; may be repeated. (Also AFFLUX_OPENMPI and AFFLUX_MPICH.)
    #[arg(long = "mpi-program", value_name = "PATH")]
    mpi_programs: Vec<PathBuf>,
    /// What starts two MPI ranks, where mpirun alone does not: {host} is the hosts with commas, {} the command.
    #[arg(long, value_name = "TEMPLATE", value_parser = Launcher::parse)]
    mpirun: Option<Launcher>,
    /// Rate of the link between the hosts in Mbit/s, to say how much of it is used.
    #[arg(long, value_name = "R")]
    link_mbit: Option<f64>,
    /// Seconds after which anything counts as hanging.
    #[arg(long, value_name = "T", default_value_t = 60.0)]
    timeout: f64,
    #[command(flatten)]
    shown: Shown,
}

/// Lengths in bytes that both sides keep in memory twice.
fn parse_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes @ 1..=1_073_741_824) => Ok(bytes),
        _ => Err("a message has 1 to 1,073,741,824 bytes".to_owned()),
    }
}

impl Comm {
    /// Measures and prints.
    pub fn run(&self) -> Result<(), Failure> {
        if self.shown.is_of_earlier_results() {
            return self.shown.show::<Results>(|_, _| Ok(Vec::new()));
        }
        let mut options = self.options()?;
        if let Launch::Mpi { ranks: 2.. } = launch::detect().map_err(Failure::failed)? {
            if !self.hosts.is_empty() || !self.placements.is_empty() {
                return Err(Failure::usage(
                    "under a launcher its ranks are the two processes: leave out --host and --placements",
                ));
            }
            if !join_job(&mut options)? {
                return Ok(());
            }
        }
        self.shown.show::<Results>(|bar, found| {
            let progress = &mut |progress: communication::Progress| {
                bar.set_length(progress.steps as u64);
                bar.set_position(progress.done as u64);
                bar.set_message(progress.what);
            };
            communication::run(&options, progress, found).map_err(Failure::failed)
        })
    }

    fn options(&self) -> Result<Options, Failure> {
        let program = this_program().map_err(Failure::failed)?;
        let with_mpi = self.mechanisms.iter().any(|mechanism| mechanism.is_mpi());
        let (mpis, missing_mpis) =
            if with_mpi { find_mpis(&program, &self.mpi_programs, self.mpirun.as_ref()) } else { Default::default() };
        Ok(Options {
            remote_program: self.remote_program.clone().map_or_else(|| program.clone(), program_at),
            program,
            launcher: self.launcher.clone(),
            hosts: self.hosts.clone(),
            job: None,
            mechanisms: self.mechanisms.clone(),
            placements: self.placements(),
            mpis,
            missing_mpis,
            sizes: if self.sizes.is_empty() { sizes_of_the_source() } else { self.sizes.clone() },
            round_trips: self.round_trips,
            rule: Rule { repetitions: self.repetitions, ..Rule::default() },
            sample_seconds: results::seconds(self.sample_ms / 1e3, "--sample-ms")?.as_secs_f64(),
            patience: results::seconds(self.timeout, "--timeout")?,
            link_bits_per_second: self.link_mbit.map(|rate| rate * 1e6),
            command: std::env::args().collect::<Vec<_>>().join(" "),
        })
    }

    fn placements(&self) -> Vec<Placement> {
        if !self.placements.is_empty() {
            return self.placements.clone();
        }
        let wanted = if self.hosts.is_empty() { Reading::Processor } else { Reading::Node };
        Placement::ALL.into_iter().filter(|placement| placement.reading() == wanted).collect()
    }
}

/// Makes the ranks of the job that a launcher has started the two processes. Returns `false` on ranks that have served.
#[cfg(feature = "mpi")]
fn join_job(options: &mut Options) -> Result<bool, Failure> {
    let Some((job, host)) = communication::launched::join(&options.program).map_err(Failure::failed)? else {
        return Ok(false);
    };
    options.placements = vec![if host.is_some() { Placement::TwoNodes } else { Placement::Free }];
    options.hosts = host.into_iter().collect();
    options.job = Some(job);
    // No launcher works within a job of another; the transport is the launcher's choice.
    options.mpis.clear();
    options.missing_mpis.clear();
    options.mechanisms.retain(|mechanism| !matches!(mechanism, Mechanism::MpiShared | Mechanism::MpiTcp));
    Ok(true)
}

/// Without MPI a launcher of several processes has been refused before.
#[cfg(not(feature = "mpi"))]
fn join_job(_: &mut Options) -> Result<bool, Failure> {
    Ok(true)
}

/// Results of this benchmark.
struct Results;

impl Kind for Results {
    type Record = Record;
    const NAME: &'static str = "comm";

    fn page(records: &[Record]) -> Page {
        page::page(records)
    }

    /// Latency, and bandwidth for each placement that has any.
    fn charts(records: &[Record]) -> Vec<(String, String)> {
        let latency = ("comm-latency.svg".to_owned(), page::latency_chart(records).svg());
        let bandwidth = tables::placements(records).into_iter().filter_map(|placement| {
            let title = format!("Bandwidth: {}", placement.words());
            let chart = page::bandwidth_chart(records, placement, &title, |_| true);
            (!chart.curves.is_empty()).then(|| (format!("comm-bandwidth-{placement}.svg"), chart.svg()))
        });
        std::iter::once(latency).chain(bandwidth).collect()
    }

    fn markdown(records: &[Record]) -> String {
        source_tables::markdown(records)
    }

    fn tables(records: &[Record]) -> Vec<Table> {
        tables::all(records)
    }

    fn host(record: &Record) -> &Machine {
        &record.host
    }
}
