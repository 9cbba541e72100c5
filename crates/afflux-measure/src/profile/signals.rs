//! Signals as events: blocked while a job runs and read from a descriptor, so that the profile is written whatever comes.

use super::ProfileError;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A child changed its state.
    Child,
    /// We are told to end.
    End(Signal),
    /// Something meant for the job.
    Other(Signal),
}

/// Receives signals; dropped, it puts the mask back as it was.
#[derive(Debug)]
pub struct Signals {
    descriptor: SignalFd,
    mask: SigSet,
    before: SigSet,
}

/// Signals that end a job as a rule.
const END: [Signal; 2] = [Signal::SIGTERM, Signal::SIGHUP];
/// Signals that mean what the job makes of them: a key at the terminal, a warning of the batch system.
const OTHER: [Signal; 4] = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

impl Signals {
    /// Begins to receive. The process has no other threads, or they block these signals too.
    ///
    /// # Errors
    ///
    /// Where SIGCHLD is ignored, since children then end unseen, or the process has no descriptor left.
    pub fn receive() -> Result<Self, ProfileError> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = ignored_signals(&status);
        if is_in(ignored, Signal::SIGCHLD) {
            return Err(ProfileError::ChildrenIgnored);
        }
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        // What our starter had ignored (nohup does so) stays ignored.
        for signal in END.into_iter().chain(OTHER).filter(|&signal| !is_in(ignored, signal)) {
            mask.add(signal);
        }
        let before = mask.thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(ProfileError::Watch)?;
        let descriptor =
            SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map_err(ProfileError::Watch)?;
        Ok(Self { descriptor, mask, before })
    }

    /// Runs `start` with the mask that this process was started with, which whatever is started inherits. A signal that arrives
    /// meanwhile acts as it would have without us; starting a program takes a millisecond.
    pub fn as_before<T>(&self, start: impl FnOnce() -> T) -> T {
        let _ = self.before.thread_set_mask();
        let started = start();
        let _ = self.mask.thread_block();
        started
    }

    /// To wait for signals with poll(2).
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The next signal that has arrived and whether it came from a terminal, which then told the job, too.
    pub fn next(&mut self) -> Option<(Event, bool)> {
        loop {
            let info = self.descriptor.read_signal().ok()??;
            // SI_KERNEL of sigaction(2).
            let from_terminal = info.ssi_code == 0x80;
            let number = i32::try_from(info.ssi_signo).ok()?;
            match Signal::try_from(number) {
                Ok(Signal::SIGCHLD) => return Some((Event::Child, false)),
                Ok(signal) if END.contains(&signal) => return Some((Event::End(signal), from_terminal)),
                Ok(signal) => return Some((Event::Other(signal), from_terminal)),
                Err(_) => {}
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}

/// The set of ignored signals in /proc/PID/status, bit n - 1 for signal n.
fn ignored_signals(status: &str) -> u64 {
    let field = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    field.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(set: u64, signal: Signal) -> bool {
    set >> (signal as i32 - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let set = ignored_signals("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n");
        assert!(is_in(set, Signal::SIGHUP) && is_in(set, Signal::SIGPIPE));
        assert!(!is_in(set, Signal::SIGTERM));
        assert_eq!(ignored_signals("nothing"), 0);
    }
}
