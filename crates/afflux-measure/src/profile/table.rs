//! The table of source 003: rows of job, disk and file system; columns user, system, processor, elapsed and idle time; and a
//! verdict in words, drawn the way the source draws it.

use super::result::Profile;
use crate::report::{Cell, Page, StackedBar, StackedBars, Table};
use std::fmt::Write as _;

/// Idle time beyond this part of the elapsed time is worth a faster disk; the source calls jobs below it well served by any.
const IDLE_SHARE_MAX: f64 = 0.05;
/// Differences below this part are within what single runs vary.
const NOISE_SHARE: f64 = 0.03;

/// One line of the table.
#[derive(Debug, Clone, Copy)]
struct Row<'a> {
    profile: &'a Profile,
}

impl Row<'_> {
    fn disk(&self) -> String {
        match &self.profile.scratch {
            Some(scratch) if !scratch.label.is_empty() => scratch.label.clone(),
            Some(scratch) if !scratch.file_system.source.is_empty() => scratch.file_system.source.clone(),
            Some(scratch) => scratch.directory.clone(),
            None => "-".to_owned(),
        }
    }

    fn kind(&self) -> &str {
        self.profile.scratch.as_ref().map_or("-", |scratch| scratch.file_system.kind.as_str())
    }

    /// How it is called in sentences.
    fn name(&self) -> String {
        let (disk, kind) = (self.disk(), self.kind());
        if disk == kind { disk } else { format!("{kind} on {disk}") }
    }
}

/// The table, jobs in the order of the profiles.
#[must_use]
pub fn table(profiles: &[Profile]) -> Table {
    let mut table = Table::new("Jobs on scratch disks").words("job").words("disk").words("file system");
    let times = ["user", "system", "cpu", "elapsed", "idle", "device", "run queue", "other"];
    for title in times {
        table = table.numbers(format!("{title} (s)"));
    }
    table = table.words("end");
    let mut previous = "";
    for row in profiles.iter().map(|profile| Row { profile }) {
        let profile = row.profile;
        let job = if profile.job == previous { "" } else { &profile.job };
        let mut cells = vec![Cell::from(job), Cell::from(row.disk()), Cell::from(row.kind())];
        let idle = &profile.idle;
        let figures = [
            profile.user_seconds,
            profile.system_seconds,
            profile.cpu_seconds,
            profile.elapsed_seconds,
            profile.idle_seconds,
            idle.device_seconds,
            idle.run_queue_seconds,
            idle.other_seconds,
        ];
        cells.extend(figures.iter().map(|figure| Cell::from(format!("{figure:.2}"))));
        cells.push(Cell::from(remark(profile)));
        table.row(cells);
        previous = &profile.job;
    }
    table.note("Idle is elapsed less cpu; device, run queue and other are its parts.");
    table
}

/// One page: for each job the stacked times on each disk and the verdict, then the table.
#[must_use]
pub fn page(profiles: &[Profile]) -> String {
    let mut page = Page::new("Jobs on scratch disks");
    if let Some(first) = profiles.first() {
        let host = &first.host;
        page.facts([("host", format!("{}, {} processors, {}", host.cpu, host.cores, host.kernel))]);
    }
    for job in profiles.chunk_by(|a, b| a.job == b.job) {
        page.section(&job[0].job);
        page.facts([("command", job[0].command.join(" "))]);
        let bars = job.iter().map(|profile| StackedBar {
            label: Row { profile }.name(),
            values: vec![
                profile.user_seconds,
                profile.system_seconds,
                profile.idle.device_seconds,
                profile.idle.run_queue_seconds,
                profile.idle.other_seconds,
            ],
        });
        page.stacked_bars(&StackedBars {
            title: format!("{}: where the elapsed time went", job[0].job),
            axis_title: "s".to_owned(),
            parts: ["user", "system", "idle: device", "idle: run queue", "idle: other"].map(str::to_owned).to_vec(),
            bars: bars.collect(),
        });
        page.paragraph(&verdict(job));
    }
    page.section("All figures");
    page.table(&table(profiles));
    page.html()
}

