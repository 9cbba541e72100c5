//! The processes of the job, as samples of /proc show them.
//!
//! The job's processes are the descendants of this process, which is their subreaper: whoever loses its parent becomes our child, so
//! that nobody leaves the tree, a daemon neither. Counters of the living are read here; what the dead have used reaches us when they are
//! waited for and is read by [`super::reaped`]. A process shorter than the interval may never be seen; its counters are not
//! lost, but its share of waiting and of file systems is not known from samples.

use super::kernel::{self, IoCounters, Stat};
use super::open_files::{self, Amount, Direction, OpenFile, Placed};
use crate::host::Mount;
use std::collections::{HashMap, HashSet};
use std::fs;

/// Threads of a process that are looked at; of more, the first.
const THREADS_MAX: usize = 256;
/// Open files of a process that are looked at.
const FILES_MAX: usize = 256;
/// Processes that are looked at. A job of more is sampled in part.
const PROCESSES_MAX: usize = 4096;

/// What one look at the tree showed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moment {
    /// Processes alive, those that ended and are not waited for left out.
    pub processes: u64,
    /// Their threads.
    pub threads: u64,
    /// Resident memory, summed; shared pages count for each process.
    pub resident_bytes: u64,
    /// Processor time of the living and of the children they waited for, user and system, in clock ticks.
    pub user_ticks: u64,
    /// System time of those.
    pub system_ticks: u64,
    /// Bytes and calls of the living and of the children they waited for.
    pub io: IoCounters,
    /// A thread was running or could have run.
    pub any_running: bool,
    /// A thread waited for a device.
    pub any_waiting: bool,
}

#[derive(Debug, Default)]
struct Thread {
    run_queue_wait_ns: u64,
    device_wait_ticks: u64,
    io: IoCounters,
}

#[derive(Debug, Default)]
struct Member {
    threads: HashMap<i32, Thread>,
    files: HashMap<String, OpenFile>,
}

/// What has been seen of the job so far.
#[derive(Debug)]
pub struct Tree {
    own_pid: i32,
    page_bytes: u64,
    /// By process and start, since numbers are used again.
    members: HashMap<(i32, u64), Member>,
    /// Every process number seen.
    known: HashSet<i32>,
    seen_count: u64,
    /// Waits of threads that are gone, as last seen.
    gone: Waits,
    placed: Placed,
    /// Mounts that hold files: not those of devices, terminals and the kernel's own texts.
    mounts: HashSet<u64>,
}

/// Times threads spent waiting, summed over threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Waits {
    /// For a processor.
    pub run_queue_seconds: f64,
    /// For a block device; 0 where delay accounting is off.
    pub device_ticks: u64,
}

impl Waits {
    fn add(&mut self, thread: &Thread) {
        self.run_queue_seconds += thread.run_queue_wait_ns as f64 * 1e-9;
        self.device_ticks += thread.device_wait_ticks;
    }
}

impl Tree {
    /// An empty tree under this process.
    #[must_use]
    pub fn new(own_pid: i32, page_bytes: u64) -> Self {
        Self {
            own_pid,
            page_bytes,
            members: HashMap::new(),
            known: HashSet::new(),
            seen_count: 0,
            gone: Waits::default(),
            placed: Placed::default(),
            mounts: HashSet::new(),
        }
    }

    /// Looks at every process of the job.
    pub fn sample(&mut self) -> Moment {
        self.mounts = file_mounts();
        let mut moment = Moment::default();
        let mut seen = HashSet::new();
        // Parents before children: a child waited for in between is missed for once rather than counted twice.
        for pid in descendants(self.own_pid) {
            let Some(stat) = read(pid, "stat").as_deref().and_then(kernel::stat) else { continue };
            self.known.insert(pid);
            if stat.state == 'Z' {
                continue;
            }
            seen.insert((pid, stat.start_ticks));
            self.look_at(&stat, &mut moment);
        }
        let gone = &mut self.gone;
        self.members.retain(|key, member| {
            let stays = seen.contains(key);
            if !stays {
                member.threads.values().for_each(|thread| gone.add(thread));
            }
            stays
        });
        moment
    }

    /// Adds a living process to the moment, and what it did since the last look to the places of its files.
    fn look_at(&mut self, stat: &Stat, moment: &mut Moment) {
        moment.processes += 1;
        moment.threads += stat.threads;
        moment.resident_bytes += stat.resident_pages * self.page_bytes;
        moment.user_ticks += stat.user_ticks + stat.children_user_ticks;
        moment.system_ticks += stat.system_ticks + stat.children_system_ticks;
        moment.io = moment.io.plus(read(stat.pid, "io").as_deref().and_then(kernel::io).unwrap_or_default());
        let member = self.members.entry((stat.pid, stat.start_ticks)).or_insert_with(|| {
            self.seen_count += 1;
            Member::default()
        });
        let mut moved = IoCounters::default();
        let threads = threads_of(stat);
        for &tid in &threads {
            let Some(found) = read_task(stat.pid, tid, "stat").as_deref().and_then(kernel::stat) else { continue };
            moment.any_running |= found.state == 'R';
            moment.any_waiting |= found.state == 'D';
            let thread = member.threads.entry(tid).or_default();
            thread.device_wait_ticks = found.device_wait_ticks;
            let wait = read_task(stat.pid, tid, "schedstat").as_deref().and_then(kernel::run_queue_wait_ns);
            thread.run_queue_wait_ns = wait.unwrap_or(thread.run_queue_wait_ns);
            let io = read_task(stat.pid, tid, "io").as_deref().and_then(kernel::io).unwrap_or(thread.io);
            moved = moved.plus(io.minus(thread.io));
            thread.io = io;
        }
        if member.threads.len() > threads.len() {
            let gone = &mut self.gone;
            member.threads.retain(|tid, thread| {
                let stays = threads.contains(tid);
                if !stays {
                    gone.add(thread);
                }
                stays
            });
        }
        place(&mut self.placed, &self.mounts, stat.pid, member, moved);
    }

