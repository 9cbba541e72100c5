//! Today's figures in the form of the source's tables and figures, as Markdown.
//!
//! Our copy of the source has captions and text but no numbers, and the two do not agree: the captions of Tables 2, 3 and 5 speak of
//! starting processes where the text puts latencies into 2, cluster results into 3 and communication into 5. Each table here says which reading it
//! follows; those that follow the other one are in `crate::spawn::source_tables`.

use super::mechanism::Mechanism;
use super::placement::Placement;
use super::record::Record;
use super::tables::{self, Ranked};
use crate::report::{Cell, Table, bytes, significant};

/// What the source's text says of a latency on one processor, in microseconds; whether one way or round trip, it does not say.
const SOURCE_LATENCY_US: [(Mechanism, f64); 4] =
    [(Mechanism::Pipe, 2.0), (Mechanism::Fifo, 2.0), (Mechanism::SysvQueue, 2.0), (Mechanism::Tcp, 7.0)];

/// The classical mechanisms of Unix.
const UNIX: [Mechanism; 5] =
    [Mechanism::Pipe, Mechanism::Fifo, Mechanism::UnixStream, Mechanism::Tcp, Mechanism::SysvQueue];

fn latency_us(records: &[Record], like: &Record, placement: Placement) -> Option<f64> {
    Some(tables::round_trip(records, like, placement, 1)?.round_trip_seconds_median * 1e6)
}

fn of_mechanism(records: &[Record], mechanism: Mechanism) -> Option<&Record> {
    tables::mechanisms(records).into_iter().find(|like| like.mechanism == mechanism)
}

/// One-way rate of a mechanism at a size, in MB/s.
fn rate(records: &[Record], mechanism: Mechanism, placement: Placement, size: usize) -> Option<f64> {
    let like = of_mechanism(records, mechanism)?;
    let streams = tables::streams(records, like, placement);
    Some(streams.iter().find(|stream| stream.bytes == size)?.one_way_bytes_per_second_median * 1e-6)
}

/// Table 1: latencies by mechanism and placement.
#[must_use]
pub fn table_1(records: &[Record]) -> Table {
    let placements = tables::placements(records);
    let mut table =
        Table::new("Table 1: communication latency, 1 byte").words("mechanism").numbers("the source's text (us)");
    for placement in &placements {
        table = table.numbers(format!("{}: round trip, median (us)", placement.words()));
    }
    for like in tables::mechanisms(records).into_iter().filter(|like| like.mechanism.is_ranked()) {
        let source = SOURCE_LATENCY_US.into_iter().find(|(mechanism, _)| *mechanism == like.mechanism);
        let mut row: Vec<Cell> =
            vec![like.label().into(), source.map_or_else(|| "".into(), |(_, us)| format!("{us}").into())];
        for &placement in &placements {
            let reason = || tables::reason(records, like, placement).map_or_else(|| "".into(), Cell::Absent);
            row.push(latency_us(records, like, placement).map_or_else(reason, Cell::from));
        }
        table.row(row);
    }
    table.note("Reconstructed from the caption and the text, which agree: mechanisms by placement. The source gives about 2 us and 7 us on one processor and does not say whether one way or round trip; its shaded rows were taken under Mosix, which has not been maintained since 2008.");
    table
}

/// Table 2 as the text has it: sockets on one processor with and without Mosix.
#[must_use]
pub fn table_2(records: &[Record]) -> Table {
    let mut table = Table::new("Table 2 by the text: socket latency on one processor")
        .words("mechanism")
        .numbers("without Mosix: round trip, median (us)")
        .numbers("with Mosix");
    for mechanism in [Mechanism::Tcp, Mechanism::TcpNagle, Mechanism::UnixStream, Mechanism::UnixDatagram] {
        if let Some(like) = of_mechanism(records, mechanism)
            && let Some(us) = latency_us(records, like, Placement::OneProcessor)
        {
            let gone = "there is no Mosix for kernels of today";
            table.row(vec![like.label().into(), us.into(), Cell::Absent(gone.to_owned())]);
        }
    }
    table.note("The text: Table 2 gives only socket latency on one processor with and without Mosix. The caption: spawning between processors of the cluster (that table is made by `afflux bench spawn --tables`).");
    table
}

/// The three figures: bandwidth over size.
#[must_use]
pub fn figures(records: &[Record]) -> Vec<(u8, Placement, Table)> {
    let captions = [
        (1, Placement::OneProcessor, "Figure 1: bandwidth on one processor"),
        (2, Placement::TwoOtherNodes, "Figure 2: bandwidth between two nodes, neither of them the parent's (no UHN)"),
        (3, Placement::TwoNodes, "Figure 3: bandwidth between two nodes, the sender on the parent's (the UHN)"),
    ];
    let mut figures = Vec::new();
    for (number, placement, caption) in captions {
        let mut table = tables::bandwidth(records, placement);
        if !table.is_empty() {
            table.set_caption(format!("{caption}; one way, median (MB/s)"));
            figures.push((number, placement, table));
        }
    }
    figures
}

