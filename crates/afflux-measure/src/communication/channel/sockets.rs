//! Sockets: Unix streams and datagrams, TCP with and without Nagle's algorithm.

use super::{Address, Channel, Offer, Supplies, receive_pieces, send_pieces};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest datagram of ours: what the default buffer of a socket (208 KiB) holds several of.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// How long a machine may take to answer a connection.
const CONNECT_SECONDS_MAX: u64 = 10;

/// A connected stream.
struct Stream<S>(S);

impl<S: Read + Write> Channel for Stream<S> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.write_all(message)
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(message)
    }
}

/// A listening Unix socket.
pub struct StreamOffer {
    listener: UnixListener,
    path: PathBuf,
}

impl StreamOffer {
    pub fn new(supplies: &Supplies) -> io::Result<Self> {
        let path = supplies.directory.join(&supplies.token);
        Ok(Self { listener: UnixListener::bind(&path)?, path })
    }
}

impl Offer for StreamOffer {
    fn address(&self) -> Address {
        Address::Socket(self.path.clone())
    }

    fn take(self: Box<Self>) -> io::Result<Box<dyn Channel>> {
        let (stream, _) = self.listener.accept()?;
        fs::remove_file(&self.path)?;
        Ok(Box::new(Stream(stream)))
    }
}

pub fn join_stream(path: &Path) -> io::Result<impl Channel + use<>> {
    Ok(Stream(UnixStream::connect(path)?))
}

/// A connected pair of datagram sockets; long messages travel in pieces.
struct Datagrams(UnixDatagram);

impl Channel for Datagrams {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        send_pieces(message, DATAGRAM_BYTES_MAX, |piece| self.0.send(piece).map(|_| ()))
    }

    fn receive(&mut self, message: &mut [u8]) -> io::Result<()> {
        receive_pieces(message, |buffer| self.0.recv(buffer))
    }
}

/// A datagram socket with a name.
pub struct DatagramOffer {
    socket: UnixDatagram,
    path: PathBuf,
}

impl DatagramOffer {
    pub fn new(supplies: &Supplies) -> io::Result<Self> {
        let path = supplies.directory.join(&supplies.token);
        Ok(Self { socket: UnixDatagram::bind(&path)?, path })
    }
}

/// The name of the side that joins, which must have one to be answered.
fn name_of_other(path: &Path) -> PathBuf {
    path.with_extension("joined")
}

impl Offer for DatagramOffer {
    fn address(&self) -> Address {
        Address::Socket(self.path.clone())
    }

    fn take(self: Box<Self>) -> io::Result<Box<dyn Channel>> {
        // The first datagram says that the other side has its name.
        self.socket.recv(&mut [0])?;
        let other = name_of_other(&self.path);
        self.socket.connect(&other)?;
        fs::remove_file(&other)?;
        fs::remove_file(&self.path)?;
        Ok(Box::new(Datagrams(self.socket)))
    }
}

pub fn join_datagram(path: &Path) -> io::Result<impl Channel + use<>> {
    let socket = UnixDatagram::bind(name_of_other(path))?;
    socket.connect(path)?;
    socket.send(&[1])?;
    Ok(Datagrams(socket))
}

/// A port that listens: on this machine only, unless the other side is elsewhere.
pub fn listen(supplies: &Supplies) -> io::Result<TcpListener> {
    let interface = if supplies.remote { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
    TcpListener::bind((interface, 0))
}

/// Connects to a port of `host`, this machine unless given, without waiting for ever.
pub fn connect(host: Option<&str>, port: u16) -> io::Result<TcpStream> {
    let mut failure =
        io::Error::new(io::ErrorKind::NotFound, format!("{} has no address", host.unwrap_or("localhost")));
    for address in (host.unwrap_or("127.0.0.1"), port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(CONNECT_SECONDS_MAX)) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = io::Error::new(error.kind(), format!("{address}: {error}")),
        }
    }
    Err(failure)
}

/// A listening port.
pub struct TcpOffer {
    listener: TcpListener,
    nagle: bool,
}

impl TcpOffer {
    pub fn new(supplies: &Supplies, nagle: bool) -> io::Result<Self> {
        Ok(Self { listener: listen(supplies)?, nagle })
    }
}

impl Offer for TcpOffer {
    fn address(&self) -> Address {
        Address::Port(self.listener.local_addr().map_or(0, |address| address.port()))
    }

    fn take(self: Box<Self>) -> io::Result<Box<dyn Channel>> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nodelay(!self.nagle)?;
        Ok(Box::new(Stream(stream)))
    }
}

pub fn join_tcp(host: Option<&str>, port: u16, nagle: bool) -> io::Result<impl Channel + use<>> {
    let stream = connect(host, port)?;
    stream.set_nodelay(!nagle)?;
    Ok(Stream(stream))
}
