//! Creation: the file is laid out in memory and opened by HDF5, then it is written (in one piece, or point by point where there are many)
//! and renamed.

use super::column_table::{ColumnTable, chunk_shape};
use super::counters::put;
use super::left_over::LeftOver;
use super::seal::SealSlot;
use super::space::Space;
use super::{
    ContainerCounters, ContainerWriter, CreateError, Durability, Existing, Growing, Hdf, SetState, WriteCount,
};
use crate::blueprint::{
    BOOKKEEPING, COLUMN_CHECKSUM, Group, SEAL, Value, bookkeeping_group, global_attributes, set_group,
};
use crate::create::{Builder, c_string};
use crate::driver::superblock::{SUPERBLOCK_BYTES, is_expected};
use crate::driver::{DriverName, SharedState, access_list};
use crate::hdf::{HdfError, Hid, check, owned};
use crate::image::Image;
use crate::names::check_spec;
use crate::reader::SEAL_WORDS;
use crate::{DatasetIndex, FileSpec, PointSource, SetGeometry};
use afflux_storage::{OpenMode, Storage, StorageFile};
use hdf5_metno::sync::sync;
use hdf5_metno_sys::{h5d, h5f, h5p};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The new file, before it is anywhere but in memory.
struct Built<'a> {
    hdf: Hdf,
    driver: SharedState,
    seal_offset: u64,
    /// Its first bytes: all of them where HDF5 has built it.
    head: Vec<u8>,
    /// What follows.
    image: Option<Image<'a>>,
}

/// A new file of at most this length is put together in memory and written in one piece; a longer one in pieces.
const WHOLE_BYTES_MAX: u64 = 4 << 20;

/// See [`ContainerWriter::create`].
pub(super) fn create(
    storage: &dyn Storage,
    path: &Path,
    spec: &FileSpec,
    points: &[&dyn PointSource],
    existing: Existing,
) -> Result<ContainerWriter, CreateError> {
    assert_eq!(points.len(), spec.sets.len(), "points come set by set");
    check_spec(spec, points)?;
    let exists =
        storage.exists(path).map_err(|source| CreateError::Io { doing: "look for", path: path.into(), source })?;
    if exists && existing == Existing::Refuse {
        return Err(CreateError::Exists { path: path.into() });
    }
    if exists {
        let regular = storage.is_regular_file(path);
        if !regular.map_err(|source| CreateError::Io { doing: "look at", path: path.into(), source })? {
            return Err(CreateError::NotAFile { path: path.into() });
        }
        refuse_if_written(storage, path)?;
    }
    let sets = spec.sets.iter().zip(points);
    let geometries: Vec<SetGeometry> = sets
        .map(|(set, points)| SetGeometry::of(points.count(), &set.variables, set.chunk_steps, spec.chunk_bytes))
        .collect();
    let empty_slots = [0_u64; 2 * SEAL_WORDS];
    let groups = groups(spec, points, &geometries, &empty_slots);
    let built = sync(|| build(spec, &groups))?;
    let temporary = temporary_path(path);
    let file = open_temporary(storage, &temporary)?;
    let finished = publish(file, built, spec, geometries.clone(), path).and_then(|writer| {
        let renamed = match existing {
            Existing::Refuse => storage.rename_no_clobber(&temporary, path),
            Existing::Replace => storage.rename_replace(&temporary, path),
        };
        match renamed {
            Ok(()) => Ok(writer),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(CreateError::Exists { path: path.into() })
            }
            Err(source) => Err(CreateError::Io { doing: "rename the new file to", path: path.into(), source }),
        }
    });
    if finished.is_err() {
        // The first fault is the one to report.
        let _ = storage.remove(&temporary);
    }
    finished
}

/// A file that another writer holds is not replaced. One that cannot be opened for writing has no writer of ours.
fn refuse_if_written(storage: &dyn Storage, path: &Path) -> Result<(), CreateError> {
    match storage.open(path, OpenMode::ReadWrite).map(|file| file.try_lock_exclusive()) {
        Ok(Ok(false)) => Err(CreateError::Busy { path: path.into() }),
        _ => Ok(()),
    }
}

