//! What ranks tell each other besides their calls, where they have no memory in common.
//!
//! A rank that fails tells the members of the communicator. One that has waited long asks those it waits for where they
//! are; whoever is asked answers when it waits itself, drops the communicator, or ends. All this goes as short messages
//! over an MPI communicator of its own, which ranks look at only while they wait: it costs a run in which nothing is wrong
//! nothing but that look.
//!
//! Nothing here decides: [`super::apart`] does.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_int;
use std::rc::Rc;

use mpi::ffi::{self, MPI_Comm, MPI_Request};

use super::call::Call;
use super::exchange::null_request;
use super::handle::Handle;
use super::pieces::byte;
use super::poll::{Blind, Patience, Poll, empty_status, test, test_all};
use super::{check, int};
use crate::CommError;

/// Bytes of a notice: both libraries send as many at once, whatever the receiver does.
const NOTICE_BYTES: usize = 512;
const WORDS: usize = 5;
const TEXT_BYTES: usize = NOTICE_BYTES - WORDS * size_of::<u64>();
const TAG: c_int = 1;
/// A rank that does not wait in its calls may be some of them ahead when it is asked.
const RECENT_CALLS: usize = 8;

/// What a notice says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The sender's call has failed, with the text as the message.
    Failed,
    /// The same, because ranks disagree.
    Disagrees,
    /// Where are you?
    Asks,
    /// In the call of the word.
    Answers,
    /// In none any more; the last was that of the word.
    HasLeft,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Failed, Self::Disagrees, Self::Asks, Self::Answers, Self::HasLeft];
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Notice {
    kind: Kind,
    /// The communicator that it is about.
    about: u64,
    /// The sender's rank in it.
    rank: usize,
    word: u64,
    text: String,
}

impl Notice {
    fn to_bytes(&self) -> [u8; NOTICE_BYTES] {
        let text = &self.text.as_bytes()[..self.text.floor_char_boundary(TEXT_BYTES)];
        let kind = Kind::ALL.iter().position(|&kind| kind == self.kind).expect("all kinds are listed");
        let words: [u64; WORDS] = [kind as u64, self.about, self.rank as u64, self.word, text.len() as u64];
        let mut bytes = [0; NOTICE_BYTES];
        for (place, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[WORDS * size_of::<u64>()..][..text.len()].copy_from_slice(text);
        bytes
    }

    /// `None` for what is no notice.
    fn from_bytes(bytes: &[u8; NOTICE_BYTES]) -> Option<Self> {
        let mut words =
            bytes.chunks_exact(size_of::<u64>()).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let mut next = || words.next().expect("more bytes than words");
        let kind = *Kind::ALL.get(usize::try_from(next()).ok()?)?;
        let (about, rank, word) = (next(), usize::try_from(next()).ok()?, next());
        let length = usize::try_from(next()).ok()?;
        let text = bytes[WORDS * size_of::<u64>()..].get(..length)?;
        Some(Self { kind, about, rank, word, text: String::from_utf8_lossy(text).into_owned() })
    }
}

/// Where a rank is in a communicator: the word of its call, 0 before the first, and whether it has left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) word: u64,
    pub(super) has_left: bool,
}

/// The first failure of a communicator that was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) peer: usize,
    pub(super) is_mismatch: bool,
    pub(super) message: String,
}

/// This rank's place in a communicator, and what it has heard of it.
#[derive(Debug, Default)]
pub(super) struct Topic {
    /// This rank's in the communicator.
    pub(super) rank: usize,
    pub(super) place: Cell<Place>,
    /// The words of its last calls, each at its number modulo their count.
    recent: Cell<[u64; RECENT_CALLS]>,
    pub(super) told: RefCell<Option<Told>>,
    /// Answers, by rank.
    pub(super) answers: RefCell<HashMap<usize, Place>>,
}

impl Topic {
    /// This rank is in the call of `word`, which has this number.
    pub(super) fn enter(&self, word: u64, number: u32) {
        self.place.set(Place { word, has_left: false });
        let mut recent = self.recent.get();
        recent[number as usize % RECENT_CALLS] = word;
        self.recent.set(recent);
    }

