//! From a description to an open writer: settings compared, points registered, the file created by rank 0 and opened on all.

use std::time::Instant;

use afflux_collective::{CollectiveFile, Path, Toggle};
use afflux_comm::agree::agree;
use afflux_comm::{Communicator, Reduce};
use afflux_container::{ContainerWriter, FileSpec};
use afflux_storage::OpenMode;

use crate::buffer::Buffer;
use crate::builder::{Existing, SeriesBuilder};
use crate::local_set::{LocalSet, Placement};
use crate::registry::{self, Registered};
use crate::schedule::Schedule;
use crate::state::{RowState, WriterState};
use crate::wire::{Damaged, Decoder, Encoder};
use crate::{OpenError, STEP_MAX, SeriesWriter, Statistics};

/// A rank whose contiguous pieces are this long on average writes them itself: an exchange would copy every byte once more to
/// save system calls that cost little beside the copy.
const INDEPENDENT_PIECE_BYTES: u64 = 32 << 10;

/// A rank with so few pieces a column writes them as they are: the calls cost less than the messages of an exchange. (Measured
/// on thread ranks and a local file system, from 24 ranks with 128 points to 768 with 4,096: directly 5, 42, 228 ms for a
/// run, by exchange 9, 52, 280 ms.)
const INDEPENDENT_PIECES: u64 = 16;

/// What registration gives a rank.
struct Registration {
    /// This rank's part of each set.
    placements: Vec<Placement>,
    /// What was odd about the points.
    warnings: Vec<String>,
    /// The created file, on rank 0.
    container: Option<ContainerWriter>,
}

impl SeriesBuilder {
    /// Collective: registers the points, creates the file under a temporary name, gives it its own, and opens it on every
    /// rank. Fails on all ranks or on none.
    pub fn open(self, comm: &dyn Communicator) -> Result<SeriesWriter, OpenError> {
        let begin = Instant::now();
        let comm = comm.duplicate()?;
        let Registration { placements, warnings, container } = self.register(&*comm)?;
        let sets: std::io::Result<Vec<LocalSet>> = self
            .sets
            .iter()
            .zip(&placements)
            .map(|(set, placement)| {
                LocalSet::new(set, placement, self.chunk_steps, self.chunk_bytes, self.window_steps)
            })
            .collect();
        let sets = sets.map_err(|error| {
            format!("there is no memory for windows of {} steps ({error}); choose a smaller window", self.window_steps)
        });
        let (file, path, sets) = match self.open_everywhere(comm, sets) {
            Ok(opened) => opened,
            Err(error) => {
                if let Some(container) = container {
                    // An empty file in the place of a run that never began would only be in the way.
                    drop(container);
                    let _ = self.storage.remove(&self.path);
                }
                return Err(error);
            }
        };
        let mut statistics = Statistics::default();
        statistics.seconds.create = begin.elapsed().as_secs_f64();
        Ok(SeriesWriter {
            file,
            container,
            sets,
            schedule: Schedule::new(self.window_steps, self.flush_seconds),
            state: WriterState::Open,
            row_state: RowState::Filling,
            step: None,
            watermark: None,
            first_cause: None,
            deferred: None,
            staging: Buffer::Heap(Vec::new()),
            staged_bytes: 0,
            path,
            last_flush: Instant::now(),
            statistics,
            warnings,
        })
    }

    /// What this rank can check alone.
    fn check(&self) -> Result<(), OpenError> {
        let refuse = |text: String| Err(OpenError::Settings(text));
        if self.sets.is_empty() {
            return refuse("a file needs at least one set: add one with `.set(ProbeSet::new(..))`".to_owned());
        }
        if self.window_steps == 0 || self.chunk_steps == 0 || self.chunk_bytes == 0 {
            return refuse("window_steps, chunk_steps and chunk_bytes must be at least 1".to_owned());
        }
        if let Some(seconds) = self.flush_seconds
            && !(seconds.is_finite() && seconds > 0.0)
        {
            return refuse(format!("flush_seconds is {seconds}; give a positive number"));
        }
        for set in &self.sets {
            if set.variables.is_empty() {
                return refuse(format!("set `{}` needs at least one variable", set.name));
            }
            if set.cadence_steps > STEP_MAX {
                let name = &set.name;
                return refuse(format!("set `{name}`: a cadence of {} steps is beyond {STEP_MAX}", set.cadence_steps));
            }
            if set.cadence_steps == 0 {
                return refuse(format!(
                    "set `{}`: a cadence of 0 steps means nothing; give 1 for every step",
                    set.name
                ));
            }
            if let Some(variable) = set.variables.iter().find(|variable| variable.spec.components == Some(0)) {
                return refuse(format!("variable `{}` of set `{}` has 0 components", variable.spec.name, set.name));
            }
            registry::check_points(set)?;
        }
        Ok(())
    }

