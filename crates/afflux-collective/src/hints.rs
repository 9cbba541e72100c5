//! Hints: what a user may ask of the engine, under ROMIO's names where ROMIO has one.
//!
//! Like MPI's, hints are the same on all ranks ([`CollectiveFile::new`](crate::CollectiveFile::new) checks it). Unlike
//! MPI's, a name or a value that is not understood is an error: a hint that silently does nothing helps nobody.

use std::num::NonZeroU64;

use afflux_plan::PartitionMethod;

/// ROMIO's default for `cb_buffer_size`.
const COLLECTIVE_BUFFER_BYTES_DEFAULT: NonZeroU64 = NonZeroU64::new(16 << 20).expect("not zero");

/// One buffer being filled, one being written, and room for ranks that are ahead or behind.
const BUFFER_COUNT_DEFAULT: NonZeroU64 = NonZeroU64::new(4).expect("not zero");

/// Whether something is done always, never, or when it pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Toggle {
    /// Always.
    Enable,
    /// Never.
    Disable,
    /// When it pays.
    #[default]
    Automatic,
}

/// What is asked of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Hints {
    /// `cb_nodes`: how many ranks aggregate; by default one a node, on a single node up to four.
    pub aggregator_count: Option<usize>,
    /// `cb_buffer_size`: the bytes of an aggregator's collective buffers together, on several nodes with as much again for
    /// messages of a round.
    pub collective_buffer_bytes: NonZeroU64,
    /// `afflux_cb_depth`: in how many buffers these are cut, so that one is filled while another is written.
    pub buffer_count: NonZeroU64,
    /// `afflux_partition`: how file domains are cut.
    pub partition: PartitionMethod,
    /// `romio_cb_write`: whether [`Path::Auto`](crate::Path::Auto) writes in two phases.
    pub collective_write: Toggle,
    /// `romio_cb_read`: the same for reads.
    pub collective_read: Toggle,
    /// `striping_unit`: the bytes of a stripe, on whose borders file domains end.
    pub striping_unit_bytes: Option<NonZeroU64>,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            aggregator_count: None,
            collective_buffer_bytes: COLLECTIVE_BUFFER_BYTES_DEFAULT,
            buffer_count: BUFFER_COUNT_DEFAULT,
            partition: PartitionMethod::Automatic,
            collective_write: Toggle::Automatic,
            collective_read: Toggle::Automatic,
            striping_unit_bytes: None,
        }
    }
}

/// A hint that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HintError {
    /// No hint has this name.
    #[error("there is no hint {0:?}; known are {names}", names = NAMES.join(", "))]
    Name(String),
    /// The value does not fit.
    #[error("the hint {name} must be {expected}, not {found:?}")]
    Value {
        /// The hint.
        name: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What was given.
        found: String,
    },
}

const NAMES: [&str; 7] = [
    "cb_nodes",
    "cb_buffer_size",
    "afflux_cb_depth",
    "afflux_partition",
    "romio_cb_write",
    "romio_cb_read",
    "striping_unit",
];

/// A hint as it was asked for and as it took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintReport {
    /// ROMIO's name.
    pub name: &'static str,
    /// What was asked, `None` for nothing.
    pub asked: Option<String>,
    /// What holds.
    pub effective: String,
}

