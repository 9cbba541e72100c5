//! The baseline: the same datasets written with plain HDF5 by one process, as a careful user would.
//!
//! Windows arrive whole on one rank; each becomes one extension and one hyperslab write a dataset, through HDF5's own `sec2`
//! driver and a chunk cache that holds a column. No dimension scales, no bookkeeping, no seal: after a kill the file is refused
//! by readers. `afflux bench sampling` measures it as `gather`.

use crate::blueprint::{Group, global_attributes, set_group};
use crate::create::{Builder, c_string};
use crate::driver::format_bounds;
use crate::hdf::{HdfError, Hid, check, owned};
use crate::names::{SpecError, check_spec};
use crate::{DatasetIndex, ElementType, FileSpec, SetGeometry};
use hdf5_metno::sync::sync;
use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::h5p::H5P_DEFAULT;
use hdf5_metno_sys::h5s::H5S_seloper_t::H5S_SELECT_SET;
use hdf5_metno_sys::{h5d, h5f, h5p, h5s, h5t};
use std::path::Path;

/// Why the baseline failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SerialError {
    /// The description asks for something a file cannot have.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// HDF5 failed.
    #[error("HDF5: {0}")]
    Hdf5(#[from] HdfError),
}

/// A window of one set: `steps.len()` rows of all its points.
#[derive(Debug, Clone, Copy)]
pub struct SerialWindow<'a> {
    /// Simulation steps of the rows.
    pub steps: &'a [i64],
    /// Times of the rows.
    pub times: &'a [f64],
    /// Values of each variable, little-endian, in the order `[point][component][row]`.
    pub variables: &'a [&'a [u8]],
}

struct SerialDataset {
    handle: Hid,
    memory_type: hid_t,
    /// Lengths of all dimensions but time.
    leading: Vec<u64>,
    element_bytes: u64,
}

struct SerialSet {
    rows: u64,
    /// Variables in order, then `step`, then `time`.
    datasets: Vec<SerialDataset>,
}

/// Writes a file with plain HDF5, from one process.
pub struct SerialWriter {
    sets: Vec<SerialSet>,
    file: Option<Hid>,
}

impl SerialWriter {
    /// Creates the file, replacing one that is there.
    ///
    /// # Errors
    /// [`SerialError`].
    pub fn create(path: &Path, spec: &FileSpec) -> Result<Self, SerialError> {
        check_spec(spec, &spec.tables())?;
        sync(|| create_locked(path, spec))
    }

    /// Appends a window to a set.
    ///
    /// # Errors
    /// [`SerialError::Hdf5`].
    ///
    /// # Panics
    /// If there is no such set, or a buffer has another length than its shape needs.
    pub fn write_window(&mut self, set: usize, window: SerialWindow<'_>) -> Result<(), SerialError> {
        let set = &mut self.sets[set];
        let rows = window.steps.len() as u64;
        assert_eq!(window.times.len(), window.steps.len(), "a time for every step");
        assert_eq!(window.variables.len() + 2, set.datasets.len(), "a buffer for every variable");
        if rows == 0 {
            return Ok(());
        }
        let steps: Vec<u8> = window.steps.iter().flat_map(|step| step.to_le_bytes()).collect();
        let times: Vec<u8> = window.times.iter().flat_map(|time| time.to_le_bytes()).collect();
        sync(|| {
            let buffers = window.variables.iter().copied().chain([&steps[..], &times[..]]);
            for (dataset, buffer) in set.datasets.iter().zip(buffers) {
                dataset.append(set.rows, rows, buffer)?;
            }
            set.rows += rows;
            Ok(())
        })
    }

    /// Flushes and closes the file.
    ///
    /// # Errors
    /// [`SerialError::Hdf5`].
    pub fn close(mut self) -> Result<(), SerialError> {
        sync(|| {
            self.sets.clear();
            let Some(file) = self.file.take() else { return Ok(()) };
            // SAFETY: a valid file, under HDF5's lock.
            check("H5Fflush", unsafe { h5f::H5Fflush(file.id(), h5f::H5F_scope_t::H5F_SCOPE_GLOBAL) })?;
            Ok(())
        })
    }
}

impl Drop for SerialWriter {
    fn drop(&mut self) {
        sync(|| {
            self.sets.clear();
            self.file = None;
        });
    }
}

