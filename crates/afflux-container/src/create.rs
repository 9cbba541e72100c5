//! Carries a blueprint out with HDF5: groups, datasets, scales, attributes, first contents.
//!
//! The plain baseline is made so, and a file that `image` cannot lay out; `image` is tested against it.
//!
//! Dimension scales are written by hand as the HDF5 Dimension Scale Specification describes them (`CLASS`, `NAME`,
//! `DIMENSION_LIST`, `REFERENCE_LIST`): the high-level library rewrites `REFERENCE_LIST` for each attachment and is not bound.
//! Links and attributes are tracked in creation order (netCDF opens a file for appending only then) and no object carries a
//! time, so that equal descriptions give equal bytes. All calls happen under HDF5's lock, taken by the caller.

mod attributes;

use crate::blueprint::{Content, Dataset, FileType, Group, PointField, Value, VirtualPart, pure_dimension_text};
use crate::hdf::{HdfError, Hid, check, owned, reference};
use crate::point_source::{try_visit, visit_all};
use crate::{DatasetIndex, ElementType};
use attributes::{Attributes, ScaleUse};
use hdf5_metno_sys::h5d::H5D_alloc_time_t::H5D_ALLOC_TIME_EARLY;
use hdf5_metno_sys::h5d::H5D_fill_time_t::H5D_FILL_TIME_NEVER;
use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::h5p::{H5P_CRT_ORDER_INDEXED, H5P_CRT_ORDER_TRACKED, H5P_DEFAULT};
use hdf5_metno_sys::h5s::H5S_seloper_t::{H5S_SELECT_OR, H5S_SELECT_SET};
use hdf5_metno_sys::h5s::{H5S_ALL, H5S_UNLIMITED};
use hdf5_metno_sys::{h5d, h5f, h5g, h5p, h5s, h5t};
use std::ffi::{CStr, CString, c_char, c_int, c_uint};

const CREATION_ORDER: c_uint = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;

/// The handles that a writer keeps of a group it has made.
pub(crate) struct MadeGroup {
    /// The growing datasets, in blueprint order.
    pub growing: Vec<(DatasetIndex, Hid)>,
    /// All datasets that were asked to be kept, by name.
    pub kept: Vec<(String, Hid)>,
}

/// An HDF5 file under construction.
pub(crate) struct Builder {
    file: Hid,
    texts: Attributes,
    transfer: Hid,
    dimension_ids: i32,
    scales: bool,
}

impl Builder {
    /// Creates an empty file under `name`; `access` chooses the driver.
    pub(crate) fn new(name: &CStr, access: &Hid) -> Result<Self, HdfError> {
        // SAFETY: valid identifiers and a NUL-terminated name, under HDF5's lock.
        unsafe {
            let list = owned("H5Pcreate", h5p::H5Pcreate(*h5p::H5P_CLS_FILE_CREATE))?;
            group_habits(&list)?;
            let file = owned("H5Fcreate", h5f::H5Fcreate(name.as_ptr(), h5f::H5F_ACC_TRUNC, list.id(), access.id()))?;
            Ok(Self { file, texts: Attributes::new()?, transfer: transfer_list()?, dimension_ids: 0, scales: true })
        }
    }

    /// Leaves dimension scales out.
    pub(crate) fn without_scales(mut self) -> Self {
        self.scales = false;
        self
    }

    /// The finished file.
    pub(crate) fn finish(self) -> Hid {
        self.file
    }

    /// Attributes of the root group, where no set lives there.
    pub(crate) fn root_attributes(&mut self, attributes: &[(String, Value)]) -> Result<(), HdfError> {
        attributes.iter().try_for_each(|(name, value)| self.texts.write(self.file.id(), name, value))
    }

