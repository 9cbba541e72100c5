//! Workloads that every path of the engine must carry out alike; shared by the tests and the MPI example.
#![allow(dead_code, reason = "each test program uses its part")]

use afflux_plan::{Extents, Run};

/// What each rank accesses; the ranks' bytes do not overlap.
#[derive(Debug, Clone)]
pub struct Workload {
    pub name: String,
    /// Indexed by rank.
    pub ranks: Vec<Extents>,
}

/// What lies in the file before a test: bytes that no test writes.
pub const SENTINEL: u8 = 0xEE;

/// The value written at an offset: never the sentinel, different for neighbours and for far offsets.
pub fn value(offset: u64) -> u8 {
    u8::try_from(offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57).unwrap()
}

/// A rank's payload.
pub fn payload(extents: &Extents) -> Vec<u8> {
    extents.pieces().flat_map(|(offset, length)| offset..offset + length).map(value).collect()
}

/// The payload in slices whose borders have nothing to do with the pieces.
pub fn sliced(payload: &[u8], slice_bytes: usize) -> Vec<&[u8]> {
    if slice_bytes == 0 { vec![payload] } else { payload.chunks(slice_bytes).collect() }
}

/// One past the last byte of all ranks.
pub fn end(workload: &Workload) -> u64 {
    workload.ranks.iter().filter_map(|extents| extents.span()).map(|(_, end)| end).max().unwrap_or(0)
}

/// What the file must hold afterwards, if it held `length` sentinels before.
pub fn expected(workload: &Workload, length: usize) -> Vec<u8> {
    let mut bytes = vec![SENTINEL; length];
    for (offset, length) in workload.ranks.iter().flat_map(|extents| extents.pieces().collect::<Vec<_>>()) {
        for at in offset..offset + length {
            bytes[usize::try_from(at).unwrap()] = value(at);
        }
    }
    bytes
}

/// Deals pieces `(gap, length, owner)`, one after another, out to the ranks.
pub fn dealt(name: &str, ranks: usize, pieces: impl IntoIterator<Item = (u64, u64, usize)>) -> Workload {
    let mut all = vec![Extents::new(); ranks];
    let mut end = 0;
    for (gap, length, owner) in pieces {
        all[owner % ranks].push(end + gap, length);
        end += gap + length;
    }
    Workload { name: name.to_owned(), ranks: all }
}

fn number(seed: u64, below: u64) -> u64 {
    (seed.wrapping_mul(0xD134_2543_DE82_EF95) >> 33) % below
}

/// The fixed workloads, for any number of ranks.
pub fn corpus(ranks: usize) -> Vec<Workload> {
    let count = ranks as u64;
    let rank_of = |k: u64| usize::try_from(k % count).unwrap();
    let mut all = vec![
        dealt("nothing at all", ranks, []),
        dealt("one block a rank", ranks, (0..count).map(|k| (0, 5000, rank_of(k)))),
        dealt("blocks in falling order", ranks, (0..count).map(|k| (3, 700, rank_of(count - 1 - k)))),
        dealt("round robin, 8 bytes, dense", ranks, (0..900).map(|k| (0, 8, rank_of(k)))),
        dealt("round robin, 20 bytes, holes of 12", ranks, (0..400).map(|k| (12, 20, rank_of(k)))),
        dealt("E11: 1 to 4,097 bytes across borders", ranks, (0..40).map(|k| (0, 1 + number(k, 4097), rank_of(k * 7)))),
        dealt(
            "E11: two ranks in one block",
            ranks,
            [(4000, 96, 0), (0, 1, ranks - 1), (0, 4095, 0), (0, 2, ranks - 1)],
        ),
        dealt("everything on the last rank", ranks, (0..50).map(|k| (k % 3, 90, ranks - 1))),
    ];
    for empty in 0..ranks {
        let owner = move |k: u64| {
            let owner = usize::try_from(k).unwrap() % ranks;
            if owner == empty { (owner + 1) % ranks } else { owner }
        };
        all.push(dealt(&format!("E5: rank {empty} is empty"), ranks, (0..120).map(|k| (k % 2, 30, owner(k)))));
    }
    // E4: uneven shares of one array.
    all.push(dealt("E4: uneven blocks", ranks, (0..count).map(|k| (0, 8 * (276 + number(k + 5, 415)), rank_of(k)))));
    let mut strided = Workload { name: "strided runs side by side".to_owned(), ranks: vec![Extents::new(); ranks] };
    let behind = 100_000.max(150 * (13 * count + 4) + 100);
    for (rank, extents) in strided.ranks.iter_mut().enumerate() {
        extents.push_run(Run { offset: 5 + 13 * rank as u64, length: 13, stride: 13 * count + 4, count: 150 });
        extents.push(behind + 64 * rank as u64, 64);
    }
    all.push(strided);
    all
}
