//! Results in tables.

use super::placement::{Placement, Reading};
use super::ranking::ranked;
use super::record::{Measured, Record, RoundTrip, Stream};
use crate::report::{Cell, Table, bytes, significant};

/// The placements that occur, in the order of [`Placement::ALL`].
#[must_use]
pub fn placements(records: &[Record]) -> Vec<Placement> {
    let occurs = |placement: &Placement| records.iter().any(|record| record.placement == *placement);
    Placement::ALL.into_iter().filter(occurs).collect()
}

/// One record of each mechanism (of each MPI), in the order of the records.
#[must_use]
pub fn mechanisms(records: &[Record]) -> Vec<&Record> {
    let mut first: Vec<&Record> = Vec::new();
    for record in records {
        if !first.iter().any(|known| known.is_same_mechanism(record)) {
            first.push(record);
        }
    }
    first.sort_by_key(|record| (record.mechanism, record.mpi.clone()));
    first
}

/// The records of a mechanism at a placement.
fn at<'a>(records: &'a [Record], like: &Record, placement: Placement) -> impl Iterator<Item = &'a Record> {
    let (mechanism, mpi) = (like.mechanism, like.mpi.clone());
    let same =
        move |record: &&Record| record.mechanism == mechanism && record.mpi == mpi && record.placement == placement;
    records.iter().filter(same)
}

/// Round trips of a size of a mechanism at a placement.
#[must_use]
pub fn round_trip<'a>(
    records: &'a [Record],
    like: &Record,
    placement: Placement,
    bytes: usize,
) -> Option<&'a RoundTrip> {
    at(records, like, placement).find_map(|record| match &record.result {
        Measured::RoundTrip(result) if result.bytes == bytes => Some(result),
        _ => None,
    })
}

/// Streams of a mechanism at a placement, in ascending order of size.
#[must_use]
pub fn streams<'a>(records: &'a [Record], like: &Record, placement: Placement) -> Vec<&'a Stream> {
    let mut found: Vec<&Stream> = at(records, like, placement)
        .filter_map(|record| match &record.result {
            Measured::Stream(result) => Some(result),
            _ => None,
        })
        .collect();
    found.sort_by_key(|stream| stream.bytes);
    found
}

/// Why there is no figure of a mechanism at a placement; `None` where nobody asked for one.
#[must_use]
pub fn reason(records: &[Record], like: &Record, placement: Placement) -> Option<String> {
    at(records, like, placement).find_map(|record| match &record.result {
        Measured::Absent { reason } => Some(reason.clone()),
        Measured::Failed { reason } => Some(format!("failed: {reason}")),
        _ => None,
    })
}

/// A figure, or why there is none.
fn cell(figure: Option<f64>, records: &[Record], like: &Record, placement: Placement) -> Cell {
    match figure {
        Some(figure) => figure.into(),
        None => reason(records, like, placement).map_or_else(|| "".into(), Cell::Absent),
    }
}

/// Latency at a placement: a byte there and back.
#[must_use]
pub fn latency(records: &[Record], placement: Placement) -> Table {
    let mut table = Table::new(format!("Latency of 1 byte: {}", placement.words()))
        .words("mechanism")
        .numbers("round trip, median (us)")
        .numbers("round trip, minimum (us)")
        .numbers("round trip, p95 (us)")
        .numbers("one way, half of the median (us)")
        .numbers("single round trips, p50 (us)")
        .numbers("single round trips, p99 (us)")
        .numbers("round trips a sample");
    for like in mechanisms(records) {
        let found = round_trip(records, like, placement, 1);
        if found.is_none() && reason(records, like, placement).is_none() {
            continue;
        }
        let microseconds =
            |seconds: fn(&RoundTrip) -> f64| cell(found.map(|found| seconds(found) * 1e6), records, like, placement);
        let single = found.and_then(|found| found.single_round_trips);
        let of_single = |seconds: Option<f64>| seconds.map_or_else(|| "".into(), |seconds| Cell::from(seconds * 1e6));
        table.row(vec![
            like.label().into(),
            microseconds(|found| found.round_trip_seconds_median),
            found.map_or_else(|| "".into(), |found| Cell::from(found.round_trip_seconds_min * 1e6)),
            found.map_or_else(|| "".into(), |found| Cell::from(found.round_trip_seconds_p95 * 1e6)),
            found.map_or_else(|| "".into(), |found| Cell::from(found.one_way_seconds_median * 1e6)),
            of_single(single.map(|single| single.round_trip_seconds_p50)),
            of_single(single.map(|single| single.round_trip_seconds_p99)),
            found.map_or_else(|| "".into(), |found| crate::report::count(found.round_trips).into()),
        ]);
    }
    table.note("A sample is the mean of its round trips; p95 is of the samples, by nearest rank. Single round trips include a reading of the clock each.");
    table
}

