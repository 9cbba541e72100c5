//! The counting and the faulty communicator: that they are communicators, that they count, and that no failure of any call on
//! any rank lets another hang or go on as if nothing had happened.

use afflux_comm::conformance::{Effort, run_all, run_failures};
use afflux_comm::threads::run;
use afflux_comm::{
    CommError, CommFault, CommFaults, CommOperation, CommTarget, Communicator, CountingCommunicator,
    FaultyCommunicator, Reduce,
};

#[test]
fn they_are_communicators() {
    for ranks in [1, 3] {
        run(ranks, |comm| {
            let comm = CountingCommunicator::new(FaultyCommunicator::new(comm, &CommFaults::default()));
            run_all(&comm, Effort { repetitions: 5, ..Effort::default() });
            run_failures(&comm);
        });
    }
}

/// Every kind of call once, also on communicators made on the way; each result is checked.
fn program(comm: &dyn Communicator) -> Result<(), CommError> {
    let (rank, size) = (comm.rank(), comm.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    comm.barrier()?;
    let mut bytes = if rank == 1 { vec![7; 30] } else { Vec::new() };
    comm.broadcast(1, &mut bytes)?;
    assert_eq!(bytes, [7; 30]);
    let mut elements = [Reduce::sum(rank as u64)];
    comm.all_reduce(&mut elements)?;
    let total = (size * (size - 1) / 2) as u64;
    assert_eq!(elements[0].value, total);
    let mut pending = comm.start_all_reduce(vec![Reduce::sum(rank as u64)])?;
    let mut buffer = vec![0; 3_000];
    comm.exchange(&[(next, &[&[5; 3_000]])], &mut [(previous, &mut buffer)])?;
    assert_eq!(buffer, [5; 3_000]);
    assert_eq!(comm.all_gather(&[1])?, vec![[1]; size]);
    comm.gather(0, &[2])?;
    let messages = if rank == 2 { vec![vec![3]; size] } else { Vec::new() };
    assert_eq!(comm.scatter(2, &messages)?, [3]);
    comm.exclusive_sum(4)?;
    let received = comm.sparse_exchange(&[(next, &[6]), (previous, &[6])])?;
    assert_eq!(received.len(), 2);
    assert_eq!(pending.complete()?, [Reduce::sum(total)]);
    let other = comm.duplicate()?;
    let part = other.split(Some(0), 0)?.expect("all join");
    part.barrier()?;
    other.exchange(&[(next, &[&[8]])], &mut [(previous, &mut [0])])?;
    other.node_memory(100)?;
    other.barrier()?;
    comm.barrier()
}

#[test]
fn calls_messages_and_bytes_are_counted_over_all_communicators() {
    run(3, |comm| {
        let comm = CountingCommunicator::new(&comm);
        program(&comm).unwrap();
        let counts = comm.counts();
        assert_eq!(counts.of(CommOperation::Barrier), 4, "of the duplicate and its part too");
        assert_eq!(counts.of(CommOperation::Exchange), 2);
        assert_eq!((counts.sends, counts.sent_bytes), (4, 3_000 + 2 + 1));
        assert_eq!(counts.of(CommOperation::CompleteReduce), 1);
        assert_eq!(counts.collective_calls(), 17, "{counts:?}");
        comm.interceptor().reset();
        assert_eq!(comm.counts().collective_calls(), 0);
    });
}

/// Runs the program with one fault on one rank; what each rank got, and how often it fired.
fn run_with(fault: CommFault, victim: usize) -> (Vec<Result<(), CommError>>, u64) {
    let outcomes = run(3, |comm| {
        let faults = CommFaults::default();
        if comm.rank() == victim {
            faults.inject(fault);
        }
        let comm = FaultyCommunicator::new(comm, &faults);
        let outcome = program(&comm);
        if outcome.is_err() && faults.failures() > 0 {
            // Kept for a while, as a program keeps a writer that has failed: the others are told before it goes.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        (outcome, faults.failures())
    });
    let failures = outcomes[victim].1;
    (outcomes.into_iter().map(|(outcome, _)| outcome).collect(), failures)
}

fn count_down(target: CommTarget, change: impl Fn(CommFault) -> CommFault) -> u64 {
    for victim in 0..3 {
        for nth in 1.. {
            let (outcomes, failures) = run_with(change(CommFault::nth(target, nth)), victim);
            if failures == 0 {
                assert!(outcomes.iter().all(Result::is_ok), "nothing fails after the last: {outcomes:?}");
                if victim == 2 {
                    return nth - 1;
                }
                break;
            }
            assert!(matches!(outcomes[victim], Err(CommError::Transport { rank, .. }) if rank == victim));
            for (rank, outcome) in outcomes.iter().enumerate().filter(|(rank, _)| *rank != victim) {
                // Those who need nothing more of the victim may be through.
                let told = match outcome {
                    Ok(()) => true,
                    Err(CommError::PeerFailed { message, .. }) => message.contains("injected fault"),
                    Err(CommError::PeerLeft { .. }) => true,
                    Err(_) => false,
                };
                assert!(told, "{target:?} {nth} fails on rank {victim}, rank {rank} gets {outcome:?}");
            }
        }
    }
    unreachable!("the loop returns for the last victim")
}

#[test]
fn whatever_call_fails_nobody_hangs() {
    assert_eq!(count_down(CommTarget::AnyCall, |fault| fault), 18);
    assert_eq!(count_down(CommTarget::AnyCall, CommFault::for_good), 18);
    assert_eq!(count_down(CommTarget::AnyCall, CommFault::afterwards), 18);
}

#[test]
fn whatever_message_fails_nobody_hangs() {
    assert_eq!(count_down(CommTarget::Send, |fault| fault), 4);
    assert_eq!(count_down(CommTarget::Send, |fault| fault.afterwards().for_good()), 4);
    assert_eq!(count_down(CommTarget::Call(CommOperation::Split), |fault| fault), 1);
}

#[test]
fn a_fault_fires_once_or_for_good() {
    let faults = CommFaults::default();
    let comm = FaultyCommunicator::new(afflux_comm::SelfCommunicator::new(), &faults);
    faults.inject(CommFault::nth(CommTarget::Call(CommOperation::Duplicate), 2));
    let found: Vec<bool> = (0..4).map(|_| comm.duplicate().is_ok()).collect();
    assert_eq!(found, [true, false, false, false], "the communicator is spent after the first");
    assert_eq!(faults.failures(), 1);
    let comm = FaultyCommunicator::new(afflux_comm::SelfCommunicator::new(), &faults);
    faults.inject(CommFault::nth(CommTarget::AnyCall, 1).for_good());
    for _ in 0..3 {
        comm.barrier().unwrap_err();
    }
    assert_eq!(faults.failures(), 4);
}
