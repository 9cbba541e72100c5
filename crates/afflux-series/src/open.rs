//! From a description to an open writer: points registered, the file created or taken over by rank 0 and opened on all.

use std::sync::Arc;
use std::time::Instant;

use afflux_collective::{CollectiveFile, Path};
use afflux_comm::agree::agree;
use afflux_comm::{Communicator, Reduce};
use afflux_container::{Durability, ResumeCheck};
use afflux_storage::{OpenMode, StorageFile};

use crate::background::Helpers;
use crate::buffer::Buffer;
use crate::builder::{Existing, Replay, SeriesBuilder};
use crate::local_set::{Lengths, LocalSet};
use crate::registration::{RegisteredSet, Registration};
use crate::replay::Settlement;
use crate::resume::Takeover;
use crate::route::Route;
use crate::schedule::Schedule;
use crate::signal::Watch;
use crate::state::{RowState, WriterState};
use crate::{OpenError, SeriesWriter, Statistics};

/// The file, open on every rank.
struct Opened {
    file: CollectiveFile,
    /// This rank's own handle on it.
    own_file: Arc<dyn StorageFile>,
    path: Path,
    sets: Vec<LocalSet>,
}

impl SeriesBuilder {
    /// Collective: registers the points, creates the file under a temporary name, gives it its own, and opens it on every
    /// rank; or takes over the file that is there ([`Existing::Resume`]). Fails on all ranks or on none.
    pub fn open(self, comm: &dyn Communicator) -> Result<SeriesWriter, OpenError> {
        if self.groups == 1 { self.open_file(comm) } else { self.open_groups(comm) }
    }

    /// Collective: opens one file for all ranks of the communicator.
    pub(crate) fn open_file(self, comm: &dyn Communicator) -> Result<SeriesWriter, OpenError> {
        let begin = Instant::now();
        let comm = comm.duplicate()?;
        let Registration { sets, warnings, mut resumed, mut container, bound } = self.register(&*comm)?;
        if let (Some(state), Existing::Resume(Replay::Rewrite)) = (&mut resumed, self.existing) {
            state.derive_last_steps(self.sets.iter().map(|set| set.cadence_steps));
        }
        let lengths =
            Lengths { chunk_steps: self.chunk_steps, window_steps: self.window_steps, two_windows: self.in_background };
        let writes_scale = comm.rank() == 0;
        let sets: std::io::Result<Vec<LocalSet>> = self
            .sets
            .iter()
            .zip(sets)
            .enumerate()
            .map(|(index, (set, RegisteredSet { geometry, placement, directory }))| {
                let rows = resumed.as_ref().map_or(0, |state| state.sets[index].rows);
                LocalSet::new(set, geometry, placement, directory, writes_scale, rows, lengths)
            })
            .collect();
        let sets = sets.map_err(|error| {
            format!("there is no memory for windows of {} steps ({error}); choose a smaller window", self.window_steps)
        });
        let watch = match &self.seal_on_signal {
            Some(settings) => Some(Watch::new(comm.duplicate()?, settings)),
            None => None,
        };
        let (watch, sets) = match watch.transpose() {
            Ok(watch) => (watch, sets),
            Err(error) => (None, Err(format!("cannot listen to signals: {error}"))),
        };
        let route = Route { choice: self.path_choice, collective_write: self.hints.collective_write };
        let opened = self.open_everywhere(comm, sets, route);
        let Opened { file, own_file, path, mut sets } = match opened {
            Ok(opened) => opened,
            Err(error) => {
                if let Some(container) = container
                    && resumed.is_none()
                {
                    // An empty file in the place of a run that never began would only be in the way.
                    drop(container);
                    let _ = self.storage.remove(&self.path);
                }
                return Err(error);
            }
        };
        let mut replaying = None;
        if let (Some(state), Existing::Resume(policy)) = (&resumed, self.existing) {
            let check = if policy == Replay::Rewrite { ResumeCheck::All } else { self.resume_check };
            let takeover = Takeover { file: &file, own_file: Arc::clone(&own_file), state, policy, check };
            replaying = takeover.run(container.as_mut(), &mut sets)?.map(Box::new);
        }
        let watermark = resumed.as_ref().and_then(|state| state.watermark);
        let mut statistics = Statistics::default();
        statistics.seconds.create = begin.elapsed().as_secs_f64();
        Ok(SeriesWriter {
            file,
            container,
            sets,
            schedule: Schedule::new(self.window_steps, self.flush_seconds).behind(watermark),
            state: WriterState::Open,
            row_state: RowState::resumed(watermark),
            step_offset: self.step_offset,
            step: None,
            watermark,
            epoch: resumed.map_or(1, |state| state.epoch),
            replaying,
            settlement: Settlement::default(),
            first_cause: None,
            deferred: None,
            flight: None,
            watch,
            deadline: None,
            signalled: None,
            in_background: self.in_background,
            is_durable: self.durability == Durability::PowerLoss,
            helpers: self.in_background.then(Helpers::shared),
            helper_bytes_min: self.helper_bytes_min,
            own_file,
            file_path: self.path,
            group: None,
            staging: Buffer::Heap(Vec::new()),
            path,
            memory_bound: bound.of_path(path),
            route,
            last_flush: (Instant::now(), 0),
            statistics,
            warnings,
        })
    }

    /// Collective: opens the created file on every rank and chooses how windows will reach it; `sets` is what this rank made
    /// of its part, or why it could not.
    fn open_everywhere(
        &self,
        comm: Box<dyn Communicator>,
        sets: Result<Vec<LocalSet>, String>,
        route: Route,
    ) -> Result<Opened, OpenError> {
        let shown = self.path.display();
        let opened = sets.and_then(|sets| match self.storage.open(&self.path, OpenMode::ReadWrite) {
            Ok(file) => Ok((file, sets)),
            Err(error) => Err(format!("cannot open {shown}: {error}; is the directory shared by all nodes?")),
        });
        let (mut bytes, mut pieces) = (0, 0);
        for local in opened.iter().flat_map(|(_, sets)| sets) {
            let (more_bytes, more_pieces) = local.layout.pieces();
            bytes += more_bytes;
            pieces += more_pieces;
        }
        let mut layout = [Reduce::sum(bytes), Reduce::sum(pieces), Reduce::max(pieces)];
        let outcome = opened.as_ref().map(|_| ()).map_err(|message| (0, message.clone()));
        if let Err(failure) = agree(&*comm, outcome, &mut layout)? {
            return Err(OpenError::Elsewhere { rank: failure.rank, message: failure.message });
        }
        let (own_file, sets) = opened.expect("no rank failed");
        let path = route.path(layout.map(|element| element.value));
        let file = CollectiveFile::over(comm, Arc::clone(&own_file), self.hints.clone());
        Ok(Opened { file, own_file, path, sets })
    }
}
