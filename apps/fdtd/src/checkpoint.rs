//! Checkpoints: the state of a simulation in one file, and the way back from it on any number of ranks.
//!
//! A checkpoint is written collectively in the order of the grid, not of the ranks (`header.rs` draws the file), so that other
//! ranks, or as many in other boxes, read it. Values travel as bits: a run that goes on from a checkpoint is the run that
//! was not interrupted. It is written beside its name and renamed when it is whole and on the medium, so that a kill or a
//! full disk at any moment leaves the checkpoint before it.
//!
//! The sources have no state of their own (they are functions of time), and probes, output and the number of steps may
//! differ between the run that wrote a checkpoint and the one that reads it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use afflux::collective::{CollectiveError, CollectiveFile, Hints, Part, ReadOptions, WriteOptions};
use afflux::storage::{OpenMode, Storage, StorageFile, StorageFileExt};

use crate::checkpoint::header::{FilePlan, HEADER_BYTES, Header};
use crate::comm::agree::agree;
use crate::comm::{CommError, Communicator, Reduce};
use crate::error::SimulationError;
use crate::model::Model;
use crate::simulation::Simulation;

mod header;

/// What is put behind the name of a checkpoint while it is written.
const TEMPORARY_SUFFIX: &str = ".new";

/// What a checkpoint cost.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Saved {
    /// The step at which a run goes on from it.
    pub step: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Wall time, seconds.
    pub seconds: f64,
}

/// A checkpoint that could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system refused.
    #[error("checkpoint {}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was to be done.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The name belongs to something that is no file.
    #[error("checkpoint {}: is not a regular file, and is not replaced by one", path.display())]
    NotAFile {
        /// The name.
        path: PathBuf,
    },
    /// The ranks could not write or read the fields together.
    #[error("checkpoint {}: {source}", path.display())]
    Fields {
        /// The file.
        path: PathBuf,
        /// What went wrong, on which rank.
        source: CollectiveError,
    },
    /// The file is something else.
    #[error("{} is not a checkpoint of this solver: {problem}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// How it is known.
        problem: String,
    },
    /// The file is not as it was written.
    #[error("checkpoint {} is damaged: {problem}; restart from an older one, or from the beginning", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        problem: String,
    },
    /// The checkpoint belongs to another model.
    #[error(
        "checkpoint {} was written for another model: {differences}; \
         only `title`, `steps`, `probes`, `output` and `limits` may change at a restart", path.display()
    )]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// The keys whose values differ.
        differences: String,
    },
    /// The simulation that was to take the state could not be set up or brought up to date.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// Another rank failed.
    #[error("rank {rank}: {message}")]
    OtherRank {
        /// The lowest rank that failed.
        rank: usize,
        /// Its message.
        message: String,
    },
    /// The ranks could not speak to one another.
    #[error(transparent)]
    Comm(#[from] CommError),
}

impl CheckpointError {
    /// Whether the file is at fault, and not the world around it.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }

    fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), action, source }
    }
}

/// Collective: whether a checkpoint can be written under this name, found out before the first hours of a run are spent.
pub fn check_writable(comm: &dyn Communicator, storage: &dyn Storage, path: &Path) -> Result<(), CheckpointError> {
    let attempt = || {
        let temporary = temporary_path(path);
        create(storage, path, &temporary)?;
        storage.remove(&temporary).map_err(CheckpointError::io(path, "remove what was created"))
    };
    settle(comm, if comm.rank() == 0 { attempt() } else { Ok(()) })
}

impl<'a> Simulation<'a> {
    /// Collective: writes the present state to `path`, in place of an older checkpoint. When it returns, the new one is whole
    /// and on the medium; on an error the older one is as it was.
    ///
    /// # Errors
    /// On all ranks if any rank fails.
    pub fn save(&self, storage: &dyn Storage, path: &Path) -> Result<Saved, CheckpointError> {
        let begin = Instant::now();
        let plan = FilePlan::new(self.model(), self.grid());
        let temporary = temporary_path(path);
        let result = self.write_and_rename(storage, path, &temporary, &plan);
        if result.is_err() && self.comm().rank() == 0 {
            // What is left of it is of no use; the first error says more than that it stays.
            let _ = storage.remove(&temporary);
        }
        result?;
        Ok(Saved { step: self.step_index(), bytes: plan.file_bytes(), seconds: begin.elapsed().as_secs_f64() })
    }

    fn write_and_rename(
        &self,
        storage: &dyn Storage,
        path: &Path,
        temporary: &Path,
        plan: &FilePlan,
    ) -> Result<(), CheckpointError> {
        let comm = self.comm();
        let created = if comm.rank() == 0 { create(storage, path, temporary).map(Some) } else { Ok(None) };
        let file = match settle(comm, created)? {
            Some(file) => Ok(file),
            None => storage.open(temporary, OpenMode::ReadWrite).map_err(CheckpointError::io(path, "open it")),
        };
        let file = settle(comm, file)?;

        let parts = self.state_parts();
        let (extents, checksum) = plan.describe(&parts);
        let data: Vec<&[u8]> =
            parts.iter().flat_map(|part| part.rows(&part.place.cells)).map(bytemuck::cast_slice).collect();
        let mut elements = [Reduce::sum(checksum)];
        let fields = |source| CheckpointError::Fields { path: path.to_owned(), source };
        CollectiveFile::new(comm, Arc::clone(&file), Hints::default())
            .and_then(|collective| {
                let part = Part { outcome: Ok(()), elements: &mut elements };
                collective.write_all(&extents, &data, &WriteOptions::default(), part)
            })
            .map_err(fields)?;

        let header = Header::new(self.model(), self.grid(), self.step_index(), plan, elements[0].value);
        let finished = || {
            if comm.rank() == 0 {
                file.write_all_at(&header.encode(), 0).map_err(CheckpointError::io(path, "write its header"))?;
            }
            file.sync_data().map_err(CheckpointError::io(path, "bring it to the medium"))
        };
        settle(comm, finished())?;
        let named = || {
            storage.rename_replace(temporary, path).map_err(CheckpointError::io(path, "give it its name"))?;
            storage
                .sync_directory(directory_of(path))
                .map_err(CheckpointError::io(path, "bring its name to the medium"))
        };
        settle(comm, if comm.rank() == 0 { named() } else { Ok(()) })
    }

