//! The corpus of the tests under MPI: every path against what must be in the file, on as many ranks as it is started with.
//!
//! `cargo build -p afflux-collective --features mpi --example oracle_mpi`, then
//! `mpirun -n 4 target/debug/examples/oracle_mpi DIRECTORY`. Ends with 1 when a rank finds a difference.

#[cfg(feature = "mpi")]
#[path = "../tests/common/mod.rs"]
mod common;

#[cfg(feature = "mpi")]
#[path = "oracle_mpi/run.rs"]
mod run;

#[cfg(feature = "mpi")]
#[path = "oracle_mpi/watched.rs"]
mod watched;

#[cfg(feature = "mpi")]
fn main() -> std::process::ExitCode {
    run::main()
}

#[cfg(not(feature = "mpi"))]
fn main() -> std::process::ExitCode {
    eprintln!("built without MPI: build with --features mpi");
    std::process::ExitCode::FAILURE
}
