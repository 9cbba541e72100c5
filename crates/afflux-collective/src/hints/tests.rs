//! Hints as they are read, refused and reported.

use std::num::NonZeroU64;

use afflux_plan::FileTraits;

use super::*;

fn report_of(pairs: &[(&str, &str)], facts: &HintFacts, name: &str) -> HintReport {
    let hints = Hints::from_pairs(pairs.iter().copied()).unwrap();
    hints.report(facts).into_iter().find(|line| line.name == name).unwrap_or_else(|| panic!("no line for {name}"))
}

#[test]
fn hints_are_read_and_reported() {
    let facts = HintFacts { aggregator_count: 3, buffer_bytes: 4096, window_bytes: 1024, ..HintFacts::default() };
    let pairs = [("cb_nodes", "99"), ("cb_buffer_size", "4096"), ("romio_cb_write", "disable")];
    let nodes = report_of(&pairs, &facts, "cb_nodes");
    assert_eq!((nodes.asked.as_deref(), nodes.effective.as_str()), (Some("99"), "3"));
    assert_eq!(nodes.warning.as_deref(), Some("asked for 99, has 3"));
    assert_eq!(report_of(&pairs, &facts, "cb_buffer_size").effective, "4096");
    assert_eq!(report_of(&pairs, &facts, "romio_cb_write").effective, "disable");
    assert_eq!(report_of(&pairs, &facts, "romio_cb_read").asked, None);
}

#[test]
fn every_name_is_taken_and_reported() {
    for (name, value) in [
        ("cb_nodes", "4"),
        ("cb_config_list", "*:2"),
        ("romio_lustre_co_ratio", "8"),
        ("afflux_aggregator_order", "blocks"),
        ("afflux_topology", "8x12x32"),
        ("cb_buffer_size", "65536"),
        ("afflux_cb_depth", "2"),
        ("afflux_partition", "group-cyclic"),
        ("requests_per_ost", "2"),
        ("afflux_step_aggregators", "3"),
        ("afflux_node_memory", "disable"),
        ("romio_cb_write", "enable"),
        ("romio_cb_read", "automatic"),
        ("romio_lustre_coll_threshold", "1000"),
        ("romio_lustre_ds_in_coll", "disable"),
        ("romio_ds_read", "disable"),
        ("ind_rd_buffer_size", "1000000"),
        ("striping_unit", "1048576"),
        ("striping_factor", "12"),
        ("start_iodevice", "0"),
        ("overstriping_ratio", "2"),
        ("direct_write", "true"),
    ] {
        let hints = Hints::from_pairs([(name, value)]).unwrap();
        assert!(hints == Hints::default() || value != "automatic", "{name} sets nothing");
        assert!(hints.report(&HintFacts::default()).iter().any(|line| line.name == name), "{name} is not reported");
    }
    let ignored = report_of(&[("romio_cb_pfr", "enable")], &HintFacts::default(), "romio_cb_pfr");
    assert!(ignored.warning.unwrap().starts_with("has no effect"));
}

#[test]
fn what_is_not_understood_is_an_error() {
    for (name, value) in [
        ("cb_nodes", "0"),
        ("cb_nodes", "-1"),
        ("cb_buffer_size", "16M"),
        ("romio_cb_write", "on"),
        ("cb_config_list", "node1:2"),
        ("afflux_topology", "8x0"),
        ("afflux_topology", "2x2x2x2"),
        ("cb_node", "1"),
    ] {
        assert!(Hints::from_pairs([(name, value)]).is_err(), "{name}={value}");
    }
    let error = Hints::from_pairs([("cb_node", "1")]).unwrap_err();
    assert!(error.to_string().contains("cb_nodes, cb_config_list"), "{error}");
}

/// CASES E8: striping asked for, an existing file with another layout, nothing asked.
#[test]
fn e8_striping_as_asked_and_as_it_took_effect() {
    let has = |unit: u64, factor: u64, existed| HintFacts {
        file: FileTraits {
            stripe_bytes: NonZeroU64::new(unit),
            stripe_count: NonZeroU64::new(factor),
            ..FileTraits::default()
        },
        existed,
        ..HintFacts::default()
    };
    for factor in ["2", "8", "12"] {
        let kept =
            report_of(&[("striping_factor", factor)], &has(1 << 20, factor.parse().unwrap(), false), "striping_factor");
        assert_eq!((kept.effective.as_str(), &kept.warning), (factor, &None));
    }
    let existing = report_of(&[("striping_factor", "8")], &has(1 << 20, 4, true), "striping_factor");
    assert_eq!((existing.asked.as_deref(), existing.effective.as_str()), (Some("8"), "4"));
    assert!(existing.warning.unwrap().contains("was there before"));
    let cut = report_of(&[("striping_factor", "12")], &has(1 << 20, 10, false), "striping_factor");
    assert_eq!(cut.warning.as_deref(), Some("asked for 12, the file system gave 10"));
    let nothing = report_of(&[], &has(1 << 20, 4, false), "striping_factor");
    assert_eq!((nothing.asked, nothing.effective.as_str(), nothing.warning), (None, "4", None));
}
