//! Groups: several files, each of a group of ranks, and a master that shows them as one.
//!
//! Every group is a writer of its own on a communicator of its own. Groups meet twice: when they are opened and when they are closed,
//! each time for one verdict on all ranks and for the master, which rank 0 writes from the files. In between no message goes from one
//! group to another; a group that fails tells the others at the close, a rank that drops its writer makes their close fail.
//!
//! Opening:
//! 1. Descriptions go to rank 0, in the message that registration uses: ranks that ask for other numbers of groups, or none, are told
//!    so. Rank 0 looks at what files there are and answers with their names.
//! 2. Each group opens its file. A verdict: if one cannot, new files of the others are removed.
//! 3. Rank 0 writes the master, with what all groups have sealed (nothing, unless they were resumed). A verdict.
//!
//! A killed creation leaves files of groups in which nothing is sealed, and perhaps no master: resumed, what is missing is created.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use afflux_comm::Communicator;
use afflux_comm::agree::{Failure, agree};
use afflux_container::{CreateError, SeriesFile, group_path, listed_groups, write_master};
use afflux_storage::Storage;

use crate::builder::{Existing, SeriesBuilder};
use crate::registration;
use crate::wire::{Damaged, Decoder, Encoder};
use crate::{FlushError, LocalPoints, OpenError, Orphans, SeriesWriter, Statistics};

/// What a writer knows of the other groups.
pub(crate) struct Group {
    /// All ranks of all groups.
    world: Box<dyn Communicator>,
    index: usize,
    master: PathBuf,
    files: Vec<PathBuf>,
    /// Whether the ranks of other groups need not be told any more.
    settled: bool,
}

/// What rank 0 decides about the files.
struct Plan {
    files: Vec<PathBuf>,
    /// Files of a master that is replaced, which the new one has no use for.
    stale: Vec<PathBuf>,
}

impl SeriesBuilder {
    /// Collective: opens the file of this rank's group, and the master.
    pub(crate) fn open_groups(mut self, comm: &dyn Communicator) -> Result<SeriesWriter, OpenError> {
        let world = comm.duplicate()?;
        let plan = self.plan(&*world)?;
        let index = world.rank() * self.groups / world.size();
        let color = u32::try_from(index).expect("no more groups than ranks, which are counted in 32 bits");
        let own = world.split(Some(color), 0)?.expect("a colour was given");
        let (storage, existing) = (Arc::clone(&self.storage), self.existing);
        let master = std::mem::replace(&mut self.path, plan.files[index].clone());
        let mut group = Group { world, index, master, files: plan.files, settled: false };
        self.groups = 1;
        for set in &mut self.sets {
            // Who has all points is known by now, and no group has.
            set.expected = LocalPoints::new();
        }
        let opened = self.open_file(&*own);
        let outcome = opened.as_ref().map(|_| ()).map_err(ToString::to_string);
        let verdict = group.verdict(outcome)?;
        let verdict = match verdict {
            Err(failure) => Err(failure),
            Ok(()) => {
                let written =
                    if group.world.rank() == 0 { group.show(existing, &*storage, &plan.stale) } else { Ok(()) };
                let verdict = group.verdict(written.as_ref().map_err(ToString::to_string).copied())?;
                if let Err(error) = written {
                    discard(opened, &*own, &*storage, &group.files[index]);
                    group.settled = true;
                    return Err(error);
                }
                verdict
            }
        };
        if let Err(failure) = verdict {
            group.settled = true;
            return Err(match discard(opened, &*own, &*storage, &group.files[index]) {
                Some(error) => error,
                None => OpenError::Elsewhere { rank: failure.rank, message: failure.message },
            });
        }
        let mut writer = opened?;
        writer.group = Some(group);
        Ok(writer)
    }

