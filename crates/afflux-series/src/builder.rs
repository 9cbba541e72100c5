//! The description of a file: sets and settings, each with its default and the reason for it. `open.rs` makes a writer of it.

use std::path::PathBuf;
use std::sync::Arc;

use afflux_collective::{Hints, Path};
use afflux_container::{Durability, ResumeCheck};
use afflux_storage::{PosixStorage, Storage};

use crate::{ProbeSet, SealOnSignal, Step};

/// Rows in a column of chunks unless set. A row of one f64 variable and 2,600 points then fills a chunk of 1 MiB; runs of
/// 500 steps and more waste less than a tenth on the last column; a point's rows are read 400 bytes at a time.
const CHUNK_STEPS: u64 = 50;

/// Steps in a window unless set: the flush interval of Cao and Luo.
const WINDOW_STEPS: u64 = 100;

/// A chunk is at most about this large: the stripe of a Lustre file by default.
const CHUNK_BYTES: u64 = 1 << 20;

/// A window smaller than this on a rank is written by the thread that has it: waking another takes as long as the writing.
const HELPER_BYTES_MIN: u64 = 256 << 10;

/// What to do when the file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Existing {
    /// Fail; the file is not touched.
    #[default]
    Refuse,
    /// Put the new file in its place.
    Replace,
    /// Go on with it, whatever became of the run that wrote it; a file that is missing is created. Sets, points, variables and
    /// cadences must be those of the file; ranks, owners and windows may be others.
    Resume(Replay),
}

/// What to do with rows that a resumed file holds already, because the solver was restarted from before its last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replay {
    /// They are passed over and counted.
    #[default]
    Skip,
    /// They are compared with the file bit by bit; a difference is an error that names set, point, variable and step.
    Compare,
    /// They take the place of what the file has, where they differ: for a solver that does not repeat itself exactly, and to redo
    /// what is damaged.
    Rewrite,
}

/// The description of a file, the same on all ranks but for the points.
pub struct SeriesBuilder {
    pub(crate) path: PathBuf,
    pub(crate) sets: Vec<ProbeSet>,
    pub(crate) window_steps: u64,
    pub(crate) flush_seconds: Option<f64>,
    pub(crate) in_background: bool,
    pub(crate) durability: Durability,
    pub(crate) helper_bytes_min: u64,
    pub(crate) seal_on_signal: Option<SealOnSignal>,
    pub(crate) memory_limit_bytes: Option<u64>,
    pub(crate) chunk_steps: u64,
    pub(crate) chunk_bytes: u64,
    pub(crate) existing: Existing,
    pub(crate) step_offset: Step,
    pub(crate) resume_check: ResumeCheck,
    pub(crate) time_units: String,
    pub(crate) length_units: String,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) groups: usize,
    pub(crate) hints: Hints,
    pub(crate) path_choice: Option<Path>,
    pub(crate) storage: Arc<dyn Storage>,
}

