//! Results on a page, and the pictures in it.

use super::mechanism::Mechanism;
use super::placement::Placement;
use super::record::{Measured, Record};
use super::{source_tables, tables};
use crate::report::{Axis, Bar, BarGroup, Bars, Curve, Curves, Page};

/// Latency of every mechanism, a bar for each placement.
#[must_use]
pub fn latency_chart(records: &[Record]) -> Bars {
    let placements: Vec<Placement> = tables::placements(records)
        .into_iter()
        .filter(|placement| {
            let measured = |record: &Record| {
                record.placement == *placement && matches!(&record.result, Measured::RoundTrip(trip) if trip.bytes == 1)
            };
            records.iter().any(measured)
        })
        .collect();
    let groups = tables::mechanisms(records)
        .into_iter()
        .filter(|like| like.mechanism.is_ranked())
        .map(|like| {
            let bar = |(series, placement): (usize, &Placement)| {
                let trip = tables::round_trip(records, like, *placement, 1)?;
                Some(Bar { series, value: trip.round_trip_seconds_median * 1e6 })
            };
            BarGroup { label: like.label(), bars: placements.iter().enumerate().filter_map(bar).collect() }
        })
        .filter(|group| !group.bars.is_empty())
        .collect();
    Bars {
        title: "Latency of 1 byte".to_owned(),
        axis_title: "round trip, median (us), logarithmic".to_owned(),
        axis: Axis::Logarithmic,
        series: placements.iter().map(|placement| placement.words().to_owned()).collect(),
        groups,
    }
}

/// One-way bandwidth over the size of the message at a placement, for the mechanisms that `wanted` lets through.
#[must_use]
pub fn bandwidth_chart(
    records: &[Record],
    placement: Placement,
    title: &str,
    wanted: impl Fn(Mechanism) -> bool,
) -> Curves {
    let curve = |like: &Record| {
        let point =
            |stream: &super::record::Stream| (stream.bytes as f64, stream.one_way_bytes_per_second_median * 1e-6);
        Curve {
            label: like.label(),
            points: tables::streams(records, like, placement).into_iter().map(point).collect(),
        }
    };
    Curves {
        title: title.to_owned(),
        x_title: "message (B)".to_owned(),
        x: Axis::Bytes,
        y_title: "bandwidth one way, median (MB/s)".to_owned(),
        y: Axis::Logarithmic,
        curves: tables::mechanisms(records)
            .into_iter()
            .filter(|like| wanted(like.mechanism))
            .map(curve)
            .filter(|curve| !curve.points.is_empty())
            .collect(),
    }
}

/// The whole page.
#[must_use]
pub fn page(records: &[Record]) -> Page {
    let mut page = Page::new("Communication between two processes");
    if let Some(first) = records.first() {
        page.facts([
            ("host", first.host.name.clone()),
            ("processor", format!("{}, {} of them", first.host.cpu, first.host.cores)),
            ("kernel", first.host.kernel.clone()),
            ("command", first.command.clone()),
        ]);
    }
    page.section("Latency");
    page.paragraph("One byte back and forth; the bars are medians of samples, each the mean of many round trips.");
    page.bars(&latency_chart(records));
    for placement in tables::placements(records) {
        let title = capitalised(placement.words());
        page.section(&format!("{title} ({})", tables::where_measured(records, placement)));
        page.table(&tables::latency(records, placement));
        let chart = bandwidth_chart(records, placement, &format!("Bandwidth: {}", placement.words()), |_| true);
        if !chart.curves.is_empty() {
            page.curves(&chart);
        }
        page.table(&tables::bandwidth(records, placement));
        page.table(&tables::loggp(records, placement));
        page.table(&tables::ranking(records, placement, tables::Ranked::Latency));
        page.table(&tables::ranking(records, placement, tables::Ranked::Bandwidth));
    }
    page.section("MPI: the start-up world and a spawned child");
    page.table(&tables::spawned_child(records));
    page.section("What the source says, and today");
    page.table(&source_tables::claims(records));
    page.section("Not measured");
    page.table(&tables::missing(records));
    page
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::super::record::{RoundTrip, Stream};
    use super::*;

    #[test]
    fn a_page_shows_every_placement() {
        let records = [
            record(Mechanism::Pipe, Placement::OneProcessor, Measured::RoundTrip(RoundTrip::new(1, 10, &[2e-6], None))),
            record(Mechanism::Pipe, Placement::TwoProcessors, Measured::Stream(Stream::new(64, 10, &[1e-7]))),
            record(Mechanism::Fifo, Placement::TwoOtherProcessors, Measured::Absent { reason: "too few".into() }),
        ];
        let html = page(&records).html();
        for words in ["One processor, the parent&#39;s", "Two processors, one the parent&#39;s", "too few", "640"] {
            assert!(html.contains(words), "{words}");
        }
        assert_eq!(latency_chart(&records).series.len(), 1, "a placement without latencies has no bar");
    }
}
