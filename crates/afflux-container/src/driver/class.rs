//! The C side of the driver: the class HDF5 registers, and the callbacks, which only pass on to the shared state.
//!
//! The layout of `H5FD_class_t` changed with 1.14 (a version, an identifier, vector and selection transfers, `del`, `ctl`);
//! it is taken from `H5FDpublic.h` of 1.10.8 and `H5FDdevelop.h` of 2.x. The bindings of `hdf5-metno-sys` follow neither
//! fully, hence our own. What the library was built as and what is loaded must agree, which [`access_list`] checks.
//!
//! HDF5 passes a driver nothing but a file name when it opens a file, so the shared state waits under a made-up name.

use super::state::SharedState;
use crate::hdf::{HdfError, Hid, check, owned};
use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::{h5, h5f, h5fd, h5p};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Results of callbacks.
const DONE: c_int = 0;
const FAILED: c_int = -1;

/// Metadata blocks are cut from larger allocations; no driver information is kept in the file. Raw data is *not* aggregated
/// (`AGGREGATE_SMALLDATA` is left out), so that each chunk is one growth of the file, which the driver sees.
const FEATURES: c_ulong = FEATURE_AGGREGATE_METADATA | FEATURE_DEFAULT_VFD_COMPATIBLE;
const FEATURE_AGGREGATE_METADATA: c_ulong = 0x0001;
const FEATURE_DEFAULT_VFD_COMPATIBLE: c_ulong = 0x8000;

/// Free space of raw data and of metadata is kept apart (`H5FD_FLMAP_DICHOTOMY`): a chunk never lands in a hole between
/// metadata. Indexed by `H5FD_mem_t`.
const FREE_SPACE_MAP: [c_int; 7] = [1, 1, 1, 3, 3, 1, 1];

/// `H5FD_t` as HDF5 fills it in; the spare words leave room for what later versions may append.
#[repr(C)]
struct PublicPart {
    driver_id: hid_t,
    class: *const c_void,
    file_number: c_ulong,
    access_flags: c_uint,
    feature_flags: c_ulong,
    address_max: u64,
    base_address: u64,
    threshold: u64,
    alignment: u64,
    paged_aggregation: u8,
    spare: [u64; 8],
}

/// An open file: HDF5's part first, as it demands.
#[repr(C)]
struct DriverFile {
    public: PublicPart,
    token: u64,
    state: SharedState,
}

/// A callback we leave to HDF5's default; all pointers have the same size.
type Unused = Option<unsafe extern "C" fn()>;

/// `H5FD_class_t`.
#[repr(C)]
struct Class {
    #[cfg(hdf5_1_14)]
    version: c_uint,
    #[cfg(hdf5_1_14)]
    value: c_int,
    name: *const c_char,
    address_max: u64,
    close_degree: c_int,
    terminate: Unused,
    superblock_size: Unused,
    superblock_encode: Unused,
    superblock_decode: Unused,
    fapl_size: usize,
    fapl_get: Unused,
    fapl_copy: Unused,
    fapl_free: Unused,
    dxpl_size: usize,
    dxpl_copy: Unused,
    dxpl_free: Unused,
    open: unsafe extern "C" fn(*const c_char, c_uint, hid_t, u64) -> *mut DriverFile,
    close: unsafe extern "C" fn(*mut DriverFile) -> c_int,
    compare: unsafe extern "C" fn(*const DriverFile, *const DriverFile) -> c_int,
    query: unsafe extern "C" fn(*const DriverFile, *mut c_ulong) -> c_int,
    get_type_map: Unused,
    alloc: unsafe extern "C" fn(*mut DriverFile, c_int, hid_t, u64) -> u64,
    free: Unused,
    get_eoa: unsafe extern "C" fn(*const DriverFile, c_int) -> u64,
    set_eoa: unsafe extern "C" fn(*mut DriverFile, c_int, u64) -> c_int,
    get_eof: unsafe extern "C" fn(*const DriverFile, c_int) -> u64,
    get_handle: Unused,
    read: unsafe extern "C" fn(*mut DriverFile, c_int, hid_t, u64, usize, *mut c_void) -> c_int,
    write: unsafe extern "C" fn(*mut DriverFile, c_int, hid_t, u64, usize, *const c_void) -> c_int,
    #[cfg(hdf5_1_14)]
    vector_and_selection: [Unused; 4],
    flush: Unused,
    truncate: Unused,
    lock: Unused,
    unlock: Unused,
    #[cfg(hdf5_1_14)]
    delete: Unused,
    #[cfg(hdf5_1_14)]
    control: Unused,
    free_space_map: [c_int; 7],
}

