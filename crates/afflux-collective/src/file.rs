//! The collective file: agreement before and after an access, and the choice of its path.
//!
//! Answers for: that all ranks leave a call with the same verdict, and that a file which failed refuses further work.
//! Leaves the moving of bytes to `transfer` (independent) and `two_phase`.

use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::Arc;

use afflux_comm::agree::agree;
use afflux_comm::{Communicator, Reduce};
use afflux_plan::{
    AccessSummary, AggregatorLayout, ByteRange, Explanation, Extents, FileDomains, FileTraits,
    INDEPENDENT_READ_PIECE_BYTES_MIN, INDEPENDENT_WRITE_PIECE_BYTES_MIN, Method, Partition, PartitionMethod,
    choose_method,
};
use afflux_storage::StorageFile;

use crate::error::{LocalFailure, from_verdict};
use crate::memory::Payload;
use crate::two_phase::{Buffers, Engine};
use crate::{
    AccessReport, CollectiveError, HintReport, Hints, IoOperation, Part, Path, ReadOptions, ReadReport, Toggle, Work,
    WriteOptions, WriteReport, transfer, two_phase,
};

/// Rounds that are allowed beyond those a dense access of the same payload takes, and how many times those: an access
/// that is mostly holes would pass through empty windows without end.
const SPARSE_ROUNDS_MAX: u64 = 64;

/// One shared file, accessed by all ranks of a communicator together. A handle belongs to one thread.
pub struct CollectiveFile {
    comm: Box<dyn Communicator>,
    file: Arc<dyn StorageFile>,
    hints: Hints,
    layout: AggregatorLayout,
    buffers: RefCell<Buffers>,
    calls: Cell<u64>,
    failed: RefCell<Option<Box<CollectiveError>>>,
}

/// A rank's memory, as far as the ranks must know of it.
#[derive(Clone, Copy)]
struct Memory {
    bytes: u64,
    /// Data that lands in it lands in several places.
    gapped: bool,
}

/// One call, as this rank makes it.
struct Request<'a> {
    operation: IoOperation,
    path: Path,
    /// Stands for what must be equal on all ranks.
    options_hash: u64,
    extents: &'a Extents,
    memory: Memory,
}

/// What the ranks told one another before an access.
struct Survey {
    access: AccessSummary,
    failed_ranks: u64,
    gapped_ranks: u64,
}

