//! Prints a page with made-up figures: how a benchmark puts tables and charts together, and what they look like.
//!
//! `cargo run -p afflux-measure --example report > report.html`

use afflux_measure::report::{
    Axis, Bar, BarGroup, Bars, Cell, Curve, Curves, Page, StackedBar, StackedBars, Table, seconds,
};

fn main() {
    let mut page = Page::new("Made-up figures");
    page.facts([("host", "nowhere".to_owned()), ("command", "cargo run --example report".to_owned())]);

    page.section("Round trips");
    let mechanisms = [("pipe", 10.2e-6, 3.1e-6), ("socket", 14.0e-6, 5.0e-6), ("shared memory", 0.3e-6, 9e-6)];
    let mut table =
        Table::new("Round trips of 1 byte").words("mechanism").numbers("two processors (us)").words("in words");
    for (mechanism, apart, _) in mechanisms {
        table.row(vec![mechanism.into(), (apart * 1e6).into(), seconds(apart).into()]);
    }
    table.row(vec!["MPI".into(), Cell::Absent("no mpirun".into()), "".into()]);
    page.table(&table);
    page.bars(&Bars {
        title: "Round trips of 1 byte".into(),
        axis_title: "median (us)".into(),
        axis: Axis::Logarithmic,
        series: vec!["two processors".into(), "one processor".into()],
        groups: mechanisms
            .map(|(label, apart, same)| BarGroup {
                label: label.into(),
                bars: vec![Bar { series: 0, value: apart * 1e6 }, Bar { series: 1, value: same * 1e6 }],
            })
            .to_vec(),
    });

    page.section("Bandwidth");
    // A latency and a rate each: what a fit of measured bandwidths looks like.
    let curve = |label: String, latency: f64, rate: f64| Curve {
        label,
        points: (0..=26)
            .step_by(2)
            .map(|power| f64::from(power).exp2())
            .map(|bytes| (bytes, bytes / (latency + bytes / rate) * 1e-6))
            .collect(),
    };
    page.curves(&Curves {
        title: "One-way bandwidth".into(),
        x_title: "message (B)".into(),
        x: Axis::Bytes,
        y_title: "median (MB/s)".into(),
        y: Axis::Logarithmic,
        curves: (1..=12).map(|n| curve(format!("mechanism {n}"), 2e-7 * f64::from(n), 1e10 / f64::from(n))).collect(),
    });

    page.section("Where a job's time went");
    page.stacked_bars(&StackedBars {
        title: "A job on four file systems".into(),
        axis_title: "seconds".into(),
        parts: ["user", "system", "idle"].map(str::to_owned).to_vec(),
        bars: [("ext2", 13.5, 3.9, 10.7), ("ext4", 13.4, 3.0, 8.1), ("xfs", 13.5, 2.2, 9.2), ("tmpfs", 13.5, 1.2, 0.1)]
            .map(|(label, user, system, idle)| StackedBar { label: label.into(), values: vec![user, system, idle] })
            .to_vec(),
    });
    print!("{}", page.html());
}
