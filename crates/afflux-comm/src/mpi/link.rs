//! Plain blocking messages between two MPI processes, and processes that MPI starts: what a benchmark of MPI itself needs.
//!
//! Nothing of the engine uses this; [`MpiCommunicator`](super::MpiCommunicator) waits more politely. A link calls `MPI_Send` and
//! `MPI_Recv` and nothing else, so that what is timed is the library.

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::rc::Rc;

use mpi::ffi::{self, MPI_Comm};

use super::environment::Environment;
use super::errors::return_errors;
use super::pieces::byte;
use super::{MpiWorld, PIECE_BYTES_MAX, check, int};
use crate::CommError;

/// Its own, so that a message of a link is never taken for one of a communicator.
const LINK_TAG: c_int = 29;

/// Messages between this process and one other, in the world they were started in or across a spawn.
#[derive(Debug)]
pub struct MpiLink {
    comm: MPI_Comm,
    /// Rank of the other process in `comm` (of its remote group across a spawn).
    peer: c_int,
    _environment: Rc<Environment>,
}

impl MpiLink {
    /// To another rank of the world. Messages go through `MPI_COMM_WORLD` itself, as in a program that does nothing but this.
    #[must_use]
    pub fn to_rank(world: &MpiWorld, peer: usize) -> Self {
        Self { comm: super::environment::world(), peer: int(peer), _environment: world.environment() }
    }

    /// To the process that spawned this one; `None` where a launcher started it.
    ///
    /// # Errors
    /// [`CommError::Transport`].
    pub fn to_parent(world: &MpiWorld) -> Result<Option<Self>, CommError> {
        // SAFETY: a constant that the C shim initialises, to be overwritten.
        let mut parent = unsafe { ffi::RSMPI_COMM_NULL };
        // SAFETY: MPI runs, since there is a world.
        check(unsafe { ffi::MPI_Comm_get_parent(&raw mut parent) }, "MPI_Comm_get_parent", 0)?;
        // SAFETY: the same constant.
        if parent == unsafe { ffi::RSMPI_COMM_NULL } {
            return Ok(None);
        }
        return_errors(parent, 0)?;
        Ok(Some(Self { comm: parent, peer: 0, _environment: world.environment() }))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`CommError::Transport`].
    pub fn send(&self, message: &[u8]) -> Result<(), CommError> {
        // An empty message is one piece, not none.
        for piece in pieces(message.len()).map(|(from, to)| &message[from..to]) {
            // SAFETY: the piece lives through the call, which is done with it when it returns.
            let code = unsafe {
                ffi::MPI_Send(piece.as_ptr().cast(), int(piece.len()), byte(), self.peer, LINK_TAG, self.comm)
            };
            check(code, "MPI_Send", 0)?;
        }
        Ok(())
    }

    /// Waits for a message of this length.
    ///
    /// # Errors
    /// [`CommError::Transport`], also for a longer message.
    pub fn receive(&self, message: &mut [u8]) -> Result<(), CommError> {
        for (from, to) in pieces(message.len()) {
            let piece = &mut message[from..to];
            // SAFETY: the piece is written within its length, and lives through the call.
            let code = unsafe {
                ffi::MPI_Recv(
                    piece.as_mut_ptr().cast(),
                    int(piece.len()),
                    byte(),
                    self.peer,
                    LINK_TAG,
                    self.comm,
                    ffi::RSMPI_STATUS_IGNORE,
                )
            };
            check(code, "MPI_Recv", 0)?;
        }
        Ok(())
    }

    /// Whether a message waits to be received. For those who wait for long: `receive` keeps a processor busy.
    ///
    /// # Errors
    /// [`CommError::Transport`].
    pub fn is_waiting(&self) -> Result<bool, CommError> {
        let mut flag: c_int = 0;
        // SAFETY: one number is written; no status is asked for.
        let code = unsafe { ffi::MPI_Iprobe(self.peer, LINK_TAG, self.comm, &raw mut flag, ffi::RSMPI_STATUS_IGNORE) };
        check(code, "MPI_Iprobe", 0)?;
        Ok(flag != 0)
    }

    /// Collective with the parent's [`MpiChildren::disconnect`]: the spawned process may now end without it.
    ///
    /// # Errors
    /// [`CommError::Transport`].
    pub fn disconnect(self) -> Result<(), CommError> {
        disconnect(self.comm)
    }
}

