//! Borders between the ranks move in the middle of a run, and no bit of the results does.

mod common;

use afflux::comm::threads;
use afflux_fdtd::{RunOptions, Simulation};
use common::{MIXED, Recording, model};

#[test]
fn results_are_bit_identical_with_and_without_moving_borders() {
    let model = model(MIXED);
    let still = Recording::of(&model, 1);
    for (ranks, every) in [(1, 5), (2, 1), (3, 7), (4, 1), (4, 10), (7, 3), (12, 4)] {
        let options = RunOptions { rebalance_every: Some(every), ..RunOptions::default() };
        let (moved, changes) = Recording::with(&model, ranks, None, &options);
        assert!(moved == still, "{ranks} ranks, every {every} steps");
        assert_eq!(changes > 0, ranks > 1, "points change hands: {ranks} ranks, every {every} steps");
    }
}

#[test]
fn every_turn_gives_every_cell_one_owner() {
    let model = model(MIXED);
    let blocks = threads::run(4, |comm| {
        let mut simulation = Simulation::new(&model, &comm).unwrap();
        let mut blocks = vec![*simulation.block()];
        for turn in 1..=4 {
            assert!(simulation.move_borders(turn).unwrap(), "turn {turn}");
            assert!(!simulation.move_borders(turn).unwrap(), "turn {turn} is done already");
            blocks.push(*simulation.block());
        }
        blocks
    });
    for turn in 0..5 {
        let cells: usize = blocks.iter().map(|of_rank| of_rank[turn].cell_count()).sum();
        assert_eq!(cells, 13 * 11 * 9, "turn {turn}");
    }
    for of_rank in &blocks {
        assert_eq!(of_rank[0], of_rank[4], "after four turns all is as it was");
        assert_ne!(of_rank[0], of_rank[1], "every rank takes part");
    }
}

#[test]
fn too_little_memory_for_the_new_boxes_fails_on_all_ranks_and_changes_nothing() {
    let mut tight = model(MIXED);
    // Three slabs of 4 or 5 planes; the move gives the first rank one plane more than the limit allows.
    tight.limits.memory_gib = 105_000.0 / 1_073_741_824.0;
    let messages = threads::run(3, |comm| {
        let mut simulation = Simulation::new(&tight, &comm).unwrap();
        let before = *simulation.block();
        let error = simulation.move_borders(1).unwrap_err().to_string();
        assert_eq!(*simulation.block(), before);
        simulation.step().unwrap();
        error
    });
    assert!(messages.iter().all(|message| message.contains("limits.memory_gib")), "{messages:?}");
}
