//! ONC RPC version 2 (RFC 5531) over TCP, by hand: record marking, calls and replies, and what the benchmarks do with them.
//!
//! `record` splits the stream, `message` reads and writes the headers, `server` answers any client as the standard asks
//! (`rpcinfo` finds its null procedure), `client` calls. As a [`Channel`](super::channel::Channel) the client's message is a call of
//! [`PROCEDURE_MESSAGE`] and the server's is the reply to the last call; calls before it are *batched* in the standard's sense
//! (section 8): nothing is replied to them, and a call that is replied to ends the batch.
//!
//! Credentials and verifiers are those of `AUTH_NONE`; what others send is read over.

mod client;
mod message;
mod record;
mod server;

pub use client::Client;
pub use message::{Call, Outcome, PROCEDURE_MESSAGE, PROCEDURE_NULL, PROCEDURE_SPAWN, PROGRAM, VERSION};
pub use record::RecordReader;
pub use server::{Server, ServerOffer};

use std::io;
use std::net::TcpStream;

/// The buffer of a reading side, as large as that of the usual library (libtirpc's is 9,000 bytes): short messages take one call
/// of the system, long ones go past it.
const BUFFER_BYTES: usize = 9000;

/// The whole record of a successful reply with opaque results, for a child to write in one call.
///
/// # Errors
/// Results longer than a fragment holds.
pub fn reply_record(id: u32, opaque: &[u8]) -> io::Result<Vec<u8>> {
    let header = Outcome::Success.encode(id, Some(opaque.len()))?;
    let padding = message::padding_bytes(opaque.len());
    let mark = record::last_fragment(header.len() + opaque.len() + padding)?;
    Ok([mark.as_slice(), &header, opaque, &[0; 4][..padding]].concat())
}

/// Sends a header, a payload and its padding to four bytes as one record of one fragment, in one call of the system where it takes all.
fn write_record(stream: &mut TcpStream, header: &[u8], payload: &[u8]) -> io::Result<()> {
    let padding = [0_u8; 4];
    let padding = &padding[..message::padding_bytes(payload.len())];
    let length = header.len() + payload.len() + padding.len();
    let mark = record::last_fragment(length)?;
    record::write_all_vectored(stream, &[&mark, header, payload, padding])
}
