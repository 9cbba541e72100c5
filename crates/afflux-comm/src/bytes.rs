//! Small work on byte slices that both adapters share.

/// Copies the concatenation of `slices` into `buffer`. When the lengths differ nothing is copied and both are returned,
/// that of the slices first.
pub(crate) fn concatenate(slices: &[&[u8]], buffer: &mut [u8]) -> Result<(), (usize, usize)> {
    let length = total_bytes(slices);
    if length != buffer.len() {
        return Err((length, buffer.len()));
    }
    let mut rest = buffer;
    for slice in slices {
        let (head, tail) = rest.split_at_mut(slice.len());
        head.copy_from_slice(slice);
        rest = tail;
    }
    Ok(())
}

/// The sum of the lengths.
pub(crate) fn total_bytes(slices: &[&[u8]]) -> usize {
    slices.iter().map(|slice| slice.len()).sum()
}
