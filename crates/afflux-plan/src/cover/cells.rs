//! Merges runs of one stride by arithmetic.
//!
//! The file from the first byte of the cluster on is cut into *cells* as long as the stride. A run covers the same bytes of
//! each of its cells, so what a stretch of cells holds is worked out once, in one cell, for all of them: sort the entries
//! of the cell, join those that touch, and write the result as runs. A piece that crosses the border of two cells is an
//! entry in each. Single pieces (what a border cut off) are runs over one cell.
//!
//! Where ranks deal out regions round robin, all their runs cover the same cells but for the first and the last, so a
//! cluster takes a few times as many steps as it has runs.

use super::joined::Joined;
use super::{Overlap, Owned};
use crate::{Rank, Run};

/// Bytes `[start, end)` of every cell in `[cell, cell_end)`.
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u64,
    end: u64,
    cell: u64,
    cell_end: u64,
    rank: Rank,
}

/// Merges `runs` (ascending by offset, at least two) and returns true; or does nothing and returns false where their strides
/// differ, or where merging piece by piece is less work.
pub(super) fn merge(runs: &[Owned], union: &mut Joined) -> bool {
    let mut strides = runs.iter().filter(|(run, _)| run.count > 1).map(|(run, _)| run.stride);
    let Some(stride) = strides.next() else { return false };
    if strides.any(|other| other != stride) {
        return false;
    }
    let base = runs[0].0.offset;
    let mut entries = Vec::with_capacity(runs.len() + 8);
    for (run, rank) in runs {
        add_entries(*run, *rank, base, stride, &mut entries);
    }
    let Some(stretches) = stretches(&entries, runs) else { return false };
    let mut active: Vec<Entry> = Vec::new();
    let mut next = 0;
    entries.sort_unstable_by_key(|entry| (entry.cell, entry.start, entry.rank));
    for [cell, cell_end] in stretches {
        active.retain(|entry| entry.cell_end > cell);
        let arrived = entries[next..].partition_point(|entry| entry.cell <= cell);
        active.extend_from_slice(&entries[next..next + arrived]);
        next += arrived;
        active.sort_by_key(|entry| (entry.start, entry.rank));
        union.count(active.len() as u64);
        add_cells(&active, base + cell * stride, stride, cell_end - cell, union);
    }
    true
}

/// A run as entries: one, or two where its pieces cross the border of cells; a long single piece up to three.
fn add_entries(run: Run, rank: Rank, base: u64, stride: u64, entries: &mut Vec<Entry>) {
    let (cell, start) = ((run.offset - base) / stride, (run.offset - base) % stride);
    let mut add = |start, end, cell, count| {
        if start < end && count > 0 {
            entries.push(Entry { start, end, cell, cell_end: cell + count, rank });
        }
    };
    let head = run.length.min(stride - start);
    add(start, start + head, cell, run.count);
    let (whole, tail) = ((run.length - head) / stride, (run.length - head) % stride);
    // Only a single piece is longer than the stride, so these are either cells of one piece or the tails of all.
    add(0, stride, cell + 1, whole);
    add(0, tail, cell + 1 + whole, run.count);
}

/// The stretches of cells between the first and the last of any entry; `None` where going through them is more work than
/// going through all pieces.
fn stretches(entries: &[Entry], runs: &[Owned]) -> Option<Vec<[u64; 2]>> {
    let mut borders: Vec<u64> = entries.iter().flat_map(|entry| [entry.cell, entry.cell_end]).collect();
    borders.sort_unstable();
    borders.dedup();
    let pieces: u64 = runs.iter().map(|(run, _)| run.count).sum();
    let mut work = 0_u64;
    for entry in entries {
        let from = borders.partition_point(|&border| border < entry.cell);
        let to = borders.partition_point(|&border| border < entry.cell_end);
        work += (to - from) as u64;
    }
    // A step here sorts and compares as a step there, so equal work is better done by arithmetic: its result is shorter.
    (work <= pieces.saturating_mul(2)).then(|| borders.windows(2).map(|pair| [pair[0], pair[1]]).collect())
}

/// Adds what `active` (ascending by start) covers in each of `count` cells of `stride` bytes from `origin` on.
fn add_cells(active: &[Entry], origin: u64, stride: u64, count: u64, union: &mut Joined) {
    let mut parts: Vec<Entry> = Vec::with_capacity(active.len());
    for entry in active {
        match parts.last_mut() {
            Some(last) if entry.start <= last.end => {
                if entry.start < last.end {
                    let offset = origin + entry.start;
                    union.note(Overlap { offset, first: last.rank, second: entry.rank });
                }
                if entry.end > last.end {
                    (last.end, last.rank) = (entry.end, entry.rank);
                }
            }
            _ => parts.push(*entry),
        }
    }
    match parts.as_slice() {
        [] => {}
        [whole] if whole.end - whole.start == stride => union.add(origin, stride * count, whole.rank),
        // The last part of a cell and the first of the next are one: cells that begin elsewhere show it.
        [first, middle @ .., last] if count > 1 && first.start == 0 && last.end == stride => {
            union.add(origin, first.end, first.rank);
            let mut turned = middle.to_vec();
            turned.push(Entry { end: stride + first.end, ..*last });
            add_parts(&turned, origin, stride, count - 1, union);
            let cell = origin + stride * (count - 1);
            parts[1..].iter().for_each(|part| union.add(cell + part.start, part.end - part.start, part.rank));
        }
        parts => add_parts(parts, origin, stride, count, union),
    }
}

/// Adds `parts` (ascending, not touching, nor touching across cells) in each of `count` cells.
fn add_parts(parts: &[Entry], origin: u64, stride: u64, count: u64, union: &mut Joined) {
    match even_spacing(parts, stride) {
        Some(spacing) => {
            let (length, count) = (parts[0].end - parts[0].start, count * parts.len() as u64);
            let stride = if count == 1 { length } else { spacing };
            union.add_run(Run { offset: origin + parts[0].start, length, stride, count }, parts[0].rank);
        }
        // So many pieces there really are.
        None => (0..count).flat_map(|cell| parts.iter().map(move |part| (cell, part))).for_each(|(cell, part)| {
            union.add(origin + cell * stride + part.start, part.end - part.start, part.rank);
        }),
    }
}

/// The distance between neighbours where all parts are equally long and evenly spaced, the last and the next cell's first
/// included.
fn even_spacing(parts: &[Entry], stride: u64) -> Option<u64> {
    let spacing = stride / parts.len() as u64;
    let length = parts[0].end - parts[0].start;
    let even = spacing * parts.len() as u64 == stride
        && parts.iter().all(|part| part.end - part.start == length)
        && parts.windows(2).all(|pair| pair[1].start - pair[0].start == spacing);
    even.then_some(spacing)
}
