//! The MPIs of a machine: which programs of ours are built with which, what launches them, and how each is told its transport.

use super::mechanism::Mechanism;
use crate::helper::{Launcher, Program};
use afflux::comm::launch::{Build, Family};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The role in which a program says what it is built with.
pub const BUILD_ROLE: &str = "build";

/// What a program says it is built with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildReport {
    /// What its MPI calls itself; empty without MPI.
    pub mpi_version: String,
}

impl BuildReport {
    /// Of this program.
    #[must_use]
    pub fn this() -> Self {
        match Build::this() {
            Build::Mpi { version, .. } => Self { mpi_version: version },
            Build::WithoutMpi => Self { mpi_version: String::new() },
        }
    }

    fn family(&self) -> Option<Family> {
        match Build::of_library(&self.mpi_version) {
            Build::Mpi { family, .. } if !self.mpi_version.is_empty() => Some(family),
            _ => None,
        }
    }
}

/// How the two ranks reach each other, and what that takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job<'a> {
    /// Shared memory or TCP; for others the library chooses.
    pub mechanism: Mechanism,
    /// Ranks.
    pub ranks: usize,
    /// Machines of the ranks, one each; this one when empty.
    pub hosts: &'a [String],
    /// Whether ranks share a processor: who waits must give it away.
    pub crowded: bool,
}

/// An MPI that can be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mpi {
    /// What it calls itself, in short: `Open MPI v4.1.4`.
    pub name: String,
    family: Family,
    launcher: String,
    program: Program,
    /// Words of the user's instead of those that we know.
    template: Option<Launcher>,
}

/// An MPI that is there in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingMpi {
    /// Its name, as far as it is known.
    pub name: String,
    /// What is missing, and what to do.
    pub reason: String,
}

/// Finds the MPIs that `programs` (builds of this command) are built with, and those that have a launcher but no program.
#[must_use]
pub fn find(programs: &[Program], template: Option<&Launcher>) -> (Vec<Mpi>, Vec<MissingMpi>) {
    let launchers = launchers();
    let mut found: Vec<Mpi> = Vec::new();
    let mut missing = Vec::new();
    for program in programs {
        let report = match ask(program) {
            Ok(report) => report,
            Err(reason) => {
                missing.push(MissingMpi { name: program.path.display().to_string(), reason });
                continue;
            }
        };
        let Some(family) = report.family() else { continue };
        let name = short_name(&report.mpi_version);
        if found.iter().any(|mpi| mpi.name == name) {
            continue;
        }
        match launchers.iter().find(|(launcher_family, _)| *launcher_family == family) {
            Some((_, launcher)) => {
                let (launcher, program, template) = (launcher.clone(), program.clone(), template.cloned());
                found.push(Mpi { name, family, launcher, program, template });
            }
            None => missing.push(MissingMpi { name, reason: "its mpirun is not on the PATH".to_owned() }),
        }
    }
    for (family, launcher) in launchers {
        if !found.iter().any(|mpi| mpi.family == family) {
            let reason = format!("{launcher} is here, but no afflux built for it: name one with --mpi-program");
            missing.push(MissingMpi { name: family_name(family).to_owned(), reason });
        }
    }
    (found, missing)
}

/// Asks a program what it is built with.
fn ask(program: &Program) -> Result<BuildReport, String> {
    let output = Command::new(&program.path)
        .args(&program.arguments)
        .arg(BUILD_ROLE)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("it cannot be run: {error}"))?;
    serde_json::from_slice(&output.stdout).map_err(|_| "it does not say which MPI it is built with".to_owned())
}

/// The launchers on the PATH, one a family.
fn launchers() -> Vec<(Family, String)> {
    let mut found: Vec<(Family, String)> = Vec::new();
    for name in ["mpirun.openmpi", "mpirun.mpich", "mpirun", "mpiexec"] {
        if let Some(path) = on_path(name)
            && let Some(family) = family_of_launcher(&path)
            && !found.iter().any(|(known, _)| *known == family)
        {
            found.push((family, name.to_owned()));
        }
    }
    found
}