const CLASS: Class = Class {
    #[cfg(hdf5_1_14)]
    version: 1,
    // 512 and up are for drivers that nobody registered with The HDF Group.
    #[cfg(hdf5_1_14)]
    value: 1455,
    name: c"afflux".as_ptr(),
    address_max: 1 << 62,
    close_degree: h5f::H5F_close_degree_t::H5F_CLOSE_STRONG as c_int,
    terminate: None,
    superblock_size: None,
    superblock_encode: None,
    superblock_decode: None,
    fapl_size: 0,
    fapl_get: None,
    fapl_copy: None,
    fapl_free: None,
    dxpl_size: 0,
    dxpl_copy: None,
    dxpl_free: None,
    open: on_open,
    close: on_close,
    compare: on_compare,
    query: on_query,
    get_type_map: None,
    alloc: on_allocate,
    free: None,
    get_eoa: on_get_end,
    set_eoa: on_set_end,
    get_eof: on_get_end_of_file,
    get_handle: None,
    read: on_read,
    write: on_write,
    #[cfg(hdf5_1_14)]
    vector_and_selection: [None; 4],
    flush: None,
    truncate: None,
    lock: None,
    unlock: None,
    #[cfg(hdf5_1_14)]
    delete: None,
    #[cfg(hdf5_1_14)]
    control: None,
    free_space_map: FREE_SPACE_MAP,
};

/// States waiting to be opened, by token.
static WAITING: OnceLock<Mutex<Waiting>> = OnceLock::new();

#[derive(Default)]
struct Waiting {
    next_token: u64,
    states: HashMap<u64, SharedState>,
}

