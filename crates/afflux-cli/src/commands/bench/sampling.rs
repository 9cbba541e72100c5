//! `afflux bench sampling`: the arguments of the benchmark, and its results in words or JSON.

use crate::failure::Failure;
use crate::{memory, output, progress, quantity, ranks};
use afflux::Hints;
use afflux::comm::Communicator;
use afflux_measure::sampling::{self, BenchError, Goal, Measurement, Method, Options, Owners};
use afflux_measure::timing::Rule;
use clap::Args;
use indicatif::ProgressBar;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Compare ways to store the samples of a simulation: Afflux, a file a point, gathering on one rank, and the limit.
#[derive(Debug, Args)]
#[command(
    after_help = "The times run from before the files are created until after they are closed, on the slowest rank, without fsync. \
                  Every method's files are read back and compared, then removed.\n\n\
                  Examples:\n  afflux bench sampling --dir /scratch\n  \
                  afflux bench sampling --methods afflux,gather --points 16,1024 --json\n  \
                  mpirun -n 4 afflux bench sampling --dir /scratch --json\n  afflux bench sampling --weak"
)]
pub struct Sampling {
    /// Methods: afflux, direct-open-append-close, direct-kept-open, direct-two-level-directories, gather, limit.
    #[arg(long, value_name = "M,..", value_delimiter = ',', default_values_t = Method::ALL, hide_default_value = true)]
    methods: Vec<Method>,
    /// Points: 1 to 1,024 in powers of two and 8,192 unless given.
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    points: Vec<u64>,
    /// Ranks in this process, 4 unless given; under mpirun the number of its processes.
    #[arg(long, value_name = "R,..", value_delimiter = ',', value_parser = ranks::parse_count)]
    ranks: Vec<usize>,
    /// Weak scaling: 24 ranks with 128 points, doubled up to 1,536 ranks with 8,192 points.
    #[arg(long, conflicts_with_all = ["points", "ranks"])]
    weak: bool,
    /// Steps, every one sampled.
    #[arg(long, value_name = "S", default_value_t = 350, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Steps between flushes.
    #[arg(long, value_name = "W", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    window: u64,
    /// Which rank has which point: grid, block, round-robin.
    #[arg(long, value_name = "HOW", default_value = "grid")]
    owners: Owners,
    /// A hint for Afflux's engine by its ROMIO name, such as romio_cb_write=enable or cb_nodes=2; may be repeated.
    #[arg(long = "hint", value_name = "NAME=VALUE")]
    hints: Vec<String>,
    /// Samples of each method.
    #[arg(long, value_name = "K", default_value_t = Rule::default().repetitions)]
    repetitions: usize,
    /// Runs before those, not counted.
    #[arg(long, value_name = "K", default_value_t = Rule::default().warmups)]
    warmups: usize,
    /// A method that has used up this many seconds with one number of points is not run again.
    #[arg(long, value_name = "T", default_value_t = Rule::default().seconds_max)]
    seconds_max: f64,
    /// An existing directory on the file system to measure.
    #[arg(long, value_name = "D", default_value = ".")]
    dir: PathBuf,
    /// Print one JSON object a result, each on a line of its own.
    #[arg(long)]
    json: bool,
}

impl Sampling {
    /// Measures and prints.
    pub fn run(&self) -> Result<(), Failure> {
        if !self.dir.is_dir() {
            return Err(Failure::usage(format!("{} is no directory; --dir names an existing one", self.dir.display())));
        }
        let pairs = self.hints.iter().map(|hint| hint.split_once('=').unwrap_or((hint, "")));
        let hints = Hints::from_pairs(pairs).map_err(Failure::usage)?;
        let configurations = self.configurations();
        let sizes: usize = configurations.iter().map(|(_, points)| points.len()).sum();
        let bar = progress::bar(sizes as u64, "sizes");
        let mut results = Vec::new();
        let mut behind = 0;
        for (ranks, points) in configurations {
            let options = self.options(points, &hints);
            let measured = ranks::run(ranks, 4, |comm| {
                ranks::together(comm, check_memory(comm, &options))?;
                let measured = sampling::run(comm, &options, &mut |progress| tell(&bar, behind, progress));
                measured.map(|results| (comm.rank(), results)).map_err(|error| failure(&error))
            })?;
            behind += options.points.len();
            if let (0, measured) = measured {
                if self.json {
                    measured.iter().try_for_each(|result| bar.suspend(|| output::print_json(result)))?;
                }
                results.extend(measured);
            }
        }
        bar.finish_and_clear();
        if self.json || results.is_empty() { Ok(()) } else { output::print(&text(&results)) }
    }

