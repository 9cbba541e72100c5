//! Headers of calls and replies (RFC 5531 section 9), in XDR: big-endian numbers of four bytes.

use super::record::RecordReader;
use std::io::{self, Read};

/// Our program's number, from the range that the standard leaves to users (0x20000000 to 0x3fffffff).
pub const PROGRAM: u32 = 0x2aff_1000;
/// Its version.
pub const VERSION: u32 = 1;
/// Does nothing, as procedure 0 of every program.
pub const PROCEDURE_NULL: u32 = 0;
/// Takes opaque data and returns opaque data.
pub const PROCEDURE_MESSAGE: u32 = 1;
/// Starts a child by `fork`; the child replies, with opaque data, and ends.
pub const PROCEDURE_SPAWN: u32 = 2;

/// The one version of the protocol.
const RPC_VERSION: u32 = 2;
const CALL: u32 = 0;
const REPLY: u32 = 1;
const AUTH_NONE: u32 = 0;
/// Longest credential or verifier that the standard allows.
const AUTH_BYTES_MAX: u32 = 400;

/// Zeros after opaque data of a length, up to a multiple of four.
pub fn padding_bytes(length: usize) -> usize {
    length.wrapping_neg() % 4
}

/// A call, without its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Comes back in the reply.
    pub id: u32,
    /// Program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Its procedure.
    pub procedure: u32,
}

/// What a server answers to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The procedure ran; its results follow.
    Success,
    /// There is no such program here.
    ProgramUnavailable,
    /// There is, from this version to that.
    ProgramMismatch(u32, u32),
    /// It has no such procedure.
    ProcedureUnavailable,
    /// The arguments could not be read.
    GarbageArguments,
    /// The server could not do it.
    SystemError,
    /// The call is not of version 2 of the protocol.
    RpcMismatch,
    /// The server does not accept the credentials, for this reason.
    AuthenticationError(u32),
}

impl Call {
    /// The header, with the length of opaque arguments where there are any.
    pub fn encode(self, opaque_bytes: Option<usize>) -> io::Result<Vec<u8>> {
        let numbers = [
            self.id,
            CALL,
            RPC_VERSION,
            self.program,
            self.version,
            self.procedure,
            // Credential and verifier, each of no bytes.
            AUTH_NONE,
            0,
            AUTH_NONE,
            0,
        ];
        encode(&numbers, opaque_bytes)
    }

    /// Reads the header of a call; the arguments are next in the record. `Err` within where the message must be answered otherwise.
    ///
    /// # Errors
    /// What the stream says; [`io::ErrorKind::InvalidData`] where there is no telling what is meant.
    pub fn decode<R: Read>(record: &mut RecordReader<R>) -> io::Result<Result<Self, (u32, Outcome)>> {
        let id = record.number()?;
        if record.number()? != CALL {
            return Err(invalid("a message that is no call"));
        }
        if record.number()? != RPC_VERSION {
            return Ok(Err((id, Outcome::RpcMismatch)));
        }
        let (program, version, procedure) = (record.number()?, record.number()?, record.number()?);
        skip_authentication(record)?;
        skip_authentication(record)?;
        Ok(Ok(Self { id, program, version, procedure }))
    }
}

impl Outcome {
    /// The header of a reply, with the length of opaque results where there are any.
    pub fn encode(self, id: u32, opaque_bytes: Option<usize>) -> io::Result<Vec<u8>> {
        let accepted = |rest: &[u32]| [&[id, REPLY, 0, AUTH_NONE, 0], rest].concat();
        let numbers = match self {
            Self::Success => accepted(&[0]),
            Self::ProgramUnavailable => accepted(&[1]),
            Self::ProgramMismatch(low, high) => accepted(&[2, low, high]),
            Self::ProcedureUnavailable => accepted(&[3]),
            Self::GarbageArguments => accepted(&[4]),
            Self::SystemError => accepted(&[5]),
            Self::RpcMismatch => vec![id, REPLY, 1, 0, RPC_VERSION, RPC_VERSION],
            Self::AuthenticationError(why) => vec![id, REPLY, 1, 1, why],
        };
        encode(&numbers, opaque_bytes)
    }

    /// Reads the header of a reply: the call's number and what came of it; results are next in the record.
    ///
    /// # Errors
    /// As [`Call::decode`].
    pub fn decode<R: Read>(record: &mut RecordReader<R>) -> io::Result<(u32, Self)> {
        let id = record.number()?;
        if record.number()? != REPLY {
            return Err(invalid("a message that is no reply"));
        }
        let outcome = match record.number()? {
            0 => {
                skip_authentication(record)?;
                match record.number()? {
                    0 => Self::Success,
                    1 => Self::ProgramUnavailable,
                    2 => Self::ProgramMismatch(record.number()?, record.number()?),
                    3 => Self::ProcedureUnavailable,
                    4 => Self::GarbageArguments,
                    5 => Self::SystemError,
                    other => return Err(invalid(&format!("a reply of the unknown kind {other}"))),
                }
            }
            1 => match record.number()? {
                0 => Self::RpcMismatch,
                1 => Self::AuthenticationError(record.number()?),
                other => return Err(invalid(&format!("a refusal of the unknown kind {other}"))),
            },
            other => return Err(invalid(&format!("a reply of the unknown state {other}"))),
        };
        Ok((id, outcome))
    }
}

