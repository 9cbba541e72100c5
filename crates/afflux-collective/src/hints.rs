//! Hints: what a user may ask of the engine, under ROMIO's names where ROMIO has one.
//!
//! Like MPI's, hints are the same on all ranks ([`CollectiveFile::new`](crate::CollectiveFile::new) checks it). Unlike
//! MPI's, a name or a value that is not understood is an error: a hint that silently does nothing helps nobody. Hints of ROMIO
//! that have no meaning here are taken, so that a file of hints can be shared, and reported as having no effect, with the reason.

mod report;

use std::num::NonZeroU64;

use afflux_plan::{Order, PartitionMethod, Topology};
use afflux_storage::StripingRequest;

pub use report::{HintFacts, HintReport};

/// ROMIO's default for `cb_buffer_size`.
const COLLECTIVE_BUFFER_BYTES_DEFAULT: NonZeroU64 = NonZeroU64::new(16 << 20).expect("not zero");

/// One buffer being filled, one being written, and room for ranks that are ahead or behind.
const BUFFER_COUNT_DEFAULT: NonZeroU64 = NonZeroU64::new(4).expect("not zero");

/// ROMIO's default for `ind_rd_buffer_size`.
const SIEVE_BUFFER_BYTES_DEFAULT: NonZeroU64 = NonZeroU64::new(4 << 20).expect("not zero");

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

impl Toggle {
    fn word(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Automatic => "automatic",
        }
    }
}

/// What is asked of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Hints {
    /// `cb_nodes`: how many ranks aggregate; by default one for each storage target, else one a node, on a single node up to
    /// four.
    pub aggregator_count: Option<usize>,
    /// `cb_config_list`, of which `*:k` is understood: at most `k` aggregators a node.
    pub aggregators_per_node_max: Option<usize>,
    /// `romio_lustre_co_ratio`: at most so many aggregators for a storage target where there are many ranks; by default 1.
    pub aggregators_per_target_max: Option<usize>,
    /// `afflux_aggregator_order`: `round-robin` (over the nodes, or the columns of a mesh) or `blocks`.
    pub aggregator_order: Order,
    /// `afflux_topology`: `flat`, or the extents of a mesh or torus of nodes, as in `8x12x32`.
    pub topology: Topology,
    /// `cb_buffer_size`: the bytes of an aggregator's collective buffers together, on several nodes with as much again for
    /// messages of a round.
    pub collective_buffer_bytes: NonZeroU64,
    /// `afflux_cb_depth`: in how many buffers these are cut, so that one is filled while another is written.
    pub buffer_count: NonZeroU64,
    /// `afflux_partition`: how file domains are cut.
    pub partition: PartitionMethod,
    /// `requests_per_ost`: at most so many requests of aggregators outstanding at a storage target; by default any number.
    /// [`Path::Auto`](crate::Path::Auto) then always goes through aggregators.
    pub requests_per_target: Option<NonZeroU64>,
    /// `afflux_step_aggregators`: at most so many aggregators receive from (in a read: send to) other nodes at a time; by default all,
    /// and where requests at storage targets are bounded as many as may have one outstanding.
    pub step_aggregators: Option<usize>,
    /// `afflux_node_memory`: `disable` sends messages also between ranks that could share memory.
    pub node_memory: Toggle,
    /// `romio_cb_write`: whether [`Path::Auto`](crate::Path::Auto) writes in two phases.
    pub collective_write: Toggle,
    /// `romio_cb_read`: the same for reads.
    pub collective_read: Toggle,
    /// `romio_lustre_coll_threshold`: from this mean piece on [`Path::Auto`](crate::Path::Auto) makes no exchange.
    pub independent_piece_bytes_min: Option<NonZeroU64>,
    /// `romio_lustre_ds_in_coll`: `disable` leaves holes alone also where [`Holes::Fill`](crate::Holes::Fill) allows to fill them.
    pub fill_holes: Toggle,
    /// `romio_ds_read`: `disable` reads no byte that nobody asked for.
    pub sieve_reads: Toggle,
    /// `ind_rd_buffer_size`: the buffer through which an independent read takes pieces that lie close together.
    pub sieve_buffer_bytes: NonZeroU64,
    /// `striping_unit`: the bytes of a stripe: those of a new file, and of one whose file system does not tell.
    pub striping_unit_bytes: Option<NonZeroU64>,
    /// `striping_factor`: the stripes of a new file.
    pub striping_factor: Option<NonZeroU64>,
    /// `start_iodevice`: the storage target of the first stripe of a new file.
    pub target_first: Option<u64>,
    /// `overstriping_ratio` (GIO's): stripes of a new file on one storage target.
    pub stripes_per_target: Option<NonZeroU64>,
    /// Hints of ROMIO that have no effect here, by name, with their values.
    pub without_effect: Vec<(String, String)>,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            aggregator_count: None,
            aggregators_per_node_max: None,
            aggregators_per_target_max: None,
            aggregator_order: Order::RoundRobin,
            topology: Topology::Flat,
            collective_buffer_bytes: COLLECTIVE_BUFFER_BYTES_DEFAULT,
            buffer_count: BUFFER_COUNT_DEFAULT,
            partition: PartitionMethod::Automatic,
            requests_per_target: None,
            step_aggregators: None,
            node_memory: Toggle::Automatic,
            collective_write: Toggle::Automatic,
            collective_read: Toggle::Automatic,
            independent_piece_bytes_min: None,
            fill_holes: Toggle::Automatic,
            sieve_reads: Toggle::Automatic,
            sieve_buffer_bytes: SIEVE_BUFFER_BYTES_DEFAULT,
            striping_unit_bytes: None,
            striping_factor: None,
            target_first: None,
            stripes_per_target: None,
            without_effect: Vec::new(),
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

