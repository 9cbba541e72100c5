//! Where the two processes run, relative to each other and to the process that started them.
//!
//! The source measures three cases: both where their parent is, on two other processors, on two of which one is the parent's. It
//! says *processor*, and its cluster has one processor a node, so that the cases can be read of processors as of nodes. Both readings are
//! measured; `free` is what none of them says, but what most programs do: the scheduler decides.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// On processors of this machine.
    Processor,
    /// On machines.
    Node,
}

/// A placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Both on one processor, the parent's.
    OneProcessor,
    /// On two processors, one of them the parent's.
    TwoProcessors,
    /// On two processors, neither of them the parent's.
    TwoOtherProcessors,
    /// Wherever the scheduler puts them on this machine.
    Free,
    /// Both on the parent's machine.
    OneNode,
    /// On two machines, one of them the parent's.
    TwoNodes,
    /// On two machines, neither of them the parent's.
    TwoOtherNodes,
}

/// Another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// What the launcher calls it.
    pub name: String,
    /// How sockets reach it.
    pub address: String,
}

impl FromStr for Host {
    type Err = String;

    /// `NAME`, or `NAME=ADDRESS` where sockets need another name.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, address) = text.split_once('=').unwrap_or((text, text));
        if name.is_empty() || address.is_empty() {
            return Err(format!("'{text}' is no host: NAME or NAME=ADDRESS"));
        }
        Ok(Self { name: name.to_owned(), address: address.to_owned() })
    }
}

/// A placement on what there is. The first of a pair is the side that drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spots<'a> {
    /// Processors of the two, where they are fixed.
    pub processors: Option<[usize; 2]>,
    /// The parent's processor, where it is fixed.
    pub parent: Option<usize>,
    /// Machines of the two; `None` is this one.
    pub hosts: [Option<&'a Host>; 2],
}

impl Placement {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::OneProcessor,
        Self::TwoProcessors,
        Self::TwoOtherProcessors,
        Self::Free,
        Self::OneNode,
        Self::TwoNodes,
        Self::TwoOtherNodes,
    ];

    /// Its name on the command line and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OneProcessor => "one-processor",
            Self::TwoProcessors => "two-processors",
            Self::TwoOtherProcessors => "two-other-processors",
            Self::Free => "free",
            Self::OneNode => "one-node",
            Self::TwoNodes => "two-nodes",
            Self::TwoOtherNodes => "two-other-nodes",
        }
    }

    /// What it means, for tables.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::OneProcessor => "one processor, the parent's",
            Self::TwoProcessors => "two processors, one the parent's",
            Self::TwoOtherProcessors => "two processors, neither the parent's",
            Self::Free => "where the scheduler puts them",
            Self::OneNode => "one node, the parent's",
            Self::TwoNodes => "two nodes, one the parent's",
            Self::TwoOtherNodes => "two nodes, neither the parent's",
        }
    }

    /// The number of the case in the source's list.
    #[must_use]
    pub fn source_case(self) -> Option<u8> {
        match self {
            Self::OneProcessor | Self::OneNode => Some(1),
            Self::TwoOtherProcessors | Self::TwoOtherNodes => Some(2),
            Self::TwoProcessors | Self::TwoNodes => Some(3),
            Self::Free => None,
        }
    }

    /// Which of the two readings it belongs to.
    #[must_use]
    pub fn reading(self) -> Reading {
        match self {
            Self::OneNode | Self::TwoNodes | Self::TwoOtherNodes => Reading::Node,
            _ => Reading::Processor,
        }
    }

    /// The placement on these processors and hosts.
    ///
    /// # Errors
    /// What is missing.
    pub fn on<'a>(self, processors: &[usize], hosts: &'a [Host]) -> Result<Spots<'a>, String> {
        let processor = |index: usize| {
            processors.get(index).copied().ok_or_else(|| {
                format!("this process may run on {} processors, {} are needed", processors.len(), index + 1)
            })
        };
        let host = |index: usize| {
            hosts
                .get(index)
                .map(Some)
                .ok_or_else(|| format!("{} hosts are given, {} are needed", hosts.len(), index + 1))
        };
        let here = |sides: [usize; 2]| {
            let [driver, server] = sides.map(processor);
            Ok(Spots { processors: Some([driver?, server?]), parent: Some(processor(0)?), hosts: [None; 2] })
        };
        let there = |hosts| Spots { processors: None, parent: None, hosts };
        match self {
            Self::OneProcessor => here([0, 0]),
            Self::TwoProcessors => here([0, 1]),
            Self::TwoOtherProcessors => here([1, 2]),
            Self::Free | Self::OneNode => Ok(there([None; 2])),
            Self::TwoNodes => Ok(there([None, host(0)?])),
            Self::TwoOtherNodes => Ok(there([host(0)?, host(1)?])),
        }
    }
}

impl Spots<'_> {
    /// Whether the two are on different machines.
    #[must_use]
    pub fn between_hosts(&self) -> bool {
        self.hosts.iter().any(Option::is_some)
    }

    /// Whether the two share a processor.
    #[must_use]
    pub fn crowded(&self) -> bool {
        self.processors.is_some_and(|[driver, server]| driver == server)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|placement| placement.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("there is no placement '{text}'; there are {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_the_placement() {
        for placement in Placement::ALL {
            assert_eq!(placement.name().parse(), Ok(placement));
            assert_eq!(serde_json::to_value(placement).unwrap(), placement.name());
        }
        assert!("nowhere".parse::<Placement>().is_err());
    }

    #[test]
    fn the_three_cases_of_the_source_in_both_readings() {
        let hosts: Vec<Host> = ["n1=10.0.0.1", "n2"].iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(hosts[0].address, "10.0.0.1");
        let on = |placement: Placement| placement.on(&[4, 5, 6], &hosts).unwrap();
        assert_eq!(on(Placement::OneProcessor).processors, Some([4, 4]));
        assert_eq!(on(Placement::TwoProcessors).processors, Some([4, 5]));
        assert_eq!(on(Placement::TwoOtherProcessors).processors, Some([5, 6]));
        assert!(on(Placement::OneProcessor).crowded() && !on(Placement::TwoProcessors).crowded());
        assert_eq!(on(Placement::TwoNodes).hosts, [None, Some(&hosts[0])]);
        assert_eq!(on(Placement::TwoOtherNodes).hosts, [Some(&hosts[0]), Some(&hosts[1])]);
        assert!(on(Placement::TwoNodes).between_hosts() && !on(Placement::OneNode).between_hosts());
        for case in 1..=3 {
            let cases = Placement::ALL.into_iter().filter(|placement| placement.source_case() == Some(case));
            assert_eq!(cases.map(Placement::reading).collect::<Vec<_>>(), [Reading::Processor, Reading::Node]);
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let error = Placement::TwoOtherProcessors.on(&[0, 1], &[]).unwrap_err();
        assert_eq!(error, "this process may run on 2 processors, 3 are needed");
        assert!(Placement::TwoOtherNodes.on(&[0], &["a".parse().unwrap()]).unwrap_err().contains("2 are needed"));
        assert!("=x".parse::<Host>().is_err());
    }
}
