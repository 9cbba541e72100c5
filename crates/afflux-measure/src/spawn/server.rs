//! The server that waits: each call of an RPC forks a child, and the child replies.

use crate::communication::rpc::{Outcome, PROCEDURE_SPAWN, Server, reply_record};
use crate::sys::children::fork_saying;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;

/// The role of the helper process.
pub const ROLE: &str = "rpc-server";

/// What the server says when it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Its port.
    pub port: u16,
}

/// Serves one connection after the other until `input` ends. Says on `output` at which port it waits: on all interfaces if clients may
/// be elsewhere.
///
/// # Errors
/// What the system says. A client that speaks badly loses its connection, no more.
pub fn serve(input: impl AsFd, mut output: impl Write, remote: bool) -> io::Result<()> {
    let interface = if remote { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
    let listener = TcpListener::bind((interface, 0))?;
    let waiting = Waiting { port: listener.local_addr()?.port() };
    writeln!(output, "{}", serde_json::to_string(&waiting)?)?;
    output.flush()?;
    let mut children = Vec::new();
    while goes_on(&input, &listener)? {
        let Ok((stream, _)) = listener.accept() else { continue };
        let mut server = Server::new(stream)?;
        while server.has_more() || goes_on(&input, server.stream())? {
            match server.next_call() {
                Ok(Some(call)) if call.procedure == PROCEDURE_SPAWN => spawn(&mut server, call.id, &mut children)?,
                Ok(Some(call)) => server.answer(call.id, Outcome::ProcedureUnavailable, None)?,
                Ok(None) | Err(_) => break,
            }
        }
    }
    Ok(())
}

/// Forks a child that sends the reply, and reaps those that have sent theirs.
fn spawn(server: &mut Server, id: u32, children: &mut Vec<Pid>) -> io::Result<()> {
    let reply = reply_record(id, b"h")?;
    match fork_saying(&reply, server.stream().as_fd()) {
        Ok(child) => children.push(child),
        Err(_) => server.answer(id, Outcome::SystemError, None)?,
    }
    children.retain(|child| waitpid(*child, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive));
    Ok(())
}

/// Waits for something to read from `source`; `false` once `input` has ended.
fn goes_on(input: &impl AsFd, source: &impl AsFd) -> io::Result<bool> {
    loop {
        let watched = [input.as_fd(), source.as_fd()];
        let mut sources = watched.map(|source| PollFd::new(source, PollFlags::POLLIN));
        match poll(&mut sources, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            // Nobody writes to the input: what there is to read is its end.
            Ok(_) if sources[0].any().unwrap_or(true) => return Ok(false),
            Ok(_) => return Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communication::rpc::Client;
    use std::io::{BufRead, BufReader};

    #[test]
    fn children_reply_until_the_input_ends() {
        let (input, keep) = io::pipe().unwrap();
        let (said, output) = io::pipe().unwrap();
        let server = std::thread::spawn(move || serve(input, output, false));
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line).unwrap();
        let Waiting { port } = serde_json::from_str(&line).unwrap();
        for _ in 0..2 {
            let mut client = Client::connect(None, port).unwrap();
            let mut calls: Vec<u32> = (0..5).map(|_| client.call(PROCEDURE_SPAWN, None).unwrap()).collect();
            for _ in 0..5 {
                let mut hello = [0];
                let id = client.reply(Some(&mut hello)).unwrap();
                assert_eq!(hello, *b"h");
                calls.retain(|call| *call != id);
            }
            assert!(calls.is_empty(), "every call has its reply");
        }
        drop(keep);
        server.join().unwrap().unwrap();
    }
}