fn remark(profile: &Profile) -> String {
    if profile.killed || profile.ended.exit_code.is_some_and(|code| code != 0) {
        profile.ended.words()
    } else {
        String::new()
    }
}

/// What the table says, a paragraph for each job.
#[must_use]
pub fn verdict(profiles: &[Profile]) -> String {
    let mut text = String::new();
    for job in profiles.chunk_by(|a, b| a.job == b.job) {
        let rows: Vec<Row<'_>> = job.iter().map(|profile| Row { profile }).collect();
        let (complete, failed): (Vec<Row<'_>>, Vec<Row<'_>>) =
            rows.into_iter().partition(|row| !row.profile.killed && row.profile.ended.exit_code == Some(0));
        let _ = write!(text, "{}: ", job[0].job);
        text.push_str(&judge(&complete));
        for row in failed {
            let _ = write!(text, " On {}: {}; that row is left out.", row.name(), row.profile.ended.words());
        }
        text.push('\n');
    }
    text
}

fn judge(rows: &[Row<'_>]) -> String {
    let by = |of: fn(&Profile) -> f64| {
        let mut sorted: Vec<&Row<'_>> = rows.iter().collect();
        sorted.sort_by(|a, b| of(a.profile).total_cmp(&of(b.profile)));
        Some((*sorted.first()?, *sorted.last()?))
    };
    let Some((fastest, slowest)) = by(|profile| profile.elapsed_seconds) else {
        return "no run came to its end.".to_owned();
    };
    if rows.len() == 1 {
        return format!("only {} has a complete run; nothing to compare.", fastest.name());
    }
    let mut text = idle_words(rows);
    let (quick, slow) = (fastest.profile.elapsed_seconds, slowest.profile.elapsed_seconds);
    if slow - quick <= NOISE_SHARE * slow {
        let _ =
            write!(text, " Elapsed times differ by {:.1} %, no more than single runs do.", percent(slow - quick, slow));
    } else {
        let _ = write!(
            text,
            " {} is the fastest with {quick:.1} s, {} the slowest with {slow:.1} s: {:.0} % longer.",
            fastest.name(),
            slowest.name(),
            percent(slow - quick, quick)
        );
    }
    if let Some((least, most)) = by(|profile| profile.system_seconds) {
        let (low, high) = (least.profile.system_seconds, most.profile.system_seconds);
        if high - low > NOISE_SHARE * quick {
            let _ = write!(
                text,
                " System time is where file systems differ by themselves: {low:.1} s with {}, {high:.1} s with {}.",
                least.name(),
                most.name()
            );
        }
    }
    text
}

/// Whether a faster disk would help, as the source puts it.
fn idle_words(rows: &[Row<'_>]) -> String {
    let share = |row: &Row<'_>| row.profile.idle_seconds / row.profile.elapsed_seconds.max(f64::MIN_POSITIVE);
    let idle: Vec<&Row<'_>> = rows.iter().filter(|row| share(row) > IDLE_SHARE_MAX).collect();
    let Some(worst) = idle.iter().max_by(|a, b| share(a).total_cmp(&share(b))) else {
        return format!(
            "idle time is below {:.0} % of elapsed time everywhere: the slowest disk serves this job.",
            100.0 * IDLE_SHARE_MAX
        );
    };
    let profile = worst.profile;
    let cause = [
        ("waiting for its disk", profile.idle.device_seconds),
        ("waiting for a processor", profile.idle.run_queue_seconds),
        ("waiting for something else", profile.idle.other_seconds),
    ];
    let cause = cause.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("", |(words, _)| words);
    let fewest = rows.iter().min_by(|a, b| share(a).total_cmp(&share(b))).unwrap_or(worst);
    format!(
        "with {} it idles {:.1} s, {:.0} % of its time, mostly {cause}; with {} {:.1} s ({:.0} %).",
        worst.name(),
        profile.idle_seconds,
        100.0 * share(worst),
        fewest.name(),
        fewest.profile.idle_seconds,
        100.0 * share(fewest)
    )
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::result::{Ended, How, Idle, Processes, Scratch, ThreadWaits};
    use super::*;
    use crate::host::{FileSystem, Host};
    use crate::profile::kernel::IoCounters;

    fn profile(job: &str, disk: &str, kind: &str, (user, system, elapsed): (f64, f64, f64)) -> Profile {
        let cpu = user + system;
        let idle = elapsed - cpu;
        let file_system = FileSystem { kind: kind.into(), ..FileSystem::default() };
        Profile {
            benchmark: "profile".into(),
            job: job.into(),
            command: vec![job.into()],
            scratch: Some(Scratch { directory: "/scratch".into(), label: disk.into(), file_system }),
            ended: Ended {
                how: How::Exited,
                exit_code: Some(0),
                signal: None,
                signal_number: None,
                told_to_end: None,
                out_of_memory_kills: 0,
                out_of_memory_source: String::new(),
            },
            killed: false,
            user_seconds: user,
            system_seconds: system,
            cpu_seconds: cpu,
            elapsed_seconds: elapsed,
            idle_seconds: idle,
            idle: Idle { device_seconds: idle, ..Idle::default() },
            reported: None,
            io: IoCounters::default(),
            file_systems: Vec::new(),
            file_systems_source: String::new(),
            peak_memory_bytes: 0,
            largest_process_bytes: 0,
            group_peak_memory_bytes: None,
            processes: Processes::default(),
            major_faults: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
            thread_waits: ThreadWaits::default(),
            samples: 1,
            interval_seconds: 0.1,
            timeline: Vec::new(),
            profiler_cpu_seconds: 0.0,
            host: Host { name: String::new(), kernel: String::new(), cpu: String::new(), cores: 1 },
            notes: Vec::new(),
        }
    }

    /// Rows of the source, and what it concludes from them.
    #[test]
    fn the_sources_rows_lead_to_its_conclusions() {
        let small = [
            profile("test415", "SATA", "ext2", (832.0, 185.0, 1018.0)),
            profile("test415", "SATA", "XFS", (832.0, 47.0, 881.0)),
            profile("test415", "RAID0", "XFS", (840.0, 50.0, 892.0)),
        ];
        let words = verdict(&small);
        assert!(words.contains("the slowest disk serves this job"), "{words}");
        assert!(words.contains("47.0 s with XFS on SATA, 185.0 s with ext2 on SATA"), "{words}");
        let large = [
            profile("large", "SATA", "XFS", (13474.0, 2164.0, 24851.0)),
            profile("large", "SAS", "XFS", (13539.0, 2218.0, 21671.0)),
            profile("large", "RAID0", "XFS", (13576.0, 2285.0, 18455.0)),
        ];
        let words = verdict(&large);
        assert!(words.contains("XFS on RAID0 is the fastest") && words.contains("waiting for its disk"), "{words}");
        let all = [small.as_slice(), &large].concat();
        let text = table(&all).text();
        assert!(text.contains("idle (s)") && text.contains("9213.00"), "{text}");
        assert!(page(&all).matches("</svg>").count() == 2 && page(&all).contains("slowest disk serves"));
    }

    #[test]
    fn a_run_that_was_killed_is_shown_and_left_out() {
        let mut rows = vec![profile("a", "x", "ext4", (1.0, 1.0, 4.0)), profile("a", "y", "xfs", (1.0, 1.0, 3.0))];
        rows[1].killed = true;
        rows[1].ended.how = How::Signalled;
        rows[1].ended.signal = Some("SIGKILL".into());
        assert!(table(&rows).text().contains("KILLED by SIGKILL"));
        let words = verdict(&rows);
        assert!(words.contains("only ext4 on x has a complete run") && words.contains("left out"), "{words}");
        rows.remove(0);
        assert!(verdict(&rows).contains("no run came to its end"));
    }

    #[test]
    fn a_profile_comes_back_from_its_file() {
        let made = profile("a", "x", "ext4", (1.0, 1.0, 4.0));
        let text = serde_json::to_string(&made).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), made);
        assert!(made.text().contains("idle 2.00 (50 % of elapsed)"), "{}", made.text());
    }
}