    /// Collective: the files, or why there is nothing to open; one verdict.
    fn plan(&self, world: &dyn Communicator) -> Result<Plan, OpenError> {
        let checked = self.check().and_then(|()| self.check_groups(world.size()));
        let gathered = world.gather(0, &self.request(checked.as_ref().err()))?;
        let mut answer = Vec::new();
        let mut planned = None;
        if world.rank() == 0 {
            let plan = self
                .read_requests(&gathered)
                .and_then(|pieces| self.settle_points(pieces, world.size()))
                .and_then(|()| self.look().map_err(|error| (0, error)));
            let mut message = Encoder::default();
            match &plan {
                Ok(plan) => {
                    message.word(0);
                    for path in &plan.files {
                        message.text(&path.to_string_lossy());
                    }
                }
                Err((rank, error)) => {
                    message.word(1).word(*rank as u64).text(&error.to_string());
                }
            }
            answer = message.finish();
            planned = Some(plan);
        }
        // As registration answers, so that ranks which ask for one file and for groups understand each other.
        let (answer, _) = registration::answer(world, answer, Vec::new())?;
        // A rank's own error says more than what rank 0 made of it.
        checked?;
        if let Some(plan) = planned {
            return plan.map_err(|(_, error)| error);
        }
        let files = self.decode_plan(&answer).map_err(|damaged| OpenError::Settings(damaged.to_string()))?;
        let files = files.map_err(|(rank, message)| OpenError::Elsewhere { rank, message })?;
        Ok(Plan { files, stale: Vec::new() })
    }

    fn decode_plan(&self, answer: &[u8]) -> Result<Result<Vec<PathBuf>, (usize, String)>, Damaged> {
        let mut message = Decoder::new(answer);
        if message.word()? == 1 {
            let rank = usize::try_from(message.word()?).unwrap_or(usize::MAX);
            return Ok(Err((rank, message.text()?.to_owned())));
        }
        (0..self.groups).map(|_| Ok(PathBuf::from(message.text()?))).collect::<Result<_, _>>().map(Ok)
    }

    /// What this rank can check alone of the groups.
    fn check_groups(&self, ranks: usize) -> Result<(), OpenError> {
        if self.groups == 0 || self.groups > ranks {
            let text = format!("{} groups of {ranks} ranks cannot be: give 1 to {ranks}", self.groups);
            return Err(OpenError::Settings(text));
        }
        if self.path.to_str().is_none() {
            return Err(OpenError::Settings(
                "with groups the file needs a name in Unicode: the master names files".into(),
            ));
        }
        match self.sets.iter().find(|set| !set.expected.patches.is_empty() && set.orphans == Orphans::Fill) {
            None => Ok(()),
            Some(set) => Err(OpenError::Points {
                set: set.name.clone(),
                problem: "points that nobody registers are filled in one shared file only: leave them out, or write one group".into(),
            }),
        }
    }

    /// On rank 0: what files there are, and whether they may be used.
    fn look(&self) -> Result<Plan, OpenError> {
        let named: Vec<PathBuf> = (0..self.groups).map(|group| group_path(&self.path, group)).collect();
        let is_there = |path: &Path| self.storage.exists(path).map_err(|error| cannot_look(path, &error));
        let master_is_there = is_there(&self.path)?;
        let mut present = Vec::new();
        for path in &named {
            present.push(is_there(path)?);
        }
        let taken = match named.iter().zip(&present).find(|&(_, &is_there)| is_there) {
            _ if master_is_there => Some(self.path.clone()),
            found => found.map(|(path, _)| path.clone()),
        };
        match self.existing {
            Existing::Refuse => match taken {
                Some(path) => Err(CreateError::Exists { path }.into()),
                None => Ok(Plan { files: named, stale: Vec::new() }),
            },
            Existing::Replace => {
                let listed = if master_is_there { listed_groups(&self.path).ok().flatten() } else { None };
                let stale = listed.unwrap_or_default().into_iter().filter(|path| !named.contains(path)).collect();
                Ok(Plan { files: named, stale })
            }
            Existing::Resume(_) if master_is_there => self.look_at_master(),
            Existing::Resume(_) => {
                self.look_without_master(&named, &present)?;
                Ok(Plan { files: named, stale: Vec::new() })
            }
        }
    }

    /// On rank 0: the files that a master lists, all of which must be there.
    fn look_at_master(&self) -> Result<Plan, OpenError> {
        let shown = self.path.display();
        let listed = listed_groups(&self.path).map_err(|error| OpenError::Settings(error.to_string()))?;
        let Some(files) = listed else {
            let text = format!("{shown} is one shared file and no master of groups: resume it without groups");
            return Err(OpenError::Settings(text));
        };
        if files.len() != self.groups {
            let text = format!("{shown} has {} groups, not {}: resume it with groups({0})", files.len(), self.groups);
            return Err(OpenError::Settings(text));
        }
        for path in &files {
            if !self.storage.exists(path).map_err(|error| cannot_look(path, &error))? {
                let missing = path.display();
                return Err(OpenError::Settings(format!(
                    "{missing}, the file of a group of {shown}, is missing: put it back"
                )));
            }
        }
        Ok(Plan { files, stale: Vec::new() })
    }

