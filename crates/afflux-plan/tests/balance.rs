//! How evenly the file is shared out, and what a plan costs: CASES E7 and E10, and one rank's plan among 24,576.

use std::num::NonZeroU64;
use std::time::Duration;

use afflux_plan::{
    AggregatorIndex, ByteRange, Extents, FileDomains, FileTraits, Locks, Partition, PartitionMethod, PayloadIndex,
    Rank, Run, cover, plan_sends, wire,
};

const STRIPE_BYTES: u64 = 64;

fn lustre(stripe_count: u64) -> FileTraits {
    FileTraits {
        locks: Locks::Objects,
        stripe_bytes: NonZeroU64::new(STRIPE_BYTES),
        stripe_count: NonZeroU64::new(stripe_count),
    }
}

fn loads(domains: &FileDomains) -> Vec<u64> {
    (0..domains.aggregator_count()).map(|index| domains.domain_bytes(AggregatorIndex(index))).collect()
}

/// Heaviest at most 1.1 times the mean over all aggregators, at least half in use.
fn assert_balanced(stripe_count: u64, aggregators: usize, range: ByteRange) {
    let (partition, _) = Partition::choose(range, aggregators, PartitionMethod::Automatic, &lustre(stripe_count));
    let domains = FileDomains::new(range, aggregators, partition, NonZeroU64::new(STRIPE_BYTES).unwrap());
    let loads = loads(&domains);
    assert_eq!(loads.iter().sum::<u64>(), range.bytes(), "{stripe_count} stripes, {aggregators} aggregators");
    let heaviest = loads.iter().max().copied().unwrap();
    let used = loads.iter().filter(|&&bytes| bytes > 0).count();
    assert!(
        u128::from(heaviest) * aggregators as u128 * 10 <= u128::from(range.bytes()) * 11,
        "{stripe_count} stripes, {aggregators} aggregators: heaviest {heaviest} of {range}, {partition}"
    );
    assert!(2 * used >= aggregators, "{stripe_count} stripes, {aggregators} aggregators: {used} used");
}

/// E10: every pair, at a start that has nothing to do with stripes, and at the shortest range that the promise covers.
#[test]
fn e10_every_pair_of_stripes_and_aggregators_is_balanced() {
    for stripe_count in 1..160_u64 {
        for aggregators in 1..160_usize {
            let stripes = 20 * stripe_count * aggregators as u64;
            let start = (stripe_count * 7 + aggregators as u64 * 13) * 17;
            assert_balanced(stripe_count, aggregators, ByteRange::new(start, start + stripes * STRIPE_BYTES));
        }
    }
}

/// E10: the pairs that were reported, with every phase of the start against the first storage target.
#[test]
fn e10_reported_pairs_at_every_phase() {
    for (stripe_count, aggregators) in
        [(53, 37), (7, 5), (97, 96), (9, 5), (25, 24), (60, 8), (10, 19), (4, 16), (1, 3)]
    {
        let stripes = 20 * stripe_count * aggregators as u64;
        for phase in 0..=stripe_count {
            let start = phase * STRIPE_BYTES + phase % 3;
            assert_balanced(stripe_count, aggregators, ByteRange::new(start, start + stripes * STRIPE_BYTES));
        }
    }
}

/// Longer ranges do not get worse.
#[test]
fn longer_ranges_are_balanced_too() {
    for (stripe_count, aggregators) in [(53, 37), (5, 7), (96, 97), (159, 158)] {
        for factor in [21, 33, 100] {
            let stripes = factor * stripe_count * aggregators as u64;
            assert_balanced(stripe_count, aggregators, ByteRange::new(5, 5 + stripes * STRIPE_BYTES + 31));
        }
    }
}

/// An aggregator deals with few storage targets, and the aggregators of one target have each one piece of its object.
#[test]
fn group_cyclic_objects_change_hands_as_seldom_as_can_be() {
    for (targets, aggregators) in [(4_u64, 16_usize), (5, 7), (53, 37), (7, 5), (10, 19), (3, 3)] {
        let rows = 40 * aggregators as u64;
        let range = ByteRange::new(0, rows * targets * STRIPE_BYTES);
        let partition = Partition::GroupCyclic {
            stripe_bytes: NonZeroU64::new(STRIPE_BYTES).unwrap(),
            stripe_count: NonZeroU64::new(targets).unwrap(),
        };
        let domains = FileDomains::new(range, aggregators, partition, NonZeroU64::MIN);
        let mut changes = 0;
        for target in 0..targets {
            let owner = |row: u64| domains.owner((row * targets + target) * STRIPE_BYTES);
            changes += (1..rows).filter(|&row| owner(row) != owner(row - 1)).count();
        }
        // Each target's object has at least as many pieces as aggregators share it. A group of fewer aggregators than targets
        // may cut an object within its region.
        let groups = aggregators.div_ceil(usize::try_from(targets).unwrap());
        let bound = (groups - 1) * usize::try_from(targets).unwrap() + aggregators;
        assert!(changes <= bound, "{targets} targets, {aggregators} aggregators: {changes} changes, {bound} expected");
    }
}

