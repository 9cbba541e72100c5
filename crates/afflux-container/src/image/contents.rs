//! First contents of datasets: how long they are, and their bytes, written point by point.
//!
//! A file of millions of points is never whole in memory: every dataset of a set has a buffer of its own ([`Stream`]), and one pass over
//! the points fills and writes them all. Where anything lies was found by a pass before, which measures the names.

use super::heap::{ELEMENT_BYTES, HeapMeasure, HeapStream};
use crate::blueprint::{Content, PointField};
use crate::point_source::{PointSource, try_visit, visit_all};
use std::io;
use std::io::Write;

/// Takes bytes and where they belong in the file.
pub(crate) type Put<'a> = dyn FnMut(&[u8], u64) -> io::Result<()> + 'a;

/// A stream's bytes are written when there are so many: few calls, little memory.
const STREAM_BYTES: usize = 256 * 1024;

/// Bytes of a dataset's first contents; of names, the elements and the heap behind them.
pub(super) fn content_bytes(content: &Content<'_>) -> u64 {
    match content {
        // A master is laid out by HDF5 alone.
        Content::None | Content::Virtual(_) => 0,
        Content::Steps(values) => size_of_val(*values) as u64,
        Content::Times(values) => size_of_val(*values) as u64,
        Content::U64(values) => size_of_val(*values) as u64,
        Content::Points(PointField::Name, points) => {
            let mut heap = HeapMeasure::default();
            visit_all(*points, |row| heap.add(row.name.map_or_else(|| decimal_bytes(row.id), str::len)));
            points.count() * ELEMENT_BYTES as u64 + heap.finish()
        }
        Content::Points(_, points) => points.count() * 8,
    }
}

/// Digits and sign of an id in decimal.
fn decimal_bytes(id: i64) -> usize {
    let digits = id.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    digits + usize::from(id < 0)
}

/// Bytes on their way to consecutive places of the file.
pub(super) struct Stream {
    bytes: Vec<u8>,
    /// Where the first of them belongs.
    offset: u64,
}

impl Stream {
    pub(super) fn at(offset: u64) -> Self {
        Self { bytes: Vec::new(), offset }
    }

    /// Where the next byte belongs.
    pub(super) fn position(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    pub(super) fn push(&mut self, bytes: &[u8], put: &mut Put<'_>) -> io::Result<()> {
        if self.bytes.len() + bytes.len() > STREAM_BYTES {
            self.flush(put)?;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn flush(&mut self, put: &mut Put<'_>) -> io::Result<()> {
        if !self.bytes.is_empty() {
            put(&self.bytes, self.offset)?;
        }
        self.offset = self.position();
        self.bytes.clear();
        Ok(())
    }
}

/// Where the five datasets of a set's points begin.
#[derive(Clone, Copy)]
pub(super) struct PointPlaces<'a> {
    pub points: &'a dyn PointSource,
    pub id: u64,
    pub coordinates: [u64; 3],
    pub name: u64,
}

impl PointPlaces<'_> {
    /// Writes all of them in one pass.
    pub(super) fn write(&self, put: &mut Put<'_>) -> io::Result<()> {
        let mut ids = Stream::at(self.id);
        let mut coordinates = self.coordinates.map(Stream::at);
        let mut elements = Stream::at(self.name);
        let mut heap = HeapStream::at(self.name + self.points.count() * ELEMENT_BYTES as u64);
        // An i64 in decimal has 20 characters at most.
        let mut decimal = Vec::with_capacity(20);
        try_visit(self.points, |row| {
            ids.push(&row.id.to_le_bytes(), put)?;
            for (stream, coordinate) in coordinates.iter_mut().zip(row.at) {
                stream.push(&coordinate.to_le_bytes(), put)?;
            }
            let name = match row.name {
                Some(name) => name.as_bytes(),
                None => {
                    decimal.clear();
                    write!(decimal, "{}", row.id)?;
                    &decimal
                }
            };
            elements.push(&heap.element(name, put)?, put)
        })?;
        ids.flush(put)?;
        coordinates.iter_mut().try_for_each(|stream| stream.flush(put))?;
        elements.flush(put)?;
        heap.finish(put)
    }
}

#[cfg(test)]
mod tests {
    use super::decimal_bytes;

    #[test]
    fn decimals_are_as_long_as_they_are_printed() {
        for id in [0, 1, 9, 10, 99, 100, -1, -10, i64::MAX, i64::MIN] {
            assert_eq!(decimal_bytes(id), id.to_string().len(), "{id}");
        }
    }
}