    /// Makes a group with all that is in it; `keep` names datasets whose handles the caller wants.
    pub(crate) fn add_group(&mut self, group: &Group<'_>, keep: &[&str]) -> Result<MadeGroup, HdfError> {
        let own;
        let location = if group.name.is_empty() {
            self.file.id()
        } else {
            own = self.create_group(&group.name)?;
            own.id()
        };
        for (name, value) in &group.attributes {
            self.texts.write(location, name, value)?;
        }
        let handles = group
            .datasets
            .iter()
            .map(|dataset| create_dataset(location, group, dataset))
            .collect::<Result<Vec<_>, _>>()?;
        if self.scales {
            self.attach_scales(group, &handles, &references(location, group)?)?;
        }
        for (dataset, handle) in group.datasets.iter().zip(&handles) {
            for (name, value) in &dataset.attributes {
                self.texts.write(handle.id(), name, value)?;
            }
            write_content(handle, &dataset.content, &self.transfer)?;
        }
        let mut made = MadeGroup { growing: Vec::new(), kept: Vec::new() };
        for (dataset, handle) in group.datasets.iter().zip(handles) {
            match dataset.grows {
                Some(role) => made.growing.push((role, handle)),
                None if keep.contains(&dataset.name.as_str()) => made.kept.push((dataset.name.clone(), handle)),
                None => {}
            }
        }
        Ok(made)
    }

    fn create_group(&self, name: &str) -> Result<Hid, HdfError> {
        let name = c_string("H5Gcreate2", name)?;
        // SAFETY: valid identifiers and a NUL-terminated name, under HDF5's lock.
        unsafe {
            let list = owned("H5Pcreate", h5p::H5Pcreate(*h5p::H5P_CLS_GROUP_CREATE))?;
            group_habits(&list)?;
            let group = h5g::H5Gcreate2(self.file.id(), name.as_ptr(), H5P_DEFAULT, list.id(), H5P_DEFAULT);
            owned("H5Gcreate2", group)
        }
    }

    /// Makes scales of the datasets that stand for dimensions, and ties the others to them.
    fn attach_scales(&mut self, group: &Group<'_>, handles: &[Hid], references: &[u64]) -> Result<(), HdfError> {
        for (index, dimension) in group.dimensions.iter().enumerate() {
            let scale = dimension.scale;
            let users: Vec<ScaleUse> = group
                .datasets
                .iter()
                .enumerate()
                .filter(|&(number, _)| !is_scale(group, number))
                .flat_map(|(number, dataset)| {
                    let reference = references[number];
                    let axes = dataset.dimensions.iter().enumerate().filter(move |&(_, &used)| used == index);
                    axes.map(move |(axis, _)| ScaleUse::new(reference, axis))
                })
                .collect();
            let name = match group.datasets[scale].file_type {
                FileType::Dimension => pure_dimension_text(dimension.length),
                _ => dimension.name.clone(),
            };
            self.texts.write_scale(handles[scale].id(), &name, self.dimension_ids, &users)?;
            self.dimension_ids += 1;
        }
        for (number, dataset) in group.datasets.iter().enumerate() {
            if !is_scale(group, number) {
                let scales: Vec<u64> =
                    dataset.dimensions.iter().map(|&used| references[group.dimensions[used].scale]).collect();
                self.texts.write_dimension_list(handles[number].id(), &scales)?;
            }
        }
        Ok(())
    }
}

/// Addresses of the object headers of a group's datasets.
fn references(location: hid_t, group: &Group<'_>) -> Result<Vec<u64>, HdfError> {
    let names = group.datasets.iter().map(|dataset| c_string("H5Rcreate", &dataset.name));
    names.map(|name| reference(location, &name?)).collect()
}

fn is_scale(group: &Group<'_>, number: usize) -> bool {
    group.dimensions.iter().any(|dimension| dimension.scale == number)
}

/// Creation order and no times; for the creation lists of groups and of the file, whose root is a group.
fn group_habits(list: &Hid) -> Result<(), HdfError> {
    // SAFETY: a valid property list, under HDF5's lock.
    unsafe {
        check("H5Pset_link_creation_order", h5p::H5Pset_link_creation_order(list.id(), CREATION_ORDER))?;
    }
    object_habits(list)
}

/// Attributes in creation order and always in the object header (a header that is read is then whole); no times.
fn object_habits(list: &Hid) -> Result<(), HdfError> {
    const COMPACT_MAX: c_uint = 65_535;
    // SAFETY: a valid property list, under HDF5's lock.
    unsafe {
        check("H5Pset_attr_creation_order", h5p::H5Pset_attr_creation_order(list.id(), CREATION_ORDER))?;
        check("H5Pset_attr_phase_change", h5p::H5Pset_attr_phase_change(list.id(), COMPACT_MAX, 0))?;
        check("H5Pset_obj_track_times", h5p::H5Pset_obj_track_times(list.id(), 0))
    }
}

