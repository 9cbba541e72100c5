//! Shared memory: a ring of bytes each way in a file that exists in memory only.

use super::{Address, Channel, Offer, name_in_proc};
use crate::sys::memory::Region;
pub use crate::sys::ring::Waiting;
use crate::sys::ring::{Ring, region_bytes};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Rings of a channel.
const RINGS: usize = 2;

struct Rings {
    from: Ring,
    to: Ring,
}

impl Channel for Rings {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.to.write(message)
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        self.from.read(message)
    }
}

impl Rings {
    fn new(region: Region, waiting: Waiting, offered: bool) -> Self {
        let region = Arc::new(region);
        let ring = |index| Ring::new(&region, index, RINGS, waiting);
        if offered { Self { from: ring(0), to: ring(1) } } else { Self { from: ring(1), to: ring(0) } }
    }
}

/// A file without a name in any directory.
pub fn nameless_file() -> io::Result<File> {
    Ok(File::from(memfd_create(c"afflux-bench", MFdFlags::MFD_CLOEXEC)?))
}

/// Opens the other side's nameless file.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Rings before the other side has mapped them.
pub struct SharedOffer {
    file: File,
    rings: Rings,
}

impl SharedOffer {
    pub fn new(waiting: Waiting) -> io::Result<Self> {
        let file = nameless_file()?;
        let region = Region::create(&file, region_bytes(RINGS))?;
        Ok(Self { file, rings: Rings::new(region, waiting, true) })
    }
}

impl Offer for SharedOffer {
    fn address(&self) -> Address {
        Address::Memory(name_in_proc(&self.file))
    }

    fn take(mut self: Box<Self>) -> io::Result<Box<dyn Channel>> {
        // The first byte says that the other side has mapped the file.
        self.rings.receive(&mut [0])?;
        Ok(Box::new(self.rings))
    }
}

pub fn join(path: &Path, waiting: Waiting) -> io::Result<impl Channel + use<>> {
    let mut rings = Rings::new(Region::open(&open(path)?)?, waiting, false);
    rings.send(&[1])?;
    Ok(rings)
}
