//! Settling what was rewritten: the ranks tell rank 0 how the checksums of columns have changed, before a flush seals them.

use std::collections::{BTreeMap, BTreeSet};

use afflux_comm::Reduce;
use afflux_comm::agree::{Failure, agree};
use afflux_container::ColumnChecksum;

use super::{Damage, Replaying};
use crate::builder::Replay;
use crate::local_set::LocalSet;
use crate::wire::{Damaged, Decoder, Encoder};
use crate::{AppendError, FlushError, SeriesWriter, Step};

/// What rank 0 knows of the checksums of a file that is rewritten; empty on other ranks.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The checksum of each column as it is in the file, by set.
    sums: Vec<Vec<u64>>,
    /// Damaged columns that have not been redone: the step of their last row. What is recorded of them stays wrong.
    damaged: BTreeMap<(usize, u64), Step>,
}

impl Ledger {
    pub fn new(sums: Vec<Vec<u64>>, damages: &[Damage]) -> Self {
        let columns = damages
            .iter()
            .enumerate()
            .flat_map(|(set, damage)| damage.columns.iter().map(move |(&column, &(_, last))| ((set, column), last)));
        Self { sums, damaged: columns.collect() }
    }
}

/// What a flush has to seal beside its own columns; on rank 0.
#[derive(Debug, Default)]
pub(crate) struct Settlement {
    /// Checksums of columns that were rewritten.
    pub columns: Vec<ColumnChecksum>,
    /// Columns in the window that hold damaged rows which have not come again: their checksums must not look right.
    pub still_damaged: BTreeSet<(usize, u64)>,
}

impl SeriesWriter {
    /// What the first row of a resumed run needs: local, but where rows will be rewritten. Then all ranks meet here, since the file must
    /// say from which step on before the first of them touches it.
    pub(crate) fn begin_replay(&mut self, step: Step) -> Result<(), AppendError> {
        let Some(replaying) = &self.replaying else { return Ok(()) };
        let checked = replaying.check_first_step(step, &self.sets);
        if replaying.policy != Replay::Rewrite {
            return checked;
        }
        let comm = self.file.communicator();
        let mut first = [Reduce::min(step)];
        let outcome = checked.as_ref().copied().map_err(|error| (0, error.to_string()));
        let verdict = agree(comm, outcome, &mut first).map_err(FlushError::from)?;
        checked?;
        let elsewhere = |failure: Failure| FlushError::Elsewhere { rank: failure.rank, message: failure.message };
        verdict.map_err(elsewhere)?;
        if first[0].value > replaying.watermark {
            return Ok(());
        }
        let announced = self.container.as_mut().map_or(Ok(()), |container| container.begin_rewrite(first[0].value));
        let outcome = announced.as_ref().copied().map_err(|error| (0, error.to_string()));
        let verdict = agree(comm, outcome, &mut []).map_err(FlushError::from)?;
        announced.map_err(FlushError::from).map_err(|error| self.fail(error))?;
        verdict.map_err(elsewhere).map_err(|error| self.fail(error))?;
        Ok(())
    }

    /// Collective, where rows may have been rewritten since the last flush; a flush of all rows before `flush_step` follows.
    pub(crate) fn settle_replay(&mut self, flush_step: Step) -> Result<Settlement, FlushError> {
        let Some(replaying) = self.replaying.as_mut() else { return Ok(Settlement::default()) };
        let held: u64 = self.sets.iter().map(LocalSet::memory_bytes).sum();
        self.statistics.memory_bytes = self.statistics.memory_bytes.max(held + replaying.memory_bytes());
        let has_ended = flush_step > replaying.watermark;
        if replaying.policy != Replay::Rewrite {
            if has_ended {
                self.replaying = None;
            }
            return Ok(Settlement::default());
        }
        let written = replaying.write_back_all(&self.sets);
        let mut message = Encoder::default();
        message.word(replaying.changes.len() as u64);
        for (&(set, column), &change) in &replaying.changes {
            message.word(set as u64).word(column).word(change);
        }
        let comm = self.file.communicator();
        let outcome = written.as_ref().copied().map_err(|error| (0, error.to_string()));
        let verdict = agree(comm, outcome, &mut [])?;
        written?;
        verdict.map_err(|failure| FlushError::Elsewhere { rank: failure.rank, message: failure.message })?;
        let gathered = comm.gather(0, &message.finish())?;
        replaying.changes.clear();
        let mut settlement = Settlement::default();
        if comm.rank() == 0 {
            match replaying.record(&gathered, flush_step, &self.sets) {
                Ok(recorded) => {
                    settlement = recorded;
                    if let Some(container) = &mut self.container {
                        container.next_rewrite((!has_ended).then_some(flush_step));
                    }
                }
                // Told to all ranks by the flush.
                Err(damaged) => drop(self.deferred.get_or_insert_with(|| damaged.to_string())),
            }
        }
        if has_ended {
            self.statistics.rewritten_bytes += replaying.rewritten_bytes;
            self.replaying = None;
        }
        Ok(settlement)
    }
}

impl Replaying {
    fn write_back_all(&mut self, sets: &[LocalSet]) -> Result<(), FlushError> {
        for (set, local) in sets.iter().enumerate() {
            self.write_back(set, local).map_err(|source| FlushError::Rewrite { set: local.name.clone(), source })?;
        }
        Ok(())
    }

    /// On rank 0: what the gathered changes make of the checksums.
    fn record(&mut self, gathered: &[Vec<u8>], flush_step: Step, sets: &[LocalSet]) -> Result<Settlement, Damaged> {
        let mut settlement = Settlement::default();
        let mut touched = BTreeSet::new();
        for bytes in gathered {
            let mut message = Decoder::new(bytes);
            for _ in 0..message.count(3 * 8)? {
                let set = usize::try_from(message.word()?).map_err(|_| Damaged)?;
                let (column, change) = (message.word()?, message.word()?);
                let sums = self.ledger.sums.get_mut(set).ok_or(Damaged)?;
                let sum = usize::try_from(column).ok().and_then(|column| sums.get_mut(column)).ok_or(Damaged)?;
                *sum = sum.wrapping_add(change);
                touched.insert((set, column));
            }
        }
        let redone = self.ledger.damaged.iter().filter(|&(_, &last)| last < flush_step).map(|(&column, _)| column);
        touched.extend(redone);
        self.ledger.damaged.retain(|_, &mut last| last >= flush_step);
        for (set, column) in touched {
            let local = &sets[set];
            // The columns in the window are summed by the flush itself.
            let is_in_window = column >= local.window.first_row() / local.layout.geometry.chunk_steps;
            if !is_in_window && !self.ledger.damaged.contains_key(&(set, column)) {
                let checksum = self.ledger.sums[set][super::index(column)];
                settlement.columns.push(ColumnChecksum {
                    set,
                    column,
                    rows: local.layout.geometry.chunk_steps,
                    checksum,
                });
            }
        }
        settlement.still_damaged = self.ledger.damaged.keys().copied().collect();
        Ok(settlement)
    }
}
