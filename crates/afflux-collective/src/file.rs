//! The collective file: agreement before and after an access, and the choice of its path.
//!
//! Answers for: that all ranks leave a call with the same verdict, and that a file which failed refuses further work.
//! Leaves the moving of bytes to `transfer` (independent) and `two_phase`.

use std::cell::{Cell, OnceCell, RefCell};
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::Arc;

use afflux_comm::agree::agree;
use afflux_comm::{Communicator, Reduce};
use afflux_plan::{
    AccessSummary, AggregatorLayout, Explanation, Extents, FileDomains, FileTraits, INDEPENDENT_READ_PIECE_BYTES_MIN,
    INDEPENDENT_WRITE_PIECE_BYTES_MIN, LayoutRequest, Locks, Method, Partition, Rank, choose_method,
};
use afflux_storage::StorageFile;

use crate::error::{LocalFailure, from_verdict};
use crate::memory::{Source, Target, in_memory};
use crate::node::Node;
use crate::survey::{Statement, Survey, survey};
use crate::two_phase::{Engine, Own, Requests};
use crate::{
    AccessReport, CollectiveError, HintReport, Hints, IoOperation, Part, Path, ReadOptions, ReadReport, Toggle, Work,
    WriteOptions, WriteReport, transfer, two_phase,
};

/// Rounds that are allowed beyond those a dense access of the same payload takes, and how many times those: an access
/// that is mostly holes would pass through empty windows without end.
const SPARSE_ROUNDS_MAX: u64 = 64;

/// The longest window: its bytes are counted in 32 bits.
const WINDOW_BYTES_MAX: u64 = 1 << 30;

/// The longest window where nothing of the file system asks for long writes: it stays in a core's cache between the ranks that
/// fill it and the one that writes it, and a write of it is long enough that calls do not count. (Measured with 4 MPI ranks on 2
/// cores, 16 MiB in regions of 8 bytes, time on cores of a write to a new file in memory: 1 MiB windows 21 ms, 512 KiB 13 ms,
/// 256 KiB 12 ms, 128 KiB 14 ms. Every rank has to map the pages of every window, too.)
const WINDOW_BYTES_MAX_ON_ONE_NODE: u64 = 256 << 10;

/// One shared file, accessed by all ranks of a communicator together. A handle belongs to one thread.
pub struct CollectiveFile {
    comm: Box<dyn Communicator>,
    file: Arc<dyn StorageFile>,
    hints: Hints,
    layout: AggregatorLayout,
    /// Collective buffers, from the first access that needs them on.
    node: OnceCell<Node>,
    /// Where messages of other nodes arrive, kept from call to call: touching fresh memory costs as much as copying into it.
    messages: RefCell<Vec<u8>>,
    calls: Cell<u64>,
    failed: RefCell<Option<Box<CollectiveError>>>,
}

/// One call, as this rank makes it.
struct Request<'a> {
    operation: IoOperation,
    path: Path,
    /// Stands for what must be equal on all ranks.
    options_hash: u64,
    extents: &'a Extents,
    /// Bytes of the rank's memory, or why it is of no use.
    memory: Result<u64, String>,
}

/// How one access is made: the same on all ranks.
struct Decision {
    explanation: Explanation,
    /// Some rank failed before the file was touched: go straight to the verdict.
    abandoned: bool,
    /// What every rank accesses, where all know it.
    known: Option<Vec<(Rank, Extents)>>,
    description_bytes: u64,
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

    /// As [`CollectiveFile::new`] over a communicator that is given up to it, without a message: for a caller who has
    /// compared the hints. Ranks whose hints differ all the same learn of it from the verdict of the first access.
    #[must_use]
    pub fn over(comm: Box<dyn Communicator>, file: Arc<dyn StorageFile>, hints: Hints) -> Self {
        let layout = AggregatorLayout::choose(&LayoutRequest {
            node_of_rank: &comm.nodes().node_of_rank,
            count: hints.aggregator_count,
            ..LayoutRequest::default()
        });
        Self {
            comm,
            file,
            hints,
            layout,
            node: OnceCell::new(),
            messages: RefCell::default(),
            calls: Cell::new(0),
            failed: RefCell::new(None),
        }
    }

    /// The communicator of this file's accesses: between them it is free for the owner's own collective calls.
    #[must_use]
    pub fn communicator(&self) -> &dyn Communicator {
        &*self.comm
    }

    /// Each hint as it was asked for and as it took effect.
    #[must_use]
    pub fn hints(&self) -> Vec<HintReport> {
        self.hints.report(self.layout.count())
    }

