//! Signals that ask for a seal: schedulers send one before they kill a job.
//!
//! Answers for: noticing a signal (an atomic store in its handler, nothing else), and for the reductions by which the ranks agree that
//! one was noticed and at which step they seal. Leaves the seal itself to the writer.
//!
//! # The agreement
//! At every `agree_every`-th step a rank starts a reduction that says whether it was signalled; at the next such step it looks at the
//! result, which has had that many steps to arrive. So a step costs a comparison, an agreement costs a reduction that nobody waits
//! for, and all ranks act on the same result at the same step: at most twice `agree_every` steps after the signal.
//!
//! # What a signal does when no writer listens any more
//! What it did before: its default action is taken again, unless the program caught or ignored it before the first writer came.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_int;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use afflux_comm::{CommError, Communicator, PendingReduce, Reduce};
use afflux_storage::{OpenMode, PosixStorage, Storage, StorageFileExt};
use signal_hook::SigId;
use signal_hook::consts::{SIGTERM, SIGUSR1};

use crate::Step;

/// Steps between two agreements unless set: a reduction for every ten steps, and at most twenty from the signal to the seal.
const AGREE_EVERY: u64 = 10;

/// Time for the seal unless set: half of what Slurm leaves between SIGTERM and SIGKILL.
const TIME_LIMIT: Duration = Duration::from_secs(15);

/// Opt-in: what to do about signals; see [`SeriesBuilder::seal_on_signal`](crate::SeriesBuilder::seal_on_signal).
#[derive(Debug, Clone)]
pub struct SealOnSignal {
    pub(crate) signals: Vec<c_int>,
    pub(crate) flag: Arc<AtomicBool>,
    pub(crate) agree_every: u64,
    pub(crate) time_limit: Duration,
}

impl Default for SealOnSignal {
    fn default() -> Self {
        Self::new()
    }
}

impl SealOnSignal {
    /// On SIGTERM and SIGUSR1; the ranks agree every 10 steps and give up after 15 seconds.
    #[must_use]
    pub fn new() -> Self {
        Self { signals: vec![SIGTERM, SIGUSR1], flag: Arc::default(), agree_every: AGREE_EVERY, time_limit: TIME_LIMIT }
    }

    /// Other signals, by number; none where the program has handlers of its own that set [`Self::flag`].
    #[must_use]
    pub fn signals(mut self, signals: impl IntoIterator<Item = c_int>) -> Self {
        self.signals = signals.into_iter().collect();
        self
    }

    /// A flag that asks for a seal as a signal does: for a program that catches signals itself, or that wants a seal for
    /// another reason on one rank. The writer clears it.
    #[must_use]
    pub fn flag(mut self, flag: Arc<AtomicBool>) -> Self {
        self.flag = flag;
        self
    }

    /// Steps between two agreements (10 unless set, at least 1). A seal follows its signal after at most twice as many.
    #[must_use]
    pub fn agree_every(mut self, steps: u64) -> Self {
        self.agree_every = steps.max(1);
        self
    }

    /// How long the ranks wait for one another once a signal is known (15 seconds unless set). Then they give up without sealing.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// What must be the same on all ranks.
    pub(crate) fn setting(&self) -> String {
        format!("seal on signals every {} steps within {:?}", self.agree_every, self.time_limit)
    }
}

/// A signal that some writer of this process listens to.
struct Listened {
    writers: usize,
    /// Whether nobody listens, so that the default action is due again.
    idle: Arc<AtomicBool>,
}

impl Listened {
    /// A signal that nobody has listened to yet.
    fn first(signal: c_int) -> io::Result<Self> {
        let idle = Arc::new(AtomicBool::new(false));
        if !is_taken(signal) {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&idle))?;
        }
        Ok(Self { writers: 0, idle })
    }
}

/// Signals that have been listened to, by number.
static LISTENED: Mutex<BTreeMap<c_int, Listened>> = Mutex::new(BTreeMap::new());

/// The signals that one writer listens to.
#[derive(Debug)]
struct Ears {
    ids: Vec<(c_int, SigId)>,
}

impl Ears {
    fn prick(signals: &[c_int], flag: &Arc<AtomicBool>) -> io::Result<Self> {
        let mut ears = Self { ids: Vec::new() };
        for &signal in signals {
            let mut listened = LISTENED.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = match listened.entry(signal) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(Listened::first(signal)?),
            };
            let id = signal_hook::flag::register(signal, Arc::clone(flag))?;
            ears.ids.push((signal, id));
            entry.writers += 1;
            entry.idle.store(false, Ordering::SeqCst);
        }
        Ok(ears)
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        let mut listened = LISTENED.lock().unwrap_or_else(PoisonError::into_inner);
        for (signal, id) in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
            if let Some(entry) = listened.get_mut(&signal) {
                entry.writers -= 1;
                entry.idle.store(entry.writers == 0, Ordering::SeqCst);
            }
        }
    }
}

/// Whether the program catches or ignores the signal: then its default action is not ours to take.
fn is_taken(signal: c_int) -> bool {
    // Some kilobytes at most.
    let mut bytes = vec![0; 16 << 10];
    let status = PosixStorage::new().open(Path::new("/proc/self/status"), OpenMode::Read);
    let Ok(length) = status.and_then(|file| file.read_full_at(&mut bytes, 0)) else { return true };
    let status = String::from_utf8_lossy(&bytes[..length]);
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(u64::MAX)
    };
    let bit = u32::try_from(signal - 1).ok().and_then(|shift| 1_u64.checked_shl(shift)).unwrap_or(0);
    (mask("SigCgt:") | mask("SigIgn:")) & bit != 0
}

/// A rank's part in the agreements.
pub(crate) struct Watch {
    comm: Box<dyn Communicator>,
    flag: Arc<AtomicBool>,
    agree_every: u64,
    pub time_limit: Duration,
    /// The step of the next agreement; `None` before the first row.
    next: Option<Step>,
    pending: Option<Box<dyn PendingReduce>>,
    /// Whether this rank said in it that it was signalled.
    has_told: bool,
    _ears: Ears,
}

impl Watch {
    /// Listens; `comm` is for the agreements alone.
    pub fn new(comm: Box<dyn Communicator>, settings: &SealOnSignal) -> io::Result<Self> {
        let ears = Ears::prick(&settings.signals, &settings.flag)?;
        let SealOnSignal { flag, agree_every, time_limit, .. } = settings.clone();
        Ok(Self { comm, flag, agree_every, time_limit, next: None, pending: None, has_told: false, _ears: ears })
    }

    /// Whether the ranks agree at `step`, the step of the first row that is appended now.
    pub fn is_due(&mut self, step: Step) -> bool {
        let next = *self.next.get_or_insert(step);
        step >= next
    }

    /// Whether this rank is signalled, and has not sealed since.
    pub fn is_signalled(&self) -> bool {
        self.has_told || self.flag.load(Ordering::SeqCst)
    }

    /// Gives up on behalf of all ranks.
    pub fn fail(&self, cause: &str) {
        self.comm.fail(cause);
    }

    /// The reduction that was started at the last agreement.
    pub fn take_pending(&mut self) -> Option<Box<dyn PendingReduce>> {
        self.pending.take()
    }

    /// Collective: starts the next agreement.
    pub fn start(&mut self, step: Step) -> Result<(), CommError> {
        self.next = Some(step.saturating_add(self.agree_every));
        self.has_told = self.flag.swap(false, Ordering::SeqCst);
        self.pending = Some(self.comm.start_all_reduce(vec![Reduce::sum(u64::from(self.has_told))])?);
        Ok(())
    }
}