/// How one access is made: the same on all ranks.
struct Decision {
    explanation: Explanation,
    /// Some rank failed before the file was touched: go straight to the verdict.
    abandoned: bool,
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
        let layout = AggregatorLayout::choose(&comm.nodes().node_of_rank, hints.aggregator_count);
        Self { comm, file, hints, layout, buffers: RefCell::default(), calls: Cell::new(0), failed: RefCell::new(None) }
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
        let payload = Payload::new(data);
        let request = Request {
            operation: IoOperation::Write,
            path: options.path,
            options_hash: hash_of(&("write", options)),
            extents,
            // The memory of a write is pointed to, however many slices it has.
            memory: Memory { bytes: payload.bytes(), gapped: false },
        };
        self.access(&request, part, |method, work| match method {
            Chosen::Independent => Ok(transfer::write_own(&*self.file, extents, &payload, work)),
            Chosen::TwoPhase { engine, access } => {
                // More bytes than the range holds: some are written twice, and the exchange would only find out
                // later. The requests alone tell which.
                let move_data = access.bytes <= access.range.bytes();
                let buffers = &mut self.buffers.borrow_mut();
                two_phase::write(engine, buffers, extents, &payload, options.holes, move_data, work)
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
        let memory = Memory {
            bytes: buffers.iter().map(|buffer| buffer.len() as u64).sum(),
            gapped: buffers.iter().filter(|buffer| !buffer.is_empty()).count() > 1,
        };
        let request = Request {
            operation: IoOperation::Read,
            path: options.path,
            options_hash: hash_of(&("read", options)),
            extents,
            memory,
        };
        self.access(&request, part, |method, work| match method {
            Chosen::Independent => Ok(transfer::read_own(&*self.file, extents, buffers, work)),
            Chosen::TwoPhase { engine, .. } => {
                two_phase::read(engine, &mut self.buffers.borrow_mut(), extents, buffers, work)
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
        if outcome.is_ok() && request.memory.bytes != request.extents.bytes() {
            outcome = Err(LocalFailure::Arguments(format!(
                "the extents describe {} bytes, the memory holds {}",
                request.extents.bytes(),
                request.memory.bytes
            )));
        }
        let mut work = Work::default();
        let result: Result<AccessReport, CollectiveError> = (|| {
            let decision = self.decide(request, outcome.is_err(), call_hash)?;
            if outcome.is_ok() && !decision.abandoned {
                let explanation = &decision.explanation;
                outcome = match (&explanation.domains, explanation.access) {
                    (Some((domains, _)), Some(access)) => {
                        let (comm, file) = (&*self.comm, &*self.file);
                        let engine = Engine { comm, file, layout: &self.layout, domains };
                        carry_out(Chosen::TwoPhase { engine: &engine, access }, &mut work)?
                    }
                    _ => carry_out(Chosen::Independent, &mut work)?,
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

    /// Collective, unless the path asked for needs no agreement.
    fn decide(&self, request: &Request<'_>, failed: bool, call_hash: u64) -> Result<Decision, CollectiveError> {
        let explain = |method, access, domains| Explanation::new(method, access, domains, &self.layout);
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
            let explanation = explain((Method::Independent, reason), None, None);
            return Ok(Decision { explanation, abandoned: false });
        }
        let survey = self.survey(request, failed, call_hash)?;
        let access = survey.access;
        let mut method = match (request.path, toggle) {
            (Path::TwoPhase, _) => (Method::TwoPhase, "asked for"),
            (_, Toggle::Enable) => (Method::TwoPhase, "the hints enable collective buffering"),
            _ => choose_method(&access, piece_bytes_min),
        };
        let mut domains = None;
        if method.0 == Method::TwoPhase {
            let count = self.layout.count();
            let traits = FileTraits { stripe_bytes: self.hints.striping_unit_bytes, ..FileTraits::default() };
            let (partition, reason) = Partition::choose(access.range, count, PartitionMethod::Automatic, &traits);
            let mut round_bytes = self.hints.collective_buffer_bytes;
            if survey.gapped_ranks > 0 {
                // A rank that reads into gapped memory keeps what comes from all aggregators in one round beside it.
                round_bytes = NonZeroU64::new(round_bytes.get() / count as u64).unwrap_or(NonZeroU64::MIN);
            }
            let candidate = FileDomains::new(access.range, count, partition, round_bytes);
            let dense_rounds = access.bytes / round_bytes + 1;
            if candidate.round_count() > dense_rounds.saturating_mul(SPARSE_ROUNDS_MAX) {
                method = (Method::Independent, "the access is too sparse for bounded rounds");
            } else {
                domains = Some((candidate, reason));
            }
        }
        Ok(Decision { explanation: explain(method, Some(access), domains), abandoned: survey.failed_ranks > 0 })
    }

    /// Collective: one reduction that tells every rank what all access together, and how many ranks failed already.
    fn survey(&self, request: &Request<'_>, failed: bool, call_hash: u64) -> Result<Survey, CollectiveError> {
        let extents = request.extents;
        let span = extents.span();
        let mut elements = [
            Reduce::min(call_hash),
            Reduce::max(call_hash),
            Reduce::sum(u64::from(failed)),
            Reduce::sum(u64::from(request.memory.gapped)),
            Reduce::min(span.map_or(u64::MAX, |(start, _)| start)),
            Reduce::max(span.map_or(0, |(_, end)| end)),
            Reduce::sum(extents.bytes()),
            Reduce::sum(extents.piece_count()),
            Reduce::sum(span.map_or(0, |(start, end)| end - start)),
            Reduce::sum(u64::from(span.is_some())),
        ];
        self.comm.all_reduce(&mut elements)?;
        let [hash_min, hash_max, failed_ranks, gapped_ranks, start, end, bytes, piece_count, span_bytes, active_ranks] =
            elements.map(|element| element.value);
        self.check_agreement(hash_min, hash_max)?;
        let range = if active_ranks == 0 { ByteRange::default() } else { ByteRange::new(start, end) };
        let access = AccessSummary { range, bytes, piece_count, span_bytes, active_ranks };
        Ok(Survey { access, failed_ranks, gapped_ranks })
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
    TwoPhase { engine: &'e Engine<'f>, access: AccessSummary },
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
