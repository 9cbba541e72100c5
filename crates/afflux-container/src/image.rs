//! The bytes of a new file, laid out by ourselves: superblock, object headers, heaps, first contents.
//!
//! HDF5 takes a millisecond to create the few dozen objects and attributes of a file, one call each, and a microsecond a point
//! for the names; a short run is not much longer than that. All of it is known beforehand (see `blueprint`), so it is encoded here
//! in some ten microseconds, and HDF5 opens the result to let it grow: its head, for the points' ids, coordinates and names are written past
//! it, in pieces where there are many. What is written is what HDF5 1.10 writes when it is
//! asked for the same (`create` does ask, and a test compares), apart from where things lie. An object header is one block, the
//! links of a group and the attributes in it; the headers of growing datasets have two: the first, which is rewritten at each
//! seal, holds what a dataset is and crosses no page; the second, which never changes, holds the attributes. The first ones are neighbours.
//!
//! The reason for two: HDF5 reads the first 512 bytes of a header and then, if it is longer, the rest (`H5O_SPEC_READ_SIZE`). A header that
//! changes and is read in two pieces can be met half old and half new by a reader of a live file. For the same reason the extent is the
//! last message of the first block, next to the checksum.
//!
//! HDF5 File Format Specification 3.0: sections II.A (superblock), III.E (global heap), IV.A (object headers). This module
//! answers for where things go and what refers to what; `message` and `heap` know the bytes. Pure: equal blueprints give equal bytes
//! whichever HDF5 is loaded.
//!
//! A message of a header must be shorter than 64 KiB. A file that has a longer one (a long text as a global attribute) is left
//! to HDF5, which has other places for it.

mod contents;
mod heap;
mod message;

use crate::blueprint::{Content, Dataset, FileType, Group, PointField, Value, pure_dimension_text};
use crate::driver::superblock::{SUPERBLOCK_BYTES, amend};
use contents::{PointPlaces, content_bytes};
use heap::HeapWriter;
use message::{Header, HeaderWriter, Layout, UNDEFINED};
use std::io;

/// A header that is rewritten as it grows must not be cut by a kill: it stays within a page.
const PAGE_BYTES: u64 = 4096;
/// The end of a header that is rewritten lies at the end of a cache line, so that extent and checksum, its last bytes, share one: a
/// reader that reads while the kernel copies the new bytes into the page cache meets both or neither, but for a nanosecond.
const LINE_BYTES: u64 = 64;
/// Contents begin at multiples of this; the two seal slots then lie in one page.
const CONTENT_ALIGNMENT_BYTES: u64 = 128;
/// More links than this belong into an index, which HDF5 makes.
const LINKS_MAX: usize = 4096;

/// An object of the file; object 0 is the root group.
enum Object<'a> {
    Group {
        attributes: Vec<&'a (String, Value)>,
        /// Name and object, in creation order.
        links: Vec<(&'a str, usize)>,
    },
    Dataset {
        group: &'a Group<'a>,
        /// Index in the group's datasets.
        number: usize,
        /// The object of the group's first dataset; the others follow.
        first_object: usize,
        /// `_Netcdf4Dimid` of the group's first dimension.
        first_dimension_id: i32,
    },
}

/// Where everything lies; indexed by object.
struct Addresses {
    headers: Vec<u64>,
    /// Of the second blocks of headers; of no meaning where there is none.
    continuations: Vec<u64>,
    /// Of the contents; [`UNDEFINED`] where there are none.
    contents: Vec<u64>,
    /// Of the heap that attributes refer to.
    attribute_heap: u64,
}

/// A new file: its head as bytes, and what follows it as a description that can be written.
pub(crate) struct Image<'a> {
    /// Superblock, object headers and the heap of their attributes: all that HDF5 reads. The superblock's stored end is `length`.
    pub head: Vec<u8>,
    /// Bytes of the whole file.
    pub length: u64,
    contents: Vec<PlacedContent<'a>>,
}

/// First contents of a dataset and where they begin.
struct PlacedContent<'a> {
    dataset: &'a str,
    offset: u64,
    content: Content<'a>,
}

