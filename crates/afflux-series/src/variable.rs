//! Variables of a set, and the typed slices in which their rows arrive.

use afflux_container::{ElementType, VariableSpec};

/// A quantity sampled at every point of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub(crate) spec: VariableSpec,
}

impl Variable {
    fn new(name: impl Into<String>, element: ElementType) -> Self {
        let spec = VariableSpec {
            name: name.into(),
            element,
            components: None,
            units: String::new(),
            long_name: None,
            standard_name: None,
        };
        Self { spec }
    }

    /// A variable of 32-bit floats.
    #[must_use]
    pub fn f32(name: impl Into<String>) -> Self {
        Self::new(name, ElementType::F32)
    }
    /// A variable of 64-bit floats.
    #[must_use]
    pub fn f64(name: impl Into<String>) -> Self {
        Self::new(name, ElementType::F64)
    }
    /// A variable of 32-bit integers.
    #[must_use]
    pub fn i32(name: impl Into<String>) -> Self {
        Self::new(name, ElementType::I32)
    }
    /// A variable of 64-bit integers.
    #[must_use]
    pub fn i64(name: impl Into<String>) -> Self {
        Self::new(name, ElementType::I64)
    }

    /// `count` values a point and step (the components of a vector, say); the dataset becomes (point, component, time).
    #[must_use]
    pub fn components(mut self, count: u32) -> Self {
        self.spec.components = Some(count);
        self
    }
    /// Units in UDUNITS notation, such as `V m-1`.
    #[must_use]
    pub fn units(mut self, units: impl Into<String>) -> Self {
        self.spec.units = units.into();
        self
    }
    /// A description for people; the variable's name where neither this nor a standard name is given.
    #[must_use]
    pub fn long_name(mut self, text: impl Into<String>) -> Self {
        self.spec.long_name = Some(text.into());
        self
    }
    /// A CF standard name.
    #[must_use]
    pub fn standard_name(mut self, name: impl Into<String>) -> Self {
        self.spec.standard_name = Some(name.into());
        self
    }
}

/// One variable's part of a row: for each point in registration order, its components.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// 64-bit floats.
    F64(&'a [f64]),
    /// 32-bit integers.
    I32(&'a [i32]),
    /// 64-bit integers.
    I64(&'a [i64]),
}

impl<'a> Values<'a> {
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

    /// The type of the values.
    #[must_use]
    pub fn element(&self) -> ElementType {
        match self {
            Self::F32(_) => ElementType::F32,
            Self::F64(_) => ElementType::F64,
            Self::I32(_) => ElementType::I32,
            Self::I64(_) => ElementType::I64,
        }
    }

    /// The values as the bytes that go to the file (little-endian hosts only, which the crate asserts when compiled).
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Self::F32(values) => bytemuck::cast_slice(values),
            Self::F64(values) => bytemuck::cast_slice(values),
            Self::I32(values) => bytemuck::cast_slice(values),
            Self::I64(values) => bytemuck::cast_slice(values),
        }
    }
}

macro_rules! values_from {
    ($($variant:ident $type:ty),*) => {$(
        impl<'a> From<&'a [$type]> for Values<'a> {
            fn from(values: &'a [$type]) -> Self {
                Self::$variant(values)
            }
        }
        impl<'a> From<&'a Vec<$type>> for Values<'a> {
            fn from(values: &'a Vec<$type>) -> Self {
                Self::$variant(values)
            }
        }
        impl<'a, const N: usize> From<&'a [$type; N]> for Values<'a> {
            fn from(values: &'a [$type; N]) -> Self {
                Self::$variant(values)
            }
        }
    )*};
}
values_from!(F32 f32, F64 f64, I32 i32, I64 i64);
/// A value as text, with as many digits as tell it from all others.
pub(crate) fn value_text(element: ElementType, bytes: &[u8]) -> String {
    let four = || bytes.try_into().expect("four bytes");
    let eight = || bytes.try_into().expect("eight bytes");
    match element {
        ElementType::F32 => format!("{:?}", f32::from_le_bytes(four())),
        ElementType::F64 => format!("{:?}", f64::from_le_bytes(eight())),
        ElementType::I32 => i32::from_le_bytes(four()).to_string(),
        ElementType::I64 => i64::from_le_bytes(eight()).to_string(),
    }
}
