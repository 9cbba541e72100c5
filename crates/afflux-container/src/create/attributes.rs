//! Attributes: text and numbers, and the four by which dimension scales are known.

use super::{c_string, rank};
use crate::blueprint::Value;
use crate::hdf::{HdfError, Hid, check, owned};
use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::h5p::H5P_DEFAULT;
use hdf5_metno_sys::h5s::H5S_class_t::H5S_SCALAR;
use hdf5_metno_sys::h5t::H5T_class_t::H5T_COMPOUND;
use hdf5_metno_sys::h5t::H5T_cset_t::H5T_CSET_UTF8;
use hdf5_metno_sys::{h5a, h5s, h5t};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CStr, c_char};

/// One entry of `REFERENCE_LIST`: a dataset and the axis along which it uses the scale. The layout is the type's in the file.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct ScaleUse {
    dataset: u64,
    axis: i32,
    /// HDF5 copies the whole record, so the gap that C leaves here must have a value.
    gap: u32,
}

impl ScaleUse {
    pub(super) fn new(dataset: u64, axis: usize) -> Self {
        Self { dataset, axis: i32::try_from(axis).unwrap_or(i32::MAX), gap: 0 }
    }
}

/// Types and spaces that all attributes share.
pub(super) struct Attributes {
    scalar: Hid,
    texts: HashMap<usize, Hid>,
    reference_list: Hid,
    vlen_reference: Hid,
}

impl Attributes {
    pub(super) fn new() -> Result<Self, HdfError> {
        // SAFETY: valid identifiers and names, under HDF5's lock; the offsets are those of `ScaleUse`.
        unsafe {
            let entry = owned("H5Tcreate", h5t::H5Tcreate(H5T_COMPOUND, size_of::<ScaleUse>()))?;
            let id = entry.id();
            check("H5Tinsert", h5t::H5Tinsert(id, c"dataset".as_ptr(), 0, *h5t::H5T_STD_REF_OBJ))?;
            check("H5Tinsert", h5t::H5Tinsert(id, c"dimension".as_ptr(), 8, *h5t::H5T_STD_I32LE))?;
            Ok(Self {
                scalar: owned("H5Screate", h5s::H5Screate(H5S_SCALAR))?,
                texts: HashMap::new(),
                reference_list: entry,
                vlen_reference: owned("H5Tvlen_create", h5t::H5Tvlen_create(*h5t::H5T_STD_REF_OBJ))?,
            })
        }
    }

    /// Writes one attribute.
    pub(super) fn write(&mut self, object: hid_t, name: &str, value: &Value) -> Result<(), HdfError> {
        let name = c_string("H5Acreate2", name)?;
        match value {
            Value::Text(text) => self.write_text(object, &name, text),
            Value::Texts(texts) => {
                let texts = texts.iter().map(|text| c_string("H5Awrite", text)).collect::<Result<Vec<_>, _>>()?;
                let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
                let space = vector_space(pointers.len())?;
                put(object, &name, variable_text()?.id(), &space, pointers.as_ptr().cast())
            }
            Value::F32(number) => one(object, &name, *h5t::H5T_IEEE_F32LE, &number.to_le_bytes()),
            Value::F64(number) => one(object, &name, *h5t::H5T_IEEE_F64LE, &number.to_le_bytes()),
            Value::I32(number) => one(object, &name, *h5t::H5T_STD_I32LE, &number.to_le_bytes()),
            Value::I64(number) => one(object, &name, *h5t::H5T_STD_I64LE, &number.to_le_bytes()),
        }
    }

    fn write_text(&mut self, object: hid_t, name: &CStr, text: &str) -> Result<(), HdfError> {
        // HDF5 has no strings of length 0: an empty one is a single NUL.
        let bytes = if text.is_empty() { "\0" } else { text };
        let type_id = match self.texts.entry(bytes.len()) {
            Entry::Occupied(entry) => entry.get().id(),
            Entry::Vacant(entry) => entry.insert(fixed_text(bytes.len())?).id(),
        };
        put(object, name, type_id, &self.scalar, bytes.as_ptr())
    }

    /// Makes a scale of a dataset and lists who uses it.
    pub(super) fn write_scale(
        &mut self,
        object: hid_t,
        name: &str,
        dimension_id: i32,
        users: &[ScaleUse],
    ) -> Result<(), HdfError> {
        // 16 bytes with the NUL, as the high-level library writes it and netCDF expects it.
        self.write_text(object, c"CLASS", "DIMENSION_SCALE\0")?;
        self.write_text(object, c"NAME", &format!("{name}\0"))?;
        let id = dimension_id.to_le_bytes();
        put(object, c"_Netcdf4Dimid", *h5t::H5T_STD_I32LE, &self.scalar, id.as_ptr())?;
        if users.is_empty() {
            return Ok(());
        }
        let space = vector_space(users.len())?;
        put(object, c"REFERENCE_LIST", self.reference_list.id(), &space, users.as_ptr().cast())
    }

    /// Ties a dataset to the scale of each of its axes.
    pub(super) fn write_dimension_list(&self, object: hid_t, scales: &[u64]) -> Result<(), HdfError> {
        let lists: Vec<h5t::hvl_t> =
            scales.iter().map(|scale| h5t::hvl_t { len: 1, p: std::ptr::from_ref(scale).cast_mut().cast() }).collect();
        let space = vector_space(lists.len())?;
        put(object, c"DIMENSION_LIST", self.vlen_reference.id(), &space, lists.as_ptr().cast())
    }
}

/// The type of variable-length UTF-8 strings.
pub(super) fn variable_text() -> Result<Hid, HdfError> {
    fixed_text(h5t::H5T_VARIABLE)
}

fn fixed_text(bytes: usize) -> Result<Hid, HdfError> {
    // SAFETY: valid identifiers, under HDF5's lock.
    unsafe {
        let text = owned("H5Tcopy", h5t::H5Tcopy(*h5t::H5T_C_S1))?;
        check("H5Tset_size", h5t::H5Tset_size(text.id(), bytes))?;
        check("H5Tset_cset", h5t::H5Tset_cset(text.id(), H5T_CSET_UTF8))?;
        Ok(text)
    }
}

fn vector_space(length: usize) -> Result<Hid, HdfError> {
    let lengths = [length as u64];
    // SAFETY: one length for rank 1, under HDF5's lock.
    owned("H5Screate_simple", unsafe { h5s::H5Screate_simple(rank(1), lengths.as_ptr(), std::ptr::null()) })
}

/// A number in an array of one, as netCDF writes its attributes.
fn one(object: hid_t, name: &CStr, type_id: hid_t, bytes: &[u8]) -> Result<(), HdfError> {
    put(object, name, type_id, &vector_space(1)?, bytes.as_ptr())
}

/// Creates an attribute and writes `values`, which must hold what type and space say.
fn put(object: hid_t, name: &CStr, type_id: hid_t, space: &Hid, values: *const u8) -> Result<(), HdfError> {
    // SAFETY: valid identifiers; the callers above pass memory laid out as the type and as long as the space; under
    // HDF5's lock.
    unsafe {
        let attribute = h5a::H5Acreate2(object, name.as_ptr(), type_id, space.id(), H5P_DEFAULT, H5P_DEFAULT);
        let attribute = owned("H5Acreate2", attribute)?;
        check("H5Awrite", h5a::H5Awrite(attribute.id(), type_id, values.cast()))
    }
}
