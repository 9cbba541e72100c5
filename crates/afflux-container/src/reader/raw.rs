//! Reading through HDF5 without trusting what the file says: types and shapes are checked before a read, and no read asks
//! for more bytes than the file is long.
//!
//! The chunk cache and the sieve buffer are off, so HDF5 reads exactly the bytes selected, straight from the unfiltered
//! chunks: one contiguous read for each run of values, and never a stale copy of a chunk that others write.

use super::{ReadError, heap};
use crate::ElementType;
use crate::driver::superblock::{SUPERBLOCK_BYTES, Superblock, amend, is_expected};
use crate::driver::{DriverName, SharedState, access_list};
use crate::format::FormatError;
use crate::hdf::{HdfError, check};
use afflux_storage::{OpenMode, PosixStorage, Storage, StorageFile, StorageFileExt};
use hdf5_metno::sync::sync;
use hdf5_metno::types::{FixedAscii, FixedUnicode, FloatSize, IntSize, TypeDescriptor};
use hdf5_metno::{Attribute, Dataset, File, Group, H5Type, Hyperslab, Location, SliceOrIndex};
use hdf5_metno_sys::{h5f, h5p};
use ndarray::IxDyn;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Longest fixed-length text attribute that is read; longer ones are cut by HDF5.
const TEXT_BYTES_MAX: usize = 4096;
/// Metadata read while a writer changes it fails its checksum; HDF5 retries only in SWMR mode, so we do.
const ATTEMPTS: u32 = 4;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(3);

/// An open file and how much it can hold.
pub(super) struct RawFile {
    pub path: PathBuf,
    pub root: File,
    /// The same file without HDF5.
    plain: Arc<dyn StorageFile>,
    /// Length of the file when it was opened.
    pub bytes: u64,
    /// Whether a writer may be at work, so that a failed read is worth another attempt.
    pub live: bool,
    /// Our own driver, if HDF5 reads through it.
    driver: Option<SharedState>,
}

