//! Resume: a file that exists becomes this run's. Collective, when the writer is opened.
//!
//! Rank 0 has taken the file over (`afflux-container`), which told what is sealed; what is left is to trust it and to be in the
//! state in which the writer before would be:
//!
//! 1. *Check.* Every sealed column is held against its checksum. Rank 0 looks the chunks up and hands their addresses out, some
//!    thousand at a time; the ranks share the reading. What is damaged is named, and refused unless it is to be redone
//!    ([`Replay::Rewrite`]).
//! 2. *Read back.* The rows of unfinished columns come into the windows of those who own the points now: the restart of Cao and
//!    Luo (their Copy), for any number of ranks, owners and length of the window.
//! 3. *Replay.* What a rank needs to know of the rows that a restarted solver gives again (see `replay`).

use std::sync::Arc;

use afflux_collective::{CollectiveFile, Part, ReadOptions};
use afflux_comm::Reduce;
use afflux_comm::agree::agree;
use afflux_container::{ContainerWriter, DamagedColumn, ResumeCheck, Resumed, ResumedSet, WriteError};
use afflux_plan::Extents;
use afflux_storage::StorageFile;

use crate::buffer::Buffer;
use crate::builder::Replay;
use crate::column_check::{ColumnChecker, ColumnOnFile};
use crate::error::named;
use crate::layout::Segment;
use crate::local_set::LocalSet;
use crate::replay::{ChunkMap, Damage, Replaying};
use crate::wire::{Damaged, Decoder, Encoder};
use crate::{OpenError, Step};

/// Addresses in a message at most: a megabyte.
const BATCH_CHUNKS: u64 = 1 << 17;

/// What is sealed of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sealed {
    pub rows: u64,
    /// Steps of the first and the last row.
    pub steps: Option<(Step, Step)>,
}

/// What a resumed file holds; the same on all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileState {
    pub watermark: Option<Step>,
    /// The first step whose rows a run was rewriting when it was cut short.
    pub rewriting_from: Option<Step>,
    pub epoch: u64,
    pub sets: Vec<Sealed>,
}

impl FileState {
    pub fn of(resumed: &Resumed) -> Self {
        let sealed = |set: &ResumedSet| Sealed { rows: set.rows, steps: set.first_step.zip(set.last_step) };
        let Resumed { watermark, rewriting_from, epoch, .. } = *resumed;
        Self { watermark, rewriting_from, epoch, sets: resumed.sets.iter().map(sealed).collect() }
    }

    /// For rows that are to be given again: the last step of each set follows from the first, whatever damage has made of it. Where it
    /// was not damaged it is the same.
    pub fn derive_last_steps(&mut self, cadences: impl Iterator<Item = Step>) {
        for (set, cadence) in self.sets.iter_mut().zip(cadences) {
            if let Some((first, last)) = &mut set.steps {
                *last = first.saturating_add(set.rows.saturating_sub(1).saturating_mul(cadence));
            }
        }
    }

    pub fn encode(&self, message: &mut Encoder) {
        // Steps are at most 2^62, so one more is a number.
        let end = |step: Option<Step>| step.map_or(0, |step| step + 1);
        message.word(end(self.watermark)).word(end(self.rewriting_from)).word(self.epoch).word(self.sets.len() as u64);
        for set in &self.sets {
            let (first, last) = set.steps.unwrap_or_default();
            message.word(set.rows).word(u64::from(set.steps.is_some())).word(first).word(last);
        }
    }

    pub fn decode(message: &mut Decoder<'_>) -> Result<Self, Damaged> {
        let (watermark, rewriting_from) = (message.word()?.checked_sub(1), message.word()?.checked_sub(1));
        let epoch = message.word()?;
        let sets = (0..message.count(4 * 8)?).map(|_| {
            let (rows, has_steps) = (message.word()?, message.word()? == 1);
            let steps = (message.word()?, message.word()?);
            Ok(Sealed { rows, steps: has_steps.then_some(steps) })
        });
        Ok(Self { watermark, rewriting_from, epoch, sets: sets.collect::<Result<_, Damaged>>()? })
    }
}

