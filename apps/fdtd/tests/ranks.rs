//! The same bits for any number of ranks, and the same verdict on all of them.

mod common;

use afflux_fdtd::{Model, Simulation, SimulationError};
use common::{MIXED, Recording, model};

#[test]
fn fields_are_bit_identical_for_any_number_of_ranks() {
    let model = model(MIXED);
    let alone = Recording::of(&model, 1);
    assert_eq!(alone.series.len(), 122);
    assert_eq!(alone.steps[&1], [0, 7, 14, 21, 28, 35, 42, 49, 56]);
    // Ex, Ey and Hz of the 20 points on the conducting wall are 0 by nature; any other dead probe would prove nothing.
    let live = alone.series.values().flatten().filter(|series| series.iter().any(|&bits| bits != 0)).count();
    assert_eq!((live, alone.series.values().flatten().count()), (664, 724));
    assert!(f64::from_bits(alone.energy) > 0.0);
    for ranks in [2, 3, 4, 7, 12] {
        assert!(alone == Recording::of(&model, ranks), "{ranks} ranks differ from one");
    }
}

#[test]
fn ranks_without_cells_take_part() {
    let tiny = "steps = 20\ngrid = { cells = [3, 3, 3], cell_size = 0.01 }\n\
        [[sources]]\nposition = [0.015, 0.015, 0.015]\naxis = \"y\"\nwaveform = { kind = \"ricker\", frequency = 5e9 }\n\
        [[probes]]\ngrid = [3, 3, 3]\nfields = [\"Ey\", \"Hx\"]\n";
    let model = model(tiny);
    let alone = Recording::of(&model, 1);
    for ranks in [5, 7, 27, 29] {
        assert!(alone == Recording::of(&model, ranks), "{ranks} ranks differ from one");
    }
}

#[test]
fn all_ranks_refuse_points_outside() {
    let text = MIXED.replace("{ name = \"a\", x = 0.05", "{ name = \"a\", x = 0.5");
    let model = model(&text);
    let refused = afflux::comm::threads::run(3, |comm| {
        matches!(Simulation::new(&model, &comm), Err(SimulationError::PointsOutside { count: 1, .. }))
    });
    assert_eq!(refused, [true; 3]);
}

#[test]
fn too_little_memory_is_refused_on_all_ranks_before_it_is_taken() {
    let huge = model("steps = 1\ngrid = { cells = [16000, 16000, 16000], cell_size = 1.0 }\n");
    let refused = afflux::comm::threads::run(2, |comm| {
        let error = Simulation::new(&huge, &comm).unwrap_err();
        assert!(error.to_string().contains("limits.memory_gib"), "{error}");
        matches!(error, SimulationError::Memory { .. })
    });
    assert_eq!(refused, [true; 2]);
}

#[test]
fn one_failing_rank_fails_all() {
    // Rank 0 has two planes of cells and rank 1 one; the limit lies between what they need.
    let mut uneven = model("steps = 1\ngrid = { cells = [3, 3, 3], cell_size = 1.0 }\n");
    uneven.limits.memory_gib = 4500.0 / 1_073_741_824.0;
    let errors: Vec<String> = afflux::comm::threads::run(2, |comm| {
        Simulation::new(&uneven, &comm).map(|_| ()).map_err(|error| error.to_string()).unwrap_err()
    });
    assert!(errors[0].starts_with("rank 0 needs 5376 bytes"), "{errors:?}");
    assert!(errors[1].starts_with("rank 0 could not set up its part: rank 0 needs 5376 bytes"), "{errors:?}");
}

#[test]
fn different_models_are_noticed() {
    let one = model("steps = 1\ngrid = { cells = [4, 4, 4], cell_size = 1.0 }\n");
    let other = model("steps = 1\ngrid = { cells = [4, 4, 5], cell_size = 1.0 }\n");
    let models: [&Model; 3] = [&one, &one, &other];
    let noticed = afflux::comm::threads::run(3, |comm| {
        use afflux::comm::Communicator;
        matches!(Simulation::new(models[comm.rank()], &comm), Err(SimulationError::ModelsDiffer))
    });
    assert_eq!(noticed, [true; 3]);
}