impl SeriesBuilder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            sets: Vec::new(),
            window_steps: WINDOW_STEPS,
            flush_seconds: None,
            in_background: true,
            durability: Durability::default(),
            helper_bytes_min: HELPER_BYTES_MIN,
            seal_on_signal: None,
            memory_limit_bytes: None,
            chunk_steps: CHUNK_STEPS,
            chunk_bytes: CHUNK_BYTES,
            existing: Existing::default(),
            step_offset: 0,
            resume_check: ResumeCheck::All,
            time_units: "s".to_owned(),
            length_units: "m".to_owned(),
            attributes: Vec::new(),
            groups: 1,
            hints: Hints::default(),
            path_choice: None,
            storage: Arc::new(PosixStorage::new()),
        }
    }

    /// Adds a set; [`SetId`](crate::SetId) counts them in this order.
    #[must_use]
    pub fn set(mut self, set: ProbeSet) -> Self {
        self.sets.push(set);
        self
    }

    /// Simulation steps between flushes, at most (100 unless set). Rows of so many steps are kept in memory.
    #[must_use]
    pub fn window_steps(mut self, steps: u64) -> Self {
        self.window_steps = steps;
        self
    }

    /// Seconds between flushes to aim for; windows stay within `window_steps`. Rank 0's clock counts.
    #[must_use]
    pub fn flush_seconds(mut self, seconds: f64) -> Self {
        self.flush_seconds = Some(seconds);
        self
    }

    /// Whether the simulation goes on while a window is on its way to the file (yes unless set). It takes a second window of
    /// memory, and a failure is told by the next collective call instead of the one that began the flush. The file is the same.
    #[must_use]
    pub fn background(mut self, in_background: bool) -> Self {
        self.in_background = in_background;
        self
    }

    /// What sealed rows survive: the death of any process unless set. For [`Durability::PowerLoss`] every rank waits at each flush until the
    /// medium has its samples, and the seal until the medium has each of its parts; all that was sealed then survives a power
    /// failure. With flushes in the background it is helper threads that wait, where the windows are large enough for one
    /// ([`Self::helper_bytes_min`]).
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// With flushes in the background: how many bytes of rows a rank has at least for a helper thread to write them (256 KiB unless
    /// set). The simulation's thread writes fewer itself. A helper thread only ever writes; it speaks to no other rank.
    #[must_use]
    pub fn helper_bytes_min(mut self, bytes: u64) -> Self {
        self.helper_bytes_min = bytes;
        self
    }

    /// Seals when a signal comes (not unless set): schedulers send one before they kill a job. A rank that is signalled tells the
    /// others, all of them seal everything before one step, and [`SeriesWriter::signalled`](crate::SeriesWriter::signalled) says so: a simulation
    /// that ends then has lost nothing up to that step. If other ranks do not come to it within the time limit, they are given up, and
    /// nothing is sealed. (Where aggregators write, the exchange itself has no limit.)
    ///
    /// It costs a comparison a step and, every few steps, a reduction that nobody waits for.
    #[must_use]
    pub fn seal_on_signal(mut self, settings: SealOnSignal) -> Self {
        self.seal_on_signal = Some(settings);
        self
    }

    /// The most memory in bytes that the writer may come to take on a rank (no limit unless set). Where its bound
    /// ([`SeriesBuilder::memory_bound`]) is larger on any rank, `open` refuses on all of them, before there is a file.
    #[must_use]
    pub fn memory_limit_bytes(mut self, bytes: u64) -> Self {
        self.memory_limit_bytes = Some(bytes);
        self
    }

    /// Rows in a column of chunks (50 unless set), fixed for the life of the file. A divisor of the number of rows to come
    /// leaves no padding; the unfinished column is kept in memory.
    #[must_use]
    pub fn chunk_steps(mut self, rows: u64) -> Self {
        self.chunk_steps = rows;
        self
    }

    /// Size of a chunk in bytes at most (1 MiB unless set): the stripe of the file system, as a rule.
    #[must_use]
    pub fn chunk_bytes(mut self, bytes: u64) -> Self {
        self.chunk_bytes = bytes;
        self
    }

    /// What to do when the file exists; it is refused unless something else is asked for.
    #[must_use]
    pub fn existing(mut self, existing: Existing) -> Self {
        self.existing = existing;
        self
    }

    /// For a solver that counts its steps from 0 again after a restart: its step 0 is this step of the file. Every step that the
    /// writer is given is so many more in the file, and in what the writer says.
    #[must_use]
    pub fn step_offset(mut self, steps: Step) -> Self {
        self.step_offset = steps;
        self
    }

    /// Which columns of a resumed file are held against their checksums before the watermark is trusted: all unless set, which reads
    /// the whole file once, all ranks together. [`Replay::Rewrite`] needs all.
    #[must_use]
    pub fn resume_check(mut self, check: ResumeCheck) -> Self {
        self.resume_check = check;
        self
    }

    /// Units of time: `s` unless set. `seconds since 2026-01-01 00:00:00` makes readers show dates.
    #[must_use]
    pub fn time_units(mut self, units: impl Into<String>) -> Self {
        self.time_units = units.into();
        self
    }

    /// Units of the coordinates: `m` unless set.
    #[must_use]
    pub fn length_units(mut self, units: impl Into<String>) -> Self {
        self.length_units = units.into();
        self
    }

    /// Adds a global attribute, such as `title`.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.attributes.push((name.into(), text.into()));
        self
    }

    /// Files to write (one unless set): each group of neighbouring ranks writes its own, with a watermark of its own, and waits for no
    /// other group while the run goes on. The file of group 2 of `run.nc` is `run.group-2.nc`; `run.nc` itself is a master of HDF5
    /// virtual datasets, which reads as the one file that there would be without groups. Our readers show through it what all groups
    /// have sealed; other programs see the rows there were at the last open or close.
    ///
    /// A point is in the group of its rank for the life of the file: a rebalance moves it within its group, and whoever resumes the
    /// file, with whatever number of ranks, gives each group the points that it had. Every group has a point of every set.
    #[must_use]
    pub fn groups(mut self, count: usize) -> Self {
        self.groups = count;
        self
    }

    /// Hints for the collective engine, by ROMIO's names where they exist.
    #[must_use]
    pub fn hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self
    }

    /// How windows reach the file: directly or by exchange; chosen from the points' layout unless set.
    #[must_use]
    pub fn write_path(mut self, path: Path) -> Self {
        self.path_choice = Some(path);
        self
    }

    /// Where the file lives: the operating system's files unless set.
    #[must_use]
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self
    }
}