    /// Whether a process of this number was ever seen in the tree.
    #[must_use]
    pub fn knows(&self, pid: i32) -> bool {
        pid == self.own_pid || self.known.contains(&pid)
    }

    /// Processes seen.
    #[must_use]
    pub fn processes_seen(&self) -> u64 {
        self.seen_count
    }

    /// Takes note of a process that no look showed.
    pub fn remember(&mut self, pid: i32) {
        if self.known.insert(pid) {
            self.seen_count += 1;
        }
    }

    /// Waits of the living, as of the last look.
    #[must_use]
    pub fn living_waits(&self) -> Waits {
        let mut waits = Waits::default();
        self.members.values().flat_map(|member| member.threads.values()).for_each(|thread| waits.add(thread));
        waits
    }

    /// Waits of those that are gone, each up to when it was last seen.
    #[must_use]
    pub fn gone_waits(&self) -> Waits {
        self.gone
    }

    /// Bytes and calls by mount, as far as samples tell.
    #[must_use]
    pub fn placed(&self) -> &Placed {
        &self.placed
    }

    /// The living, as of the last look.
    pub fn living(&self) -> impl Iterator<Item = i32> {
        self.members.keys().map(|&(pid, _)| pid)
    }
}

/// Divides what a process moved since the last look among the mounts of its open files.
fn place(placed: &mut Placed, mounts: &HashSet<u64>, pid: i32, member: &mut Member, moved: IoCounters) {
    if moved.read_calls + moved.write_calls == 0 {
        return;
    }
    let now = open_files::of(pid, FILES_MAX);
    let directions = [
        (Direction::Read, moved.read_bytes, moved.read_calls),
        (Direction::Write, moved.written_bytes, moved.write_calls),
    ];
    for (direction, bytes, calls) in directions.into_iter().filter(|(_, _, calls)| *calls > 0) {
        let amount = Amount { bytes: bytes as f64, calls: calls as f64 };
        placed.add(direction, amount, &member.files, &now, |mount| mounts.contains(&mount));
    }
    member.files = now;
}

fn read(pid: i32, name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/{name}")).ok()
}

fn read_task(pid: i32, tid: i32, name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).ok()
}

fn threads_of(stat: &Stat) -> Vec<i32> {
    if stat.threads <= 1 {
        return vec![stat.pid];
    }
    numbers_in(&format!("/proc/{}/task", stat.pid), THREADS_MAX)
}

/// The numbers that name entries of a directory of /proc.
fn numbers_in(directory: &str, count_max: usize) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).take(count_max).collect()
}

/// Numbers of the mounts that hold files.
fn file_mounts() -> HashSet<u64> {
    const WITHOUT_FILES: [&str; 5] = ["devtmpfs", "devpts", "proc", "sysfs", "mqueue"];
    let mounts = Mount::all().into_iter().filter(|mount| !WITHOUT_FILES.contains(&mount.file_system.kind.as_str()));
    mounts.map(|mount| mount.id).collect()
}

/// All descendants of a process, parents before their children.
fn descendants(ancestor: i32) -> Vec<i32> {
    let by_parent = if fs::exists(format!("/proc/{ancestor}/task/{ancestor}/children")).unwrap_or(false) {
        None
    } else {
        // Kernels without CONFIG_PROC_CHILDREN: every process of the machine is asked for its parent.
        Some(children_by_parent())
    };
    let children = |pid: i32| match &by_parent {
        Some(all) => all.get(&pid).cloned().unwrap_or_default(),
        None => listed_children(pid),
    };
    let mut found = children(ancestor);
    let mut next = 0;
    while next < found.len() && found.len() < PROCESSES_MAX {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

/// A process's children, which the kernel lists by the thread that made them.
fn listed_children(pid: i32) -> Vec<i32> {
    let threads = numbers_in(&format!("/proc/{pid}/task"), usize::MAX);
    let lists = threads.into_iter().filter_map(|tid| read_task(pid, tid, "children"));
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn children_by_parent() -> HashMap<i32, Vec<i32>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in numbers_in("/proc", usize::MAX) {
        if let Some(stat) = read(pid, "stat").as_deref().and_then(kernel::stat) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    children
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn children_are_found_with_and_without_the_kernels_lists() {
        // A process group of our own would do as well; what matters is a grandchild.
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 30 & echo ready; read -r _; kill $!"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line).unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        let listed = descendants(pid);
        let scanned = children_by_parent();
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(scanned.get(&pid), Some(&listed));

        let mut tree = Tree::new(pid, 4096);
        let mut moment = tree.sample();
        // In the middle of its exec the grandchild has no memory.
        for _ in 0..1000 {
            if moment.resident_bytes > 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
            moment = tree.sample();
        }
        assert_eq!((moment.processes, moment.threads, tree.processes_seen()), (1, 1, 1));
        assert!(moment.resident_bytes > 0 && tree.knows(listed[0]) && tree.knows(pid));
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(tree.sample().processes, 0);
        assert!(tree.gone_waits().run_queue_seconds >= 0.0);
        assert_eq!(tree.living_waits(), Waits::default());
    }
}
