//! Registration, the messages: every rank's points go to rank 0, which settles them, creates the file and answers.
//!
//! A gather, a scatter of what concerns each, and with it what concerns all, unless that is too much to send to every rank singly: then a
//! broadcast follows. Two or three collectives whatever the number of points, sets and ranks. If a rank refuses its own description,
//! all learn it from the answer.

use std::path::Path;
use std::rc::Rc;

use afflux_comm::{CommError, Communicator};
use afflux_container::{ContainerWriter, Durability, FileSpec, PointSource, ResumeError, SetGeometry, VariableSpec};

use afflux_storage::FileSystemKind;

use crate::builder::{Existing, SeriesBuilder};
use crate::directory::{Block, Directory, DirectoryShape};
use crate::holdings::Placement;
use crate::local_points::Roster;
use crate::memory::RegistrationLoad;
use crate::numbers::Numbers;
use crate::registry::{self, Piece, Registered};
use crate::resume::FileState;
use crate::settings::first_difference;
use crate::wire::{Damaged, Decoder, Encoder};
use crate::{MemoryBound, OpenError};

/// What registration gives a rank.
pub(crate) struct Registration {
    /// Each set and this rank's part of it.
    pub sets: Vec<RegisteredSet>,
    /// What was odd about the points; the same on all ranks.
    pub warnings: Vec<String>,
    /// What the file holds, if it was there and is resumed.
    pub resumed: Option<FileState>,
    /// The file, on rank 0.
    pub container: Option<ContainerWriter>,
    /// The most memory that the writer takes on this rank.
    pub bound: MemoryBound,
}

/// One set and this rank's part of it.
pub(crate) struct RegisteredSet {
    /// The shape of its chunks: the file's, where that is resumed.
    pub geometry: SetGeometry,
    pub placement: Placement,
    pub directory: Rc<Directory>,
}

/// What rank 0 made of the messages, or the rank that is to blame and why.
type Settled = Result<(Vec<Registered>, ContainerWriter, Option<FileState>, MemoryBound), (usize, OpenError)>;

/// What all ranks learn.
#[derive(Default)]
struct Common {
    /// Of each set its chunks, and how its directory is shared out.
    sets: Vec<(SetGeometry, DirectoryShape)>,
    warnings: Vec<String>,
    resumed: Option<FileState>,
}

impl SeriesBuilder {
    /// Collective: registers the points and creates the file.
    pub(crate) fn register(&self, comm: &dyn Communicator) -> Result<Registration, OpenError> {
        let checked = self.check().and_then(|()| self.check_memory(comm.rank(), self.memory_bound()));
        let gathered = comm.gather(0, &self.request(checked.as_ref().err()))?;
        let (mut common, mut replies, mut created) = (Vec::new(), Vec::new(), Ok(None));
        let mut orphans = Vec::new();
        let mut bound = self.memory_bound();
        if comm.rank() == 0 {
            match self.settle(&gathered) {
                Ok((registered, container, resumed, root_bound)) => {
                    bound = root_bound;
                    common = encode_common(&registered, &container, resumed.as_ref());
                    replies = (0..comm.size()).map(|rank| encode_reply(&registered, rank)).collect();
                    orphans = registered.into_iter().map(|set| set.orphans).collect();
                    created = Ok(Some(container));
                }
                Err((rank, error)) => {
                    let mut message = Encoder::default();
                    message.word(1).word(rank as u64).text(&error.to_string());
                    common = message.finish();
                    created = Err(error);
                }
            }
        }
        let (common, reply) = answer(comm, common, replies)?;
        // A rank's own error says more than what rank 0 made of it.
        checked?;
        let container = created?;
        let damaged = |damaged: Damaged| OpenError::Settings(damaged.to_string());
        let Common { sets: shapes, warnings, resumed } = self
            .decode_common(&common)
            .map_err(damaged)?
            .map_err(|(rank, message)| OpenError::Elsewhere { rank, message })?;
        let mut sets = self.decode_reply(&reply, shapes).map_err(damaged)?;
        for (set, fills) in sets.iter_mut().zip(orphans) {
            set.placement.fills = fills;
        }
        Ok(Registration { sets, warnings, resumed, container, bound })
    }