/// The hints with an effect.
const NAMES: [&str; 21] = [
    "cb_nodes",
    "cb_config_list",
    "romio_lustre_co_ratio",
    "afflux_aggregator_order",
    "afflux_topology",
    "cb_buffer_size",
    "afflux_cb_depth",
    "afflux_partition",
    "requests_per_ost",
    "afflux_step_aggregators",
    "afflux_node_memory",
    "romio_cb_write",
    "romio_cb_read",
    "romio_lustre_coll_threshold",
    "romio_lustre_ds_in_coll",
    "romio_ds_read",
    "ind_rd_buffer_size",
    "striping_unit",
    "striping_factor",
    "start_iodevice",
    "overstriping_ratio",
];

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
        if report::reason_without_effect(name).is_some() {
            self.without_effect.push((name.to_owned(), value.to_owned()));
            return Ok(());
        }
        let name = *NAMES.iter().find(|&&known| known == name).ok_or_else(|| HintError::Name(name.to_owned()))?;
        match name {
            "cb_nodes" => self.aggregator_count = Some(count(name, "a number of ranks from 1", value)?),
            "cb_config_list" => self.aggregators_per_node_max = per_node(name, value)?,
            "romio_lustre_co_ratio" => {
                self.aggregators_per_target_max = Some(count(name, "a number of aggregators from 1", value)?);
            }
            "afflux_aggregator_order" => {
                let orders = [("round-robin", Order::RoundRobin), ("blocks", Order::Blocks)];
                self.aggregator_order = choice(name, "round-robin or blocks", &orders, value)?;
            }
            "afflux_topology" => self.topology = topology(name, value)?,
            "cb_buffer_size" => self.collective_buffer_bytes = number(name, "a number of bytes from 1", value)?,
            "afflux_cb_depth" => self.buffer_count = number(name, "a number of buffers from 1", value)?,
            "afflux_partition" => {
                let expected = "automatic, even, aligned, static-cyclic or group-cyclic";
                let methods = PartitionMethod::ALL.map(|method| (method.name(), method));
                self.partition = choice(name, expected, &methods, value)?;
            }
            "requests_per_ost" => self.requests_per_target = Some(number(name, "a number of requests from 1", value)?),
            "afflux_step_aggregators" => {
                self.step_aggregators = Some(count(name, "a number of aggregators from 1", value)?)
            }
            "afflux_node_memory" => self.node_memory = toggle(name, value)?,
            "romio_cb_write" => self.collective_write = toggle(name, value)?,
            "romio_cb_read" => self.collective_read = toggle(name, value)?,
            "romio_lustre_coll_threshold" => {
                // ROMIO's 0 stands for its default.
                self.independent_piece_bytes_min = NonZeroU64::new(whole(name, "a number of bytes", value)?);
            }
            "romio_lustre_ds_in_coll" => self.fill_holes = toggle(name, value)?,
            "romio_ds_read" => self.sieve_reads = toggle(name, value)?,
            "ind_rd_buffer_size" => self.sieve_buffer_bytes = number(name, "a number of bytes from 1", value)?,
            "striping_unit" => self.striping_unit_bytes = Some(number(name, "a number of bytes from 1", value)?),
            "striping_factor" => self.striping_factor = Some(number(name, "a number of stripes from 1", value)?),
            "start_iodevice" => self.target_first = Some(whole(name, "the number of a storage target", value)?),
            "overstriping_ratio" => self.stripes_per_target = Some(number(name, "a number of stripes from 1", value)?),
            _ => unreachable!("every name of the list is handled"),
        }
        Ok(())
    }

    /// What is asked of the striping of a new file.
    #[must_use]
    pub fn striping_request(&self) -> StripingRequest {
        StripingRequest {
            stripe_bytes: self.striping_unit_bytes.map(NonZeroU64::get),
            stripe_count: self.striping_factor.map(NonZeroU64::get),
            target_first: self.target_first,
            stripes_per_target: self.stripes_per_target.map(NonZeroU64::get),
        }
    }
}