/// The name under which a file is built: with a suffix, and where that would be too long, with a hash for the end of the name.
pub(crate) fn temporary_path(path: &Path) -> PathBuf {
    /// What file systems take.
    const NAME_BYTES_MAX: usize = 255;
    const HASH_DIGITS: usize = 16;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    if name.len() + TEMPORARY_SUFFIX.len() > NAME_BYTES_MAX {
        let hash = xxh3_64(name.as_encoded_bytes());
        let text = name.to_string_lossy();
        let kept = text.floor_char_boundary(NAME_BYTES_MAX - TEMPORARY_SUFFIX.len() - HASH_DIGITS - 1);
        name = format!("{}-{hash:016x}", &text[..kept]).into();
    }
    name.push(TEMPORARY_SUFFIX);
    path.with_file_name(name)
}

/// What a file's name ends with until the file is whole.
const TEMPORARY_SUFFIX: &str = ".afflux-new";

/// Opens the temporary file; one that a killed writer left (nobody holds its lock) is removed first.
fn open_temporary(storage: &dyn Storage, path: &Path) -> Result<Arc<dyn StorageFile>, CreateError> {
    let failed = |doing| move |source| CreateError::Io { doing, path: path.to_owned(), source };
    let file = match storage.open(path, OpenMode::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let orphan = storage.open(path, OpenMode::ReadWrite).map_err(failed("open the left-over"))?;
            // Without locks there is no way to tell; an orphan is far more likely than a creation of milliseconds.
            if let Ok(false) = orphan.try_lock_exclusive() {
                return Err(CreateError::Busy { path: path.into() });
            }
            storage.remove(path).map_err(failed("remove the left-over"))?;
            storage.open(path, OpenMode::CreateNew).map_err(failed("create"))?
        }
        opened => opened.map_err(failed("create"))?,
    };
    match file.try_lock_exclusive() {
        Ok(false) => Err(CreateError::Busy { path: path.into() }),
        // A file system without locks: the epoch in the seal is what is left.
        Ok(true) | Err(_) => Ok(file),
    }
}

/// Writes the new file and makes the writer.
fn publish(
    file: Arc<dyn StorageFile>,
    built: Built<'_>,
    spec: &FileSpec,
    geometries: Vec<SetGeometry>,
    path: &Path,
) -> Result<ContainerWriter, CreateError> {
    let Built { hdf, driver, seal_offset, mut head, image } = built;
    let end = image.as_ref().map_or(head.len() as u64, |image| image.length);
    let mut superblock = [0; SUPERBLOCK_BYTES];
    superblock.copy_from_slice(&head[..SUPERBLOCK_BYTES]);
    if !is_expected(&superblock) {
        return Err(CreateError::Unexpected("its superblock is not of version 3"));
    }
    let space = Space::new(superblock, end);
    head[..SUPERBLOCK_BYTES].copy_from_slice(space.superblock());
    let seal = SealSlot { sequence: 1, step_end: 0, epoch: 1, end_of_allocation: end, closed: false, rewrite_end: 0 };
    let slot_at = seal_offset + seal.offset();
    let slot = seal.encode();
    if slot_at.checked_add(slot.len() as u64).is_none_or(|slot_end| slot_end > end) {
        return Err(CreateError::Unexpected("its seal is outside the file"));
    }
    let mut counters = ContainerCounters::default();
    let written = write_new(file.as_ref(), &mut counters.create, head, image.as_ref(), (&slot, slot_at))
        .and_then(|()| file.set_len(space.length()));
    written.map_err(|source| CreateError::Io { doing: "write the new file", path: path.into(), source })?;
    counters.length_changes += 1;
    driver.hold_over(Arc::clone(&file));
    let set_count = geometries.len() as u64;
    let sets = spec.sets.iter().zip(geometries).map(|(set, geometry)| SetState::new(set, geometry)).collect();
    Ok(ContainerWriter {
        path: path.into(),
        file,
        driver,
        hdf: Some(hdf),
        sets,
        grown: Vec::new(),
        set_count,
        table: ColumnTable::new(set_count),
        space,
        seal,
        seal_offset,
        durability: Durability::default(),
        created_end: end,
        left_over: LeftOver::default(),
        visible_after: None,
        counters,
        next_rewrite: None,
        advanced: None,
        first_failure: None,
    })
}

