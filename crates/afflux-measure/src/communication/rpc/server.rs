//! The answering side.

use super::message::{
    Call, Outcome, PROCEDURE_MESSAGE, PROCEDURE_NULL, PROCEDURE_SPAWN, PROGRAM, VERSION, read_opaque,
};
use super::{BUFFER_BYTES, RecordReader, write_record};
use crate::communication::channel::{Address, Channel, Offer, Supplies, listen};
use std::io::{self, BufReader};
use std::net::{TcpListener, TcpStream};

/// One connection of a client.
#[derive(Debug)]
pub struct Server {
    writer: TcpStream,
    reader: RecordReader<BufReader<TcpStream>>,
    /// The last call that is not answered.
    id: u32,
}

impl Server {
    /// Over an accepted connection.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let reader = RecordReader::new(BufReader::with_capacity(BUFFER_BYTES, stream.try_clone()?));
        Ok(Self { writer: stream, reader, id: 0 })
    }

    /// The next call of one of our procedures that does something: its number and procedure, arguments next in the record. What
    /// else comes is answered as the standard asks. `None` when the client has gone.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::InvalidData`] for what is no call.
    pub fn next_call(&mut self) -> io::Result<Option<Call>> {
        while self.reader.next_record()? {
            let (id, outcome) = match Call::decode(&mut self.reader)? {
                Err(refusal) => refusal,
                Ok(call) if call.program != PROGRAM => (call.id, Outcome::ProgramUnavailable),
                Ok(call) if call.version != VERSION => (call.id, Outcome::ProgramMismatch(VERSION, VERSION)),
                Ok(call) => match call.procedure {
                    PROCEDURE_MESSAGE | PROCEDURE_SPAWN => return Ok(Some(call)),
                    PROCEDURE_NULL => (call.id, Outcome::Success),
                    _ => (call.id, Outcome::ProcedureUnavailable),
                },
            };
            self.answer(id, outcome, None)?;
        }
        Ok(None)
    }

    /// Answers a call.
    ///
    /// # Errors
    /// What the system says.
    pub fn answer(&mut self, id: u32, outcome: Outcome, opaque: Option<&[u8]>) -> io::Result<()> {
        let header = outcome.encode(id, opaque.map(<[u8]>::len))?;
        write_record(&mut self.writer, &header, opaque.unwrap_or_default())
    }

    /// Whether bytes of the client were read already that no call has used: a wait for the connection would overlook them.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.reader.get_ref().buffer().is_empty()
    }

    /// The connection.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.writer
    }
}

impl Channel for Server {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.answer(self.id, Outcome::Success, Some(message))
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        let call = self.next_call()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if call.procedure != PROCEDURE_MESSAGE || !read_opaque(&mut self.reader, message)? {
            self.answer(call.id, Outcome::GarbageArguments, None)?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{call:?} with other arguments")));
        }
        self.id = call.id;
        Ok(())
    }
}

/// A listening port of the server.
#[derive(Debug)]
pub struct ServerOffer {
    listener: TcpListener,
}

impl ServerOffer {
    /// Listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(supplies: &Supplies) -> io::Result<Self> {
        Ok(Self { listener: listen(supplies)? })
    }
}

impl Offer for ServerOffer {
    fn address(&self) -> Address {
        Address::Port(self.listener.local_addr().map_or(0, |address| address.port()))
    }

    fn take(self: Box<Self>) -> io::Result<Box<dyn Channel>> {
        let (stream, _) = self.listener.accept()?;
        Ok(Box::new(Server::new(stream)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communication::rpc::Client;

    #[test]
    fn strangers_are_answered_as_the_standard_asks() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let mut server = Server::new(listener.accept().unwrap().0).unwrap();
            server.next_call().unwrap()
        });
        let mut client = Client::connect(None, port).unwrap();
        client.call(PROCEDURE_NULL, None).unwrap();
        client.reply(None).unwrap();
        for (program, version, procedure, expected) in [
            (PROGRAM + 1, VERSION, 0, Outcome::ProgramUnavailable),
            (PROGRAM, VERSION + 4, 0, Outcome::ProgramMismatch(VERSION, VERSION)),
            (PROGRAM, VERSION, 99, Outcome::ProcedureUnavailable),
        ] {
            let call = Call { id: 77, program, version, procedure };
            let mut stream = client.stream().try_clone().unwrap();
            write_record(&mut stream, &call.encode(None).unwrap(), &[]).unwrap();
            let mut reader = RecordReader::new(stream);
            assert!(reader.next_record().unwrap());
            assert_eq!(Outcome::decode(&mut reader).unwrap(), (77, expected));
        }
        drop(client);
        assert_eq!(server.join().unwrap(), None, "the client has gone between two calls");
    }
}