/// The pieces of a message as (from, to): at least one, none longer than a call may carry.
fn pieces(length: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..length.max(1)).step_by(PIECE_BYTES_MAX).map(move |from| (from, length.min(from + PIECE_BYTES_MAX)))
}

fn disconnect(mut comm: MPI_Comm) -> Result<(), CommError> {
    // SAFETY: an intercommunicator of ours without requests; the other side calls this too.
    check(unsafe { ffi::MPI_Comm_disconnect(&raw mut comm) }, "MPI_Comm_disconnect", 0)
}

/// Processes that MPI has started for this one.
#[derive(Debug)]
pub struct MpiChildren {
    comm: MPI_Comm,
    count: usize,
    environment: Rc<Environment>,
}

impl MpiChildren {
    /// Starts `count` processes of a program: by `MPI_Comm_spawn`, or with `separately` as as many commands by
    /// `MPI_Comm_spawn_multiple`. Where they run, MPI decides.
    ///
    /// # Errors
    /// [`CommError::Transport`] when MPI refuses or a process does not start.
    pub fn spawn(
        world: &MpiWorld,
        program: &str,
        arguments: &[&str],
        count: usize,
        separately: bool,
    ) -> Result<Self, CommError> {
        let program = c_string(program)?;
        let arguments = arguments.iter().map(|argument| c_string(argument)).collect::<Result<Vec<_>, _>>()?;
        let mut argv: Vec<*mut c_char> = arguments.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
        argv.push(ptr::null_mut());
        let mut errors: Vec<c_int> = vec![0; count];
        // SAFETY: a constant that the C shim initialises, to be overwritten.
        let mut comm = unsafe { ffi::RSMPI_COMM_NULL };
        let (call, code) = if separately {
            let mut commands = vec![program.as_ptr().cast_mut(); count];
            let mut lists = vec![argv.as_mut_ptr(); count];
            let ones: Vec<c_int> = vec![1; count];
            // SAFETY: a constant that the C shim initialises.
            let infos = vec![unsafe { ffi::RSMPI_INFO_NULL }; count];
            // SAFETY: arrays of `count`, of strings and null-terminated lists that live through the call; neither is written.
            let code = unsafe {
                ffi::MPI_Comm_spawn_multiple(
                    int(count),
                    commands.as_mut_ptr(),
                    lists.as_mut_ptr(),
                    ones.as_ptr(),
                    infos.as_ptr(),
                    0,
                    ffi::RSMPI_COMM_SELF,
                    &raw mut comm,
                    errors.as_mut_ptr(),
                )
            };
            ("MPI_Comm_spawn_multiple", code)
        } else {
            // SAFETY: as above, of one command.
            let code = unsafe {
                ffi::MPI_Comm_spawn(
                    program.as_ptr(),
                    argv.as_mut_ptr(),
                    int(count),
                    ffi::RSMPI_INFO_NULL,
                    0,
                    ffi::RSMPI_COMM_SELF,
                    &raw mut comm,
                    errors.as_mut_ptr(),
                )
            };
            ("MPI_Comm_spawn", code)
        };
        check(code, call, 0)?;
        errors.iter().try_for_each(|&error| check(error, call, 0))?;
        return_errors(comm, 0)?;
        Ok(Self { comm, count, environment: world.environment() })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// To one of them, below [`Self::count`].
    #[must_use]
    pub fn link(&self, child: usize) -> MpiLink {
        debug_assert!(child < self.count, "child {child} of {}", self.count);
        MpiLink { comm: self.comm, peer: int(child), _environment: Rc::clone(&self.environment) }
    }

    /// Collective with every child's [`MpiLink::disconnect`]: lets them go.
    ///
    /// # Errors
    /// [`CommError::Transport`].
    pub fn disconnect(self) -> Result<(), CommError> {
        disconnect(self.comm)
    }
}

fn c_string(text: &str) -> Result<CString, CommError> {
    CString::new(text).map_err(|error| CommError::Transport {
        call: "MPI_Comm_spawn",
        rank: 0,
        message: format!("{text:?} is no argument: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_piece_or_more() {
        assert_eq!(pieces(0).collect::<Vec<_>>(), [(0, 0)]);
        assert_eq!(pieces(5).collect::<Vec<_>>(), [(0, 5)]);
        let long = 2 * PIECE_BYTES_MAX + 1;
        let ends: Vec<_> = pieces(long).collect();
        assert_eq!(ends.len(), 3);
        assert_eq!(ends[2], (2 * PIECE_BYTES_MAX, long));
    }
}
