//! The kernel's texts about processes and devices, as numbers: /proc/PID/{stat,io,schedstat}, pressure files, `key value` files,
//! /proc/diskstats. Pure: nothing is opened here, and a text that is not as proc(5) says gives `None`, never a panic.

use serde::{Deserialize, Serialize};

/// /proc/PID/stat, in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Process, or thread where it is a thread's file.
    pub pid: i32,
    /// File name of the program, cut to 15 bytes.
    pub name: String,
    /// R running or runnable, S sleeping, D waiting for a device, Z ended but not waited for, ...
    pub state: char,
    /// The parent process.
    pub parent: i32,
    /// Page faults that needed a device.
    pub major_faults: u64,
    /// Time in user mode, in clock ticks, of all threads.
    pub user_ticks: u64,
    /// Time in the kernel.
    pub system_ticks: u64,
    /// User time of children that ended and were waited for.
    pub children_user_ticks: u64,
    /// System time of those.
    pub children_system_ticks: u64,
    /// Threads.
    pub threads: u64,
    /// When it started, in ticks since the machine did: with `pid` it names a process for good.
    pub start_ticks: u64,
    /// Resident memory, in pages.
    pub resident_pages: u64,
    /// Time spent waiting for block devices, of the main thread; 0 where delay accounting is off.
    pub device_wait_ticks: u64,
}

/// Reads /proc/PID/stat. The name stands in parentheses and may hold any of the separators.
#[must_use]
pub fn stat(text: &str) -> Option<Stat> {
    let (before, rest) = text.split_once(" (")?;
    let (name, after) = rest.rsplit_once(") ")?;
    // Field 3 of proc(5) is the first after the name.
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    // Times of children are signed in the kernel's format.
    let signed = |field: usize| u64::try_from(fields.get(field - 3)?.parse::<i64>().ok()?.max(0)).ok();
    Some(Stat {
        pid: before.parse().ok()?,
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        major_faults: number(12)?,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        children_user_ticks: signed(16)?,
        children_system_ticks: signed(17)?,
        threads: number(20)?,
        start_ticks: number(22)?,
        resident_pages: signed(24)?,
        device_wait_ticks: number(42).unwrap_or(0),
    })
}

/// /proc/PID/io: what a process read and wrote. A process's file counts its children that were waited for, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoCounters {
    /// Bytes that read calls returned, from the page cache, pipes and terminals as well.
    pub read_bytes: u64,
    /// Bytes that write calls took.
    pub written_bytes: u64,
    /// Read calls.
    pub read_calls: u64,
    /// Write calls.
    pub write_calls: u64,
    /// Bytes fetched from block devices.
    pub device_read_bytes: u64,
    /// Bytes of pages made dirty, which are to be written to block devices.
    pub device_written_bytes: u64,
    /// Of those, dropped before they were written, since the file was removed or cut.
    pub cancelled_write_bytes: u64,
}

/// Reads /proc/PID/io.
#[must_use]
pub fn io(text: &str) -> Option<IoCounters> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": ")?.parse().ok());
    Some(IoCounters {
        read_bytes: value("rchar")?,
        written_bytes: value("wchar")?,
        read_calls: value("syscr")?,
        write_calls: value("syscw")?,
        device_read_bytes: value("read_bytes")?,
        device_written_bytes: value("write_bytes")?,
        cancelled_write_bytes: value("cancelled_write_bytes")?,
    })
}

impl IoCounters {
    /// Combines two, counter by counter.
    #[must_use]
    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            read_bytes: with(self.read_bytes, other.read_bytes),
            written_bytes: with(self.written_bytes, other.written_bytes),
            read_calls: with(self.read_calls, other.read_calls),
            write_calls: with(self.write_calls, other.write_calls),
            device_read_bytes: with(self.device_read_bytes, other.device_read_bytes),
            device_written_bytes: with(self.device_written_bytes, other.device_written_bytes),
            cancelled_write_bytes: with(self.cancelled_write_bytes, other.cancelled_write_bytes),
        }
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    /// The difference, 0 where it would be negative.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    /// The larger of each: counters only grow, a sample taken while a child is waited for may show less.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.zip(other, u64::max)
    }
}

/// The second number of /proc/PID/schedstat: nanoseconds for which the thread could have run and waited for a processor.
#[must_use]
pub fn run_queue_wait_ns(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Stall totals of a pressure file (`cpu`, `io`, `memory`), in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// At least one task was stalled.
    pub some_us: u64,
    /// All tasks that had something to do were.
    pub full_us: u64,
}

/// Reads a pressure file. Kernels before 5.13 give no `full` line for processors.
#[must_use]
pub fn pressure(text: &str) -> Option<Pressure> {
    let total = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
        line.split(' ').find_map(|field| field.strip_prefix("total=")?.parse().ok())
    };
    Some(Pressure { some_us: total("some")?, full_us: total("full").unwrap_or(0) })
}

/// The number after a key in a file of `key number` lines: cpu.stat, memory.events, memory.oom_control, /proc/vmstat.
#[must_use]
pub fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// A line of /proc/diskstats: what a block device did since the machine started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Read requests completed.
    pub read_requests: u64,
    /// Bytes they brought.
    pub read_bytes: u64,
    /// Write requests completed.
    pub write_requests: u64,
    /// Bytes they took.
    pub written_bytes: u64,
    /// Milliseconds during which a request was under way.
    pub busy_ms: u64,
}

