//! Each hint as it was asked for and as it took effect, with a warning where the two differ.

use afflux_plan::{FileTraits, Order, PartitionMethod, Topology};

use super::{Hints, Toggle};

/// A hint as it was asked for and as it took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintReport {
    /// ROMIO's name.
    pub name: String,
    /// What was asked, `None` for nothing.
    pub asked: Option<String>,
    /// What holds.
    pub effective: String,
    /// Why what was asked does not hold.
    pub warning: Option<String>,
}

/// What became of hints: known once the file is open and the ranks have met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HintFacts {
    /// How many ranks aggregate.
    pub aggregator_count: usize,
    /// Bytes of a window.
    pub window_bytes: u64,
    /// Bytes of an aggregator's collective buffers.
    pub buffer_bytes: u64,
    /// The file's stripes, as far as known.
    pub file: FileTraits,
    /// The file was there before, so that its stripes are what they were.
    pub existed: bool,
    /// Whether `requests_per_ost` can be kept.
    pub throttled: bool,
}

/// Hints of ROMIO (and MPI's reserved ones) that are taken and do nothing, with the reason.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("romio_ds_write", "an independent write never touches a byte that is not its own"),
    ("ind_wr_buffer_size", "an independent write never touches a byte that is not its own"),
    ("romio_no_indep_rw", "every rank has its own handle already"),
    ("romio_cb_alltoall", "messages are exchanged in pairs, and none within a node"),
    ("romio_cb_pfr", "file domains follow the access, or the stripes: see afflux_partition"),
    ("romio_cb_fr_types", "file domains follow the access, or the stripes: see afflux_partition"),
    ("romio_cb_fr_alignment", "see afflux_partition and striping_unit"),
    ("romio_cb_ds_threshold", "what is filled is said with each write"),
    ("romio_min_fdomain_size", "domains are as even as locks allow"),
    ("direct_read", "transfers go through the page cache"),
    ("direct_write", "transfers go through the page cache"),
    ("romio_synchronized_flush", "durability is said with each write"),
    ("romio_visibility_immediate", "what is written is visible when the call returns"),
    ("romio_lustre_cb_lock_ahead_write", "locks are asked for as they are needed"),
    ("romio_lustre_cb_lock_ahead_read", "locks are asked for as they are needed"),
    ("romio_lustre_cb_lock_ahead_num_extents", "locks are asked for as they are needed"),
    ("romio_lustre_cb_lock_ahead_flags", "locks are asked for as they are needed"),
    ("cb_block_size", "not used by ROMIO either"),
    ("collective_buffering", "see romio_cb_write and romio_cb_read"),
    ("access_style", "the engine sees each access"),
    ("nb_proc", "the engine knows its ranks"),
    ("num_io_nodes", "see striping_factor"),
    ("file_perm", "the file's owner decides"),
];

/// Why a hint has no effect, if it is one of those.
pub(super) fn reason_without_effect(name: &str) -> Option<&'static str> {
    WITHOUT_EFFECT.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}