impl<'a> Image<'a> {
    /// Lays a file out; `None` if it cannot be done without dense storage. `root_attributes` are those that no group named `""` has.
    pub(crate) fn new(root_attributes: &[(String, Value)], groups: &'a [Group<'a>]) -> Option<Self> {
        let objects = objects(root_attributes, groups);
        let count = objects.len();
        // Lengths do not depend on addresses: the first round of encoding measures.
        let nowhere = vec![0; count];
        let nowhere = Addresses {
            headers: nowhere.clone(),
            continuations: nowhere.clone(),
            contents: nowhere,
            attribute_heap: 0,
        };
        let (headers, attribute_heap) = encode_headers(&objects, &nowhere)?;
        let mut end = SUPERBLOCK_BYTES as u64;
        let mut addresses = Addresses { contents: vec![UNDEFINED; count], ..nowhere };
        for index in placement(&objects) {
            let bytes = headers[index].first.len() as u64;
            if !headers[index].continuation.is_empty() {
                end = (end + bytes).next_multiple_of(LINE_BYTES) - bytes;
            }
            if end % PAGE_BYTES + bytes > PAGE_BYTES {
                end = (end.next_multiple_of(PAGE_BYTES) + bytes).next_multiple_of(LINE_BYTES) - bytes;
            }
            addresses.headers[index] = end;
            end += bytes;
        }
        for (address, header) in addresses.continuations.iter_mut().zip(&headers) {
            *address = end;
            end += header.continuation.len() as u64;
        }
        addresses.attribute_heap = end.next_multiple_of(8);
        end = addresses.attribute_heap + attribute_heap.len() as u64;
        let mut head = vec![0; usize::try_from(end).ok()?];
        let contents = place_contents(groups, &mut end);
        let mut placed = contents.iter().map(|content| content.offset);
        for (address, object) in addresses.contents.iter_mut().zip(&objects) {
            if object.dataset().is_some_and(|dataset| !matches!(dataset.content, Content::None)) {
                *address = placed.next()?;
            }
        }
        let (headers, attribute_heap) = encode_headers(&objects, &addresses)?;
        place(&mut head, addresses.attribute_heap, &attribute_heap);
        for (index, header) in headers.iter().enumerate() {
            place(&mut head, addresses.headers[index], &header.first);
            place(&mut head, addresses.continuations[index], &header.continuation);
        }
        let superblock = superblock(addresses.headers[0], end);
        place(&mut head, 0, &superblock);
        Some(Self { head, length: end, contents })
    }

    /// Where the contents of the only dataset of this name begin.
    pub(crate) fn content_offset(&self, dataset: &str) -> Option<u64> {
        self.contents.iter().rev().find(|content| content.dataset == dataset).map(|content| content.offset)
    }

    /// Writes what follows the head: `put` takes bytes and where they belong. What it is not given is zeros.
    pub(crate) fn write_contents(&self, put: &mut dyn FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
        let mut rest = &self.contents[..];
        while let [first, behind @ ..] = rest {
            rest = behind;
            match first.content {
                Content::None | Content::Virtual(_) => {}
                Content::Steps(values) => {
                    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    put(&bytes, first.offset)?;
                }
                Content::Times(values) => {
                    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    put(&bytes, first.offset)?;
                }
                Content::U64(values) => {
                    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    put(&bytes, first.offset)?;
                }
                Content::Points(field, points) => {
                    let (fields, others) = behind.split_at(PointField::ALL.len() - 1);
                    assert_eq!(field, PointField::ALL[0], "the datasets of a set's points come together");
                    let [x, y, z, name] = fields else { unreachable!("split at 4") };
                    let coordinates = [x.offset, y.offset, z.offset];
                    PointPlaces { points, id: first.offset, coordinates, name: name.offset }.write(put)?;
                    rest = others;
                }
            }
        }
        Ok(())
    }
}