/// Table 5 as the text has it: the communication mechanisms ranked, by latency and by bandwidth.
#[must_use]
pub fn table_5(records: &[Record], placement: Placement) -> Vec<Table> {
    [Ranked::Latency, Ranked::Bandwidth]
        .into_iter()
        .map(|what| {
            let mut table = tables::ranking(records, placement, what);
            let name = if what == Ranked::Latency { "latency" } else { "bandwidth" };
            table.set_caption(format!("Table 5 by the text: communication ranked by {name}, {}", placement.words()));
            table
        })
        .filter(|table| !table.is_empty())
        .collect()
}

/// What the source's text says, and what is measured today.
#[must_use]
pub fn claims(records: &[Record]) -> Table {
    let mut table = Table::new("The source's text and today").words("the source").words("today").words("still so");
    let verdict = |holds: bool| if holds { "yes" } else { "no" };
    let mut add = |said: &str, today: Option<(String, bool)>| {
        if let Some((today, holds)) = today {
            table.row(vec![said.into(), today.into(), verdict(holds).into()]);
        }
    };
    add(
        "on one processor, messages of 10 to 100 B: sockets are the most efficient",
        fastest(records, Placement::OneProcessor, 64).map(|(best, rate)| {
            (
                format!("at 64 B {best}, {} MB/s", significant(rate)),
                best == Mechanism::Tcp || best == Mechanism::UnixStream,
            )
        }),
    );
    add(
        "larger messages: pipes and FIFOs are the most efficient, and hard to tell apart",
        fastest(records, Placement::OneProcessor, 65_536).and_then(|(best, fast)| {
            let pipe = rate(records, Mechanism::Pipe, Placement::OneProcessor, 65_536)?;
            let fifo = rate(records, Mechanism::Fifo, Placement::OneProcessor, 65_536)?;
            let alike = (pipe / fifo - 1.0).abs() < 0.1;
            let today = format!(
                "at 64 KiB {best}, {} MB/s; pipe {}, FIFO {}",
                significant(fast),
                significant(pipe),
                significant(fifo)
            );
            Some((today, alike && (best == Mechanism::Pipe || best == Mechanism::Fifo)))
        }),
    );
    add("from 10,000 B on, all mechanisms of Unix give about 1 GB/s on one processor", unix_range(records));
    add("a socket costs 7 us where a pipe costs 2 us: 3.5 times", {
        let latency = |mechanism| latency_us(records, of_mechanism(records, mechanism)?, Placement::OneProcessor);
        latency(Mechanism::Pipe).zip(latency(Mechanism::Tcp)).map(|(pipe, tcp)| {
            let ratio = tcp / pipe;
            let today = format!("{} us and {} us (round trips): {ratio:.1} times", significant(tcp), significant(pipe));
            (today, (2.0..5.0).contains(&ratio))
        })
    });
    add("sockets between nodes use 80 % of the link", link_use(records));
    add("MPI has a plateau between 100 B and 10 KB, where its protocol changes", plateau(records));
    add("low-level mechanisms are clearly faster than packages", low_and_high(records));
    table
}

/// The fastest mechanism of Unix at a size, and its rate in MB/s.
fn fastest(records: &[Record], placement: Placement, size: usize) -> Option<(Mechanism, f64)> {
    let rates = UNIX.into_iter().filter_map(|mechanism| Some((mechanism, rate(records, mechanism, placement, size)?)));
    rates.max_by(|a, b| a.1.total_cmp(&b.1))
}

fn unix_range(records: &[Record]) -> Option<(String, bool)> {
    const SIZE: usize = 16_384;
    let mut rates: Vec<f64> =
        UNIX.into_iter().filter_map(|mechanism| rate(records, mechanism, Placement::OneProcessor, SIZE)).collect();
    rates.sort_by(f64::total_cmp);
    let (&low, &high) = (rates.first()?, rates.last()?);
    let today = format!("at {} {} to {} MB/s", bytes(SIZE as u64), significant(low), significant(high));
    Some((today, low > 500.0 && high < 2000.0))
}

fn link_use(records: &[Record]) -> Option<(String, bool)> {
    let between = [Placement::TwoOtherNodes, Placement::TwoNodes];
    let like = of_mechanism(records, Mechanism::Tcp)?;
    let fraction = between
        .into_iter()
        .flat_map(|placement| tables::streams(records, like, placement))
        .filter_map(|stream| stream.fraction_of_link)
        .reduce(f64::max)?;
    Some((format!("{:.0} %", fraction * 100.0), fraction > 0.7))
}