impl Hints {
    /// Takes hints from names and values; what is not named keeps its default.
    ///
    /// # Errors
    /// [`HintError`] for the first that is not understood.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, HintError> {
        let mut hints = Self::default();
        for (name, value) in pairs {
            hints.set(name, value)?;
        }
        Ok(hints)
    }

    /// Sets one hint by its name.
    ///
    /// # Errors
    /// [`HintError`] if the name or the value is not understood; nothing is changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), HintError> {
        match name {
            "cb_nodes" => {
                let count = number("cb_nodes", "a number of ranks from 1", value)?;
                self.aggregator_count = Some(usize::try_from(count.get()).unwrap_or(usize::MAX));
            }
            "cb_buffer_size" => {
                self.collective_buffer_bytes = number("cb_buffer_size", "a number of bytes from 1", value)?
            }
            "afflux_cb_depth" => self.buffer_count = number("afflux_cb_depth", "a number of buffers from 1", value)?,
            "afflux_partition" => {
                let found = PartitionMethod::ALL.into_iter().find(|method| method.name() == value.trim());
                self.partition = found.ok_or_else(|| HintError::Value {
                    name: "afflux_partition",
                    expected: "automatic, even, aligned, static-cyclic or group-cyclic",
                    found: value.to_owned(),
                })?;
            }
            "striping_unit" => {
                self.striping_unit_bytes = Some(number("striping_unit", "a number of bytes from 1", value)?)
            }
            "romio_cb_write" => self.collective_write = toggle("romio_cb_write", value)?,
            "romio_cb_read" => self.collective_read = toggle("romio_cb_read", value)?,
            _ => return Err(HintError::Name(name.to_owned())),
        }
        Ok(())
    }

    /// Each hint as asked and as it took effect with `aggregator_count` aggregators.
    #[must_use]
    pub fn report(&self, aggregator_count: usize) -> Vec<HintReport> {
        let defaults = Self::default();
        let asked = |differs: bool, value: String| differs.then_some(value);
        let toggled = |name, value: Toggle| {
            let word = match value {
                Toggle::Enable => "enable",
                Toggle::Disable => "disable",
                Toggle::Automatic => "automatic",
            };
            HintReport { name, asked: asked(value != Toggle::Automatic, word.to_owned()), effective: word.to_owned() }
        };
        let buffer = self.collective_buffer_bytes.to_string();
        vec![
            HintReport {
                name: "cb_nodes",
                asked: self.aggregator_count.map(|count| count.to_string()),
                effective: aggregator_count.to_string(),
            },
            HintReport {
                name: "cb_buffer_size",
                asked: asked(self.collective_buffer_bytes != defaults.collective_buffer_bytes, buffer.clone()),
                effective: buffer,
            },
            HintReport {
                name: "afflux_cb_depth",
                asked: asked(self.buffer_count != defaults.buffer_count, self.buffer_count.to_string()),
                effective: self.buffer_count.to_string(),
            },
            HintReport {
                name: "afflux_partition",
                asked: asked(self.partition != PartitionMethod::Automatic, self.partition.to_string()),
                effective: self.partition.to_string(),
            },
            toggled("romio_cb_write", self.collective_write),
            toggled("romio_cb_read", self.collective_read),
            HintReport {
                name: "striping_unit",
                asked: self.striping_unit_bytes.map(|bytes| bytes.to_string()),
                effective: self.striping_unit_bytes.map_or("pages".to_owned(), |bytes| bytes.to_string()),
            },
        ]
    }
}

fn number(name: &'static str, expected: &'static str, value: &str) -> Result<NonZeroU64, HintError> {
    value.trim().parse().map_err(|_| HintError::Value { name, expected, found: value.to_owned() })
}

fn toggle(name: &'static str, value: &str) -> Result<Toggle, HintError> {
    match value.trim() {
        "enable" => Ok(Toggle::Enable),
        "disable" => Ok(Toggle::Disable),
        "automatic" => Ok(Toggle::Automatic),
        _ => Err(HintError::Value { name, expected: "enable, disable or automatic", found: value.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_and_reported() {
        let hints = Hints::from_pairs([("cb_nodes", "99"), ("cb_buffer_size", "4096"), ("romio_cb_write", "disable")]);
        let report = hints.unwrap().report(3);
        assert_eq!((report[0].asked.as_deref(), report[0].effective.as_str()), (Some("99"), "3"));
        assert_eq!((report[1].asked.as_deref(), report[1].effective.as_str()), (Some("4096"), "4096"));
        assert_eq!((report[4].asked.as_deref(), report[4].effective.as_str()), (Some("disable"), "disable"));
        assert_eq!((report[5].asked.as_deref(), report[5].effective.as_str()), (None, "automatic"));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for (name, value) in [
            ("cb_nodes", "0"),
            ("cb_nodes", "-1"),
            ("cb_buffer_size", "16M"),
            ("romio_cb_write", "on"),
            ("cb_node", "1"),
        ] {
            assert!(Hints::from_pairs([(name, value)]).is_err(), "{name}={value}");
        }
        let error = Hints::from_pairs([("cb_node", "1")]).unwrap_err();
        assert!(error.to_string().contains("cb_nodes, cb_buffer_size"), "{error}");
    }
}
