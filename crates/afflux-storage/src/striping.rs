//! Where the bytes of a file lie on a parallel file system, as far as whoever plans accesses must know.
//!
//! Lustre says it in the extended attribute `lustre.lov`: [`parse_lov`] reads the layouts there are (v1, v3 with a pool,
//! composite ones, overstriped ones). The bytes come from a file system that may be newer than this code or broken, so
//! nothing in them is trusted: whatever is not understood is an error, never a panic.
//!
//! The layout of the structures is that of `lustre_user.h` (Lustre 2.4 to 2.16); no Lustre was at hand to test against.

use std::io;

/// The kind of a file system, by what it means for several writers of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FileSystemKind {
    /// Not known.
    #[default]
    Unknown,
    /// One kernel has it: disks and memory of this machine.
    Local,
    /// Lustre: each storage target hands out the locks of its own objects.
    Lustre,
    /// GPFS (Spectrum Scale): one manager hands out ranges of the file.
    Gpfs,
    /// NFS: no locks between clients that cache.
    Nfs,
    /// Another one whose clients cache on their own (SMB, AFS, 9P): a write on one node may be seen on another much later, or not in order.
    Cached,
}

impl FileSystemKind {
    /// Whether processes on several nodes see each other's writes at once and in order, as POSIX has it; `None` where nothing is known.
    #[must_use]
    pub fn is_coherent(self) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::Local | Self::Lustre | Self::Gpfs => Some(true),
            Self::Nfs | Self::Cached => Some(false),
        }
    }
}

/// A layout that repeats: stripe `n` lies on target `n mod stripe_count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Striping {
    /// Bytes of a stripe; not 0.
    pub stripe_bytes: u64,
    /// Stripes until the first target comes again; not 0.
    pub stripe_count: u64,
    /// How many of the targets are different: fewer than stripes in an overstriped file.
    pub target_count: u64,
}

/// What is asked of a new file. What is not asked is the site's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StripingRequest {
    /// Bytes of a stripe: on Lustre a multiple of 64 KiB.
    pub stripe_bytes: Option<u64>,
    /// Number of stripes.
    pub stripe_count: Option<u64>,
    /// The target of the first stripe.
    pub target_first: Option<u64>,
    /// Stripes that share a target, on average: more than 1 asks for an overstriped file.
    pub stripes_per_target: Option<u64>,
}

impl StripingRequest {
    /// Whether nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a layout is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The bytes end before the structure does.
    #[error("the layout ends too early, at byte {0}")]
    Truncated(usize),
    /// A kind of layout that this version does not know.
    #[error("a layout of an unknown kind, {0:#010x}")]
    Magic(u32),
    /// Stripes without bytes, or none.
    #[error("a layout without stripes")]
    Empty,
    /// The file's data lie elsewhere (released to an archive, in the metadata server alone, with a foreign system).
    #[error("a layout whose data lie elsewhere, pattern {0:#x}")]
    Elsewhere(u32),
}

impl From<LayoutError> for io::Error {
    fn from(error: LayoutError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

const MAGIC_V1: u32 = 0x0BD1_0BD0;
const MAGIC_V3: u32 = 0x0BD3_0BD0;
const MAGIC_COMPOSITE: u32 = 0x0BD6_0BD0;

/// Patterns of [`MAGIC_V1`] and [`MAGIC_V3`]; the upper half holds flags.
const PATTERN_RAID0: u32 = 0x001;
const PATTERN_MDT: u32 = 0x100;
const PATTERN_OVERSTRIPING: u32 = 0x200;
const PATTERN_MASK: u32 = 0xFFFF;
const PATTERN_RELEASED: u32 = 0x8000_0000;

/// Bytes of the head of v1, of the pool name of v3, of one object, of the head of a composite layout and of its entries.
const HEAD_BYTES: usize = 32;
const POOL_BYTES: usize = 16;
const OBJECT_BYTES: usize = 24;
const COMPOSITE_HEAD_BYTES: usize = 32;
const ENTRY_BYTES: usize = 48;

/// Where the objects of a component have not been allocated yet, this is its count of stripes or target.
const NONE_16: u16 = u16::MAX;

/// A component of a composite layout that exists; others come into being when they are written.
const COMPONENT_INITIALISED: u32 = 0x10;
/// A component that must not be read: a mirror that is out of date.
const COMPONENT_STALE: u32 = 0x01;
/// A component of codes, not of data.
const COMPONENT_PARITY: u32 = 0x80;

/// The numbers of a structure, wherever they stand.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N], LayoutError> {
        let end = at.checked_add(N).ok_or(LayoutError::Truncated(self.0.len()))?;
        let bytes = self.0.get(at..end).ok_or(LayoutError::Truncated(self.0.len()))?;
        Ok(bytes.try_into().expect("as many bytes as were asked for"))
    }

    fn u16(&self, at: usize) -> Result<u16, LayoutError> {
        Ok(u16::from_le_bytes(self.bytes(at)?))
    }

    fn u32(&self, at: usize) -> Result<u32, LayoutError> {
        Ok(u32::from_le_bytes(self.bytes(at)?))
    }

    fn u64(&self, at: usize) -> Result<u64, LayoutError> {
        Ok(u64::from_le_bytes(self.bytes(at)?))
    }
}