/// Writes a new file: its head, what follows it, and over that the first seal slot with its place.
fn write_new(
    file: &dyn StorageFile,
    count: &mut WriteCount,
    mut head: Vec<u8>,
    image: Option<&Image<'_>>,
    (slot, slot_at): (&[u8], u64),
) -> io::Result<()> {
    let length = image.map_or(head.len() as u64, |image| image.length);
    if let Some(image) = image.filter(|image| image.length > WHOLE_BYTES_MAX) {
        put(file, count, &head, 0)?;
        image.write_contents(&mut |bytes, offset| put(file, count, bytes, offset))?;
        return put(file, count, slot, slot_at);
    }
    let within = |offset: u64| usize::try_from(offset).map_err(io::Error::other);
    head.resize(within(length)?, 0);
    let mut place = |bytes: &[u8], offset: u64| {
        let at = within(offset)?;
        head[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    };
    if let Some(image) = image {
        image.write_contents(&mut place)?;
    }
    place(slot, slot_at)?;
    put(file, count, &head, 0)
}

/// What the file consists of.
fn groups<'a>(
    spec: &'a FileSpec,
    points: &[&'a dyn PointSource],
    geometries: &[SetGeometry],
    empty_slots: &'a [u64],
) -> Vec<Group<'a>> {
    let sets = geometries.iter().zip(points).enumerate();
    let mut groups: Vec<Group<'_>> =
        sets.map(|(index, (geometry, points))| set_group(spec, index, *points, geometry)).collect();
    groups.push(bookkeeping_group(spec, chunk_shape(spec.sets.len() as u64), empty_slots));
    groups
}

