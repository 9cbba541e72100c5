//! Results of spawning in tables.

use super::record::{Measured, Record, Spawns};
use crate::communication::ranking::ranked;
use crate::report::{Cell, Table, count, significant};

/// The numbers of processes at once that occur, ascending.
#[must_use]
pub fn at_once(records: &[Record]) -> Vec<usize> {
    let mut numbers: Vec<usize> = records.iter().map(|record| record.at_once).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn milliseconds(seconds: Option<f64>) -> Cell {
    seconds.map_or_else(|| "".into(), |seconds| (seconds * 1e3).into())
}

/// `n1 (3), n2 (3)`, or as many names as fit.
fn landed(spawns: &Spawns) -> String {
    let names: Vec<String> = spawns.landed.iter().map(|(host, count)| format!("{host} ({count})")).collect();
    names.join(", ")
}

/// All results with this many processes at once.
#[must_use]
pub fn results(records: &[Record], at_once: usize) -> Table {
    let caption = match at_once {
        1 => "One process at a time".to_owned(),
        several => format!("{several} processes at once"),
    };
    let mut table = Table::new(caption)
        .words("method")
        .words("on")
        .numbers("call to first byte, median (ms)")
        .numbers("minimum (ms)")
        .numbers("p95 (ms)")
        .numbers("call to all first bytes, median (ms)")
        .numbers("spawns/s")
        .numbers("spawns")
        .numbers("failed")
        .numbers("timed out")
        .words("landed on");
    for record in records.iter().filter(|record| record.at_once == at_once) {
        let on = record.target.clone().unwrap_or_else(|| "this machine".to_owned());
        match &record.result {
            Measured::Absent { reason } => {
                let mut row: Vec<Cell> = vec![record.label().into(), on.into(), Cell::Absent(reason.clone())];
                row.resize(11, "".into());
                table.row(row);
            }
            Measured::Spawns(spawns) => {
                let median = match (spawns.call_to_first_byte_seconds_median, &spawns.complaint) {
                    (None, Some(complaint)) => Cell::Absent(format!("all failed: {complaint}")),
                    (None, None) => Cell::Absent("none has said its first byte in time".to_owned()),
                    (median, _) => milliseconds(median),
                };
                table.row(vec![
                    record.label().into(),
                    on.into(),
                    median,
                    milliseconds(spawns.call_to_first_byte_seconds_min),
                    milliseconds(spawns.call_to_first_byte_seconds_p95),
                    milliseconds(spawns.call_to_all_first_bytes_seconds_median),
                    spawns.spawns_per_second.map_or_else(|| "".into(), Cell::from),
                    count(spawns.spawns as u64).into(),
                    count(spawns.failed as u64).into(),
                    count(spawns.timed_out as u64).into(),
                    landed(spawns).into(),
                ]);
            }
        }
    }
    table.note("From before the call until the process's first byte has arrived. fork, namespaces and rpc: the process stays a copy of ours; MPI: it has initialised MPI.");
    table
}

/// The methods from the best, one process at a time, with the source's index.
#[must_use]
pub fn ranking(records: &[Record]) -> Table {
    let mut table = Table::new("Ranking, one process at a time")
        .words("method")
        .words("on")
        .numbers("index")
        .numbers("times the best")
        .numbers("call to first byte, median (ms)");
    let times = records.iter().filter(|record| record.at_once == 1).filter_map(|record| match &record.result {
        Measured::Spawns(spawns) => Some((record, spawns.call_to_first_byte_seconds_median?)),
        Measured::Absent { .. } => None,
    });
    let times = times.map(|(record, seconds)| ((record, seconds), seconds)).collect();
    for ((record, seconds), ratio, index) in ranked(times) {
        table.row(vec![
            record.label().into(),
            record.target.clone().unwrap_or_else(|| "this machine".to_owned()).into(),
            format!("{index:.0}").into(),
            significant(ratio).into(),
            (seconds * 1e3).into(),
        ]);
    }
    table.note("Index: 1 is the best, 5 has 30 % less of the rate, each step the same ratio (index = 1 + 4 ln(times the best) / ln(1/0.7)).");
    table
}

/// All tables of a run, in order.
#[must_use]
pub fn all(records: &[Record]) -> Vec<Table> {
    let mut tables: Vec<Table> = at_once(records).into_iter().map(|number| results(records, number)).collect();
    tables.push(ranking(records));
    tables.retain(|table| !table.is_empty());
    tables
}

#[cfg(test)]
mod tests {
    use super::super::Method;
    use super::super::record::Tally;
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn refusals_are_rows_with_their_reasons() {
        let mut refused = Tally::default();
        refused.failed(3, "MPI_Comm_spawn failed: not supported");
        let mut spoke = Tally::default();
        spoke.spoke(0.002, "n1".into());
        spoke.together(0.002);
        let records = [
            record(Method::MpiSpawn, None, 1, Measured::Spawns(refused.finish(1))),
            record(Method::Rsh, None, 1, Measured::Absent { reason: "there is no rsh".into() }),
            record(Method::Ssh, Some("n1"), 1, Measured::Spawns(spoke.finish(1))),
            record(Method::Fork, None, 4, Measured::Spawns(Tally::default().finish(4))),
        ];
        let text = results(&records, 1).text();
        for words in ["not supported", "there is no rsh", "n1 (1)", "2.00"] {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert_eq!(at_once(&records), [1, 4]);
        assert!(ranking(&records).text().lines().count() > 3);
        assert_eq!(all(&records).len(), 3);
    }
}
