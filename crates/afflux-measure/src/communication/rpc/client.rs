//! The calling side.

use super::message::{Call, Outcome, PROCEDURE_MESSAGE, PROGRAM, VERSION, read_opaque};
use super::{BUFFER_BYTES, RecordReader, write_record};
use crate::communication::channel::{Channel, connect};
use std::io::{self, BufReader};
use std::net::TcpStream;

/// A connection to a server of our program.
#[derive(Debug)]
pub struct Client {
    writer: TcpStream,
    reader: RecordReader<BufReader<TcpStream>>,
    /// Number of the last call.
    id: u32,
}

impl Client {
    /// Connects to a port of `host`, this machine unless given.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(host: Option<&str>, port: u16) -> io::Result<Self> {
        let writer = connect(host, port)?;
        writer.set_nodelay(true)?;
        let reader = RecordReader::new(BufReader::with_capacity(BUFFER_BYTES, writer.try_clone()?));
        Ok(Self { writer, reader, id: 0 })
    }

    /// The connection.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.writer
    }

    /// Sends a call without waiting for its reply; returns its number.
    ///
    /// # Errors
    /// What the system says.
    pub fn call(&mut self, procedure: u32, opaque: Option<&[u8]>) -> io::Result<u32> {
        self.id = self.id.wrapping_add(1);
        let call = Call { id: self.id, program: PROGRAM, version: VERSION, procedure };
        let header = call.encode(opaque.map(<[u8]>::len))?;
        write_record(&mut self.writer, &header, opaque.unwrap_or_default())?;
        Ok(self.id)
    }

    /// Waits for a reply and its opaque results, as long as `opaque` where that is given; returns the number of its call.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::UnexpectedEof`] when the server has gone, [`io::ErrorKind::InvalidData`] for another reply than success.
    pub fn reply(&mut self, opaque: Option<&mut [u8]>) -> io::Result<u32> {
        if !self.reader.next_record()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (id, outcome) = Outcome::decode(&mut self.reader)?;
        let fits = match opaque {
            Some(buffer) if outcome == Outcome::Success => read_opaque(&mut self.reader, buffer)?,
            _ => true,
        };
        if outcome != Outcome::Success || !fits {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("an unexpected reply: {outcome:?}")));
        }
        Ok(id)
    }
}

impl Channel for Client {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.call(PROCEDURE_MESSAGE, Some(message)).map(|_| ())
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        match self.reply(Some(message))? {
            id if id == self.id => Ok(()),
            id => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the reply to call {id}, not {}", self.id))),
        }
    }
}
