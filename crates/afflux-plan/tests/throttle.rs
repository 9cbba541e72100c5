//! Tokens: never more requests at a target than allowed, nobody waits for ever, and idle aggregators pass the token on.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use afflux_plan::{AggregatorIndex, ByteRange, FileDomains, Partition, RingPlace, Throttle};
use proptest::prelude::*;

const STRIPE_BYTES: u64 = 8;

fn nonzero(value: u64) -> NonZeroU64 {
    NonZeroU64::new(value).unwrap()
}

fn partition(group: bool, targets: u64) -> Partition {
    let stripe_bytes = nonzero(STRIPE_BYTES);
    if group {
        Partition::GroupCyclic { stripe_bytes, stripe_count: nonzero(targets) }
    } else {
        Partition::StaticCyclic { stripe_bytes }
    }
}

/// An aggregator that goes through its rounds: in each it visits its places in turn, and makes requests of random length at
/// those targets whose stripes it has.
struct Worker {
    places: Vec<RingPlace>,
    round: u64,
    at: usize,
    /// Steps that its requests of the current turn still take; `None` before the turn.
    busy: Option<u64>,
}

/// Runs all workers, one random step at a time; the most requests seen at a target, or `None` where nobody could go on.
fn run(domains: &FileDomains, throttle: &Throttle, rounds: u64, choices: &[u64]) -> Option<u64> {
    let mut workers: Vec<Worker> = (0..domains.aggregator_count())
        .map(|index| Worker { places: throttle.places(domains, AggregatorIndex(index)), round: 0, at: 0, busy: None })
        .collect();
    let mut turns = vec![0; usize::try_from(throttle.ring_count()).unwrap()];
    let mut most = 0;
    let mut choices = choices.iter().copied().cycle();
    loop {
        let mut outstanding = BTreeMap::<u64, u64>::new();
        for worker in workers.iter().filter(|worker| worker.busy.is_some_and(|steps| steps > 0)) {
            *outstanding.entry(worker.places[worker.at].target).or_default() += 1;
        }
        most = most.max(outstanding.values().copied().max().unwrap_or(0));
        let ring = |place: &RingPlace| usize::try_from(throttle.ring(place)).unwrap();
        let able: Vec<usize> = (0..workers.len())
            .filter(|&index| {
                let worker = &workers[index];
                worker.round < rounds
                    && !worker.places.is_empty()
                    && (worker.busy.is_some() || {
                        let place = &worker.places[worker.at];
                        turns[ring(place)] == place.turn(worker.round)
                    })
            })
            .collect();
        if able.is_empty() {
            let done = workers.iter().all(|worker| worker.round == rounds || worker.places.is_empty());
            return done.then_some(most);
        }
        let index = able[usize::try_from(choices.next().unwrap()).unwrap() % able.len()];
        let worker = &mut workers[index];
        match worker.busy {
            // Two in three rounds have no request here: the token is passed all the same.
            None => worker.busy = Some((worker.round + index as u64) % 3),
            Some(steps) if steps > 0 => worker.busy = Some(steps - 1),
            Some(_) => {
                turns[ring(&worker.places[worker.at])] += 1;
                worker.busy = None;
                worker.at += 1;
                if worker.at == worker.places.len() {
                    (worker.at, worker.round) = (0, worker.round + 1);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn tokens_bound_the_requests_and_nobody_starves(
        aggregators in 1_usize..14, targets in 1_u64..8, requests in 1_u64..4, group in any::<bool>(),
        stripes in 1_u64..120, rounds in 1_u64..4, choices in prop::collection::vec(any::<u64>(), 1..60),
    ) {
        let range = ByteRange::new(0, stripes * STRIPE_BYTES);
        let domains = FileDomains::new(range, aggregators, partition(group, targets), nonzero(STRIPE_BYTES));
        let throttle = Throttle::new(nonzero(targets), nonzero(requests));
        let most = run(&domains, &throttle, rounds, &choices);
        prop_assert!(most.is_some(), "everyone waits");
        prop_assert!(most.unwrap() <= requests, "{} requests at a target", most.unwrap());
    }

    #[test]
    fn places_fill_each_ring_without_gaps(aggregators in 1_usize..30, targets in 1_u64..9, requests in 1_u64..5, group in any::<bool>()) {
        let range = ByteRange::new(0, 2000 * STRIPE_BYTES);
        let domains = FileDomains::new(range, aggregators, partition(group, targets), nonzero(STRIPE_BYTES));
        let throttle = Throttle::new(nonzero(targets), nonzero(requests));
        let mut rings = BTreeMap::<u64, Vec<RingPlace>>::new();
        for index in 0..aggregators {
            for place in throttle.places(&domains, AggregatorIndex(index)) {
                prop_assert!(place.token < requests);
                rings.entry(throttle.ring(&place)).or_default().push(place);
            }
        }
        for places in rings.values() {
            for (number, place) in (0..).zip(places) {
                prop_assert_eq!((place.place, place.members), (number, places.len() as u64));
            }
        }
        // Every request of an aggregator goes to a target that it has a place at.
        for index in (0..aggregators).map(AggregatorIndex) {
            let own: Vec<u64> = throttle.places(&domains, index).iter().map(|place| place.target).collect();
            for block in (0..domains.round_count().min(20)).flat_map(|round| domains.blocks(index, round)) {
                prop_assert!(own.contains(&throttle.target_of(&domains, block.range.start).unwrap()));
            }
        }
    }
}

/// EARTH's figure: 192 aggregators, 12 targets, 2 requests each: aggregator `a` passes to `a + 24`.
#[test]
fn the_relay_of_the_source() {
    let range = ByteRange::new(0, 192 * 10 * STRIPE_BYTES);
    let domains = FileDomains::new(range, 192, partition(true, 12), nonzero(STRIPE_BYTES));
    let throttle = Throttle::new(nonzero(12), nonzero(2));
    for index in 0..192_usize {
        let places = throttle.places(&domains, AggregatorIndex(index));
        assert_eq!(places.len(), 1);
        let (target, member) = (index as u64 % 12, index as u64 / 12);
        let expected = RingPlace { target, token: member % 2, place: member / 2, members: 8 };
        assert_eq!(places[0], expected);
    }
}
