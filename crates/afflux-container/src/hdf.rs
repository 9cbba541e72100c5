//! The few shapes that raw HDF5 calls come in: owned identifiers, checked results, errors as text.
//!
//! All of it runs under the lock of `hdf5-metno` ([`hdf5_metno::sync::sync`]), which also keeps HDF5 from printing errors.

use hdf5_metno_sys::h5::herr_t;
use hdf5_metno_sys::h5i::{H5Idec_ref, hid_t};
use hdf5_metno_sys::h5r::{H5R_type_t, H5Rcreate};
use std::ffi::CStr;

#[cfg(not(hdf5_1_12))]
const OBJECT_REFERENCE: H5R_type_t = H5R_type_t::H5R_OBJECT;
#[cfg(hdf5_1_12)]
const OBJECT_REFERENCE: H5R_type_t = H5R_type_t::H5R_OBJECT1;

/// A call into HDF5 that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {detail}")]
pub struct HdfError {
    call: &'static str,
    detail: String,
}

impl HdfError {
    pub(crate) fn new(call: &'static str, detail: impl Into<String>) -> Self {
        Self { call, detail: detail.into() }
    }

    /// Takes HDF5's error stack as text.
    pub(crate) fn last(call: &'static str) -> Self {
        let detail = match hdf5_metno::Error::query() {
            Ok(error) => error.to_string(),
            Err(_) => "no detail".into(),
        };
        Self { call, detail }
    }
}

/// An identifier that we own: closed when dropped.
#[derive(Debug)]
pub(crate) struct Hid(hid_t);

impl Hid {
    pub(crate) fn id(&self) -> hid_t {
        self.0
    }
}

impl Drop for Hid {
    fn drop(&mut self) {
        // SAFETY: the identifier is valid and ours; a failure leaves nothing to do.
        hdf5_metno::sync::sync(|| unsafe { H5Idec_ref(self.0) });
    }
}

/// Takes an identifier over, or HDF5's error.
pub(crate) fn owned(call: &'static str, id: hid_t) -> Result<Hid, HdfError> {
    if id < 0 { Err(HdfError::last(call)) } else { Ok(Hid(id)) }
}

/// Turns a negative status into HDF5's error.
pub(crate) fn check(call: &'static str, status: herr_t) -> Result<(), HdfError> {
    if status < 0 { Err(HdfError::last(call)) } else { Ok(()) }
}

/// The reference to an object: the address of its header. Call within `sync`.
pub(crate) fn reference(location: hid_t, name: &CStr) -> Result<u64, HdfError> {
    let mut reference = 0_u64;
    // SAFETY: room for an object reference of 8 bytes, a valid location and name; under HDF5's lock.
    check("H5Rcreate", unsafe {
        H5Rcreate((&raw mut reference).cast(), location, name.as_ptr(), OBJECT_REFERENCE, -1)
    })?;
    Ok(reference)
}
