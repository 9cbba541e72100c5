//! `afflux bench spawn`: the arguments of the benchmark, and its results in words, JSON or a page.

use super::results::{self, Kind, Shown};
use super::worker::{find_mpis, program_at, this_program};
use crate::failure::Failure;
use afflux_measure::communication::Host;
use afflux_measure::helper::Launcher;
use afflux_measure::host::Host as Machine;
use afflux_measure::report::{Page, Table};
use afflux_measure::spawn::{self, Method, Options, Record, page, source_tables, tables};
use clap::Args;
use std::path::PathBuf;

/// Compare what it takes to start a process, from the call to its first byte: fork, exec, RPC, remote shells, launchers, MPI.
#[derive(Debug, Args)]
#[command(after_help = "What does not start, and what says nothing in time, is counted; nothing waits for ever.\n\n\
                  Examples:\n  afflux bench spawn --html spawn.html\n  \
                  afflux bench spawn --methods ssh --host node2 --timeout 5\n  \
                  afflux bench spawn --methods launcher --launcher 'srun -n1 {}'\n  \
                  afflux bench spawn --methods posix-spawn --repetitions 1000 --at-once 1")]
pub struct Spawn {
    /// Methods; all of them unless given.
    #[arg(long, value_name = "M,..", value_delimiter = ',', default_values_t = Method::ALL, hide_default_value = true)]
    methods: Vec<Method>,
    /// Another machine, as NAME or NAME=ADDRESS, for rpc, rsh, ssh, launchers and MPI; may be repeated.
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<Host>,
    /// Numbers of processes to start at once.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [1, 4], value_parser = parse_at_once)]
    at_once: Vec<usize>,
    /// Repetitions of each.
    #[arg(long, value_name = "K", default_value_t = 30, value_parser = parse_repetitions)]
    repetitions: usize,
    /// A method that has used up this many seconds is not repeated again.
    #[arg(long, value_name = "T", default_value_t = 120.0)]
    seconds_max: f64,
    /// Seconds that a process has to say its first byte.
    #[arg(long, value_name = "T", default_value_t = 10.0)]
    timeout: f64,
    /// The secure shell: {host} is the machine, {} the command.
    #[arg(long, value_name = "TEMPLATE", default_value = "ssh -o BatchMode=yes {host} {}", value_parser = Launcher::parse)]
    ssh: Launcher,
    /// The remote shell without encryption.
    #[arg(long, value_name = "TEMPLATE", default_value = "rsh {host} {}", value_parser = Launcher::parse)]
    rsh: Launcher,
    /// Any other launcher, such as 'srun -n1 {}'; may be repeated.
    #[arg(long = "launcher", value_name = "TEMPLATE")]
    launchers: Vec<String>,
    /// What starts the RPC server on another machine.
    #[arg(long, value_name = "TEMPLATE", default_value = "ssh -o BatchMode=yes {host} {}", value_parser = Launcher::parse)]
    remote_launcher: Launcher,
    /// This program on other machines, where its path is another.
    #[arg(long, value_name = "PATH")]
    remote_program: Option<PathBuf>,
    /// What children become: a command that prints where it runs.
    #[arg(long, value_name = "COMMAND", default_value = "uname -n")]
    child: String,
    /// A build of this program with another MPI; may be repeated. (Also AFFLUX_OPENMPI and AFFLUX_MPICH.)
    #[arg(long = "mpi-program", value_name = "PATH")]
    mpi_programs: Vec<PathBuf>,
    /// What starts one MPI rank, where mpirun alone does not: {host} is the hosts with commas, {} the command.
    #[arg(long, value_name = "TEMPLATE", value_parser = Launcher::parse)]
    mpirun: Option<Launcher>,
    #[command(flatten)]
    shown: Shown,
}

fn parse_at_once(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1000) => Ok(count),
        _ => Err("1 to 1,000 processes are started at once".to_owned()),
    }
}

fn parse_repetitions(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1_000_000) => Ok(count),
        _ => Err("a method is repeated 1 to 1,000,000 times".to_owned()),
    }
}

impl Spawn {
    /// Measures and prints.
    pub fn run(&self) -> Result<(), Failure> {
        self.shown.show::<Results>(|bar, found| {
            let progress = &mut |progress: spawn::Progress| {
                bar.set_length(progress.steps as u64);
                bar.set_position(progress.done as u64);
            };
            spawn::run(&self.options()?, progress, found).map_err(Failure::failed)
        })
    }

    fn options(&self) -> Result<Options, Failure> {
        let program = this_program().map_err(Failure::failed)?;
        let with_mpi = self.methods.iter().any(|method| method.is_mpi());
        let (mpis, missing_mpis) =
            if with_mpi { find_mpis(&program, &self.mpi_programs, self.mpirun.as_ref()) } else { Default::default() };
        let launcher = |template: &String| Ok((template.clone(), Launcher::parse(template).map_err(Failure::usage)?));
        Ok(Options {
            remote_program: self.remote_program.clone().map_or_else(|| program.clone(), program_at),
            program,
            remote_launcher: self.remote_launcher.clone(),
            methods: self.methods.clone(),
            hosts: self.hosts.clone(),
            ssh: self.ssh.clone(),
            rsh: self.rsh.clone(),
            launchers: self.launchers.iter().map(launcher).collect::<Result<_, Failure>>()?,
            child: self.child.split_whitespace().map(str::to_owned).collect(),
            mpis,
            missing_mpis,
            at_once: self.at_once.clone(),
            repetitions: self.repetitions,
            seconds_max: results::seconds(self.seconds_max, "--seconds-max")?.as_secs_f64(),
            patience: results::seconds(self.timeout, "--timeout")?,
            command: std::env::args().collect::<Vec<_>>().join(" "),
        })
    }
}

/// Results of this benchmark.
struct Results;

impl Kind for Results {
    type Record = Record;
    const NAME: &'static str = "spawn";

    fn page(records: &[Record]) -> Page {
        page::page(records)
    }

    fn charts(records: &[Record]) -> Vec<(String, String)> {
        vec![("spawn.svg".to_owned(), page::chart(records).svg())]
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