/// The executable that a name means.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn family_of_launcher(path: &Path) -> Option<Family> {
    let output = Command::new(path).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    family_of_version(&String::from_utf8_lossy(&output.stdout))
}

/// Whose launcher says this of itself.
fn family_of_version(text: &str) -> Option<Family> {
    if text.contains("open-mpi.org") || text.contains("Open MPI") {
        Some(Family::OpenMpi)
    } else if text.contains("HYDRA") || text.contains("MPICH") || text.contains("Intel(R) MPI") {
        Some(Family::Mpich)
    } else {
        None
    }
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::OpenMpi => "Open MPI",
        Family::Mpich => "MPICH",
        Family::Other => "an MPI",
    }
}

/// What the MPI of this program calls itself, in short; empty without.
#[must_use]
pub fn name_of_this() -> String {
    short_name(&BuildReport::this().mpi_version)
}

/// `Open MPI v4.1.4, package: ...` as `Open MPI v4.1.4`, `MPICH Version: 4.0.2 ...` as `MPICH 4.0.2`: up to the first number.
fn short_name(version: &str) -> String {
    let mut words = Vec::new();
    for word in version.split([' ', ',', '\n', '\t']).filter(|word| !word.is_empty() && *word != "Version:") {
        words.push(word);
        if word.contains(|character: char| character.is_ascii_digit()) {
            break;
        }
    }
    words.join(" ")
}

impl Mpi {
    /// Whether Open MPI of version 5 or later, whose shared memory has another name.
    fn is_open_mpi_5(&self) -> bool {
        let digits = self.name.split(['v', '.']).find_map(|part| part.trim().parse::<u32>().ok());
        self.family == Family::OpenMpi && digits.is_some_and(|major| major >= 5)
    }

    /// The words and the environment that start ranks in `role`.
    #[must_use]
    pub fn launch(&self, job: &Job<'_>, role: &str) -> (Vec<String>, Vec<(String, String)>) {
        let command = self.program.words(&[role]);
        if let Some(template) = &self.template {
            return (template.words(&job.hosts.join(","), &command), self.environment(job));
        }
        let ranks = job.ranks.to_string();
        let mut words = vec![self.launcher.clone(), "-n".to_owned(), ranks];
        let more: Vec<String> = match self.family {
            Family::OpenMpi if job.hosts.is_empty() => {
                ["--oversubscribe", "--bind-to", "none"].map(str::to_owned).to_vec()
            }
            Family::OpenMpi => {
                let slots: Vec<String> = job.hosts.iter().map(|host| format!("{host}:1")).collect();
                // One rank a host, and more than one only where a rank spawns more processes than there are hosts.
                let hosts = ["--oversubscribe", "--bind-to", "none", "--map-by", "node", "-H"].map(str::to_owned);
                hosts.into_iter().chain([slots.join(",")]).collect()
            }
            _ if job.hosts.is_empty() => Vec::new(),
            _ => ["-ppn", "1", "-hosts", &job.hosts.join(",")].map(str::to_owned).to_vec(),
        };
        words.extend(more);
        words.extend(command);
        (words, self.environment(job))
    }

    /// What tells the library which transport to take.
    fn environment(&self, job: &Job<'_>) -> Vec<(String, String)> {
        let over_tcp = job.mechanism == Mechanism::MpiTcp;
        let chosen = over_tcp || job.mechanism == Mechanism::MpiShared;
        let mut variables: Vec<(&str, &str)> = Vec::new();
        match self.family {
            Family::OpenMpi => {
                let shared = if self.is_open_mpi_5() { "sm,self" } else { "vader,self" };
                if chosen {
                    variables.push(("OMPI_MCA_pml", "ob1"));
                    variables.push(("OMPI_MCA_btl", if over_tcp { "tcp,self" } else { shared }));
                }
                if over_tcp && job.hosts.is_empty() {
                    variables.push(("OMPI_MCA_btl_tcp_if_include", "lo"));
                }
                if job.crowded {
                    variables.push(("OMPI_MCA_mpi_yield_when_idle", "1"));
                }
                // Benchmarks run in containers, where there is nobody but root.
                if nix::unistd::geteuid().is_root() {
                    variables.push(("OMPI_ALLOW_RUN_AS_ROOT", "1"));
                    variables.push(("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"));
                }
            }
            // MPICH's channels below differ by build: each reads its own variables.
            _ if over_tcp => {
                variables.push(("MPIR_CVAR_NOLOCAL", "1"));
                variables.push(("UCX_TLS", "tcp,self"));
                variables.push(("FI_PROVIDER", "tcp"));
            }
            _ => {}
        }
        variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mpi(name: &str, family: Family) -> Mpi {
        let program = Program { path: "/bin/afflux".into(), arguments: vec!["bench".to_owned()] };
        Mpi { name: name.to_owned(), family, launcher: "mpirun".to_owned(), program, template: None }
    }

    fn job(mechanism: Mechanism, hosts: &[String]) -> Job<'_> {
        Job { mechanism, ranks: 2, hosts, crowded: false }
    }