impl std::fmt::Debug for RawFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RawFile").field("path", &self.path).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl RawFile {
    /// Opens read-only with HDF5's stock driver and without HDF5's lock: our writer takes another one, and a reader must
    /// neither wait for it nor keep it out.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let open_error = |source| ReadError::Open { path: path.into(), source };
        let metadata = std::fs::metadata(path).map_err(open_error)?;
        if metadata.is_dir() {
            return Err(open_error(std::io::ErrorKind::IsADirectory.into()));
        }
        if !metadata.is_file() {
            // Opening a pipe would wait for somebody who writes into it.
            let what = "it is a device, a pipe or the like, and no regular file";
            return Err(open_error(std::io::Error::new(std::io::ErrorKind::InvalidInput, what)));
        }
        if metadata.len() == 0 {
            return Err(ReadError::Damaged { path: path.into(), what: "it is empty".into() });
        }
        if path.to_str().is_none() {
            let what = "its name is not UTF-8; give it another, or open it by a link that has one";
            return Err(open_error(std::io::Error::new(std::io::ErrorKind::InvalidInput, what)));
        }
        let plain = PosixStorage.open(path, OpenMode::Read).map_err(open_error)?;
        if let Some(found) = signature(&*plain).map_err(open_error)? {
            return Err(ReadError::NotHdf5 { path: path.into(), found });
        }
        let root = File::with_options()
            .with_fapl(|list| list.file_locking(false).chunk_cache(0, 0, 0.0).sieve_buf_size(0))
            .open(path)
            .map_err(|error| ReadError::Damaged { path: path.into(), what: format!("HDF5 cannot open it: {error}") })?;
        Ok(Self { path: path.into(), root, plain, bytes: metadata.len(), live: true, driver: None })
    }

    /// Opens a file that a storage has open, through our own driver; `path` is for messages. The caller keeps writers away.
    pub fn over(file: Arc<dyn StorageFile>, path: &Path) -> Result<Self, ReadError> {
        let open_error = |source| ReadError::Open { path: path.into(), source };
        if let Some(found) = signature(&*file).map_err(open_error)? {
            return Err(ReadError::NotHdf5 { path: path.into(), found });
        }
        let bytes = file.len().map_err(open_error)?;
        // Flags that another program set, or an end that the file does not have, hinder nobody who has the file to himself.
        let mut superblock: Superblock = [0; SUPERBLOCK_BYTES];
        let read = file.read_full_at(&mut superblock, 0).map_err(open_error)?;
        let state = if read == SUPERBLOCK_BYTES && is_expected(&superblock) {
            amend(&mut superblock, bytes);
            SharedState::resumed(Arc::clone(&file), &superblock, bytes)
        } else {
            SharedState::over(Arc::clone(&file), bytes)
        };
        let opened = sync(|| open_with(&state));
        let root = opened.map_err(|error| match state.take_read_fault() {
            Some(fault) => open_error(fault),
            None => ReadError::Damaged { path: path.into(), what: format!("HDF5 cannot open it: {error}") },
        })?;
        Ok(Self { path: path.into(), root, plain: file, bytes, live: false, driver: Some(state) })
    }

    /// What is wrong with the file; or the storage's fault, where HDF5 failed for that.
    pub fn damaged(&self, what: impl Into<String>) -> ReadError {
        if let Some(source) = self.driver.as_ref().and_then(SharedState::take_read_fault) {
            return ReadError::Open { path: self.path.clone(), source };
        }
        ReadError::Damaged { path: self.path.clone(), what: what.into() }
    }

    pub fn not_afflux(&self, what: impl Into<String>) -> ReadError {
        ReadError::NotAfflux { path: self.path.clone(), what: what.into() }
    }

    /// Runs an HDF5 call, again if it fails while a writer may be at work.
    pub fn attempt<T>(&self, mut call: impl FnMut() -> hdf5_metno::Result<T>) -> hdf5_metno::Result<T> {
        let mut result = call();
        for _ in 1..ATTEMPTS {
            if result.is_ok() || !self.live {
                break;
            }
            std::thread::sleep(ATTEMPT_PAUSE);
            result = call();
        }
        result
    }

    /// Opens a dataset that must be there and have `rank` dimensions.
    pub fn dataset(&self, group: &Group, name: &str, rank: usize) -> Result<Checked, ReadError> {
        let label = label(group, name);
        let dataset = self
            .attempt(|| group.dataset(name))
            .map_err(|error| self.damaged(format!("dataset {label} cannot be opened: {error}")))?;
        let checked = self.checked(dataset, label)?;
        if checked.shape.len() != rank {
            return Err(self.damaged(format!("{} has {} dimensions, not {rank}", checked.label, checked.shape.len())));
        }
        Ok(checked)
    }

    /// Learns a dataset's shape, chunks and type.
    pub fn checked(&self, dataset: Dataset, label: String) -> Result<Checked, ReadError> {
        let describe = || -> hdf5_metno::Result<_> {
            let space = dataset.space()?;
            let shape = space.shape().into_iter().map(|length| length as u64).collect();
            let chunk = dataset.dcpl()?.chunk().map(|chunk| chunk.into_iter().map(|length| length as u64).collect());
            Ok((shape, chunk, dataset.dtype()?.to_descriptor()?))
        };
        let (shape, chunk, descriptor) =
            describe().map_err(|error| self.damaged(format!("{label} cannot be understood: {error}")))?;
        Ok(Checked { dataset, label, shape, chunk, descriptor })
    }

    /// Reads a box of values, row-major, one range a dimension. HDF5 converts them to `T` where the file has another number
    /// type.
    pub fn read<T: H5Type>(&self, from: &Checked, ranges: &[Range<u64>]) -> Result<Vec<T>, ReadError> {
        assert_eq!(ranges.len(), from.shape.len(), "one range a dimension of {}", from.label);
        let mut values = 1_u64;
        let mut slices = Vec::with_capacity(ranges.len());
        for (range, &length) in ranges.iter().zip(&from.shape) {
            if range.start > range.end || range.end > length {
                return Err(self.damaged(format!("{} ends at {length}, before {}", from.label, range.end)));
            }
            let count = range.end - range.start;
            values = values.saturating_mul(count);
            slices.push(SliceOrIndex::SliceCount {
                start: self.index(range.start)?,
                step: self.index(count.max(1))?,
                count: 1,
                block: self.index(count)?,
            });
        }
        if values == 0 {
            return Ok(Vec::new());
        }
        self.check_memory(from, values, size_of::<T>())?;
        let selection = Hyperslab::from(slices);
        let array = self
            .attempt(|| from.dataset.read_slice::<T, _, IxDyn>(selection.clone()))
            .map_err(|error| self.damaged(format!("{} cannot be read: {error}", from.label)))?;
        Ok(array.into_raw_vec_and_offset().0)
    }

    /// Reads a piece of a dataset of one dimension.
    pub fn read_line<T: H5Type>(&self, from: &Checked, range: Range<u64>) -> Result<Vec<T>, ReadError> {
        self.read(from, std::slice::from_ref(&range))
    }

    /// Refuses a read that the file cannot hold (its shape is damaged) or the memory cannot.
    fn check_memory(&self, from: &Checked, values: u64, bytes_per_value: usize) -> Result<(), ReadError> {
        let in_file = values.saturating_mul(from.value_bytes());
        if in_file > self.bytes {
            let what = format!("{} claims {in_file} bytes of a file of {} bytes", from.label, self.bytes);
            return Err(self.damaged(what));
        }
        let bytes = values.saturating_mul(bytes_per_value as u64);
        let mut probe = Vec::<u8>::new();
        usize::try_from(bytes)
            .ok()
            .and_then(|bytes| probe.try_reserve_exact(bytes).ok())
            .ok_or(ReadError::Memory { bytes })
    }

    fn index(&self, value: u64) -> Result<usize, ReadError> {
        usize::try_from(value).map_err(|_| ReadError::Memory { bytes: value })
    }

    /// Reads a one-dimensional dataset of variable-length texts, past HDF5 (see `heap`).
    pub fn read_texts(&self, from: &Checked) -> Result<Vec<String>, ReadError> {
        let wrong = |what: String| self.damaged(format!("{} cannot be read: {what}", from.label));
        if !matches!(from.descriptor, TypeDescriptor::VarLenUnicode | TypeDescriptor::VarLenAscii) {
            return Err(wrong("it holds no variable-length texts".into()));
        }
        let count = from.shape.iter().product::<u64>();
        if count == 0 {
            return Ok(Vec::new());
        }
        self.check_memory(from, count, size_of::<String>() + heap::ELEMENT_BYTES)?;
        let offset = from.dataset.offset().ok_or_else(|| wrong("it is not contiguous".into()))?;
        let mut elements = vec![[0; heap::ELEMENT_BYTES]; self.index(count)?];
        let failed = |error| match error {
            FormatError::Io(source) => ReadError::Open { path: self.path.clone(), source },
            FormatError::Damaged(what) => wrong(what),
        };
        heap::read_exact_at(&*self.plain, elements.as_flattened_mut(), offset).map_err(failed)?;
        let mut heap = heap::Heap::new(&*self.plain, self.bytes);
        elements.iter().map(|element| heap.text(element).map_err(failed)).collect()
    }

    /// The text of an attribute; `None` where there is no such attribute or it is no text of fixed length (those of variable
    /// length lie in the heap, which HDF5 reads without care).
    pub fn text_attribute(&self, location: &Location, name: &str) -> Option<String> {
        let attribute = location.attr(name).ok().filter(|attribute| attribute.size() == 1)?;
        let reader = attribute.as_reader();
        let text = match attribute.dtype().ok()?.to_descriptor().ok()? {
            TypeDescriptor::FixedUnicode(_) => {
                let texts = reader.read_raw::<FixedUnicode<TEXT_BYTES_MAX>>().ok()?;
                String::from_utf8_lossy(texts.first()?.as_bytes()).into_owned()
            }
            TypeDescriptor::FixedAscii(_) => {
                let texts = reader.read_raw::<FixedAscii<TEXT_BYTES_MAX>>().ok()?;
                String::from_utf8_lossy(texts.first()?.as_bytes()).into_owned()
            }
            _ => return None,
        };
        Some(text)
    }

    /// The integer of a one-element attribute; `None` where there is no such attribute or it is no integer.
    pub fn integer_attribute(&self, location: &Location, name: &str) -> Option<i64> {
        let attribute: Attribute = location.attr(name).ok()?;
        if attribute.size() != 1 {
            return None;
        }
        attribute.read_raw::<i64>().ok()?.first().copied()
    }
}

