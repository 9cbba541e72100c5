//! `afflux profile`: the arguments, the files it leaves, and the exit code that it passes on.

mod compare;

use crate::failure::Failure;
use crate::new_file::{NewFile, Older};
use crate::output;
use afflux_measure::profile::{self, How, Options, ProfileError};
use clap::Args;
use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measure a job: user, system, elapsed and idle time, where idle time went, reads and writes by file system, memory.
#[derive(Debug, Args)]
#[command(
    after_help = "All processes that the job starts are counted, daemons too. The profile is there however the job ends, and says \
                  so; with -o it is also written while the job runs, in case the profiler itself is killed.\n\n\
                  The exit code is the job's, 128 and the number of the signal that ended it, 124 at the time limit, 127 or 126 \
                  where it could not be started. What is measured goes to standard error, with --json to standard output.\n\n\
                  Examples:\n  afflux profile -- g16 job.com\n  afflux profile -o job.json --timeout 86000 -- ./job.sh\n  \
                  afflux profile --compare /scratch /dev/shm -- nwchem job.nw\n  \
                  afflux profile --compare /sata /nvme -o jobs.jsonl -- sh -c 'cd {} && ./job'\n  \
                  afflux profile --table jobs.jsonl"
)]
pub struct Profile {
    /// Write the profile to this file as JSON; with --compare one object a line.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the profile as one JSON object on standard output when the job has ended.
    #[arg(long)]
    json: bool,
    /// Run the job once in a new directory below each of these, named by {} in its arguments and by TMPDIR, SCRATCH and
    /// GAUSS_SCRDIR, and print the table.
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with = "table")]
    compare: Vec<PathBuf>,
    /// What the directories of --compare are called in the table; their devices' names unless given.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', requires = "compare")]
    labels: Vec<String>,
    /// Write back and drop the machine's page cache before each run of --compare (root).
    #[arg(long, requires = "compare")]
    drop_caches: bool,
    /// Print the table of profiles that -o has written.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["command", "output"])]
    table: Vec<PathBuf>,
    /// Print the table of --compare or --table in Markdown.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Also write the table of --compare or --table as one HTML page with charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// What the job is called in tables; the program's name unless given.
    #[arg(long, value_name = "NAME", default_value = "")]
    name: String,
    /// Seconds between looks at the job's processes.
    #[arg(long, value_name = "S", default_value_t = 0.1, value_parser = seconds)]
    interval: f64,
    /// After so many seconds the job is told to end,
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<f64>,
    /// and after so many more it is killed.
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds, requires = "timeout")]
    grace: f64,
    /// Switch the kernel's delay accounting on while the job runs, so that waits for devices are exact (root).
    #[arg(long)]
    delay_accounting: bool,
    /// Wait until every process that the job started has ended, not only the first.
    #[arg(long)]
    follow: bool,
    /// A file of the job's in which to look for the processor time that it reports itself (Gaussian, NWChem); standard output
    /// unless given, where that is a file.
    #[arg(long, value_name = "FILE")]
    job_output: Option<PathBuf>,
    /// The command.
    #[arg(last = true, value_name = "CMD", required_unless_present = "table")]
    command: Vec<OsString>,
}

/// A time in seconds, above 0.
fn seconds(text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|seconds| (1e-3..=1e9).contains(seconds));
    found.ok_or_else(|| "not a time from 0.001 to 1e9 seconds".to_owned())
}

impl Profile {
    /// Runs the job and returns what to exit with.
    pub fn run(&self) -> Result<ExitCode, Failure> {
        if !self.table.is_empty() {
            return self.print_table();
        }
        if !self.compare.is_empty() {
            return self.run_in_each();
        }
        let options = self.options(self.command.clone());
        self.check_output()?;
        let profile = match profile::run(&options, &mut |profile| self.save(std::slice::from_ref(profile))) {
            Ok(profile) => profile,
            Err(error) => return cannot_run(&error),
        };
        self.save(std::slice::from_ref(&profile));
        if self.json {
            output::print_json(&profile)?;
        } else {
            tell(&profile.text());
        }
        Ok(exit_code(&profile))
    }

    fn options(&self, command: Vec<OsString>) -> Options {
        Options {
            name: self.name.clone(),
            interval_seconds: self.interval,
            timeout_seconds: self.timeout,
            grace_seconds: self.grace,
            delay_accounting: self.delay_accounting,
            follow: self.follow,
            output: self.job_output.clone().map(|path| (path, 0)).or_else(standard_output_file),
            ..Options::new(command)
        }
    }

    /// Fails before the job runs for hours rather than after.
    fn check_output(&self) -> Result<(), Failure> {
        let Some(path) = &self.output else { return Ok(()) };
        if path.is_dir() {
            return Err(Failure::usage(format!("{} is a directory; -o names a file", path.display())));
        }
        NewFile::create(path)
            .map(drop)
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
    }

    /// Writes the profiles to the output file, if there is to be one. A job goes on without.
    fn save(&self, profiles: &[profile::Profile]) {
        let Some(path) = &self.output else { return };
        if let Err(error) = save(path, profiles) {
            tell(&format!("afflux: cannot write {}: {error}\n", path.display()));
        }
    }
}

/// One object a line, complete or not at all.
fn save(path: &Path, profiles: &[profile::Profile]) -> std::io::Result<()> {
    let mut file = NewFile::create(path)?;
    for profile in profiles {
        serde_json::to_writer(&mut file, profile)?;
        file.write_all(b"\n")?;
    }
    file.finish(path, Older::Replace)
}

/// Where the job's standard output goes, if that is a file, and where in it this job's begins.
fn standard_output_file() -> Option<(PathBuf, u64)> {
    let path = PathBuf::from("/proc/self/fd/1");
    let found = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    Some((path, found.len()))
}

/// Says something on standard error; nobody is left to tell if that is gone.
fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// As env(1) and time(1) have it: 127 where there is no such program, 126 where it cannot be run.
fn cannot_run(error: &ProfileError) -> Result<ExitCode, Failure> {
    let ProfileError::Start { source, .. } = error else { return Err(Failure::failed(error)) };
    tell(&format!("afflux: {error}\n"));
    Ok(ExitCode::from(if source.kind() == ErrorKind::NotFound { 127 } else { 126 }))
}

/// The job's exit code, or one that says how it ended.
fn exit_code(profile: &profile::Profile) -> ExitCode {
    let ended = &profile.ended;
    let code = match (ended.how, ended.exit_code) {
        (How::TimeLimit, _) => 124,
        (_, Some(code)) => u8::try_from(code).unwrap_or(1),
        (_, None) => {
            128_u8.saturating_add(ended.signal_number.and_then(|number| u8::try_from(number).ok()).unwrap_or(0))
        }
    };
    ExitCode::from(code)
}