/// One-way bandwidth over the size of the message at a placement.
#[must_use]
pub fn bandwidth(records: &[Record], placement: Placement) -> Table {
    let mut sizes: Vec<usize> = Vec::new();
    for record in records.iter().filter(|record| record.placement == placement) {
        if let Measured::Stream(stream) = &record.result
            && !sizes.contains(&stream.bytes)
        {
            sizes.push(stream.bytes);
        }
    }
    sizes.sort_unstable();
    let mut table = Table::new(format!("Bandwidth one way, median (MB/s): {}", placement.words())).words("mechanism");
    for &size in &sizes {
        table = table.numbers(bytes(size as u64));
    }
    let of_what = if fraction_of_link(records, placement) { "of the link (%)" } else { "of a memory copy (%)" };
    table = table.numbers(format!("best, {of_what}"));
    for like in mechanisms(records) {
        let found = streams(records, like, placement);
        if found.is_empty() {
            continue;
        }
        let mut row: Vec<Cell> = vec![like.label().into()];
        for &size in &sizes {
            let rate = found.iter().find(|stream| stream.bytes == size);
            row.push(rate.map_or_else(|| "".into(), |stream| (stream.one_way_bytes_per_second_median * 1e-6).into()));
        }
        let best =
            found.iter().max_by(|a, b| a.one_way_bytes_per_second_median.total_cmp(&b.one_way_bytes_per_second_median));
        let fraction = best.and_then(|best| best.fraction_of_link.or(best.fraction_of_memory_copy));
        row.push(fraction.map_or_else(|| "".into(), |fraction| (100.0 * fraction).into()));
        table.row(row);
    }
    table.note("1 MB is 1,000,000 bytes. A sample is many messages and one byte back at the end.");
    table
}

fn fraction_of_link(records: &[Record], placement: Placement) -> bool {
    records.iter().any(|record| {
        record.placement == placement
            && matches!(&record.result, Measured::Stream(stream) if stream.fraction_of_link.is_some())
    })
}

/// The fitted parameters at a placement.
#[must_use]
pub fn loggp(records: &[Record], placement: Placement) -> Table {
    let mut table = Table::new(format!("LogGP: {}", placement.words()))
        .words("mechanism")
        .numbers("L (us)")
        .numbers("o (us)")
        .numbers("o a byte (ns)")
        .numbers("g (us)")
        .numbers("G (ns a byte)")
        .numbers("1/G (MB/s)")
        .numbers("residual, rms (%)")
        .numbers("largest residual (%)")
        .numbers("at");
    for like in mechanisms(records) {
        for record in at(records, like, placement) {
            if let Measured::LogGp(fit) = &record.result {
                table.row(vec![
                    like.label().into(),
                    (fit.latency_seconds * 1e6).into(),
                    (fit.overhead_seconds * 1e6).into(),
                    (fit.overhead_seconds_per_byte * 1e9).into(),
                    (fit.gap_seconds * 1e6).into(),
                    (fit.gap_seconds_per_byte * 1e9).into(),
                    (fit.one_way_bytes_per_second * 1e-6).into(),
                    (fit.residual_relative_rms * 100.0).into(),
                    (fit.residual_relative_max * 100.0).into(),
                    bytes(fit.residual_max_bytes as u64).into(),
                ]);
            }
        }
    }
    table.note("Least squares of relative differences over all sizes; L is not above 0 where the sender waits for the receiver.");
    table
}

