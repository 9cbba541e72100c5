//! The directory against plain maps from ids to ranks.

use super::*;
use crate::points::id_key;
use proptest::prelude::*;

/// A directory over `ids` (ascending) in at most `blocks` blocks.
fn directory(ids: &[i64], blocks: u64) -> (DirectoryShape, Vec<Block>) {
    let mut builder = DirectoryShape::builder_of(ids.len() as u64, blocks);
    let keys: Numbers = ids.iter().map(|&id| id_key(id)).collect();
    keys.all().for_each(|stretch| builder.push(stretch));
    builder.name(0, "first");
    builder.finish()
}

/// What each rank asks of each block, by block: as over messages.
fn requests(
    shape: &DirectoryShape,
    blocks: usize,
    ranks: &[(Vec<u64>, Vec<u64>, Vec<i64>)],
) -> Vec<Vec<(usize, Request)>> {
    let mut by_block: Vec<Vec<(usize, Request)>> = vec![Vec::new(); blocks];
    for (rank, (held, fills, wanted)) in ranks.iter().enumerate() {
        let mut request: BTreeMap<usize, Request> = BTreeMap::new();
        let numbers = |list: &[u64]| list.iter().copied().collect::<Numbers>();
        for (block, part) in shape.cut_positions(&numbers(held)) {
            request.entry(block).or_default().held = part;
        }
        for (block, part) in shape.cut_positions(&numbers(fills)) {
            request.entry(block).or_default().fills = part;
        }
        for (block, part) in shape.cut_keys(&wanted.iter().map(|&id| id_key(id)).collect()) {
            request.entry(block).or_default().wanted = part;
        }
        for (block, request) in request {
            let mut message = Encoder::default();
            request.encode(&mut message);
            assert_eq!(Request::decode(&mut Decoder::new(&message.finish())), Ok(request.clone()));
            by_block[block].push((rank, request));
        }
    }
    by_block
}

fn expand(counts: &[(u64, u64)]) -> Vec<u64> {
    counts.iter().flat_map(|&(rank, count)| (0..count).map(move |_| rank)).collect()
}

/// Ids, and for each the rank that has it (3 ranks; the third value fills on rank 0) and the one that wants it.
fn maps() -> impl Strategy<Value = (Vec<i64>, Vec<usize>, Vec<usize>, u64)> {
    (1_usize..60, 1_u64..5, any::<u64>()).prop_flat_map(|(count, blocks, seed)| {
        let ids: Vec<i64> = (0_i64..).map(|k| 3 * k - 40 + (seed % 3).cast_signed() * k).take(count).collect();
        let old = proptest::collection::vec(0_usize..4, count);
        let new = proptest::collection::vec(0_usize..3, count);
        (Just(ids), old, new, Just(blocks))
    })
}

proptest! {
    #[test]
    fn answers_are_the_difference_of_two_maps((ids, old, new, blocks) in maps()) {
        let (shape, blocks) = directory(&ids, blocks);
        // Owner 3 stands for: nobody has it, rank 0 fills it; one in two of these is wanted by somebody now.
        let is_fill = |position: usize| old[position] == 3;
        let is_wanted = |position: usize| !is_fill(position) || position.is_multiple_of(2);
        let kept = |keep: &dyn Fn(usize) -> bool| (0..ids.len()).filter(|&p| keep(p)).collect::<Vec<_>>();
        let positions = |keep: &dyn Fn(usize) -> bool| kept(keep).into_iter().map(|p| p as u64).collect::<Vec<_>>();
        let ranks: Vec<_> = (0..3)
            .map(|rank| {
                let wanted = kept(&|p| is_wanted(p) && new[p] == rank).iter().map(|&p| ids[p]).collect();
                let fills = if rank == 0 { positions(&is_fill) } else { Vec::new() };
                (positions(&|p| old[p] == rank), fills, wanted)
            })
            .collect();
        let mut gets: Vec<(Vec<u64>, Vec<u64>, Vec<u64>)> = vec![Default::default(); 3];
        for (block, requests) in blocks.iter().zip(requests(&shape, blocks.len(), &ranks)) {
            let (answers, wrongs) = block.match_requests(&requests).unwrap();
            prop_assert_eq!(wrongs.lost.count + wrongs.doubled.count + wrongs.unknown.count, 0);
            for ((rank, _), answer) in requests.iter().zip(answers) {
                let mut message = Encoder::default();
                answer.encode(&mut message);
                let bytes = message.finish();
                let mut decoder = Decoder::new(&bytes);
                let decoded = Answer::decode(&mut decoder);
                prop_assert_eq!(decoded.as_ref(), Ok(&answer));
                prop_assert!(answer.not_owned.is_empty());
                gets[*rank].0.extend(answer.positions.iter());
                gets[*rank].1.extend(expand(&answer.from));
                gets[*rank].2.extend(expand(&answer.to));
            }
        }
        for (rank, (got, from, to)) in gets.into_iter().enumerate() {
            let gained = |p: usize| is_wanted(p) && new[p] == rank;
            let wanted = positions(&gained);
            let sources: Vec<u64> = kept(&gained).iter().map(|&p| old[p] as u64 % 3).collect();
            let had = kept(&|p| old[p] == rank || (is_fill(p) && rank == 0));
            let receivers: Vec<u64> =
                had.iter().map(|&p| if is_wanted(p) { new[p] as u64 } else { STAYS }).collect();
            prop_assert_eq!((got, from, to), (wanted, sources, receivers));
        }
    }
}

#[test]
fn lost_doubled_and_unknown_points_are_named() {
    let (shape, blocks) = directory(&[10, 11, 12, 20, 21], 2);
    assert_eq!(blocks.len(), 2);
    let ranks = [(vec![0, 1, 2], vec![], vec![9, 11, 12, 13]), (vec![3, 4], vec![], vec![12, 20, 22])];
    let mut found = Vec::new();
    let mut kept = Vec::new();
    for (block, requests) in blocks.iter().zip(requests(&shape, 2, &ranks)) {
        let (answers, wrongs) = block.match_requests(&requests).unwrap();
        found.push([wrongs.lost, wrongs.doubled, wrongs.unknown].map(|found| found.names()));
        kept.push(answers.iter().map(|answer| answer.not_owned.iter().collect::<Vec<_>>()).collect::<Vec<_>>());
    }
    assert_eq!(found[0], ["first", "12 (ranks 0 and 1)", "9 (rank 0), 13 (rank 0)"]);
    assert_eq!(found[1], ["21", "", "22 (rank 1)"]);
    assert_eq!(kept[0], [vec![], vec![0]]);
}

#[test]
fn a_position_without_an_owner_is_damage() {
    let (shape, blocks) = directory(&[1, 2, 3], 1);
    for held in [vec![0, 1], vec![1, 2], vec![0, 2]] {
        let ranks = [(held, vec![], vec![1, 2, 3])];
        assert!(blocks[0].match_requests(&requests(&shape, 1, &ranks)[0]).is_err());
    }
    let ranks = [(vec![0, 1, 2], vec![], vec![1, 2, 3]), (vec![2], vec![], vec![])];
    assert!(blocks[0].match_requests(&requests(&shape, 1, &ranks)[0]).is_err(), "two have one position");
}
