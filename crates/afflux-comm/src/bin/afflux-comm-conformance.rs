//! The conformance suite on MPI ranks: `mpirun -n 4 afflux-comm-conformance`. Prints `conformance ok` from rank 0.
//!
//! With arguments it does something else: `failures` is the part of the suite about ranks that fail, leave or disagree;
//! `huge BYTES` broadcasts and exchanges one message of that length; `die RANK` lets a rank kill itself (to see what the MPI
//! does with the others), `kill RANK CALL` lets it be killed while the others are in a `barrier`, an `exchange` with it, a
//! `send` to it or a `reduction`, `panic RANK` lets it panic, `leave RANK` lets it return while the others wait, `late RANK` lets
//! it come late; and `host` is a host program that calls `MPI_Init` itself.

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
        ["kill", rank, call] => {
            comm.barrier().expect("all ranks are here");
            if comm.rank().to_string() == rank {
                // The others are in the call by then.
                std::thread::sleep(std::time::Duration::from_millis(300));
                let itself = std::process::id().to_string();
                std::process::Command::new("kill").args(["-KILL", &itself]).status().expect("kill is there");
            }
            let from = rank.parse().expect("a rank");
            let outcome = match call {
                "barrier" => comm.barrier(),
                "exchange" => comm.exchange(&[], &mut [(from, &mut [0; 100_000])]),
                "send" => comm.exchange(&[(from, &[&[0; 1_000_000]])], &mut []),
                "reduction" => comm.start_all_reduce(Vec::new()).and_then(|pending| pending.wait()).map(drop),
                _ => panic!("no call {call}"),
            };
            println!("rank {} goes on after the kill: {outcome:?}", comm.rank());
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
            let error = comm.barrier().expect_err("one has left");
            println!("rank {} gets: {error}", comm.rank());
            return;
        }
        ["late", rank] => {
            comm.barrier().expect("all ranks are here");
            if comm.rank().to_string() == rank {
                std::thread::sleep(std::time::Duration::from_secs(4));
            }
            comm.barrier().expect("all ranks come");
            let other = usize::from(rank == "0");
            let mut buffer = [0];
            if comm.rank().to_string() == rank {
                std::thread::sleep(std::time::Duration::from_secs(4));
                comm.exchange(&[(other, &[&[1]])], &mut []).expect("all ranks come");
            } else {
                let mut receives = [(rank.parse().expect("a rank"), &mut buffer[..])];
                let receives = if comm.rank() == other { &mut receives[..] } else { &mut [] };
                comm.exchange(&[], receives).expect("all ranks come");
            }
        }
        _ => {
            eprintln!(
                "usage: afflux-comm-conformance [failures | huge BYTES | die RANK | kill RANK CALL | panic RANK | leave RANK | late RANK | host]"
            );
            std::process::exit(2);
        }
    }
    comm.barrier().expect("all ranks have passed");
    if comm.rank() == 0 {
        let (ranks, nodes) = (comm.size(), comm.nodes().node_count);
        println!("conformance ok on {ranks} ranks of {nodes} nodes, {}", afflux_comm::mpi::library_version());
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