/// What is compared in a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranked {
    /// Round trips of one byte.
    Latency,
    /// The best bandwidth over all sizes.
    Bandwidth,
}

/// The mechanisms at a placement, from the best, with the source's index.
#[must_use]
pub fn ranking(records: &[Record], placement: Placement, what: Ranked) -> Table {
    let (name, column) = match what {
        Ranked::Latency => ("latency", "round trip of 1 byte, median (us)"),
        Ranked::Bandwidth => ("bandwidth", "best one way, median (MB/s)"),
    };
    let mut table = Table::new(format!("Ranking by {name}: {}", placement.words()))
        .words("mechanism")
        .numbers("index")
        .numbers("times the best")
        .numbers(column);
    let times = mechanisms(records).into_iter().filter(|like| like.mechanism.is_ranked()).filter_map(|like| {
        let seconds = match what {
            Ranked::Latency => round_trip(records, like, placement, 1)?.round_trip_seconds_median,
            Ranked::Bandwidth => {
                let rates = streams(records, like, placement);
                1.0 / rates.iter().map(|stream| stream.one_way_bytes_per_second_median).reduce(f64::max)?
            }
        };
        Some(((like, seconds), seconds))
    });
    for ((like, seconds), ratio, index) in ranked(times.collect()) {
        let figure = match what {
            Ranked::Latency => seconds * 1e6,
            Ranked::Bandwidth => 1e-6 / seconds,
        };
        table.row(vec![like.label().into(), format!("{index:.0}").into(), significant(ratio).into(), figure.into()]);
    }
    table.note("Index: 1 is the best, 5 has 30 % less of the rate, each step the same ratio (index = 1 + 4 ln(times the best) / ln(1/0.7)).");
    table
}

/// Round trips of 64 KiB in the start-up world of an MPI job and between the same rank and a child that it spawned (case B1).
#[must_use]
pub fn spawned_child(records: &[Record]) -> Table {
    const BYTES: usize = 65_536;
    let mut table =
        Table::new("Round trips of 64 KiB by MPI: the start-up world and a spawned child, same job, same buffers")
            .words("MPI")
            .words("placement")
            .numbers("in the world: round trip, median (us)")
            .numbers("with the child: round trip, median (us)")
            .numbers("child / world");
    for placement in placements(records) {
        for like in mechanisms(records).into_iter().filter(|like| like.mechanism == super::Mechanism::MpiSpawned) {
            let world = mechanisms(records)
                .into_iter()
                .find(|other| other.mechanism == super::Mechanism::Mpi && other.mpi == like.mpi);
            let of =
                |like| round_trip(records, like, placement, BYTES).map(|trip| trip.round_trip_seconds_median * 1e6);
            let (in_world, with_child) = (world.and_then(of), of(like));
            if in_world.is_none() && with_child.is_none() && reason(records, like, placement).is_none() {
                continue;
            }
            let ratio = in_world.zip(with_child).map(|(world, child)| child / world);
            table.row(vec![
                like.mpi.clone().unwrap_or_default().into(),
                placement.words().into(),
                in_world.map_or_else(|| "".into(), Cell::from),
                cell(with_child, records, like, placement),
                ratio.map_or_else(|| "".into(), Cell::from),
            ]);
        }
    }
    table
}

/// The rows that have no figures, with their reasons.
#[must_use]
pub fn missing(records: &[Record]) -> Table {
    let mut table = Table::new("Not measured").words("mechanism").words("placement").words("why");
    for record in records {
        if let Measured::Absent { reason } | Measured::Failed { reason } = &record.result {
            table.row(vec![record.label().into(), record.placement.words().into(), reason.as_str().into()]);
        }
    }
    table
}

