//! Results as people read them: a table, and a page with charts.

use super::measurement::{Measurement, Outcome};
use super::test::Test;
use crate::report::{Axis, Bar, BarGroup, Bars, Cell, Page, StackedBar, StackedBars, Table, bytes, seconds};

/// One row a result, tests in their order, what is missing with its reason.
#[must_use]
pub fn table(outcomes: &[Outcome]) -> Table {
    let mut table =
        Table::new("Storage: medians of elapsed time, and of the run nearest it user, system and idle time")
            .words("test")
            .words("disk")
            .words("file system")
            .words("tool")
            .numbers("elapsed (s)")
            .numbers("min (s)")
            .numbers("p95 (s)")
            .numbers("runs")
            .numbers("user (s)")
            .numbers("system (s)")
            .numbers("idle (s)")
            .numbers("MB/s")
            .numbers("operations/s")
            .numbers("from device (MB)")
            .numbers("to device (MB)");
    for outcome in outcomes {
        match outcome {
            Outcome::Measured(measured) => table.row(row(measured)),
            Outcome::Missing(missing) => {
                let names = [missing.test.name(), &missing.label, &missing.file_system.kind, missing.tool];
                let mut cells: Vec<Cell> = names.into_iter().map(Cell::from).collect();
                cells.push(Cell::Absent(missing.missing.clone()));
                cells.resize(15, Cell::from(""));
                table.row(cells);
            }
        }
    }
    table.note("MB is 10^6 bytes. From and to device: bytes that passed by the page cache's memory in this thread's name; 0 where all was cached.");
    table
}

fn row(measured: &Measurement) -> Vec<Cell> {
    let megabytes = |bytes: u64| Cell::from(bytes as f64 * 1e-6);
    let (rate, operations) = if measured.test.counts_operations() {
        (Cell::from(""), Cell::from(measured.operations_per_second))
    } else {
        (Cell::from(measured.bytes_per_second * 1e-6), Cell::from(""))
    };
    let of_device = |bytes| if measured.tool == "fio" { Cell::from("") } else { megabytes(bytes) };
    vec![
        Cell::from(measured.test.name()),
        Cell::from(measured.label.as_str()),
        Cell::from(measured.file_system.kind.as_str()),
        Cell::from(measured.tool),
        Cell::from(measured.time.seconds_median),
        Cell::from(measured.time.seconds_min),
        Cell::from(measured.time.seconds_p95),
        Cell::from(measured.time.repetitions.to_string()),
        Cell::from(measured.user_seconds),
        Cell::from(measured.system_seconds),
        Cell::from(measured.idle_seconds),
        rate,
        operations,
        of_device(measured.device_read_bytes),
        of_device(measured.device_written_bytes),
    ]
}

fn measured(outcomes: &[Outcome]) -> impl Iterator<Item = &Measurement> {
    outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Measured(measured) => Some(&**measured),
        Outcome::Missing(_) => None,
    })
}

fn place(measured: &Measurement) -> String {
    let tool = if measured.tool == "fio" { ", fio" } else { "" };
    format!("{} on {}{tool}", measured.file_system.kind, measured.label)
}

/// One page: bandwidth of sequential transfers, operations a second, the scratch load's user, system and idle time, and the
/// table.
#[must_use]
pub fn page(outcomes: &[Outcome]) -> String {
    let mut page = Page::new("Storage of a machine");
    let Some(first) = measured(outcomes).next() else { return page.html() };
    page.facts([
        ("host", format!("{}, {} processors, {}", first.host.cpu, first.host.cores, first.host.kernel)),
        ("command", first.command.clone()),
    ]);
    let mut disks =
        Table::new("Where").words("disk").words("file system").words("directory").words("mount options").words("free");
    let mut seen = Vec::new();
    for result in measured(outcomes).filter(|result| result.tool == "afflux") {
        if seen.contains(&&result.directory) {
            continue;
        }
        seen.push(&result.directory);
        disks.row(vec![
            Cell::from(result.label.as_str()),
            Cell::from(result.file_system.kind.as_str()),
            Cell::from(result.directory.as_str()),
            Cell::from(result.file_system.options.as_str()),
            Cell::from(bytes(result.free_bytes)),
        ]);
    }
    page.table(&disks);
    let is_transfer = |test: Test| !test.counts_operations() && !matches!(test, Test::Scratch(_));
    chart(&mut page, outcomes, "Sequential transfers", "MB/s", is_transfer, |result| result.bytes_per_second * 1e-6);
    chart(&mut page, outcomes, "Operations", "operations/s", Test::counts_operations, |result| {
        result.operations_per_second
    });
    scratch_charts(&mut page, outcomes);
    page.section("All figures");
    page.table(&table(outcomes));
    page.html()
}

fn chart(
    page: &mut Page,
    outcomes: &[Outcome],
    title: &str,
    unit: &str,
    takes: impl Fn(Test) -> bool,
    value: impl Fn(&Measurement) -> f64,
) {
    let results: Vec<&Measurement> = measured(outcomes).filter(|result| takes(result.test)).collect();
    if results.is_empty() {
        return;
    }
    let mut series: Vec<String> = Vec::new();
    results.iter().map(|result| place(result)).for_each(|name| {
        if !series.contains(&name) {
            series.push(name);
        }
    });
    let groups = results.chunk_by(|a, b| a.test == b.test).map(|group| BarGroup {
        label: group[0].test.name().to_owned(),
        bars: group
            .iter()
            .filter_map(|result| {
                Some(Bar { series: series.iter().position(|name| *name == place(result))?, value: value(result) })
            })
            .collect(),
    });
    let groups = groups.collect();
    page.section(title);
    page.bars(&Bars { title: title.to_owned(), axis_title: unit.to_owned(), axis: Axis::Logarithmic, series, groups });
}

fn scratch_charts(page: &mut Page, outcomes: &[Outcome]) {
    let results: Vec<&Measurement> =
        measured(outcomes).filter(|result| matches!(result.test, Test::Scratch(_))).collect();
    let Some(first) = results.first() else { return };
    page.section("Scratch load");
    page.paragraph(&format!(
        "Files written once and read {} times, with {} of computing for each MiB read: the model of the source's large job.",
        first.passes.unwrap_or(0),
        seconds(first.compute_ms_per_mib.unwrap_or(0.0) * 1e-3)
    ));
    for group in results.chunk_by(|a, b| a.test == b.test) {
        let bars = group.iter().map(|result| StackedBar {
            label: place(result),
            values: vec![result.user_seconds, result.system_seconds, result.idle_seconds],
        });
        page.stacked_bars(&StackedBars {
            title: format!("{}: {} moved", group[0].test, bytes(group[0].bytes)),
            axis_title: "s".to_owned(),
            parts: ["user", "system", "idle"].map(str::to_owned).to_vec(),
            bars: bars.collect(),
        });
    }
}