/// A dataset with what was learnt about it when the file was opened; a writer may have extended it since.
#[derive(Debug)]
pub(super) struct Checked {
    pub dataset: Dataset,
    /// Path within the file, for messages.
    pub label: String,
    pub shape: Vec<u64>,
    pub chunk: Option<Vec<u64>>,
    pub descriptor: TypeDescriptor,
}

impl Checked {
    /// The type of the values, where it is one that a variable can have.
    pub fn element(&self) -> Option<ElementType> {
        match self.descriptor {
            TypeDescriptor::Float(FloatSize::U4) => Some(ElementType::F32),
            TypeDescriptor::Float(FloatSize::U8) => Some(ElementType::F64),
            TypeDescriptor::Integer(IntSize::U4) => Some(ElementType::I32),
            TypeDescriptor::Integer(IntSize::U8) => Some(ElementType::I64),
            _ => None,
        }
    }

    fn value_bytes(&self) -> u64 {
        match &self.descriptor {
            // In the file a text of variable length is a length, the address of a heap and an index: 16 bytes.
            TypeDescriptor::VarLenAscii | TypeDescriptor::VarLenUnicode => 16,
            other => other.size() as u64,
        }
    }
}

/// The path of a group's member, for messages.
pub(super) fn label(group: &Group, name: &str) -> String {
    format!("{}/{name}", group.name().trim_end_matches('/'))
}

/// Has HDF5 open a state of our driver for reading. Call within `sync`.
fn open_with(state: &SharedState) -> Result<File, HdfError> {
    let name = DriverName::new(state);
    let access = access_list()?;
    // SAFETY: a valid property list; a NUL-terminated name and the list; the identifier, once valid, is the new `File`'s alone;
    // all under HDF5's lock.
    unsafe {
        check("H5Pset_cache", h5p::H5Pset_cache(access.id(), 0, 0, 0, 0.0))?;
        let file = h5f::H5Fopen(name.as_c_str().as_ptr(), h5f::H5F_ACC_RDONLY, access.id());
        if file < 0 {
            return Err(HdfError::last("H5Fopen"));
        }
        hdf5_metno::from_id(file).map_err(|error| HdfError::new("H5Fopen", error.to_string()))
    }
}

/// What the file seems to be where it does not begin as HDF5 files do; `None` for HDF5.
fn signature(file: &dyn StorageFile) -> std::io::Result<Option<&'static str>> {
    let mut start = [0; 8];
    let read = file.read_full_at(&mut start, 0)?;
    Ok(match &start[..read] {
        b"\x89HDF\r\n\x1a\n" => None,
        [b'C', b'D', b'F', ..] => Some("it is a classic netCDF file"),
        _ => Some("it does not begin with HDF5's signature"),
    })
}