/// The HDF5 type of a dataset; the second is to be closed by being dropped.
fn type_of(file_type: FileType) -> Result<(hid_t, Option<Hid>), HdfError> {
    Ok(match file_type {
        FileType::Element(ElementType::F32) => (*h5t::H5T_IEEE_F32LE, None),
        FileType::Element(ElementType::F64) => (*h5t::H5T_IEEE_F64LE, None),
        FileType::Element(ElementType::I32) => (*h5t::H5T_STD_I32LE, None),
        FileType::Element(ElementType::I64) => (*h5t::H5T_STD_I64LE, None),
        FileType::U64 => (*h5t::H5T_STD_U64LE, None),
        FileType::Dimension => (*h5t::H5T_IEEE_F32BE, None),
        FileType::Text => {
            let text = attributes::variable_text()?;
            (text.id(), Some(text))
        }
    })
}

/// A rank as HDF5 wants it; ours are at most 4.
fn rank(dimensions: usize) -> c_int {
    c_int::try_from(dimensions).unwrap_or(c_int::MAX)
}

fn create_dataset(location: hid_t, group: &Group<'_>, dataset: &Dataset<'_>) -> Result<Hid, HdfError> {
    let name = c_string("H5Dcreate2", &dataset.name)?;
    let dimensions = dataset.dimensions.iter().map(|&index| &group.dimensions[index]);
    let lengths: Vec<u64> = dimensions.clone().map(|dimension| dimension.length).collect();
    let lengths_max: Vec<u64> =
        dimensions.map(|dimension| if dimension.unlimited { H5S_UNLIMITED } else { dimension.length }).collect();
    let (type_id, _keep) = type_of(dataset.file_type)?;
    // SAFETY: valid identifiers; the arrays are as long as the rank says; under HDF5's lock.
    unsafe {
        let space = h5s::H5Screate_simple(rank(lengths.len()), lengths.as_ptr(), lengths_max.as_ptr());
        let space = owned("H5Screate_simple", space)?;
        let list = owned("H5Pcreate", h5p::H5Pcreate(*h5p::H5P_CLS_DATASET_CREATE))?;
        object_habits(&list)?;
        if let Content::Virtual(parts) = dataset.content {
            parts.iter().try_for_each(|part| map_part(&list, &lengths, part))?;
        } else if let Some(chunk) = &dataset.chunk {
            check("H5Pset_chunk", h5p::H5Pset_chunk(list.id(), rank(chunk.len()), chunk.as_ptr()))?;
        }
        if dataset.file_type != FileType::Dimension && !matches!(dataset.content, Content::Virtual(_)) {
            check("H5Pset_alloc_time", h5p::H5Pset_alloc_time(list.id(), H5D_ALLOC_TIME_EARLY))?;
            if dataset.file_type != FileType::Text {
                check("H5Pset_fill_time", h5p::H5Pset_fill_time(list.id(), H5D_FILL_TIME_NEVER))?;
            }
        }
        if let (FileType::Element(element), Some(_)) = (dataset.file_type, dataset.grows) {
            set_fill_value(&list, type_id, element)?;
        }
        let made = h5d::H5Dcreate2(location, name.as_ptr(), type_id, space.id(), H5P_DEFAULT, list.id(), H5P_DEFAULT);
        owned("H5Dcreate2", made)
    }
}

