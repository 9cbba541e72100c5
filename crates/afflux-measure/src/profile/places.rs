//! Reads and writes by file system: from mounts and samples of open files, beside what the devices below did.

use super::kernel::{self, DiskCounters, IoCounters};
use super::open_files::{Amount, MountId, Placed};
use super::result::{DeviceUse, FileSystemUse};
use crate::host::{FileSystem, Mount};
use std::collections::HashMap;
use std::fs;

/// The mounts and the devices' counters when the job began.
#[derive(Debug)]
pub struct Places {
    mounts: Vec<Mount>,
    diskstats: String,
}

impl Places {
    /// Takes note of both.
    #[must_use]
    pub fn now() -> Self {
        Self { mounts: Mount::all(), diskstats: fs::read_to_string("/proc/diskstats").unwrap_or_default() }
    }

    /// What was read and written on each file system since, and how that is known. `total` is exact; its parts are known as far as
    /// samples could place them, and what they could not is left over.
    #[must_use]
    pub fn used(&self, placed: &Placed, total: IoCounters) -> (Vec<FileSystemUse>, String) {
        let now = Self::now();
        let mut by_mount: HashMap<MountId, (Amount, Amount)> = HashMap::new();
        for (mount, amount) in known(&placed.read) {
            by_mount.entry(mount).or_default().0 = amount;
        }
        for (mount, amount) in known(&placed.written) {
            by_mount.entry(mount).or_default().1 = amount;
        }
        let mut found: Vec<FileSystemUse> = Vec::new();
        for (id, (read, written)) in by_mount {
            // Mounts without a name are those of pipes and sockets.
            let Some(mount) = now.mounts.iter().chain(&self.mounts).find(|mount| mount.id == id) else { continue };
            let device = now.device_use(mount.device, self);
            add(&mut found, mount.file_system.clone(), device, (read, written));
        }
        found.sort_by_key(|place| std::cmp::Reverse(place.read_bytes.saturating_add(place.written_bytes)));
        let source = source(&found, total);
        (found, source)
    }

    fn device_use(&self, device: (u64, u64), before: &Self) -> Option<DeviceUse> {
        let now = kernel::disk(&self.diskstats, device)?;
        // A device that was not there has done nothing.
        let then = kernel::disk(&before.diskstats, device).unwrap_or_default();
        Some(difference(now, then))
    }
}

fn known(amounts: &HashMap<Option<MountId>, Amount>) -> impl Iterator<Item = (MountId, Amount)> {
    amounts.iter().filter_map(|(mount, amount)| Some(((*mount)?, *amount)))
}

fn difference(now: DiskCounters, then: DiskCounters) -> DeviceUse {
    DeviceUse {
        read_requests: now.read_requests.saturating_sub(then.read_requests),
        read_bytes: now.read_bytes.saturating_sub(then.read_bytes),
        write_requests: now.write_requests.saturating_sub(then.write_requests),
        written_bytes: now.written_bytes.saturating_sub(then.written_bytes),
        busy_seconds: now.busy_ms.saturating_sub(then.busy_ms) as f64 * 1e-3,
    }
}

/// Adds to a file system's line; one mounted in several places has one line.
fn add(
    found: &mut Vec<FileSystemUse>,
    file_system: FileSystem,
    device: Option<DeviceUse>,
    (read, written): (Amount, Amount),
) {
    // Without a device, equal names say nothing: every tmpfs is called so.
    let is_same = |other: &FileSystem| {
        device.is_some() && (&other.kind, &other.source) == (&file_system.kind, &file_system.source)
    };
    let index = found.iter().position(|place| is_same(&place.file_system));
    let place = match index {
        Some(index) => &mut found[index],
        None => {
            let (read_bytes, written_bytes, read_calls, write_calls) = (0, 0, 0, 0);
            found.push(FileSystemUse { file_system, read_bytes, written_bytes, read_calls, write_calls, device });
            let last = found.len() - 1;
            &mut found[last]
        }
    };
    place.read_bytes += whole(read.bytes);
    place.written_bytes += whole(written.bytes);
    place.read_calls += whole(read.calls);
    place.write_calls += whole(written.calls);
}

/// A share, rounded; shares are never negative and far below 2^53.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what a u64 holds exactly")]
fn whole(share: f64) -> u64 {
    share.round().clamp(0.0, 9e15) as u64
}

fn source(found: &[FileSystemUse], total: IoCounters) -> String {
    let placed: u64 = found.iter().map(|place| place.read_bytes + place.written_bytes).sum();
    let all = total.read_bytes + total.written_bytes;
    let percent = if all == 0 { 100.0 } else { 100.0 * placed as f64 / all as f64 };
    format!(
        "estimated from samples of open files and their positions; {percent:.0} % of all bytes placed, the rest went to pipes or \
         was not seen; devices: /proc/diskstats, everybody's requests"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_mounted_twice_has_one_line() {
        let system = |mount_point: &str, source: &str| FileSystem {
            kind: "xfs".into(),
            source: source.into(),
            mount_point: mount_point.into(),
            options: String::new(),
        };
        let amount = |bytes: f64| (Amount { bytes, calls: 1.0 }, Amount::default());
        let mut found = Vec::new();
        add(&mut found, system("/a", "/dev/sda"), Some(DeviceUse::default()), amount(10.4));
        add(&mut found, system("/b", "/dev/sda"), Some(DeviceUse::default()), amount(5.0));
        add(&mut found, system("/c", "none"), None, amount(7.0));
        add(&mut found, system("/d", "none"), None, amount(8.0));
        assert_eq!(found.iter().map(|place| place.read_bytes).collect::<Vec<_>>(), [15, 7, 8]);
        assert_eq!(found[0].read_calls, 2);
        assert!(source(&found, IoCounters { read_bytes: 60, ..IoCounters::default() }).contains("50 %"));
    }
}