    /// On rank 0: a creation was cut off, or the master was lost. A file may be made anew only if no other has samples.
    fn look_without_master(&self, named: &[PathBuf], present: &[bool]) -> Result<(), OpenError> {
        let Some((missing, _)) = named.iter().zip(present).find(|&(_, &is_there)| !is_there) else { return Ok(()) };
        for (path, _) in named.iter().zip(present).filter(|&(_, &is_there)| is_there) {
            let file = SeriesFile::open(path).map_err(|error| OpenError::Settings(error.to_string()))?;
            if file.state().watermark.is_some() {
                let (there, missing) = (path.display(), missing.display());
                let text =
                    format!("{there} has samples, and {missing}, the file of another group, is missing: put it back");
                return Err(OpenError::Settings(text));
            }
        }
        Ok(())
    }

    /// Why a file cannot be resumed as one, if it is the master of groups.
    pub(crate) fn master_hint(&self) -> Option<OpenError> {
        let files = listed_groups(&self.path).ok().flatten()?;
        let (shown, count) = (self.path.display(), files.len());
        Some(OpenError::Settings(format!("{shown} is the master of {count} groups: resume it with groups({count})")))
    }
}

fn cannot_look(path: &Path, error: &std::io::Error) -> OpenError {
    OpenError::Settings(format!("cannot look for {}: {error}", path.display()))
}

/// Gives a file up: a new one is removed. Returns the error if there was none.
fn discard(
    opened: Result<SeriesWriter, OpenError>,
    own: &dyn Communicator,
    storage: &dyn Storage,
    path: &Path,
) -> Option<OpenError> {
    match opened {
        Err(error) => Some(error),
        Ok(writer) => {
            let is_new = writer.epoch() == 1;
            drop(writer);
            if is_new && own.rank() == 0 {
                // An empty file in the place of a run that never began would only be in the way.
                let _ = storage.remove(path);
            }
            None
        }
    }
}

impl Group {
    /// Collective over all groups: one verdict; a message says which group it comes from.
    fn verdict(&self, outcome: Result<(), String>) -> Result<Result<(), Failure>, OpenError> {
        let outcome = outcome.map_err(|message| (0, format!("group {}: {message}", self.index)));
        Ok(agree(&*self.world, outcome, &mut [])?)
    }

    /// On rank 0: writes the master of opened files.
    fn show(&self, existing: Existing, storage: &dyn Storage, stale: &[PathBuf]) -> Result<(), OpenError> {
        if existing == Existing::Refuse
            && storage.exists(&self.master).map_err(|error| cannot_look(&self.master, &error))?
        {
            return Err(CreateError::Exists { path: self.master.clone() }.into());
        }
        write_master(&self.master, &self.files)?;
        for path in stale {
            // The new master does not list it; that it stays is no reason to fail.
            let _ = storage.remove(path);
        }
        Ok(())
    }

    /// Collective over all groups: one verdict on their closes, and the master of what they have sealed.
    pub(crate) fn close(mut self, closed: Result<Statistics, FlushError>) -> Result<Statistics, FlushError> {
        let outcome = closed.as_ref().map(|_| ()).map_err(|error| (0, format!("group {}: {error}", self.index)));
        let verdict = agree(&*self.world, outcome, &mut []);
        self.settled = true;
        let statistics = closed?;
        if let Err(failure) = verdict? {
            return Err(FlushError::Elsewhere { rank: failure.rank, message: failure.message });
        }
        let written = if self.world.rank() == 0 { write_master(&self.master, &self.files).map(drop) } else { Ok(()) };
        let outcome = written.as_ref().map(|_| ()).map_err(|error| (0, error.to_string()));
        let verdict = agree(&*self.world, outcome, &mut [])?;
        written?;
        match verdict {
            Ok(()) => Ok(statistics),
            Err(failure) => Err(FlushError::Elsewhere { rank: failure.rank, message: failure.message }),
        }
    }
}

impl Drop for Group {
    /// Other groups would wait for this one at the close.
    fn drop(&mut self) {
        if !self.settled {
            self.world.fail(&format!("group {} was given up before it was closed", self.index));
        }
    }
}