/// E7: shares of arrays on a file system where nobody locks: within one element (8 bytes) of even.
#[test]
fn e7_small_ranges_are_even_to_the_element_where_locks_are_free() {
    let free = FileTraits { locks: Locks::Free, ..FileTraits::default() };
    for (aggregators, elements) in [(112, 288 * 777_602_u64), (16, 6 * 1_024), (337, 72 * 777_602)] {
        let range = ByteRange::new(64, 64 + elements * 8);
        let (partition, reason) = Partition::choose(range, aggregators, PartitionMethod::Automatic, &free);
        assert_eq!((partition, reason), (Partition::Even, "locks are free"));
        let loads = loads(&FileDomains::new(range, aggregators, partition, NonZeroU64::new(1 << 20).unwrap()));
        let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
        assert!(most - least <= 8, "{aggregators} aggregators: {least} to {most} bytes");
    }
}

/// Where locks are not free, a small range is as even as whole lock units allow.
#[test]
fn e7_small_ranges_are_even_to_the_lock_unit_where_locks_are_not_free() {
    for stripes in 1..40_u64 {
        let range = ByteRange::new(0, stripes * STRIPE_BYTES);
        for aggregators in 1..12_usize {
            let (partition, _) = Partition::choose(range, aggregators, PartitionMethod::Automatic, &lustre(8));
            let domains = FileDomains::new(range, aggregators, partition, NonZeroU64::new(STRIPE_BYTES).unwrap());
            for index in 0..aggregators {
                for block in (0..domains.round_count()).flat_map(|round| domains.blocks(AggregatorIndex(index), round))
                {
                    assert_eq!(block.range.start / STRIPE_BYTES, (block.range.end - 1) / STRIPE_BYTES);
                    assert!(block.range.start.is_multiple_of(STRIPE_BYTES), "no stripe has two writers");
                }
            }
        }
    }
}

/// What the choice falls on, and that it says why.
#[test]
fn the_choice_follows_the_locks() {
    let range = ByteRange::new(0, 1 << 30);
    let choose =
        |aggregators, file: &FileTraits| Partition::choose(range, aggregators, PartitionMethod::Automatic, file);
    let (stripe_bytes, stripe_count) = (NonZeroU64::new(64).unwrap(), NonZeroU64::new(8).unwrap());
    assert_eq!(choose(8, &lustre(8)).0, Partition::StaticCyclic { stripe_bytes });
    assert_eq!(choose(4, &lustre(8)).0, Partition::StaticCyclic { stripe_bytes });
    assert_eq!(choose(5, &lustre(8)).0, Partition::GroupCyclic { stripe_bytes, stripe_count });
    assert_eq!(choose(16, &lustre(8)).0, Partition::GroupCyclic { stripe_bytes, stripe_count });
    let tokens = FileTraits { locks: Locks::Ranges, ..lustre(8) };
    assert_eq!(
        choose(16, &tokens),
        (Partition::Aligned { unit_bytes: stripe_bytes }, "locks cover ranges of the file")
    );
    for method in PartitionMethod::ALL {
        let (partition, reason) = Partition::choose(range, 3, method, &FileTraits::default());
        assert!(!reason.is_empty() && !partition.to_string().is_empty());
    }
}

/// HPIO's c-nc pattern as rank `rank` of `ranks`.
fn hpio(rank: u64, ranks: u64, region_bytes: u64, count: u64, space_bytes: u64) -> Extents {
    let pitch = region_bytes + space_bytes;
    let mut extents = Extents::new();
    extents.push_run(Run { offset: rank * pitch, length: region_bytes, stride: pitch * ranks, count });
    extents
}

