//! A control group of version 2 for the job, where we may make one.
//!
//! Membership is inherited, so that every process of the job is in it whatever it does; no controller needs to be enabled for what
//! is read here: processor time (cpu.stat, exact, processes that nobody waited for included) and stall times (the pressure files).
//! The group is a child of our own and goes away with this value, unless processes of the job are left in it.

use super::kernel::{self, Pressure};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What groups are called, before the profiler's number.
const NAME_PREFIX: &str = "afflux-profile-";

/// The job's group.
#[derive(Debug)]
pub struct Group {
    directory: PathBuf,
    parent: PathBuf,
}

/// What a group has used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GroupUse {
    /// Time on processors, in seconds.
    pub cpu_seconds: f64,
    /// Stalls on processors, devices and memory, in microseconds; `None` where the kernel does not account them.
    pub cpu: Option<Pressure>,
    /// On devices.
    pub io: Option<Pressure>,
    /// On memory: reclaim, and pages read again that had just been dropped.
    pub memory: Option<Pressure>,
    /// Largest memory use, the page cache included; only where the memory controller is enabled for us.
    pub memory_peak_bytes: Option<u64>,
    /// Processes killed since memory ran out; as before.
    pub out_of_memory_kills: Option<u64>,
}

impl Group {
    /// Makes a group beside nothing else under our own.
    ///
    /// # Errors
    ///
    /// Where there is no version 2 hierarchy, or it is not ours to write.
    pub fn create() -> io::Result<Self> {
        let parent = own_directory()?;
        remove_left_over(&parent);
        let directory = parent.join(format!("{NAME_PREFIX}{}", std::process::id()));
        fs::create_dir(&directory)?;
        Ok(Self { directory, parent })
    }

    /// Runs `start` with this process inside the group, so that what it starts is in it from its first instruction on.
    ///
    /// # Errors
    ///
    /// Where this process may not be moved; `start` has then not run.
    pub fn inside<T>(&self, start: impl FnOnce() -> T) -> io::Result<T> {
        // 0 stands for the writer.
        fs::write(self.directory.join("cgroup.procs"), "0")?;
        let started = start();
        fs::write(self.parent.join("cgroup.procs"), "0")?;
        Ok(started)
    }

    /// What the job has used so far.
    #[must_use]
    pub fn read(&self) -> GroupUse {
        let text = |name: &str| fs::read_to_string(self.directory.join(name)).ok();
        let pressure = |name: &str| text(name).as_deref().and_then(kernel::pressure);
        let usage_us = text("cpu.stat").as_deref().and_then(|text| kernel::keyed(text, "usage_usec"));
        GroupUse {
            cpu_seconds: usage_us.unwrap_or(0) as f64 * 1e-6,
            cpu: pressure("cpu.pressure"),
            io: pressure("io.pressure"),
            memory: pressure("memory.pressure"),
            memory_peak_bytes: text("memory.peak").and_then(|text| text.trim().parse().ok()),
            out_of_memory_kills: text("memory.events").as_deref().and_then(|text| kernel::keyed(text, "oom_kill")),
        }
    }

    /// Ends every process in the group at once; `false` where the kernel (before 5.14) cannot.
    #[must_use]
    pub fn kill(&self) -> bool {
        fs::write(self.directory.join("cgroup.kill"), "1").is_ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes that the job has left keep the group; it is then as harmless as they are.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Removes groups of profilers that were killed themselves. One that still holds processes refuses to go.
fn remove_left_over(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        let Some(pid) = name.strip_prefix(NAME_PREFIX) else { continue };
        if !Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_dir(parent.join(name));
        }
    }
}

/// The directory of our own group in the version 2 hierarchy.
fn own_directory() -> io::Result<PathBuf> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no control group hierarchy of version 2 is mounted");
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    find_directory(&mounts, &groups).ok_or_else(missing)
}

fn find_directory(mounts: &str, groups: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, device) = line.split_once(" - ")?;
        if device.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, mount_point) = (fields.next()?, fields.next()?);
        // In a container part of the hierarchy is mounted.
        let below = Path::new(group).strip_prefix(root).ok()?;
        Some(Path::new(mount_point).join(below))
    })
}

/// Out-of-memory kills where no group of ours counts them: those of our own group (either version), else of the whole machine.
/// Returns the number and its source.
#[must_use]
pub fn out_of_memory_kills() -> (u64, &'static str) {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let first = memory_directory(&mounts, &groups).and_then(|directory| {
        let text = fs::read_to_string(directory.join("memory.oom_control")).ok()?;
        kernel::keyed(&text, "oom_kill")
    });
    let second = || {
        let text = fs::read_to_string(find_directory(&mounts, &groups)?.join("memory.events")).ok()?;
        kernel::keyed(&text, "oom_kill")
    };
    if let Some(kills) = first.or_else(second) {
        return (kills, "this control group's count");
    }
    let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    (kernel::keyed(&vmstat, "oom_kill").unwrap_or(0), "/proc/vmstat, the whole machine")
}

/// The directory of our own group in a version 1 memory hierarchy.
fn memory_directory(mounts: &str, groups: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.split_once(":memory:").map(|(_, group)| group))?;
    mounts.lines().find_map(|line| {
        let (mount, device) = line.split_once(" - ")?;
        let mut device = device.split(' ');
        let is_memory = device.next()? == "cgroup" && device.nth(1)?.split(',').any(|option| option == "memory");
        let mut fields = mount.split(' ').skip(3);
        let (root, mount_point) = (fields.next()?, fields.next()?);
        let below = is_memory.then(|| Path::new(group).strip_prefix(root).ok()).flatten()?;
        Some(Path::new(mount_point).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn our_own_group_is_found_in_either_hierarchy() {
        let groups = "4:memory:/batch/job7\n0::/user.slice/u1\n";
        assert_eq!(find_directory(MOUNTS, groups), Some("/sys/fs/cgroup/unified/user.slice/u1".into()));
        assert_eq!(memory_directory(MOUNTS, groups), Some("/sys/fs/cgroup/memory/batch/job7".into()));
        assert_eq!(find_directory(MOUNTS, "4:memory:/\n"), None);
        let container = "41 31 0:38 /pod/c1 /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        assert_eq!(find_directory(container, "0::/pod/c1\n"), Some("/sys/fs/cgroup/".into()));
        assert_eq!(find_directory(container, "0::/elsewhere\n"), None);
    }
}