    /// The settings that all ranks must share, a line each.
    fn settings(&self) -> Vec<String> {
        let mut lines = vec![
            format!("path {}", self.path.display()),
            format!("window_steps {}", self.window_steps),
            format!("flush_seconds {:?}", self.flush_seconds),
            format!("chunk_steps {}", self.chunk_steps),
            format!("chunk_bytes {}", self.chunk_bytes),
            format!("existing {:?}", self.existing),
            format!("units of time `{}` and length `{}`", self.time_units, self.length_units),
            format!("attributes {:?}", self.attributes),
            format!("write_path {:?}", self.path_choice),
            format!("hints {:?}", self.hints),
        ];
        for set in &self.sets {
            lines.push(format!("set `{}` every {} steps", set.name, set.cadence_steps));
            lines.push(format!("policies of set `{}`: {:?}, {:?}", set.name, set.duplicates, set.orphans));
            for variable in &set.variables {
                lines.push(format!("variable {:?} of set `{}`", variable.spec, set.name));
            }
        }
        lines
    }

    /// Collective: two messages a rank, whatever the number of points.
    fn register(&self, comm: &dyn Communicator) -> Result<Registration, OpenError> {
        let checked = self.check();
        let mut message = Encoder::default();
        match &checked {
            Err(error) => {
                message.word(1).text(&error.to_string());
            }
            Ok(()) => {
                let settings = self.settings();
                message.word(0).word(settings.len() as u64);
                for line in &settings {
                    message.text(line);
                }
                for set in &self.sets {
                    registry::encode_points(set, &mut message);
                }
            }
        }
        let gathered = comm.gather(0, &message.finish())?;
        let mut created = Ok(None);
        let mut replies = Vec::new();
        let mut fills = Vec::new();
        if comm.rank() == 0 {
            match self.create(gathered) {
                Ok((registered, container)) => {
                    fills = registered.iter().map(|set| set.orphans.clone()).collect();
                    replies = (0..comm.size()).map(|rank| encode_reply(&registered, rank)).collect();
                    created = Ok(Some(container));
                }
                Err((rank, error)) => {
                    let mut reply = Encoder::default();
                    reply.word(1).word(rank as u64).text(&error.to_string());
                    replies = vec![reply.finish(); comm.size()];
                    created = Err(error);
                }
            }
        }
        let reply = comm.scatter(0, &replies)?;
        // A rank's own error says more than what rank 0 made of it.
        checked?;
        let container = created?;
        let damaged = |damaged: Damaged| OpenError::Settings(damaged.to_string());
        let mut reply = Decoder::new(&reply);
        if reply.word().map_err(damaged)? == 1 {
            let rank = usize::try_from(reply.word().map_err(damaged)?).unwrap_or(usize::MAX);
            let message = reply.text().map_err(damaged)?.to_owned();
            return Err(OpenError::Elsewhere { rank, message });
        }
        let (mut placements, warnings) = decode_reply(&mut reply, self.sets.len()).map_err(damaged)?;
        for (index, placement) in placements.iter_mut().enumerate() {
            placement.writes_scale = comm.rank() == 0;
            placement.fills = fills.get(index).cloned().unwrap_or_default();
        }
        Ok(Registration { placements, warnings, container })
    }

    /// On rank 0: compares the ranks' settings, settles their points and creates the file. An error comes with the rank it lies with.
    fn create(&self, gathered: Vec<Vec<u8>>) -> Result<(Vec<Registered>, ContainerWriter), (usize, OpenError)> {
        let own = self.settings();
        let mut points: Vec<Vec<Vec<crate::Point>>> = self.sets.iter().map(|_| Vec::new()).collect();
        for (rank, bytes) in gathered.into_iter().enumerate() {
            let mut message = Decoder::new(&bytes);
            let damaged = |damaged: Damaged| (rank, OpenError::Settings(damaged.to_string()));
            if message.word().map_err(damaged)? == 1 {
                let text = message.text().map_err(damaged)?.to_owned();
                return Err((rank, OpenError::Elsewhere { rank, message: text }));
            }
            let lines = message.count(8).map_err(damaged)?;
            let settings = (0..lines).map(|_| message.text()).collect::<Result<Vec<_>, _>>().map_err(damaged)?;
            if let Some(difference) = first_difference(&own, &settings) {
                return Err((rank, OpenError::Disagree { rank, difference }));
            }
            for list in &mut points {
                list.push(registry::decode_points(&mut message).map_err(damaged)?);
            }
        }
        let mut registered = Vec::with_capacity(self.sets.len());
        let mut specs = Vec::with_capacity(self.sets.len());
        for (set, list) in self.sets.iter().zip(points) {
            let mut settled = registry::settle(set, list).map_err(|error| (0, error))?;
            if settled.table.is_empty() {
                let problem = "no rank registered a point".to_owned();
                return Err((0, OpenError::Points { set: set.name.clone(), problem }));
            }
            specs.push(registry::set_spec(set, std::mem::take(&mut settled.table), self.chunk_steps));
            registered.push(settled);
        }
        let spec = FileSpec {
            sets: specs,
            time_units: self.time_units.clone(),
            length_units: self.length_units.clone(),
            attributes: self.attributes.clone(),
            chunk_bytes: self.chunk_bytes,
        };
        let existing = match self.existing {
            Existing::Refuse => afflux_container::Existing::Refuse,
            Existing::Replace => afflux_container::Existing::Replace,
        };
        let container = ContainerWriter::create(self.storage.clone(), &self.path, &spec, existing)
            .map_err(|error| (0, error.into()))?;
        Ok((registered, container))
    }

