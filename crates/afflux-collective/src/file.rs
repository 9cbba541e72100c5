//! The collective file: how it comes to be, and its calls.
//!
//! Answers for: that all ranks leave a call with the same verdict, and that a file which failed refuses further work
//! ([`access`]). Leaves the moving of bytes to `transfer` (independent) and `two_phase`.

mod access;
mod pending;

use std::cell::{Cell, OnceCell, RefCell};
use std::hash::{Hash, Hasher};
use std::io;
use std::path::Path as FilePath;
use std::sync::Arc;

use afflux_comm::agree::agree;
use afflux_comm::{Communicator, Reduce};
use afflux_plan::{AggregatorLayout, Extents, FileTraits};
use afflux_storage::{OpenMode, Storage, StorageFile};

use crate::error::{LocalFailure, from_verdict};
use crate::memory::{Source, Target};
use crate::node::Node;
use crate::survey::FILE_WORDS;
use crate::two_phase::Own;
use crate::{
    CollectiveError, HintFacts, HintReport, Hints, Holes, IoOperation, Part, ReadOptions, ReadReport, Toggle,
    WriteOptions, WriteReport, transfer, two_phase,
};
use access::{Chosen, Request};
use pending::Lanes;

pub use pending::{IN_FLIGHT_MAX, PendingAccess};

/// One shared file, accessed by all ranks of a communicator together. A handle belongs to one thread.
pub struct CollectiveFile {
    comm: Box<dyn Communicator>,
    file: Arc<dyn StorageFile>,
    hints: Hints,
    /// Who aggregates as far as the hints say; until the first survey.
    first_layout: AggregatorLayout,
    /// What all ranks know of the file, from the first survey on.
    settled: OnceCell<Settled>,
    /// What rank 0 says of the file.
    file_words: OnceCell<[u64; FILE_WORDS]>,
    existed: bool,
    /// Collective buffers, from the first access that needs them on.
    node: OnceCell<Node>,
    /// Where messages of other nodes arrive, kept from call to call: touching fresh memory costs as much as copying into it.
    messages: RefCell<Vec<u8>>,
    calls: Cell<u64>,
    failed: RefCell<Option<Box<CollectiveError>>>,
    /// For accesses under way.
    lanes: RefCell<Lanes>,
}

/// What all ranks know alike of the file, and what follows.
struct Settled {
    traits: FileTraits,
    existed: bool,
    layout: AggregatorLayout,
}

impl CollectiveFile {
    /// Collective: `file` is this rank's own handle on the shared file; `hints` are the same on all ranks.
    ///
    /// # Errors
    /// [`CollectiveError::Disagreement`] if the hints differ, [`CollectiveError::Comm`].
    pub fn new(comm: &dyn Communicator, file: Arc<dyn StorageFile>, hints: Hints) -> Result<Self, CollectiveError> {
        let comm = comm.duplicate()?;
        let hash = hash_of(&hints);
        let mut elements = [Reduce::min(hash), Reduce::max(hash)];
        comm.all_reduce(&mut elements)?;
        if elements[0].value != elements[1].value {
            return Err(CollectiveError::Disagreement { call: 0, what: "the hints" });
        }
        Ok(Self::over(comm, file, hints))
    }

    /// Collective: opens the file at `path`, or creates it, striped as the hints ask. An existing file keeps its stripes, and the
    /// site's default stands where nothing is asked; [`CollectiveFile::hints`] says what took effect.
    ///
    /// # Errors
    /// The same on all ranks: [`CollectiveError::Io`] of the lowest rank that cannot open the file,
    /// [`CollectiveError::Disagreement`] if the hints differ; [`CollectiveError::Comm`].
    pub fn open(
        comm: &dyn Communicator,
        storage: &dyn Storage,
        path: &FilePath,
        mode: OpenMode,
        hints: Hints,
    ) -> Result<Self, CollectiveError> {
        let opened = |file: io::Result<Arc<dyn StorageFile>>| {
            file.map_err(|error| LocalFailure::Io { operation: IoOperation::Open, offset: 0, length_bytes: 0, error })
        };
        let creates = mode == OpenMode::CreateNew;
        // Rank 0 alone creates; the others open what it has made.
        let mut mine = match (comm.rank(), creates) {
            (0, true) => opened(storage.create_striped(path, &hints.striping_request())).map(Some),
            (_, true) => Ok(None),
            (_, false) => opened(storage.open(path, mode)).map(Some),
        };
        if creates {
            agreed(comm, mine.as_ref().err().map(LocalFailure::to_verdict))?;
            if comm.rank() > 0 {
                mine = opened(storage.open(path, OpenMode::ReadWrite)).map(Some);
            }
        }
        agreed(comm, mine.as_ref().err().map(LocalFailure::to_verdict))?;
        let file = mine.ok().flatten().expect("all ranks have opened it");
        let mut this = Self::new(comm, file, hints)?;
        this.existed = !creates;
        Ok(this)
    }

