//! What every method of `bench sampling` writes: points on the source's grid, shared out over ranks, and cheap values.
//!
//! Cao and Luo sample a box of 60x60x60 cells at 1 to 8x8x16 points spread evenly, 32 bytes a point and step. The values come
//! from a table made before the clock starts and shifted from step to step, so that a row costs no computing and lies in the
//! cache as a solver's row would; each rank has a table of its own, so that rows that change places are noticed.

use crate::synth::{SeriesKey, SynthValue};
use serde::Serialize;
use std::str::FromStr;

/// Variables of the workload.
pub const VARIABLES: [&str; 4] = ["Ex", "Ey", "Ez", "Hz"];
/// Bytes a point and step.
pub const RECORD_BYTES: usize = 8 * VARIABLES.len();
/// Simulated seconds a step; any number does.
pub const STEP_SECONDS: f64 = 1.0e-12;
/// Steps until the table repeats: a prime, so that windows of any other length do not repeat in step with it; small enough
/// that 1,536 tables are no burden.
const PERIOD_STEPS: usize = 127;
/// How far the table moves a step.
const SHIFT_VALUES: usize = 7;

/// Which rank samples which point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owners {
    /// Ranks own boxes of the domain, as solvers do.
    Grid,
    /// Ranks own equal ranges of ids.
    Block,
    /// Point i belongs to rank i modulo the ranks: no two neighbours in the file have one owner.
    RoundRobin,
}

impl FromStr for Owners {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "grid" => Ok(Self::Grid),
            "block" => Ok(Self::Block),
            "round-robin" => Ok(Self::RoundRobin),
            _ => Err(format!("`{text}` is none of grid, block, round-robin")),
        }
    }
}

/// One configuration, the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Points in all.
    pub points: u64,
    /// Steps; every one is sampled.
    pub steps: u64,
    /// Steps between flushes, for the methods that have a window.
    pub window_steps: u64,
    /// Ranks.
    pub ranks: usize,
    /// Who owns what.
    pub owners: Owners,
}

impl Workload {
    /// Bytes of all samples.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.points * self.steps * RECORD_BYTES as u64
    }

    /// Points along x, y and z: 8x8x16 for 1,024, 16x16x32 for 8,192.
    #[must_use]
    pub fn grid(&self) -> [u64; 3] {
        let [z, y, x] = balanced_factors(self.points);
        [x, y, z]
    }

    /// The ranks' boxes along x, y and z: 2x2x1 for 4.
    #[must_use]
    pub fn rank_grid(&self) -> [u64; 3] {
        balanced_factors(self.ranks as u64)
    }

    /// The owner of the point with this id.
    #[must_use]
    pub fn owner(&self, id: u64) -> usize {
        let ranks = self.ranks as u64;
        let owner = match self.owners {
            Owners::RoundRobin => id % ranks,
            Owners::Block => id * ranks / self.points,
            Owners::Grid => {
                let [nx, ny, nz] = self.grid();
                let [px, py, pz] = self.rank_grid();
                // A point lies in the middle of its share of the box, so twice its index plus one over twice the count.
                let part = |index: u64, count: u64, parts: u64| (2 * index + 1) * parts / (2 * count);
                let (x, y, z) = (id / (ny * nz), id / nz % ny, id % nz);
                (part(x, nx, px) * py + part(y, ny, py)) * pz + part(z, nz, pz)
            }
        };
        usize::try_from(owner).expect("a rank fits in usize")
    }

    /// The points of every rank in ascending order, indexed by rank.
    #[must_use]
    pub fn points_by_rank(&self) -> Vec<Vec<u64>> {
        let mut owned = vec![Vec::new(); self.ranks];
        for id in 0..self.points {
            owned[self.owner(id)].push(id);
        }
        owned
    }

    /// The rows of a rank that owns these points.
    #[must_use]
    pub fn rows(&self, rank: usize, points: Vec<u64>) -> Rows {
        let length = points.len() + SHIFT_VALUES * (PERIOD_STEPS - 1);
        let table = |variable: usize| {
            let key = SeriesKey::new(rank as u64, 0, variable as u64, 0);
            (0..length as u64).map(|index| f64::from_hash(key.at(index))).collect()
        };
        Rows { tables: std::array::from_fn(table), points }
    }
}