/// Reads the attribute `lustre.lov`. A composite layout counts as its widest component that holds data: a progressive file
/// ends in it, and large accesses meet little else.
///
/// # Errors
/// [`LayoutError`] for what is not understood.
pub fn parse_lov(bytes: &[u8]) -> Result<Striping, LayoutError> {
    match Fields(bytes).u32(0)? {
        MAGIC_V1 => plain(bytes, HEAD_BYTES),
        MAGIC_V3 => plain(bytes, HEAD_BYTES + POOL_BYTES),
        MAGIC_COMPOSITE => composite(bytes),
        other => Err(LayoutError::Magic(other)),
    }
}

fn plain(bytes: &[u8], head_bytes: usize) -> Result<Striping, LayoutError> {
    let fields = Fields(bytes);
    let (pattern, stripe_bytes, stripe_count) = (fields.u32(4)?, fields.u32(24)?, fields.u16(28)?);
    if pattern & PATTERN_RELEASED != 0 || pattern & PATTERN_MASK & !(PATTERN_RAID0 | PATTERN_OVERSTRIPING) != 0 {
        return Err(LayoutError::Elsewhere(pattern));
    }
    if stripe_bytes == 0 || stripe_count == 0 || stripe_count == NONE_16 {
        return Err(LayoutError::Empty);
    }
    let mut targets = Vec::with_capacity(usize::from(stripe_count));
    for object in 0..usize::from(stripe_count) {
        // A layout that is set but not allocated yet names no objects.
        let Ok(target) = fields.u32(head_bytes + object * OBJECT_BYTES + OBJECT_BYTES - 4) else { break };
        targets.push(target);
    }
    targets.sort_unstable();
    targets.dedup();
    let target_count = if targets.is_empty() { u64::from(stripe_count) } else { targets.len() as u64 };
    Ok(Striping { stripe_bytes: stripe_bytes.into(), stripe_count: stripe_count.into(), target_count })
}

fn composite(bytes: &[u8]) -> Result<Striping, LayoutError> {
    let fields = Fields(bytes);
    let entries = usize::from(fields.u16(14)?);
    let mut widest: Option<(bool, Striping)> = None;
    for entry in 0..entries {
        let at = COMPOSITE_HEAD_BYTES + entry * ENTRY_BYTES;
        let flags = fields.u32(at + 4)?;
        let (start, end) = (fields.u64(at + 8)?, fields.u64(at + 16)?);
        let (offset, length) = (fields.u32(at + 24)?, fields.u32(at + 28)?);
        if flags & (COMPONENT_STALE | COMPONENT_PARITY) != 0 || start >= end {
            continue;
        }
        let place = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        let component = place
            .and_then(|(offset, length)| bytes.get(offset..offset.checked_add(length)?))
            .ok_or(LayoutError::Truncated(bytes.len()))?;
        let striping = match Fields(component).u32(0)? {
            MAGIC_V1 => plain(component, HEAD_BYTES),
            MAGIC_V3 => plain(component, HEAD_BYTES + POOL_BYTES),
            other => return Err(LayoutError::Magic(other)),
        };
        let striping = match striping {
            // The first bytes of a file may lie in the metadata server.
            Err(LayoutError::Elsewhere(pattern)) if pattern & PATTERN_MASK == PATTERN_MDT => continue,
            Err(LayoutError::Empty) => continue,
            other => other?,
        };
        let rank = |(exists, striping): (bool, Striping)| (exists, striping.stripe_count);
        let found = (flags & COMPONENT_INITIALISED != 0, striping);
        if widest.is_none_or(|widest| rank(found) > rank(widest)) {
            widest = Some(found);
        }
    }
    widest.map(|(_, striping)| striping).ok_or(LayoutError::Empty)
}

/// The structure with which Lustre is asked for a layout: `lov_user_md_v1` without objects.
///
/// # Errors
/// `InvalidInput` for numbers that it has no room for.
pub fn lov_request(request: &StripingRequest) -> io::Result<[u8; HEAD_BYTES]> {
    let too_large =
        |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{what} is too large for a layout"));
    let stripe_bytes = u32::try_from(request.stripe_bytes.unwrap_or(0)).map_err(|_| too_large("striping_unit"))?;
    let stripe_count = u16::try_from(request.stripe_count.unwrap_or(0)).map_err(|_| too_large("striping_factor"))?;
    let target_first =
        request.target_first.map_or(Ok(NONE_16), u16::try_from).map_err(|_| too_large("start_iodevice"))?;
    let overstriped = request.stripes_per_target.is_some_and(|stripes| stripes > 1);
    let pattern = if overstriped { PATTERN_OVERSTRIPING | PATTERN_RAID0 } else { 0 };
    let mut bytes = [0; HEAD_BYTES];
    bytes[0..4].copy_from_slice(&MAGIC_V1.to_le_bytes());
    bytes[4..8].copy_from_slice(&pattern.to_le_bytes());
    bytes[24..28].copy_from_slice(&stripe_bytes.to_le_bytes());
    bytes[28..30].copy_from_slice(&stripe_count.to_le_bytes());
    bytes[30..32].copy_from_slice(&target_first.to_le_bytes());
    Ok(bytes)
}