fn wrong(name: &'static str, expected: &'static str, value: &str) -> HintError {
    HintError::Value { name, expected, found: value.to_owned() }
}

fn whole(name: &'static str, expected: &'static str, value: &str) -> Result<u64, HintError> {
    value.trim().parse().map_err(|_| wrong(name, expected, value))
}

fn number(name: &'static str, expected: &'static str, value: &str) -> Result<NonZeroU64, HintError> {
    value.trim().parse().map_err(|_| wrong(name, expected, value))
}

/// A number that has its place in memory: more than there can be means all there are.
fn count(name: &'static str, expected: &'static str, value: &str) -> Result<usize, HintError> {
    Ok(usize::try_from(number(name, expected, value)?.get()).unwrap_or(usize::MAX))
}

fn choice<T: Copy>(
    name: &'static str,
    expected: &'static str,
    choices: &[(&str, T)],
    value: &str,
) -> Result<T, HintError> {
    let found = choices.iter().find(|(word, _)| *word == value.trim());
    found.map(|(_, choice)| *choice).ok_or_else(|| wrong(name, expected, value))
}

fn toggle(name: &'static str, value: &str) -> Result<Toggle, HintError> {
    let toggles = [Toggle::Enable, Toggle::Disable, Toggle::Automatic].map(|toggle| (toggle.word(), toggle));
    choice(name, "enable, disable or automatic", &toggles, value)
}

/// `*:k` and `*:*` of ROMIO's configuration lists.
fn per_node(name: &'static str, value: &str) -> Result<Option<usize>, HintError> {
    let expected = "*:* or *:k, with k aggregators a node";
    match value.trim().strip_prefix("*:") {
        Some("*") => Ok(None),
        Some(each) => count(name, expected, each).map(Some).map_err(|_| wrong(name, expected, value)),
        None => Err(wrong(name, expected, value)),
    }
}

fn topology(name: &'static str, value: &str) -> Result<Topology, HintError> {
    let expected = "flat, or up to three extents as in 8x12x32";
    if value.trim() == "flat" {
        return Ok(Topology::Flat);
    }
    let parsed: Result<Vec<u32>, _> = value.trim().split('x').map(str::parse).collect();
    match parsed.as_deref() {
        Ok([z]) if *z > 0 => Ok(Topology::Mesh { extents: [1, 1, *z] }),
        Ok([y, z]) if *y > 0 && *z > 0 => Ok(Topology::Mesh { extents: [1, *y, *z] }),
        Ok([x, y, z]) if *x > 0 && *y > 0 && *z > 0 => Ok(Topology::Mesh { extents: [*x, *y, *z] }),
        _ => Err(wrong(name, expected, value)),
    }
}

#[cfg(test)]
mod tests;