impl SerialDataset {
    /// Extends the dataset by `rows` behind `rows_before` and writes them as one hyperslab.
    fn append(&self, rows_before: u64, rows: u64, buffer: &[u8]) -> Result<(), HdfError> {
        let values: u64 = self.leading.iter().product::<u64>() * rows;
        assert_eq!(buffer.len() as u64, values * self.element_bytes, "a buffer has the window's shape");
        let with_time = |length: u64| -> Vec<u64> { self.leading.iter().copied().chain([length]).collect() };
        let (extents, count) = (with_time(rows_before + rows), with_time(rows));
        let mut start = vec![0; self.leading.len()];
        start.push(rows_before);
        let rank = i32::try_from(count.len()).unwrap_or(i32::MAX);
        let null = std::ptr::null();
        // SAFETY: all arrays are as long as the rank, the buffer was checked against the selection; under HDF5's lock.
        unsafe {
            check("H5Dset_extent", h5d::H5Dset_extent(self.handle.id(), extents.as_ptr()))?;
            let place = owned("H5Dget_space", h5d::H5Dget_space(self.handle.id()))?;
            let selected =
                h5s::H5Sselect_hyperslab(place.id(), H5S_SELECT_SET, start.as_ptr(), null, count.as_ptr(), null);
            check("H5Sselect_hyperslab", selected)?;
            let memory = owned("H5Screate_simple", h5s::H5Screate_simple(rank, count.as_ptr(), null))?;
            let written = h5d::H5Dwrite(
                self.handle.id(),
                self.memory_type,
                memory.id(),
                place.id(),
                H5P_DEFAULT,
                buffer.as_ptr().cast(),
            );
            check("H5Dwrite", written)
        }
    }
}

fn create_locked(path: &Path, spec: &FileSpec) -> Result<SerialWriter, SerialError> {
    let text = path.to_str().ok_or_else(|| HdfError::new("H5Fcreate", "the name is not Unicode"))?;
    let mut builder = Builder::new(&c_string("H5Fcreate", text)?, &plain_access_list()?)?.without_scales();
    if spec.sets.iter().all(|set| !set.name.is_empty()) {
        builder.root_attributes(&global_attributes(spec))?;
    }
    let mut sets = Vec::with_capacity(spec.sets.len());
    for (index, set) in spec.sets.iter().enumerate() {
        let geometry = SetGeometry::new(set, spec.chunk_bytes);
        let group = set_group(spec, index, &set.points, &geometry);
        let mut growing = builder.add_group(&group, &[])?.growing;
        growing.sort_by_key(|&(role, _)| role);
        let datasets = growing.into_iter().filter_map(|(role, handle)| serial_dataset(&group, role, handle)).collect();
        sets.push(SerialSet { rows: 0, datasets });
    }
    Ok(SerialWriter { sets, file: Some(builder.finish()) })
}

fn serial_dataset(group: &Group<'_>, role: DatasetIndex, handle: Hid) -> Option<SerialDataset> {
    let dataset = group.datasets.iter().find(|dataset| dataset.grows == Some(role))?;
    let crate::blueprint::FileType::Element(element) = dataset.file_type else { return None };
    let lengths: Vec<u64> = dataset.dimensions.iter().map(|&index| group.dimensions[index].length).collect();
    let memory_type = match element {
        ElementType::F32 => *h5t::H5T_IEEE_F32LE,
        ElementType::F64 => *h5t::H5T_IEEE_F64LE,
        ElementType::I32 => *h5t::H5T_STD_I32LE,
        ElementType::I64 => *h5t::H5T_STD_I64LE,
    };
    let leading = lengths[..lengths.len() - 1].to_vec();
    Some(SerialDataset { handle, memory_type, leading, element_bytes: element.bytes() as u64 })
}

/// HDF5's default driver; room in the chunk cache for 64 chunks of 1 MiB, a prime number of slots about 100 times that.
fn plain_access_list() -> Result<Hid, HdfError> {
    const CACHE_BYTES: usize = 64 << 20;
    const CACHE_SLOTS: usize = 6421;
    // SAFETY: valid identifiers, under HDF5's lock.
    unsafe {
        let list = owned("H5Pcreate", h5p::H5Pcreate(*h5p::H5P_CLS_FILE_ACCESS))?;
        format_bounds(&list)?;
        check("H5Pset_cache", h5p::H5Pset_cache(list.id(), 0, CACHE_SLOTS, CACHE_BYTES, 1.0))?;
        Ok(list)
    }
}
