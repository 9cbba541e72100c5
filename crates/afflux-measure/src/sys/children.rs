//! Children by bare system calls, which write their first byte to a pipe: `fork(2)`, `clone(2)` as vfork uses it, `clone3(2)`.
//!
//! Between such a call and the end or the new program of the child, only async-signal-safe functions may run there, whatever
//! other threads of the parent were doing; so all memory that a child needs is laid out before, and it does nothing but
//! `write`, `dup2`, `execve` and `_exit`.

use super::check;
use nix::unistd::Pid;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The exit code of a child that could not say or become what it should, as a shell would end.
const FAILED: c_int = 127;
/// Stack of a child that borrows our memory until it becomes another program: it calls two system calls.
const STACK_BYTES: usize = 64 << 10;

/// The namespaces that [`clone3_saying`] makes: what a container has, and a user namespace where we are not root.
const NAMESPACES: c_int =
    libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC | libc::CLONE_NEWNET;

/// In a child: says something and ends.
fn say(words: &[u8], pipe: c_int) -> ! {
    // SAFETY: both are async-signal-safe; the words live through the call.
    unsafe {
        let written = libc::write(pipe, words.as_ptr().cast(), words.len());
        libc::_exit(if usize::try_from(written) == Ok(words.len()) { 0 } else { FAILED })
    }
}

/// Starts a child by `fork` that writes `words` to `pipe` in one call and ends.
pub fn fork_saying(words: &[u8], pipe: BorrowedFd<'_>) -> io::Result<Pid> {
    let pipe = pipe.as_raw_fd();
    // SAFETY: the child calls async-signal-safe functions only.
    match check(unsafe { libc::fork() })? {
        0 => say(words, pipe),
        child => Ok(Pid::from_raw(child)),
    }
}

/// Starts a child by `clone3` in namespaces of its own that writes `words` to `pipe` in one call and ends.
pub fn clone3_saying(words: &[u8], pipe: BorrowedFd<'_>) -> io::Result<Pid> {
    let pipe = pipe.as_raw_fd();
    // SAFETY: asks for a number.
    let user = if unsafe { libc::geteuid() } == 0 { 0 } else { libc::CLONE_NEWUSER };
    let flags = u64::try_from(NAMESPACES | user).map_err(io::Error::other)?;
    // SAFETY: a structure of numbers, for which zeros mean 'not used'.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = flags;
    arguments.exit_signal = libc::SIGCHLD.unsigned_abs().into();
    // SAFETY: without a stack and without CLONE_VM this is a fork: the child has a copy of everything, and calls
    // async-signal-safe functions only.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<libc::clone_args>()) };
    match result {
        -1 => Err(io::Error::last_os_error()),
        0 => say(words, pipe),
        child => Ok(Pid::from_raw(c_int::try_from(child).map_err(io::Error::other)?)),
    }
}

/// A program with its arguments and environment, laid out as `execve` wants them.
#[derive(Debug)]
pub struct Program {
    path: CString,
    /// Own the strings that `argv` and `envp` point to.
    _strings: Vec<CString>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
}

impl Program {
    /// A program by its path, with its arguments (the first is its name) and this process's environment.
    pub fn new(path: &str, arguments: &[&str]) -> io::Result<Self> {
        let string = |text: &str| CString::new(text).map_err(io::Error::other);
        let mut strings = Vec::new();
        for argument in arguments {
            strings.push(string(argument)?);
        }
        for (name, value) in std::env::vars() {
            strings.push(string(&format!("{name}={value}"))?);
        }
        let end = std::iter::once(std::ptr::null());
        let pointers: Vec<_> = strings.iter().map(|string| string.as_ptr()).collect();
        let (argv, envp) = pointers.split_at(arguments.len());
        Ok(Self {
            path: string(path)?,
            argv: argv.iter().copied().chain(end.clone()).collect(),
            envp: envp.iter().copied().chain(end).collect(),
            _strings: strings,
        })
    }

    /// In a child: becomes the program, its standard output being `output`; returns only if that failed.
    fn become_it(&self, output: c_int) {
        // SAFETY: both are async-signal-safe; path and lists end with zeros and live as long as `self`.
        unsafe {
            if libc::dup2(output, libc::STDOUT_FILENO) >= 0 {
                libc::execve(self.path.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr());
            }
        }
    }
}