/// Gives the first contents their places behind `end`, in creation order, and moves it behind them.
fn place_contents<'a>(groups: &'a [Group<'a>], end: &mut u64) -> Vec<PlacedContent<'a>> {
    let datasets = groups.iter().flat_map(|group| &group.datasets);
    let filled = datasets.filter(|dataset| !matches!(dataset.content, Content::None));
    let placed = filled.map(|dataset| {
        let offset = end.next_multiple_of(CONTENT_ALIGNMENT_BYTES);
        *end = offset + content_bytes(&dataset.content);
        PlacedContent { dataset: &dataset.name, offset, content: dataset.content }
    });
    placed.collect()
}

impl<'a> Object<'a> {
    fn dataset(&self) -> Option<&'a Dataset<'a>> {
        match self {
            Self::Group { .. } => None,
            Self::Dataset { group, number, .. } => group.datasets.get(*number),
        }
    }
}

/// The objects of the file, in creation order.
fn objects<'a>(root_attributes: &'a [(String, Value)], groups: &'a [Group<'a>]) -> Vec<Object<'a>> {
    let mut root_links = Vec::new();
    let mut attributes: Vec<&(String, Value)> = root_attributes.iter().collect();
    let mut objects = vec![Object::Group { attributes: Vec::new(), links: Vec::new() }];
    let mut first_dimension_id = 0;
    for group in groups {
        let is_root = group.name.is_empty();
        let first_object = objects.len() + usize::from(!is_root);
        let numbered = group.datasets.iter().enumerate();
        let links = numbered.map(|(number, dataset)| (dataset.name.as_str(), first_object + number));
        if is_root {
            attributes.extend(&group.attributes);
            root_links.extend(links);
        } else {
            root_links.push((group.name.as_str(), objects.len()));
            objects.push(Object::Group { attributes: group.attributes.iter().collect(), links: links.collect() });
        }
        for number in 0..group.datasets.len() {
            objects.push(Object::Dataset { group, number, first_object, first_dimension_id });
        }
        first_dimension_id += i32::try_from(group.dimensions.len()).unwrap_or(i32::MAX);
    }
    objects[0] = Object::Group { attributes, links: root_links };
    objects
}

/// The root, then what grows: its headers are rewritten together.
fn placement(objects: &[Object<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..objects.len()).collect();
    order.sort_by_key(|&index| index != 0 && objects[index].dataset().is_none_or(|dataset| dataset.chunk.is_none()));
    order
}

/// The object headers, by object, and the heap that their attributes refer to.
fn encode_headers(objects: &[Object<'_>], addresses: &Addresses) -> Option<(Vec<Header>, Vec<u8>)> {
    let mut heap = HeapWriter::new(addresses.attribute_heap);
    let headers = objects.iter().enumerate().map(|(index, object)| match object {
        Object::Group { attributes, links } => encode_group(attributes, links, addresses, &mut heap),
        Object::Dataset { group, number, first_object, first_dimension_id } => {
            let place = DatasetPlace {
                group,
                number: *number,
                headers: &addresses.headers[*first_object..],
                first_dimension_id: *first_dimension_id,
                content: addresses.contents[index],
                continuation: addresses.continuations[index],
            };
            place.encode(&mut heap)
        }
    });
    let headers = headers.collect::<Option<Vec<_>>>()?;
    Some((headers, heap.finish()))
}

fn encode_group(
    attributes: &[&(String, Value)],
    links: &[(&str, usize)],
    addresses: &Addresses,
    heap: &mut HeapWriter,
) -> Option<Header> {
    if links.len() > LINKS_MAX {
        return None;
    }
    let mut header = HeaderWriter::new();
    header.group(links.len());
    header.attribute_count(attributes.len());
    for (name, value) in attributes {
        header.attribute(name, value, heap)?;
    }
    for (order, &(name, object)) in links.iter().enumerate() {
        header.link(name, order, addresses.headers[object])?;
    }
    header.finish(UNDEFINED)
}

/// A dataset among those of its group.
struct DatasetPlace<'a> {
    group: &'a Group<'a>,
    number: usize,
    /// Addresses of the headers of the group's datasets (and of what follows), by number.
    headers: &'a [u64],
    first_dimension_id: i32,
    /// Address of its contents.
    content: u64,
    /// Address of the second block of its header.
    continuation: u64,
}