    /// As [`CollectiveFile::new`] over a communicator that is given up to it, without a message: for a caller who has
    /// compared the hints. Ranks whose hints differ all the same learn of it from the verdict of the first access.
    #[must_use]
    pub fn over(comm: Box<dyn Communicator>, file: Arc<dyn StorageFile>, hints: Hints) -> Self {
        let first_layout = hints.layout(&comm.nodes().node_of_rank, None);
        Self {
            comm,
            file,
            hints,
            first_layout,
            settled: OnceCell::new(),
            file_words: OnceCell::new(),
            existed: true,
            node: OnceCell::new(),
            messages: RefCell::default(),
            calls: Cell::new(0),
            failed: RefCell::new(None),
            lanes: RefCell::default(),
        }
    }

    /// The communicator of this file's accesses: between them it is free for the owner's own collective calls.
    #[must_use]
    pub fn communicator(&self) -> &dyn Communicator {
        &*self.comm
    }

    /// Each hint as it was asked for and as it took effect. What depends on the file (stripes, and the aggregators for them) is
    /// known from the first access on that needs an agreement.
    #[must_use]
    pub fn hints(&self) -> Vec<HintReport> {
        let unsettled = (FileTraits::default(), self.existed);
        let (file, existed) = self.settled.get().map_or(unsettled, |settled| (settled.traits, settled.existed));
        let window_bytes = self.window_bytes().get();
        self.hints.report(&HintFacts {
            aggregator_count: self.layout().count(),
            window_bytes,
            buffer_bytes: window_bytes * self.hints.buffer_count.get(),
            file,
            existed,
            throttled: self.is_throttled() && self.hints.collective_write != Toggle::Disable,
        })
    }

    /// Which ranks aggregate: from the first access on that needs an agreement also by what the file is.
    #[must_use]
    pub fn layout(&self) -> &AggregatorLayout {
        self.settled.get().map_or(&self.first_layout, |settled| &settled.layout)
    }

    /// Collective: writes the concatenation of `data` to the bytes that `extents` describe, in their order. The lengths of
    /// the slices need not match those of the pieces. A rank may have nothing to write. No byte outside the extents
    /// changes (but see [`Holes::Fill`](crate::Holes::Fill)).
    ///
    /// # Errors
    /// The same on all ranks, for the lowest rank that failed: [`CollectiveError::Io`], after which the file refuses work;
    /// [`CollectiveError::Overlap`] when two ranks write one byte (found in two-phase writes only: independent writes
    /// leave the byte with either rank's value); [`CollectiveError::Caller`], [`CollectiveError::Arguments`],
    /// [`CollectiveError::Disagreement`], [`CollectiveError::Failed`]. Only [`CollectiveError::Comm`] may differ.
    pub fn write_all(
        &self,
        extents: &Extents,
        data: &[&[u8]],
        options: &WriteOptions,
        part: Part<'_>,
    ) -> Result<WriteReport, CollectiveError> {
        self.write_source(extents, &Source::slices(data), Ok(()), options, part)
    }

    /// Collective: as [`CollectiveFile::write_all`], from the bytes of `base` that `layout` describes, in its order: for
    /// memory with regular gaps, which needs no list of its pieces.
    ///
    /// # Errors
    /// As [`CollectiveFile::write_all`]; a layout that leaves `base` is an [`CollectiveError::Arguments`].
    pub fn write_all_from(
        &self,
        extents: &Extents,
        base: &[u8],
        layout: &Extents,
        options: &WriteOptions,
        part: Part<'_>,
    ) -> Result<WriteReport, CollectiveError> {
        let fits = fits(layout, base.len());
        let nothing = Extents::new();
        let layout = if fits.is_ok() { layout } else { &nothing };
        self.write_source(extents, &Source::layout(base, layout), fits, options, part)
    }

