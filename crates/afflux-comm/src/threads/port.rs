//! The messages that lie before a rank.
//!
//! A sparse message is owned: the sender copies it and goes on. A message of `exchange` is *borrowed*: the post holds a
//! reference to the sender's slices, the receiver copies straight from them, and the sender does not return before
//! every one of its posts is resolved: copied, refused because the receiver left or expects nothing from it, or taken
//! back because the group has failed.
//!
//! Invariants: a post is in exactly one port, or taken out of it by the receiver, until it is resolved; `sends_open` of
//! a rank counts its borrowed posts that are not resolved, and [`OpenSends`] keeps the rank inside `exchange` (also when
//! unwinding) until it is 0. Only one port is locked at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::group::Group;
use crate::stall::StallWatch;
use crate::{CommError, Received};

/// How long a receiver sleeps before it asks whether the one it waits for has passed the exchange without sending.
const DOUBT: Duration = Duration::from_secs(1);

/// The slices of a sender who waits inside `exchange` until they are copied.
///
/// The type of the elements is erased because their lifetime ends with the exchange, not with the post's type.
#[derive(Debug, Clone, Copy)]
struct BorrowedSlices {
    /// Points to `count` values of type `&[u8]`.
    first: *const (),
    count: usize,
}

// SAFETY: the slices are only read, and the sender keeps them alive and unchanged until the post is resolved.
unsafe impl Send for BorrowedSlices {}

#[derive(Debug)]
enum Body {
    Borrowed(BorrowedSlices),
    Owned(Vec<u8>),
}

#[derive(Debug)]
struct Post {
    /// The number of the exchange it belongs to.
    sequence: u64,
    source: usize,
    body: Body,
}

/// Why a borrowed post was not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Left,
    Unexpected,
    /// The group has failed.
    Failed,
}

/// What the owner of a port sleeps for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Sleep {
    #[default]
    Awake,
    Posts,
    Sends,
}

#[derive(Debug, Default)]
struct State {
    posts: Vec<Post>,
    /// Exchanges with a lower sequence are over for the owner: it takes no more posts of them.
    exchanges_over: u64,
    closed: bool,
    sends_open: usize,
    /// The owner's posts that were refused, with the receiver.
    refusals: Vec<(usize, Refusal)>,
    sleep: Sleep,
}

#[derive(Debug)]
pub(super) struct Port {
    state: Mutex<State>,
    wake: Condvar,
    /// The owner has left; set after its last post.
    left: AtomicBool,
}

impl Port {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), left: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lays a post before the owner, or says why not.
    fn post(&self, post: Post) -> Result<(), Refusal> {
        let mut state = self.lock();
        if state.closed {
            return Err(Refusal::Left);
        }
        if matches!(post.body, Body::Borrowed(_)) && post.sequence < state.exchanges_over {
            return Err(Refusal::Unexpected);
        }
        state.posts.push(post);
        let sleeps = state.sleep == Sleep::Posts;
        drop(state);
        if sleeps {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// One borrowed post of the owner is copied (`None`) or refused by `peer`.
    fn resolve(&self, refusal: Option<(usize, Refusal)>) {
        let mut state = self.lock();
        state.sends_open -= 1;
        state.refusals.extend(refusal);
        let sleeps = state.sends_open == 0 && state.sleep == Sleep::Sends;
        drop(state);
        if sleeps {
            self.wake.notify_one();
        }
    }
}

/// Where and when an exchange happens, for messages and errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) group: &'a Group,
    pub(super) rank: usize,
    pub(super) sequence: u64,
}

/// The borrowed posts of a rank in one exchange. Dropping it waits until none is open.
struct OpenSends<'a> {
    place: &'a Place<'a>,
    sends: &'a [(usize, &'a [&'a [u8]])],
}

impl OpenSends<'_> {
    /// Waits until every post is resolved.
    fn wait(&self) {
        let Place { group, rank, .. } = *self.place;
        let mut watch = StallWatch::start();
        let mut failed = false;
        loop {
            let open = self.place.port().lock().sends_open;
            if open == 0 {
                return;
            }
            if !failed && group.calls.has_failed() {
                failed = true;
                self.take_back();
                continue;
            }
            let in_vain = self.place.sleep_while(Sleep::Sends, watch.sleep(), |state| {
                state.sends_open > 0 && (failed || !group.calls.has_failed())
            });
            if in_vain && watch.is_due() {
                watch.report(rank, "exchange", &format!("{open} receivers to copy"));
            }
        }
    }

    /// Takes the posts back that their receivers have not begun to copy.
    fn take_back(&self) {
        let Place { group, rank, sequence } = *self.place;
        for &(destination, _) in self.sends {
            let mut state = group.ports[destination].lock();
            let mine = |post: &mut Post| post.source == rank && post.sequence == sequence;
            let taken: Vec<_> = state.posts.extract_if(.., mine).collect();
            drop(state);
            for _ in taken {
                self.place.port().resolve(Some((destination, Refusal::Failed)));
            }
        }
    }

    /// Waits until every post is resolved and returns the refusals.
    fn finish(self) -> Vec<(usize, Refusal)> {
        self.wait();
        std::mem::take(&mut self.place.port().lock().refusals)
    }
}

