//! What is measured, by name.

use std::fmt;
use std::str::FromStr;

/// A measurement of a directory's file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Test {
    /// A new file, block by block, left in the page cache.
    SequentialWrite,
    /// The same and fsync(2), inside the time.
    SequentialWriteFsync,
    /// The same past the page cache (`O_DIRECT`).
    SequentialWriteDirect,
    /// A file that was read just before: from the page cache where it fits.
    SequentialReadCached,
    /// A file that the page cache was told to drop.
    SequentialReadCold,
    /// Past the page cache.
    SequentialReadDirect,
    /// 4 KiB at random offsets of a file that the page cache was told to drop.
    RandomRead,
    /// The same past the page cache.
    RandomReadDirect,
    /// 4 KiB at random offsets of an existing file, past the page cache.
    RandomWriteDirect,
    /// Empty files in one directory.
    Create,
    /// Their attributes, from the kernel's memory.
    Stat,
    /// Their removal.
    Unlink,
    /// 4 KiB appended and fsync(2), one after the other.
    Fsync,
    /// The source's jobs: scratch files written once and read again and again with computing between.
    Scratch(ScratchJob),
}

/// A job of source 003, by its scratch files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScratchJob {
    /// test415: 1 GB and 2 GB.
    Test415,
    /// test567: 30 MB and 6 GB.
    Test567,
    /// test637: 8 GB.
    Test637,
    /// test653: 4 GB and 4 GB.
    Test653,
    /// The customer's job with 40 GB.
    Large,
}

impl ScratchJob {
    /// Sizes of its scratch files in the source, in bytes.
    #[must_use]
    pub fn source_file_bytes(self) -> &'static [u64] {
        const GB: u64 = 1_000_000_000;
        match self {
            Self::Test415 => &[GB, 2 * GB],
            Self::Test567 => &[30_000_000, 6 * GB],
            Self::Test637 => &[8 * GB],
            Self::Test653 => &[4 * GB, 4 * GB],
            Self::Large => &[40 * GB],
        }
    }

    /// The sizes scaled so that the large job has `large_bytes`, in whole blocks, one at least.
    #[must_use]
    pub fn file_bytes(self, large_bytes: u64, block_bytes: u64) -> Vec<u64> {
        let large: u64 = Self::Large.source_file_bytes()[0];
        let scaled = |bytes: u64| {
            let exact = u128::from(bytes) * u128::from(large_bytes) / u128::from(large);
            // No larger than `large_bytes`.
            u64::try_from(exact).unwrap_or(large_bytes).next_multiple_of(block_bytes).max(block_bytes)
        };
        self.source_file_bytes().iter().map(|&bytes| scaled(bytes)).collect()
    }
}

const NAMES: [(Test, &str); 18] = [
    (Test::SequentialWrite, "sequential-write"),
    (Test::SequentialWriteFsync, "sequential-write-fsync"),
    (Test::SequentialWriteDirect, "sequential-write-direct"),
    (Test::SequentialReadCached, "sequential-read-cached"),
    (Test::SequentialReadCold, "sequential-read-cold"),
    (Test::SequentialReadDirect, "sequential-read-direct"),
    (Test::RandomRead, "random-read"),
    (Test::RandomReadDirect, "random-read-direct"),
    (Test::RandomWriteDirect, "random-write-direct"),
    (Test::Create, "create"),
    (Test::Stat, "stat"),
    (Test::Unlink, "unlink"),
    (Test::Fsync, "fsync"),
    (Test::Scratch(ScratchJob::Test415), "scratch-test415"),
    (Test::Scratch(ScratchJob::Test567), "scratch-test567"),
    (Test::Scratch(ScratchJob::Test637), "scratch-test637"),
    (Test::Scratch(ScratchJob::Test653), "scratch-test653"),
    (Test::Scratch(ScratchJob::Large), "scratch"),
];

impl Test {
    /// Every test.
    pub const ALL: [Self; 18] = {
        let mut all = [Self::SequentialWrite; 18];
        let mut index = 0;
        while index < NAMES.len() {
            all[index] = NAMES[index].0;
            index += 1;
        }
        all
    };

    /// What is measured unless something else is asked for: all but the source's small jobs.
    #[must_use]
    pub fn usual() -> Vec<Self> {
        let small = |test: &Self| matches!(test, Self::Scratch(job) if *job != ScratchJob::Large);
        Self::ALL.into_iter().filter(|test| !small(test)).collect()
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(test, _)| *test == self).map_or("", |(_, name)| name)
    }

    /// Whether the page cache is passed by.
    #[must_use]
    pub fn is_direct(self) -> bool {
        matches!(
            self,
            Self::SequentialWriteDirect | Self::SequentialReadDirect | Self::RandomReadDirect | Self::RandomWriteDirect
        )
    }

    /// Whether data are made durable inside the time.
    #[must_use]
    pub fn has_fsync(self) -> bool {
        matches!(self, Self::SequentialWriteFsync | Self::Fsync)
    }

    /// Whether it is a matter of operations rather than of bytes.
    #[must_use]
    pub fn counts_operations(self) -> bool {
        matches!(
            self,
            Self::RandomRead
                | Self::RandomReadDirect
                | Self::RandomWriteDirect
                | Self::Create
                | Self::Stat
                | Self::Unlink
                | Self::Fsync
        )
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Test {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(_, known)| *known == name);
        found
            .map(|(test, _)| *test)
            .ok_or_else(|| format!("no such test; there are {}", NAMES.map(|(_, name)| name).join(", ")))
    }
}

impl serde::Serialize for Test {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_tests() {
        for test in Test::ALL {
            assert_eq!(test.name().parse::<Test>(), Ok(test));
        }
        assert!("sequential".parse::<Test>().unwrap_err().contains("scratch-test415"));
        assert_eq!(Test::usual().len(), 14);
    }

    #[test]
    fn scratch_files_keep_their_proportions() {
        let mib = 1 << 20;
        assert_eq!(ScratchJob::Large.file_bytes(400 * mib, mib), [400 * mib]);
        assert_eq!(ScratchJob::Test415.file_bytes(400 * mib, mib), [10 * mib, 20 * mib]);
        assert_eq!(ScratchJob::Test567.file_bytes(400 * mib, mib), [mib, 60 * mib]);
        assert_eq!(ScratchJob::Test653.file_bytes(4, mib), [mib, mib]);
    }
}
