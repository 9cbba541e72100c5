//! The message with which rank 0 opens a flush: how many rows it has, where the new chunks lie, how long the next window is.

use afflux_container::{DatasetIndex, NewColumn};

use crate::wire::{Damaged, Decoder, Encoder};

/// What rank 0 tells the others at the beginning of a flush.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Opening {
    /// Rows of each set with this flush.
    pub row_ends: Vec<u64>,
    /// Length of the next window.
    pub window_steps: u64,
    /// Where the new columns lie.
    pub columns: Vec<(usize, u64, DatasetIndex, Vec<u64>)>,
}

fn dataset_code(dataset: DatasetIndex) -> u64 {
    match dataset {
        DatasetIndex::Step => 0,
        DatasetIndex::Time => 1,
        DatasetIndex::Variable(variable) => 2 + variable as u64,
    }
}

/// The message in the place of an opening: why there is none.
pub(crate) fn encode_failure(text: &str) -> Vec<u8> {
    let mut message = Encoder::default();
    message.word(1).text(text);
    message.finish()
}

/// The message of a flush that goes ahead.
pub(crate) fn encode_opening(row_ends: &[u64], window_steps: u64, columns: &[NewColumn]) -> Vec<u8> {
    let mut message = Encoder::default();
    message.word(0).word(window_steps).word(row_ends.len() as u64);
    for &row_end in row_ends {
        message.word(row_end);
    }
    message.word(columns.len() as u64);
    for column in columns {
        message.word(column.set as u64).word(column.column).word(dataset_code(column.dataset));
        message.word(column.chunk_offsets.len() as u64);
        for &offset in &column.chunk_offsets {
            message.word(offset);
        }
    }
    message.finish()
}

/// The opening, or rank 0's failure.
pub(crate) fn decode_opening(bytes: &[u8]) -> Result<Result<Opening, String>, Damaged> {
    let mut message = Decoder::new(bytes);
    if message.word()? == 1 {
        return Ok(Err(message.text()?.to_owned()));
    }
    let window_steps = message.word()?;
    let sets = message.count(8)?;
    let row_ends = (0..sets).map(|_| message.word()).collect::<Result<_, _>>()?;
    let count = message.count(4 * 8)?;
    let columns = (0..count)
        .map(|_| {
            let set = usize::try_from(message.word()?).ok().filter(|&set| set < sets).ok_or(Damaged)?;
            let column = message.word()?;
            let dataset = match message.word()? {
                0 => DatasetIndex::Step,
                1 => DatasetIndex::Time,
                variable => DatasetIndex::Variable(usize::try_from(variable - 2).map_err(|_| Damaged)?),
            };
            let chunks = message.count(8)?;
            let offsets = (0..chunks).map(|_| message.word()).collect::<Result<_, _>>()?;
            Ok((set, column, dataset, offsets))
        })
        .collect::<Result<_, Damaged>>()?;
    Ok(Ok(Opening { row_ends, window_steps, columns }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opening_of_a_flush_travels_whole() {
        let dataset = DatasetIndex::Variable(3);
        let columns = [NewColumn { set: 1, column: 9, dataset, chunk_offsets: vec![4096, 8192] }];
        let message = encode_opening(&[5, 450], 100, &columns);
        let expected =
            Opening { row_ends: vec![5, 450], window_steps: 100, columns: vec![(1, 9, dataset, vec![4096, 8192])] };
        assert_eq!(decode_opening(&message), Ok(Ok(expected)));
        assert_eq!(decode_opening(&encode_failure("no space")), Ok(Err("no space".to_owned())));
        for length in 0..message.len() {
            assert_eq!(decode_opening(&message[..length]), Err(Damaged));
        }
    }
}