impl Drop for OpenSends<'_> {
    fn drop(&mut self) {
        self.wait();
    }
}

impl Place<'_> {
    fn port(&self) -> &Port {
        &self.group.ports[self.rank]
    }

    /// Lays a copy of `bytes` before `destination`. A destination that left is not told here: the meeting that ends the
    /// sparse exchange fails then.
    pub(super) fn post_owned(&self, destination: usize, bytes: &[u8]) {
        let post = Post { sequence: self.sequence, source: self.rank, body: Body::Owned(bytes.to_vec()) };
        let _ = self.group.ports[destination].post(post);
    }

    /// Takes all owned messages of this call, sorted by source.
    pub(super) fn take_owned(&self) -> Vec<Received> {
        let mut state = self.port().lock();
        let mut received: Vec<_> = state
            .posts
            .extract_if(.., |post| post.sequence == self.sequence)
            .filter_map(|post| match post.body {
                Body::Owned(bytes) => Some(Received { source: post.source, bytes }),
                Body::Borrowed(_) => None,
            })
            .collect();
        drop(state);
        received.sort_unstable_by_key(|message| message.source);
        received
    }

    /// The exchange with other ranks (messages to itself are the caller's): all sends are laid before their receivers,
    /// then everything expected is copied as it comes, then the sends are awaited. An error does not stop it: what can
    /// be delivered is, so that no other rank waits for this one, and the first error is returned.
    ///
    /// `receives` is sorted by source.
    pub(super) fn exchange(
        &self,
        sends: &[(usize, &[&[u8]])],
        receives: &mut [(usize, &mut [u8])],
    ) -> Result<(), CommError> {
        let open = OpenSends { place: self, sends };
        self.port().lock().sends_open += sends.len();
        for &(destination, slices) in sends {
            // `open` keeps this call from returning or unwinding before the post is resolved.
            let body = Body::Borrowed(BorrowedSlices { first: slices.as_ptr().cast(), count: slices.len() });
            let post = Post { sequence: self.sequence, source: self.rank, body };
            if let Err(refusal) = self.group.ports[destination].post(post) {
                self.port().resolve(Some((destination, refusal)));
            }
        }
        let received = self.receive_all(receives);
        self.refuse_rest();
        let refusals = open.finish();
        let has_left = |peer| refusals.contains(&(peer, Refusal::Left));
        let unexpected = refusals.iter().find(|refusal| refusal.1 == Refusal::Unexpected);
        received?;
        match (refusals.first(), unexpected) {
            (None, _) => Ok(()),
            (_, Some((peer, _))) => Err(CommError::Mismatch {
                call: "exchange",
                message: format!("rank {} sends to rank {peer}, which expects nothing from it", self.rank),
            }),
            _ => self.group.calls.trouble(self.rank, "exchange", has_left).map_or(Ok(()), Err),
        }
    }

    /// Copies every expected message; returns the first error after all are copied or given up.
    fn receive_all(&self, receives: &mut [(usize, &mut [u8])]) -> Result<(), CommError> {
        let mut outcome = Ok(());
        let mut missing: Vec<bool> = vec![true; receives.len()];
        let mut missing_count = receives.len();
        let mut events_seen = 0;
        let mut in_doubt = false;
        let mut watch = StallWatch::start();
        loop {
            for post in self.take_borrowed() {
                let Ok(index) = receives.binary_search_by_key(&post.source, |receive| receive.0) else {
                    self.group.ports[post.source].resolve(Some((self.rank, Refusal::Unexpected)));
                    continue;
                };
                let copied = self.copy(&post, receives[index].1);
                self.group.ports[post.source].resolve(None);
                missing[index] = false;
                missing_count -= 1;
                outcome = outcome.and(copied);
            }
            if missing_count == 0 {
                return outcome;
            }
            let events = self.group.events.load(Ordering::SeqCst);
            if in_doubt || events != events_seen {
                events_seen = events;
                let awaits = |peer| (0..missing.len()).any(|index| missing[index] && receives[index].0 == peer);
                match self.group.calls.trouble(self.rank, "exchange", awaits) {
                    None | Some(CommError::PeerLeft { .. }) => {}
                    Some(failure) => return outcome.and(Err(failure)),
                }
                let gone: Vec<_> = (0..missing.len())
                    .filter(|&index| missing[index])
                    .filter_map(|index| self.gone(receives[index].0).map(|error| (index, error)))
                    .collect();
                // What a rank sent before it went is in the port by now, and is taken before the rank is given up.
                in_doubt = self.has_posts();
                if in_doubt {
                    continue;
                }
                missing_count -= gone.len();
                for (index, error) in gone {
                    missing[index] = false;
                    outcome = outcome.and(Err(error));
                }
                if missing_count == 0 {
                    return outcome;
                }
            }
            in_doubt = self.sleep_while(Sleep::Posts, Some(DOUBT), |state| {
                self.group.events.load(Ordering::SeqCst) == events_seen
                    && !state.posts.iter().any(|post| post.sequence == self.sequence)
            });
            if in_doubt && watch.is_due() {
                let peers =
                    (0..missing.len()).filter(|&index| missing[index]).map(|index| receives[index].0.to_string());
                let peers = peers.take(8).collect::<Vec<_>>().join(", ");
                watch.report(self.rank, "exchange", &format!("messages of rank {peers}"));
            }
        }
    }

    /// Takes the posts of this exchange out of the port.
    fn take_borrowed(&self) -> Vec<Post> {
        let mut state = self.port().lock();
        state.posts.extract_if(.., |post| post.sequence == self.sequence).collect()
    }

    fn has_posts(&self) -> bool {
        self.port().lock().posts.iter().any(|post| post.sequence == self.sequence)
    }

    /// Copies a message that was taken out of the port into `buffer`, of the same length.
    fn copy(&self, post: &Post, buffer: &mut [u8]) -> Result<(), CommError> {
        let Body::Borrowed(slices) = &post.body else { unreachable!("owned posts are taken by their own call") };
        // SAFETY: the post was made from a `&[&[u8]]` and is not resolved yet, so its sender is still inside `exchange`,
        // which borrows the slices and what they point to; nobody writes to them.
        let slices = unsafe { std::slice::from_raw_parts(slices.first.cast::<&[u8]>(), slices.count) };
        crate::bytes::concatenate(slices, buffer).map_err(|(found, expected)| CommError::Mismatch {
            call: "exchange",
            message: format!("rank {} sends {found} bytes, rank {} expects {expected}", post.source, self.rank),
        })
    }

    /// Why `peer` will never post to this exchange, if so: it left, or is past it.
    fn gone(&self, peer: usize) -> Option<CommError> {
        let port = &self.group.ports[peer];
        if port.left.load(Ordering::SeqCst) {
            return Some(CommError::PeerLeft { call: "exchange", rank: self.rank, peer });
        }
        (port.lock().exchanges_over > self.sequence).then(|| CommError::Mismatch {
            call: "exchange",
            message: format!("rank {} expects a message of rank {peer}, which sends none", self.rank),
        })
    }

    /// Sleeps at this rank's port for `time`, or until woken, unless `condition` is false by now; returns true after that
    /// time in vain.
    fn sleep_while(&self, sleep: Sleep, time: Option<Duration>, condition: impl FnOnce(&State) -> bool) -> bool {
        self.group.port_sleepers.fetch_add(1, Ordering::SeqCst);
        let mut in_vain = false;
        let port = self.port();
        let mut state = port.lock();
        // Asked after the count of sleepers is raised: who leaves or fails from now on sees a sleeper and wakes it.
        if condition(&state) {
            state.sleep = sleep;
            state = match time {
                None => port.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(time) => {
                    let (woken, timeout) = port.wake.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
                    in_vain = timeout.timed_out();
                    woken
                }
            };
            state.sleep = Sleep::Awake;
        }
        drop(state);
        self.group.port_sleepers.fetch_sub(1, Ordering::SeqCst);
        in_vain
    }

    /// Ends the exchange for this rank: what was sent to it and not expected is refused, now or when it comes.
    fn refuse_rest(&self) {
        let mut state = self.port().lock();
        state.exchanges_over = self.sequence + 1;
        let rest: Vec<_> = state.posts.extract_if(.., |post| post.sequence <= self.sequence).collect();
        drop(state);
        let failed = self.group.calls.has_failed();
        self.group.refuse(self.rank, rest, if failed { Refusal::Failed } else { Refusal::Unexpected });
    }
}

impl Group {
    fn refuse(&self, rank: usize, posts: Vec<Post>, refusal: Refusal) {
        for post in posts {
            if matches!(post.body, Body::Borrowed(_)) {
                self.ports[post.source].resolve(Some((rank, refusal)));
            }
        }
    }

    /// Rank `rank` leaves: what lies before it is refused, and those who wait for its posts are woken.
    pub(super) fn close_port(&self, rank: usize) {
        let port = &self.ports[rank];
        let mut state = port.lock();
        state.closed = true;
        let rest = std::mem::take(&mut state.posts);
        drop(state);
        port.left.store(true, Ordering::SeqCst);
        self.events.fetch_add(1, Ordering::SeqCst);
        self.refuse(rank, rest, Refusal::Left);
        self.wake_ports();
    }

    /// Wakes whoever sleeps at a port, to look at what has happened.
    pub(super) fn wake_ports(&self) {
        if self.port_sleepers.load(Ordering::SeqCst) == 0 {
            return;
        }
        for port in &self.ports {
            let sleeps = port.lock().sleep != Sleep::Awake;
            if sleeps {
                port.wake.notify_one();
            }
        }
    }
}