/// All tables of a run, in order.
#[must_use]
pub fn all(records: &[Record]) -> Vec<Table> {
    let mut tables = Vec::new();
    for placement in placements(records) {
        tables.push(latency(records, placement));
        tables.push(bandwidth(records, placement));
        tables.push(loggp(records, placement));
        tables.push(ranking(records, placement, Ranked::Latency));
        tables.push(ranking(records, placement, Ranked::Bandwidth));
    }
    tables.push(spawned_child(records));
    tables.push(missing(records));
    tables.retain(|table| !table.is_empty());
    tables
}

/// Where the two processes were, in words.
#[must_use]
pub fn where_measured(records: &[Record], placement: Placement) -> String {
    let record = records.iter().find(|record| record.placement == placement);
    let at = |record: &Record| match (placement.reading(), record.processors) {
        (Reading::Processor, Some([driver, server])) => format!("processors {driver} and {server}"),
        (Reading::Processor, None) => "not pinned".to_owned(),
        (Reading::Node, _) => record.hosts.join(" and "),
    };
    record.map(at).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::Mechanism;
    use super::super::record::tests::record;
    use super::*;

    fn records() -> Vec<Record> {
        let placement = Placement::TwoProcessors;
        let trip = |bytes, seconds| Measured::RoundTrip(RoundTrip::new(bytes, 100, &[seconds], None));
        let stream = |bytes, seconds| Measured::Stream(Stream::new(bytes, 10, &[seconds]));
        vec![
            record(Mechanism::UnixStream, placement, trip(1, 20e-6)),
            record(Mechanism::Pipe, placement, trip(1, 14e-6)),
            record(Mechanism::Pipe, placement, stream(1000, 1e-6)),
            record(Mechanism::UnixStream, placement, stream(1000, 0.5e-6)),
            record(Mechanism::MemoryCopy, placement, trip(1, 1e-9)),
            record(Mechanism::Mpi, placement, trip(65_536, 10e-6)),
            record(Mechanism::MpiSpawned, placement, trip(65_536, 40e-6)),
            record(Mechanism::SysvQueue, placement, Measured::Absent { reason: "no queues here".into() }),
        ]
    }

    #[test]
    fn every_column_of_times_names_its_unit_and_way() {
        for table in all(&records()) {
            let text = table.text();
            for word in ["round trip", "Bandwidth one way", "one way"] {
                if text.contains("(us)") || text.contains("(MB/s)") {
                    assert!(
                        text.contains("round trip") || text.contains("one way") || text.contains("L (us)"),
                        "{word}: {text}"
                    );
                }
            }
        }
        assert!(latency(&records(), Placement::TwoProcessors).text().contains("round trip, p95 (us)"));
    }

    #[test]
    fn rankings_begin_with_the_best_and_leave_the_copy_out() {
        let text = ranking(&records(), Placement::TwoProcessors, Ranked::Latency).text();
        let lines: Vec<&str> = text.lines().skip(3).collect();
        assert!(lines[0].starts_with("pipe") && lines[0].contains(" 1 "), "{text}");
        assert!(lines[1].starts_with("unix-stream") && lines[1].contains(" 5 "), "{text}");
        assert!(!text.contains("memory-copy"), "{text}");
        let text = ranking(&records(), Placement::TwoProcessors, Ranked::Bandwidth).text();
        assert!(text.lines().nth(3).unwrap().starts_with("unix-stream"), "{text}");
    }

    #[test]
    fn world_and_child_stand_side_by_side() {
        let text = spawned_child(&records()).text();
        assert!(text.contains("10.0") && text.contains("40.0") && text.contains("4.00"), "{text}");
    }

    #[test]
    fn what_is_absent_is_said_with_its_reason() {
        assert!(latency(&records(), Placement::TwoProcessors).text().contains("no queues here"));
        assert!(missing(&records()).text().contains("no queues here"));
    }
}