/// Finds the device `major:minor` in /proc/diskstats.
#[must_use]
pub fn disk(text: &str, (major, minor): (u64, u64)) -> Option<DiskCounters> {
    // Documentation/admin-guide/iostats.rst: a sector is 512 bytes here, whatever the device's is.
    const SECTOR_BYTES: u64 = 512;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        if (number(0)?, number(1)?) != (major, minor) {
            return None;
        }
        Some(DiskCounters {
            read_requests: number(3)?,
            read_bytes: number(5)?.saturating_mul(SECTOR_BYTES),
            write_requests: number(7)?,
            written_bytes: number(9)?.saturating_mul(SECTOR_BYTES),
            busy_ms: number(12)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A line as fs/proc/array.c prints it, with values that can be told apart.
    fn stat_line(pid: i32, name: &str, state: char, values: &[u64; 12]) -> String {
        let [parent, faults, user, system, children_user, children_system, threads, start, resident, wait, _, _] =
            values;
        let parent = parent % 4_194_304;
        format!(
            "{pid} ({name}) {state} {parent} 1 1 0 -1 4194560 90 91 {faults} 93 {user} {system} {children_user} \
             {children_system} 20 0 {threads} 0 {start} 1000000 {resident} 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 \
             0 0 {wait} 0 0 0 0 0 0 0 0 0 0\n"
        )
    }

    proptest! {
        #[test]
        fn a_process_may_have_any_name(
            pid in 1..i32::MAX,
            name in "[^\n\0]{1,15}",
            state in proptest::sample::select(vec!['R', 'S', 'D', 'Z', 'T', 'I']),
            values in proptest::array::uniform12(0..i64::MAX as u64),
        ) {
            let found = stat(&stat_line(pid, &name, state, &values)).unwrap();
            prop_assert_eq!((found.pid, found.state), (pid, state));
            prop_assert_eq!(found.name, name);
            prop_assert_eq!((found.user_ticks, found.system_ticks), (values[2], values[3]));
            prop_assert_eq!((found.children_user_ticks, found.children_system_ticks), (values[4], values[5]));
            prop_assert_eq!((found.threads, found.start_ticks), (values[6], values[7]));
            prop_assert_eq!((found.resident_pages, found.device_wait_ticks), (values[8], values[9]));
        }

        #[test]
        fn counters_come_back_as_they_were_written(values in proptest::array::uniform7(any::<u64>())) {
            let [rchar, wchar, syscr, syscw, read, write, cancelled] = values;
            let text = format!(
                "rchar: {rchar}\nwchar: {wchar}\nsyscr: {syscr}\nsyscw: {syscw}\nread_bytes: {read}\nwrite_bytes: {write}\n\
                 cancelled_write_bytes: {cancelled}\n"
            );
            let found = io(&text).unwrap();
            prop_assert_eq!((found.read_bytes, found.written_bytes, found.device_read_bytes), (rchar, wchar, read));
            prop_assert_eq!(found.minus(found), IoCounters::default());
            prop_assert_eq!(found.max(IoCounters::default()), found);
            prop_assert_eq!(io(&text[..text.len() - 30]), None, "a text cut short is none");
        }

        #[test]
        fn no_text_makes_a_parser_panic(text in "(?s).{0,200}", cut in 0..400_usize) {
            let line = stat_line(1, &text.replace('\n', ""), 'R', &[7; 12]);
            let cut = line.char_indices().map(|(at, _)| at).take_while(|&at| at <= cut).last().unwrap_or(0);
            for text in [text.as_str(), &line[..cut]] {
                let _ = (stat(text), io(text), run_queue_wait_ns(text), pressure(text), keyed(text, "a"), disk(text, (7, 0)));
            }
        }

        #[test]
        fn pressure_totals(some in any::<u64>(), full in any::<u64>()) {
            let some_line = format!("some avg10=0.00 avg60=0.28 avg300=1.21 total={some}\n");
            prop_assert_eq!(pressure(&some_line), Some(Pressure { some_us: some, full_us: 0 }));
            let both = format!("{some_line}full avg10=0.00 avg60=0.20 avg300=0.86 total={full}\n");
            prop_assert_eq!(pressure(&both), Some(Pressure { some_us: some, full_us: full }));
        }
    }

    #[test]
    fn keys_are_whole_words() {
        let text = "usage_usec 5\nuser_usec 3\noom_kill_disable 0\nunder_oom 0\noom_kill 2\n";
        assert_eq!(keyed(text, "user_usec"), Some(3));
        assert_eq!(keyed(text, "oom_kill"), Some(2));
        assert_eq!(keyed(text, "oom"), None);
    }

    #[test]
    fn a_disk_is_found_by_its_numbers() {
        let text =
            "   7       0 loop0 10 2 80 4 20 1 160 9 0 55 13 0 0 0 0 0 0\n   7       1 loop1 0 0 0 0 0 0 0 0 0 0 0\n";
        let found = disk(text, (7, 0)).unwrap();
        assert_eq!((found.read_requests, found.read_bytes), (10, 40_960));
        assert_eq!((found.write_requests, found.written_bytes, found.busy_ms), (20, 81_920, 55));
        assert_eq!(disk(text, (8, 0)), None);
        assert_eq!(run_queue_wait_ns("12 345 6\n"), Some(345));
    }

    #[test]
    fn this_process_reads_as_it_should() {
        let text = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap();
        let found = stat(&text("stat")).unwrap();
        assert_eq!(found.pid, i32::try_from(std::process::id()).unwrap());
        assert!(found.threads >= 1 && found.resident_pages > 100, "{found:?}");
        assert!(io(&text("io")).unwrap().read_calls > 0);
    }
}
