//! Values of a box of points and rows, in the type they have in the file.

use super::ReadError;
use super::raw::{Checked, RawFile};
use crate::ElementType;
use std::ops::Range;

/// Values indexed by (point, component, row), row fastest.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// 32-bit integers.
    I32(Vec<i32>),
    /// 64-bit integers.
    I64(Vec<i64>),
}

impl Block {
    pub(super) fn read(
        file: &RawFile,
        from: &Checked,
        element: ElementType,
        ranges: &[Range<u64>],
    ) -> Result<Self, ReadError> {
        Ok(match element {
            ElementType::F32 => Self::F32(file.read(from, ranges)?),
            ElementType::F64 => Self::F64(file.read(from, ranges)?),
            ElementType::I32 => Self::I32(file.read(from, ranges)?),
            ElementType::I64 => Self::I64(file.read(from, ranges)?),
        })
    }

    /// No value of a type.
    pub(super) fn empty(element: ElementType) -> Self {
        match element {
            ElementType::F32 => Self::F32(Vec::new()),
            ElementType::F64 => Self::F64(Vec::new()),
            ElementType::I32 => Self::I32(Vec::new()),
            ElementType::I64 => Self::I64(Vec::new()),
        }
    }

    /// Adds values of the same type; `None` where they are of another.
    pub(super) fn append(&mut self, more: Self) -> Option<()> {
        match (self, more) {
            (Self::F32(all), Self::F32(more)) => all.extend(more),
            (Self::F64(all), Self::F64(more)) => all.extend(more),
            (Self::I32(all), Self::I32(more)) => all.extend(more),
            (Self::I64(all), Self::I64(more)) => all.extend(more),
            _ => return None,
        }
        Some(())
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts the little-endian bytes of these values, as they are in the file, in place of the contents of `bytes`.
    ///
    /// # Panics
    /// If the range is not within the block.
    pub fn bytes_into(&self, values: Range<usize>, bytes: &mut Vec<u8>) {
        bytes.clear();
        match self {
            Self::F32(all) => bytes.extend(all[values].iter().flat_map(|value| value.to_le_bytes())),
            Self::F64(all) => bytes.extend(all[values].iter().flat_map(|value| value.to_le_bytes())),
            Self::I32(all) => bytes.extend(all[values].iter().flat_map(|value| value.to_le_bytes())),
            Self::I64(all) => bytes.extend(all[values].iter().flat_map(|value| value.to_le_bytes())),
        }
    }
}
