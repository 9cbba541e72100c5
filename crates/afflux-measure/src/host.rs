//! Where something was measured: the machine and the file system, as the kernel tells them.
//!
//! What cannot be found out is left empty; a benchmark does not fail for want of a name.

use serde::Serialize;
use std::fs;
use std::path::Path;

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Model of the first processor.
    pub cpu: String,
    /// Processors this process may run on.
    pub cores: usize,
}

impl Host {
    /// Describes this machine.
    #[must_use]
    pub fn current() -> Self {
        let line = |path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let cpu_info = line("/proc/cpuinfo");
        let model = cpu_info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            name: line("/proc/sys/kernel/hostname"),
            kernel: format!("{} {}", line("/proc/sys/kernel/ostype"), line("/proc/sys/kernel/osrelease")),
            cpu: model.map(|(_, name)| name.to_owned()).unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Bytes that new programs can use without swapping (`MemAvailable` of proc(5)); `None` where the kernel does not tell.
#[must_use]
pub fn memory_available_bytes() -> Option<u64> {
    parse_available(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let amount = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    amount.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// A mounted file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FileSystem {
    /// Its type: `ext4`, `lustre`, `tmpfs`, ...
    pub kind: String,
    /// Device or server.
    pub source: String,
    /// Where it is mounted.
    pub mount_point: String,
}

impl FileSystem {
    /// The file system that holds an existing path, from `/proc/self/mountinfo`.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        fs::canonicalize(path).map(|path| Self::find(&mounts, &path)).unwrap_or_default()
    }

    /// The deepest mount above `path`; of several mounts on one directory the last one hides the others.
    fn find(mounts: &str, path: &Path) -> Self {
        let candidates = mounts.lines().filter_map(Self::parse).filter(|mount| path.starts_with(&mount.mount_point));
        candidates.max_by_key(|mount| Path::new(&mount.mount_point).components().count()).unwrap_or_default()
    }

    /// One line of mountinfo (proc(5)): six fields, optional ones, a lone hyphen, then type and source.
    fn parse(line: &str) -> Option<Self> {
        let (mount, device) = line.split_once(" - ")?;
        let mut device = device.split(' ');
        Some(Self {
            kind: device.next()?.to_owned(),
            source: unescape(device.next()?),
            mount_point: unescape(mount.split(' ').nth(4)?),
        })
    }
}

/// Undoes the kernel's octal escapes of white space and backslash.
fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /scratch rw - lustre 10.0.0.1@o2ib:/fs1 rw
31 30 0:26 / /scratch/my\\040dir rw shared:7 master:2 - tmpfs tmpfs rw
32 30 0:27 / /scratch/my\\040dir rw - xfs /dev/sdb rw
";

    #[test]
    fn the_deepest_and_last_mount_holds_the_path() {
        let kind = |path: &str| FileSystem::find(MOUNTS, Path::new(path)).kind;
        assert_eq!(kind("/home/u"), "ext4");
        assert_eq!(kind("/scratch/u"), "lustre");
        assert_eq!(kind("/scratchy"), "ext4");
        assert_eq!(kind("/scratch/my dir/x"), "xfs");
        assert_eq!(FileSystem::find(MOUNTS, Path::new("/scratch")).source, "10.0.0.1@o2ib:/fs1");
        assert_eq!(FileSystem::find("", Path::new("/")), FileSystem::default());
    }

    #[test]
    fn available_memory_is_read_or_unknown() {
        let meminfo = "MemTotal:       16384 kB\nMemFree:         1 kB\nMemAvailable:    8192 kB\n";
        assert_eq!(parse_available(meminfo), Some(8 << 20));
        assert_eq!(parse_available("MemTotal: 16384 kB\n"), None);
        assert_eq!(parse_available("MemAvailable: 18446744073709551615 kB\n"), None);
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_file_system() {
        let host = Host::current();
        assert!(host.cores >= 1 && host.kernel.contains("Linux"), "{host:?}");
        assert_ne!(FileSystem::of(&std::env::temp_dir()).kind, "");
    }
}
