//! One access: agreement before and after it, and the choice of its path.

use std::num::NonZeroU64;

use afflux_comm::Reduce;
use afflux_comm::agree::agree;
use afflux_plan::{AccessSummary, Explanation, Extents, FileDomains, FileTraits, Method, Rank, Throttle};

use super::{CollectiveFile, Settled, hash_of};
use crate::choices::Choices;
use crate::error::{LocalFailure, from_verdict};
use crate::memory::in_memory;
use crate::node::Node;
use crate::survey::{FILE_WORDS, Statement, Survey, survey};
use crate::traits::{traits_of, words_of};
use crate::two_phase::{Engine, Requests};
use crate::windows::Shape;
use crate::{AccessReport, CollectiveError, IoOperation, Part, Path, Toggle, Work};

/// One call, as this rank makes it.
pub(super) struct Request<'a> {
    pub(super) operation: IoOperation,
    pub(super) path: Path,
    /// Stands for what must be equal on all ranks.
    pub(super) options_hash: u64,
    pub(super) extents: &'a Extents,
    /// Bytes of the rank's memory, or why it is of no use.
    pub(super) memory: Result<u64, String>,
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
    /// What reads and writes have in common: checks, decision, the access itself, verdict.
    pub(super) fn access(
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
            layout: self.layout(),
            domains,
            node,
            call,
            first_window: node.windows.first_number(),
            throttle: self.throttle(domains, node),
            step_aggregators: self.step_aggregators(domains),
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
        let rings = match (self.hints.requests_per_target, self.traits().stripe_count) {
            (Some(requests), Some(targets)) => in_memory(requests.get().saturating_mul(targets.get())),
            _ => 0,
        };
        let shape = Shape {
            slots: 0,
            depth: in_memory(self.hints.buffer_count.get()),
            window_bytes: in_memory(self.window_bytes().get()),
            rings,
        };
        let may_share = self.hints.node_memory != Toggle::Disable;
        let node = Node::share(&*self.comm, self.layout(), shape, may_share)?;
        Ok(self.node.get_or_init(|| node))
    }

    /// What is chosen for this file, as far as it is known.
    pub(super) fn choices(&self) -> Choices<'_> {
        Choices {
            hints: &self.hints,
            file: self.traits(),
            rank_count: self.comm.size(),
            node_count: self.comm.nodes().node_count,
        }
    }

    /// The longest window of an aggregator.
    pub(super) fn window_bytes(&self) -> NonZeroU64 {
        self.choices().window_bytes()
    }

    /// What is known of the file, alike on all ranks.
    fn traits(&self) -> FileTraits {
        self.settled.get().map_or_else(FileTraits::default, |settled| settled.traits)
    }

    /// Takes what rank 0 said of the file in the first survey; later it is known.
    pub(super) fn settle(&self, words: [u64; FILE_WORDS]) {
        self.settled.get_or_init(|| {
            let (traits, existed) = traits_of(words, self.comm.nodes().node_count, self.hints.striping_unit_bytes);
            let targets = traits.stripe_count.map(|count| in_memory(count.get()));
            Settled { traits, existed, layout: self.hints.layout(&self.comm.nodes().node_of_rank, targets) }
        });
    }

    /// Whether the bound on requests at a storage target, if there is one, holds for accesses through aggregators.
    pub(super) fn is_throttled(&self) -> bool {
        self.choices().is_throttled()
    }

    /// The turns that aggregators take at storage targets, where requests are bounded and a ring is within a node.
    fn throttle(&self, domains: &FileDomains, node: &Node) -> Option<Throttle> {
        let layout = self.layout();
        self.choices().throttle(domains, |aggregator| node.number_of(layout.rank(aggregator)))
    }

    /// What rank 0 says of the file; other ranks say nothing.
    pub(super) fn file_words(&self) -> [u64; FILE_WORDS] {
        match self.comm.rank() {
            0 => *self.file_words.get_or_init(|| words_of(&*self.file, self.existed)),
            _ => [0; FILE_WORDS],
        }
    }

    /// Why an access needs no agreement, if it is so.
    pub(super) fn independent_reason(&self, operation: IoOperation, path: Path) -> Option<&'static str> {
        self.choices().independent_reason(operation, path)
    }

    /// How an access on which the ranks have agreed is made, and why.
    pub(super) fn method_for(
        &self,
        operation: IoOperation,
        path: Path,
        access: &AccessSummary,
    ) -> (Method, &'static str) {
        self.choices().method(operation, path, access)
    }

    /// Collective, unless the path asked for needs no agreement.
    fn decide(&self, request: &Request<'_>, failed: bool, call_hash: u64) -> Result<Decision, CollectiveError> {
        let independent = self.independent_reason(request.operation, request.path);
        if let Some(reason) = independent {
            let explanation = Explanation::new((Method::Independent, reason), None, None, self.layout());
            return Ok(Decision { explanation, abandoned: false, known: None, description_bytes: 0 });
        }
        let file = self.file_words();
        let statement = Statement { extents: request.extents, failed, call_hash, file };
        let Survey { access, failed_ranks, call_hashes, known, file, description_bytes } =
            survey(&*self.comm, &statement)?;
        self.check_agreement(call_hashes.0, call_hashes.1)?;
        self.settle(file);
        let method = self.method_for(request.operation, request.path, &access);
        let domains = match method.0 {
            Method::TwoPhase => Some(self.domains(&access, known.is_some())?),
            Method::Independent => None,
        };
        let (method, domains) = self.choices().bounded(method, &access, domains);
        let explanation = Explanation::new(method, Some(access), domains, self.layout());
        Ok(Decision { explanation, abandoned: failed_ranks > 0, known, description_bytes })
    }

    /// The file domains of an access and the reason for them.
    ///
    /// Where the ranks of a single node know all, each of them writes and reads windows, whosever they are: then one domain, whose
    /// windows follow one another, is as quick as several, and its buffers are fewer pages to map and cache.
    fn domains(&self, access: &AccessSummary, known: bool) -> Result<(FileDomains, &'static str), CollectiveError> {
        let free = self.hints.aggregator_count.is_none() && self.traits().stripe_bytes.is_none();
        let layout = self.layout();
        let by_all = known && free && self.node()?.has_all();
        let count = if by_all { 1 } else { layout.count() };
        if !self.is_throttled() {
            return Ok(self.choices().cut(access.range, count, |_| 0));
        }
        let node = self.node()?;
        Ok(self.choices().cut(access.range, count, |aggregator| node.number_of(layout.rank(aggregator))))
    }

    /// How many aggregators exchange with other nodes at a time, at least one: as asked, else those of one group of the throttle.
    fn step_aggregators(&self, domains: &FileDomains) -> usize {
        let group = || {
            let (requests, targets) = self.hints.requests_per_target.zip(self.traits().stripe_count)?;
            self.is_throttled().then(|| in_memory(requests.get().saturating_mul(targets.get())))
        };
        let all = domains.aggregator_count();
        self.hints.step_aggregators.or_else(group).unwrap_or(all).clamp(1, all)
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
pub(super) enum Chosen<'e, 'f> {
    Independent,
    TwoPhase { engine: &'e Engine<'f>, requests: &'e Requests },
}