/// Starts `program` by `fork` and `execve`, its standard output being `output`.
pub fn fork_exec(program: &Program, output: BorrowedFd<'_>) -> io::Result<Pid> {
    let output = output.as_raw_fd();
    // SAFETY: the child calls async-signal-safe functions only.
    match check(unsafe { libc::fork() })? {
        0 => {
            program.become_it(output);
            // SAFETY: async-signal-safe.
            unsafe { libc::_exit(FAILED) }
        }
        child => Ok(Pid::from_raw(child)),
    }
}

/// What the child of [`vfork_exec`] needs to know.
struct Start<'a> {
    program: &'a Program,
    output: c_int,
}

extern "C" fn start(argument: *mut c_void) -> c_int {
    // SAFETY: `vfork_exec` passes a `Start` that lives until this child is gone from our memory.
    let Start { program, output } = unsafe { &*argument.cast::<Start<'_>>() };
    program.become_it(*output);
    FAILED
}

/// Starts `program` as `vfork` and `execve` do, its standard output being `output`: the child borrows this process's memory, and
/// the parent sleeps, until it has become the program.
///
/// It is `clone` with `CLONE_VM` and `CLONE_VFORK` on a stack of its own: what `vfork(3)` asks of the kernel, without a function that
/// returns twice on one stack, which the compiler does not allow for.
pub fn vfork_exec(program: &Program, output: BorrowedFd<'_>) -> io::Result<Pid> {
    // As aligned as a stack must be.
    let mut stack = vec![0_u128; STACK_BYTES / size_of::<u128>()];
    let mut argument = Start { program, output: output.as_raw_fd() };
    // SAFETY: the stack grows down from its end and, as the argument, outlives the child's use of it, since CLONE_VFORK holds this
    // thread until the child has become another program or ended. The child calls async-signal-safe functions only.
    let child = unsafe {
        libc::clone(
            start,
            stack.as_mut_ptr_range().end.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw mut argument).cast(),
        )
    };
    Ok(Pid::from_raw(check(child)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::wait::{WaitStatus, waitpid};
    use std::io::Read;
    use std::os::fd::AsFd;

    /// What a child writes to a pipe until it ends, and how it ends.
    fn says(start: impl FnOnce(BorrowedFd<'_>) -> io::Result<Pid>) -> (Vec<u8>, WaitStatus) {
        let (mut reader, writer) = io::pipe().unwrap();
        let child = start(writer.as_fd()).unwrap();
        drop(writer);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        (bytes, waitpid(child, None).unwrap())
    }

    #[test]
    fn children_say_hello() {
        let (bytes, status) = says(|pipe| fork_saying(b"hello", pipe));
        assert!(bytes == b"hello" && matches!(status, WaitStatus::Exited(_, 0)), "{bytes:?} {status:?}");
        // Namespaces may be forbidden here: then it is an error, not a child that says nothing.
        let (_reader, writer) = io::pipe().unwrap();
        if let Ok(child) = clone3_saying(b"h", writer.as_fd()) {
            assert!(matches!(waitpid(child, None).unwrap(), WaitStatus::Exited(_, 0)));
        }
    }

    #[test]
    fn children_become_programs() {
        let program = Program::new("/bin/sh", &["sh", "-c", "echo $0-$HOME"]).unwrap();
        let home = std::env::var("HOME").unwrap_or_default();
        for start in [fork_exec, vfork_exec] {
            let (bytes, status) = says(|output| start(&program, output));
            assert_eq!(String::from_utf8(bytes).unwrap(), format!("sh-{home}\n"));
            assert!(matches!(status, WaitStatus::Exited(_, 0)));
        }
        let none = Program::new("/no/such/program", &["x"]).unwrap();
        for start in [fork_exec, vfork_exec] {
            let (bytes, status) = says(|output| start(&none, output));
            assert!(bytes.is_empty() && matches!(status, WaitStatus::Exited(_, FAILED)), "{status:?}");
        }
    }
}