    /// This rank's settings and points, or why there are none.
    pub(crate) fn request(&self, refusal: Option<&OpenError>) -> Vec<u8> {
        let mut message = Encoder::default();
        if let Some(error) = refusal {
            message.word(1).text(&error.to_string());
            return message.finish();
        }
        let settings = self.settings();
        message.word(0).word(settings.len() as u64);
        for line in &settings {
            message.text(line);
        }
        for set in &self.sets {
            message.word(set.points.patches.len() as u64);
            for patch in &set.points.patches {
                Piece::encode(patch, &mut message);
            }
        }
        message.finish()
    }

    /// On rank 0: compares the ranks' settings, settles their points and creates the file.
    fn settle(&self, gathered: &[Vec<u8>]) -> Settled {
        let pieces = self.read_requests(gathered)?;
        // Before anything of that size is made of them.
        let load = RegistrationLoad::of(pieces.iter().flatten().flatten());
        let bound = self.root_memory_bound(load, &vec![0; pieces.len()]);
        self.check_memory(0, bound).map_err(|error| (0, error))?;
        let mut registered = Vec::with_capacity(self.sets.len());
        let mut specs = Vec::with_capacity(self.sets.len());
        for (set, pieces) in self.sets.iter().zip(pieces) {
            let settled = registry::settle(set, pieces).map_err(|error| (0, error))?;
            if settled.points == 0 {
                let problem = "no rank registered a point".to_owned();
                return Err((0, OpenError::Points { set: set.name.clone(), problem }));
            }
            specs.push(registry::set_spec(set, self.chunk_steps));
            registered.push(settled);
        }
        // Now with the points that rank 0 fills.
        let bound = self.bound_on_root(&registered);
        self.check_memory(0, bound).map_err(|error| (0, error))?;
        let spec = FileSpec {
            sets: specs,
            time_units: self.time_units.clone(),
            length_units: self.length_units.clone(),
            attributes: self.attributes.clone(),
            chunk_bytes: self.chunk_bytes,
        };
        let points: Vec<&dyn PointSource> = registered.iter().map(|set| &set.pieces as &dyn PointSource).collect();
        let (container, resumed) = self.take_file(&spec, &points).map_err(|error| (0, error))?;
        registered[0].warnings.extend(file_system_warning(&self.path, container.file().file_system()));
        Ok((registered, container, resumed, bound))
    }

    /// On rank 0: what each rank has of each set, indexed by set and rank, of ranks that describe the same.
    pub(crate) fn read_requests(&self, gathered: &[Vec<u8>]) -> Result<Vec<Vec<Vec<Piece>>>, (usize, OpenError)> {
        let own = self.settings();
        let mut pieces: Vec<Vec<Vec<Piece>>> = self.sets.iter().map(|_| Vec::new()).collect();
        for (rank, bytes) in gathered.iter().enumerate() {
            let mut message = Decoder::new(bytes);
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
            for set in &mut pieces {
                let count = message.count(8).map_err(damaged)?;
                let patches = (0..count).map(|_| Piece::decode(&mut message)).collect::<Result<_, _>>();
                set.push(patches.map_err(damaged)?);
            }
        }
        Ok(pieces)
    }