    /// Which ranks aggregate.
    #[must_use]
    pub fn layout(&self) -> &AggregatorLayout {
        &self.layout
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
                two_phase::write(engine, requests, &own, source, options.holes, messages, work)
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
            Chosen::Independent => Ok(transfer::read_own(&*self.file, extents, target, work)),
            Chosen::TwoPhase { engine, requests } => {
                let own = Own::new(extents, engine);
                two_phase::read(engine, requests, &own, target, &mut self.messages.borrow_mut(), work)
            }
        })
    }

    /// What reads and writes have in common: checks, decision, the access itself, verdict.
    fn access(
        &self,
        request: &Request<'_>,
        part: Part<'_>,
        carry_out: impl FnOnce(Chosen<'_, '_>, &mut Work) -> Result<Result<(), LocalFailure>, CollectiveError>,
    ) -> Result<AccessReport, CollectiveError> {
        if let Some(cause) = &*self.failed.borrow() {
            return Err(CollectiveError::Failed { cause: cause.clone() });
        }
        let call = self.calls.get() + 1;
        self.calls.set(call);
        let call_hash = hash_of(&(call, request.options_hash, part.elements.len(), &self.hints));
        let mut outcome = part.outcome.map_err(|(code, message)| LocalFailure::Caller { code, message });
        if outcome.is_ok() {
            outcome = match &request.memory {
                Ok(bytes) if *bytes == request.extents.bytes() => Ok(()),
                Ok(bytes) => {
                    Err(format!("the extents describe {} bytes, the memory holds {bytes}", request.extents.bytes()))
                }
                Err(message) => Err(message.clone()),
            }
            .map_err(LocalFailure::Arguments);
        }
        let mut work = Work::default();
        let result: Result<AccessReport, CollectiveError> = (|| {
            let decision = self.decide(request, outcome.is_err(), call_hash)?;
            work.description_bytes += decision.description_bytes;
            if !decision.abandoned {
                outcome = match &decision.explanation.domains {
                    Some((domains, _)) => {
                        self.two_phase(request, domains, decision.known, call, &mut work, carry_out)?
                    }
                    None if outcome.is_ok() => carry_out(Chosen::Independent, &mut work)?,
                    None => outcome,
                };
            }
            self.verdict(outcome, call_hash, part.elements)?;
            Ok(AccessReport { explanation: decision.explanation, work })
        })();
        if let Err(error) = &result
            && error.is_final()
        {
            *self.failed.borrow_mut() = Some(Box::new(error.clone()));
        }
        result
    }

    /// Collective: an access through aggregators.
    fn two_phase(
        &self,
        request: &Request<'_>,
        domains: &FileDomains,
        known: Option<Vec<(Rank, Extents)>>,
        call: u64,
        work: &mut Work,
        carry_out: impl FnOnce(Chosen<'_, '_>, &mut Work) -> Result<Result<(), LocalFailure>, CollectiveError>,
    ) -> Result<Result<(), LocalFailure>, CollectiveError> {
        let node = self.node()?;
        assert!(domains.window_bytes_max() <= node.windows.window_bytes() as u64, "a window fits its buffer");
        let engine = Engine {
            comm: &*self.comm,
            file: &*self.file,
            layout: &self.layout,
            domains,
            node,
            call,
            first_window: node.windows.first_number(),
        };
        let requests = match known {
            Some(known) => Requests::Known(known),
            None => engine.ask(request.extents, work)?,
        };
        if engine.own_aggregator().is_some() {
            work.buffer_bytes_peak = node.windows.slot_bytes();
        }
        let outcome = carry_out(Chosen::TwoPhase { engine: &engine, requests: &requests }, work)?;
        node.windows.pass(domains.round_count());
        Ok(outcome)
    }

    /// Collective when it is called first: the collective buffers.
    fn node(&self) -> Result<&Node, CollectiveError> {
        if let Some(node) = self.node.get() {
            return Ok(node);
        }
        let depth = usize::try_from(self.hints.buffer_count.get()).unwrap_or(usize::MAX);
        let node = Node::share(&*self.comm, &self.layout, depth, in_memory(self.window_bytes().get()))?;
        Ok(self.node.get_or_init(|| node))
    }

    /// The longest window of an aggregator.
    fn window_bytes(&self) -> NonZeroU64 {
        let share = self.hints.collective_buffer_bytes.get() / self.hints.buffer_count;
        let max = match (self.comm.nodes().node_count, self.hints.striping_unit_bytes) {
            (1, None) => WINDOW_BYTES_MAX_ON_ONE_NODE,
            _ => WINDOW_BYTES_MAX,
        };
        NonZeroU64::new(share.min(max)).unwrap_or(NonZeroU64::MIN)
    }

    /// What is known of the file, alike on all ranks.
    fn traits(&self) -> FileTraits {
        let locks = if self.comm.nodes().node_count == 1 { Locks::Free } else { Locks::Unknown };
        FileTraits { locks, stripe_bytes: self.hints.striping_unit_bytes, stripe_count: None }
    }

    /// Collective, unless the path asked for needs no agreement.
    fn decide(&self, request: &Request<'_>, failed: bool, call_hash: u64) -> Result<Decision, CollectiveError> {
        let (toggle, piece_bytes_min) = match request.operation {
            IoOperation::Read => (self.hints.collective_read, INDEPENDENT_READ_PIECE_BYTES_MIN),
            IoOperation::Write => (self.hints.collective_write, INDEPENDENT_WRITE_PIECE_BYTES_MIN),
        };
        let independent = match (request.path, toggle) {
            (Path::Independent, _) => Some("asked for"),
            (Path::Auto, Toggle::Disable) => Some("the hints disable collective buffering"),
            (Path::Auto, Toggle::Automatic) if self.comm.size() == 1 => Some("there is one rank"),
            _ => None,
        };
        if let Some(reason) = independent {
            let explanation = Explanation::new((Method::Independent, reason), None, None, &self.layout);
            return Ok(Decision { explanation, abandoned: false, known: None, description_bytes: 0 });
        }
        let statement = Statement { extents: request.extents, failed, call_hash, describe: true };
        let Survey { access, failed_ranks, call_hashes, known, description_bytes } = survey(&*self.comm, &statement)?;
        self.check_agreement(call_hashes.0, call_hashes.1)?;
        let method = match (request.path, toggle) {
            (Path::TwoPhase, _) => (Method::TwoPhase, "asked for"),
            (_, Toggle::Enable) => (Method::TwoPhase, "the hints enable collective buffering"),
            _ => choose_method(&access, piece_bytes_min),
        };
        let (method, domains) = match method.0 {
            Method::TwoPhase => match self.domains(&access, known.is_some())? {
                Some(domains) => (method, Some(domains)),
                None => ((Method::Independent, "the access is too sparse for bounded rounds"), None),
            },
            Method::Independent => (method, None),
        };
        let explanation = Explanation::new(method, Some(access), domains, &self.layout);
        Ok(Decision { explanation, abandoned: failed_ranks > 0, known, description_bytes })
    }

    /// The file domains of an access and the reason for them; `None` where rounds would pass through endless holes.
    ///
    /// Where the ranks of a single node know all, each of them writes and reads windows, whosever they are: then one domain, whose
    /// windows follow one another, is as quick as several, and its buffers are fewer pages to map and cache.
    fn domains(
        &self,
        access: &AccessSummary,
        known: bool,
    ) -> Result<Option<(FileDomains, &'static str)>, CollectiveError> {
        let free = self.hints.aggregator_count.is_none() && self.traits().stripe_bytes.is_none();
        let by_all = known && free && self.node()?.has_all();
        let count = if by_all { 1 } else { self.layout.count() };
        let (partition, reason) = Partition::choose(access.range, count, self.hints.partition, &self.traits());
        let window_bytes = self.window_bytes();
        let domains = FileDomains::new(access.range, count, partition, window_bytes);
        let dense_rounds = access.bytes / window_bytes + 1;
        let bounded = domains.round_count() <= dense_rounds.saturating_mul(SPARSE_ROUNDS_MAX);
        Ok(bounded.then_some((domains, reason)))
    }

    /// Collective: the verdict, with the caller's elements.
    fn verdict(
        &self,
        outcome: Result<(), LocalFailure>,
        call_hash: u64,
        elements: &mut [Reduce],
    ) -> Result<(), CollectiveError> {
        let mut all = Vec::with_capacity(elements.len() + 2);
        all.extend_from_slice(elements);
        all.extend([Reduce::min(call_hash), Reduce::max(call_hash)]);
        let agreed = agree(&*self.comm, outcome.map_err(|failure| failure.to_verdict()), &mut all)?;
        let (callers, hashes) = all.split_at(elements.len());
        elements.copy_from_slice(callers);
        self.check_agreement(hashes[0].value, hashes[1].value)?;
        agreed.map_err(|failure| from_verdict(&failure))
    }

    fn check_agreement(&self, hash_min: u64, hash_max: u64) -> Result<(), CollectiveError> {
        if hash_min == hash_max {
            return Ok(());
        }
        let what = "the hints, the kind of access, its options and the elements of the verdict";
        Err(CollectiveError::Disagreement { call: self.calls.get(), what })
    }
}

/// What an access is carried out with.
enum Chosen<'e, 'f> {
    Independent,
    TwoPhase { engine: &'e Engine<'f>, requests: &'e Requests },
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