/// Lays the file out, under HDF5's lock: by our own hand where it can be done, else by HDF5's.
fn build<'a>(spec: &FileSpec, groups: &'a [Group<'a>]) -> Result<Built<'a>, CreateError> {
    let has_root_set = spec.sets.iter().any(|set| set.name.is_empty());
    let root_attributes = if has_root_set { Vec::new() } else { global_attributes(spec) };
    match Image::new(&root_attributes, groups) {
        Some(image) => open_image(image, groups),
        None => build_with_hdf5(&root_attributes, groups),
    }
}

/// Has HDF5 open a file that we have laid out.
fn open_image<'a>(mut image: Image<'a>, groups: &[Group<'_>]) -> Result<Built<'a>, CreateError> {
    let seal_offset = image.content_offset(SEAL).ok_or(CreateError::Unexpected("its bookkeeping is missing"))?;
    let driver = SharedState::with_image(std::mem::take(&mut image.head), image.length);
    let hdf = open_hdf(&driver, groups)?;
    let head = driver.take_head();
    Ok(Built { hdf, driver, seal_offset, head, image: Some(image) })
}

/// Has HDF5 open a file for writing, and the datasets in it that grow. Call within `sync`.
pub(super) fn open_hdf(driver: &SharedState, groups: &[Group<'_>]) -> Result<Hdf, HdfError> {
    let name = DriverName::new(driver);
    let access = access_list()?;
    without_chunk_cache(&access)?;
    let name = name.as_c_str().as_ptr();
    // SAFETY: a NUL-terminated name and a valid property list, under HDF5's lock.
    let file = owned("H5Fopen", unsafe { h5f::H5Fopen(name, h5f::H5F_ACC_RDWR, access.id()) })?;
    let open = |group: &str, dataset: &str| {
        let path = c_string("H5Dopen2", &format!("{group}/{dataset}"))?;
        // SAFETY: a valid file and a NUL-terminated name, under HDF5's lock.
        owned("H5Dopen2", unsafe { h5d::H5Dopen2(file.id(), path.as_ptr(), h5p::H5P_DEFAULT) })
    };
    let mut sets = Vec::with_capacity(groups.len());
    for group in groups.iter().filter(|group| group.set.is_some()) {
        let roles = group.datasets.iter().filter_map(|dataset| dataset.grows.map(|role| (role, dataset)));
        let handles = roles.map(|(role, dataset)| Ok((role, open(&group.name, &dataset.name)?)));
        sets.push(growing(group, handles.collect::<Result<Vec<_>, HdfError>>()?));
    }
    let table = open(BOOKKEEPING, COLUMN_CHECKSUM)?;
    Ok(Hdf { sets, table, changed: false, file })
}

/// Has HDF5 build the file.
fn build_with_hdf5<'a>(root_attributes: &[(String, Value)], groups: &[Group<'_>]) -> Result<Built<'a>, CreateError> {
    let driver = SharedState::building();
    let name = DriverName::new(&driver);
    let access = access_list()?;
    without_chunk_cache(&access)?;
    let mut builder = Builder::new(name.as_c_str(), &access)?;
    builder.root_attributes(root_attributes)?;
    let mut sets = Vec::with_capacity(groups.len());
    let mut kept = Vec::new();
    for group in groups {
        let keep: &[&str] = if group.name == BOOKKEEPING { &[SEAL, COLUMN_CHECKSUM] } else { &[] };
        let made = builder.add_group(group, keep)?;
        kept.extend(made.kept);
        if group.set.is_some() {
            sets.push(growing(group, made.growing));
        }
    }
    let mut take = |name: &str| {
        let position = kept.iter().position(|(kept_name, _)| kept_name == name);
        position
            .map(|position| kept.swap_remove(position).1)
            .ok_or(CreateError::Unexpected("its bookkeeping is missing"))
    };
    let seal = take(SEAL)?;
    let table = take(COLUMN_CHECKSUM)?;
    // SAFETY: a valid contiguous dataset with early allocation, under HDF5's lock.
    let seal_offset = unsafe { h5d::H5Dget_offset(seal.id()) };
    drop(seal);
    let file = builder.finish();
    flush_all(&file)?;
    let head = driver.take_image();
    if head.len() < SUPERBLOCK_BYTES {
        return Err(CreateError::Unexpected("it has no superblock"));
    }
    Ok(Built { hdf: Hdf { sets, table, changed: false, file }, driver, seal_offset, head, image: None })
}

/// The file as HDF5 builds it, to compare with.
#[cfg(test)]
pub(crate) fn image_by_hdf5(root_attributes: &[(String, Value)], groups: &[Group<'_>]) -> Vec<u8> {
    build_with_hdf5(root_attributes, groups).map(|built| built.head).expect("HDF5 builds it")
}

/// Raw data never passes through HDF5 after creation; a cache of it could only go stale.
fn without_chunk_cache(access: &Hid) -> Result<(), HdfError> {
    // SAFETY: a valid property list, under HDF5's lock.
    check("H5Pset_cache", unsafe { h5p::H5Pset_cache(access.id(), 0, 1, 0, 1.0) })
}

fn flush_all(file: &Hid) -> Result<(), HdfError> {
    // SAFETY: a valid file, under HDF5's lock.
    check("H5Fflush", unsafe { h5f::H5Fflush(file.id(), h5f::H5F_scope_t::H5F_SCOPE_GLOBAL) })
}

/// The growing datasets of a set in the order in which they grow ([`SetGeometry::datasets`]).
fn growing(group: &Group<'_>, handles: Vec<(DatasetIndex, Hid)>) -> Vec<Growing> {
    let mut growing: Vec<Growing> = handles
        .into_iter()
        .filter_map(|(role, handle)| {
            let dataset = group.datasets.iter().find(|dataset| dataset.grows == Some(role))?;
            let lengths: Vec<u64> = dataset.dimensions.iter().map(|&index| group.dimensions[index].length).collect();
            let leading = lengths[..lengths.len() - 1].to_vec();
            Some(Growing { role, handle, leading, rows: 0, index: None })
        })
        .collect();
    growing.sort_by_key(|growing| growing.role);
    growing
}
