//! Pipes, anonymous and named: one each way.
//!
//! The offering side makes the anonymous ones and the other opens its ends through `/proc/PID/fd`: the same pipes as those that a
//! child inherits, without the need to be one.

use super::{Address, Channel, Offer, Supplies, name_in_proc};
use nix::sys::stat::Mode;
use std::fs::{self, File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Both ways through anything that is read and written.
struct Pipes<R, W> {
    from: R,
    to: W,
}

impl<R: Read, W: Write> Channel for Pipes<R, W> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.to.write_all(message)
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        self.from.read_exact(message)
    }
}

/// Anonymous pipes before the other side has its ends.
pub struct PipeOffer {
    there: (PipeReader, PipeWriter),
    back: (PipeReader, PipeWriter),
}

impl PipeOffer {
    pub fn new() -> io::Result<Self> {
        Ok(Self { there: io::pipe()?, back: io::pipe()? })
    }
}

impl Offer for PipeOffer {
    fn address(&self) -> Address {
        Address::Files([name_in_proc(&self.there.1), name_in_proc(&self.back.0)])
    }

    fn take(self: Box<Self>) -> io::Result<Box<dyn Channel>> {
        // The other side says that it has its ends: ours of them are closed only then.
        let Self { there: (mut from, others_writer), back: (others_reader, to) } = *self;
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        drop((others_writer, others_reader));
        Ok(Box::new(Pipes { from, to }))
    }
}

pub fn join_pipe([there, back]: &[PathBuf; 2]) -> io::Result<impl Channel + use<>> {
    let mut to = OpenOptions::new().write(true).open(there)?;
    let from = File::open(back)?;
    to.write_all(&[1])?;
    Ok(Pipes { from, to })
}

/// Named pipes.
pub struct FifoOffer {
    paths: [PathBuf; 2],
}

impl FifoOffer {
    pub fn new(supplies: &Supplies) -> io::Result<Self> {
        let path = |way: &str| supplies.directory.join(format!("{}-{way}", supplies.token));
        let paths = [path("there"), path("back")];
        for path in &paths {
            nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        }
        Ok(Self { paths })
    }
}

impl Offer for FifoOffer {
    fn address(&self) -> Address {
        Address::Files(self.paths.clone())
    }

    fn take(self: Box<Self>) -> io::Result<Box<dyn Channel>> {
        let [there, back] = &self.paths;
        // Opening one end waits for the other end: both sides open in the same order.
        let from = File::open(there)?;
        let to = OpenOptions::new().write(true).open(back)?;
        remove(&self.paths)?;
        Ok(Box::new(Pipes { from, to }))
    }
}

pub fn join_fifo([there, back]: &[PathBuf; 2]) -> io::Result<impl Channel + use<>> {
    let to = OpenOptions::new().write(true).open(there)?;
    let from = File::open(back)?;
    Ok(Pipes { from, to })
}

fn remove(paths: &[impl AsRef<Path>]) -> io::Result<()> {
    paths.iter().try_for_each(fs::remove_file)
}
