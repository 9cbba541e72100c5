//! Which file system a process's reads and writes went to, estimated from its open files.
//!
//! The kernel counts bytes by process, not by file. What a thread's counters grew by between two samples is divided among the
//! mounts of the files that the process had open, in proportion to how far their positions moved. Where no position moved (calls that
//! name an offset, a file rewound to where it was) and all that it has open for them lies on one mount, it is that one; else nobody can say. Only
//! fdinfo and mountinfo are read: no call here reaches a file system, which may hang.

use std::collections::HashMap;
use std::fs;

/// A mount by its number in mountinfo.
pub type MountId = u64;

/// An open file, in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFile {
    /// Where it lies; pipes and sockets have mounts that no list shows.
    pub mount: MountId,
    /// The position of the next read or write.
    pub position_bytes: u64,
    /// Whether it was opened for reading.
    pub reads: bool,
    /// Whether it was opened for writing.
    pub writes: bool,
}

/// Reads /proc/PID/fdinfo/FD.
#[must_use]
pub fn parse(text: &str) -> Option<OpenFile> {
    let field = |key: &str| text.lines().find_map(|line| Some(line.strip_prefix(key)?.trim()));
    let flags = u64::from_str_radix(field("flags:")?, 8).ok()?;
    // O_WRONLY is 1, O_RDWR 2.
    let access = flags & 3;
    Some(OpenFile {
        mount: field("mnt_id:")?.parse().ok()?,
        position_bytes: field("pos:")?.parse::<u64>().unwrap_or(0),
        reads: access != 1,
        writes: access != 0,
    })
}

/// The open files of a process by descriptor, `files_max` of them at most.
#[must_use]
pub fn of(pid: i32, files_max: usize) -> HashMap<String, OpenFile> {
    let directory = format!("/proc/{pid}/fdinfo");
    let Ok(entries) = fs::read_dir(&directory) else { return HashMap::new() };
    let names = entries.take(files_max).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter_map(|name| {
            let file = parse(&fs::read_to_string(format!("{directory}/{name}")).ok()?)?;
            Some((name, file))
        })
        .collect()
}

/// Bytes and calls of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Amount {
    /// Bytes.
    pub bytes: f64,
    /// Calls.
    pub calls: f64,
}

/// What went to each mount; `None` stands for what could not be placed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placed {
    /// Reads.
    pub read: HashMap<Option<MountId>, Amount>,
    /// Writes.
    pub written: HashMap<Option<MountId>, Amount>,
}

/// The two directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

impl Placed {
    /// Divides what a process moved between two samples, in one direction, among the mounts of its open files. `holds_files`
    /// tells a mount of files from those of devices, pipes and sockets, whose positions mean nothing.
    pub fn add(
        &mut self,
        direction: Direction,
        amount: Amount,
        before: &HashMap<String, OpenFile>,
        now: &HashMap<String, OpenFile>,
        holds_files: impl Fn(MountId) -> bool,
    ) {
        let placed = match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.written,
        };
        let fits = |file: &OpenFile| match direction {
            Direction::Read => file.reads,
            Direction::Write => file.writes,
        };
        let mut moved: HashMap<MountId, f64> = HashMap::new();
        for (name, file) in now.iter().filter(|(_, file)| fits(file)) {
            // A descriptor that names another file by now began at 0.
            let position =
                before.get(name).filter(|older| older.mount == file.mount).map_or(0, |older| older.position_bytes);
            // More than was moved altogether can only be a seek.
            let distance = (file.position_bytes.abs_diff(position) as f64).min(amount.bytes);
            *moved.entry(file.mount).or_default() += distance;
        }
        let total: f64 = moved.values().sum();
        let mut put = |mount, share: f64| {
            let place = placed.entry(mount).or_default();
            place.bytes += amount.bytes * share;
            place.calls += amount.calls * share;
        };
        if total > 0.0 {
            moved.into_iter().for_each(|(mount, distance)| put(Some(mount), distance / total));
            return;
        }
        // A pipe, a terminal or /dev/null may have taken it all as well.
        let mut candidates = moved.into_keys();
        match (candidates.next(), candidates.next()) {
            (Some(only), None) if holds_files(only) => put(Some(only), 1.0),
            _ => put(None, 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn files(list: &[(u64, u64, bool, bool)]) -> HashMap<String, OpenFile> {
        let file = |&(mount, position_bytes, reads, writes)| OpenFile { mount, position_bytes, reads, writes };
        list.iter().enumerate().map(|(index, entry)| (index.to_string(), file(entry))).collect()
    }

    fn place(before: &[(u64, u64, bool, bool)], now: &[(u64, u64, bool, bool)]) -> Vec<(Option<u64>, f64)> {
        let mut placed = Placed::default();
        let amount = Amount { bytes: 100.0, calls: 10.0 };
        placed.add(Direction::Read, amount, &files(before), &files(now), |mount| mount < 100);
        let mut places: Vec<_> = placed.read.into_iter().map(|(mount, amount)| (mount, amount.bytes)).collect();
        places.sort_by_key(|place| place.0);
        places
    }

    #[test]
    fn bytes_go_where_positions_moved() {
        let two = [(1, 0, true, false), (2, 0, true, true)];
        assert_eq!(place(&two, &[(1, 30, true, false), (2, 10, true, true)]), [(Some(1), 75.0), (Some(2), 25.0)]);
        // A file that is only written takes no reads, and a seek counts for no more than was read.
        assert_eq!(place(&two, &[(1, 9, true, false), (2, 900, false, true)]), [(Some(1), 100.0)]);
        assert_eq!(place(&two, &[(1, 100, true, false), (2, 1 << 40, true, true)]), [(Some(1), 50.0), (Some(2), 50.0)]);
    }

    #[test]
    fn where_nothing_moved_a_single_mount_is_believed() {
        assert_eq!(place(&[], &[(1, 0, true, true), (1, 0, true, true), (200, 0, false, true)]), [(Some(1), 100.0)]);
        assert_eq!(place(&[], &[(1, 0, true, true), (200, 0, true, true)]), [(None, 100.0)]);
        assert_eq!(place(&[], &[(200, 0, true, true)]), [(None, 100.0)]);
        assert_eq!(place(&[], &[(1, 0, true, true), (2, 0, true, true)]), [(None, 100.0)]);
        assert_eq!(place(&[], &[]), [(None, 100.0)]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_made(
            before in proptest::collection::vec((0..4_u64, any::<u64>(), any::<bool>(), any::<bool>()), 0..6),
            now in proptest::collection::vec((0..4_u64, any::<u64>(), any::<bool>(), any::<bool>()), 0..6),
        ) {
            let total: f64 = place(&before, &now).iter().map(|(_, bytes)| bytes).sum();
            prop_assert!((total - 100.0).abs() < 1e-6, "{}", total);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(?s).{0,120}") {
            let _ = parse(&text);
            let _ = parse(&format!("pos:\t{text}\nflags:\t{text}\nmnt_id:\t{text}\n"));
        }
    }

    #[test]
    fn fdinfo_is_read_as_the_kernel_writes_it() {
        let found = parse("pos:\t512\nflags:\t0100002\nmnt_id:\t27\nino:\t9\n").unwrap();
        assert_eq!(found, OpenFile { mount: 27, position_bytes: 512, reads: true, writes: true });
        let file = tempfile::tempfile().unwrap();
        file.set_len(10).unwrap();
        let here = of(i32::try_from(std::process::id()).unwrap(), 1000);
        assert!(here.values().any(|file| file.reads && file.writes), "{here:?}");
    }
}
