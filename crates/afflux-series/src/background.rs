//! Helper threads: a small pool shared by all writers of a process, to which a writer hands a piece of work and goes on.
//!
//! Answers for: as many threads as the process has cores at most, however many ranks live in it; work done in the order it came;
//! no thread left when the last writer is gone. Leaves to others: what the work is. It must not speak to other ranks
//! (`MPI_THREAD_FUNNELED`), and not call HDF5, which the simulation may be calling at the same time.
//!
//! Invariant: a [`Ticket`] outlives its work: dropping it waits, so nothing is written on behalf of a writer that is gone.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct Pool {
    state: Mutex<State>,
    wake: Condvar,
    threads_max: usize,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// What a helper thread does with its life.
    fn serve(&self) {
        let mut state = locked(&self.state);
        loop {
            if let Some(work) = state.queue.pop_front() {
                drop(state);
                work();
                state = locked(&self.state);
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

/// A handle on the pool of this process; the last one to go ends the threads.
#[derive(Clone)]
pub(crate) struct Helpers(Arc<Life>);

struct Life {
    pool: Arc<Pool>,
}

impl Drop for Life {
    fn drop(&mut self) {
        locked(&self.pool.state).closed = true;
        self.pool.wake.notify_all();
    }
}

static SHARED: Mutex<Weak<Life>> = Mutex::new(Weak::new());

impl Helpers {
    /// The pool that the writers of this process share.
    pub fn shared() -> Self {
        let mut shared = locked(&SHARED);
        if let Some(life) = shared.upgrade() {
            return Self(life);
        }
        let threads_max = thread::available_parallelism().map_or(1, usize::from);
        let life =
            Arc::new(Life { pool: Arc::new(Pool { state: Mutex::default(), wake: Condvar::new(), threads_max }) });
        *shared = Arc::downgrade(&life);
        Self(life)
    }

    /// Has `work` done by a helper thread, after what was submitted before; by the caller, at once, where the system has no
    /// thread to give.
    pub fn submit<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Ticket<T> {
        let pool = &self.0.pool;
        let slot = Arc::new(Slot { done: AtomicBool::new(false), result: Mutex::new(None), wake: Condvar::new() });
        let target = Arc::clone(&slot);
        let work = move || target.put(catch_unwind(AssertUnwindSafe(work)));
        let mut state = locked(&pool.state);
        if state.queue.len() >= state.idle && state.threads < pool.threads_max {
            let serving = Arc::clone(pool);
            let spawned = thread::Builder::new().name("afflux-helper".into()).spawn(move || serving.serve());
            state.threads += usize::from(spawned.is_ok());
        }
        if state.threads == 0 {
            drop(state);
            work();
        } else {
            state.queue.push_back(Box::new(work));
            drop(state);
            pool.wake.notify_one();
        }
        Ticket { slot: Some(slot) }
    }
}

struct Slot<T> {
    done: AtomicBool,
    result: Mutex<Option<thread::Result<T>>>,
    wake: Condvar,
}

impl<T> Slot<T> {
    fn put(&self, result: thread::Result<T>) {
        *locked(&self.result) = Some(result);
        self.done.store(true, Ordering::Release);
        self.wake.notify_all();
    }

    fn take(&self) -> thread::Result<T> {
        let mut result = locked(&self.result);
        loop {
            match result.take() {
                Some(result) => return result,
                None => result = self.wake.wait(result).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Work under way.
pub(crate) struct Ticket<T> {
    /// `None` once the result was taken.
    slot: Option<Arc<Slot<T>>>,
}

impl<T> Ticket<T> {
    /// Whether the work is done: one look at memory.
    pub fn is_done(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| slot.done.load(Ordering::Acquire))
    }

    /// The result, once there is one. A panic of the work goes on here.
    pub fn wait(mut self) -> T {
        let slot = self.slot.take().expect("taken once");
        slot.take().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            // Nobody is left to tell of a panic.
            let _ = slot.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    #[test]
    fn work_comes_back_whoever_submits_it() {
        // A handle for each, as writers of a process have; the pool of one that is gone does what it was given.
        let tickets: Vec<Ticket<usize>> = (0..200).map(|number| Helpers::shared().submit(move || number)).collect();
        assert_eq!(tickets.into_iter().map(Ticket::wait).sum::<usize>(), 199 * 200 / 2);
    }

    #[test]
    fn a_pool_has_no_more_threads_than_cores() {
        let helpers = Helpers::shared();
        let running: Arc<(AtomicUsize, AtomicUsize)> = Arc::default();
        let work = |running: Arc<(AtomicUsize, AtomicUsize)>| {
            move || {
                let now = running.0.fetch_add(1, Ordering::SeqCst) + 1;
                running.1.fetch_max(now, Ordering::SeqCst);
                thread::sleep(Duration::from_micros(200));
                running.0.fetch_sub(1, Ordering::SeqCst);
            }
        };
        let tickets: Vec<_> = (0..50).map(|_| helpers.submit(work(Arc::clone(&running)))).collect();
        drop(tickets);
        assert_eq!(running.0.load(Ordering::SeqCst), 0, "dropping a ticket waits for its work");
        assert!(running.1.load(Ordering::SeqCst) <= thread::available_parallelism().unwrap().get());
    }

    #[test]
    fn a_panic_is_that_of_whoever_asks() {
        let helpers = Helpers::shared();
        let ticket = helpers.submit(|| -> u32 { panic!("in the helper") });
        let caught = catch_unwind(AssertUnwindSafe(|| ticket.wait())).unwrap_err();
        assert_eq!(caught.downcast_ref::<&str>(), Some(&"in the helper"));
        // The thread goes on serving.
        assert_eq!(helpers.submit(|| 7).wait(), 7);
    }
}
