//! The superblock, version 3: the three fields that we keep right ourselves.
//!
//! Layout (HDF5 File Format Specification 3.0, section II.A): signature 0..8, version 8, sizes 9..11, status flags 11, base
//! address 12..20, extension address 20..28, stored end of file 28..36, root object header 36..44, checksum 44..48
//! (Bob Jenkins' lookup3, `hashlittle`, over the 44 bytes before it).

/// Bytes of a version 3 superblock with 8-byte offsets.
pub(crate) const SUPERBLOCK_BYTES: usize = 48;

/// A superblock.
pub(crate) type Superblock = [u8; SUPERBLOCK_BYTES];

/// Clears the status flags, sets the stored end of the file and renews the checksum.
///
/// HDF5 sets flags while a file is open for writing so that others keep away; we keep the file fit for others at all times.
pub(crate) fn amend(superblock: &mut Superblock, stored_end: u64) {
    superblock[11] = 0;
    superblock[28..36].copy_from_slice(&stored_end.to_le_bytes());
    let checksum = lookup3(&superblock[..44]);
    superblock[44..48].copy_from_slice(&checksum.to_le_bytes());
}

/// The stored end of the file.
pub(crate) fn stored_end(superblock: &Superblock) -> u64 {
    superblock[28..36].iter().rev().fold(0, |value, &byte| (value << 8) | u64::from(byte))
}

/// Whether this is a version 3 superblock with 8-byte offsets and lengths.
pub(crate) fn is_expected(superblock: &Superblock) -> bool {
    superblock[..8] == *b"\x89HDF\r\n\x1a\n" && superblock[8..11] == [3, 8, 8]
}

/// Jenkins' lookup3 with initial value 0 (public domain, 2006), as HDF5 uses it for metadata.
pub(crate) fn lookup3(bytes: &[u8]) -> u32 {
    let word = |part: &[u8]| match *part {
        [b0, b1, b2, b3] => u32::from_le_bytes([b0, b1, b2, b3]),
        _ => part.iter().rev().fold(0_u32, |value, &byte| (value << 8) | u32::from(byte)),
    };
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let start = 0xdead_beef_u32.wrapping_add(length);
    let (mut a, mut b, mut c) = (start, start, start);
    let mut rest = bytes;
    while rest.len() > 12 {
        a = a.wrapping_add(word(&rest[0..4]));
        b = b.wrapping_add(word(&rest[4..8]));
        c = c.wrapping_add(word(&rest[8..12]));
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return c;
    }
    let part = |from: usize| word(&rest[from.min(rest.len())..(from + 4).min(rest.len())]);
    a = a.wrapping_add(part(0));
    b = b.wrapping_add(part(4));
    c = c.wrapping_add(part(8));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup3_gives_the_values_of_its_author() {
        // From the self-test of lookup3.c (driver5).
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
