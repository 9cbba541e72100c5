//! What is timed: bursts of messages one way, each answered by one message back.
//!
//! One shape serves everything (ALGORITHMS section 9, after Hoefler's netgauge): a *round* is n messages of m bytes, spaced by a delay, and
//! then one answer. n = 1 with an answer of m bytes is a ping-pong, in which what arrives is sent back from the same
//! memory, as in NetPIPE (a side that sends the same untouched bytes over and over finds them in both processors' caches); a large n with an answer of 1 byte is a stream; a stream with a
//! delay tells the sender's own work from the time that the message needs.

use super::channel::Channel;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::{Duration, Instant};

/// Rounds of messages, from the driving side to the serving one and back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// Messages of a round.
    pub messages: u64,
    /// Bytes of each, at least 1.
    pub bytes: usize,
    /// Bytes of the answer that ends a round, at least 1.
    pub reply_bytes: usize,
    /// Time that the driving side computes after each message, in seconds.
    pub delay_seconds: f64,
    /// Rounds.
    pub rounds: u64,
    /// Whether both sides compare what they receive, byte by byte. Such a burst is not for timing.
    pub verify: bool,
    /// Whether the time of every round is kept.
    pub each_round: bool,
}

impl Burst {
    /// Messages of `bytes` back and forth.
    #[must_use]
    pub fn ping_pong(bytes: usize, rounds: u64) -> Self {
        Self { messages: 1, bytes, reply_bytes: bytes, delay_seconds: 0.0, rounds, verify: false, each_round: false }
    }

    /// Whether what arrives is what is sent back.
    fn is_ping_pong(&self) -> bool {
        self.messages == 1 && self.bytes == self.reply_bytes && self.delay_seconds == 0.0
    }

    /// `messages` of `bytes` one way, and one byte back when all have arrived.
    #[must_use]
    pub fn stream(bytes: usize, messages: u64) -> Self {
        Self { messages, bytes, reply_bytes: 1, delay_seconds: 0.0, rounds: 1, verify: false, each_round: false }
    }
}

/// The time of a burst on the driving side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// From before the first message until the last answer has arrived.
    pub seconds: f64,
    /// Of each round, where that was asked for.
    pub rounds_seconds: Vec<f64>,
}

/// Memory for messages, kept between bursts so that all mechanisms use the same.
#[derive(Debug, Default)]
pub struct Buffers {
    out: Vec<u8>,
    back: Vec<u8>,
}

/// The byte at a place of every message: what is sent is known to both sides, and no shift of it looks like it.
fn content(at: usize) -> u8 {
    // The remainder is below 251.
    u8::try_from((at + at / 251) % 251).unwrap_or(0)
}

impl Buffers {
    /// Makes room for a burst and touches it, so that the first message pays for no page.
    fn prepare(&mut self, burst: &Burst) {
        let needed = burst.bytes.max(burst.reply_bytes);
        if self.out.len() < needed {
            self.out.extend((self.out.len()..needed).map(content));
            self.back.resize(needed, 0);
        }
    }
}

/// The time of rounds.
struct Clock {
    started: Instant,
    round_started: Instant,
    /// With room for every round that is kept: nothing is allocated while the clock runs.
    rounds_seconds: Vec<f64>,
    each_round: bool,
}

impl Clock {
    fn start(burst: &Burst) -> Self {
        let kept = if burst.each_round { usize::try_from(burst.rounds).unwrap_or(0) } else { 0 };
        let rounds_seconds = Vec::with_capacity(kept);
        let now = Instant::now();
        Self { started: now, round_started: now, rounds_seconds, each_round: burst.each_round }
    }

    fn end_round(&mut self) {
        if self.each_round {
            let now = Instant::now();
            self.rounds_seconds.push((now - self.round_started).as_secs_f64());
            self.round_started = now;
        }
    }

    fn stop(self) -> Timing {
        Timing { seconds: self.started.elapsed().as_secs_f64(), rounds_seconds: self.rounds_seconds }
    }
}

/// Drives a burst and times it.
///
/// # Errors
/// What the channel says; [`io::ErrorKind::InvalidData`] where a verified answer is wrong.
pub fn drive(channel: &mut dyn Channel, burst: &Burst, buffers: &mut Buffers) -> io::Result<Timing> {
    buffers.prepare(burst);
    meet(channel, true)?;
    if burst.is_ping_pong() {
        return drive_ping_pong(channel, burst, buffers);
    }
    let Buffers { out, back } = buffers;
    let (message, answer) = (&out[..burst.bytes], &mut back[..burst.reply_bytes]);
    let delay = Duration::try_from_secs_f64(burst.delay_seconds).map_err(io::Error::other)?;
    let mut clock = Clock::start(burst);
    for _ in 0..burst.rounds {
        for _ in 0..burst.messages {
            channel.send(message)?;
            if !delay.is_zero() {
                compute(delay);
            }
        }
        receive(channel, answer, out, burst.verify)?;
        clock.end_round();
    }
    Ok(clock.stop())
}

/// [`drive`] of a ping-pong.
fn drive_ping_pong(channel: &mut dyn Channel, burst: &Burst, buffers: &mut Buffers) -> io::Result<Timing> {
    let Buffers { out, back } = buffers;
    let ball = &mut back[..burst.bytes];
    ball.copy_from_slice(&out[..burst.bytes]);
    let mut clock = Clock::start(burst);
    for _ in 0..burst.rounds {
        channel.send(ball)?;
        receive(channel, ball, out, burst.verify)?;
        clock.end_round();
    }
    Ok(clock.stop())
}

/// Serves a burst: receives its messages and answers.
///
/// # Errors
/// As [`drive`].
pub fn serve(channel: &mut dyn Channel, burst: &Burst, buffers: &mut Buffers) -> io::Result<()> {
    buffers.prepare(burst);
    meet(channel, false)?;
    let Buffers { out, back } = buffers;
    for _ in 0..burst.rounds {
        for _ in 0..burst.messages {
            receive(channel, &mut back[..burst.bytes], out, burst.verify)?;
        }
        let answer = if burst.is_ping_pong() { &*back } else { &*out };
        channel.send(&answer[..burst.reply_bytes])?;
    }
    Ok(())
}

/// Receives a message; where it is to be verified, every byte must be as in `sent`.
fn receive(channel: &mut dyn Channel, message: &mut [u8], sent: &[u8], verify: bool) -> io::Result<()> {
    if verify {
        message.fill(0xff);
    }
    channel.receive(message)?;
    if verify { check(message, sent) } else { Ok(()) }
}

/// One byte each way: when the clock starts, both sides are there.
fn meet(channel: &mut dyn Channel, drives: bool) -> io::Result<()> {
    let mut byte = [0];
    if drives {
        channel.send(&[1])?;
        channel.receive(&mut byte)
    } else {
        channel.receive(&mut byte)?;
        channel.send(&[1])
    }
}

/// Keeps the processor busy.
fn compute(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Compares what arrived with what is always sent.
fn check(arrived: &[u8], sent: &[u8]) -> io::Result<()> {
    let sent = &sent[..arrived.len()];
    if arrived == sent {
        return Ok(());
    }
    let at = arrived.iter().zip(sent).position(|(arrived, sent)| arrived != sent).unwrap_or(0);
    let message = format!("byte {at} of {} arrived as {}, not {}", sent.len(), arrived[at], sent[at]);
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}
