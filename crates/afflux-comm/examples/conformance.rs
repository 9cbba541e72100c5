//! The conformance suite on MPI ranks: `mpirun -n 4 conformance`. Prints `conformance ok` from rank 0.
//!
//! `conformance huge BYTES` broadcasts and exchanges one message of that length instead, `conformance die RANK` lets a
//! rank kill itself (to see what the MPI does with the others), `conformance panic RANK` lets it panic.

use afflux_comm::Communicator;
use afflux_comm::conformance::{Effort, run_all, run_huge};
use afflux_comm::mpi::MpiWorld;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
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
        _ => {
            eprintln!("usage: conformance [huge BYTES | die RANK | panic RANK]");
            std::process::exit(2);
        }
    }
    comm.barrier().expect("all ranks have passed");
    if comm.rank() == 0 {
        println!("conformance ok on {} ranks, {}", comm.size(), afflux_comm::mpi::library_version());
    }
}
