//! What we lay out is what HDF5 builds when it is asked for the same, object by object.

use super::Image;
use crate::blueprint::{Group, Value, bookkeeping_group, global_attributes, set_group};
use crate::hdf::{Hid, owned};
use crate::writer::image_by_hdf5;
use crate::{ElementType, FileSpec, PointTable, SetGeometry, SetSpec, VariableSpec};
use hdf5_metno::sync::sync;
use hdf5_metno_sys::h5::{H5_index_t::H5_INDEX_CRT_ORDER, H5_iter_order_t::H5_ITER_INC};
use hdf5_metno_sys::h5p::H5P_DEFAULT;
use hdf5_metno_sys::h5t::H5T_class_t::{H5T_REFERENCE, H5T_VLEN};
use hdf5_metno_sys::{h5a, h5d, h5f, h5o, h5p, h5s, h5t};
use std::ffi::{CStr, CString};

fn set(name: &str, points: i64) -> SetSpec {
    let variable = |name: &str, element, components| VariableSpec {
        name: name.into(),
        element,
        components,
        units: "V m-1".into(),
        long_name: Some("a quantity".into()),
        standard_name: None,
    };
    let ids: Vec<i64> = (0..points).collect();
    let coordinate: Vec<f64> = ids.iter().map(|&id| id as f64).collect();
    let names = ids.iter().map(|id| if *id == 3 { String::new() } else { format!("P{id} \u{e9}") }).collect();
    let variables = vec![
        variable("Ez", ElementType::F64, None),
        variable("J", ElementType::F32, Some(3)),
        variable("hits", ElementType::I32, Some(300)),
        variable("count", ElementType::I64, None),
    ];
    let points = PointTable { ids, x: coordinate.clone(), y: coordinate.clone(), z: coordinate, names };
    SetSpec { name: name.into(), points, variables, cadence_steps: 7, chunk_steps: 50 }
}

fn spec(sets: Vec<SetSpec>) -> FileSpec {
    FileSpec {
        sets,
        time_units: "seconds since 2000-01-01".into(),
        length_units: "m".into(),
        attributes: vec![("title".into(), "a test".into()), ("empty".into(), String::new())],
        chunk_bytes: 1 << 20,
    }
}

fn groups<'a>(spec: &'a FileSpec, slots: &'a [u64]) -> (Vec<(String, Value)>, Vec<Group<'a>>) {
    let mut groups: Vec<Group<'_>> = (0..spec.sets.len())
        .map(|index| {
            let set = &spec.sets[index];
            set_group(spec, index, &set.points, &SetGeometry::new(set, 1 << 20))
        })
        .collect();
    groups.push(bookkeeping_group(spec, (1, 64), slots));
    let root = if spec.sets.iter().any(|set| set.name.is_empty()) { Vec::new() } else { global_attributes(spec) };
    (root, groups)
}

/// The whole file.
fn bytes_of(image: &Image<'_>) -> Vec<u8> {
    let mut bytes = image.head.clone();
    bytes.resize(usize::try_from(image.length).unwrap(), 0);
    let put = &mut |part: &[u8], offset: u64| {
        let at = usize::try_from(offset).unwrap();
        bytes[at..at + part.len()].copy_from_slice(part);
        Ok(())
    };
    image.write_contents(put).unwrap();
    bytes
}

fn open_object(file: &Hid, path: &CStr) -> Hid {
    // SAFETY: a valid file and a name with a NUL, under HDF5's lock.
    unsafe { owned("H5Oopen", h5o::H5Oopen(file.id(), path.as_ptr(), H5P_DEFAULT)).unwrap() }
}

/// Name, type, space and, where it holds neither references nor texts of any length, the bytes.
fn attribute(object: &Hid, index: u64) -> Option<(CString, Hid, Hid, Vec<u8>)> {
    // SAFETY: valid identifiers, buffers as long as HDF5 is told or says itself; under HDF5's lock.
    unsafe {
        let here = c".".as_ptr();
        let (order, up) = (H5_INDEX_CRT_ORDER, H5_ITER_INC);
        let id = h5a::H5Aopen_by_idx(object.id(), here, order, up, index, H5P_DEFAULT, H5P_DEFAULT);
        let attribute = owned("H5Aopen_by_idx", id).ok()?;
        let mut name = [0_u8; 300];
        assert!(h5a::H5Aget_name(attribute.id(), 300, name.as_mut_ptr().cast()) > 0);
        let kind = owned("H5Aget_type", h5a::H5Aget_type(attribute.id())).unwrap();
        let space = owned("H5Aget_space", h5a::H5Aget_space(attribute.id())).unwrap();
        let is = |class| h5t::H5Tdetect_class(kind.id(), class) > 0;
        let mut bytes = Vec::new();
        if !is(H5T_VLEN) && !is(H5T_REFERENCE) && h5t::H5Tis_variable_str(kind.id()) == 0 {
            let count = usize::try_from(h5s::H5Sget_simple_extent_npoints(space.id())).unwrap();
            bytes.resize(count * h5t::H5Tget_size(kind.id()), 0);
            assert!(h5a::H5Aread(attribute.id(), kind.id(), bytes.as_mut_ptr().cast()) >= 0);
        }
        Some((CStr::from_bytes_until_nul(&name).unwrap().to_owned(), kind, space, bytes))
    }
}