/// What one rank samples.
#[derive(Debug)]
pub struct Rows {
    tables: [Vec<f64>; VARIABLES.len()],
    /// Ids of the rank's points, ascending.
    pub points: Vec<u64>,
}

impl Rows {
    /// Points without values, for what needs only the former.
    #[must_use]
    pub fn of_points(points: Vec<u64>) -> Self {
        Self { tables: Default::default(), points }
    }

    /// A variable's row at a step: one value a point, in the order of `points`.
    #[inline]
    #[must_use]
    pub fn row(&self, variable: usize, step: u64) -> &[f64] {
        let phase = usize::try_from(step % PERIOD_STEPS as u64).expect("below the period");
        &self.tables[variable][SHIFT_VALUES * phase..][..self.points.len()]
    }

    /// The record of the rank's `index`-th point at a step: its variables one after another, little-endian.
    #[inline]
    #[must_use]
    pub fn record(&self, index: usize, step: u64) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        for (variable, field) in record.chunks_exact_mut(8).enumerate() {
            field.copy_from_slice(&self.row(variable, step)[index].to_le_bytes());
        }
        record
    }
}

/// Three factors of `count`, as close to each other as dealing out its prime factors from the largest on makes them; the
/// earlier ones are not smaller than the later.
fn balanced_factors(count: u64) -> [u64; 3] {
    let mut primes = Vec::new();
    let (mut rest, mut divisor) = (count.max(1), 2);
    while rest > 1 {
        while rest.is_multiple_of(divisor) {
            primes.push(divisor);
            rest /= divisor;
        }
        divisor = if divisor * divisor > rest { rest.max(2) } else { divisor + 1 };
    }
    let mut factors = [1; 3];
    for prime in primes.into_iter().rev() {
        let smallest = (0..3).min_by_key(|&axis| factors[axis]).expect("three axes");
        factors[smallest] *= prime;
    }
    factors.sort_unstable_by(|a, b| b.cmp(a));
    factors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(points: u64, ranks: usize, owners: Owners) -> Workload {
        Workload { points, steps: 350, window_steps: 100, ranks, owners }
    }

    #[test]
    fn grids_are_those_of_the_source() {
        let grid = |points| workload(points, 4, Owners::Grid).grid();
        assert_eq!(grid(1), [1, 1, 1]);
        assert_eq!(grid(128), [4, 4, 8]);
        assert_eq!(grid(1024), [8, 8, 16]);
        assert_eq!(grid(8192), [16, 16, 32]);
        assert_eq!(grid(30), [2, 3, 5]);
        assert_eq!(workload(8, 4, Owners::Grid).rank_grid(), [2, 2, 1]);
        assert_eq!(workload(8, 7, Owners::Grid).rank_grid(), [7, 1, 1]);
        assert_eq!(workload(1024, 4, Owners::Grid).bytes(), 11_468_800);
    }

    #[test]
    fn every_point_has_one_owner_and_shares_are_even() {
        for owners in [Owners::Grid, Owners::Block, Owners::RoundRobin] {
            for (points, ranks) in [(1024, 4), (1, 4), (8192, 1536), (30, 7), (5, 3)] {
                let owned = workload(points, ranks, owners).points_by_rank();
                assert_eq!(owned.len(), ranks);
                assert_eq!(owned.iter().map(|ids| ids.len() as u64).sum::<u64>(), points);
                if points == 1024 {
                    assert!(owned.iter().all(|ids| ids.len() == 256), "{owners:?}");
                }
            }
        }
        assert_eq!(workload(1024, 4, Owners::Grid).owner(0), 0);
        assert_eq!(workload(1024, 4, Owners::Grid).owner(1023), 3);
    }

    #[test]
    fn rows_differ_between_steps_variables_and_ranks() {
        let load = workload(8, 2, Owners::RoundRobin);
        let rows = load.rows(1, vec![1, 3, 5, 7]);
        assert_eq!(rows.row(0, 0).len(), 4);
        assert_ne!(rows.row(0, 0), rows.row(0, 1));
        assert_ne!(rows.row(0, 0), rows.row(1, 0));
        assert_ne!(rows.row(0, 0), load.rows(0, vec![0, 2, 4, 6]).row(0, 0));
        assert_eq!(rows.row(2, 3), rows.row(2, 3 + PERIOD_STEPS as u64));
        assert_eq!(rows.record(2, 5)[8..16], rows.row(1, 5)[2].to_le_bytes());
    }
}
