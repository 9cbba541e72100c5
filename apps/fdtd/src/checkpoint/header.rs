//! The bytes of a checkpoint: what its header says, and where each value of the state stands.
//!
//! ```text
//! header, 512 little-endian words:  magic | version | cells x, y, z | step | words of state | checksum of the state |
//!                                   hashes of grid, boundaries, cpml, sources, boxes | 0 ... | checksum of the words before
//! state, f64:  Ex Ey Ez Hx Hy Hz over the whole grid, then for each face with absorbing layers (x lower, x upper, y lower, ...)
//!              four convolutions over its layers; each array by x, then y, then z
//! ```
//!
//! The checksum of the state is a sum over its words, each mixed with its position, so that every rank adds up its own part.

use afflux::collective::Extents;

use crate::grid::Grid;
use crate::layout::Block;
use crate::model::Model;
use crate::state::{ARRAY_COUNT, Part, regions};

/// Length of the header: a page, so that the state begins on one.
pub(super) const HEADER_BYTES: usize = 4096;
const HEADER_WORDS: usize = HEADER_BYTES / size_of::<u64>();
/// "AFFLFDTD", read as a little-endian word.
const MAGIC: u64 = u64::from_le_bytes(*b"AFFLFDTD");
const VERSION: u64 = 1;
/// The parts of a model on which the state depends, as they are called in the model file.
const MODEL_PARTS: [&str; 5] = ["grid", "boundaries", "cpml", "sources", "boxes"];
/// Words that say something; the rest up to the checksum is 0.
const USED_WORDS: usize = 8 + MODEL_PARTS.len();

/// Where the arrays stand in the file.
#[derive(Debug)]
pub(super) struct FilePlan {
    regions: [Block; ARRAY_COUNT],
    /// Word of the state at which each array begins.
    first_words: [u64; ARRAY_COUNT],
    words: u64,
}

impl FilePlan {
    pub fn new(model: &Model, grid: &Grid) -> Self {
        let regions = regions(model, grid);
        let mut words = 0;
        let first_words = regions.map(|region| {
            let first = words;
            words += region.len.iter().map(|&len| len as u64).product::<u64>();
            first
        });
        Self { regions, first_words, words }
    }

    pub fn file_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.words * size_of::<f64>() as u64
    }

    /// Where a rank's parts of the arrays stand in the file, and their share of the checksum.
    pub fn describe(&self, parts: &[Part<'_>]) -> (Extents, u64) {
        let mut extents = Extents::new();
        let mut checksum = 0_u64;
        for (array, part) in parts.iter().enumerate() {
            let cells = part.place.cells;
            for (first_word, row) in self.row_words(array, &cells).zip(part.rows(&cells)) {
                let bytes = size_of_val(row) as u64;
                extents.push(HEADER_BYTES as u64 + first_word * size_of::<f64>() as u64, bytes);
                checksum = checksum.wrapping_add(sum_of_row(first_word, row));
            }
        }
        (extents, checksum)
    }

    /// At which words of the state the rows along z of `cells` begin: by x, then y.
    fn row_words(&self, array: usize, cells: &Block) -> impl Iterator<Item = u64> + use<> {
        let (region, first) = (self.regions[array], self.first_words[array]);
        let offset = |axis: usize| cells.start[axis].saturating_sub(region.start[axis]) as u64;
        let [_, ry, rz] = region.len.map(|len| len as u64);
        let (x, y, z) = (offset(0), offset(1), offset(2));
        let [nx, ny, _] = cells.len.map(|len| len as u64);
        (0..nx).flat_map(move |i| (0..ny).map(move |j| first + ((x + i) * ry + y + j) * rz + z))
    }
}

/// What a header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    cells: [u64; 3],
    pub step: u64,
    words: u64,
    /// Of the state.
    pub checksum: u64,
    model: [u64; MODEL_PARTS.len()],
}

/// Why a file is not the checkpoint that is wanted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    Foreign(String),
    Damaged(String),
    /// The keys of the model that differ.
    OtherModel(String),
}

impl Header {
    pub fn new(model: &Model, grid: &Grid, step: u64, plan: &FilePlan, checksum: u64) -> Self {
        let cells = grid.cells.map(|n| n as u64);
        Self { cells, step, words: plan.words, checksum, model: model_hashes(model) }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut words = vec![MAGIC, VERSION];
        words.extend(self.cells);
        words.extend([self.step, self.words, self.checksum]);
        words.extend(self.model);
        words.resize(HEADER_WORDS - 1, 0);
        words.push(sum_of_words(&words));
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// The inverse of [`Self::encode`]; `None` where the checksum or a word that must be 0 says that it is not.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (&checksum_found, words) = words.split_last()?;
        if bytes.len() != HEADER_BYTES
            || checksum_found != sum_of_words(words)
            || words[USED_WORDS..].iter().any(|&w| w != 0)
        {
            return None;
        }
        let [_, _, x, y, z, step, word_count, checksum, model @ ..] = words else { return None };
        let model = model[..MODEL_PARTS.len()].try_into().ok()?;
        Some(Self { cells: [*x, *y, *z], step: *step, words: *word_count, checksum: *checksum, model })
    }
}

