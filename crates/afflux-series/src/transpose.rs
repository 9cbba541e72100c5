//! Transposition of one column of chunks: step-major rows to point-major blocks.
//!
//! Source: `rows` rows of `columns` values (the window), the values of a point side by side. Destination: for each value of each
//! of the points asked for, in their order, its `rows` values in step order, then zeros up to `block_rows` (T): the bytes of a chunk. Done tile by tile, so that a tile's destination
//! stays in the first-level cache while the rows are streamed through it; the checksum of each finished block is taken while it is there.

/// Value columns in a tile: 32 columns x 50 rows x 8 bytes are 12.8 KB, a third of a first-level cache; and 32 neighbouring
/// values of a row are four cache lines, enough for the prefetcher.
const TILE_COLUMNS: usize = 64;

/// Rows moved together where a tile's columns lie side by side.
const STRIP_ROWS: usize = 8;

/// Points of a window's row, by place, in the order of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Places<'a> {
    /// Neighbours, the first at this place.
    InARow {
        first: usize,
        count: usize,
    },
    Listed(&'a [u32]),
}

impl Places<'_> {
    /// How many points.
    pub fn len(&self) -> usize {
        match self {
            Self::InARow { count, .. } => *count,
            Self::Listed(places) => places.len(),
        }
    }

    /// The place of the point at `ordinal`.
    pub fn get(&self, ordinal: usize) -> usize {
        match self {
            Self::InARow { first, .. } => first + ordinal,
            Self::Listed(places) => places[ordinal] as usize,
        }
    }
}

/// The shape of one transposition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Values in a row of the source.
    pub columns: usize,
    /// Rows of the source.
    pub rows: usize,
    /// Rows of a block in the destination, at least `rows`; the rest is zeroed.
    pub block_rows: usize,
    /// Bytes of a value: 4 or 8.
    pub element_bytes: usize,
    /// Values of a point.
    pub values: usize,
}

/// Transposes the values of `points` from `source` into `destination` (`points.len() * values * block_rows` values) and calls
/// `finished(point * values + value, the block's rows as bytes, without padding)` for each, ascending.
pub(crate) fn transpose(
    shape: Shape,
    source: &[u8],
    points: Places<'_>,
    destination: &mut [u8],
    finished: impl FnMut(usize, &[u8]),
) {
    let blocks = points.len() * shape.values;
    assert_eq!(source.len(), shape.rows * shape.columns * shape.element_bytes, "the source is rows x columns values");
    assert_eq!(destination.len(), blocks * shape.block_rows * shape.element_bytes, "one block a value of a point");
    assert!(shape.rows <= shape.block_rows, "the rows fit the block");
    match shape.element_bytes {
        4 => tiles::<4>(shape, source, points, destination, finished),
        8 => tiles::<8>(shape, source, points, destination, finished),
        other => unreachable!("values are 4 or 8 bytes long, not {other}"),
    }
}

fn tiles<const BYTES: usize>(
    shape: Shape,
    source: &[u8],
    points: Places<'_>,
    destination: &mut [u8],
    mut finished: impl FnMut(usize, &[u8]),
) {
    let Shape { columns, rows, block_rows, values: values_of_point, .. } = shape;
    let source = source.as_chunks::<BYTES>().0;
    let destination = destination.as_chunks_mut::<BYTES>().0;
    let order_len = points.len() * values_of_point;
    let mut order = [0; TILE_COLUMNS];
    for first in (0..order_len).step_by(TILE_COLUMNS) {
        let tile_order = &mut order[..TILE_COLUMNS.min(order_len - first)];
        for (column, index) in tile_order.iter_mut().zip(first..) {
            *column = points.get(index / values_of_point) * values_of_point + index % values_of_point;
        }
        let tile_order = &*tile_order;
        let blocks = &mut destination[first * block_rows..(first + tile_order.len()) * block_rows];
        let contiguous = tile_order.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        if contiguous {
            let start = tile_order[0];
            let values = |row: usize| &source[row * columns + start..row * columns + start + tile_order.len()];
            let strips = rows / STRIP_ROWS;
            for strip in 0..strips {
                let first_row = strip * STRIP_ROWS;
                transpose_strip(std::array::from_fn(|row| values(first_row + row)), blocks, block_rows, first_row);
            }
            for row in strips * STRIP_ROWS..rows {
                for (block, value) in blocks[row..].iter_mut().step_by(block_rows).zip(values(row)) {
                    *block = *value;
                }
            }
        } else {
            for row in 0..rows {
                let values = &source[row * columns..(row + 1) * columns];
                for (block, &column) in blocks[row..].iter_mut().step_by(block_rows).zip(tile_order) {
                    *block = values[column];
                }
            }
        }
        for (index, block) in blocks.chunks_exact_mut(block_rows).enumerate() {
            block[rows..].fill([0; BYTES]);
            finished(first + index, block[..rows].as_flattened());
        }
    }
}

/// `STRIP_ROWS` rows of a tile at once: as many streams of loads are under way together, and each block takes one
/// contiguous store of a cache line (of eight-byte values).
fn transpose_strip<const BYTES: usize>(
    rows: [&[[u8; BYTES]]; STRIP_ROWS],
    blocks: &mut [[u8; BYTES]],
    block_rows: usize,
    first_row: usize,
) {
    let width = rows[0].len();
    let rows = rows.map(|row| &row[..width]);
    for (column, block) in blocks.chunks_exact_mut(block_rows).enumerate() {
        let target = &mut block[first_row..first_row + STRIP_ROWS];
        for (value, row) in target.iter_mut().zip(rows) {
            *value = row[column];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_plain_definition(
            points in 1_usize..90,
            values in 1_usize..4,
            rows in 0_usize..9,
            padding in 0_usize..4,
            wide: bool,
            listed: bool,
            seed: u64,
        ) {
            let element_bytes = if wide { 8 } else { 4 };
            let columns = points * values;
            let source: Vec<u8> =
                (0..rows * columns * element_bytes).map(|k| (k as u64).wrapping_mul(seed | 1).to_le_bytes()[1]).collect();
            // Two points in three, from the back where the seed is odd; or neighbours.
            let mut list: Vec<u32> = (0..u32::try_from(points).unwrap()).collect();
            if seed % 3 > 0 { list.retain(|place| place % 3 > 0); }
            if seed % 2 == 1 { list.reverse(); }
            let first = usize::try_from(seed % 7).unwrap().min(points);
            let places = if listed { Places::Listed(&list) } else { Places::InARow { first, count: points - first } };
            let block_rows = (rows + padding).max(1);
            let mut blocks = vec![0xAA; places.len() * values * block_rows * element_bytes];
            let mut seen = Vec::new();
            let shape = Shape { columns, rows, block_rows, element_bytes, values };
            transpose(shape, &source, places, &mut blocks, |index, bytes| seen.push((index, bytes.to_vec())));
            for index in 0..places.len() * values {
                let column = places.get(index / values) * values + index % values;
                for row in 0..block_rows {
                    let found = &blocks[(index * block_rows + row) * element_bytes..][..element_bytes];
                    if row < rows {
                        let at = (row * columns + column) * element_bytes;
                        prop_assert_eq!(found, &source[at..at + element_bytes]);
                    } else {
                        prop_assert!(found.iter().all(|&byte| byte == 0));
                    }
                }
                let start = index * block_rows * element_bytes;
                prop_assert_eq!(seen[index].0, index);
                prop_assert_eq!(&seen[index].1[..], &blocks[start..start + rows * element_bytes]);
            }
        }
    }
}