    /// Ranks and the points to measure with them.
    fn configurations(&self) -> Vec<(Option<usize>, Vec<u64>)> {
        if self.weak {
            return (0..7).map(|doubled| (Some(24 << doubled), vec![128 << doubled])).collect();
        }
        let points = if self.points.is_empty() {
            (0..=10).map(|power| 1 << power).chain([8192]).collect()
        } else {
            self.points.clone()
        };
        if self.ranks.is_empty() {
            return vec![(None, points)];
        }
        self.ranks.iter().map(|&ranks| (Some(ranks), points.clone())).collect()
    }

    fn options(&self, points: Vec<u64>, hints: &Hints) -> Options {
        Options {
            methods: self.methods.clone(),
            points,
            steps: self.steps,
            window_steps: self.window,
            owners: self.owners,
            hints: hints.clone(),
            rule: Rule { warmups: self.warmups, repetitions: self.repetitions, seconds_max: self.seconds_max },
            directory: self.dir.clone(),
            mpi_version: ranks::mpi_version(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
        }
    }
}

/// Refuses sizes that this rank's node cannot hold.
fn check_memory(comm: &dyn Communicator, options: &Options) -> Result<(), Failure> {
    // One value of each of four variables.
    const RECORD_BYTES: u64 = 32;
    let points = options.points.iter().copied().max().unwrap_or(0);
    let here = memory::points_on_node(points, comm);
    let windows = memory::window_bytes(here, RECORD_BYTES, options.window_steps.min(options.steps));
    // A variable is compared as a whole; every rank lists all points for a moment.
    let a_point = u128::from(options.steps) * 8 + u128::from(memory::POINT_BYTES) + 8 * comm.size() as u128;
    let needed_bytes = windows.saturating_add(a_point.saturating_mul(u128::from(points)));
    memory::require(needed_bytes, "take fewer --points or --steps, or a shorter --window")
}

fn tell(bar: &ProgressBar, behind: usize, progress: sampling::Progress) {
    bar.set_position((behind + progress.configurations_done) as u64);
    bar.set_message(format!("{} points", progress.points));
}

fn failure(error: &BenchError) -> Failure {
    match error {
        BenchError::Wrong { .. } => Failure::different(error),
        BenchError::Options(_) => Failure::usage(error),
        _ => Failure::failed(error),
    }
}

fn text(results: &[Measurement]) -> String {
    let Some(first) = results.first() else { return String::new() };
    let mpi = first.mpi_version.as_ref().map_or_else(String::new, |version| format!(" ({version})"));
    let mut text = format!(
        "{} steps, window {}, {} ranks{mpi}; {} on {} ({}); {}, {} processors; no fsync\n\n",
        quantity::count(first.steps),
        quantity::count(first.window),
        first.backend,
        first.file_system.kind,
        first.file_system.mount_point,
        first.file_system.source,
        first.host.cpu,
        first.host.cores
    );
    text.push_str(&sampling::table(results));
    let goals = sampling::goals(results);
    if !goals.is_empty() {
        text.push_str("\nGoals:\n");
    }
    for goal in &goals {
        let Goal { what, ratio, bound, at_least } = goal;
        let _ = writeln!(
            text,
            "  {:<7} {what}: {ratio:.2}, {} {bound}",
            if goal.is_met() { "met" } else { "MISSED" },
            if *at_least { "at least" } else { "at most" }
        );
    }
    text
}
