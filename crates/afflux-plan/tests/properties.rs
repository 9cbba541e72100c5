//! Properties that every plan has, for made-up accesses.

use std::num::NonZeroU64;

use afflux_plan::{
    AggregatorIndex, ByteRange, Coverage, Extents, FileDomains, Partition, PayloadIndex, Rank, Run, cover, plan_sends,
    wire,
};
use proptest::prelude::*;

/// Extents from gaps and lengths, with stretches of regular pieces.
fn extents() -> impl Strategy<Value = Extents> {
    prop::collection::vec((0_u64..50, 1_u64..40, 0_u64..30, 1_u64..6), 0..12).prop_map(|parts| {
        let mut extents = Extents::new();
        let mut end = 0;
        for (gap, length, space, count) in parts {
            for k in 0..count {
                let offset = end + if k == 0 { gap } else { space };
                extents.push(offset, length);
                end = offset + length;
            }
        }
        extents
    })
}

fn partition() -> impl Strategy<Value = Partition> {
    prop_oneof![
        Just(Partition::Even),
        (1_u64..64).prop_map(|unit| Partition::Aligned { unit_bytes: NonZeroU64::new(unit).unwrap() }),
        (1_u64..64).prop_map(|unit| Partition::StaticCyclic { stripe_bytes: NonZeroU64::new(unit).unwrap() }),
        (1_u64..64, 1_u64..12).prop_map(|(unit, count)| Partition::GroupCyclic {
            stripe_bytes: NonZeroU64::new(unit).unwrap(),
            stripe_count: NonZeroU64::new(count).unwrap(),
        }),
    ]
}

fn bytes_of(extents: &Extents) -> Vec<u64> {
    extents.pieces().flat_map(|(offset, length)| offset..offset + length).collect()
}

fn check_invariants(extents: &Extents) -> Result<(), TestCaseError> {
    let mut end = 0;
    for run in extents.runs() {
        prop_assert!(run.length > 0 && run.count > 0);
        prop_assert!((run.count == 1) == (run.stride == run.length) && run.stride >= run.length);
        prop_assert!(run.offset >= end);
        end = run.end();
    }
    prop_assert_eq!(extents.bytes(), extents.runs().iter().map(Run::bytes).sum::<u64>());
    // Made-up bytes may describe more pieces than anybody can count.
    if extents.piece_count() < 1 << 20 {
        prop_assert_eq!(extents.piece_count(), extents.pieces().count() as u64);
    }
    Ok(())
}

/// The union, its lowest overlap and the ranks named in it, against the bytes one by one.
fn check_coverage(requests: &[(Rank, &Extents)], coverage: &Coverage) -> Result<(), TestCaseError> {
    check_invariants(&coverage.covered)?;
    let mut all: Vec<u64> = requests.iter().flat_map(|(_, extents)| bytes_of(extents)).collect();
    all.sort_unstable();
    let twice = all.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    all.dedup();
    prop_assert_eq!(bytes_of(&coverage.covered), all);
    prop_assert_eq!(coverage.overlap.map(|overlap| overlap.offset), twice);
    if let Some(overlap) = coverage.overlap {
        for rank in [overlap.first, overlap.second] {
            prop_assert!(bytes_of(requests[rank.0].1).contains(&overlap.offset), "{:?} does not claim it", rank);
        }
        prop_assert_ne!(overlap.first, overlap.second);
    }
    let pieces: Vec<(u64, u64)> = coverage.covered.pieces().collect();
    prop_assert!(pieces.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0), "touching pieces are one");
    Ok(())
}