/// Adds a part to the creation list of a virtual dataset with these lengths, points first.
fn map_part(list: &Hid, lengths: &[u64], part: &VirtualPart) -> Result<(), HdfError> {
    let (file, name) = (c_string("H5Pset_virtual", &part.file)?, c_string("H5Pset_virtual", &part.dataset)?);
    let (zeros, ones) = (vec![0; lengths.len()], vec![1; lengths.len()]);
    let with_points =
        |first: u64, others: &[u64]| -> Vec<u64> { [first].into_iter().chain(others[1..].iter().copied()).collect() };
    let source_lengths = with_points(part.points, lengths);
    let null = std::ptr::null();
    // SAFETY: valid identifiers and NUL-terminated names; all arrays are as long as the rank; under HDF5's lock.
    unsafe {
        let rank = rank(lengths.len());
        let source = owned("H5Screate_simple", h5s::H5Screate_simple(rank, source_lengths.as_ptr(), null))?;
        // By its corners, not "all": the dataset may have more rows than are shown.
        let whole =
            h5s::H5Sselect_hyperslab(source.id(), H5S_SELECT_SET, zeros.as_ptr(), null, source_lengths.as_ptr(), null);
        check("H5Sselect_hyperslab", whole)?;
        let shown = owned("H5Screate_simple", h5s::H5Screate_simple(rank, lengths.as_ptr(), null))?;
        for (index, piece) in part.strides.iter().enumerate() {
            let start = with_points(piece.start, &zeros);
            // A stride below the block is refused, also where there is one block only.
            let stride = with_points(piece.stride.max(piece.block), lengths);
            let (count, block) = (with_points(piece.count, &ones), with_points(piece.block, lengths));
            let how = if index == 0 { H5S_SELECT_SET } else { H5S_SELECT_OR };
            let (start, stride) = (start.as_ptr(), stride.as_ptr());
            let selected = h5s::H5Sselect_hyperslab(shown.id(), how, start, stride, count.as_ptr(), block.as_ptr());
            check("H5Sselect_hyperslab", selected)?;
        }
        let mapped = h5p::H5Pset_virtual(list.id(), shown.id(), file.as_ptr(), name.as_ptr(), source.id());
        check("H5Pset_virtual", mapped)
    }
}

fn set_fill_value(list: &Hid, type_id: hid_t, element: ElementType) -> Result<(), HdfError> {
    let bytes = element.fill_value_bytes();
    // SAFETY: eight bytes hold a value of any element type, little-endian as the type says; under HDF5's lock.
    check("H5Pset_fill_value", unsafe { h5p::H5Pset_fill_value(list.id(), type_id, bytes.as_ptr().cast()) })
}

/// HDF5 clears two conversion buffers of 1 MiB each time it writes strings, unless told that less will do.
fn transfer_list() -> Result<Hid, HdfError> {
    const CONVERSION_BYTES: usize = 16 * 1024;
    // SAFETY: a valid property list; HDF5 allocates the buffers itself; under HDF5's lock.
    unsafe {
        let list = owned("H5Pcreate", h5p::H5Pcreate(*h5p::H5P_CLS_DATASET_XFER))?;
        let null = std::ptr::null_mut();
        check("H5Pset_buffer", h5p::H5Pset_buffer(list.id(), CONVERSION_BYTES, null, null))?;
        Ok(list)
    }
}

fn write_content(dataset: &Hid, content: &Content<'_>, transfer: &Hid) -> Result<(), HdfError> {
    let write = |type_id, pointer: *const u8| {
        // SAFETY: the slice below has as many values as the dataset (a source shows as many points as it counts); under HDF5's lock.
        check("H5Dwrite", unsafe {
            h5d::H5Dwrite(dataset.id(), type_id, H5S_ALL, H5S_ALL, transfer.id(), pointer.cast())
        })
    };
    match content {
        Content::None | Content::Virtual(_) => Ok(()),
        Content::Steps(values) => write(*h5t::H5T_NATIVE_INT64, values.as_ptr().cast()),
        Content::Times(values) => write(*h5t::H5T_NATIVE_DOUBLE, values.as_ptr().cast()),
        Content::U64(values) => write(*h5t::H5T_NATIVE_UINT64, values.as_ptr().cast()),
        Content::Points(PointField::Id, points) => {
            let mut ids = Vec::new();
            visit_all(*points, |row| ids.push(row.id));
            write(*h5t::H5T_NATIVE_INT64, ids.as_ptr().cast())
        }
        Content::Points(PointField::Coordinate(axis), points) => {
            let mut values = Vec::new();
            visit_all(*points, |row| values.push(row.at[*axis]));
            write(*h5t::H5T_NATIVE_DOUBLE, values.as_ptr().cast())
        }
        Content::Points(PointField::Name, points) => {
            let mut texts = Vec::new();
            try_visit(*points, |row| c_string("H5Dwrite", &row.label()).map(|text| texts.push(text)))?;
            let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
            let text = attributes::variable_text()?;
            write(text.id(), pointers.as_ptr().cast())
        }
    }
}

/// Names were checked before; a NUL here is reported all the same.
pub(crate) fn c_string(call: &'static str, text: &str) -> Result<CString, HdfError> {
    CString::new(text).map_err(|_| HdfError::new(call, format!("{text:?} has a NUL character")))
}