    /// What to answer one who is in the call of `asked`: the call of the same number, if this rank made another, else the
    /// last.
    fn answer(&self, asked: u64) -> Place {
        let place = self.place.get();
        let same_number = |word: u64| match (Call::from_word(asked), Call::from_word(word)) {
            (Some(asked), Some(call)) => asked.lead(call) == 0 && word != place.word,
            _ => false,
        };
        let other = self.recent.get().into_iter().find(|&word| same_number(word) && word != asked);
        Place { word: other.unwrap_or(place.word), ..place }
    }
}

/// Sends and receives notices among the ranks of a job.
pub(super) struct Notices {
    handle: Handle,
    rank: usize,
    /// By communicator. What has been dropped stays: others may still ask.
    topics: RefCell<HashMap<u64, Rc<Topic>>>,
    /// Failures of communicators that this rank has not finished making.
    early: RefCell<HashMap<u64, Told>>,
    /// Under way, with the bytes that MPI reads.
    outbox: RefCell<Vec<(MPI_Request, Box<[u8; NOTICE_BYTES]>)>>,
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Notices of rank {}", self.rank)
    }
}

impl Notices {
    /// Collective over `comm`, whose ranks notices are addressed to.
    pub(super) fn over(comm: MPI_Comm, rank: usize) -> Result<Self, CommError> {
        let handle = Handle::duplicate_of(comm, rank)?;
        Ok(Self { handle, rank, topics: RefCell::default(), early: RefCell::default(), outbox: RefCell::default() })
    }

    /// This rank's topic for a communicator in which its rank is `rank`.
    pub(super) fn topic(&self, about: u64, rank: usize) -> Rc<Topic> {
        let told = RefCell::new(self.early.borrow_mut().remove(&about));
        let topic = Rc::new(Topic { rank, told, ..Topic::default() });
        self.topics.borrow_mut().insert(about, Rc::clone(&topic));
        topic
    }

    /// Tells `destinations` that a call of this rank has failed.
    pub(super) fn tell_failure(&self, about: u64, topic: &Topic, destinations: &[u32], told: &Told) {
        let kind = if told.is_mismatch { Kind::Disagrees } else { Kind::Failed };
        let word = topic.place.get().word;
        let notice = Notice { kind, about, rank: topic.rank, word, text: told.message.clone() };
        for &destination in destinations {
            self.send(destination, &notice);
        }
    }

    /// Asks `destination` where it is.
    pub(super) fn ask(&self, about: u64, topic: &Topic, destination: u32) {
        let word = topic.place.get().word;
        self.send(destination, &Notice { kind: Kind::Asks, about, rank: topic.rank, word, text: String::new() });
    }

    /// A notice that cannot be sent is lost: those who wait for it go on waiting, and warn.
    fn send(&self, destination: u32, notice: &Notice) {
        let destination = usize::try_from(destination).expect("ranks fit in usize");
        if destination == self.rank {
            return;
        }
        let bytes = Box::new(notice.to_bytes());
        let mut request = null_request();
        // SAFETY: the bytes are on the heap and kept until the request is complete.
        let code = unsafe {
            ffi::MPI_Isend(
                bytes.as_ptr().cast(),
                int(NOTICE_BYTES),
                byte(),
                int(destination),
                TAG,
                self.handle.get(),
                &raw mut request,
            )
        };
        if check(code, "MPI_Isend", self.rank).is_ok() {
            self.outbox.borrow_mut().push((request, bytes));
        }
    }

    /// Takes the notices that have come, and answers them.
    pub(super) fn serve(&self) -> Result<(), CommError> {
        while let Some((source, bytes)) = self.receive()? {
            if let Some(notice) = Notice::from_bytes(&bytes) {
                self.take(source, notice);
            }
        }
        let rank = self.rank;
        self.outbox
            .borrow_mut()
            .retain_mut(|(request, _)| !test_all(rank, std::slice::from_mut(request), "MPI_Isend").unwrap_or(false));
        Ok(())
    }