    /// Collective: sets the model up as [`Self::new`] does, and gives it the state of a checkpoint that was written on any
    /// number of ranks.
    ///
    /// # Errors
    /// On all ranks if any rank fails: as [`Self::new`], and where the file is absent, damaged, or of another model.
    pub fn restart(
        model: &'a Model,
        comm: &'a dyn Communicator,
        storage: &dyn Storage,
        path: &Path,
    ) -> Result<Self, CheckpointError> {
        let mut simulation = Self::new(model, comm)?;
        let file = storage.open(path, OpenMode::Read).map_err(CheckpointError::io(path, "open it"));
        let file = settle(comm, file)?;
        let plan = FilePlan::new(model, simulation.grid());
        let checked = if comm.rank() == 0 { read_header(&*file, path, &simulation, &plan) } else { Ok(Vec::new()) };
        let mut header = settle(comm, checked)?;
        comm.broadcast(0, &mut header)?;
        let header = Header::decode(&header).ok_or_else(|| CheckpointError::Damaged {
            path: path.to_owned(),
            problem: "its header did not reach this rank".to_owned(),
        })?;
        simulation.read_fields(&file, path, &plan, &header)?;
        simulation.begin_at(header.step)?;
        Ok(simulation)
    }

    fn read_fields(
        &mut self,
        file: &Arc<dyn StorageFile>,
        path: &Path,
        plan: &FilePlan,
        header: &Header,
    ) -> Result<(), CheckpointError> {
        let comm = self.comm();
        let fields = |source| CheckpointError::Fields { path: path.to_owned(), source };
        let (extents, _) = plan.describe(&self.state_parts());
        let mut buffers: Vec<&mut [u8]> = Vec::new();
        for part in self.state_parts_mut() {
            let cells = part.place.cells;
            buffers.extend(part.into_rows(&cells).map(bytemuck::cast_slice_mut));
        }
        CollectiveFile::new(comm, Arc::clone(file), Hints::default())
            .and_then(|collective| collective.read_all(&extents, &mut buffers, &ReadOptions::default(), Part::none()))
            .map_err(fields)?;
        let (_, checksum) = plan.describe(&self.state_parts());
        let mut elements = [Reduce::sum(checksum)];
        comm.all_reduce(&mut elements)?;
        if elements[0].value == header.checksum {
            return Ok(());
        }
        let problem = "the checksum of its fields is not the one in its header".to_owned();
        Err(CheckpointError::Damaged { path: path.to_owned(), problem })
    }
}

/// Creates the temporary file, in place of one that a killed run left.
fn create(storage: &dyn Storage, path: &Path, temporary: &Path) -> Result<Arc<dyn StorageFile>, CheckpointError> {
    let io = |action| CheckpointError::io(path, action);
    let replaces_other = |name: &Path| Ok(storage.exists(name)? && !storage.is_regular_file(name)?);
    for name in [path, temporary] {
        if replaces_other(name).map_err(io("look it up"))? {
            return Err(CheckpointError::NotAFile { path: name.to_owned() });
        }
    }
    if storage.exists(temporary).map_err(io("look it up"))? {
        storage.remove(temporary).map_err(io("remove what an interrupted one left"))?;
    }
    storage.open(temporary, OpenMode::CreateNew).map_err(io("create it"))
}

/// Rank 0: the bytes of the header, when the file is a whole checkpoint of this model.
fn read_header(
    file: &dyn StorageFile,
    path: &Path,
    simulation: &Simulation<'_>,
    plan: &FilePlan,
) -> Result<Vec<u8>, CheckpointError> {
    let mut bytes = vec![0; HEADER_BYTES];
    let found = file.read_full_at(&mut bytes, 0).map_err(CheckpointError::io(path, "read its header"))?;
    let length = file.len().map_err(CheckpointError::io(path, "ask for its length"))?;
    header::check(&bytes[..found], length, simulation.model(), simulation.grid(), plan).map_err(|problem| {
        let path = path.to_owned();
        match problem {
            header::Problem::Foreign(problem) => CheckpointError::Foreign { path, problem },
            header::Problem::Damaged(problem) => CheckpointError::Damaged { path, problem },
            header::Problem::OtherModel(differences) => CheckpointError::OtherModel { path, differences },
        }
    })?;
    Ok(bytes)
}

/// Collective: one verdict. The rank that failed returns its own error, the others that of the lowest such rank.
fn settle<T>(comm: &dyn Communicator, result: Result<T, CheckpointError>) -> Result<T, CheckpointError> {
    let outcome = result.as_ref().map(|_| ()).map_err(|error| (0, error.to_string()));
    match (result, agree(comm, outcome, &mut [])?) {
        (Ok(value), Ok(())) => Ok(value),
        (Err(own), _) => Err(own),
        (Ok(_), Err(failure)) => Err(CheckpointError::OtherRank { rank: failure.rank, message: failure.message }),
    }
}

fn temporary_path(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(TEMPORARY_SUFFIX);
    name.into()
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