fn assert_same_attributes(ours: &Hid, theirs: &Hid, path: &CStr) -> u64 {
    for index in 0.. {
        let (Some(ours), theirs) = (attribute(ours, index), attribute(theirs, index)) else {
            assert!(attribute(theirs, index).is_none(), "{path:?} lacks attribute {index}");
            return index;
        };
        let theirs = theirs.unwrap_or_else(|| panic!("{path:?} has an attribute {:?} too many", ours.0));
        assert_eq!((&ours.0, &ours.3), (&theirs.0, &theirs.3), "{path:?}");
        // SAFETY: valid identifiers, under HDF5's lock.
        unsafe {
            assert!(h5t::H5Tequal(ours.1.id(), theirs.1.id()) > 0, "type of {:?} of {path:?}", ours.0);
            assert!(h5s::H5Sextent_equal(ours.2.id(), theirs.2.id()) > 0, "space of {:?} of {path:?}", ours.0);
        }
    }
    unreachable!("attributes end")
}

/// Type, extents, and all that was asked for at creation (layout, chunks, fill value, orders).
fn assert_same_dataset(ours: &Hid, theirs: &Hid, path: &CStr) {
    // SAFETY: valid datasets, under HDF5's lock.
    unsafe {
        let get = |call, get: unsafe extern "C" fn(i64) -> i64| {
            (owned(call, get(ours.id())).unwrap(), owned(call, get(theirs.id())).unwrap())
        };
        let (left, right) = get("H5Dget_type", h5d::H5Dget_type);
        assert!(h5t::H5Tequal(left.id(), right.id()) > 0, "type of {path:?}");
        let (left, right) = get("H5Dget_space", h5d::H5Dget_space);
        assert!(h5s::H5Sextent_equal(left.id(), right.id()) > 0, "space of {path:?}");
        let (left, right) = get("H5Dget_create_plist", h5d::H5Dget_create_plist);
        assert!(h5p::H5Pequal(left.id(), right.id()) > 0, "creation of {path:?}");
    }
}

fn assert_same_file(spec: &FileSpec) {
    let slots = [0; 16];
    let (root, groups) = groups(spec, &slots);
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a name with a NUL, under HDF5's lock.
        unsafe { owned("H5Fopen", h5f::H5Fopen(path.as_ptr(), h5f::H5F_ACC_RDONLY, H5P_DEFAULT)).unwrap() }
    };
    sync(|| {
        let image = Image::new(&root, &groups).unwrap();
        let ours = open("ours", &bytes_of(&image));
        let theirs = open("theirs", &image_by_hdf5(&root, &groups));
        let mut attributes = 0;
        for group in &groups {
            let group_path = CString::new(format!("/{}", group.name)).unwrap();
            let pair = (open_object(&ours, &group_path), open_object(&theirs, &group_path));
            attributes += assert_same_attributes(&pair.0, &pair.1, &group_path);
            for dataset in &group.datasets {
                let path = CString::new(format!("/{}/{}", group.name, dataset.name)).unwrap();
                let pair = (open_object(&ours, &path), open_object(&theirs, &path));
                assert_same_dataset(&pair.0, &pair.1, &path);
                attributes += assert_same_attributes(&pair.0, &pair.1, &path);
            }
        }
        assert!(attributes > 80, "only {attributes} attributes were compared");
    });
}

#[test]
fn we_lay_out_what_hdf5_builds() {
    assert_same_file(&spec(vec![set("", 5), set("line", 300)]));
    assert_same_file(&spec(vec![set("plane", 1), set("line", 2)]));
}

#[test]
fn headers_cross_no_page_and_the_seal_lies_in_one() {
    let spec = spec(vec![set("", 5), set("line", 9000)]);
    let slots = [0; 16];
    let (root, groups) = groups(&spec, &slots);
    let image = Image::new(&root, &groups).unwrap();
    assert_eq!(image.content_offset("seal").unwrap() % 128, 0);
    let bytes = bytes_of(&image);
    let starts = bytes.windows(5).enumerate().filter(|(_, bytes)| bytes == b"OHDR\x02").map(|(at, _)| at);
    let mut lengths = Vec::new();
    for at in starts {
        let length = 18 + u32::from_le_bytes(bytes[at + 10..at + 14].try_into().unwrap()) as usize;
        assert_eq!(at / 4096, (at + length - 1) / 4096, "the header at {at} crosses a page");
        lengths.push(length);
    }
    let datasets: Vec<_> = groups.iter().flat_map(|group| &group.datasets).collect();
    assert_eq!(lengths.len(), datasets.len() + groups.len());
    // Behind the root's: those that change as the file grows. HDF5 reads 512 bytes at once.
    let growing = datasets.iter().filter(|dataset| dataset.chunk.is_some()).count();
    let longest = lengths[1..=growing].iter().max().unwrap();
    assert!(*longest <= 512, "a header that grows has {longest} bytes");
    assert_eq!(bytes.windows(4).filter(|bytes| bytes == b"OCHK").count(), growing);
}

#[test]
fn what_does_not_fit_into_a_message_is_left_to_hdf5() {
    let mut spec = spec(vec![set("", 2)]);
    spec.attributes.push(("input".into(), "x".repeat(70_000)));
    let slots = [0; 16];
    let (root, groups) = groups(&spec, &slots);
    assert!(Image::new(&root, &groups).is_none());
}