    fn receive(&self) -> Result<Option<(u32, [u8; NOTICE_BYTES])>, CommError> {
        let mut found: c_int = 0;
        let mut status = empty_status();
        // SAFETY: plain query of a valid communicator.
        let code =
            unsafe { ffi::MPI_Iprobe(ffi::RSMPI_ANY_SOURCE, TAG, self.handle.get(), &raw mut found, &raw mut status) };
        check(code, "MPI_Iprobe", self.rank)?;
        if found == 0 {
            return Ok(None);
        }
        let mut bytes = [0; NOTICE_BYTES];
        // SAFETY: room for a notice; the message is there, so the call does not wait.
        let code = unsafe {
            ffi::MPI_Recv(
                bytes.as_mut_ptr().cast(),
                int(NOTICE_BYTES),
                byte(),
                status.MPI_SOURCE,
                TAG,
                self.handle.get(),
                ffi::RSMPI_STATUS_IGNORE,
            )
        };
        check(code, "MPI_Recv", self.rank)?;
        Ok(Some((u32::try_from(status.MPI_SOURCE).expect("the source of a message is a rank"), bytes)))
    }

    fn take(&self, source: u32, notice: Notice) {
        let topic = self.topics.borrow().get(&notice.about).map(Rc::clone);
        let Notice { kind, about, rank: peer, word, text: message } = notice;
        let told = |message| Told { peer, is_mismatch: kind == Kind::Disagrees, message };
        let Some(topic) = topic else {
            // Who asks will be told when it asks again: this rank is behind.
            if matches!(kind, Kind::Failed | Kind::Disagrees) {
                self.early.borrow_mut().entry(about).or_insert_with(|| told(message));
            }
            return;
        };
        match kind {
            Kind::Failed | Kind::Disagrees => {
                topic.told.borrow_mut().get_or_insert_with(|| told(message));
            }
            Kind::Asks => {
                let Place { word, has_left } = topic.answer(word);
                let kind = if has_left { Kind::HasLeft } else { Kind::Answers };
                self.send(source, &Notice { kind, about, rank: topic.rank, word, text: String::new() });
            }
            Kind::Answers | Kind::HasLeft => {
                let place = Place { word, has_left: kind == Kind::HasLeft };
                topic.answers.borrow_mut().insert(peer, place);
            }
        }
    }

    /// Collective over all ranks: answers until all are here, as the end of the job needs all anyway.
    pub(super) fn finish(&self) -> Result<(), CommError> {
        let mut request = null_request();
        // SAFETY: all ranks enter it, once.
        check(unsafe { ffi::MPI_Ibarrier(self.handle.get(), &raw mut request) }, "MPI_Ibarrier", self.rank)?;
        let mut poll = Poll::new(Patience { own_core: false, rank: self.rank }, "MPI_Finalize", false, &Blind);
        while !test(self.rank, &mut request, "MPI_Ibarrier")? {
            self.serve()?;
            poll.pause()?;
        }
        self.serve()
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        let mut outbox = self.outbox.take();
        let rank = self.rank;
        outbox.retain_mut(|(request, _)| !test_all(rank, std::slice::from_mut(request), "MPI_Isend").unwrap_or(false));
        // What is not sent by now stays in memory, where MPI may still read it.
        std::mem::forget(outbox);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommOperation;

    #[test]
    fn who_made_another_call_of_that_number_says_so() {
        let word = |operation, number| Call { operation, argument: 0, number }.to_word();
        let topic = Topic::default();
        for number in 0..20 {
            topic.enter(word(CommOperation::Exchange, number), number);
        }
        let answer = |asked| topic.answer(asked).word;
        assert_eq!(answer(word(CommOperation::Barrier, 17)), word(CommOperation::Exchange, 17), "another call");
        assert_eq!(answer(word(CommOperation::Exchange, 17)), word(CommOperation::Exchange, 19), "the same call");
        assert_eq!(answer(word(CommOperation::Barrier, 3)), word(CommOperation::Exchange, 19), "long ago");
        assert_eq!(answer(word(CommOperation::Barrier, 25)), word(CommOperation::Exchange, 19), "not yet");
    }

    #[test]
    fn a_notice_says_the_same_after_its_way() {
        for kind in Kind::ALL {
            let notice = Notice { kind, about: u64::MAX, rank: 7, word: 1 << 40, text: "the disk is full".to_owned() };
            assert_eq!(Notice::from_bytes(&notice.to_bytes()), Some(notice));
        }
        let long = Notice { kind: Kind::Failed, about: 1, rank: 0, word: 0, text: "é".repeat(300) };
        let found = Notice::from_bytes(&long.to_bytes()).expect("a notice");
        assert!(long.text.starts_with(&found.text) && found.text.len() > TEXT_BYTES - 2);
        assert_eq!(Notice::from_bytes(&[0xff; NOTICE_BYTES]), None);
    }
}