fn encode(numbers: &[u32], opaque_bytes: Option<usize>) -> io::Result<Vec<u8>> {
    let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    if let Some(length) = opaque_bytes {
        let length = u32::try_from(length).map_err(|_| invalid("more than 4 GiB of opaque data"))?;
        bytes.extend(length.to_be_bytes());
    }
    Ok(bytes)
}

/// Reads over a credential or verifier.
fn skip_authentication<R: Read>(record: &mut RecordReader<R>) -> io::Result<()> {
    let _flavour = record.number()?;
    match record.number()? {
        length if length <= AUTH_BYTES_MAX => record.skip(length.next_multiple_of(4)),
        length => Err(invalid(&format!("a credential of {length} bytes"))),
    }
}

/// Reads opaque data that must be as long as `buffer`, and its padding. `false` where it has another length.
///
/// # Errors
/// As [`Call::decode`].
pub fn read_opaque<R: Read>(record: &mut RecordReader<R>, buffer: &mut [u8]) -> io::Result<bool> {
    if u64::from(record.number()?) != buffer.len() as u64 {
        return Ok(false);
    }
    record.read_exact(buffer)?;
    // Less than four.
    record.skip(u32::try_from(padding_bytes(buffer.len())).map_err(io::Error::other)?)?;
    Ok(true)
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communication::rpc::record::last_fragment;
    use proptest::prelude::*;

    fn record(body: &[u8]) -> RecordReader<io::Cursor<Vec<u8>>> {
        let stream = [last_fragment(body.len()).unwrap().as_slice(), body].concat();
        let mut reader = RecordReader::new(io::Cursor::new(stream));
        assert!(reader.next_record().unwrap());
        reader
    }

    /// The null call that a client makes first, byte by byte as the standard draws it.
    #[test]
    fn a_call_looks_as_the_standard_draws_it() {
        let call = Call { id: 0x0102_0304, program: 100_000, version: 2, procedure: 0 };
        let bytes = call.encode(None).unwrap();
        let expected = [0x0102_0304_u32, 0, 2, 100_000, 2, 0, 0, 0, 0, 0];
        assert_eq!(bytes, expected.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<_>>());
        assert_eq!(Outcome::Success.encode(7, None).unwrap().len(), 24);
    }

    #[test]
    fn credentials_of_other_kinds_are_read_over() {
        // AUTH_SYS with five bytes and their padding.
        let numbers = [9_u32, 0, 2, PROGRAM, VERSION, 1, 1, 5];
        let mut body: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        body.extend([1, 2, 3, 4, 5, 0, 0, 0]);
        body.extend([0; 8]);
        let mut reader = record(&body);
        let call = Call { id: 9, program: PROGRAM, version: VERSION, procedure: 1 };
        assert_eq!(Call::decode(&mut reader).unwrap(), Ok(call));
    }

    fn any_outcome() -> impl Strategy<Value = Outcome> {
        prop_oneof![
            Just(Outcome::Success),
            Just(Outcome::ProgramUnavailable),
            (any::<u32>(), any::<u32>()).prop_map(|(low, high)| Outcome::ProgramMismatch(low, high)),
            Just(Outcome::ProcedureUnavailable),
            Just(Outcome::GarbageArguments),
            Just(Outcome::SystemError),
            Just(Outcome::RpcMismatch),
            any::<u32>().prop_map(Outcome::AuthenticationError),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (id, program, version, procedure) in any::<(u32, u32, u32, u32)>(),
            outcome in any_outcome(),
            data in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let call = Call { id, program, version, procedure };
            let mut body = call.encode(Some(data.len())).unwrap();
            body.extend(&data);
            body.resize(body.len() + padding_bytes(data.len()), 0);
            let mut reader = record(&body);
            prop_assert_eq!(Call::decode(&mut reader).unwrap(), Ok(call));
            let mut found = vec![0; data.len()];
            prop_assert!(read_opaque(&mut reader, &mut found).unwrap());
            prop_assert_eq!(found, data);
            let mut reader = record(&outcome.encode(id, None).unwrap());
            prop_assert_eq!(Outcome::decode(&mut reader).unwrap(), (id, outcome));
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), numbers in proptest::collection::vec(0_u32..8, 0..20)) {
            let small: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
            for body in [bytes, small] {
                let _ = Call::decode(&mut record(&body));
                let _ = Outcome::decode(&mut record(&body));
                let _ = read_opaque(&mut record(&body), &mut [0; 16]);
            }
        }
    }
}