    /// On rank 0, of ranks that agree on their settings: the points of all groups together are sound, and no point is in two groups
    /// (within one, its own registration says what is to be done about doubles).
    pub(crate) fn settle_points(&self, pieces: Vec<Vec<Vec<Piece>>>, ranks: usize) -> Result<(), (usize, OpenError)> {
        for (set, pieces) in self.sets.iter().zip(pieces) {
            let refuse = |problem: String| Err((0, OpenError::Points { set: set.name.clone(), problem }));
            let mut counts = vec![0_u64; self.groups];
            for (rank, patches) in pieces.iter().enumerate() {
                counts[rank * self.groups / ranks] += patches.iter().map(Piece::points).sum::<u64>();
            }
            if let Some(empty) = counts.iter().position(|&count| count == 0) {
                return refuse(format!("group {empty} has none of its points; write fewer groups"));
            }
            registry::settle(set, pieces).map_err(|error| (0, error))?;
        }
        Ok(())
    }

    /// The most memory that the writer takes on rank 0.
    fn bound_on_root(&self, registered: &[Registered]) -> MemoryBound {
        let load = RegistrationLoad::of(registered.iter().flat_map(|set| set.pieces.all()));
        let fills: Vec<u64> = registered.iter().map(|set| set.orphans.len() as u64).collect();
        self.root_memory_bound(load, &fills)
    }

    /// On rank 0: creates the file, or takes it over.
    fn take_file(
        &self,
        spec: &FileSpec,
        points: &[&dyn PointSource],
    ) -> Result<(ContainerWriter, Option<FileState>), OpenError> {
        let existing = match self.existing {
            Existing::Refuse => afflux_container::Existing::Refuse,
            Existing::Replace => afflux_container::Existing::Replace,
            Existing::Resume(_) => match ContainerWriter::resume_from(&*self.storage, &self.path, spec, points) {
                Ok(mut resumed) => {
                    let state = FileState::of(&resumed);
                    self.make_durable(&mut resumed.writer)?;
                    return Ok((resumed.writer, Some(state)));
                }
                Err(ResumeError::Missing { .. }) => afflux_container::Existing::Refuse,
                Err(error) => return Err(self.master_hint().unwrap_or_else(|| error.into())),
            },
        };
        let mut created = ContainerWriter::create_from(&*self.storage, &self.path, spec, points, existing)?;
        self.make_durable(&mut created)?;
        Ok((created, None))
    }

    /// On rank 0: what the file has so far, and its name, are on the medium before a row is promised to be.
    fn make_durable(&self, container: &mut ContainerWriter) -> Result<(), OpenError> {
        if self.durability == Durability::PowerLoss {
            container.set_durability(&*self.storage, self.durability)?;
        }
        Ok(())
    }

    /// What [`encode_common`] wrote, or the rank that refused and its message.
    fn decode_common(&self, bytes: &[u8]) -> Result<Result<Common, (usize, String)>, Damaged> {
        let mut message = Decoder::new(bytes);
        if message.word()? == 1 {
            let rank = usize::try_from(message.word()?).unwrap_or(usize::MAX);
            return Ok(Err((rank, message.text()?.to_owned())));
        }
        let mut common = Common::default();
        for set in &self.sets {
            let variables: Vec<VariableSpec> = set.variables.iter().map(|variable| variable.spec.clone()).collect();
            let points = message.word()?;
            let per_chunk = (0..variables.len()).map(|_| message.word()).collect::<Result<Vec<_>, _>>()?;
            let mut geometry = SetGeometry::of(points, &variables, self.chunk_steps, self.chunk_bytes);
            geometry.points_per_chunk = per_chunk;
            common.sets.push((geometry, DirectoryShape::decode(&mut message)?));
        }
        let count = message.count(8)?;
        common.warnings = (0..count).map(|_| message.text().map(str::to_owned)).collect::<Result<_, _>>()?;
        if message.word()? == 1 {
            common.resumed = Some(FileState::decode(&mut message)?);
        }
        Ok(Ok(common))
    }

