//! `afflux bench worker`: the roles in which the benchmarks start this program again. Not for people, so not in the help.

use crate::failure::Failure;
use afflux_measure::communication::agent::Agent;
use afflux_measure::communication::mpi::{self, BuildReport, MissingMpi, Mpi};
use afflux_measure::helper::{self, Launcher, Program};
use afflux_measure::janitor;
use afflux_measure::spawn::server;
use afflux_measure::spawn::spawner::Spawner;
use clap::{Args, ValueEnum};
use std::io::{self, BufRead, Write, stdin, stdout};
use std::path::PathBuf;

/// Be a helper of a benchmark.
#[derive(Debug, Args)]
pub struct Worker {
    /// The role.
    role: Role,
    /// Whether other machines must reach it.
    #[arg(long)]
    remote: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Role {
    /// One side of the channels that are measured.
    Agent,
    /// A process of an MPI job that is measured.
    Mpi,
    /// Looks after what must not be left behind.
    Janitor,
    /// Starts processes and times them.
    Spawner,
    /// Waits for remote calls that start processes.
    RpcServer,
    /// Says which MPI this program is built with.
    Build,
}

impl Worker {
    /// Works until its input ends.
    pub fn run(&self) -> Result<(), Failure> {
        if matches!(self.role, Role::Agent | Role::Spawner | Role::RpcServer) {
            helper::end_with_parent().map_err(Failure::failed)?;
        }
        let (input, output) = (stdin().lock(), stdout().lock());
        match self.role {
            Role::Spawner => {
                let mut spawner = Spawner::default();
                let served = helper::serve(input, output, |request| spawner.answer(&request));
                helper::end_own_group();
                served
            }
            Role::RpcServer => server::serve(input, output, self.remote),
            Role::Agent => {
                let mut agent = Agent::default();
                helper::serve(input, output, |request| agent.answer(request))
            }
            Role::Janitor => janitor::serve(input, output),
            Role::Build => return crate::output::print_json(&BuildReport::this()),
            Role::Mpi => run_mpi(input, output),
        }
        .map_err(Failure::failed)
    }
}

#[cfg(feature = "mpi")]
fn run_mpi(input: impl BufRead, output: impl Write) -> io::Result<()> {
    afflux_measure::communication::mpi_agent::run(&this_program()?, input, output)
}

#[cfg(not(feature = "mpi"))]
fn run_mpi(_: impl BufRead, _: impl Write) -> io::Result<()> {
    Err(io::Error::other("this program is built without MPI"))
}

/// This program as the benchmarks start it again.
pub fn this_program() -> io::Result<Program> {
    Ok(program_at(std::env::current_exe()?))
}

/// Another build of this program.
pub fn program_at(path: PathBuf) -> Program {
    Program { path, arguments: vec!["bench".to_owned(), "worker".to_owned()] }
}

/// The MPIs of this machine: by this program, by those that are named, and by those that tests name in the environment.
pub fn find_mpis(program: &Program, named: &[PathBuf], template: Option<&Launcher>) -> (Vec<Mpi>, Vec<MissingMpi>) {
    let in_environment = ["AFFLUX_OPENMPI", "AFFLUX_MPICH"].into_iter().filter_map(std::env::var_os);
    let in_environment = in_environment.filter(|path| !path.is_empty()).map(PathBuf::from);
    let others = named.iter().cloned().chain(in_environment).map(program_at);
    mpi::find(&std::iter::once(program.clone()).chain(others).collect::<Vec<_>>(), template)
}