    #[test]
    fn names_are_short() {
        assert_eq!(short_name("Open MPI v4.1.4, package: Debian OpenMPI"), "Open MPI v4.1.4");
        assert_eq!(
            short_name("MPICH Version: 4.0.2 MPICH Release date: Thu"),
            "MPICH 4.0.2 MPICH".trim_end_matches(" MPICH")
        );
    }

    #[test]
    fn launchers_are_told_apart_by_what_they_say() {
        assert_eq!(family_of_version("mpirun (Open MPI) 4.1.4\n"), Some(Family::OpenMpi));
        assert_eq!(family_of_version("HYDRA build details:\n    Version: 4.0.2"), Some(Family::Mpich));
        assert_eq!(family_of_version("slurm 22.05"), None);
    }

    #[test]
    fn every_library_is_told_its_transport() {
        let open_mpi = mpi("Open MPI v4.1.4", Family::OpenMpi);
        let (words, environment) = open_mpi.launch(&job(Mechanism::MpiShared, &[]), ROLE);
        assert_eq!(words[..3], ["mpirun", "-n", "2"]);
        assert_eq!(words[words.len() - 3..], ["/bin/afflux", "bench", ROLE]);
        assert!(environment.contains(&("OMPI_MCA_btl".to_owned(), "vader,self".to_owned())));
        let (_, environment) = mpi("Open MPI v5.0.1", Family::OpenMpi).launch(&job(Mechanism::MpiShared, &[]), ROLE);
        assert!(environment.contains(&("OMPI_MCA_btl".to_owned(), "sm,self".to_owned())));
        let hosts = ["a".to_owned(), "b".to_owned()];
        let (words, _) = mpi("MPICH 4.0.2", Family::Mpich).launch(&job(Mechanism::MpiTcp, &hosts), ROLE);
        assert!(words.contains(&"a,b".to_owned()), "{words:?}");
        let (words, _) = open_mpi.launch(&job(Mechanism::MpiTcp, &hosts), ROLE);
        assert!(words.contains(&"a:1,b:1".to_owned()), "{words:?}");
    }

    const ROLE: &str = "mpi";

    #[test]
    fn a_template_of_the_user_is_taken_as_it_is() {
        let template = Launcher::parse("srun -n2 -w {host} {}").unwrap();
        let mpi = Mpi { template: Some(template), ..mpi("MPICH 4.0.2", Family::Mpich) };
        let hosts = ["a".to_owned(), "b".to_owned()];
        let (words, _) = mpi.launch(&job(Mechanism::MpiTcp, &hosts), ROLE);
        assert_eq!(words, ["srun", "-n2", "-w", "a,b", "/bin/afflux", "bench", ROLE]);
    }

    #[test]
    fn a_program_that_says_nothing_is_missing() {
        let silent = Program { path: "/bin/true".into(), arguments: vec![] };
        let absent = Program { path: "/no/such".into(), arguments: vec![] };
        let (found, missing) = find(&[silent, absent], None);
        assert!(found.is_empty());
        assert!(
            missing.iter().any(|mpi| mpi.name == "/no/such" && mpi.reason.contains("cannot be run")),
            "{missing:?}"
        );
        assert!(missing.iter().any(|mpi| mpi.name == "/bin/true"), "{missing:?}");
    }
}
