//! Today's figures in the form of the source's tables of spawning, as Markdown; how captions and text disagree, see
//! `crate::communication::source_tables`.

use super::method::Method;
use super::record::{Measured, Record};
use super::tables;
use crate::communication::ranking::ranked;
use crate::report::{Cell, Table, significant};

fn median_ms(record: &Record) -> Option<f64> {
    match &record.result {
        Measured::Spawns(spawns) => spawns.call_to_first_byte_seconds_median.map(|seconds| seconds * 1e3),
        Measured::Absent { .. } => None,
    }
}

fn why_not(record: &Record) -> Cell {
    match &record.result {
        Measured::Absent { reason } => Cell::Absent(reason.clone()),
        Measured::Spawns(spawns) => {
            Cell::Absent(spawns.complaint.clone().unwrap_or_else(|| "none spoke in time".to_owned()))
        }
    }
}

/// Whether processes landed on another machine than the command's.
fn is_remote(record: &Record) -> bool {
    match &record.result {
        Measured::Spawns(spawns) => {
            spawns.landed.keys().any(|host| *host != record.host.name) || record.target.is_some()
        }
        Measured::Absent { .. } => record.target.is_some(),
    }
}

fn times(caption: &str, records: &[Record], wanted: impl Fn(&Record) -> bool) -> Table {
    let mut table =
        Table::new(caption).words("mechanism").words("from").words("to").numbers("call to first byte, median (ms)");
    for record in records.iter().filter(|record| record.at_once == 1 && wanted(record)) {
        let to = record.target.clone().unwrap_or_else(|| record.host.name.clone());
        let landed = match &record.result {
            Measured::Spawns(spawns) if !spawns.landed.is_empty() => {
                spawns.landed.keys().cloned().collect::<Vec<_>>().join(", ")
            }
            _ => to,
        };
        let median = median_ms(record).map_or_else(|| why_not(record), Cell::from);
        table.row(vec![record.label().into(), record.host.name.clone().into(), landed.into(), median]);
    }
    table
}

/// Table 2 as its caption has it: spawning between processors of the cluster.
#[must_use]
pub fn table_2(records: &[Record]) -> Table {
    let mut table = times("Table 2 by its caption, Table 3 by the text: spawning between nodes", records, is_remote);
    table.note("The caption of Table 2: spawning between processors of the Linux cluster. The text gives Table 3 that content, and Table 2 another (socket latency: `afflux bench comm --tables`).");
    table
}

/// Table 3 as its caption has it: spawning within one machine.
#[must_use]
pub fn table_3(records: &[Record]) -> Table {
    let mut table = times("Table 3 by its caption: spawning within one machine", records, |record| !is_remote(record));
    table.note("The caption: spawning within the processor of a Linux PC (mostly for ssh, which the source's cluster did not have). The text calls one and the same table the PC's and, further down, the cluster's.");
    table
}

/// Tables 4 and 5 as their captions have them: the ranking.
#[must_use]
pub fn table_4(records: &[Record]) -> Table {
    let mut table = tables::ranking(records);
    table.set_caption("Tables 4 and 5 by their captions: spawning ranked");
    table.note("Table 4 and Table 5 are a detailed and a simple ranking of spawning by their captions; by the text Table 5 ranks communication (`afflux bench comm --tables`).");
    table
}

