//! System V message queues: `msgget(2)`, `msgsnd(2)`, `msgrcv(2)`, `msgctl(2)`.
//!
//! A queue outlives all processes until somebody removes it by [`remove`]; `crate::janitor` sees to that.

use super::check;
use std::io;

/// The type that all our messages have; there must be one above 0.
const TYPE: libc::c_long = 1;
/// Bytes that carry the type, before those of the message.
const HEADER_BYTES: usize = size_of::<libc::c_long>();

/// Makes a queue that only its number leads to, readable and writable by this user.
pub fn create() -> io::Result<i32> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600 | libc::IPC_CREAT) })
}

/// Removes a queue at once; whoever waits for it gets an error.
pub fn remove(id: i32) -> io::Result<()> {
    // SAFETY: IPC_RMID reads and writes no memory of ours.
    check(unsafe { libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()) })?;
    Ok(())
}

/// Whether there is a queue of this number that we may read: for tests, which look for what was left.
#[cfg(test)]
pub fn exists(id: i32) -> bool {
    // SAFETY: a structure of numbers, for which zeros are valid; it is filled by the kernel and as long as it expects.
    let mut state: libc::msqid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::msgctl(id, libc::IPC_STAT, &raw mut state) == 0 }
}

/// One end of a queue, with the buffer that messages need because their type stands before them.
#[derive(Debug)]
pub struct Queue {
    id: i32,
    /// Whole words, as the type must be aligned.
    buffer: Vec<libc::c_long>,
    bytes_max: usize,
}

impl Queue {
    /// An end of the queue `id` for messages of at most `bytes_max`.
    #[must_use]
    pub fn new(id: i32, bytes_max: usize) -> Self {
        Self { id, buffer: vec![0; 1 + bytes_max.div_ceil(HEADER_BYTES)], bytes_max }
    }

    /// Sends a message; waits while the queue is full.
    ///
    /// # Panics
    /// When the message is longer than `bytes_max`.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        assert!(message.len() <= self.bytes_max, "{} bytes are more than {}", message.len(), self.bytes_max);
        self.buffer[0] = TYPE;
        // SAFETY: the buffer holds `bytes_max` bytes behind its first word, and `message` is another memory.
        unsafe {
            let text = self.buffer.as_mut_ptr().add(1).cast::<u8>();
            std::ptr::copy_nonoverlapping(message.as_ptr(), text, message.len());
        }
        loop {
            // SAFETY: the buffer holds a type and `message.len()` bytes behind it.
            match check(unsafe { libc::msgsnd(self.id, self.buffer.as_ptr().cast(), message.len(), 0) }) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map(|_| ()),
            }
        }
    }

    /// Waits for a message and copies it into `buffer`; returns its length. A longer one is an error (`E2BIG`).
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = buffer.len().min(self.bytes_max);
        let length = loop {
            // SAFETY: our buffer has room for the type and `room` bytes behind it.
            let got = unsafe { libc::msgrcv(self.id, self.buffer.as_mut_ptr().cast(), room, TYPE, 0) };
            match usize::try_from(got) {
                Ok(length) => break length,
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        };
        // SAFETY: the kernel has written `length` (at most `room`) bytes behind the first word; `buffer` is another memory.
        unsafe {
            let text = self.buffer.as_ptr().add(1).cast::<u8>();
            std::ptr::copy_nonoverlapping(text, buffer.as_mut_ptr(), length);
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_carries_messages_until_it_is_removed() {
        let id = create().unwrap();
        let (mut sender, mut receiver) = (Queue::new(id, 100), Queue::new(id, 100));
        sender.send(b"seven b").unwrap();
        sender.send(b"").unwrap();
        let mut buffer = [0; 100];
        assert_eq!(receiver.receive(&mut buffer).unwrap(), 7);
        assert_eq!(&buffer[..7], b"seven b");
        assert_eq!(receiver.receive(&mut buffer).unwrap(), 0);
        sender.send(&[5; 90]).unwrap();
        assert!(receiver.receive(&mut buffer[..10]).is_err(), "a message that does not fit");
        assert!(exists(id));
        remove(id).unwrap();
        assert!(!exists(id) && sender.send(b"x").is_err() && remove(id).is_err());
    }
}
