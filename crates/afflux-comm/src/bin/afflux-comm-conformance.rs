//! The conformance suite on MPI ranks: `mpirun -n 4 afflux-comm-conformance`. Prints `conformance ok` from rank 0.
//!
//! With arguments it does something else: `failures` is the part of the suite about ranks that fail, leave or disagree, `huge BYTES` broadcasts and exchanges one message of that length, `die RANK` lets
//! a rank kill itself (to see what the MPI does with the others), `panic RANK` lets it panic, `leave RANK` lets it return
//! while the others wait, and `host` is a host program that calls `MPI_Init` itself.

use afflux_comm::Communicator;
use afflux_comm::conformance::{Effort, run_all, run_failures, run_huge};
use afflux_comm::mpi::{MpiCommunicator, MpiWorld};
use mpi::ffi;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if arguments[..] == ["host"] {
        return host();
    }
    let world = match MpiWorld::init() {
        Ok(world) => world,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    };
    let comm = world.communicator().expect("a duplicate of the world");
    match arguments[..] {
        [] => run_all(&comm, Effort::default()),
        ["failures"] => run_failures(&comm),
        ["huge", bytes] => run_huge(&comm, bytes.parse().expect("a number of bytes")),
        ["die", rank] => {
            comm.barrier().expect("all ranks are here");
            if comm.rank().to_string() == rank {
                std::process::abort();
            }
            let outcome = comm.barrier();
            println!("rank {} goes on after the death: {outcome:?}", comm.rank());
        }
        ["panic", rank] => {
            comm.barrier().expect("all ranks are here");
            assert!(comm.rank().to_string() != rank, "rank {rank} panics as asked");
            let outcome = comm.barrier();
            println!("rank {} goes on after the panic: {outcome:?}", comm.rank());
        }
        ["leave", rank] => {
            comm.barrier().expect("all ranks are here");
            if comm.rank().to_string() == rank {
                return;
            }
            let outcome = comm.barrier();
            println!("rank {} goes on after one has left: {outcome:?}", comm.rank());
        }
        _ => {
            eprintln!(
                "usage: afflux-comm-conformance [failures | huge BYTES | die RANK | panic RANK | leave RANK | host]"
            );
            std::process::exit(2);
        }
    }
    comm.barrier().expect("all ranks have passed");
    if comm.rank() == 0 {
        println!("conformance ok on {} ranks, {}", comm.size(), afflux_comm::mpi::library_version());
    }
}

/// MPI is the host's: it starts and ends it, and its communicator works as before when ours are gone.
fn host() {
    // SAFETY: MPI is called from this thread only, before MPI_Finalize; null arguments are allowed.
    unsafe { ffi::MPI_Init(std::ptr::null_mut(), std::ptr::null_mut()) };
    // SAFETY: a constant of MPI.
    let world = unsafe { ffi::RSMPI_COMM_WORLD };
    {
        // SAFETY: MPI is initialised and the communicator valid.
        let comm = unsafe { MpiCommunicator::from_raw(world) }.expect("a duplicate of the world");
        run_all(&comm, Effort::default());
        // SAFETY: as above; the handle is that of the same communicator.
        let again = unsafe { MpiCommunicator::from_fortran(ffi::RSMPI_Comm_c2f(world)) }.expect("a duplicate");
        run_all(&again, Effort::default());
        let joined = MpiWorld::init().expect("the host's MPI is joined");
        joined.communicator().expect("a duplicate").barrier().expect("all ranks are here");
    }
    let mut rank = 0;
    // SAFETY: MPI is still initialised: we ended nothing that the host started.
    unsafe {
        ffi::MPI_Barrier(world);
        ffi::MPI_Comm_rank(world, &raw mut rank);
        ffi::MPI_Finalize();
    }
    if rank == 0 {
        println!("host ok");
    }
}
