//! The programs that a trial starts, as the environment names them (`./dev` sets it, as for the end-to-end scripts).

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

/// What carries the messages between ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    Threads,
    OpenMpi,
    Mpich,
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Threads => "threads",
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
        })
    }
}

/// A program built for one MPI, and the launcher that belongs to it.
#[derive(Debug, Clone)]
struct Mpi {
    launcher: PathBuf,
    program: PathBuf,
}

/// Paths of the programs.
#[derive(Debug, Clone)]
pub struct Tools {
    afflux: PathBuf,
    openmpi: Option<Mpi>,
    mpich: Option<Mpi>,
    /// A Python with h5py and xarray.
    pub python: PathBuf,
    /// Whether strace may trace here: it kills a run at a system call.
    pub strace: bool,
}

impl Tools {
    /// Reads AFFLUX, AFFLUX_OPENMPI and MPIRUN_OPENMPI, AFFLUX_MPICH and MPIRUN_MPICH, AFFLUX_PYTHON.
    pub fn from_environment() -> Result<Self, String> {
        let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let afflux = named("AFFLUX").ok_or("AFFLUX names the command under test, and is not set")?;
        let mpi = |program: &str, launcher: &str| {
            named(program).map(|program| Mpi { launcher: named(launcher).unwrap_or_else(|| "mpirun".into()), program })
        };
        let strace = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).output();
        Ok(Self {
            afflux,
            openmpi: mpi("AFFLUX_OPENMPI", "MPIRUN_OPENMPI"),
            mpich: mpi("AFFLUX_MPICH", "MPIRUN_MPICH"),
            python: named("AFFLUX_PYTHON").unwrap_or_else(|| ".venv/bin/python".into()),
            strace: strace.is_ok_and(|output| output.status.success()),
        })
    }

    /// The backends that are there.
    pub fn backends(&self) -> Vec<Backend> {
        let mut backends = vec![Backend::Threads];
        backends.extend(self.openmpi.as_ref().map(|_| Backend::OpenMpi));
        backends.extend(self.mpich.as_ref().map(|_| Backend::Mpich));
        backends
    }

    /// The program of a backend: what the processes of its ranks execute.
    ///
    /// # Panics
    /// If the backend is not there.
    pub fn program(&self, backend: Backend) -> &PathBuf {
        match backend {
            Backend::Threads => &self.afflux,
            Backend::OpenMpi | Backend::Mpich => &self.mpi(backend).program,
        }
    }

    /// The launcher of an MPI.
    ///
    /// # Panics
    /// If the backend is not there, or is no MPI.
    pub fn launcher(&self, backend: Backend) -> &PathBuf {
        &self.mpi(backend).launcher
    }

    fn mpi(&self, backend: Backend) -> &Mpi {
        let mpi = match backend {
            Backend::Threads => None,
            Backend::OpenMpi => self.openmpi.as_ref(),
            Backend::Mpich => self.mpich.as_ref(),
        };
        mpi.expect("only backends that are there are chosen")
    }
}
