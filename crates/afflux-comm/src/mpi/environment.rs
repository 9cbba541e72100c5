//! The life of MPI in this process.

use std::cell::OnceCell;
use std::ffi::c_int;
use std::ptr;
use std::rc::Rc;

use mpi::ffi::{self, MPI_Comm};

use super::errors::return_predefined_errors;
use super::notices::Notices;
use super::{MpiCommunicator, check, library_version};
use crate::CommError;
use crate::launch::{self, Build};

/// Exit code of the job when a rank panics: that of a Rust panic.
const PANIC_EXIT_CODE: c_int = 101;

/// Exit code of the job when MPI would wait for ever after a failure: `EX_SOFTWARE` of `sysexits.h`.
const STUCK_EXIT_CODE: c_int = 70;

/// Started MPI. Keep it, or any communicator made from it, while MPI is used: the last to be dropped finalises MPI,
/// unless the host program had initialised it before.
#[derive(Debug, Clone)]
pub struct MpiWorld {
    environment: Rc<Environment>,
}

impl MpiWorld {
    /// Starts MPI with `MPI_THREAD_FUNNELED`, or joins the host program's if it runs already. Once a process: MPI does
    /// not start a second time after it was finalised.
    ///
    /// # Errors
    /// [`CommError::Launcher`] when the process was started by the launcher of another MPI, or MPI has been finalised;
    /// [`CommError::Transport`] when MPI does not start or gives less than `MPI_THREAD_FUNNELED`.
    pub fn init() -> Result<Self, CommError> {
        Ok(Self { environment: Environment::start()? })
    }

    /// Collective over all ranks: a communicator of its own over all ranks of the job.
    ///
    /// # Errors
    /// [`CommError::Transport`].
    pub fn communicator(&self) -> Result<MpiCommunicator, CommError> {
        MpiCommunicator::duplicate_of(world(), Rc::clone(&self.environment))
    }

    /// What keeps MPI running.
    pub(super) fn environment(&self) -> Rc<Environment> {
        Rc::clone(&self.environment)
    }
}

/// MPI as this process found or started it.
#[derive(Debug)]
pub(super) struct Environment {
    /// We started MPI and end it.
    owned: bool,
    /// For ranks that have no memory in common.
    notices: OnceCell<Rc<Notices>>,
}

impl Environment {
    fn start() -> Result<Rc<Self>, CommError> {
        let version = library_version();
        let build = Build::of_library(&version);
        let launch = launch::decide(&build, |name| std::env::var(name).ok())?;
        if is_initialized()? {
            let environment = Self { owned: false, notices: OnceCell::new() };
            launch::check_world_size(&build, launch, world_size()?, |name| std::env::var(name).ok())?;
            return Ok(Rc::new(environment));
        }
        let mut provided: c_int = 0;
        // SAFETY: MPI is neither initialised nor finalised; null arguments are allowed since MPI-2.
        let code = unsafe {
            ffi::MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), ffi::RSMPI_THREAD_FUNNELED, &raw mut provided)
        };
        check(code, "MPI_Init_thread", 0)?;
        let environment = Self { owned: true, notices: OnceCell::new() };
        return_predefined_errors()?;
        // SAFETY: a constant that the C shim initialises.
        if provided < unsafe { ffi::RSMPI_THREAD_FUNNELED } {
            return Err(CommError::Transport {
                call: "MPI_Init_thread",
                rank: 0,
                message: format!("{version} provides thread level {provided} only, MPI_THREAD_FUNNELED is needed"),
            });
        }
        launch::check_world_size(&build, launch, world_size()?, |name| std::env::var(name).ok())?;
        Ok(Rc::new(environment))
    }

    /// Collective over `comm`, which has all ranks of this environment: how they reach each other besides their calls.
    pub(super) fn notices(&self, comm: MPI_Comm, rank: usize) -> Result<Rc<Notices>, CommError> {
        if let Some(notices) = self.notices.get() {
            return Ok(Rc::clone(notices));
        }
        let notices = Rc::new(Notices::over(comm, rank)?);
        Ok(Rc::clone(self.notices.get_or_init(|| notices)))
    }

    /// Whether MPI is the host program's, whose settings are not ours to change.
    pub(super) fn is_host(&self) -> bool {
        !self.owned
    }

    /// The MPI that the host program has started.
    pub(super) fn of_host() -> Result<Rc<Self>, CommError> {
        if is_initialized()? {
            return Ok(Rc::new(Self { owned: false, notices: OnceCell::new() }));
        }
        Err(CommError::Launcher("a communicator of the host program was given before it called MPI_Init".to_owned()))
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        if !self.owned || is_finalized() {
            return;
        }
        if std::thread::panicking() {
            // MPI_Finalize waits for the other ranks, who wait for this one: end the job instead.
            // SAFETY: MPI is initialised and not finalised.
            unsafe { ffi::MPI_Abort(world(), PANIC_EXIT_CODE) };
            return;
        }
        if let Some(notices) = self.notices.take() {
            // An error here is one of a job that ends.
            let _ = notices.finish();
        }
        // SAFETY: MPI is initialised and not finalised; every communicator of ours holds this environment, so none is left.
        unsafe { ffi::MPI_Finalize() };
    }
}

/// Ends the job, because `error` means that a call of MPI never returns and what it holds of the caller's memory cannot be
/// taken back: the last resort.
pub(super) fn end_job(rank: usize, error: &CommError) -> ! {
    eprintln!("afflux: rank {rank} ends the job, whose MPI waits in vain: {error}");
    // SAFETY: MPI is initialised and not finalised: a call of it is under way.
    unsafe { ffi::MPI_Abort(world(), STUCK_EXIT_CODE) };
    std::process::exit(STUCK_EXIT_CODE);
}

pub(super) fn world() -> MPI_Comm {
    // SAFETY: a constant that the C shim initialises.
    unsafe { ffi::RSMPI_COMM_WORLD }
}

fn world_size() -> Result<usize, CommError> {
    let mut size: c_int = 0;
    // SAFETY: called after MPI_Init.
    check(unsafe { ffi::MPI_Comm_size(world(), &raw mut size) }, "MPI_Comm_size", 0)?;
    Ok(usize::try_from(size).expect("MPI gives a positive size"))
}

/// MPI runs. Fails when it has run and was ended.
fn is_initialized() -> Result<bool, CommError> {
    let mut flag: c_int = 0;
    // SAFETY: allowed at any time.
    check(unsafe { ffi::MPI_Initialized(&raw mut flag) }, "MPI_Initialized", 0)?;
    if is_finalized() {
        return Err(CommError::Launcher(
            "MPI has been finalised; it cannot be started again in this process".to_owned(),
        ));
    }
    Ok(flag != 0)
}

/// MPI has been ended.
pub(super) fn is_finalized() -> bool {
    let mut flag: c_int = 0;
    // SAFETY: allowed at any time.
    let code = unsafe { ffi::MPI_Finalized(&raw mut flag) };
    super::is_success(code) && flag != 0
}
