//! Checksums of a column: a sum, so that ranks can hash their own points and add up, in any order and any split.
//!
//! The sum runs modulo 2^64 over one hash for each contiguous run of values: (dataset, point, component). The hash is XXH3-64
//! of the run's bytes mixed with where the run belongs, so that values that change places do not cancel out. (Mixed behind the
//! hash, not given to it as a seed: for runs of more than 240 bytes XXH3 derives a secret from each new seed, which costs a
//! third of the hash.)

use crate::DatasetIndex;
use xxhash_rust::xxh3::xxh3_64;

/// Where a run of values belongs; what a run's hash is mixed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunPlace {
    /// Index of the set in the file.
    pub set: usize,
    /// The dataset within the set.
    pub dataset: DatasetIndex,
    /// Position of the point in file order (0 for `step` and `time`).
    pub position: u64,
    /// Component (0 where there is none).
    pub component: u32,
    /// Column of chunks.
    pub column: u64,
}

/// The hash of one run: `bytes` holds the run's sealed rows of this column, from the column's first row on.
#[must_use]
pub fn run_checksum(place: RunPlace, bytes: &[u8]) -> u64 {
    ColumnHasher::new(place.set, place.dataset, place.column).run(place.component, place.position, bytes)
}

/// Hashes the runs of one dataset's column, as [`run_checksum`] does: what they have in common is mixed once.
#[derive(Debug, Clone, Copy)]
pub struct ColumnHasher {
    belongs: u64,
}

impl ColumnHasher {
    /// For the runs of this column of a set's dataset.
    #[must_use]
    pub fn new(set: usize, dataset: DatasetIndex, column: u64) -> Self {
        let dataset = match dataset {
            DatasetIndex::Step => 0,
            DatasetIndex::Time => 1,
            DatasetIndex::Variable(variable) => 2 + variable as u64,
        };
        let words = [set as u64, dataset, column];
        Self { belongs: words.into_iter().fold(0x9E37_79B9_7F4A_7C15, |belongs, word| mix(belongs ^ word)) }
    }

    /// The hash of the run of this component and position; see [`run_checksum`].
    #[must_use]
    pub fn run(self, component: u32, position: u64, bytes: &[u8]) -> u64 {
        let belongs = mix(mix(self.belongs ^ u64::from(component)) ^ position);
        mix(belongs ^ xxh3_64(bytes))
    }
}

/// The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
fn mix(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
