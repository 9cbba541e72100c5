//! Where something was measured: the machine and the file system, as the kernel tells them.
//!
//! What cannot be found out is left empty; a benchmark does not fail for want of a name.

use nix::sys::stat::{major, minor};
use nix::sys::statfs::{FsType, statfs};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// Writes every file system's changed pages to its device and waits for it, as sync(1) does.
pub fn write_back() {
    nix::unistd::sync();
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let amount = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    amount.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// A mounted file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystem {
    /// Its type: `ext4`, `lustre`, `tmpfs`, ...
    pub kind: String,
    /// Device or server.
    pub source: String,
    /// Where it is mounted.
    pub mount_point: String,
    /// Mount options, those of the mount and then those of the file system.
    pub options: String,
}

impl FileSystem {
    /// The file system that holds an existing path, from `/proc/self/mountinfo`. Where that does not list it, as under a
    /// changed root, its type follows from statfs(2) and device and options stay empty.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let Ok(path) = fs::canonicalize(path) else { return Self::default() };
        Self::find(&mounts, &path).unwrap_or_else(|| Self::unlisted(&path))
    }

    /// The deepest mount above `path`; of several mounts on one directory the last one hides the others.
    fn find(mounts: &str, path: &Path) -> Option<Self> {
        let candidates = mounts.lines().filter_map(Self::parse).filter(|mount| path.starts_with(&mount.mount_point));
        candidates.max_by_key(|mount| Path::new(&mount.mount_point).components().count())
    }

    /// One line of mountinfo (proc(5)): six fields, optional ones, a lone hyphen, then type, source and options.
    fn parse(line: &str) -> Option<Self> {
        let (mount, device) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(4);
        let mut device = device.split(' ');
        let (mount_point, mount_options) = (unescape(mount.next()?), mount.next()?);
        let (kind, source) = (device.next()?.to_owned(), unescape(device.next()?));
        let options = match device.next() {
            Some(own) if !own.is_empty() && own != mount_options => format!("{mount_options},{own}"),
            _ => mount_options.to_owned(),
        };
        Some(Self { kind, source, mount_point, options })
    }

    /// What can be told of an existing, canonical path that no listed mount holds.
    fn unlisted(path: &Path) -> Self {
        let kind = statfs(path).map_or("unknown", |found| kind_of_magic(found.filesystem_type())).to_owned();
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
        let top = path.ancestors().take_while(|above| device(above) == device(path)).last().unwrap_or(path);
        Self { kind, mount_point: top.display().to_string(), ..Self::default() }
    }
}

/// A mount as mountinfo lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its number, by which /proc/PID/fdinfo names it.
    pub id: u64,
    /// Major and minor number of its device; of no device where the file system has none or several.
    pub device: (u64, u64),
    /// What is mounted.
    pub file_system: FileSystem,
}

impl Mount {
    /// All mounts that this process sees.
    #[must_use]
    pub fn all() -> Vec<Self> {
        fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines().filter_map(Self::parse).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let id = fields.next()?.parse().ok()?;
        let (major, minor) = fields.nth(1)?.split_once(':')?;
        let listed = (major.parse().ok()?, minor.parse().ok()?);
        let file_system = FileSystem::parse(line)?;
        // Btrfs and some others show a number of their own; the device's is known by its name.
        let device = if listed.0 == 0 { device_number(&file_system.source).unwrap_or(listed) } else { listed };
        Some(Self { id, device, file_system })
    }
}

/// Major and minor number of a block device by its name.
fn device_number(source: &str) -> Option<(u64, u64)> {
    let found = source.starts_with("/dev/").then(|| fs::metadata(source).ok()).flatten()?;
    found.file_type().is_block_device().then(|| (major(found.rdev()), minor(found.rdev())))
}

/// The name of a file system by the number that statfs(2) tells. One number stands for ext2, ext3 and ext4.
fn kind_of_magic(magic: FsType) -> &'static str {
    // From statfs(2) and linux/magic.h; the numbers are 32 bits wide, whatever the field is.
    let known = [
        (0xEF53, "ext2/ext3/ext4"),
        (0x5846_5342, "xfs"),
        (0x9123_683E, "btrfs"),
        (0x0102_1994, "tmpfs"),
        (0x8584_58F6, "ramfs"),
        (0x794C_7630, "overlay"),
        (0x6969, "nfs"),
        (0x0BD0_0BD0, "lustre"),
        (0x4750_4653, "gpfs"),
        (0x1983_0326, "beegfs"),
        (0x00C3_6400, "ceph"),
        (0x6573_5546, "fuse"),
        (0x0102_1997, "9p"),
        (0x6A65_6A63, "virtiofs"),
        (0x7371_7368, "squashfs"),
        (0x2FC1_2FC1, "zfs"),
        (0xF2F5_2010, "f2fs"),
        (0xFF53_4D42, "cifs"),
        (0xFE53_4D42, "smb2"),
    ];
    let magic = i128::from(magic.0) & 0xFFFF_FFFF;
    known.iter().find(|(number, _)| *number == magic).map_or("unknown", |(_, name)| name)
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
        let kind = |path: &str| FileSystem::find(MOUNTS, Path::new(path)).unwrap().kind;
        assert_eq!(kind("/home/u"), "ext4");
        assert_eq!(kind("/scratch/u"), "lustre");
        assert_eq!(kind("/scratchy"), "ext4");
        assert_eq!(kind("/scratch/my dir/x"), "xfs");
        assert_eq!(FileSystem::find(MOUNTS, Path::new("/scratch")).unwrap().source, "10.0.0.1@o2ib:/fs1");
        assert_eq!(FileSystem::find(MOUNTS, Path::new("/")).unwrap().options, "rw,relatime,rw");
        assert_eq!(FileSystem::find("", Path::new("/")), None);
    }

    #[test]
    fn a_root_that_mountinfo_does_not_list_is_named_by_statfs() {
        let found = FileSystem::unlisted(Path::new("/proc/self"));
        assert_eq!((found.kind.as_str(), found.mount_point.as_str()), ("unknown", "/proc"));
        assert_eq!(kind_of_magic(FsType(0xEF53)), "ext2/ext3/ext4");
        // 32-bit systems show the number as a negative one.
        assert_eq!(kind_of_magic(FsType(0x9123_683E)), "btrfs");
        let here = FileSystem::unlisted(&fs::canonicalize(std::env::temp_dir()).unwrap());
        assert!(!here.kind.is_empty() && here.mount_point.starts_with('/'), "{here:?}");
    }

    #[test]
    fn mounts_have_numbers() {
        let mounts: Vec<Mount> = MOUNTS.lines().filter_map(Mount::parse).collect();
        assert_eq!(mounts.iter().map(|mount| mount.id).collect::<Vec<_>>(), [22, 30, 31, 32]);
        assert_eq!((mounts[0].device, mounts[1].device), ((8, 1), (0, 25)));
        assert_eq!(mounts[3].file_system.mount_point, "/scratch/my dir");
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
