//! Checksums of the unfinished columns, taken when the file is opened, while its seal is the newest.
//!
//! A column has room for the checksums of two seals, and a writer at work goes on to seal more rows of the column it is in.
//! The rows sealed at the opening keep their bytes for good, but two seals later no checksum of just them is in the file. So it
//! is kept from the start. Columns that were full keep theirs in the file.

use super::layout::read_slots;
use super::raw::{Checked, RawFile};
use super::verify::Fault;
use super::{ReadError, SealState, SetInfo};

/// Rows and checksum, twice.
pub(crate) type ColumnSlots = [[u64; 2]; 2];

/// The slots of the unfinished column of each set.
#[derive(Debug, Default)]
pub(super) struct Tails {
    /// Indexed by set; `None` where the sealed rows fill their columns, or where the slots could not be read.
    slots: Vec<Option<ColumnSlots>>,
    /// Whether a writer sealed on between the reading of the seal and that of the slots, which then may speak of other rows.
    pub overtaken: bool,
}

impl Tails {
    /// Reads the slots; `state` is what `seal` said before the sets were opened.
    pub fn read(file: &RawFile, seal: &Checked, state: &SealState, checksums: &Checked, sets: &[SetInfo]) -> Self {
        let slots = sets.iter().enumerate().map(|(set, info)| {
            let column = unfinished_column(info)?;
            column_slots(file, checksums, set, column).ok()
        });
        let slots: Vec<_> = slots.collect();
        let overtaken = slots.iter().any(Option::is_some)
            && read_slots(file, seal)
                .ok()
                .and_then(|slots| SealState::decode(&slots))
                .is_some_and(|now| now.sequence > state.sequence);
        Self { slots, overtaken }
    }

    /// The slots of this column, if it is the unfinished one.
    pub fn slots(&self, set: usize, info: &SetInfo, column: u64) -> Option<ColumnSlots> {
        if unfinished_column(info) == Some(column) { self.slots[set] } else { None }
    }
}

/// The column that the sealed rows end in, without filling it.
fn unfinished_column(info: &SetInfo) -> Option<u64> {
    let partly = !info.rows_sealed.is_multiple_of(info.chunk_steps);
    partly.then(|| info.rows_sealed / info.chunk_steps)
}

/// The two slots recorded for a column, as they are now.
pub(super) fn column_slots(file: &RawFile, from: &Checked, set: usize, column: u64) -> Result<ColumnSlots, ReadError> {
    let set = set as u64;
    if set >= from.shape[0] || column >= from.shape[1] {
        return Ok([[0; 2]; 2]);
    }
    let words = file.read::<u64>(from, &[set..set + 1, column..column + 1, 0..2, 0..2])?;
    Ok([[words[0], words[1]], [words[2], words[3]]])
}

/// Holds the checksum of a column's sealed rows against its slots.
pub(crate) fn fault([first, second]: ColumnSlots, rows_sealed: u64, computed: u64) -> Option<Fault> {
    let recorded = [first, second].into_iter().filter(|slot| slot[0] == rows_sealed).map(|slot| slot[1]);
    let recorded: Vec<u64> = recorded.collect();
    match recorded.first() {
        None => Some(Fault::ChecksumMissing { rows_sealed, rows_recorded: [first[0], second[0]] }),
        // A rewritten column may have both slots speak of as many rows; either may be the sealed one.
        Some(_) if recorded.contains(&computed) => None,
        Some(&recorded) => Some(Fault::Checksum { recorded, computed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ContainerWriter, ElementType, Existing, FileSpec, PointTable, Seal, SeriesFile, SetSpec, VariableSpec,
    };
    use afflux_storage::PosixStorage;
    use std::sync::Arc;

    #[test]
    fn the_slot_of_the_sealed_rows_counts() {
        let slots = [[20, 7], [30, 8]];
        assert_eq!(fault(slots, 20, 7), None);
        assert_eq!(fault(slots, 20, 8), Some(Fault::Checksum { recorded: 7, computed: 8 }));
        assert_eq!(fault(slots, 10, 7), Some(Fault::ChecksumMissing { rows_sealed: 10, rows_recorded: [20, 30] }));
        assert_eq!(fault([[20, 7], [20, 8]], 20, 8), None);
    }

    fn one_point() -> FileSpec {
        let variable = VariableSpec {
            name: "Ez".into(),
            element: ElementType::F64,
            components: None,
            units: "V m-1".into(),
            long_name: None,
            standard_name: None,
        };
        let points = PointTable { ids: vec![1], x: vec![0.0], y: vec![0.0], z: vec![0.0], names: vec!["P".into()] };
        let set = SetSpec { name: String::new(), points, variables: vec![variable], cadence_steps: 1, chunk_steps: 4 };
        FileSpec {
            sets: vec![set],
            time_units: "s".into(),
            length_units: "m".into(),
            attributes: Vec::new(),
            chunk_bytes: 128,
        }
    }

    /// A live file with one sealed row, its writer, and the folder it lies in.
    fn sealed_once() -> (tempfile::TempDir, ContainerWriter, SeriesFile) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("run.nc");
        let created = ContainerWriter::create(Arc::new(PosixStorage), &path, &one_point(), Existing::Refuse);
        let mut writer = created.expect("created");
        writer.grow(&[(0, 1)]).expect("grown");
        writer.seal(&Seal { watermark: Some(0), rows: vec![1], columns: Vec::new() }).expect("sealed");
        let file = SeriesFile::open(&path).expect("opens");
        (directory, writer, file)
    }

    /// The row at step 0 is all zeros, as the space is that nobody wrote; its checksum is left out.
    #[test]
    fn a_fault_that_a_writer_may_have_made_is_no_damage() {
        let (_directory, _writer, mut file) = sealed_once();
        assert!(!file.tails.overtaken);
        let verification = file.verify(&mut |_| {});
        assert!(matches!(verification.findings[0].fault, Fault::ChecksumMissing { .. }), "{verification:?}");
        assert_eq!((verification.columns_checked, verification.columns_unchecked), (1, 0));
        file.tails.overtaken = true;
        let verification = file.verify(&mut |_| {});
        assert!(verification.is_whole(), "{verification:?}");
        assert_eq!((verification.columns_checked, verification.columns_unchecked), (0, 1));
    }

    /// The state that the seal is held against is older than the file's.
    #[test]
    fn a_seal_that_moved_on_is_noticed() {
        let (_directory, _writer, file) = sealed_once();
        let (now, seal, checksums) = super::super::layout::read_seal(&file.file).expect("read");
        let older = SealState { sequence: now.sequence - 1, ..now };
        assert!(Tails::read(&file.file, &seal, &older, &checksums, &file.sets).overtaken);
        assert!(!Tails::read(&file.file, &seal, &now, &checksums, &file.sets).overtaken);
    }
}