proptest! {
    #[test]
    fn a_clip_holds_exactly_the_bytes_in_the_range(extents in extents(), a in 0_u64..900, b in 0_u64..900) {
        let range = ByteRange::new(a.min(b), a.max(b));
        let part = extents.clip(range);
        check_invariants(&part)?;
        let expected: Vec<u64> = bytes_of(&extents).into_iter().filter(|&at| range.contains(at)).collect();
        prop_assert_eq!(bytes_of(&part), expected);
        prop_assert!(part.runs().len() <= 3 * extents.runs().len());
    }

    #[test]
    fn pushing_runs_equals_pushing_their_pieces(extents in extents(), moved in 0_u64..60) {
        let mut by_run = Extents::new();
        let mut by_piece = Extents::new();
        by_run.push(0, moved);
        by_piece.push(0, moved);
        for run in extents.runs() {
            by_run.push_run(Run { offset: run.offset + moved, ..*run });
        }
        for (offset, length) in extents.pieces() {
            by_piece.push(offset + moved, length);
        }
        check_invariants(&by_run)?;
        prop_assert_eq!(bytes_of(&by_run), bytes_of(&by_piece));
    }

    #[test]
    fn the_index_finds_every_offset(extents in extents(), offset in 0_u64..900) {
        let expected = bytes_of(&extents).iter().filter(|&&at| at < offset).count() as u64;
        prop_assert_eq!(PayloadIndex::new(&extents).bytes_before(offset), expected);
    }

    #[test]
    fn the_runs_of_a_payload_range_hold_its_bytes(extents in extents(), a in 0_u64..900, b in 0_u64..900) {
        let limit = |at: u64| at.min(extents.bytes());
        let range = ByteRange::new(limit(a.min(b)), limit(a.max(b)));
        let mut found = Vec::new();
        PayloadIndex::new(&extents).runs_of(range, |run| {
            found.extend((0..run.count).flat_map(|k| run.offset + k * run.stride..run.offset + k * run.stride + run.length));
        });
        let all = bytes_of(&extents);
        prop_assert_eq!(&found[..], &all[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]);
    }

    #[test]
    fn domains_and_windows_partition_the_range(
        start in 0_u64..10_000, bytes in 0_u64..2_000, count in 1_usize..40, partition in partition(), round in 1_u64..700,
    ) {
        let range = ByteRange::new(start, start + bytes);
        let domains = FileDomains::new(range, count, partition, NonZeroU64::new(round).unwrap());
        prop_assert!(domains.window_bytes_max() <= round.max(1));
        let mut owners = vec![None; usize::try_from(bytes).unwrap()];
        for aggregator in (0..count).map(AggregatorIndex) {
            let hull = domains.hull(aggregator);
            let (mut low, mut high, mut sum) = (u64::MAX, 0, 0);
            for number in 0..domains.round_count() {
                let mut buffer_end = 0;
                for block in domains.blocks(aggregator, number) {
                    prop_assert!(!block.range.is_empty() && range.start <= block.range.start && block.range.end <= range.end);
                    prop_assert!(block.at >= buffer_end, "blocks lie one behind another");
                    buffer_end = block.at + block.range.bytes();
                    prop_assert!(buffer_end <= domains.window_bytes_max());
                    (low, high, sum) = (low.min(block.range.start), high.max(block.range.end), sum + block.range.bytes());
                    for offset in block.range.start..block.range.end {
                        let slot = &mut owners[usize::try_from(offset - start).unwrap()];
                        prop_assert_eq!(slot.replace(aggregator), None, "byte {} has two owners", offset);
                        prop_assert_eq!(domains.owner(offset), aggregator);
                    }
                }
            }
            prop_assert_eq!(domains.domain_bytes(aggregator), sum);
            if sum > 0 {
                prop_assert!(hull.start <= low && high <= hull.end);
            }
            prop_assert_eq!(domains.blocks(aggregator, domains.round_count()).count(), 0);
            match partition {
                Partition::Aligned { unit_bytes } => {
                    prop_assert!(hull.end.is_multiple_of(unit_bytes.get()) || hull.end == range.end || hull.end == range.start);
                    prop_assert_eq!(hull.bytes(), sum);
                }
                Partition::Even => {
                    let even = bytes / count as u64;
                    prop_assert!(sum == even || sum == even + 1);
                }
                _ => {}
            }
        }
        prop_assert!(owners.iter().all(Option::is_some), "every byte has an owner");
    }

    #[test]
    fn the_owners_of_a_range_are_found_without_looking_at_each_byte(
        start in 0_u64..3_000, bytes in 1_u64..3_000, count in 1_usize..20, partition in partition(), a in 0_u64..3_000, b in 0_u64..3_000,
    ) {
        let range = ByteRange::new(start, start + bytes);
        let domains = FileDomains::new(range, count, partition, NonZeroU64::MIN);
        let inner = ByteRange::new(start + a.min(b) % bytes, start + (a.max(b) % bytes).max(a.min(b) % bytes));
        let mut found = vec![false; count];
        domains.owners_in(inner).for_each(|owner| found[owner.0] = true);
        for offset in inner.start..inner.end {
            prop_assert!(found[domains.owner(offset).0], "the owner of {} is missing", offset);
        }
    }

    #[test]
    fn every_byte_is_described_to_its_owner_and_both_sides_find_it(
        extents in extents(), count in 1_usize..9, partition in partition(), round in 1_u64..200,
    ) {
        let (start, end) = extents.span().unwrap_or((0, 0));
        let domains = FileDomains::new(ByteRange::new(start, end), count, partition, NonZeroU64::new(round).unwrap());
        let own = PayloadIndex::new(&extents);
        let mut all = Vec::new();
        for send in plan_sends(&extents, &domains) {
            check_invariants(&send.extents)?;
            prop_assert!(!send.extents.is_empty());
            let described = PayloadIndex::new(&send.extents);
            for number in 0..domains.round_count() {
                for block in domains.blocks(send.aggregator, number) {
                    prop_assert_eq!(own.bytes_in(block.range), described.bytes_in(block.range));
                    prop_assert_eq!(extents.clip(block.range), send.extents.clip(block.range));
                    all.extend(bytes_of(&send.extents.clip(block.range)));
                }
            }
        }
        all.sort_unstable();
        prop_assert_eq!(all, bytes_of(&extents));
    }

    #[test]
    fn the_runs_in_a_range_are_the_clip_with_its_place_in_the_payload(extents in extents(), a in 0_u64..900, b in 0_u64..900) {
        let range = ByteRange::new(a.min(b), a.max(b));
        let index = PayloadIndex::new(&extents);
        let mut payload = index.payload_in(range).start;
        let mut part = Extents::new();
        index.runs_in(range, |at, run| {
            assert_eq!(at, payload);
            payload += run.bytes();
            part.push_run(run);
        });
        prop_assert_eq!(payload, index.payload_in(range).end);
        prop_assert_eq!(part, extents.clip(range));
    }

    #[test]
    fn coverage_is_the_union_and_names_the_first_overlap(requests in prop::collection::vec(extents(), 0..5)) {
        let named: Vec<(Rank, &Extents)> = requests.iter().enumerate().map(|(rank, extents)| (Rank(rank), extents)).collect();
        check_coverage(&named, &cover(&named))?;
    }

    #[test]
    fn regular_and_irregular_requests_are_merged_alike(
        stride in 2_u64..40, runs in prop::collection::vec((0_u64..80, 1_u64..40, 1_u64..20, 0_usize..5), 1..9),
    ) {
        // Runs of one stride at any phase, with any length and number of pieces, so that they touch, cross and overlap.
        let mut requests = vec![Extents::new(); 5];
        for (offset, length, count, rank) in runs {
            let length = length.min(stride - 1);
            let offset = offset.max(requests[rank].span().map_or(0, |(_, end)| end));
            let stride = if count == 1 { length } else { stride };
            requests[rank].push_run(Run { offset, length, stride, count });
        }
        let named: Vec<(Rank, &Extents)> = requests.iter().enumerate().map(|(rank, extents)| (Rank(rank), extents)).collect();
        check_coverage(&named, &cover(&named))?;
    }

    #[test]
    fn extents_survive_the_wire(extents in extents()) {
        let mut bytes = Vec::new();
        wire::encode(&extents, &mut bytes);
        let back = wire::decode(&bytes).unwrap();
        check_invariants(&back)?;
        prop_assert_eq!(bytes_of(&back), bytes_of(&extents));
        for cut in 0..bytes.len() {
            prop_assert!(wire::decode(&bytes[..cut]).is_err(), "a truncated description is refused");
        }
        bytes.push(0);
        prop_assert_eq!(wire::decode(&bytes), Err(wire::DecodeError::Trailing(1)));
    }

    #[test]
    fn arbitrary_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(extents) = wire::decode(&bytes) {
            check_invariants(&extents)?;
        }
    }

    #[test]
    fn large_numbers_decode_or_are_refused(numbers in prop::collection::vec(any::<u64>(), 0..12)) {
        let mut bytes = vec![2];
        for mut number in numbers {
            while number >= 0x80 {
                bytes.push(u8::try_from(number & 0x7F).unwrap() | 0x80);
                number >>= 7;
            }
            bytes.push(u8::try_from(number).unwrap());
        }
        if let Ok(extents) = wire::decode(&bytes) {
            check_invariants(&extents)?;
        }
    }
}

