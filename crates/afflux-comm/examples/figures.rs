//! Latency of small collectives and bandwidth of the exchange: `figures threads 4`, or `mpirun -n 4 figures mpi`.
//!
//! One line a figure. Times are medians over calls on rank 0, in microseconds. Bandwidth is that of a ring in which every
//! rank sends and receives one message a call: bytes received by all ranks in a second, and its ratio to a memcpy of
//! the same bytes by as many threads or processes at once.

use std::time::{Duration, Instant};

use afflux_comm::{Communicator, Reduce, threads};

/// Bytes each rank sends in the bandwidth figure: a collective buffer's share, beyond all caches of a core.
const RING_BYTES: usize = 4 << 20;

/// Median time of a call in seconds, over `calls` of them; every rank makes them.
fn median_seconds(calls: usize, mut call: impl FnMut()) -> f64 {
    for _ in 0..calls / 10 + 1 {
        call();
    }
    let mut seconds: Vec<f64> = (0..calls)
        .map(|_| {
            let started = Instant::now();
            call();
            started.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[calls / 2]
}

/// Rank 0 computes for a millisecond before each call while the others wait: what the calls take beyond that, and the CPU time
/// of the last rank for each.
fn late_rank(comm: &dyn Communicator) {
    let work = Duration::from_millis(1);
    let compute = || {
        let started = thread_seconds();
        while comm.rank() == 0 && thread_seconds() - started < work.as_secs_f64() {}
    };
    let mut message = vec![1; 500];
    let mut run = |name: &str, call: &mut dyn FnMut(&mut Vec<u8>)| {
        let calls = 200;
        comm.barrier().expect("barrier");
        let (started, busy) = (Instant::now(), thread_seconds());
        for _ in 0..calls {
            compute();
            call(&mut message);
        }
        let calls = f64::from(calls);
        let (took, busy) = (started.elapsed().as_secs_f64() / calls, (thread_seconds() - busy) / calls);
        let busy = comm.all_gather(&busy.to_le_bytes()).expect("all_gather");
        let waiter = f64::from_le_bytes(busy[comm.size() - 1][..].try_into().expect("eight bytes"));
        if comm.rank() == 0 {
            println!(
                "{} {} ranks: rank 0 works 1 ms, then {name}: {:.0} us more, a waiter's CPU time {:.0} us",
                comm.backend(),
                comm.size(),
                (took - work.as_secs_f64()) * 1e6,
                waiter * 1e6
            );
        }
    };
    run("all_reduce", &mut |_| comm.all_reduce(&mut [Reduce::sum(1)]).expect("all_reduce"));
    run("broadcast of 500 B, barrier", &mut |message| {
        comm.broadcast(0, message).expect("broadcast");
        comm.barrier().expect("barrier");
    });
}

/// CPU time of this thread.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the answer; the clock exists on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second")).as_secs_f64()
}

fn measure(comm: &dyn Communicator) {
    let calls = 2_000;
    let print = |name: &str, seconds: f64| {
        if comm.rank() == 0 {
            println!("{} {} ranks: {name} {:.1} us", comm.backend(), comm.size(), seconds * 1e6);
        }
    };
    print("barrier", median_seconds(calls, || comm.barrier().expect("barrier")));
    let mut elements = [Reduce::max(1), Reduce::min(1), Reduce::sum(1), Reduce::sum(2)];
    print("all_reduce of 4", median_seconds(calls, || comm.all_reduce(&mut elements).expect("all_reduce")));
    late_rank(comm);
    for bytes in [100, 4_000, 100_000] {
        let mut message = vec![comm.rank() == 0; bytes].into_iter().map(u8::from).collect();
        let seconds = median_seconds(calls / 4, || comm.broadcast(0, &mut message).expect("broadcast"));
        print(&format!("broadcast of {bytes} B"), seconds);
    }
    print("duplicate", median_seconds(calls / 20, || drop(comm.duplicate().expect("duplicate"))));
    let (rank, size) = (comm.rank(), comm.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let seconds = median_seconds(calls / 4, || {
        comm.sparse_exchange(&[(next, &[1; 64])]).expect("sparse_exchange");
    });
    print("sparse_exchange, one 64 B message a rank", seconds);

    let message = vec![1_u8; RING_BYTES];
    let mut buffer = vec![0_u8; RING_BYTES];
    let ring = |slices: &[&[u8]], buffer: &mut [u8]| {
        comm.exchange(&[(next, slices)], &mut [(previous, buffer)]).expect("exchange");
        comm.barrier().expect("barrier");
    };
    let whole = median_seconds(60, || ring(&[&message], &mut buffer));
    let in_pieces = [8_192, 1_024, 128].map(|bytes| {
        let pieces: Vec<&[u8]> = message.chunks(bytes).collect();
        median_seconds(60, || ring(&pieces, &mut buffer))
    });
    let copy = median_seconds(60, || {
        buffer.copy_from_slice(std::hint::black_box(&message));
        comm.barrier().expect("barrier");
    });
    if rank == 0 {
        let rate = |seconds: f64| f64::from(u32::try_from(RING_BYTES * size).expect("small")) / seconds / 1e9;
        let [long, middle, short] = in_pieces.map(rate);
        println!(
            "{} {size} ranks: ring of {RING_BYTES} B a rank {:.2} GB/s, in slices of 8 KiB {long:.2}, 1 KiB {middle:.2}, \
             128 B {short:.2}; memcpy {:.2}, ratio {:.2}",
            comm.backend(),
            rate(whole),
            rate(copy),
            rate(whole) / rate(copy)
        );
    }
}

#[cfg(feature = "mpi")]
fn measure_mpi() -> Result<(), String> {
    let world = afflux_comm::mpi::MpiWorld::init().map_err(|error| error.to_string())?;
    measure(&world.communicator().map_err(|error| error.to_string())?);
    Ok(())
}

#[cfg(not(feature = "mpi"))]
fn measure_mpi() -> Result<(), String> {
    Err("built without the feature `mpi`".to_owned())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["threads", ranks] => match ranks.parse() {
            Ok(ranks) if ranks > 0 => {
                threads::run(ranks, |comm| measure(&comm));
                Ok(())
            }
            _ => Err(format!("{ranks} is no number of ranks")),
        },
        ["mpi"] => measure_mpi(),
        _ => Err("usage: figures threads RANKS | figures mpi".to_owned()),
    };
    if let Err(message) = outcome {
        eprintln!("error: {message}");
        std::process::exit(1);
    }
}
