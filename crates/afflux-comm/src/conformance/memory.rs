//! Checks of the memory that ranks of one node share.

use crate::{Communicator, NodeMemory};

/// Offset of the gate of a rank.
fn gate_of(rank: usize) -> usize {
    rank * 64
}

/// Every rank writes behind the gates, and reads what the others wrote when their gates open.
pub(super) fn run(comm: &dyn Communicator) {
    let bytes = gate_of(comm.size()) + comm.size();
    let Some(memory) = comm.node_memory(bytes).unwrap() else {
        assert_ne!(comm.backend(), "self", "a rank alone shares with itself");
        return;
    };
    assert_eq!(memory.bytes(), bytes);
    assert_eq!(comm.nodes().node_count, 1, "ranks of several nodes share no memory");
    let place = |rank: usize| memory.start().as_ptr().wrapping_add(gate_of(comm.size()) + rank);
    // SAFETY: in the memory; only this rank writes there, and nobody reads before its gate opens.
    unsafe {
        assert_eq!(*place(comm.rank()), 0, "the memory is zeros at first");
        *place(comm.rank()) = number(comm.rank());
    }
    memory.gate(gate_of(comm.rank())).set(1);
    for rank in 0..comm.size() {
        wait(comm, &memory, rank, 1);
        // SAFETY: as above; the gate was set after the write.
        assert_eq!(unsafe { *place(rank) }, number(rank), "what rank {rank} wrote");
    }
    // A clone in another thread outlives the handle here.
    let clone = memory.clone();
    let rank = comm.rank();
    let thread = std::thread::spawn(move || clone.gate(gate_of(rank)).set(2));
    wait(comm, &memory, rank, 2);
    thread.join().unwrap();
    assert_eq!(memory.gate(gate_of(rank)).count(3), 5);
    assert!(memory.gate(gate_of(rank)).replace(5, 9) && !memory.gate(gate_of(rank)).replace(5, 7));
    assert_eq!(memory.gate(gate_of(rank)).value(), 9);
    drop(memory);
    let again = comm.node_memory(4_096).unwrap().expect("there was memory before");
    // SAFETY: in the memory, which nobody writes.
    assert!((0..4_096).all(|at| unsafe { *again.start().as_ptr().add(at) } == 0), "new memory is zeros");
    comm.barrier().unwrap();
}

fn number(rank: usize) -> u8 {
    u8::try_from(rank % 250).expect("below 250") + 1
}

fn wait(comm: &dyn Communicator, memory: &NodeMemory, rank: usize, target: u32) {
    let gate = memory.gate(gate_of(rank));
    comm.wait_at(gate, "a check", "another rank", &|value| value >= target).unwrap();
    assert!(gate.is_reached(target));
}