#[test]
fn the_ends_of_the_offset_space_are_handled() {
    let mut extents = Extents::new();
    extents.push(0, 1);
    extents.push(i64::MAX as u64 - 1, 1);
    let mut bytes = Vec::new();
    wire::encode(&extents, &mut bytes);
    assert_eq!(wire::decode(&bytes), Ok(extents.clone()));
    let range = ByteRange::new(0, i64::MAX as u64);
    let domains = FileDomains::new(range, 3, Partition::Even, NonZeroU64::new(1 << 62).unwrap());
    let sends = plan_sends(&extents, &domains);
    assert_eq!(sends.iter().map(|send| send.aggregator.0).collect::<Vec<_>>(), [0, 2]);
    extents.push(i64::MAX as u64, 1);
    bytes.clear();
    wire::encode(&extents, &mut bytes);
    assert!(wire::decode(&bytes).is_err(), "no file has a byte at 2^63 - 1");
}

#[test]
fn a_regular_access_of_a_million_pieces_is_a_few_bytes() {
    let mut extents = Extents::new();
    extents.push_run(Run { offset: 16, length: 8, stride: 32, count: 1 << 20 });
    let range = ByteRange::new(0, 1 << 26);
    let domains = FileDomains::new(range, 4, Partition::Even, NonZeroU64::new(1 << 20).unwrap());
    for send in plan_sends(&extents, &domains) {
        assert!(send.extents.runs().len() <= 3);
        let mut bytes = Vec::new();
        wire::encode(&send.extents, &mut bytes);
        assert!(bytes.len() <= 40, "{} bytes describe {} pieces", bytes.len(), send.extents.piece_count());
    }
}

/// CASES E13: work, not time, is counted.
#[test]
fn work_is_linear_in_the_pieces() {
    for pieces in [1_000_u64, 180_000] {
        let requests: Vec<Extents> = (0..4_u64)
            .map(|rank| {
                let mut extents = Extents::new();
                for piece in 0..pieces {
                    // Lengths vary, so that nothing compresses.
                    extents.push((piece * 4 + rank) * 64, 1 + (piece + rank) % 63);
                }
                extents
            })
            .collect();
        let named: Vec<(Rank, &Extents)> =
            requests.iter().enumerate().map(|(rank, extents)| (Rank(rank), extents)).collect();
        assert_eq!(cover(&named).step_count, 4 * pieces);
        let mut bytes = Vec::new();
        wire::encode(&requests[0], &mut bytes);
        assert!(bytes.len() as u64 <= 6 * pieces, "{} bytes for {pieces} pieces", bytes.len());
    }
}