    fn write_source(
        &self,
        extents: &Extents,
        source: &Source<'_>,
        fits: Result<(), String>,
        options: &WriteOptions,
        part: Part<'_>,
    ) -> Result<WriteReport, CollectiveError> {
        let request = Request {
            operation: IoOperation::Write,
            path: options.path,
            options_hash: hash_of(&("write", options)),
            extents,
            memory: fits.map(|()| source.bytes()),
        };
        self.access(&request, part, |chosen, work| match chosen {
            Chosen::Independent => Ok(transfer::write_own(&*self.file, extents, source, work)),
            Chosen::TwoPhase { engine, requests } => {
                let own = Own::new(extents, engine);
                let messages = &mut self.messages.borrow_mut();
                let holes = if self.hints.fill_holes == Toggle::Disable { Holes::Forbidden } else { options.holes };
                two_phase::write(engine, requests, &own, source, holes, messages, work)
            }
        })
    }

    /// Collective: reads the bytes that `extents` describe, in their order, into the concatenation of `buffers`. Several
    /// ranks may read the same bytes. After an error what is in the buffers is undefined.
    ///
    /// # Errors
    /// As [`CollectiveFile::write_all`]; bytes past the end of the file are an [`CollectiveError::Io`] of the kind
    /// `UnexpectedEof`.
    pub fn read_all(
        &self,
        extents: &Extents,
        buffers: &mut [&mut [u8]],
        options: &ReadOptions,
        part: Part<'_>,
    ) -> Result<ReadReport, CollectiveError> {
        self.read_target(extents, &mut Target::slices(buffers), Ok(()), options, part)
    }

    /// Collective: as [`CollectiveFile::read_all`], into the bytes of `base` that `layout` describes, in its order.
    ///
    /// # Errors
    /// As [`CollectiveFile::read_all`]; a layout that leaves `base` is an [`CollectiveError::Arguments`].
    pub fn read_all_into(
        &self,
        extents: &Extents,
        base: &mut [u8],
        layout: &Extents,
        options: &ReadOptions,
        part: Part<'_>,
    ) -> Result<ReadReport, CollectiveError> {
        let fits = fits(layout, base.len());
        let nothing = Extents::new();
        let layout = if fits.is_ok() { layout } else { &nothing };
        self.read_target(extents, &mut Target::layout(base, layout), fits, options, part)
    }

    fn read_target(
        &self,
        extents: &Extents,
        target: &mut Target<'_, '_>,
        fits: Result<(), String>,
        options: &ReadOptions,
        part: Part<'_>,
    ) -> Result<ReadReport, CollectiveError> {
        let request = Request {
            operation: IoOperation::Read,
            path: options.path,
            options_hash: hash_of(&("read", options)),
            extents,
            memory: fits.map(|()| target.bytes()),
        };
        self.access(&request, part, |chosen, work| match chosen {
            Chosen::Independent if self.hints.sieve_reads == Toggle::Disable => {
                Ok(transfer::read_own(&*self.file, extents, target, work))
            }
            Chosen::Independent => {
                let buffer_bytes = self.hints.sieve_buffer_bytes.get();
                Ok(transfer::read_own_sieved(&*self.file, extents, target, buffer_bytes, work))
            }
            Chosen::TwoPhase { engine, requests } => {
                let own = Own::new(extents, engine);
                let gap_bytes_max = match self.hints.sieve_reads {
                    Toggle::Disable => 0,
                    Toggle::Enable | Toggle::Automatic => transfer::SIEVE_GAP_BYTES_MAX,
                };
                let messages = &mut self.messages.borrow_mut();
                two_phase::read(engine, requests, &own, target, gap_bytes_max, messages, work)
            }
        })
    }
}

/// Collective: success where no rank has failed.
fn agreed(comm: &dyn Communicator, failed: Option<(u32, String)>) -> Result<(), CollectiveError> {
    agree(comm, failed.map_or(Ok(()), Err), &mut [])?.map_err(|failure| from_verdict(&failure))
}

/// Whether a layout of memory ends within it.
fn fits(layout: &Extents, bytes: usize) -> Result<(), String> {
    match layout.span() {
        Some((_, end)) if end > bytes as u64 => Err(format!("the layout ends at byte {end} of a memory of {bytes}")),
        _ => Ok(()),
    }
}

/// A hash that is the same in every process of one program: FNV-1a, because the standard hasher is free to differ.
fn hash_of(value: &impl Hash) -> u64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for &byte in bytes {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
    }
    let mut hasher = Fnv(0xCBF2_9CE4_8422_2325);
    value.hash(&mut hasher);
    hasher.finish()
}