fn with_waiting<T>(action: impl FnOnce(&mut Waiting) -> T) -> T {
    let mutex = WAITING.get_or_init(Mutex::default);
    action(&mut mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A name under which HDF5 can open a state; the state is forgotten when this is dropped.
pub(crate) struct DriverName {
    token: u64,
    name: CString,
}

impl DriverName {
    pub(crate) fn new(state: &SharedState) -> Self {
        let token = with_waiting(|waiting| {
            waiting.next_token += 1;
            waiting.states.insert(waiting.next_token, state.clone());
            waiting.next_token
        });
        let name = CString::new(format!("afflux-{token}")).unwrap_or_default();
        Self { token, name }
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        &self.name
    }
}

impl Drop for DriverName {
    fn drop(&mut self) {
        with_waiting(|waiting| waiting.states.remove(&self.token));
    }
}

/// A file access property list that uses this driver, with the format bounds of HDF5 1.10. Call within `sync`.
pub(crate) fn access_list() -> Result<Hid, HdfError> {
    check_version()?;
    // SAFETY: plain calls with valid identifiers, under HDF5's lock; the class outlives the call, HDF5 copies it.
    unsafe {
        let list = owned("H5Pcreate", h5p::H5Pcreate(*h5p::H5P_CLS_FILE_ACCESS))?;
        let driver = owned("H5FDregister", h5fd::H5FDregister(std::ptr::from_ref(&CLASS).cast()))?;
        check("H5Pset_driver", h5p::H5Pset_driver(list.id(), driver.id(), std::ptr::null()))?;
        format_bounds(&list)?;
        Ok(list)
    }
}

/// The format of HDF5 1.10, which every later version reads: superblock 3, extensible arrays for chunks.
pub(crate) fn format_bounds(access: &Hid) -> Result<(), HdfError> {
    let v110 = h5f::H5F_libver_t::H5F_LIBVER_V110;
    // SAFETY: a valid property list, under HDF5's lock.
    check("H5Pset_libver_bounds", unsafe { h5p::H5Pset_libver_bounds(access.id(), v110, v110) })
}

/// The class layout was chosen when this was compiled; another library loaded at run time would read it wrongly.
fn check_version() -> Result<(), HdfError> {
    let (mut major, mut minor, mut release) = (0, 0, 0);
    // SAFETY: three valid pointers.
    check("H5get_libversion", unsafe { h5::H5get_libversion(&raw mut major, &raw mut minor, &raw mut release) })?;
    let new_layout = (major, minor) >= (1, 14);
    if (major, minor) < (1, 10) || new_layout != cfg!(hdf5_1_14) {
        let built = hdf5_metno_sys::HDF5_VERSION;
        return Err(HdfError::new(
            "H5get_libversion",
            format!(
                "HDF5 {major}.{minor}.{release} is loaded but this program was built with {}.{}.{}, whose file drivers differ",
                built.major, built.minor, built.micro
            ),
        ));
    }
    Ok(())
}

/// Finds the state that waits under this name. HDF5 tries an existing file before it creates one; a file that is yet to be
/// built does not exist.
unsafe extern "C" fn on_open(name: *const c_char, flags: c_uint, _fapl: hid_t, address_max: u64) -> *mut DriverFile {
    let missing = std::ptr::null_mut();
    if name.is_null() {
        return missing;
    }
    // SAFETY: HDF5 passes a NUL-terminated name.
    let name = unsafe { CStr::from_ptr(name) };
    let token = name.to_str().ok().and_then(|name| name.strip_prefix("afflux-")).and_then(|token| token.parse().ok());
    let Some(token) = token else { return missing };
    let Some(state) = with_waiting(|waiting| waiting.states.get(&token).cloned()) else { return missing };
    const CREATE: c_uint = 0x0010; // H5F_ACC_CREAT
    if state.is_blank() && flags & CREATE == 0 {
        return missing;
    }
    let public = PublicPart {
        driver_id: 0,
        class: std::ptr::null(),
        file_number: 0,
        access_flags: 0,
        feature_flags: 0,
        address_max,
        base_address: 0,
        threshold: 0,
        alignment: 0,
        paged_aggregation: 0,
        spare: [0; 8],
    };
    Box::into_raw(Box::new(DriverFile { public, token, state }))
}

unsafe extern "C" fn on_close(file: *mut DriverFile) -> c_int {
    // SAFETY: made by `Box::into_raw` in `on_open`; HDF5 closes it once.
    drop(unsafe { Box::from_raw(file) });
    DONE
}

unsafe extern "C" fn on_compare(one: *const DriverFile, other: *const DriverFile) -> c_int {
    // SAFETY: both are open files of this driver.
    let (one, other) = unsafe { ((*one).token, (*other).token) };
    one.cmp(&other) as c_int
}

unsafe extern "C" fn on_query(_file: *const DriverFile, flags: *mut c_ulong) -> c_int {
    if !flags.is_null() {
        // SAFETY: HDF5 passes room for the flags.
        unsafe { *flags = FEATURES };
    }
    DONE
}

/// Where to find space.
unsafe extern "C" fn on_allocate(file: *mut DriverFile, memory_type: c_int, _dxpl: hid_t, bytes: u64) -> u64 {
    // SAFETY: an open file of this driver.
    unsafe { &*file }.state.allocate(memory_type, bytes)
}

/// The end of allocation.
unsafe extern "C" fn on_get_end(file: *const DriverFile, _memory_type: c_int) -> u64 {
    // SAFETY: an open file of this driver.
    unsafe { &*file }.state.end_of_allocation()
}

/// The end of the file is that of allocation: the storage file is as long as is needed by the writer's care.
unsafe extern "C" fn on_get_end_of_file(file: *const DriverFile, _memory_type: c_int) -> u64 {
    // SAFETY: an open file of this driver.
    unsafe { &*file }.state.end_of_file()
}

unsafe extern "C" fn on_set_end(file: *mut DriverFile, memory_type: c_int, end: u64) -> c_int {
    // SAFETY: an open file of this driver.
    unsafe { &*file }.state.set_end_of_allocation(memory_type, end);
    DONE
}

unsafe extern "C" fn on_read(
    file: *mut DriverFile,
    _memory_type: c_int,
    _dxpl: hid_t,
    offset: u64,
    length: usize,
    buffer: *mut c_void,
) -> c_int {
    if length == 0 {
        return DONE;
    }
    // SAFETY: an open file of this driver; HDF5 passes room for `length` bytes.
    let (file, buffer) = unsafe { (&*file, std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length)) };
    if file.state.read(buffer, offset) { DONE } else { FAILED }
}

unsafe extern "C" fn on_write(
    file: *mut DriverFile,
    _memory_type: c_int,
    _dxpl: hid_t,
    offset: u64,
    length: usize,
    buffer: *const c_void,
) -> c_int {
    if length == 0 {
        return DONE;
    }
    // SAFETY: an open file of this driver; HDF5 passes `length` bytes.
    let (file, bytes) = unsafe { (&*file, std::slice::from_raw_parts(buffer.cast::<u8>(), length)) };
    if file.state.write(bytes, offset) { DONE } else { FAILED }
}
