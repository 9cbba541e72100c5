//! Results of spawning on a page.

use super::record::{Measured, Record};
use super::tables;
use crate::report::{Axis, Bar, BarGroup, Bars, Page};

/// Times to the first byte, a bar for each number of processes at once.
#[must_use]
pub fn chart(records: &[Record]) -> Bars {
    let numbers = tables::at_once(records);
    let mut groups: Vec<BarGroup> = Vec::new();
    for record in records {
        let label = match &record.target {
            Some(host) => format!("{} on {host}", record.label()),
            None => record.label(),
        };
        let Measured::Spawns(spawns) = &record.result else { continue };
        let Some(seconds) = spawns.call_to_first_byte_seconds_median else { continue };
        let series = numbers.iter().position(|number| *number == record.at_once).unwrap_or(0);
        let bar = Bar { series, value: seconds * 1e3 };
        match groups.iter_mut().find(|group| group.label == label) {
            Some(group) => group.bars.push(bar),
            None => groups.push(BarGroup { label, bars: vec![bar] }),
        }
    }
    Bars {
        title: "From the call to the first byte".to_owned(),
        axis_title: "median (ms), logarithmic".to_owned(),
        axis: Axis::Logarithmic,
        series: numbers.iter().map(|number| format!("{number} at once")).collect(),
        groups,
    }
}

/// The whole page.
#[must_use]
pub fn page(records: &[Record]) -> Page {
    let mut page = Page::new("Starting processes");
    if let Some(first) = records.first() {
        page.facts([
            ("host", first.host.name.clone()),
            ("processor", format!("{}, {} of them", first.host.cpu, first.host.cores)),
            ("kernel", first.host.kernel.clone()),
            ("command", first.command.clone()),
        ]);
    }
    page.section("From the call to the first byte");
    page.bars(&chart(records));
    for table in tables::all(records) {
        page.table(&table);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::Method;
    use super::super::record::Tally;
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn one_bar_a_number_at_once() {
        let spawns = || {
            let mut tally = Tally::default();
            tally.spoke(1e-3, String::new());
            Measured::Spawns(tally.finish(1))
        };
        let records = [
            record(Method::Fork, None, 1, spawns()),
            record(Method::Fork, None, 4, spawns()),
            record(Method::Rsh, None, 1, Measured::Absent { reason: "no rsh".into() }),
        ];
        let chart = chart(&records);
        assert_eq!((chart.groups.len(), chart.groups[0].bars.len(), chart.series.len()), (1, 2, 2));
        assert!(page(&records).html().contains("no rsh"));
    }
}
