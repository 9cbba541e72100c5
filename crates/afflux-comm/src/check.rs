//! Checks of arguments that both adapters make alike.
//!
//! A rank out of range or named twice is a mistake of the programmer on this rank and asserts; what can only be seen by
//! comparing ranks returns [`CommError::Mismatch`].

use crate::{CommError, Reduce};

/// Asserts that `rank` is one.
pub(crate) fn rank_in_range(call: &str, rank: usize, size: usize) {
    assert!(rank < size, "{call}: rank {rank} of a communicator of {size}");
}

/// Asserts that `ranks` are ranks, each at most once.
pub(crate) fn destinations(call: &str, ranks: impl Iterator<Item = usize>, size: usize) {
    let mut ranks: Vec<_> = ranks.collect();
    ranks.sort_unstable();
    if let Some(&last) = ranks.last() {
        rank_in_range(call, last, size);
    }
    for pair in ranks.windows(2) {
        assert!(pair[0] != pair[1], "{call}: rank {} is named twice", pair[0]);
    }
}

/// A hash of the operations of `elements`, in order (FNV-1a).
pub(crate) fn operations_digest(elements: &[Reduce]) -> u64 {
    elements
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, element| (hash ^ (element.op as u64)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The part of an exchange that a rank has with itself.
pub(crate) fn exchange_with_self(
    rank: usize,
    send: Option<&[&[u8]]>,
    receive: Option<&mut [u8]>,
) -> Result<(), CommError> {
    let message = match (send, receive) {
        (None, None) => return Ok(()),
        (Some(slices), Some(buffer)) => match crate::bytes::concatenate(slices, buffer) {
            Ok(()) => return Ok(()),
            Err((found, expected)) => format!("rank {rank} sends {found} bytes to itself and expects {expected}"),
        },
        (Some(_), None) => format!("rank {rank} sends to itself but expects nothing from itself"),
        (None, Some(_)) => format!("rank {rank} expects a message of itself but sends none"),
    };
    Err(CommError::Mismatch { call: "exchange", message })
}