impl DatasetPlace<'_> {
    fn encode(&self, heap: &mut HeapWriter) -> Option<Header> {
        let dataset = &self.group.datasets[self.number];
        let dimensions = || dataset.dimensions.iter().map(|&index| &self.group.dimensions[index]);
        let lengths: Vec<u64> = dimensions().map(|dimension| dimension.length).collect();
        let lengths_max: Vec<u64> =
            dimensions().map(|dimension| if dimension.unlimited { u64::MAX } else { dimension.length }).collect();
        let mut header = HeaderWriter::new();
        header.dataspace(&lengths, &lengths_max);
        header.datatype(dataset.file_type);
        header.fill(dataset);
        let bytes = lengths.iter().product::<u64>() * message::element_bytes(dataset.file_type);
        header.layout(match &dataset.chunk {
            Some(chunk) => Layout::Chunked { chunk, element_bytes: message::element_bytes(dataset.file_type) },
            None => Layout::Contiguous { address: self.content, bytes },
        });
        let scale_of = self.group.dimensions.iter().position(|dimension| dimension.scale == self.number);
        let users = scale_of.map(|dimension| self.users(dimension)).unwrap_or_default();
        let own = if scale_of.is_none() { 1 } else { 3 + usize::from(!users.is_empty()) };
        header.attribute_count(own + dataset.attributes.len());
        if dataset.chunk.is_some() {
            header.continue_elsewhere();
        }
        match scale_of {
            Some(dimension) => self.scale_attributes(dimension, &users, &mut header, heap)?,
            None => {
                let scales = dimensions().map(|dimension| self.headers[dimension.scale]);
                header.dimension_list(&scales.collect::<Vec<_>>(), heap)?;
            }
        }
        for (name, value) in &dataset.attributes {
            header.attribute(name, value, heap)?;
        }
        header.finish(self.continuation)
    }

    /// Who uses a dimension: header and axis.
    fn users(&self, dimension: usize) -> Vec<(u64, usize)> {
        let is_scale = |number: usize| self.group.dimensions.iter().any(|dimension| dimension.scale == number);
        let others = self.group.datasets.iter().enumerate().filter(|&(number, _)| !is_scale(number));
        others
            .flat_map(|(number, dataset)| {
                let axes = dataset.dimensions.iter().enumerate().filter(move |&(_, &used)| used == dimension);
                axes.map(move |(axis, _)| (self.headers[number], axis))
            })
            .collect()
    }

    /// What makes a scale of a dataset (HDF5 Dimension Scale Specification), and netCDF's number of the dimension.
    fn scale_attributes(
        &self,
        dimension: usize,
        users: &[(u64, usize)],
        header: &mut HeaderWriter,
        heap: &mut HeapWriter,
    ) -> Option<()> {
        let shape = &self.group.dimensions[dimension];
        let name = match self.group.datasets[self.number].file_type {
            FileType::Dimension => pure_dimension_text(shape.length),
            _ => shape.name.clone(),
        };
        header.attribute("CLASS", &Value::Text("DIMENSION_SCALE\0".into()), heap)?;
        header.attribute("NAME", &Value::Text(format!("{name}\0")), heap)?;
        header.dimension_id(self.first_dimension_id + i32::try_from(dimension).ok()?)?;
        if users.is_empty() { Some(()) } else { header.reference_list(users) }
    }
}

fn superblock(root: u64, end: u64) -> [u8; SUPERBLOCK_BYTES] {
    let mut superblock = [0; SUPERBLOCK_BYTES];
    superblock[..12].copy_from_slice(b"\x89HDF\r\n\x1a\n\x03\x08\x08\0");
    superblock[20..28].copy_from_slice(&UNDEFINED.to_le_bytes());
    superblock[36..44].copy_from_slice(&root.to_le_bytes());
    amend(&mut superblock, end);
    superblock
}

/// Puts bytes at their place.
fn place(file: &mut [u8], offset: u64, bytes: &[u8]) {
    let at = usize::try_from(offset).unwrap_or(usize::MAX);
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests;
