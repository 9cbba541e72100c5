//! How this process was started, and whether its MPI fits the launcher.
//!
//! A program built with Open MPI and started by MPICH's `mpirun` (or the reverse, or a build without MPI under any
//! `mpirun`) runs as n processes that each believe to be alone, and would all write the same file. What launchers leave
//! in the environment betrays it: [`detect`] refuses before MPI starts where the environment is clear, and
//! [`check_world_size`] compares the size of the world with what the launcher announced after it has.
//!
//! Everything here is a pure function of an environment look-up. `AFFLUX_IGNORE_LAUNCHER=1` turns the guard off, for a
//! process that inherited the environment of an MPI job without being one of its ranks (a tool called by a rank).

use crate::CommError;

/// How the process was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launch {
    /// By no launcher, or as the only rank of one in a build without MPI.
    Alone,
    /// As one of this many ranks of a launcher whose MPI may be ours.
    Mpi {
        /// What the launcher announced.
        ranks: usize,
    },
}

/// The family of an MPI library: programs and launchers of one family work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Open MPI and what derives from it.
    OpenMpi,
    /// MPICH and what shares its start-up protocol: Intel MPI, MVAPICH, Cray MPICH.
    Mpich,
    /// Anything else.
    Other,
}

/// What this program was built with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Build {
    /// The feature `mpi` is off.
    WithoutMpi,
    /// It is on.
    Mpi {
        /// The family of the linked library.
        family: Family,
        /// What the library calls itself.
        version: String,
    },
}

impl Build {
    /// The build that is linked with the library of this version string (`MPI_Get_library_version`).
    #[must_use]
    pub fn of_library(version: &str) -> Self {
        let has = |name: &str| version.to_ascii_lowercase().contains(name);
        let family = if has("open mpi") || has("spectrum mpi") {
            Family::OpenMpi
        } else if has("mpich") || has("intel(r) mpi") || has("mvapich") {
            Family::Mpich
        } else {
            Family::Other
        };
        Self::Mpi { family, version: version.to_owned() }
    }

    /// The build of this program.
    #[must_use]
    pub fn this() -> Self {
        #[cfg(feature = "mpi")]
        return Self::of_library(&crate::mpi::library_version());
        #[cfg(not(feature = "mpi"))]
        Self::WithoutMpi
    }

    fn describe(&self) -> String {
        match self {
            Self::WithoutMpi => "this program is built without MPI".to_owned(),
            Self::Mpi { version, .. } => format!("this program is built with {version}"),
        }
    }
}

/// What a launcher left in the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Announcement {
    /// Who announced it; `None` where several could have.
    family: Option<Family>,
    launcher: &'static str,
    ranks: usize,
    /// The variable that says so.
    evidence: String,
}

/// How this process was started, from its environment.
///
/// # Errors
/// [`CommError::Launcher`] when it is one of several processes that would each believe to be alone.
pub fn detect() -> Result<Launch, CommError> {
    decide(&Build::this(), |name| std::env::var(name).ok())
}

/// [`detect`] as a pure function of the build and the environment.
///
/// # Errors
/// As [`detect`].
pub fn decide(build: &Build, lookup: impl Fn(&str) -> Option<String>) -> Result<Launch, CommError> {
    if is_ignored(&lookup) {
        return Ok(Launch::Alone);
    }
    let Some(announced) = announcement(&lookup)? else { return Ok(Launch::Alone) };
    let fits = match build {
        Build::WithoutMpi => announced.ranks == 1,
        Build::Mpi { family: Family::Other, .. } => true,
        Build::Mpi { family, .. } => {
            announced.ranks == 1 || announced.family.is_none_or(|launcher| launcher == *family)
        }
    };
    match build {
        _ if !fits => Err(refusal(build, &announced)),
        Build::WithoutMpi => Ok(Launch::Alone),
        Build::Mpi { .. } => Ok(Launch::Mpi { ranks: announced.ranks }),
    }
}