fn optional(value: Option<impl ToString>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn toggled(name: &str, value: Toggle) -> HintReport {
    let asked = (value != Toggle::Automatic).then(|| value.word().to_owned());
    HintReport { name: name.to_owned(), asked, effective: value.word().to_owned(), warning: None }
}

impl Hints {
    /// Each hint as asked and as it took effect.
    #[must_use]
    pub fn report(&self, facts: &HintFacts) -> Vec<HintReport> {
        let defaults = Self::default();
        let differs = |differs: bool, value: String| differs.then_some(value);
        let line = |name: &str, asked: Option<String>, effective: String| {
            let differs = asked.as_ref().is_some_and(|asked| *asked != effective);
            let warning =
                differs.then(|| format!("asked for {}, has {effective}", asked.as_deref().unwrap_or_default()));
            HintReport { name: name.to_owned(), asked, effective, warning }
        };
        let same = |name: &str, asked: Option<String>, otherwise: &str| {
            let effective = asked.clone().unwrap_or_else(|| otherwise.to_owned());
            HintReport { name: name.to_owned(), asked, effective, warning: None }
        };
        let buffer = self.collective_buffer_bytes;
        let order = match self.aggregator_order {
            Order::RoundRobin => "round-robin",
            Order::Blocks => "blocks",
        };
        let topology = match self.topology {
            Topology::Flat => "flat".to_owned(),
            Topology::Mesh { extents: [x, y, z] } => format!("{x}x{y}x{z}"),
        };
        let mut lines = vec![
            line("cb_nodes", optional(self.aggregator_count), facts.aggregator_count.to_string()),
            same("cb_config_list", self.aggregators_per_node_max.map(|each| format!("*:{each}")), "*:*"),
            same("romio_lustre_co_ratio", optional(self.aggregators_per_target_max), "1"),
            same(
                "afflux_aggregator_order",
                differs(self.aggregator_order != Order::RoundRobin, order.to_owned()),
                order,
            ),
            same("afflux_topology", differs(self.topology != Topology::Flat, topology.clone()), &topology),
            HintReport {
                name: "cb_buffer_size".to_owned(),
                asked: differs(buffer != defaults.collective_buffer_bytes, buffer.to_string()),
                effective: facts.buffer_bytes.to_string(),
                warning: None,
            },
            same(
                "afflux_cb_depth",
                differs(self.buffer_count != defaults.buffer_count, self.buffer_count.to_string()),
                &format!("{} windows of {} bytes", self.buffer_count, facts.window_bytes),
            ),
            same(
                "afflux_partition",
                differs(self.partition != PartitionMethod::Automatic, self.partition.to_string()),
                self.partition.name(),
            ),
            self.throttle(facts),
            same("afflux_step_aggregators", optional(self.step_aggregators), "all, or as many as may access storage"),
            toggled("afflux_node_memory", self.node_memory),
            toggled("romio_cb_write", self.collective_write),
            toggled("romio_cb_read", self.collective_read),
            same("romio_lustre_coll_threshold", optional(self.independent_piece_bytes_min), "by what is measured"),
            toggled("romio_lustre_ds_in_coll", self.fill_holes),
            toggled("romio_ds_read", self.sieve_reads),
            same("ind_rd_buffer_size", None, &self.sieve_buffer_bytes.to_string()),
        ];
        lines.extend(self.striping_lines(facts));
        lines.extend(self.without_effect.iter().map(|(name, value)| HintReport {
            name: name.clone(),
            asked: Some(value.clone()),
            effective: "nothing".to_owned(),
            warning: reason_without_effect(name).map(|reason| format!("has no effect: {reason}")),
        }));
        lines
    }

    fn throttle(&self, facts: &HintFacts) -> HintReport {
        let asked = optional(self.requests_per_target);
        let effective = match &asked {
            Some(asked) if facts.throttled => asked.clone(),
            _ => "any number".to_owned(),
        };
        let unkept = asked.is_some() && !facts.throttled;
        let warning = unkept.then(|| {
            "the file has no stripes that are known, or file domains or writes were asked for that do not go by stripes"
                .to_owned()
        });
        HintReport { name: "requests_per_ost".to_owned(), asked, effective, warning }
    }

    /// Stripes: as asked, and as the file has them.
    fn striping_lines(&self, facts: &HintFacts) -> Vec<HintReport> {
        let line = |name: &str, asked: Option<String>, found: Option<String>| {
            let effective = found.clone().unwrap_or_else(|| "not known".to_owned());
            let warning = match (&asked, &found) {
                (None, _) => None,
                (Some(asked), Some(found)) if asked == found => None,
                (Some(_), Some(_)) if facts.existed => {
                    Some("the file was there before and keeps its stripes".to_owned())
                }
                (Some(asked), Some(found)) => Some(format!("asked for {asked}, the file system gave {found}")),
                (Some(_), None) => Some("the file system does not tell of stripes".to_owned()),
            };
            HintReport { name: name.to_owned(), asked, effective, warning }
        };
        vec![
            line("striping_unit", optional(self.striping_unit_bytes), optional(facts.file.stripe_bytes)),
            line("striping_factor", optional(self.striping_factor), optional(facts.file.stripe_count)),
            line("start_iodevice", optional(self.target_first), None),
            line("overstriping_ratio", optional(self.stripes_per_target), None),
        ]
        .into_iter()
        .filter(|line| line.asked.is_some() || line.effective != "not known")
        .collect()
    }
}
