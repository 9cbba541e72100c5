//! Extents on the wire: a few bytes a run, so that descriptions stay small beside the data they describe.
//!
//! ```text
//! description = varint(run count) run*
//! run         = varint(gap) varint(length * 2 + strided) [varint(stride - length) varint(count - 2)]
//! varint      = seven bits a byte, low bits first, top bit set on all but the last byte (LEB128)
//! ```
//! `gap` is the distance from the end of the previous run (from 0 for the first); the square bracket is there when
//! `strided` is 1, that is for `count >= 2`. A run takes about five bytes where offsets and lengths in full take sixteen.
//!
//! Decoding trusts nothing: every sum is checked, and no offset passes `i64::MAX`, the end of any file.

use crate::{Extents, Run};

/// Why bytes are not a description of extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end within a number or before the last run.
    #[error("the description ends too early, at byte {0}")]
    Truncated(usize),
    /// A number has more than 64 bits.
    #[error("the number before byte {0} is too large")]
    Number(usize),
    /// A run is empty, its pieces touch, or it ends past any file.
    #[error("run {0} is not a run of a file")]
    Run(u64),
    /// Bytes follow the last run.
    #[error("{0} bytes follow the last run")]
    Trailing(usize),
}

/// Encodes extents behind what is in `bytes`.
pub fn encode(extents: &Extents, bytes: &mut Vec<u8>) {
    put(bytes, extents.runs().len() as u64);
    let mut end = 0;
    for run in extents.runs() {
        put(bytes, run.offset - end);
        let strided = run.count > 1;
        put_wide(bytes, u128::from(run.length) * 2 + u128::from(strided));
        if strided {
            put(bytes, run.stride - run.length);
            put(bytes, run.count - 2);
        }
        end = run.end();
    }
}

/// Decodes what [`encode`] made.
///
/// # Errors
/// Any [`DecodeError`]; the bytes come from another rank.
pub fn decode(bytes: &[u8]) -> Result<Extents, DecodeError> {
    let mut reader = Reader { bytes, at: 0 };
    let run_count = reader.number()?;
    let mut extents = Extents::new();
    let mut end = 0_u64;
    for number in 0..run_count {
        let gap = reader.number()?;
        let tagged = reader.number()?;
        let (length, strided) = (tagged / 2, tagged % 2 == 1);
        let (stride, count) = if strided {
            let (space, more) = (reader.number()?, reader.number()?);
            let stride = length.checked_add(space).filter(|&stride| stride > length);
            (stride.ok_or(DecodeError::Run(number))?, more.checked_add(2).ok_or(DecodeError::Run(number))?)
        } else {
            (length, 1)
        };
        let run = checked_run(end, gap, length, stride, count).ok_or(DecodeError::Run(number))?;
        end = run.end();
        extents.push_run(run);
    }
    match bytes.len() - reader.at {
        0 => Ok(extents),
        rest => Err(DecodeError::Trailing(rest)),
    }
}

/// The run, if it has bytes and ends within the largest file there can be.
fn checked_run(end: u64, gap: u64, length: u64, stride: u64, count: u64) -> Option<Run> {
    let offset = end.checked_add(gap)?;
    let last = stride.checked_mul(count - 1)?.checked_add(offset)?;
    let run_end = last.checked_add(length)?;
    (length > 0 && i64::try_from(run_end).is_ok()).then_some(Run { offset, length, stride, count })
}

fn put(bytes: &mut Vec<u8>, value: u64) {
    put_wide(bytes, u128::from(value));
}

fn put_wide(bytes: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7F).expect("seven bits") | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).expect("seven bits"));
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn number(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(DecodeError::Truncated(self.at))?;
            self.at += 1;
            let bits = u64::from(byte & 0x7F);
            if shift > 63 || (bits << shift) >> shift != bits {
                return Err(DecodeError::Number(self.at));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }
}
