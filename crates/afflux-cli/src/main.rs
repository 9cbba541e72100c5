//! The afflux command: a front door. It reads arguments, starts ranks, shows progress and results, and turns errors into one line
//! and an exit code; what it does is done by the crates below it.

mod chart;
mod commands;
mod durability;
mod existing;
mod failure;
mod memory;
mod new_file;
mod output;
mod progress;
mod quantity;
mod ranks;
mod report;
mod solver;
mod spectrum;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Aggregated parallel output of sampled simulation data.
#[derive(Debug, Parser)]
#[command(
    name = "afflux",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 failed, 2 called wrongly, 3 the file is damaged, 4 a check found differences."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(commands::demo::Demo),
    Fdtd(commands::fdtd::Fdtd),
    Synth(commands::synth::Synth),
    Info(commands::info::Info),
    Verify(commands::verify::Verify),
    Repair(commands::repair::Repair),
    Plan(commands::plan::Plan),
    Plot(commands::plot::Plot),
    Watch(commands::watch::Watch),
    Export(commands::export::Export),
    Bench(commands::bench::Bench),
    Profile(commands::profile::Profile),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are results; a pipe that closes early is no error.
            let wanted = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let _ = error.print();
            return if wanted { ExitCode::SUCCESS } else { failure::Code::Usage.into() };
        }
    };
    let done = match cli.command {
        Command::Demo(command) => command.run(),
        Command::Fdtd(command) => command.run(),
        Command::Synth(command) => command.run(),
        Command::Info(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Repair(command) => command.run(),
        Command::Plan(command) => command.run(),
        Command::Plot(command) => command.run(),
        Command::Watch(command) => command.run(),
        Command::Export(command) => command.run(),
        Command::Bench(command) => command.run(),
        // What the job exits with is passed on.
        Command::Profile(command) => return command.run().unwrap_or_else(|failure| failure.report()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