    /// Collective: opens the created file on every rank and chooses how windows will reach it; `sets` is what this rank made
    /// of its part, or why it could not.
    fn open_everywhere(
        &self,
        comm: Box<dyn Communicator>,
        sets: Result<Vec<LocalSet>, String>,
    ) -> Result<(CollectiveFile, Path, Vec<LocalSet>), OpenError> {
        let shown = self.path.display();
        let opened = sets.and_then(|sets| match self.storage.open(&self.path, OpenMode::ReadWrite) {
            Ok(file) => Ok((file, sets)),
            Err(error) => Err(format!("cannot open {shown}: {error}; is the directory shared by all nodes?")),
        });
        let (mut bytes, mut pieces) = (0, 0);
        for local in opened.iter().flat_map(|(_, sets)| sets) {
            let (more_bytes, more_pieces) = local.pieces();
            bytes += more_bytes;
            pieces += more_pieces;
        }
        let mut layout = [Reduce::sum(bytes), Reduce::sum(pieces), Reduce::max(pieces)];
        let outcome = opened.as_ref().map(|_| ()).map_err(|message| (0, message.clone()));
        if let Err(failure) = agree(&*comm, outcome, &mut layout)? {
            return Err(OpenError::Elsewhere { rank: failure.rank, message: failure.message });
        }
        let (file, sets) = opened.expect("no rank failed");
        let [bytes, pieces, pieces_max] = layout.map(|element| element.value);
        let direct = match self.hints.collective_write {
            Toggle::Enable => false,
            Toggle::Disable => true,
            _ => pieces_max <= INDEPENDENT_PIECES || bytes / pieces.max(1) >= INDEPENDENT_PIECE_BYTES,
        };
        let path = self.path_choice.unwrap_or(if direct { Path::Independent } else { Path::TwoPhase });
        Ok((CollectiveFile::over(comm, file, self.hints.clone()), path, sets))
    }
}

fn first_difference(own: &[String], other: &[&str]) -> Option<String> {
    let differing = own.iter().zip(other).find(|(mine, theirs)| mine != *theirs);
    match differing {
        Some((mine, theirs)) => Some(format!("rank 0 has {mine}, the other {theirs}")),
        None => match (own.get(other.len()), other.get(own.len())) {
            (Some(mine), _) => Some(format!("only rank 0 has {mine}")),
            (None, Some(theirs)) => Some(format!("rank 0 lacks {theirs}")),
            (None, None) => None,
        },
    }
}

fn encode_reply(registered: &[Registered], rank: usize) -> Vec<u8> {
    let mut reply = Encoder::default();
    reply.word(0);
    for set in registered {
        let total = set.positions.iter().flatten().filter(|&&position| position != registry::NOT_OWNED).count();
        reply.word((total + set.orphans.len()) as u64).word(set.positions[rank].len() as u64);
        for &position in &set.positions[rank] {
            reply.word(position);
        }
    }
    reply.word(registered.iter().map(|set| set.warnings.len() as u64).sum());
    for warning in registered.iter().flat_map(|set| &set.warnings) {
        reply.text(warning);
    }
    reply.finish()
}

fn decode_reply(reply: &mut Decoder<'_>, sets: usize) -> Result<(Vec<Placement>, Vec<String>), Damaged> {
    let placements = (0..sets)
        .map(|_| {
            let total = reply.word()?;
            let count = reply.count(8)?;
            let positions = (0..count).map(|_| reply.word()).collect::<Result<_, _>>()?;
            Ok(Placement { total, positions, fills: Vec::new(), writes_scale: false })
        })
        .collect::<Result<_, Damaged>>()?;
    let count = reply.count(8)?;
    let warnings = (0..count).map(|_| reply.text().map(str::to_owned)).collect::<Result<_, _>>()?;
    Ok((placements, warnings))
}
