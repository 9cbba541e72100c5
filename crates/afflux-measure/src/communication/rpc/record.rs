//! Record marking (RFC 5531 section 11): a record is fragments, each after four bytes with its length and whether it is the last.

use std::io::{self, IoSlice, Read, Write};

/// The bit of the mark that says so.
const LAST: u32 = 1 << 31;

/// The mark of a record that is one fragment of `length` bytes.
pub fn last_fragment(length: usize) -> io::Result<[u8; 4]> {
    match u32::try_from(length) {
        Ok(length) if length < LAST => Ok((length | LAST).to_be_bytes()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{length} bytes do not fit in a fragment"))),
    }
}

/// Writes all of several slices, in as few calls as the system takes them.
pub fn write_all_vectored(writer: &mut impl Write, slices: &[&[u8]]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
    let mut rest = slices.as_mut_slice();
    // Empty slices are no reason to write.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match writer.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut rest, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads records from a stream, however they were cut into fragments.
#[derive(Debug)]
pub struct RecordReader<R> {
    inner: R,
    /// Bytes of the current fragment that are not read yet.
    left: u32,
    /// Whether it is the last of its record; also before the first record.
    last: bool,
}

impl<R: Read> RecordReader<R> {
    /// At the beginning of a record.
    #[must_use]
    pub fn new(inner: R) -> Self {
        Self { inner, left: 0, last: true }
    }

    /// The stream.
    pub fn get_ref(&self) -> &R {
        &self.inner
    }

    /// Reads over what is left of the record and the mark of the next one. `false` when the stream ends between records.
    ///
    /// # Errors
    /// What the stream says; [`io::ErrorKind::UnexpectedEof`] when it ends within a record.
    pub fn next_record(&mut self) -> io::Result<bool> {
        self.skip_record()?;
        let mut mark = [0; 4];
        let mut filled = 0;
        while filled < mark.len() {
            match self.inner.read(&mut mark[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.enter(mark);
        Ok(true)
    }

    fn enter(&mut self, mark: [u8; 4]) {
        let mark = u32::from_be_bytes(mark);
        self.last = mark & LAST != 0;
        self.left = mark & !LAST;
    }

    /// Goes to the next fragment of the record where this one is used up; `false` at the end of the record.
    fn within(&mut self) -> io::Result<bool> {
        while self.left == 0 {
            if self.last {
                return Ok(false);
            }
            let mut mark = [0; 4];
            self.inner.read_exact(&mut mark)?;
            self.enter(mark);
        }
        Ok(true)
    }

    /// Fills `buffer` from the record.
    ///
    /// # Errors
    /// As [`Self::next_record`]; [`io::ErrorKind::InvalidData`] when the record ends before.
    pub fn read_exact(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            if !self.within()? {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a record that ends too early"));
            }
            let count = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
            let (now, rest) = buffer.split_at_mut(count);
            self.inner.read_exact(now)?;
            // At most `left`, which fits.
            self.left -= u32::try_from(count).map_err(io::Error::other)?;
            buffer = rest;
        }
        Ok(())
    }

    /// Reads over `count` bytes of the record.
    ///
    /// # Errors
    /// As [`Self::read_exact`].
    pub fn skip(&mut self, mut count: u32) -> io::Result<()> {
        let mut bin = [0; 512];
        while count > 0 {
            let now = count.min(512);
            self.read_exact(&mut bin[..now as usize])?;
            count -= now;
        }
        Ok(())
    }

    /// Reads over the rest of the record.
    fn skip_record(&mut self) -> io::Result<()> {
        while self.within()? {
            let now = self.left.min(512);
            self.skip(now)?;
        }
        Ok(())
    }

    /// The next four bytes as a number.
    ///
    /// # Errors
    /// As [`Self::read_exact`].
    pub fn number(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.read_exact(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The records as fragments of the lengths that `cuts` says.
    fn marked(records: &[Vec<u8>], cuts: &[usize]) -> Vec<u8> {
        let mut stream = Vec::new();
        let mut cuts = cuts.iter().cycle();
        for record in records {
            let mut rest = record.as_slice();
            loop {
                let now = cuts.next().copied().unwrap_or(usize::MAX).min(rest.len());
                let (fragment, after) = rest.split_at(now);
                let last = after.is_empty();
                let mark = u32::try_from(fragment.len()).unwrap() | if last { LAST } else { 0 };
                stream.extend(mark.to_be_bytes());
                stream.extend(fragment);
                if last {
                    break;
                }
                rest = after;
            }
        }
        stream
    }

    proptest! {
        #[test]
        fn records_are_put_together_however_they_were_cut(
            records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 0..5),
            cuts in proptest::collection::vec(0_usize..40, 1..6),
        ) {
            prop_assume!(cuts.iter().any(|cut| *cut > 0));
            let mut reader = RecordReader::new(io::Cursor::new(marked(&records, &cuts)));
            for record in &records {
                prop_assert!(reader.next_record().unwrap());
                let mut found = vec![0; record.len()];
                reader.read_exact(&mut found).unwrap();
                prop_assert_eq!(&found, record);
                prop_assert!(reader.read_exact(&mut [0]).is_err());
            }
            prop_assert!(!reader.next_record().unwrap());
        }

        #[test]
        fn any_bytes_end_in_an_error_or_the_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut reader = RecordReader::new(bytes.as_slice());
            while reader.next_record().unwrap_or(false) {
                let _ = reader.number();
            }
        }
    }

    #[test]
    fn slices_are_written_whole_by_a_writer_that_takes_little() {
        struct Little(Vec<u8>);
        impl Write for Little {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let now = bytes.len().min(3);
                self.0.extend(&bytes[..now]);
                Ok(now)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut little = Little(Vec::new());
        write_all_vectored(&mut little, &[b"", b"four", b"", b"seventeen", b""]).unwrap();
        assert_eq!(little.0, b"fourseventeen");
        assert!(last_fragment(1 << 31).is_err());
    }
}