/// What the source's text says, and what is measured today.
#[must_use]
pub fn claims(records: &[Record]) -> Table {
    let mut table = Table::new("The source's text and today").words("the source").words("today").words("still so");
    let find = |method: Method| {
        records.iter().find(|record| record.method == method && record.at_once == 1 && median_ms(record).is_some())
    };
    let ms = |method: Method| find(method).and_then(median_ms);
    let mut add = |said: &str, today: Option<(String, bool)>| {
        if let Some((today, holds)) = today {
            table.row(vec![said.into(), today.into(), if holds { "yes" } else { "no" }.into()]);
        }
    };
    for method in [Method::Rsh, Method::Ssh] {
        add(
            &format!("{method} takes about 1/10 s a spawn and is not recommended"),
            ms(method).map(|ms| (format!("{} ms", significant(ms)), ms > 50.0)),
        );
    }
    add("RPC is very efficient, and costs less than the other ways to another node", {
        let others = [Method::Rsh, Method::Ssh, Method::Launcher, Method::MpiSpawn];
        let best = others.into_iter().filter_map(|method| Some((method, ms(method)?)));
        let best = best.min_by(|a, b| a.1.total_cmp(&b.1));
        ms(Method::Rpc).zip(best).map(|(rpc, (method, other))| {
            (format!("{} ms; the next is {method}, {} ms", significant(rpc), significant(other)), rpc < other)
        })
    });
    add(
        "two processes that MPI spawns one after the other land on the same node, several at once on different ones",
        landings(records),
    );
    add(
        "fork is the cheapest",
        ms(Method::Fork).map(|fork| {
            let all: Vec<(String, f64)> = records
                .iter()
                .filter(|record| record.at_once == 1)
                .filter_map(|record| Some((record.label(), median_ms(record)?)))
                .collect();
            let ranks = ranked(all);
            let best = ranks.first().map_or_else(String::new, |(label, _, _)| label.clone());
            (format!("fork {} ms; the cheapest is {best}", significant(fork)), best == "fork")
        }),
    );
    table
}

/// Where the processes of MPI's spawn are, one at a time and several at once.
fn landings(records: &[Record]) -> Option<(String, bool)> {
    let of = |at_once: fn(usize) -> bool| {
        records.iter().filter(|record| record.method == Method::MpiSpawn && at_once(record.at_once)).find_map(
            |record| match &record.result {
                Measured::Spawns(spawns) if !spawns.landed.is_empty() => {
                    Some(spawns.landed.keys().cloned().collect::<Vec<_>>())
                }
                _ => None,
            },
        )
    };
    let (single, several) = (of(|number| number == 1)?, of(|number| number > 1)?);
    let today = format!("one at a time on {}; several at once on {}", single.join(", "), several.join(", "));
    Some((today, single.len() == 1 && several.len() > 1))
}

/// Everything as Markdown.
#[must_use]
pub fn markdown(records: &[Record]) -> String {
    let mut all = vec![table_2(records), table_3(records), table_4(records)];
    all.extend(tables::at_once(records).into_iter().map(|number| tables::results(records, number)));
    all.push(claims(records));
    all.retain(|table| !table.is_empty());
    all.iter().map(Table::markdown).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::record::Tally;
    use super::super::record::tests::record;
    use super::*;

    fn spawns(milliseconds: f64, hosts: &[&str]) -> Measured {
        let mut tally = Tally::default();
        for host in hosts {
            tally.spoke(milliseconds * 1e-3, (*host).to_owned());
        }
        Measured::Spawns(tally.finish(1))
    }

    fn records() -> Vec<Record> {
        vec![
            record(Method::Fork, None, 1, spawns(0.3, &[""])),
            record(Method::Ssh, Some("n1"), 1, spawns(200.0, &["n1"])),
            record(Method::Rpc, Some("n1"), 1, spawns(0.5, &[""])),
            record(Method::MpiSpawn, None, 1, spawns(30.0, &["here", "here"])),
            record(Method::MpiSpawn, None, 4, spawns(40.0, &["here", "n1", "n2"])),
            record(Method::Rsh, None, 1, Measured::Absent { reason: "no rsh here".into() }),
        ]
    }

    #[test]
    fn what_stays_here_is_told_from_what_goes_elsewhere() {
        let (between, within) = (table_2(&records()).text(), table_3(&records()).text());
        assert!(between.contains("ssh") && between.contains("rpc") && !between.contains("fork"), "{between}");
        assert!(within.contains("fork") && within.contains("no rsh here") && !within.contains("ssh  "), "{within}");
    }

    #[test]
    fn each_sentence_of_the_source_meets_todays_figures() {
        let text = claims(&records()).text();
        let yes = |words: &str| text.lines().any(|line| line.contains(words) && line.ends_with("yes"));
        assert!(yes("ssh takes") && yes("RPC is very efficient") && yes("several at once") && yes("fork is"), "{text}");
        assert!(!text.contains("rsh takes"), "nothing is said of what was not measured: {text}");
        assert!(markdown(&records()).contains("Table 3 by its caption"));
    }
}
