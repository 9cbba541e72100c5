//! While no flush is due, appending a row allocates nothing. (That it makes no system call is shown under `strace` by the
//! end-to-end tests; that it costs little more than the copy, by the example `append_figures`.)

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use afflux_comm::SelfCommunicator;
use afflux_series::{Point, ProbeSet, SeriesWriter, SetId, Variable};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed to the system's allocator unchanged; counting touches only a thread-local cell without a
// destructor, which allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's obligations are the system allocator's.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn append_allocates_nothing_between_flushes() {
    let directory = tempfile::tempdir().unwrap();
    let patch = |first: i64| (first..first + 100).map(|id| Point::new(id, 0.0, 0.0, 0.0));
    let every =
        ProbeSet::new("").points(patch(0)).variable(Variable::f64("u")).variable(Variable::f32("v").components(3));
    let other = ProbeSet::new("patches").points(patch(0)).points(patch(100)).variable(Variable::i32("w")).every(2);
    let mut run = SeriesWriter::at(directory.path().join("run.nc"))
        .set(every)
        .set(other)
        .window_steps(100)
        .open(&SelfCommunicator::new())
        .unwrap();
    let (u, v, w) = (vec![1.0; 100], vec![2.0_f32; 300], vec![3; 100]);
    let mut grown = Vec::new();
    for step in 0..350_u64 {
        let before = ALLOCATIONS.get();
        run.append(SetId(0), step, 0.5, &[(&u).into(), (&v).into()]).unwrap();
        for patch in [0, 1] {
            run.append_patch(SetId(1), patch, step, 0.5, &[(&w).into()]).unwrap();
        }
        if ALLOCATIONS.get() > before {
            grown.push(step);
        }
    }
    run.close().unwrap();
    assert_eq!(grown, [100, 200, 300], "only the steps that flush allocate");
}