    fn decode_reply(
        &self,
        reply: &[u8],
        shapes: Vec<(SetGeometry, DirectoryShape)>,
    ) -> Result<Vec<RegisteredSet>, Damaged> {
        let mut reply = Decoder::new(reply);
        let sets = self.sets.iter().zip(shapes).map(|(set, (geometry, shape))| {
            let (owned, not_owned) = (Numbers::decode(&mut reply)?, Numbers::decode(&mut reply)?);
            let block = Block::decode(&mut reply)?;
            let roster = Roster::of(&set.points);
            if owned.len() + not_owned.len() != roster.len() {
                return Err(Damaged);
            }
            let placement = Placement { roster, owned, not_owned, fills: Numbers::default() };
            Ok(RegisteredSet { geometry, placement, directory: Rc::new(Directory { shape, block }) })
        });
        sets.collect()
    }
}

/// Sends rank 0's answers: what concerns all, and for each rank what concerns it (nothing, if there is nothing to say to any).
pub(crate) fn answer(
    comm: &dyn Communicator,
    common: Vec<u8>,
    replies: Vec<Vec<u8>>,
) -> Result<(Vec<u8>, Vec<u8>), CommError> {
    /// Of what concerns all, rank 0 sends no more than this in the scatter; sending it rank by rank then costs less than a collective.
    const JOINED_BYTES_MAX: usize = 64 << 10;
    /// In place of the length of the common part: it comes by itself.
    const APART: u64 = u64::MAX;
    let mut messages = Vec::new();
    if comm.rank() == 0 {
        let joined = common.len().saturating_mul(comm.size()) <= JOINED_BYTES_MAX;
        let mut head = (if joined { common.len() as u64 } else { APART }).to_le_bytes().to_vec();
        if joined {
            head.extend_from_slice(&common);
        }
        let mut replies = replies.into_iter();
        messages = (0..comm.size()).map(|_| [&head[..], &replies.next().unwrap_or_default()].concat()).collect();
    }
    let mut message = comm.scatter(0, &messages)?;
    let mut reply = message.split_off(size_of::<u64>());
    let length = u64::from_le_bytes(message.try_into().expect("8 bytes are left"));
    if length == APART {
        let mut common = common;
        comm.broadcast(0, &mut common)?;
        return Ok((common, reply));
    }
    let own = reply.split_off(usize::try_from(length).expect("it came in a message"));
    Ok((reply, own))
}

/// What is left of our promises on a file system whose nodes do not see each other's writes at once and in order.
fn file_system_warning(path: &Path, kind: FileSystemKind) -> Option<String> {
    let name = match kind {
        FileSystemKind::Nfs => "NFS",
        _ if kind.is_coherent() == Some(false) => "a network file system whose clients cache",
        _ => return None,
    };
    Some(format!(
        "{} lies on {name}: ranks of several nodes may lose one another's samples there, and readers on other nodes must wait until it \
         is closed; a second writer may be seen late",
        path.display()
    ))
}

/// The message of [`Common`].
fn encode_common(registered: &[Registered], container: &ContainerWriter, resumed: Option<&FileState>) -> Vec<u8> {
    let mut message = Encoder::default();
    message.word(0);
    for (index, set) in registered.iter().enumerate() {
        message.word(set.points);
        for &points in &container.geometry(index).points_per_chunk {
            message.word(points);
        }
        set.directory.0.encode(&mut message);
    }
    let warnings = || registered.iter().flat_map(|set| &set.warnings);
    message.word(warnings().count() as u64);
    for warning in warnings() {
        message.text(warning);
    }
    message.word(u64::from(resumed.is_some()));
    if let Some(state) = resumed {
        state.encode(&mut message);
    }
    message.finish()
}

fn encode_reply(registered: &[Registered], rank: usize) -> Vec<u8> {
    let mut reply = Encoder::default();
    for set in registered {
        set.owned[rank].encode(&mut reply);
        set.not_owned[rank].encode(&mut reply);
        set.directory.1.get(rank).unwrap_or(&Block::default()).encode(&mut reply);
    }
    reply.finish()
}
