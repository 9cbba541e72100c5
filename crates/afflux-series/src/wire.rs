//! Bytes of the registration messages: little-endian words and length-prefixed texts, read with every length checked.

/// A message ends too early, or a text is not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message between ranks is damaged: is every rank running the same version of Afflux?")]
pub(crate) struct Damaged;

/// Builds a message.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub fn word(&mut self, word: u64) -> &mut Self {
        self.bytes.extend_from_slice(&word.to_le_bytes());
        self
    }
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.word(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Takes a message apart.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
    pub fn word(&mut self) -> Result<u64, Damaged> {
        let (word, rest) = self.bytes.split_first_chunk::<8>().ok_or(Damaged)?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*word))
    }
    /// A number of items of at least `item_bytes` each, which the rest of the message must be able to hold.
    pub fn count(&mut self, item_bytes: usize) -> Result<usize, Damaged> {
        let count = usize::try_from(self.word()?).map_err(|_| Damaged)?;
        if count > self.bytes.len() / item_bytes.max(1) {
            return Err(Damaged);
        }
        Ok(count)
    }
    pub fn text(&mut self) -> Result<&'a str, Damaged> {
        let length = self.count(1)?;
        let (text, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        std::str::from_utf8(text).map_err(|_| Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn comes_back_as_it_went() {
        let mut message = Encoder::default();
        message.word(7).text("Ez").word(u64::MAX);
        let bytes = message.finish();
        let mut decoder = Decoder::new(&bytes);
        assert_eq!((decoder.word(), decoder.text(), decoder.word()), (Ok(7), Ok("Ez"), Ok(u64::MAX)));
        assert_eq!(decoder.word(), Err(Damaged));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(&bytes);
            while decoder.text().is_ok() {}
            let _ = decoder.word();
        }
    }
}