/// Interlocking runs are merged by arithmetic: the steps follow the ranks, not the pieces.
#[test]
fn dealt_out_regions_are_merged_without_expanding_them() {
    for (ranks, space_bytes) in [(4_u64, 0), (4, 128), (64, 0), (1_000, 0), (1_000, 7)] {
        let requests: Vec<Extents> = (0..ranks).map(|rank| hpio(rank, ranks, 8, 1 << 20, space_bytes)).collect();
        let named: Vec<(Rank, &Extents)> =
            requests.iter().enumerate().map(|(rank, extents)| (Rank(rank), extents)).collect();
        let coverage = cover(&named);
        assert_eq!(coverage.overlap, None);
        assert_eq!(coverage.covered.bytes(), (8 * ranks) << 20);
        assert_eq!(coverage.covered.runs().len(), 1, "{:?}", coverage.covered.runs());
        assert!(coverage.step_count <= 8 * ranks, "{} steps for {ranks} ranks", coverage.step_count);

        // The same seen by an aggregator in the middle of the file, whose borders cut pieces.
        let range = ByteRange::new(1_000_003, 33_000_001);
        let cut: Vec<Extents> = requests.iter().map(|extents| extents.clip(range)).collect();
        let named: Vec<(Rank, &Extents)> =
            cut.iter().enumerate().map(|(rank, extents)| (Rank(rank), extents)).collect();
        let coverage = cover(&named);
        assert!(coverage.covered.runs().len() <= 4, "{:?}", coverage.covered.runs());
        assert!(coverage.step_count <= 12 * ranks, "{} steps for {ranks} ranks", coverage.step_count);
    }
}

/// Peak resident memory of this process in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("VmHWM");
    let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    kib << 10
}

/// What this thread has had of a core: other programs on the machine do not count.
fn on_core() -> Duration {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    Duration::from_nanos(schedule.split_whitespace().next().expect("a number").parse().expect("a number"))
}

/// HPIO as the K computer ran it, on 24,576 ranks with 12,288 aggregators and 384 storage targets: what one rank, which
/// aggregates too, works out for a whole call.
#[test]
fn one_rank_among_24_576_plans_in_little_time_and_memory() {
    let (ranks, aggregators) = (24_576_u64, 12_288_usize);
    let file = FileTraits {
        locks: Locks::Objects,
        stripe_bytes: NonZeroU64::new(64 << 20),
        stripe_count: NonZeroU64::new(384),
    };
    let own = hpio(17, ranks, 5_992, 30_729, 256);
    let range = ByteRange::new(0, (5_992 + 256) * 30_729 * ranks - 256);
    let me = AggregatorIndex(5);
    let before = peak_bytes();

    let begin = on_core();
    let (partition, _) = Partition::choose(range, aggregators, PartitionMethod::Automatic, &file);
    let domains = FileDomains::new(range, aggregators, partition, NonZeroU64::new(64 << 20).unwrap());
    let mut description_bytes = 0;
    let sends = plan_sends(&own, &domains);
    let mut bytes = Vec::new();
    for send in &sends {
        bytes.clear();
        wire::encode(&send.extents, &mut bytes);
        description_bytes += bytes.len();
    }
    let index = PayloadIndex::new(&own);
    let mut payload = 0;
    for round in 0..domains.round_count() {
        for send in &sends {
            payload += domains.blocks(send.aggregator, round).map(|block| index.bytes_in(block.range)).sum::<u64>();
        }
    }
    let sending = on_core() - begin;
    assert_eq!(payload, own.bytes());

    // What reaches an aggregator: a description from every rank, since its stripes have bytes of all.
    let wires: Vec<Vec<u8>> = (0..ranks)
        .map(|rank| {
            let mut bytes = Vec::new();
            wire::encode(&hpio(rank, ranks, 5_992, 30_729, 256), &mut bytes);
            bytes
        })
        .collect();
    let begin = on_core();
    let received: Vec<Extents> = wires.iter().map(|bytes| wire::decode(bytes).expect("a description")).collect();
    let named: Vec<(Rank, &Extents)> =
        received.iter().enumerate().map(|(rank, extents)| (Rank(rank), extents)).collect();
    let coverage = cover(&named);
    let mut covered = 0;
    for block in (0..domains.round_count()).flat_map(|round| domains.blocks(me, round)) {
        covered += coverage.covered.clip(block.range).bytes();
    }
    let receiving = on_core() - begin;
    assert!(coverage.overlap.is_none() && covered > 0);

    let planning = sending + receiving;
    let memory = peak_bytes() - before;
    println!("{sending:?} to send, {receiving:?} to receive, {memory} bytes, {description_bytes} bytes of description");
    // Debug builds take about ten times as long; the promise is that of a release build.
    let limit_ms = if cfg!(debug_assertions) { 3_000 } else { 100 };
    assert!(planning.as_millis() <= limit_ms, "{planning:?}");
    assert!(memory <= 50 << 20, "{memory} bytes");
}