/// What is needed to take a file over.
pub(crate) struct Takeover<'a> {
    pub file: &'a CollectiveFile,
    /// This rank's own handle on the file.
    pub own_file: Arc<dyn StorageFile>,
    pub state: &'a FileState,
    pub policy: Replay,
    pub check: ResumeCheck,
}

/// What rank 0 knows and tells at the end of the check.
#[derive(Default)]
struct Checked {
    damaged: Vec<DamagedColumn>,
    /// Checksums as the columns are, by set and column, where they are needed later: on rank 0, for [`Replay::Rewrite`].
    sums: Vec<Vec<u64>>,
    failure: Option<WriteError>,
}

impl Takeover<'_> {
    /// Collective: checks the file and brings `sets` into the state in which the last writer sealed it. The sets have room and know
    /// their layout; `container` is there on rank 0.
    pub fn run(
        self,
        container: Option<&mut ContainerWriter>,
        sets: &mut [LocalSet],
    ) -> Result<Option<Replaying>, OpenError> {
        self.check_rows(sets)?;
        let mut container = container;
        let mut maps = Vec::with_capacity(sets.len());
        let mut checked = Checked::default();
        for (set, local) in sets.iter().enumerate() {
            maps.push(self.check_set(set, local, container.as_deref_mut(), &mut checked)?);
        }
        let damages = self.judge(&checked)?;
        if let Some(container) = container
            && self.check == ResumeCheck::All
            && checked.damaged.is_empty()
        {
            // What was being rewritten is whole.
            container.next_rewrite(None);
        }
        for (local, map) in sets.iter_mut().zip(&maps) {
            local.resume_columns(map);
        }
        self.read_back(sets)?;
        let Some(watermark) = self.state.watermark else { return Ok(None) };
        if self.policy == Replay::Skip {
            maps.iter_mut().for_each(ChunkMap::keep_times);
        }
        let sealed = self.state.sets.clone();
        Ok(Some(Replaying::new(self.policy, watermark, sealed, self.own_file, maps, damages, checked.sums)))
    }

    /// The sealed rows of every set must be those that are due up to the watermark; the same on all ranks.
    fn check_rows(&self, sets: &[LocalSet]) -> Result<(), OpenError> {
        for (local, &Sealed { rows, steps }) in sets.iter().zip(&self.state.sets) {
            let cadence = local.cadence_steps;
            let is_sound = match (steps, self.state.watermark) {
                (None, _) => rows == 0,
                (Some((first, last)), Some(watermark)) => {
                    let expected = last.checked_sub(first).map(|span| span / cadence + 1);
                    expected == Some(rows)
                        && [first, last].iter().all(|step| step.is_multiple_of(cadence))
                        && last <= watermark
                        && watermark - last < cadence
                }
                (Some(_), None) => false,
            };
            if !is_sound {
                let columns =
                    format!("{} has {rows} rows, of steps {steps:?}, every {cadence} steps", named(&local.name));
                return Err(OpenError::Damaged { count: 1, columns });
            }
        }
        Ok(())
    }

    /// Collective: where the chunks of a set lie, and whether its columns are what was sealed.
    fn check_set(
        &self,
        set: usize,
        local: &LocalSet,
        mut container: Option<&mut ContainerWriter>,
        checked: &mut Checked,
    ) -> Result<ChunkMap, OpenError> {
        let comm = self.file.communicator();
        let mut checker = ColumnChecker::new(&*self.own_file, comm.rank(), comm.size());
        let layout = &local.layout;
        let mut map = ChunkMap::new(&layout.geometry);
        let rows = self.state.sets[set].rows;
        let columns = local.columns_for(rows);
        let batch = (BATCH_CHUNKS / map.chunks_per_column()).max(1);
        checked.sums.push(Vec::new());
        let mut first = 0;
        while first < columns {
            let end = (first + batch).min(columns);
            self.share_addresses(set, first..end, container.as_deref_mut(), &mut map)?;
            let is_checked = |column: u64| self.check == ResumeCheck::All || column + 1 == columns;
            let (mut sums, mut outcome) = (Vec::new(), Ok(()));
            for column in (first..end).filter(|&column| is_checked(column)) {
                let rows = (rows - column * layout.geometry.chunk_steps).min(layout.geometry.chunk_steps);
                let (variables, geometry) = (&layout.variables[..], &layout.geometry);
                let on_file = ColumnOnFile { set, column, rows, variables, geometry, chunks: map.column(column) };
                let part = checker.part(&on_file).unwrap_or_else(|error| {
                    outcome = Err((0, format!("cannot read column {column} of {}: {error}", named(&local.name))));
                    0
                });
                sums.push(Reduce::sum(part));
            }
            agree(comm, outcome, &mut sums)?.map_err(elsewhere)?;
            if let Some(container) = container.as_deref_mut() {
                for (column, sum) in (first..end).filter(|&column| is_checked(column)).zip(&sums) {
                    match container.judge_column(set, column, sum.value) {
                        Ok(damaged) => checked.damaged.extend(damaged),
                        Err(error) => checked.failure = checked.failure.take().or(Some(error)),
                    }
                }
                if self.policy == Replay::Rewrite {
                    checked.sums[set].extend(sums.iter().map(|sum| sum.value));
                }
            }
            first = end;
        }
        Ok(map)
    }

    /// Collective: rank 0 looks up where the chunks of `columns` lie, and tells.
    fn share_addresses(
        &self,
        set: usize,
        columns: std::ops::Range<u64>,
        container: Option<&mut ContainerWriter>,
        map: &mut ChunkMap,
    ) -> Result<(), OpenError> {
        let mut message = Vec::new();
        let mut looked_up = Ok(());
        if let Some(container) = container {
            let found: Result<Vec<u64>, WriteError> = columns.clone().try_fold(Vec::new(), |mut chunks, column| {
                chunks.extend(container.column_chunks(set, column)?.into_iter().flat_map(|found| found.chunk_offsets));
                Ok(chunks)
            });
            let mut encoder = Encoder::default();
            match found {
                Ok(chunks) => {
                    encoder.word(0).word(chunks.len() as u64);
                    chunks.iter().for_each(|&chunk| {
                        encoder.word(chunk);
                    });
                }
                Err(error) => {
                    encoder.word(1).text(&error.to_string());
                    looked_up = Err(error);
                }
            }
            message = encoder.finish();
        }
        self.file.communicator().broadcast(0, &mut message)?;
        looked_up?;
        let damaged = |damaged: Damaged| OpenError::Settings(damaged.to_string());
        let mut decoder = Decoder::new(&message);
        if decoder.word().map_err(damaged)? == 1 {
            let message = decoder.text().map_err(damaged)?.to_owned();
            return Err(OpenError::Elsewhere { rank: 0, message });
        }
        let count = decoder.count(8).map_err(damaged)?;
        map.extend((0..count).map(|_| decoder.word()).collect::<Result<Vec<_>, _>>().map_err(damaged)?);
        Ok(())
    }

    /// Collective: what rank 0 found damaged, for each set; an error unless that is to be redone.
    fn judge(&self, checked: &Checked) -> Result<Vec<Damage>, OpenError> {
        let mut message = Encoder::default();
        match &checked.failure {
            Some(error) => message.word(1).text(&error.to_string()),
            None => message.word(0).word(checked.damaged.len() as u64),
        };
        for column in checked.damaged.iter().filter(|_| checked.failure.is_none()) {
            message.word(column.set as u64).word(column.column).word(column.steps.0).word(column.steps.1);
            message.text(&column.to_string());
        }
        let mut message = message.finish();
        self.file.communicator().broadcast(0, &mut message)?;
        let (damages, texts) =
            self.decode_damages(&message).map_err(|damaged| OpenError::Settings(damaged.to_string()))??;
        if !texts.is_empty() && self.policy != Replay::Rewrite {
            let count = texts.len();
            let shown = texts.into_iter().take(crate::registry::NAMES_MAX).collect::<Vec<_>>().join("; ");
            return Err(OpenError::Damaged { count, columns: shown });
        }
        Ok(damages)
    }

    #[expect(clippy::type_complexity, reason = "used once")]
    fn decode_damages(&self, bytes: &[u8]) -> Result<Result<(Vec<Damage>, Vec<String>), OpenError>, Damaged> {
        let mut message = Decoder::new(bytes);
        if message.word()? == 1 {
            return Ok(Err(OpenError::Elsewhere { rank: 0, message: message.text()?.to_owned() }));
        }
        let mut damages = vec![Damage::default(); self.state.sets.len()];
        let mut texts = Vec::new();
        for _ in 0..message.count(5 * 8)? {
            let set = usize::try_from(message.word()?).ok().filter(|&set| set < damages.len()).ok_or(Damaged)?;
            let (column, first, last) = (message.word()?, message.word()?, message.word()?);
            damages[set].add(column, (first, last), self.state.rewriting_from);
            texts.push(message.text()?.to_owned());
        }
        Ok(Ok((damages, texts)))
    }

    /// Collective: the rows of unfinished columns, from the file into the windows.
    fn read_back(&self, sets: &mut [LocalSet]) -> Result<(), OpenError> {
        let mut segments: Vec<Segment> = Vec::new();
        for (set, local) in sets.iter().enumerate() {
            local.unfinished_segments(set, &mut segments);
        }
        segments.sort_unstable_by_key(|segment| segment.offset);
        let mut extents = Extents::new();
        for segment in &segments {
            sets[segment.set()].layout.extents(segment, &mut extents);
        }
        let bytes: usize = segments.iter().map(|segment| segment.bytes).sum();
        let room = Buffer::zeroed(bytes);
        let outcome =
            room.as_ref().map(|_| ()).map_err(|error| (0, format!("there is no memory to read back: {error}")));
        let mut buffer = room.unwrap_or(Buffer::Heap(Vec::new()));
        let length = bytes.min(buffer.len());
        let part = Part { outcome, elements: &mut [] };
        self.file.read_all(&extents, &mut [&mut buffer[..length]], &ReadOptions::default(), part)?;
        let mut rest = &buffer[..length];
        let mut scales: Vec<[Vec<u64>; 2]> = sets.iter().map(|_| Default::default()).collect();
        for segment in &segments {
            let (payload, behind) = rest.split_at(segment.bytes);
            rest = behind;
            if let Some(scale) = segment.scale() {
                let words = payload.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
                scales[segment.set()][scale] = words.collect();
            }
        }
        for (local, [steps, times]) in sets.iter_mut().zip(&scales) {
            let rows = local.rows_resumed - local.window.first_row();
            let rows = usize::try_from(rows).expect("a column's rows fit in memory");
            for (&step, &time) in steps.iter().zip(times).take(rows) {
                local.window.begin_row(step, f64::from_bits(time));
            }
        }
        let mut rest = &buffer[..length];
        for segment in &segments {
            let (payload, behind) = rest.split_at(segment.bytes);
            rest = behind;
            let local = &mut sets[segment.set()];
            Arc::clone(&local.layout).restore(segment, payload, &mut local.window);
        }
        Ok(())
    }
}

fn elsewhere(failure: afflux_comm::agree::Failure) -> OpenError {
    OpenError::Elsewhere { rank: failure.rank, message: failure.message }
}
