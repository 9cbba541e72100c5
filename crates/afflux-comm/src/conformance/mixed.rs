//! Many calls of all kinds one after the other, with ranks that are late and lengths around the limits of adapters.
//!
//! A fast rank must not overtake a slow one, whatever calls stand between them: those of a root that does not wait for the
//! others, and those in which only the root waits.

use std::time::Duration;

use super::{assert_bytes, pattern};
use crate::{Communicator, Reduce};

/// Lengths on both sides of what the adapters send at once or hold in a slot, and of nothing.
const LENGTHS: [usize; 12] = [0, 1, 100, 2_040, 2_041, 4_096, 5_450, 8_170, 16_352, 16_360, 16_361, 40_000];

/// Numbers that all ranks draw alike (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((word ^ (word >> 31)) % limit as u64).expect("below a usize")
    }
}

/// Collective: twelve times `repetitions` calls (fewer with many ranks, where each is long) on the communicator and a duplicate of it, in turns.
pub(super) fn run(comm: &dyn Communicator, repetitions: usize) {
    let other = comm.duplicate().unwrap();
    let (mut shared, mut own) = (Draw(1), Draw(1_000 + comm.rank() as u64));
    let calls = if comm.size() > 8 { 4 * repetitions } else { 12 * repetitions };
    for call in 0..calls {
        // Most calls follow at once, so that a rank can be several calls ahead of one that sleeps.
        if own.below(8) == 0 {
            std::thread::sleep(Duration::from_micros(own.below(400) as u64));
        }
        let on: &dyn Communicator = if shared.below(3) == 0 { &*other } else { comm };
        one_call(on, call, &mut shared);
    }
}

fn one_call(comm: &dyn Communicator, call: usize, draw: &mut Draw) {
    let (rank, size) = (comm.rank(), comm.size());
    let kind = draw.below(9);
    let root = draw.below(size);
    // Few ranks are long, so that short and long ones meet in one call.
    let lengths: Vec<usize> = (0..size)
        .map(|_| if draw.below(3) == 0 { LENGTHS[draw.below(LENGTHS.len())] } else { draw.below(50) })
        .collect();
    let message = |source: usize, destination: usize| pattern(source, destination, call, lengths[destination]);
    let mine = pattern(rank, 0, call, lengths[rank]);
    let check_all = |all: &[Vec<u8>]| {
        assert_eq!(all.len(), size);
        for (source, bytes) in all.iter().enumerate() {
            assert_bytes(bytes, &pattern(source, 0, call, lengths[source]), "mixed calls: gather or all_gather");
        }
    };
    match kind {
        0 => comm.barrier().unwrap(),
        1 | 2 => {
            let expected = message(root, root);
            let mut bytes = if rank == root { expected.clone() } else { vec![3; call % 5] };
            comm.broadcast(root, &mut bytes).unwrap();
            assert_bytes(&bytes, &expected, "mixed calls: broadcast");
        }
        3 => {
            let mut elements: Vec<Reduce> =
                (0..lengths[0] / 16).map(|index| Reduce::sum((index + rank) as u64)).collect();
            comm.all_reduce(&mut elements).unwrap();
            for (index, element) in elements.iter().enumerate() {
                assert_eq!(element.value, (index * size + size * (size - 1) / 2) as u64, "mixed calls: all_reduce");
            }
        }
        4 => {
            let all = comm.gather(root, &mine).unwrap();
            if rank == root {
                check_all(&all);
            }
        }
        5 => {
            let given = if rank == root { size } else { 0 };
            let all: Vec<_> = (0..given).map(|destination| message(root, destination)).collect();
            let found = comm.scatter(root, &all).unwrap();
            assert_bytes(&found, &message(root, rank), "mixed calls: scatter");
        }
        6 => check_all(&comm.all_gather(&mine).unwrap()),
        7 => {
            let sum = comm.exclusive_sum((rank + call) as u64).unwrap();
            assert_eq!(sum, (0..rank).map(|below| (below + call) as u64).sum::<u64>(), "mixed calls: exclusive_sum");
        }
        _ => {
            // Messages of MPI between calls that are not.
            let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
            let mut buffer = vec![0; lengths[previous]];
            comm.exchange(&[(next, &[&mine])], &mut [(previous, &mut buffer)]).unwrap();
            assert_bytes(&buffer, &pattern(previous, 0, call, lengths[previous]), "mixed calls: exchange");
        }
    }
}