/// After `MPI_Init`: the world must have as many ranks as the launcher announced.
///
/// # Errors
/// [`CommError::Launcher`] when this process is alone in a world of its own, or the numbers differ otherwise.
pub fn check_world_size(
    build: &Build,
    launch: Launch,
    world_size: usize,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<(), CommError> {
    let Launch::Mpi { ranks } = launch else { return Ok(()) };
    if ranks == world_size || is_ignored(&lookup) {
        return Ok(());
    }
    match announcement(&lookup)? {
        Some(announced) if world_size == 1 => Err(refusal(build, &announced)),
        _ => Err(CommError::Launcher(format!(
            "the launcher announced {ranks} ranks, but MPI says {world_size}: is the environment of another job in the \
             way? (AFFLUX_IGNORE_LAUNCHER=1 goes on)"
        ))),
    }
}

fn is_ignored(lookup: &impl Fn(&str) -> Option<String>) -> bool {
    lookup("AFFLUX_IGNORE_LAUNCHER").is_some_and(|value| value == "1")
}

/// What the environment announces; the most specific launcher first, because a job script of Slurm runs `mpirun` too.
fn announcement(lookup: &impl Fn(&str) -> Option<String>) -> Result<Option<Announcement>, CommError> {
    let count = |name: &str| -> Result<Option<usize>, CommError> {
        let Some(text) = lookup(name) else { return Ok(None) };
        match text.trim().parse() {
            Ok(count) if count > 0 => Ok(Some(count)),
            _ => Err(CommError::Launcher(format!("{name}={text} in the environment is no number of ranks"))),
        }
    };
    let found = |family, launcher, ranks, name: &str| {
        Ok(Some(Announcement { family, launcher, ranks, evidence: format!("{name}={ranks}") }))
    };
    if let Some(ranks) = count("OMPI_COMM_WORLD_SIZE")? {
        return found(Some(Family::OpenMpi), "Open MPI's mpirun", ranks, "OMPI_COMM_WORLD_SIZE");
    }
    // A step of Slurm may speak PMI-1, PMI-2 or PMIx to either family: only the world's size tells.
    let in_slurm_step = lookup("SLURM_STEP_ID").or_else(|| lookup("SLURM_STEPID")).is_some();
    let by_hydra = lookup("MPI_LOCALNRANKS").is_some() || lookup("HYDRA_LAUNCHER").is_some() || !in_slurm_step;
    if let Some(ranks) = count("PMI_SIZE")? {
        return if by_hydra {
            found(Some(Family::Mpich), "MPICH's mpirun", ranks, "PMI_SIZE")
        } else {
            found(None, "srun", ranks, "PMI_SIZE")
        };
    }
    if in_slurm_step && let Some(ranks) = count("SLURM_STEP_NUM_TASKS")? {
        return found(None, "srun", ranks, "SLURM_STEP_NUM_TASKS");
    }
    // A PMIx launcher of its own (`prun`) announces a rank but no size, one above the rank at least.
    match lookup("PMIX_RANK").and_then(|rank| rank.trim().parse::<usize>().ok()) {
        Some(rank) if rank > 0 => Err(CommError::Launcher(format!(
            "a PMIx launcher started this process as rank {rank} but says nowhere how many there are \
             (PMIX_RANK without OMPI_COMM_WORLD_SIZE): start it with the mpirun of its MPI"
        ))),
        _ => Ok(None),
    }
}

/// The refusal, with what to do.
fn refusal(build: &Build, announced: &Announcement) -> CommError {
    let Announcement { launcher, ranks, evidence, .. } = announced;
    let remedy = match (build, announced.family) {
        (Build::WithoutMpi, _) => "start it without a launcher (its ranks are then threads), or build it with MPI",
        (Build::Mpi { family: Family::OpenMpi, .. }, Some(Family::Mpich)) => {
            "start it with Open MPI's mpirun (mpirun.openmpi), or build it with MPICC=mpicc.mpich"
        }
        (Build::Mpi { family: Family::Mpich, .. }, Some(Family::OpenMpi)) => {
            "start it with MPICH's mpirun (mpirun.mpich), or build it with MPICC=mpicc.openmpi"
        }
        (Build::Mpi { .. }, None) => {
            "ask srun for the start-up protocol of this MPI (srun --mpi=list; pmix for Open MPI, pmi2 for MPICH), or use \
             its mpirun"
        }
        (Build::Mpi { .. }, Some(_)) => "start it with the mpirun of the MPI that it is built with",
    };
    CommError::Launcher(format!(
        "{}, but was started by {launcher} ({evidence}): each of the {ranks} processes would believe to be alone and \
         write the same files; {remedy}",
        build.describe()
    ))
}

#[cfg(test)]
mod tests;