/// Whether MPI over TCP gains less than the size where a plateau was said to be.
fn plateau(records: &[Record]) -> Option<(String, bool)> {
    let placements = [Placement::TwoOtherNodes, Placement::TwoNodes, Placement::TwoProcessors];
    let at = |placement: &Placement| {
        let rate = |size| rate(records, Mechanism::MpiTcp, *placement, size);
        Some((rate(256)?, rate(1024)?, rate(4096)?, rate(16_384)?))
    };
    let (a, b, c, d) = placements.iter().find_map(at)?;
    let today = format!(
        "MPI over TCP gives {}, {}, {} and {} MB/s at 256 B, 1, 4 and 16 KiB",
        significant(a),
        significant(b),
        significant(c),
        significant(d)
    );
    Some((today, d / a < 8.0))
}

/// The lowest latency of a plain mechanism against that of MPI by the same transport.
fn low_and_high(records: &[Record]) -> Option<(String, bool)> {
    let placement = Placement::TwoProcessors;
    let latency = |mechanism| latency_us(records, of_mechanism(records, mechanism)?, placement);
    let (tcp, mpi_tcp) = (latency(Mechanism::Tcp)?, latency(Mechanism::MpiTcp)?);
    let (ring, mpi_shared) = (latency(Mechanism::SharedSpin)?, latency(Mechanism::MpiShared)?);
    let today = format!(
        "round trips on two processors: TCP {} us, MPI over TCP {} us; ring in shared memory {} us, MPI {} us",
        significant(tcp),
        significant(mpi_tcp),
        significant(ring),
        significant(mpi_shared)
    );
    Some((today, tcp < mpi_tcp / 1.3 && ring < mpi_shared / 1.3))
}

/// Everything as Markdown.
#[must_use]
pub fn markdown(records: &[Record]) -> String {
    let mut tables = vec![table_1(records), table_2(records)];
    tables.extend(figures(records).into_iter().map(|(_, _, table)| table));
    for placement in tables::placements(records) {
        tables.extend(table_5(records, placement));
    }
    tables.push(tables::spawned_child(records));
    tables.push(claims(records));
    tables.retain(|table| !table.is_empty());
    tables.iter().map(Table::markdown).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::super::record::{Measured, RoundTrip, Stream};
    use super::*;

    fn records() -> Vec<Record> {
        let one = Placement::OneProcessor;
        let trip =
            |mechanism, seconds| record(mechanism, one, Measured::RoundTrip(RoundTrip::new(1, 9, &[seconds], None)));
        let stream = |mechanism, bytes: usize, mb: f64| {
            record(mechanism, one, Measured::Stream(Stream::new(bytes, 9, &[bytes as f64 / mb * 1e-6])))
        };
        let mut records = vec![trip(Mechanism::Pipe, 4e-6), trip(Mechanism::Tcp, 14e-6)];
        for (bytes, pipe, tcp) in [(64, 50.0, 20.0), (16_384, 900.0, 1100.0), (65_536, 3000.0, 2000.0)] {
            records.push(stream(Mechanism::Pipe, bytes, pipe));
            records.push(stream(Mechanism::Fifo, bytes, pipe * 1.01));
            records.push(stream(Mechanism::Tcp, bytes, tcp));
        }
        let link = Stream { fraction_of_link: Some(0.93), ..Stream::new(1 << 20, 9, &[0.02]) };
        records.push(record(Mechanism::Tcp, Placement::TwoNodes, Measured::Stream(link)));
        records
    }

    #[test]
    fn each_sentence_of_the_source_meets_todays_figures() {
        let text = claims(&records()).text();
        let verdicts: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| Some((line, line.split_whitespace().last()?)))
            .filter(|(_, last)| ["yes", "no"].contains(last))
            .collect();
        let of = |words: &str| verdicts.iter().find(|(line, _)| line.contains(words)).map(|(_, verdict)| *verdict);
        assert_eq!(of("10 to 100 B"), Some("no"));
        assert_eq!(of("hard to tell apart"), Some("yes"));
        assert_eq!(of("1 GB/s"), Some("yes"));
        assert_eq!(of("3.5 times"), Some("yes"));
        assert_eq!(of("80 % of the link"), Some("yes"));
        assert_eq!(of("plateau"), None, "nothing is said of what was not measured");
    }

    #[test]
    fn the_tables_are_markdown_with_how_they_were_reconstructed() {
        let text = markdown(&records());
        for words in ["Table 1:", "Table 2 by the text", "Figure 1:", "Figure 3:", "Table 5 by the text", "no Mosix"] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }
}
