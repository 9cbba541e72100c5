//! The ways to start a process that are compared.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A way to start a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// `fork`: a copy of the process, which says its byte at once.
    Fork,
    /// `fork`, then `execve` of another program.
    ForkExec,
    /// As `vfork` and `execve`: the child borrows the parent's memory until it is another program.
    VforkExec,
    /// `posix_spawn` of the C library.
    PosixSpawn,
    /// `clone3` into new mount, process, host-name, IPC and network namespaces (and a user namespace for who is not root), as containers begin.
    Namespaces,
    /// An ONC RPC to a server that waits: it forks, and the child replies.
    Rpc,
    /// A remote shell without encryption.
    Rsh,
    /// The secure shell.
    Ssh,
    /// A launcher of the user's, by its template.
    Launcher,
    /// `MPI_Comm_spawn`.
    MpiSpawn,
    /// `MPI_Comm_spawn_multiple`: several commands in one call.
    MpiSpawnMultiple,
}

impl Method {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 11] = [
        Self::Fork,
        Self::ForkExec,
        Self::VforkExec,
        Self::PosixSpawn,
        Self::Namespaces,
        Self::Rpc,
        Self::Rsh,
        Self::Ssh,
        Self::Launcher,
        Self::MpiSpawn,
        Self::MpiSpawnMultiple,
    ];

    /// Its name on the command line, in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::ForkExec => "fork-exec",
            Self::VforkExec => "vfork-exec",
            Self::PosixSpawn => "posix-spawn",
            Self::Namespaces => "namespaces",
            Self::Rpc => "rpc",
            Self::Rsh => "rsh",
            Self::Ssh => "ssh",
            Self::Launcher => "launcher",
            Self::MpiSpawn => "mpi-spawn",
            Self::MpiSpawnMultiple => "mpi-spawn-multiple",
        }
    }

    /// Whether it starts processes on other machines too.
    #[must_use]
    pub fn reaches_hosts(self) -> bool {
        matches!(self, Self::Rpc | Self::Rsh | Self::Ssh | Self::Launcher | Self::MpiSpawn | Self::MpiSpawnMultiple)
    }

    /// Whether MPI does it.
    #[must_use]
    pub fn is_mpi(self) -> bool {
        matches!(self, Self::MpiSpawn | Self::MpiSpawnMultiple)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|method| method.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("there is no method '{text}'; there are {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_the_method() {
        for method in Method::ALL {
            assert_eq!(method.name().parse(), Ok(method));
            assert_eq!(serde_json::to_value(method).unwrap(), method.name());
        }
        assert!("stork".parse::<Method>().unwrap_err().contains("vfork-exec"));
    }
}
