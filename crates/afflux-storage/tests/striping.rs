//! Layouts as Lustre stores them, byte by byte, and whatever else may come in their place.

use afflux_storage::{LayoutError, Striping, StripingRequest, lov_request, parse_lov};
use proptest::prelude::*;

/// The bytes of a hexadecimal dump, white space aside.
fn hex(dump: &str) -> Vec<u8> {
    let digits: String = dump.split_whitespace().collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// An object on a target.
fn object(target: u32) -> Vec<u8> {
    let mut bytes = vec![0x11; 16];
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(target.to_le_bytes());
    bytes
}

/// A layout of version 1 or 3, objects on the targets named.
fn plain(version: u32, pattern: u32, stripe_bytes: u32, stripe_count: u16, targets: &[u32]) -> Vec<u8> {
    let mut bytes = (0x0BD0_0BD0_u32 | version << 16).to_le_bytes().to_vec();
    bytes.extend(pattern.to_le_bytes());
    bytes.extend([0x22; 16]);
    bytes.extend(stripe_bytes.to_le_bytes());
    bytes.extend(stripe_count.to_le_bytes());
    bytes.extend(0_u16.to_le_bytes());
    if version == 3 {
        bytes.extend(*b"flash\0\0\0\0\0\0\0\0\0\0\0");
    }
    targets.iter().for_each(|&target| bytes.extend(object(target)));
    bytes
}

/// A composite layout of (flags, start, end, component).
fn composite(components: &[(u32, u64, u64, Vec<u8>)]) -> Vec<u8> {
    let head = 32 + 48 * components.len();
    let total: usize = head + components.iter().map(|component| component.3.len()).sum::<usize>();
    let mut bytes = 0x0BD6_0BD0_u32.to_le_bytes().to_vec();
    bytes.extend(u32::try_from(total).unwrap().to_le_bytes());
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(0_u16.to_le_bytes());
    bytes.extend(u16::try_from(components.len()).unwrap().to_le_bytes());
    bytes.extend([0; 16]);
    let mut offset = head;
    for (number, (flags, start, end, component)) in components.iter().enumerate() {
        bytes.extend(u32::try_from(number + 1).unwrap().to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(start.to_le_bytes());
        bytes.extend(end.to_le_bytes());
        bytes.extend(u32::try_from(offset).unwrap().to_le_bytes());
        bytes.extend(u32::try_from(component.len()).unwrap().to_le_bytes());
        bytes.extend([0; 16]);
        offset += component.len();
    }
    components.iter().for_each(|component| bytes.extend(&component.3));
    bytes
}

fn striping(stripe_bytes: u64, stripe_count: u64, target_count: u64) -> Striping {
    Striping { stripe_bytes, stripe_count, target_count }
}

#[test]
fn version_1_as_it_lies_on_the_medium() {
    // Four stripes of 1 MiB on targets 3, 0, 1, 2: put down byte by byte, so that this test and the helpers above agree.
    let bytes = hex("d00bd10b 01000000 0100000000000000 0004000000000000 00001000 0400 0000
         1000000000000000 0000000000000000 00000000 03000000
         1100000000000000 0000000000000000 00000000 00000000
         1200000000000000 0000000000000000 00000000 01000000
         1300000000000000 0000000000000000 00000000 02000000");
    assert_eq!(bytes.len(), 32 + 4 * 24);
    assert_eq!(parse_lov(&bytes), Ok(striping(1 << 20, 4, 4)));
    assert_eq!(parse_lov(&plain(1, 1, 1 << 20, 4, &[3, 0, 1, 2])), Ok(striping(1 << 20, 4, 4)));
}

#[test]
fn version_3_has_a_pool_before_its_objects() {
    assert_eq!(parse_lov(&plain(3, 1, 4 << 20, 2, &[7, 9])), Ok(striping(4 << 20, 2, 2)));
}

#[test]
fn an_overstriped_file_has_more_stripes_than_targets() {
    assert_eq!(parse_lov(&plain(1, 0x201, 1 << 20, 6, &[0, 1, 0, 1, 0, 1])), Ok(striping(1 << 20, 6, 2)));
}

#[test]
fn a_layout_without_objects_yet_is_read_too() {
    assert_eq!(parse_lov(&plain(1, 1, 1 << 20, 8, &[])), Ok(striping(1 << 20, 8, 8)));
}

#[test]
fn a_progressive_file_counts_as_its_widest_component_that_holds_data() {
    let components = [
        (0x10, 0, 1 << 20, plain(1, 0x100, 1 << 20, 0, &[])),
        (0x10, 1 << 20, 1 << 30, plain(3, 1, 1 << 20, 4, &[0, 1, 2, 3])),
        (0, 1 << 30, u64::MAX, plain(3, 1, 4 << 20, 64, &[])),
    ];
    assert_eq!(parse_lov(&composite(&components)), Ok(striping(1 << 20, 4, 4)));
    // Nothing is written yet but what lies in the metadata server: the widest to come.
    let mut to_come = components.clone();
    to_come[1].0 = 0;
    assert_eq!(parse_lov(&composite(&to_come)), Ok(striping(4 << 20, 64, 64)));
    // A mirror that is out of date, and one of codes, do not count.
    for flags in [0x11, 0x90] {
        let mut stale = components.clone();
        stale[1].0 = flags;
        assert_eq!(parse_lov(&composite(&stale)), Ok(striping(4 << 20, 64, 64)));
    }
}

#[test]
fn what_is_not_understood_is_said() {
    assert_eq!(parse_lov(&[]), Err(LayoutError::Truncated(0)));
    assert_eq!(parse_lov(&hex("d00bd70b 00000000")), Err(LayoutError::Magic(0x0BD7_0BD0)));
    assert_eq!(parse_lov(&plain(1, 1, 0, 4, &[])), Err(LayoutError::Empty));
    assert_eq!(parse_lov(&plain(1, 1, 1 << 20, 0xFFFF, &[])), Err(LayoutError::Empty));
    assert_eq!(parse_lov(&plain(1, 0x8000_0001, 1 << 20, 1, &[0])), Err(LayoutError::Elsewhere(0x8000_0001)));
    assert_eq!(parse_lov(&composite(&[])), Err(LayoutError::Empty));
    let mut outside = composite(&[(0x10, 0, 9, plain(1, 1, 1 << 20, 1, &[0]))]);
    outside[32 + 24..32 + 28].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(parse_lov(&outside), Err(LayoutError::Truncated(_))));
}

#[test]
fn a_request_is_the_head_of_a_layout() {
    let request = StripingRequest {
        stripe_bytes: Some(2 << 20),
        stripe_count: Some(12),
        target_first: Some(5),
        stripes_per_target: Some(2),
    };
    let bytes = lov_request(&request).unwrap();
    assert_eq!(bytes, *hex("d00bd10b 01020000 00000000000000000000000000000000 00002000 0c00 0500"));
    let nothing = lov_request(&StripingRequest::default()).unwrap();
    assert_eq!(nothing, *hex("d00bd10b 00000000 00000000000000000000000000000000 00000000 0000 ffff"));
    let too_many = StripingRequest { stripe_count: Some(1 << 16), ..StripingRequest::default() };
    assert!(lov_request(&too_many).is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse_lov(&bytes);
    }

    /// Damage within a layout that begins as one.
    #[test]
    fn damaged_layouts_are_read_or_refused(
        at in 4_usize..400, value in any::<u8>(), cut in 0_usize..400, version in prop_oneof![Just(1_u32), Just(3)],
    ) {
        let component = || plain(version, 1, 1 << 20, 3, &[0, 1, 2]);
        for mut bytes in [component(), composite(&[(0x10, 0, 100, component()), (0, 100, u64::MAX, component())])] {
            let at = at % bytes.len();
            bytes[at] = value;
            bytes.truncate(bytes.len().min(cut));
            if let Ok(striping) = parse_lov(&bytes) {
                prop_assert!(striping.stripe_bytes > 0 && striping.stripe_count > 0 && striping.target_count > 0);
            }
        }
    }
}
