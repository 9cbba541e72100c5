//! The names of the methods.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A way to store the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Afflux.
    Afflux,
    /// A file a point, opened, appended to and closed at every step.
    DirectOpenAppendClose,
    /// A file a point, kept open.
    DirectKeptOpen,
    /// As `DirectOpenAppendClose`, the files spread over directories.
    DirectTwoLevelDirectories,
    /// Windows gathered on rank 0, which writes them through serial HDF5: the source's own way.
    Gather,
    /// One process, one write of the same bytes.
    Limit,
}

impl Method {
    /// All of them, in the order in which they alternate.
    pub const ALL: [Self; 6] = [
        Self::Afflux,
        Self::DirectOpenAppendClose,
        Self::DirectKeptOpen,
        Self::DirectTwoLevelDirectories,
        Self::Gather,
        Self::Limit,
    ];

    /// Its name in arguments and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Afflux => "afflux",
            Self::DirectOpenAppendClose => "direct-open-append-close",
            Self::DirectKeptOpen => "direct-kept-open",
            Self::DirectTwoLevelDirectories => "direct-two-level-directories",
            Self::Gather => "gather",
            Self::Limit => "limit",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|method| method.name() == text)
            .ok_or_else(|| format!("`{text}` is none of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_everywhere() {
        for method in Method::ALL {
            assert_eq!(method.name().parse(), Ok(method));
            assert_eq!(serde_json::to_value(method).unwrap(), method.name());
        }
        assert!("direct".parse::<Method>().is_err());
    }
}