/// Whether a file of `length` bytes that begins with `bytes` is a whole checkpoint of this model.
pub(super) fn check(bytes: &[u8], length: u64, model: &Model, grid: &Grid, plan: &FilePlan) -> Result<(), Problem> {
    let word = |at: usize| bytes.get(8 * at..)?.first_chunk().map(|word| u64::from_le_bytes(*word));
    match (word(0), word(1)) {
        (Some(MAGIC), Some(VERSION) | None) => {}
        (Some(MAGIC), Some(version)) => {
            return Err(Problem::Foreign(format!(
                "it has version {version}, and this program reads version {VERSION}"
            )));
        }
        (None, _) if length == 0 => return Err(Problem::Damaged("it is empty".to_owned())),
        _ => return Err(Problem::Foreign("it does not begin as one".to_owned())),
    }
    if bytes.len() < HEADER_BYTES {
        return Err(Problem::Damaged(format!("it ends after {length} bytes, within its header")));
    }
    let Some(header) = Header::decode(bytes) else {
        return Err(Problem::Damaged("the checksum of its header is wrong".to_owned()));
    };
    let expected = Header::new(model, grid, header.step, plan, header.checksum);
    if header.cells != expected.cells {
        let text = |[x, y, z]: [u64; 3]| format!("{x} x {y} x {z}");
        let (there, here) = (text(header.cells), text(expected.cells));
        return Err(Problem::OtherModel(format!("`grid.cells` is {here}, and was {there}")));
    }
    let differ: Vec<String> = MODEL_PARTS
        .iter()
        .zip(header.model.iter().zip(&expected.model))
        .filter(|(_, (there, here))| there != here)
        .map(|(name, _)| format!("`{name}` differs"))
        .collect();
    if !differ.is_empty() {
        return Err(Problem::OtherModel(differ.join(", ")));
    }
    if header.words != plan.words || length != plan.file_bytes() {
        return Err(Problem::Damaged(format!("it has {length} bytes instead of {}", plan.file_bytes())));
    }
    Ok(())
}

/// One hash for each of [`MODEL_PARTS`].
fn model_hashes(model: &Model) -> [u64; MODEL_PARTS.len()] {
    // The debug form shows every value to the last bit, names included.
    let Model { grid, boundaries, cpml, sources, boxes, .. } = model;
    let texts = [
        format!("{grid:?}"),
        format!("{:?}", boundaries.faces()),
        format!("{cpml:?}"),
        format!("{sources:?}"),
        format!("{boxes:?}"),
    ];
    texts.map(|text| text.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte))))
}

/// The share of a row in the checksum of the state; `first_word` is the position of its first value.
fn sum_of_row(first_word: u64, row: &[f64]) -> u64 {
    row.iter().zip(first_word..).fold(0, |sum, (value, word)| sum.wrapping_add(mix(mix(word) ^ value.to_bits())))
}

fn sum_of_words(words: &[u64]) -> u64 {
    words.iter().fold(0, |hash, &word| mix(hash ^ word))
}

/// The output function of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection in which every bit matters.
fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const MODEL: &str = "steps = 1\ngrid = { cells = [6, 5, 4], cell_size = 0.1 }\n";

    fn model(more: &str) -> Model {
        Model::from_toml(&format!("{MODEL}{more}"), Path::new("")).unwrap()
    }

    #[test]
    fn a_header_comes_back_and_no_bit_of_it_may_change() {
        let model = model("");
        let grid = model.grid();
        let plan = FilePlan::new(&model, &grid);
        let header = Header::new(&model, &grid, 17, &plan, 99);
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header));
        assert_eq!(check(&bytes, plan.file_bytes(), &model, &grid, &plan), Ok(()));
        for at in 0..HEADER_BYTES {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let problem = check(&damaged, plan.file_bytes(), &model, &grid, &plan).unwrap_err();
            assert_eq!(matches!(problem, Problem::Foreign(_)), at < 16, "byte {at}: {problem:?}");
        }
        for length in [0, 1, 8, 15, 16, 100, HEADER_BYTES - 1] {
            let problem = check(&bytes[..length], length as u64, &model, &grid, &plan).unwrap_err();
            assert_eq!(matches!(problem, Problem::Damaged(_)), length == 0 || length >= 8, "{length}: {problem:?}");
        }
        let cut = check(&bytes, plan.file_bytes() - 1, &model, &grid, &plan);
        assert!(matches!(cut, Err(Problem::Damaged(_))), "{cut:?}");
    }

    #[test]
    fn another_model_is_told_by_the_key_that_differs() {
        let first = model("");
        let bytes = Header::new(&first, &first.grid(), 0, &FilePlan::new(&first, &first.grid()), 0).encode();
        let problem = |other: Model| {
            let plan = FilePlan::new(&other, &other.grid());
            check(&bytes, plan.file_bytes(), &other, &other.grid(), &plan)
        };
        let differs = |key: &str| Err(Problem::OtherModel(format!("`{key}` differs")));
        assert_eq!(problem(model("boxes = [{ min = [0, 0, 0], max = [1, 1, 1] }]")), differs("boxes"));
        assert!(problem(model("boundaries = { x_min = \"cpml\" }\ncpml = { thickness = 2 }")).is_err());
        let mut larger = model("");
        larger.grid.cells[1] = 7;
        let text = "`grid.cells` is 6 x 7 x 4, and was 6 x 5 x 4".to_owned();
        assert_eq!(problem(larger), Err(Problem::OtherModel(text)));
        // What may change: steps, probes and how they are written.
        let mut longer = model("[[probes]]\ngrid = [1, 1, 1]\nfields = [\"Ez\"]\n");
        (longer.steps, longer.output.window_steps) = (99, 7);
        assert_eq!(problem(longer), Ok(()));
    }

    #[test]
    fn the_checksum_knows_where_a_value_stands() {
        let row = [1.0, -0.0, 2.5];
        let whole = sum_of_row(7, &row);
        assert_eq!(whole, sum_of_row(7, &row[..1]).wrapping_add(sum_of_row(8, &row[1..])));
        assert_ne!(whole, sum_of_row(8, &row));
        assert_ne!(whole, sum_of_row(7, &[1.0, 0.0, 2.5]), "the sign of zero is part of the state");
    }
}
